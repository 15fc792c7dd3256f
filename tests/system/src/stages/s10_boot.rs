//! The machine comes up, runs a command line, and its outcome reaches the host.

use crate::case::{Case, File, function, several, sh, words};
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use machine::{Options, Via};
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    vec![
        sh("echo", "echo hello").out("hello\n").matrix().placed_thoroughly(),
        sh("status", "exit 42").status(42).matrix().placed_thoroughly(),
        sh("success", "true").placed_thoroughly(),
        sh("failure", "false").status(1).placed_thoroughly(),
        sh("not_found", "no-such-program").status(127).err_has(&["no-such-program"]).placed_thoroughly(),
        sh("not_executable", "./notes")
            .file("notes", "not a program\n")
            .status(126)
            .err_has(&["notes"])
            .placed_thoroughly(),
        words("words_stay_words", &["echo", "a  b", "", "$HOME;c", "\"d\""])
            .out("a  b  $HOME;c \"d\"\n")
            .placed_thoroughly(),
        sh("shell_splits_one_word", "echo a  b 'c  d'").out("a b c  d\n").placed_thoroughly(),
        sh("put", "cat notes").file("notes", "one\ntwo\n").out("one\ntwo\n").placed_thoroughly(),
        sh("put_empty", "cat notes").file("notes", "").placed_thoroughly(),
        sh("binary_clean", "cat bytes").file("bytes", all_bytes()).out(all_bytes()).placed_thoroughly(),
        sh("help", "help").out_has(&["ps", "sections", "acl", "tour"]).placed_thoroughly(),
        sh("cpus", "cpus").cpus(4).out_check(|text| text.lines().count() >= 4).placed_thoroughly(),
        sh("errors_go_apart", "no-such-program; echo after").out("after\n").err_any().placed_thoroughly(),
        sh("icount", "echo up").icount().out("up\n"),
        sh("eight_processors", "echo up").cpus(8).out("up\n").placed_thoroughly(),
        // Threads on all of them, that meet; messages; and a loop that is done by all.
        sh("sixteen_processors", MANY).cpus(16).timeout(300).out_has(&[
            "ok rounds_at_a_barrier",
            "ok questions",
            "ok nobody_else_enters_the_kernel",
            "48 x 48 by 16 threads on 16 processors: ",
        ]),
        sh("thirty_two_processors", MANY).cpus(32).timeout(300).out_has(&[
            "ok rounds_at_a_barrier",
            "ok questions",
            "ok nobody_else_enters_the_kernel",
            "48 x 48 by 16 threads on 32 processors: ",
        ]),
        sh("little_memory", "echo up").mem("128M").out("up\n"),
        sh("much_memory", "echo up").mem("5G").out("up\n"),
        sh("bios", "echo up").via(Via::Bios).out("up\n").placed_thoroughly(),
        sh("uefi", "echo up").via(Via::Uefi).out("up\n").placed_thoroughly(),
        sh("much_output_under_bios", "check as bytes out 3000000").via(Via::Bios).out(counted(3_000_000, 0)),
        sh("much_output_under_uefi", "check as bytes out 3000000").via(Via::Uefi).out(counted(3_000_000, 0)),
        sh("time_limit", "sleep 1000").timeout(5).status(124),
        function("icount_repeats", icount_repeats),
        function("prompt_within_5_s", prompt_within_5_s),
        // Bytes.
        sh("every_byte_on_output", "check as bytes out 65536").out(counted(65536, 0)).matrix().placed_thoroughly(),
        sh("thirty_megabytes", "check as bytes out 31457280").out(counted(30 * MB, 0)).timeout(60).matrix(),
        sh("every_byte_on_errors", "check as bytes err 65536").err(counted(65536, 0xff)).placed_thoroughly(),
        sh("a_megabyte_on_both", "check as bytes both 1048576")
            .out(counted(MB, 0))
            .err(counted(MB, 0xff))
            .placed_thoroughly(),
        sh("put_20_mb", "cat big").file("big", counted(20 * MB, 0x5a)).out(counted(20 * MB, 0x5a)),
        sh("put_with_spaces", "cat 'a file  with spaces'")
            .file("a file  with spaces", "yes\n")
            .out("yes\n")
            .placed_thoroughly(),
        sh("put_under_another_name", "cat /some/where/else; cat some/where/else")
            .file("/some/where/else", "here\n")
            .out("here\nhere\n")
            .placed_thoroughly(),
        function("put_names_a_place", put_names_a_place),
        // Statuses.
        sh("status_of_a_program", "check as status 7").status(7).placed_thoroughly(),
        sh("status_of_a_fault", "crash divide").status(139).err_has(&["division by zero"]).placed_thoroughly(),
        sh("status_of_a_panic", "crash panic").status(101).err_has(&["as asked"]).placed_thoroughly(),
        sh("status_of_a_killed_one", "check as kill-me").status(137).err_has(&["killed"]).placed_thoroughly(),
        sh("status_of_a_directory", "/").status(127).err_any().placed_thoroughly(),
        // Nothing of the kernel's log, and nothing that nobody asked for.
        sh("silent", "true").matrix().placed_thoroughly(),
        sh("fault_is_not_in_the_output", "crash null; echo after")
            .out("after\n")
            .err_check(|text| !text.contains("[ ") && text.contains("fault: "))
            .placed_thoroughly(),
        words("one_word_of_several", &["echo", "a;b", "|", "&&", "'q'", "\\n", "\t", "\u{e4}"])
            .out("a;b | && 'q' \\n \t \u{e4}\n")
            .placed_thoroughly(),
        sh("sixty_four_megabytes", "echo up").mem("64M").out("up\n"),
        sh("ticks_under_icount", "check as ticks").icount().out_check(|text| text.lines().count() == 20),
        function("icount_repeats_ticks", icount_repeats_ticks),
        function("says_what_speculation_may", says_what_speculation_may),
        function("the_log_has_all_that_is_written", the_log_has_all),
        function("clocks_agree_on_a_busy_host", clocks_agree),
        several("panic", &["panic_is_status_125", "panic_shows_the_console"], panic),
        function("the_end_of_init_is_the_machines", init_ends),
    ]
}

const MANY: &str = "check together rounds_at_a_barrier && check posts questions && check hand-over && matrix 48 16";

/// Every byte, and every pair with a neighbour that terminals treat specially.
fn all_bytes() -> Vec<u8> {
    (0..=255).flat_map(|byte| [byte, b'\n', byte, b'\r', byte, 0, byte, 0x1b]).collect()
}

const MB: usize = 1 << 20;

/// What `check as bytes` prints; what it prints as errors is complemented.
fn counted(len: usize, with: u8) -> Vec<u8> {
    (0..len).map(|n| (n % 256) as u8 ^ (n / 256) as u8 ^ with).collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// With instructions for time, two runs are one: to the last line of the kernel's log.
fn icount_repeats(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let options = Options { icount: true, ..options.clone() };
    let folder = lab.folder(&[])?;
    let run = || lab.exec(&options, &folder, &[b"echo hello".to_vec()], seconds(120));
    let (first, second) = (run()?, run()?);
    if (&first.out, &first.console) != (&second.out, &second.console) {
        return Err(Failure::Failed(format!("two runs differ:\n{}\n---\n{}", first.console, second.console)));
    }
    if first.out != b"hello\n" {
        return Err(Failure::Failed(format!("it did not run:\n{}", first.console)));
    }
    Ok(())
}

/// From nothing to a command's end; the best of three, since the host may be doing other things.
fn prompt_within_5_s(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let folder = lab.folder(&[])?;
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let finished = lab.exec(options, &folder, &[b"true".to_vec()], seconds(120))?;
        if finished.outcome.status() == 0 {
            best = best.min(finished.took);
        }
    }
    if best > seconds(5) {
        return Err(Failure::Failed(format!("the best of three boots took {best:?}")));
    }
    Ok(())
}

/// `--put HOST:GUEST`, as the front tool understands it.
fn put_names_a_place(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let host = dir.path().join("a file");
    std::fs::write(&host, "from the host\n").map_err(anyhow::Error::from)?;
    let put = format!("{}:some place", host.display());
    let output = std::process::Command::new("sh")
        .args(["musubi", "exec"])
        .args(lab.flags())
        .args(["--put", &put, "--", "cat", "some place"])
        .current_dir(lab.workspace().top())
        .output()
        .map_err(anyhow::Error::from)?;
    if output.status.code() == Some(0) && output.stdout == b"from the host\n" && output.stderr.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("{output:?}")))
}

/// Two runs of one program count the same instructions at every step.
fn icount_repeats_ticks(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let options = Options { icount: true, ..options.clone() };
    let folder = lab.folder(&[])?;
    let run = || lab.exec(&options, &folder, &[b"check as ticks".to_vec()], seconds(120));
    let (first, second) = (run()?, run()?);
    if first.out != second.out || first.out.is_empty() {
        let text = |out: &[u8]| String::from_utf8_lossy(out).into_owned();
        return Err(Failure::Failed(format!("{}---\n{}", text(&first.out), text(&second.out))));
    }
    Ok(())
}

/// Machines that start at the same time, more than the host has processors for, measure the same rate of their clocks.
fn clocks_agree(lab: &Lab, options: &Options) -> Result<(), Failure> {
    const MACHINES: usize = 8;
    let folder = lab.folder(&[])?;
    let run = || lab.exec(options, &folder, &[b"check as rate".to_vec()], seconds(240));
    let runs: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..MACHINES).map(|_| scope.spawn(run)).collect();
        all.into_iter().map(|machine| machine.join().expect("no machine panics")).collect()
    });
    let mut rates = Vec::new();
    for finished in runs {
        let finished = finished?;
        let rate = String::from_utf8_lossy(&finished.out).trim().parse::<u64>();
        rates.push(rate.map_err(|_| Failure::Failed(format!("{:?}\n{}", finished.outcome, finished.tail(20))))?);
    }
    rates.sort_unstable();
    // 1 %: what a sample may be off twice over.
    if rates[0] * 101 < rates[MACHINES - 1] * 100 {
        return Err(Failure::Failed(format!("nanoseconds in a million ticks: {rates:?}")));
    }
    Ok(())
}

/// A line at the start says what keys and page tables do not stop on this processor (pitfalls, H17): on one of the emulator's, that only keys do not; on one
/// whose maker is known for reading any memory on trial and that does not say that it is mended, nothing does.
fn says_what_speculation_may(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let folder = lab.folder(&[])?;
    for (vendor, said) in [(None, "keys do not stop it, page tables do"), (Some("GenuineIntel"), "(RDCL_NO=0)")] {
        let options = Options { vendor, ..options.clone() };
        let finished = lab.exec(&options, &folder, &[b"echo up".to_vec()], seconds(120))?;
        let lines: Vec<&str> = finished.console.lines().filter(|line| line.contains("] speculation: ")).collect();
        if lines.len() != 1 || !lines[0].contains(said) {
            return Err(Failure::Failed(format!("{vendor:?}: {lines:?}:\n{}", finished.console)));
        }
    }
    Ok(())
}

/// What a driver has written to the kernel's log (`tests/guest/own-driver`, `tries.rs`): each line is there, whole, once and in order, and nothing of
/// what was refused.
fn the_log_has_all(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let folder = lab.folder(&[File::Ours { program: "own-driver", guest: "bin/keyboard" }])?;
    let finished = lab.exec(options, &folder, &[b"check as tell-the-log".to_vec()], seconds(120))?;
    let printable = format!("own-driver 0 {}", (' '..='~').collect::<String>());
    let long: String = "own-driver 2 ".chars().chain(('a'..='z').cycle()).take(1024).collect();
    let wanted = [
        printable.as_str(),
        "own-driver 1 \u{e4}\u{f6}\u{df} \u{20ac} \u{10348}",
        &long,
        "own-driver 3 lies on two pages",
        "own-driver 4 is",
        "own-driver 5 are two lines",
        "own-driver 6 \u{fffd} is no text \u{fffd}",
        "",
        "own-driver 7",
    ];
    // Behind the time.
    let lines = finished.console.lines().filter_map(|line| line.split_once("] ").map(|(_, said)| said));
    let found: Vec<&str> = lines.filter(|said| said.is_empty() || said.starts_with("own-driver")).collect();
    if finished.outcome.status() == 0 && found == wanted && !finished.console.contains("was refused") {
        return Ok(());
    }
    Err(Failure::Failed(format!("{:?}\nnot {wanted:#?}\nbut {found:#?}\n{}", finished.outcome, finished.tail(60))))
}

/// A machine that cannot come up: its first program is no program of ours.
fn panic(lab: &Lab, options: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    // The name service is what init waits for first: without it init gives up, and with it the system.
    let folder = lab.folder(&[File::Made { guest: "bin/init", data: b"no program".to_vec(), executable: true }])?;
    let finished = lab.exec(options, &folder, &[b"echo up".to_vec()], seconds(60))?;
    let why = || Failure::Failed(format!("{:?}\n{}", finished.outcome, finished.tail(60)));
    let is = |good: bool| if good { Ok(()) } else { Err(why()) };
    Ok(vec![
        ("panic_is_status_125", is(finished.outcome.status() == 125 && finished.out.is_empty())),
        ("panic_shows_the_console", is(finished.console.contains("panic") && finished.console.contains("0xffff"))),
    ])
}

/// Init's place has a program that ends by itself.
fn init_ends(lab: &Lab, options: &Options) -> Result<(), Failure> {
    let folder = lab.folder(&[File::Ours { program: "hello", guest: "bin/init" }])?;
    let finished = lab.exec(options, &folder, &[b"echo up".to_vec()], seconds(60))?;
    let is_told = finished.console.contains("first: init has ended") && !finished.console.contains("panic");
    if finished.outcome.status() == 125 && finished.out.is_empty() && is_told {
        return Ok(());
    }
    Err(Failure::Failed(format!("{:?}\n{}", finished.outcome, finished.tail(60))))
}

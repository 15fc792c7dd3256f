//! The machine comes up, runs a command line, and its outcome reaches the host.

use crate::case::{Case, function, sh, words};
use crate::lab::{Failure, Lab};
use machine::{Options, Via};
use std::time::Duration;

pub fn cases() -> Vec<Case> {
    vec![
        sh("echo", "echo hello").out("hello\n").matrix(),
        sh("status", "exit 42").status(42).matrix(),
        sh("success", "true"),
        sh("failure", "false").status(1),
        sh("not_found", "no-such-program").status(127).err_has(&["no-such-program"]),
        sh("not_executable", "./notes").file("notes", "not a program\n").status(126).err_has(&["notes"]),
        words("words_stay_words", &["echo", "a  b", "", "$HOME;c", "\"d\""]).out("a  b  $HOME;c \"d\"\n"),
        sh("shell_splits_one_word", "echo a  b 'c  d'").out("a b c  d\n"),
        sh("put", "cat notes").file("notes", "one\ntwo\n").out("one\ntwo\n"),
        sh("put_empty", "cat notes").file("notes", ""),
        sh("binary_clean", "cat bytes").file("bytes", all_bytes()).out(all_bytes()),
        sh("help", "help").out_has(&["ps", "sections", "acl", "tour"]),
        sh("cpus", "cpus").cpus(4).out_check(|text| text.lines().count() >= 4),
        sh("errors_go_apart", "no-such-program; echo after").out("after\n").err_any(),
        sh("icount", "echo up").icount().out("up\n"),
        sh("eight_processors", "echo up").cpus(8).out("up\n"),
        sh("little_memory", "echo up").mem("128M").out("up\n"),
        sh("much_memory", "echo up").mem("5G").out("up\n"),
        sh("bios", "echo up").via(Via::Bios).out("up\n"),
        sh("uefi", "echo up").via(Via::Uefi).out("up\n"),
        sh("time_limit", "sleep 1000").timeout(5).status(124),
        function("icount_repeats", icount_repeats),
        function("prompt_within_5_s", prompt_within_5_s),
        sh("hundred_boots", "echo up").out("up\n").cpus(2).times(100).by_name(),
        sh("hundred_boots_4_cpus", "echo up").out("up\n").cpus(4).times(100).by_name(),
    ]
}

/// Every byte, and every pair with a neighbour that terminals treat specially.
fn all_bytes() -> Vec<u8> {
    (0..=255).flat_map(|byte| [byte, b'\n', byte, b'\r', byte, 0, byte, 0x1b]).collect()
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

//! The trace. From within: see `tests/guest/check`.

use crate::case::{Case, checks, function, sh};
use crate::lab::{Failure, Lab};
use crate::session::Session;
use crate::stages::s30_epc::memory_fails;
use crate::variant::PLACEMENT;
use anyhow::{Context, ensure};
use machine::Options;
use serde_json::Value;
use std::process::{Command, Stdio};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "trace",
            "check trace",
            &[
                "a_request_in_order",
                "a_pagers_fault_in_order",
                "a_program_is_followed",
                "every_processor_in_order",
                "lost_events_are_counted",
                "off_means_nothing_is_written",
                "strangers_neither_read_nor_switch_it",
                "handlers_are_measured",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        // It fails if there is a call in the table that nobody has made.
        every_call("every_call_is_measured", 1).out_judged(tells_longest::<1>).timeout(900),
        every_call("every_call_is_measured_on_two", 2).out_judged(tells_longest::<2>).timeout(1800).long(),
        every_call("every_call_is_measured_on_four", 4).out_judged(tells_longest::<4>).timeout(3600).long(),
        function("a_machine_check_is_measured", machine_check),
        sh("a_command_is_traced", "trace -- echo hi").out_check(is_a_list).timeout(240).placed_thoroughly(),
        sh("rare_calls_are_rare", EVERYDAY)
            .cpus(1)
            .mem("1G")
            .icount()
            .out_check(rare_calls_are_rare)
            .err_any()
            .timeout(600),
        function("a_trace_comes_out", |lab, options| Ok(comes_out(lab, options)?)),
        // Each of the kernel's calls is made by the test that is named of it (`abi/tests/tested.txt`).
        sh("calls_are_made_by_their_tests", "check tied")
            .file(PLACEMENT, "check\n")
            .cpus(2)
            .out_check(is_each_made)
            .err_any()
            .timeout(900),
        sh("calls_are_made_by_a_drivers_test", "check tied ports_by_light_calls")
            .ours("own-driver", "bin/keyboard")
            .out_has(&["ok port_read\n", "ok port_write\n"])
            .timeout(240),
        sh("calls_are_made_by_tests_of_the_shells", &by_lines())
            .put("/bin/busybox", "/bin/busybox")
            .out_check(is_each_told)
            .err_any()
            .timeout(240),
        sh("switched_by_hand", "trace on; echo between; trace off; trace show 5")
            .out_check(has_five)
            .timeout(240)
            .placed_thoroughly(),
    ]
}

/// Calls whose tests are lines for the shell, and what of these makes them; each of them is seen by the trace.
const BY_LINES: [(&str, &[&str]); 2] = [
    ("busybox sh -c 'exit 7'", &["task_end", "foreign_set", "foreign_start", "foreign_return"]),
    ("servers restart names; check as bytes err 65536", &["task_wait", "port_write_bytes"]),
];

/// Calls whose tests cannot be looked at so: one makes the run end, one is a whole session in which nothing else may be written, one switches the trace
/// itself, one's programs are compiled by the host, and one the clock makes only where a moment comes nearer. (Of others see the cases beside this one.)
const NOT_SEEN: [&str; 5] = ["power_off", "log_write", "trace_set", "foreign_vectors", "clock_alarm"];

fn by_lines() -> String {
    let lines: Vec<&str> = BY_LINES.iter().map(|(line, _)| *line).collect();
    format!("trace on; {}; trace off; trace handlers", lines.join("; "))
}

/// Whether the program says so of every call but those that are looked at elsewhere.
fn is_each_made(out: &str) -> bool {
    let elsewhere = BY_LINES.iter().flat_map(|(_, calls)| *calls).chain(&NOT_SEEN).chain(&["port_read", "port_write"]);
    let elsewhere: Vec<&str> = elsewhere.copied().collect();
    let is_said = |call: &str| out.lines().any(|line| line.strip_prefix("ok ") == Some(call));
    abi::calls::TABLE.iter().all(|row| elsewhere.contains(&row.name) || is_said(row.name))
}

fn is_each_told(out: &str) -> bool {
    BY_LINES.iter().flat_map(|(_, calls)| *calls).all(|call| out.contains(&format!("\n{call} ")))
}

#[test]
fn a_call_that_its_test_does_not_make_is_found() {
    let all: String = abi::calls::TABLE.iter().map(|row| format!("ok {}\n", row.name)).collect();
    assert!(is_each_made(&all));
    assert!(!is_each_made(&all.replace("ok acl_set\n", "FAILED acl_set\n")));
}

/// On so many processors, whose instructions are counted.
fn every_call(name: &'static str, cpus: u32) -> Case {
    let case = sh(name, "limit frames=700000 sections=4000 threads=1000 bench handlers");
    // Some exceptions are raised in supervisor mode.
    case.file("etc/placement", "bench\n").icount().cpus(cpus).mem("4G")
}

/// What people do, of which the ring keeps the last part.
const EVERYDAY: &str = "trace on; ls bin; hello | cat | cat; cp bin/hello h; h; rm h; ps; mem; check pagers a_pager_validates; \
    check posts round_trips; tour; trace off; trace show 10000";

/// A way into the kernel and out again: by what, in how many ticks, and whether somebody was woken, started or ended meanwhile.
struct Way<'a> {
    by: &'a str,
    ticks: u64,
    acts: bool,
}

/// What the trace has of one processor, in order of time. (Who ends does not leave.)
fn ways_in(out: &str) -> Vec<Way<'_>> {
    let (mut ways, mut entered) = (Vec::new(), None);
    for line in out.lines() {
        let words: Vec<&str> = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
        let [_, _, _, _, by, what, about @ ..] = &words[..] else { continue };
        match *what {
            "enter" => entered = Some(false),
            "wake" | "hand-over" | "switch" | "thread" | "thread-end" | "task-end" => entered = entered.map(|_| true),
            "leave" => {
                let ticks = about.first().and_then(|about| about.strip_suffix(" ticks")?.parse().ok());
                ways.extend(entered.take().zip(ticks).map(|(acts, ticks)| Way { by: *by, ticks, acts }));
            }
            _ => {}
        }
    }
    ways
}

/// One in so many is often; and so many instructions less a light call takes at least than the same by the full entry (`figures_of_pages` holds both).
const SELDOM: usize = 40;
const SAVED: u64 = 280;

/// SSS-39: of the ways into the kernel none by a call that is said to be too rare to be a light one is more than one in 40. One that is said to take long, or
/// to be looked after on its way out, may be as frequent as it likes where that is so: half of the time it takes so long, beside the shortest call of
/// all (the trace's own part), that a light entry would save less than a tenth, or it has woken, started or ended somebody.
fn rare_calls_are_rare(out: &str) -> bool {
    use abi::calls::{TABLE, Why};
    let ways = ways_in(out);
    let is_call = |way: &&Way| TABLE.iter().any(|row| row.name == way.by);
    // (What has begun before the trace was on has no length.)
    let Some(least) = ways.iter().filter(is_call).map(|way| way.ticks).filter(|ticks| *ticks > 0).min() else {
        return false;
    };
    let is_worth_it = |way: &&&Way| way.acts || way.ticks >= least + 10 * SAVED;
    let holds = |row: &abi::calls::Row| {
        let all: Vec<&Way> = ways.iter().filter(|way| way.by == row.name).collect();
        let is_seldom = all.len() * SELDOM <= ways.len();
        match row.why_full() {
            Some(Why::Rare) => is_seldom,
            Some(Why::Long | Why::Looks) => is_seldom || 2 * all.iter().filter(is_worth_it).count() >= all.len(),
            _ => true,
        }
    };
    ways.len() > 1000 && ways.iter().any(|way| way.by == "page-fault") && TABLE.iter().all(holds)
}

#[test]
fn a_frequent_call_that_is_short_is_found() {
    let way = |by: &str, what: &str, ticks: u64| {
        format!(
            "  1.000  0  7  echo  {by:<12}  enter  0x7 at 0x42\n{what}  1.002  0  7  echo  {by:<12}  leave  {ticks} ticks\n"
        )
    };
    let woken = "  1.001  0  7  echo  wake          wake   thread 8\n";
    let with = |by: &str, what: &str, ticks| {
        let usual = way("page-fault", "", 3000).repeat(500) + &way("clock", "", 1300).repeat(500);
        rare_calls_are_rare(&(usual + &way(by, what, ticks).repeat(100)))
    };
    assert!(with("clock", "", 1300));
    // As often as it likes: what is light, what waits, what takes long, and what wakes somebody.
    assert!(with("post_receive", "", 1500) && with("section_list", "", 5000) && with("wake", woken, 1500));
    assert!(!with("identity", "", 9000) && !with("section_list", "", 1500) && !with("wake", "", 1500));
}

/// What the command says, the events of its life in their order, and how many were lost.
fn is_a_list(out: &str) -> bool {
    let what =
        |line: &'_ str| line.split("  ").filter(|word| !word.trim().is_empty()).nth(5).unwrap_or("").trim().to_string();
    let mut events = out.lines().map(what);
    let life = ["task", "thread", "switch", "thread-end", "task-end"];
    out.starts_with("hi\n")
        && life.iter().all(|wanted| events.any(|event| event == *wanted))
        && out.contains(" events, 0 lost\n")
        && out.contains("\nway in ")
}

/// Instructions that nothing takes more of at a stretch that has no bar of its own. How long a way in may take is said beside each
/// (`apps/bench/src/bars.rs`; K1-44, SSS-24).
const LONGEST: u64 = 450_000;

/// Cases of short ways, of which the trace sees none.
const SHORT: [&str; 8] = [
    "get_taskid_light by light",
    "port_read by light-of-a-driver",
    "page_free by light",
    "mbcf_write by mbcf",
    "NullProc by epc-s",
    "ping-pong by pool",
    "round-trip by validate",
    "round by many",
];

/// Exceptions and interrupts that each run brings, and those that one with other processors does.
const BROUGHT: [&str; 12] = [
    "page-fault",
    "exception-0",
    "exception-1",
    "exception-3",
    "exception-4",
    "exception-5",
    "exception-6",
    "exception-7",
    "exception-13",
    "exception-16",
    "exception-19",
    "interrupt-0x20",
];
const BY_OTHERS: [&str; 3] = ["interrupt-0x50", "interrupt-0x51", "waits-for-others"];

/// Exceptions that are said not to be measured here. (Of interrupts that depends on the machine.)
const UNSEEN: [&str; 10] = [
    "exception-2",
    "exception-8",
    "exception-9",
    "exception-10",
    "exception-11",
    "exception-12",
    "exception-15",
    "exception-17",
    "exception-18",
    "exception-20 to 31",
];

/// A line for each way in, and for each short way; none has taken no time at all, and none longer than it may, be it once. (Rounds in the middle of which an
/// interrupt came have a line of their own.) On several processors that is what they say themselves: each of them is as many times slower.
fn tells_longest<const CPUS: u64>(out: &str) -> Result<(), String> {
    let unseen = |row: &&str| row.contains(" is not measured: ");
    let (said, rows): (Vec<&str>, Vec<&str>) = out.lines().partition(unseen);
    let (unseen, others): (Vec<&str>, Vec<&str>) = said.into_iter().partition(|row| row.starts_with("exception-"));
    let is_row = |name: &&str| rows.iter().any(|row| row.split_whitespace().next() == Some(*name));
    let keeps = |row: &&str| {
        let (longest, rest) = row.rsplit_once(" at most ")?.1.split_once(", mostly ")?;
        let (usual, bar) = rest.split_once(" of ")?;
        let [longest, usual, bar] = [longest, usual, bar].map(|word| word.trim().parse::<u64>());
        let (longest, usual, bar) = (longest.ok()?, usual.ok()?, bar.ok()?);
        Some(usual > 0 && longest <= bar)
    };
    let is_there = rows.len() > abi::calls::TABLE.len()
        && BROUGHT.iter().all(is_row)
        // The keyboard's, by whatever vector.
        && rows.iter().any(|row| ["interrupt-0x3", "interrupt-0x4"].iter().any(|device| row.starts_with(device)))
        && (if CPUS > 1 { BY_OTHERS.iter().all(is_row) } else { !is_row(&"waits-for-others") })
        && unseen.len() == UNSEEN.len()
        && unseen.iter().zip(UNSEEN).all(|(row, name)| row.starts_with(&format!("{name} ")))
        && others.iter().all(|row| row.starts_with("interrupt-"))
        && SHORT.iter().all(|case| rows.iter().any(|row| row.starts_with(case)));
    let over: Vec<&str> = rows.iter().filter(|row| keeps(row) != Some(true)).copied().collect();
    match (is_there, over.is_empty()) {
        (true, true) => Ok(()),
        (false, _) => Err("not each way in has its row".into()),
        (true, false) => Err(format!("longer than it may be: {}", over.join("; "))),
    }
}

/// QEMU's monitor says that memory which a program uses has failed: how long the kernel has to do with that at a stretch, until the program has ended.
fn machine_check(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &["--cpus", "1", "--icount"])?;
    session.line("trace on", &[])?;
    session.keys("spin\r")?;
    session.expect("spin")?;
    // Until the program has the processor: a machine check in the kernel would end the machine.
    std::thread::sleep(std::time::Duration::from_secs(3));
    memory_fails(&mut session, "0x5")?;
    session.expect("machine check: bank 1")?;
    session.line("echo $?", &["139"])?;
    session.line("trace off", &[])?;
    session.keys("trace handlers\r")?;
    session.expect("\nexception-18 ")?;
    let from = session.seen();
    session.expect("\n")?;
    let longest = session.shown_since(from).split_whitespace().last().and_then(|word| word.parse::<u64>().ok());
    match longest {
        Some(ticks) if (1..=LONGEST).contains(&ticks) => session.power_off().map(drop),
        other => Err(Failure::Failed(format!("a machine check takes {other:?} instructions at a stretch"))),
    }
}

fn has_five(out: &str) -> bool {
    let lines: Vec<&str> = out.lines().collect();
    lines.len() == 8 && lines[0] == "between" && lines[1].contains("cpu") && lines[7].contains(" events, 0 lost")
}

/// `./musubi trace`: what the command prints, its status, a file for Perfetto in which its program is found, and a picture.
fn comes_out(lab: &Lab, _: &Options) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let [json, svg] = ["t.json", "t.svg"].map(|name| dir.path().join(name));
    let mut command = Command::new("./musubi");
    command.args(["trace", "--cpus", "2"]).args(lab.flags()).arg("-o").arg(&json).arg("--svg").arg(&svg);
    command.args(["--", "hello; false"]).current_dir(lab.workspace().top()).stdin(Stdio::null());
    let output = command.output()?;
    ensure!(output.status.code() == Some(1), "not the command's status: {output:?}");
    ensure!(output.stdout.starts_with(b"Hello from task"), "not what it prints: {output:?}");
    let parsed: Value = serde_json::from_slice(&std::fs::read(&json)?)?;
    let events = parsed["traceEvents"].as_array().context("no events")?;
    let named = |event: &&Value| {
        event["name"] == "process_name" && event["args"]["name"].as_str().is_some_and(|name| name.contains("hello"))
    };
    let task = &events.iter().find(named).context("no task of that name")?["pid"];
    let runs = events.iter().filter(|event| event["ph"] == "X" && event["pid"] == *task).count();
    ensure!(runs > 10, "{runs} intervals of that task");
    let times: Vec<f64> = events.iter().filter_map(|event| event["ts"].as_f64()).collect();
    ensure!(times.len() == events.len() && times.is_sorted(), "times do not go on");
    let picture = std::fs::read_to_string(&svg)?;
    ensure!(["hello", ">processor 0<", ">processor 1<"].iter().all(|word| picture.contains(word)), "{picture}");
    Ok(())
}

//! Servers end, and are restarted where they stood. From within: see `tests/guest/check`.

use crate::case::{Case, checks, function, several, sh};
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use crate::session::Session;
use abi::boot::SERVERS;
use machine::{Options, Outcome};
use std::time::Duration;

const BUSYBOX: &str = "/bin/busybox";

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "supervision",
            "check supervision",
            &[
                "it_comes_back_where_it_stood",
                "who_may_repeat_does_not_notice",
                "who_may_repeat_beside_others_does_not_notice",
                "who_may_not_repeat_is_told",
                "who_may_repeat_by_post_does_not_notice",
                "who_asks_by_post_whom_somebody_stops_is_told",
                "who_asks_and_waits_whom_somebody_stops_is_told",
                "what_a_message_names_is_lent_to_the_next",
                "who_may_not_repeat_by_post_is_told",
                "what_was_sent_is_served_by_the_next",
                "names_outlive_their_service",
                "a_stranger_does_not_get_its_name",
                "who_ends_again_and_again_comes_back",
                "what_is_needed_is_not_given_up",
                "files_are_lost_and_said_to_be",
                "the_next_loader_knows_what_the_one_before_was_told",
                "drivers_and_personality",
                "the_next_console_is_the_shells",
                "what_cannot_be_asked_for",
                "the_last_wish_counts",
                "who_stays_bound_keeps_nothing",
                "a_fault_in_one_leaves_the_others",
                "a_few_kills_under_load",
            ],
        )
        .timeout(600)
        .spread().placed_thoroughly(),
        // Each of them, called by its gate and asked by its post, one after the other; and several away at the same time.
        sh("kills", "check as kills 15 && check as kills 15 together").timeout(1500).out("ok\nok\n").placed_thoroughly(),
        // More than an hour on a busy host, so these run only when they are named.
        sh("ten_thousand_kills_in_turn", "check as kills 10000").cpus(2).timeout(40_000).out("ok\n").err_any().by_name(),
        sh("ten_thousand_kills", "check as kills 10000 together").cpus(2).timeout(40_000).out("ok\n").err_any().by_name(),
        sh("servers", "servers kill pipes; servers restart names; servers stop linux; servers; servers start linux; servers")
            .out_check(tells).placed_thoroughly(),
        // SSS-19: those that the machine can do without, each for itself and all at once. The others go on.
        sh("stopped_in_turn", &stopped_in_turn()).out("a\na\na\na\na\na\na\na\n").timeout(120).matrix().placed_thoroughly(),
        // A program in its place that ends by itself never becomes ready.
        sh("one_that_cannot_be_started", "sleep 3; servers; servers start pipes; sleep 3; servers; echo one")
            .ours("hello", "bin/pipes")
            .out_check(|text| text.matches("  given up  ").count() == 2 && text.ends_with("one\n"))
            .err("servers: pipes: it is stopped, or was given up\n").placed_thoroughly(),
        sh("servers_are_refused", "servers stop names; servers frob x; servers kill nobody; servers start; echo $?")
            .out("2\n")
            .err(
                "servers: names: the machine is of no use without it\nservers: usage: servers [restart|stop|start|kill NAME]\n\
                 servers: nobody: there is no such server\nservers: usage: servers [restart|stop|start|kill NAME]\n",
            ).placed_thoroughly(),
        // What waits in the console's way to the host is not lost, nor mixed up.
        sh("console_in_the_middle", "check as bytes out 200000 > big; cat big; servers restart console; cat big; cat big")
            .out(counted(200_000).repeat(3))
        .placed(),
        sh(
            "linux_programs",
            "busybox echo one; busybox sleep 1000 & sleep 0.5; servers kill linux; sleep 0.1; jobs; busybox echo two; echo $?",
        )
        .put(BUSYBOX, "/bin/busybox")
        .out_check(|text| {
            text.starts_with("one\n") && text.contains("busybox sleep 1000 ended with 137") && text.ends_with("two\n0\n")
        })
        .err_any()
        .timeout(200).placed_thoroughly(),
        function("a_line_typed_afterwards", typed_afterwards).placed_thoroughly(),
        several("left_out", &LEFT_OUT.map(|one| one.0), left_out).placed_thoroughly(),
    ]
}

/// What `check as bytes out N` prints.
fn counted(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 256) as u8 ^ (n / 256) as u8).collect()
}

/// Two tables: who has ended and why, who is stopped, and that all are back.
fn tells(text: &str) -> bool {
    let row = |table: &str, start: &str, state: &str, end: &str| {
        table.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(start) && words.next() == Some(state) && line.ends_with(end)
        })
    };
    let Some((first, second)) = text.split_once("without it\n") else { return false };
    row(first, "pipes", "running", "1  killed")
        && row(first, "names!", "running", "1  restarted")
        && row(first, "loader!", "running", "0")
        && row(first, "linux", "stopped", "0  stopped")
        && row(second, "linux", "running", "1  stopped")
        && row(second, "console!", "running", "0")
}

/// By the serial line, and the console's state is the shell's again with the next prompt.
fn typed_afterwards(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &[])?;
    for (server, answer) in [
        ("console", "one"),
        ("names", "two"),
        ("pipes", "three"),
        ("files", "four"),
        ("loader", "five"),
        ("console", "six"),
    ] {
        session.line(&format!("servers restart {server}"), &[])?;
        session.line(&format!("echo {answer} | cat"), &[answer])?;
        session.line(&format!("hello {answer}"), &[&format!("argument 1: {answer}")])?;
    }
    match session.power_off()? {
        Some(0) => Ok(()),
        other => Err(Failure::Failed(format!("./musubi run ended with {other:?} after poweroff"))),
    }
}

/// Servers that others do not need.
const CAN_BE_STOPPED: [&str; 6] = ["clock", "memory", "keyboard", "pipes", "linux", "sched"];

fn stopped_in_turn() -> String {
    let does = "echo a > /x && cat /x && hello > /y && rm /x /y";
    let all = |what: &str| CAN_BE_STOPPED.map(|server| format!("servers {what} {server}")).join("; ");
    let each = CAN_BE_STOPPED.map(|server| format!("servers stop {server}; {does}; servers start {server}")).join("; ");
    format!("{each}; {}; {does}; {}; {does}", all("stop"), all("start"))
}

/// CUBIX-17: a machine without a server, a command line, what that prints as output and as errors, and its status.
const LEFT_OUT: [(&str, &str, &str, &str, u8); 12] = [
    (
        "without_names",
        "check as status 4; echo $?; echo x > /tmp/x; cat /tmp/x; servers kill pipes; check as bytes out 0 | cat; servers kill files; \
         cat /tmp/x; counter; sched use share; exit 3",
        "4\nx\n",
        "cat: /tmp/x: not found\ncounter: counter: GONE\nsched: GONE\n",
        3,
    ),
    (
        "without_loader",
        "echo a; check as status 4; echo $?; echo b > x; cat x; ps > x && servers > x && echo known; exit 3",
        "a\n126\nb\nknown\n",
        "check: cannot be run: GONE\n",
        3,
    ),
    (
        "without_files",
        "check as status 4; echo $?; sh -c 'echo in another'; check as bytes out 0 | cat; ls; echo a > x; cat x; nobody; exit 3",
        "4\nin another\n",
        "ls: /: GONE\nshell: x: GONE\ncat: x: GONE\nnobody: cannot be run: not found\n",
        3,
    ),
    (
        "without_processes",
        "echo a; check as status 4; echo $?; echo b > x; cat x; ps > x && ps -t > x && posts > x && mem > x && echo known; ps -g; exit 3",
        "a\n126\nb\nknown\n",
        "check: cannot be run: GONE\nps: GONE\n",
        3,
    ),
    ("without_clock", "sleep 1; check as status 4; echo $?; date", "4\n", "sleep: GONE\ndate: GONE\n", 1),
    (
        "without_memory",
        "check as status 4; echo $?; mem > /x && mem -k > /x && echo known; mem -s; servers start memory",
        "4\nknown\n",
        "mem: GONE\nservers: memory: there is no such server\n",
        1,
    ),
    (
        "without_keyboard",
        "check as status 4; servers start keyboard",
        "",
        "servers: keyboard: there is no such server\n",
        1,
    ),
    ("without_console", "echo a; check as status 7", "", "", 7),
    ("without_pipes", "check as status 4 | cat; echo $?; echo a | cat", "126\na\n", "shell: no pipe: GONE\n", 0),
    ("without_linux", "check as status 4; echo $?; linux-unknown", "4\n", "linux-unknown: GONE\n", 1),
    ("without_sched", "check as status 4; echo $?; sched use share", "4\n", "sched: GONE\n", 1),
    ("without_all", "exit 5", "", "", 5),
];

/// Each in a machine of its own; and the log says of each server that is not there what there is not, once.
fn left_out(lab: &Lab, options: &Options, names: &[&'static str]) -> Result<Vec<Found>, Failure> {
    let folder = lab.folder(&[])?;
    let mut found = Vec::new();
    for (name, line, out, err, status) in LEFT_OUT.into_iter().filter(|one| names.contains(&one.0)) {
        let server = name.trim_start_matches("without_");
        let is_left_out = |one: &str| server == "all" || one == server;
        let without = SERVERS.into_iter().filter(|one| is_left_out(one)).map(String::from).collect();
        let options = Options { without, ..options.clone() };
        let ended = lab.exec(&options, &folder, &[line.as_bytes().to_vec()], Duration::from_secs(60))?;
        let err = err.replace("GONE", "its server was left out or stopped");
        let said = |one: &str| ended.console.matches(&format!("init: without {one}: ")).count();
        let is_good = ended.outcome == Outcome::Exited(status)
            && (ended.out.as_slice(), ended.err.as_slice()) == (out.as_bytes(), err.as_bytes())
            && SERVERS.into_iter().all(|one| said(one) == usize::from(is_left_out(one)));
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let why =
            || format!("{:?}\n{}---\n{}---\n{}", ended.outcome, shown(&ended.out), shown(&ended.err), ended.tail(40));
        found.push((name, if is_good { Ok(()) } else { Err(Failure::Failed(why())) }));
    }
    Ok(found)
}

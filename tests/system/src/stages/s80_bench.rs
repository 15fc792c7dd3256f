//! Benchmarks: what they print, that it is exact, and that what is counted is what happened. How long a way may be at most is in
//! `bars.rs`; how fast anything is, is never asserted, but what two processors gain (`side_by_side.rs`).

use super::{bars, itc_figures};
use crate::case::{ABOUT_KEYS, Case, function, several, sh};
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, ensure};
use machine::Options;
use measure::{Figure, Ours, Source, count, unit};
use std::process::Output;
use tally::Costly;

pub mod papers;
mod pool;
mod programs;
mod runs;
mod side_by_side;

pub use runs::Runs;

pub fn cases() -> Vec<Case> {
    vec![
        sh("no_such_benchmark", "bench calls nosuch").status(2).err(
            "bench: nosuch: no such benchmark; there are apps, calls, entry, fights, files, handlers, ipc, info, jobs, keys, memory, messages, pager, placement, pool, service, sizes, spawn, sched, turns\n",
        ),
        several("figures_of_calls", &CALLS.map(|(name, _)| name), all),
        several("figures_of_keys", &KEYS.map(|(name, _)| name), all).long(),
        several("figures_of_pages", &PAGES.map(|(name, _)| name), all),
        several("figures_of_few_messages", &FEW_MESSAGES.map(|(name, _)| name), all),
        several("figures_of_messages", &MESSAGES.map(|(name, _)| name), all).long(),
        // How often programs send that were not written to be measured.
        sh("how_often_programs_send", &format!("bench during sort 1 bin/busybox sh -c '{SORT}'; bench during script 1 bin/busybox sh -c '{SCRIPT}'; bench during spawns 50 bin/hello"))
            .put("/bin/busybox", "/bin/busybox")
            .cpus(1)
            .icount()
            .long()
            .out_check(send_seldom),
        several("figures_of_programs", &OF_PROGRAMS.map(|(name, _)| name), all).long(),
        several("figures_of_itc", &ITC.map(|(name, _)| name), all).long(),
        // By the clock of a host that has to be quiet, so by name only.
        function("two_processors_do_as_much_as_two", side_by_side::two_processors).by_name(),
    ]
}

/// Unmodified programs that hand data to one another, and a script that computes, starts others and waits for them.
const SORT: &str = "busybox seq 20000 | busybox sort -rn | busybox sha256sum > /dev/null";
const SCRIPT: &str = "i=0; while [ $i -lt 20 ]; do i=$((i + 1)); echo line $i; done | busybox wc > /dev/null; x=$(busybox expr 20 + 3); [ $x = 23 ]";
/// Of each that many messages at least, and so many thousandths of all instructions at most that are for messages.
const PROGRAMS: [(&str, u64, u64); 3] = [("sort", 1, 100), ("script", 1, 100), ("spawns", 50, 100)];

/// K1-U7: of what was printed, how many messages there were, by post, and what part they take.
fn send_seldom(out: &str) -> bool {
    let Ok(figures) = Figure::read(out) else { return false };
    let of = |case: &str, unit: &str, is: fn(&str) -> bool| -> Vec<u64> {
        figures.iter().filter(|f| f.case == case && f.unit == unit && is(&f.way)).map(|f| f.value).collect()
    };
    PROGRAMS.into_iter().all(|(case, least, most)| {
        let (all, by_post) =
            (of(case, count::MESSAGES, |way| way == "all"), of(case, count::MESSAGES, |way| way != "all"));
        let part = of(case, count::PERMILLE, |_| true);
        all.len() == 1 && all[0] >= least && by_post.iter().sum::<u64>() == all[0] && part.len() == 1 && part[0] <= most
    })
}

type Check = (&'static str, fn(&Runs) -> Result<()>);
/// Those that make no sense without protection keys.
const WITH_KEYS: [&str; 3] = ["keys_are_earned", "bound_calls_stay_outside", "keys_keep_their_bars"];
const CALLS: [Check; 16] = [
    ("two_runs_are_the_same", two_runs_are_the_same),
    ("counted_from_two_sides", counted_from_two_sides),
    ("null_call", null_call),
    ("refused_calls", refused_calls),
    ("steps_of_a_call", steps_of_a_call),
    ("size_does_not_matter", size_does_not_matter),
    ("matrix_of_sizes", matrix_of_sizes),
    ("calls_touch_less", itc_figures::calls_touch_less),
    ("switches_have_parts", itc_figures::switches_have_parts),
    ("interrupts_by_call_are_sooner", itc_figures::interrupts),
    ("copies_are_counted", copies_are_counted),
    ("lines_for_programs", lines_for_programs),
    ("table_for_people", table_for_people),
    ("missing_peer_is_said", missing_peer_is_said),
    ("wall_time_has_every_case", wall_time_has_every_case),
    ("calls_keep_their_bars", bars::calls),
];
const KEYS: [Check; 2] = [("keys_are_earned", keys_are_earned), ("keys_keep_their_bars", bars::keys)];
/// What needs the longest of the benchmarks.
const ITC: [Check; 6] = [
    ("bound_calls_stay_outside", bound_calls_stay_outside),
    ("itc_by_size", itc_figures::itc_by_size),
    ("itc_is_counted", itc_figures::itc_is_counted),
    ("itc_without_waiting", itc_figures::itc_without_waiting),
    ("lines_of_ipc_have_every_case", lines_of_ipc),
    ("sizes_keep_their_bars", bars::sizes),
];
const PAGES: [Check; 7] = [
    ("entries_keep_their_bars", bars::entries),
    ("placements_gain_what_they_may", bars::placements),
    ("pages_cost_less_the_more", bars::memory),
    ("a_pager_and_back", bars::pager),
    ("others_have_their_turns", bars::turns),
    ("papers_stand_beside_ours", papers::stand_beside_ours),
    ("telling_costs_little", bars::telling),
];
/// Such that nobody here wrote.
const OF_PROGRAMS: [Check; 2] = [
    ("programs_take_what_is_told", programs::take_what_is_told),
    ("programs_stand_side_by_side", programs::stand_side_by_side),
];
/// What needs no more than few single rounds.
const FEW_MESSAGES: [Check; 5] = [
    ("few_beside_idle_processors", pool::few_beside_idle_processors),
    ("few_take_few_locks", pool::few_take_few_locks),
    ("few_take_one_lock_at_a_time", pool::few_take_one_lock_at_a_time),
    ("few_by_the_long_way", pool::few_by_the_long_way),
    ("few_beside_rendezvous", pool::few_beside_rendezvous),
];
const MESSAGES: [Check; 13] = [
    ("files_by_many_threads", files_by_many_threads),
    ("messages_beside_idle_processors", pool::messages_beside_idle_processors),
    ("messages_take_few_locks", pool::messages_take_few_locks),
    ("plain_messages_beside_many", pool::plain_messages_beside_many),
    ("messages_by_the_long_way", pool::messages_by_the_long_way),
    ("messages_beside_rendezvous", pool::messages_beside_rendezvous),
    ("messages_to_a_clock", pool::messages_to_a_clock),
    ("many_at_once", pool::many_at_once),
    ("a_service_on_all_processors", pool::a_service_on_all_processors),
    ("clients_at_servers_of_their_own", pool::clients_at_servers_of_their_own),
    ("clients_at_the_systems_servers", pool::clients_at_the_systems_servers),
    ("a_loop_by_many_threads", pool::a_loop_by_many_threads),
    ("what_processors_fight_over", pool::what_processors_fight_over),
];

fn all(lab: &Lab, options: &Options, names: &[&'static str]) -> Result<Vec<Found>, Failure> {
    let runs = Runs::new(lab, options)?;
    let judge = |(name, check): Check| match options.pku || !WITH_KEYS.contains(&name) {
        true => (name, check(&runs).map_err(Failure::from)),
        false => (name, Err(Failure::Skipped(ABOUT_KEYS.into()))),
    };
    let checks =
        CALLS.into_iter().chain(KEYS).chain(ITC).chain(PAGES).chain(OF_PROGRAMS).chain(FEW_MESSAGES).chain(MESSAGES);
    Ok(checks.filter(|(name, _)| names.contains(name)).map(judge).collect())
}

pub fn find<'a>(ours: &'a Ours, case: &str, way: &str, bytes: u64, unit: &str) -> Result<&'a Figure> {
    let same = |f: &&Figure| f.case == case && f.way == way && f.bytes == bytes && f.unit == unit;
    ours.figures.iter().find(same).with_context(|| format!("no {unit} of {case} with {bytes} bytes by {way}"))
}

/// Operations on files of their own, their bytes, and how many thousandths of what one thread does each of two and four side by side does at least.
const OWN_FILES: [(&str, u64, u64); 4] =
    [("write", 4096, 900), ("read", 4096, 900), ("open-and-close", 0, 750), ("make-and-remove", 0, 750)];
/// The same of files of their own in one directory, whose names have a lock.
const ONE_DIRECTORY: u64 = 600;
/// What four do at most that wait for one another all the time: else who waits is not seen.
const ONE_FILE: u64 = 2000;

/// Threads with files of their own execute no more for each operation than one alone, and do not wait for one another; and what is loaded needs no call.
fn files_by_many_threads(runs: &Runs) -> Result<()> {
    let figures = runs.of("files")?;
    let beside = |case, way, bytes| find(figures, case, way, bytes, count::BESIDE).map(|figure| figure.value);
    for (case, bytes, least) in OWN_FILES.into_iter().chain([("load", 4096, 0)]) {
        let taken = |way| find(figures, case, way, bytes, unit::INSTRUCTIONS).map(|figure| figure.value);
        let alone = taken("1-thread")?;
        for (way, threads) in [("2-threads", 2), ("4-threads", 4)] {
            let each = taken(way)?;
            ensure!(each * 100 <= alone * 110, "{case}: {each} by {way}, {alone} by one");
            find(figures, case, way, bytes, "permille")?;
            let gained = beside(case, way, bytes)?;
            ensure!(gained >= least * threads, "{case} by {way}: {gained} thousandths of what one does");
        }
        ensure!(case == "load" || alone > 1000, "{case}: {alone} is too little for a call that does something");
    }
    for (way, threads) in [("2-threads", 2), ("4-threads", 4)] {
        let gained = beside("make-and-remove-in-one-directory", way, 0)?;
        ensure!(gained >= ONE_DIRECTORY * threads, "in one directory {gained} thousandths by {way} of what one does");
    }
    let gained = beside("write-to-one-file", "4-threads", 4096)?;
    ensure!(gained <= ONE_FILE, "four that write to one file do {gained} thousandths of what one does");
    Ok(())
}

/// Entries of whoever the timer wakes in the middle of a round, at most.
const WOKEN: u64 = 8;

/// Locked operations, and instructions, of what the kernel does once in hundreds of calls besides, without being entered for it.
const SELDOM: (u64, u64) = (2, 64);

/// A number that all rounds agree on, but for those in which the timer has come, or the kernel has done what it seldom does.
pub fn exact(ours: &Ours, case: &str, way: &str, bytes: u64, unit: &str) -> Result<u64> {
    let figure = find(ours, case, way, bytes, unit)?;
    // The machine's timer may come once in a while, for somebody else, who then runs: the counted entries show it.
    let timer = |of: &Figure| (of.value + 1..=of.value + WOKEN).contains(&of.max);
    let forgiven = || find(ours, case, way, bytes, count::ENTRIES).is_ok_and(timer);
    let is_little = unit != unit::INSTRUCTIONS || figure.max <= figure.value + SELDOM.1;
    let seldom =
        || is_little && find(ours, case, way, bytes, count::LOCKED).is_ok_and(|of| of.max == of.value + SELDOM.0);
    let alike = figure.min == figure.value && (figure.max == figure.value || forgiven() || seldom());
    ensure!(alike, "not every round is alike: {}", figure.line());
    Ok(figure.value)
}

fn two_runs_are_the_same(runs: &Runs) -> Result<()> {
    for [one, other] in [runs.twice("calls")?, runs.twice("spawn")?] {
        for (one, other) in one.figures.iter().zip(&other.figures) {
            ensure!(one == other, "two runs differ:\n{}\n{}", one.line(), other.line());
        }
        ensure!(one.figures.len() == other.figures.len(), "two runs print not the same number of figures");
    }
    Ok(())
}

/// The kernel's counters, and the guest's clock, against the instructions that were seen to be executed.
fn counted_from_two_sides(runs: &Runs) -> Result<()> {
    for ours in [runs.of("calls")?, runs.of("sizes")?, runs.of("spawn")?] {
        let totals: Vec<&Figure> = ours.figures.iter().filter(|figure| figure.is_total()).collect();
        ensure!(totals.len() == ours.cases.len(), "{} cases, {} of them seen", totals.len(), ours.cases.len());
        for (total, case) in totals.iter().zip(&ours.cases) {
            let counted = |unit| find(ours, &total.case, &total.way, total.bytes, unit).map(|figure| figure.value);
            let seen = |what| case.summary(|round| round.count(what)).map(|(median, ..)| median).context("no rounds");
            let (entries, swaps) = (counted(count::ENTRIES)?, seen(Costly::Swap)?);
            // On its caller's stack one of a call's entries is counted by the kernel and comes with no swap: why was not looked into (caveats).
            let around = u64::from(total.way == "caller-stack");
            ensure!(swaps == 2 * (entries - around), "{entries} kernel entries, but {swaps} swaps: {}", total.line());
            let (roots, written) = (counted(count::VIEWS)? + counted(count::FLUSHES)?, seen(Costly::RootWrite)?);
            // What is left are flushes of up to 16 pages each, one by one.
            let (by_pages, pages) = (roots.checked_sub(written), seen(Costly::PageFlush)?);
            let agree = by_pages.is_some_and(|flushes| (flushes..=16 * flushes).contains(&pages));
            ensure!(
                agree,
                "{roots} switches and flushes, but {written}, and {pages} of pages, were seen: {}",
                total.line()
            );
            let (instructions, ..) = case.summary(|round| round.instructions).context("no rounds")?;
            // An instruction that faults is seen at each attempt, and ticks once.
            let faults = if ours.figures[0].bench == "spawn" { entries } else { 0 };
            // What the compiler puts between a mark and the time stamp beside it is seen, and taken off the ticks.
            let between = 4;
            let agree = (total.value..=total.value + faults + between).contains(&instructions);
            ensure!(agree, "{instructions} instructions were seen: {}", total.line());
        }
    }
    Ok(())
}

fn null_call(runs: &Runs) -> Result<()> {
    let bound =
        [("epc-h", [0, 0, 4, 0, 0, 0]), ("epc-s", if runs.has_keys { [2, 0, 2, 0, 0, 0] } else { [2, 2, 0, 0, 0, 0] })];
    for (way, expected) in bound.into_iter().filter(|(way, _)| runs.ways().any(|w| w == *way)) {
        let counted = |unit| exact(runs.of("calls")?, "NullProc", way, 0, unit);
        let counts =
            [count::ENTRIES, count::VIEWS, count::KEYS, count::FLUSHES, count::COPIED, count::LOCKED].map(counted);
        let counts = counts.into_iter().collect::<Result<Vec<u64>>>()?;
        ensure!(counts == expected, "{way}: {counts:?}");
    }
    let counted = |unit| exact(runs.of("calls")?, "NullProc", "plain", 0, unit);
    ensure!(
        (counted(count::ENTRIES)?, counted(count::COPIED)?) == (2, 0),
        "a plain call enters twice and copies nothing"
    );
    Ok(())
}

/// CUBIX-14: a bound call with keys enters the kernel in no round, whatever is passed, by address or copied by the stub: as the
/// kernel counts, and as was seen from outside.
fn bound_calls_stay_outside(runs: &Runs) -> Result<()> {
    let ipc = runs.of("ipc")?;
    let mut rows = vec![("NullProc", "epc-h", 0)];
    for bytes in SIZES {
        rows.extend(["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"].map(|case| (case, "epc-h", bytes)));
        rows.extend(["ArgNoRtn", "ArgRtn_Copy"].map(|case| (case, "epc-h-copied", bytes)));
    }
    // (A picture of 1 MiB takes longer than a quantum: others' time-outs may come in between.)
    let is_long = |case: &str, bytes: u64| case == "ColourMap" && bytes == 1 << 20;
    rows.extend(SIZES.map(|bytes| ("ColourMap", "epc-h", bytes)).into_iter().filter(|row| !is_long(row.0, row.2)));
    for &(case, way, bytes) in &rows {
        let entries = find(ipc, case, way, bytes, count::ENTRIES)?;
        // As for `exact`: the timer's entry is none of a call's. (Of what is seen from outside below no more than half may be, either.)
        ensure!(entries.value == 0 && entries.max <= 1, "a bound call enters the kernel: {}", entries.line());
    }
    let totals: Vec<&Figure> = ipc.figures.iter().filter(|figure| figure.is_total()).collect();
    ensure!(totals.len() == ipc.cases.len(), "{} cases, {} of them seen", totals.len(), ipc.cases.len());
    let looked_at =
        |total: &Figure| ["epc-h", "epc-h-copied"].contains(&total.way.as_str()) && !is_long(&total.case, total.bytes);
    let direct: Vec<_> = totals.iter().zip(&ipc.cases).filter(|(total, _)| looked_at(total)).collect();
    ensure!(direct.len() == rows.len(), "{} rows of bound calls, {} are looked at", direct.len(), rows.len());
    for (total, case) in direct {
        let (_, _, swaps) = case.summary(|round| round.count(Costly::Swap)).context("no rounds")?;
        // In and out of the kernel for the timer, which belongs to nobody's call.
        let interrupted = case.rounds_with(|round| round.count(Costly::Swap) > 0);
        ensure!(swaps <= 4 && interrupted <= 2, "{swaps} swaps were seen, in {interrupted} rounds: {}", total.line());
    }
    // Who counts does count.
    ensure!(exact(ipc, "NullProc", "epc-s", 0, count::ENTRIES)? == 2, "a call by the kernel enters it twice");
    Ok(())
}

/// CUBIX-U1, U5: servers that fit the keys are called without the kernel, and who has no key is called all the same.
fn keys_are_earned(runs: &Runs) -> Result<()> {
    let of = |case: &str, way: &str, unit: &str| find(runs.of("keys")?, case, way, 0, unit).map(|figure| figure.value);
    for case in ["in-turn-1", "in-turn-8", "in-turn-12"] {
        ensure!(of(case, "epc-h", count::ENTRIES)? == 0, "{case}: the kernel takes part");
    }
    let taken = of("in-turn-40", "epc-h", "keys-taken")?;
    ensure!(taken <= of("in-turn-40", "epc-h", "keys-missed")? / 4 + 1, "{taken} keys changed hands");
    Ok(())
}

/// A call that is refused by the kernel does not get to the callee; one that the callee refuses does.
fn refused_calls(runs: &Runs) -> Result<()> {
    for (case, way, bytes, views) in
        [("refused", "epc-s", 0, 0), ("refused-pointer", "plain", 64, 2), ("no-such-call", "kernel-call", 0, 0)]
    {
        let switched = exact(runs.of("calls")?, case, way, bytes, count::VIEWS)?;
        ensure!(switched == views, "{case}: {switched} switches of view");
    }
    Ok(())
}

fn steps_of_a_call(runs: &Runs) -> Result<()> {
    let calls = runs.of("calls")?;
    let steps = |way: &str| -> Vec<(&str, u64)> {
        let figures = calls.figures.iter().filter(|figure| figure.way == way);
        let of = figures.filter_map(|f| match f.case_and_step() {
            ("NullProc", Some(step)) => Some((step, f.value)),
            _ => None,
        });
        of.collect()
    };
    let direct = &["caller there", "gate there", "callee", "gate back", "caller back"][..];
    let entering =
        &["caller there", "gate 1", "kernel there", "callee", "gate 2", "kernel back", "gate 3", "caller back"];
    let faulting = &["caller there", "kernel there", "callee", "gate there", "kernel back", "gate back", "caller back"];
    let expected = [("epc-h", direct), ("epc-s", entering), ("plain", faulting)];
    for (way, expected) in expected.into_iter().filter(|(way, _)| runs.ways().any(|w| w == *way)) {
        let steps = steps(way);
        let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        ensure!(names == expected, "{way}: {names:?}");
        let (sum, total) = (
            steps.iter().map(|(_, n)| n).sum::<u64>(),
            exact(runs.of("calls")?, "NullProc", way, 0, unit::INSTRUCTIONS)?,
        );
        ensure!(sum == total, "{way}: the steps come to {sum}, the whole to {total}");
    }
    Ok(())
}

pub const SIZES: [u64; 5] = [64, 2 << 10, 4 << 10, 8 << 10, 1 << 20];

/// CUBIX-29: to the instruction.
fn size_does_not_matter(runs: &Runs) -> Result<()> {
    for way in runs.ways() {
        for case in ["ArgNoRtn", "ArgRtn_NoCopy"] {
            for unit in [unit::INSTRUCTIONS, count::COPIED, count::ENTRIES, count::VIEWS, count::LOCKED] {
                let all = SIZES.map(|bytes| exact(runs.of("sizes")?, case, way, bytes, unit));
                let all = all.into_iter().collect::<Result<Vec<u64>>>()?;
                ensure!(all.windows(2).all(|pair| pair[0] == pair[1]), "{case} by {way}: {unit} by size: {all:?}");
                ensure!(unit != count::COPIED || all[0] == 0, "{case} by {way} copies {} bytes", all[0]);
            }
        }
    }
    Ok(())
}

fn matrix_of_sizes(runs: &Runs) -> Result<()> {
    for way in runs.ways() {
        find(runs.of("sizes")?, "NullProc", way, 0, unit::INSTRUCTIONS)?;
        for case in ["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"] {
            for bytes in SIZES {
                find(runs.of("sizes")?, case, way, bytes, unit::INSTRUCTIONS)?;
            }
        }
    }
    Ok(())
}

/// By the callee, which makes the result of the data; and by the stub, which takes data from where the callee cannot reach them, and brings the result back.
fn copies_are_counted(runs: &Runs) -> Result<()> {
    for bytes in SIZES {
        let cases = runs.ways().filter(|way| *way != "plain").flat_map(|way| {
            [("ArgRtn_Copy", way, "", 1), ("ArgNoRtn", way, "-copied", 1), ("ArgRtn_Copy", way, "-copied", 4)]
        });
        for (case, way, how, times) in cases {
            let way = &format!("{way}{how}");
            let copied = exact(runs.of("sizes")?, case, way, bytes, count::COPIED)?;
            ensure!(copied == times * bytes, "{case} of {bytes} bytes by {way}: {copied} bytes are copied");
            let copies = exact(runs.of("sizes")?, case, way, bytes, count::COPIES)?;
            ensure!(copies == times, "{case} of {bytes} bytes by {way}: {copies} copies");
        }
    }
    Ok(())
}

fn text(output: &Output, status: i32) -> Result<&str> {
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(status), "it ended with {}: {said}", output.status);
    Ok(str::from_utf8(&output.stdout)?)
}

fn lines_for_programs(runs: &Runs) -> Result<()> {
    let json = runs.front(&["calls", "--json"])?;
    let text = text(&json, 0)?;
    let figures = Figure::read(text)?;
    for (line, figure) in text.lines().zip(&figures) {
        ensure!(line == figure.line(), "not in the form that is promised: {line}");
    }
    let (measured, papers): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(|f| f.source == Source::Measured);
    ensure!(measured.len() == runs.of("calls")?.figures.len(), "{} figures of ours", measured.len());
    ensure!(
        papers.iter().any(|f| f.system == "cubix386" && f.way == "epc-s" && f.value == 163),
        "no figures of the paper"
    );
    Ok(())
}

/// What `--json` prints of `ipc` (these are its lines, read): every case by every way with every size, called as scripts know them, once.
fn lines_of_ipc(runs: &Runs) -> Result<()> {
    let patterns = ["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"];
    let ways = ["plain", "epc-s", "epc-h", "itc-initial", "itc-improved"];
    for way in ways.into_iter().filter(|way| runs.has_keys || *way != "epc-h") {
        let mut rows = vec![("NullProc".to_string(), 0)];
        rows.extend(patterns.into_iter().chain(["ColourMap"]).flat_map(|case| SIZES.map(|bytes| (case.into(), bytes))));
        if way.starts_with("itc") {
            rows.push(("NullProc-async".into(), 0));
            rows.extend(patterns.into_iter().flat_map(|case| SIZES.map(|bytes| (format!("{case}-async"), bytes))));
        }
        for (case, bytes) in rows {
            for unit in [unit::INSTRUCTIONS].into_iter().chain(count::ALL) {
                let is_it = |f: &&Figure| f.case == case && f.way == way && f.bytes == bytes && f.unit == unit;
                let lines = runs.of("ipc")?.figures.iter().filter(is_it).count();
                ensure!(lines == 1, "{lines} lines of {unit} of {case} with {bytes} bytes by {way}");
            }
        }
    }
    Ok(())
}

fn table_for_people(runs: &Runs) -> Result<()> {
    let table = runs.front(&["sizes"])?;
    let text = text(&table, 0)?;
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("case ")).collect();
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    ensure!(heads.len() == 6, "a table for each pattern, steps, and counts, not {}:\n{text}", heads.len());
    ensure!(words(heads[1])[..8] == ["case", "way", "system", "64", "2048", "4096", "8192", "1048576"], "{}", heads[1]);
    ensure!(words(heads[4]) == ["case", "bytes", "way", "steps"], "{}", heads[4]);
    ensure!(words(heads[5])[3..] == count::ALL, "{}", heads[5]);
    for total in runs.of("sizes")?.figures.iter().filter(|figure| figure.is_total()) {
        let Figure { case, bytes, way, value, .. } = total;
        let at = 3 + SIZES.iter().position(|size| size == bytes).unwrap_or(0);
        let has = |row: &Vec<String>| row.get(at) == Some(&value.to_string());
        let rows = text.lines().map(words).filter(|row| row.starts_with(&[case.clone(), way.clone(), "musubi".into()]));
        ensure!(rows.filter(has).count() == 1, "no {value} of {case} with {bytes} bytes by {way} in\n{text}");
    }
    ensure!(
        text.contains("1.070 ms (cubix386 epc-s)") && text.contains("i486DX2-66"),
        "no figures of the paper:\n{text}"
    );
    let mut shares = 0;
    for line in text.lines().filter(|line| line.contains(" %)")) {
        let parts = line.split('(').skip(1).filter_map(|part| part.split_once(" %)")?.0.parse::<u64>().ok());
        let sum: u64 = parts.sum();
        ensure!(sum == 100, "the shares come to {sum} %: {line}");
        shares += 1;
    }
    ensure!(shares > 0, "no shares of steps in\n{text}");
    Ok(())
}

/// Nanoseconds, of the same cases by the same ways. How many is not asserted, but that it is time: a call by the kernel takes some.
fn wall_time_has_every_case(runs: &Runs) -> Result<()> {
    let words = |figures: &[Figure]| -> Vec<(String, String, u64)> {
        let totals = figures.iter().filter(|figure| figure.is_total());
        totals.map(|f| (f.case.clone(), f.way.clone(), f.bytes)).collect()
    };
    let (timed, counted) = (words(runs.wall()?), words(&runs.of("calls")?.figures));
    ensure!(timed == counted, "timed: {timed:?}, counted: {counted:?}");
    let is_time = |f: &Figure| f.unit == unit::NANOSECONDS || f.unit == unit::LATE;
    let good = |f: &&Figure| is_time(f) && f.value > 0 && f.min <= f.value && f.value <= f.max;
    let bad = runs.wall()?.iter().find(|figure| !good(figure));
    ensure!(bad.is_none(), "no time: {}", bad.map(Figure::line).unwrap_or_default());
    // What 99 of a hundred do not exceed lies between the median and the greatest.
    for total in runs.wall()?.iter().filter(|figure| figure.is_total()) {
        let is_its = |f: &&Figure| f.unit == unit::LATE && f.is_about(total) && f.way == total.way;
        let late = runs.wall()?.iter().find(is_its).with_context(|| format!("no p99 of {}", total.line()))?;
        ensure!((total.value..=total.max).contains(&late.value), "{} of {}", late.line(), total.line());
    }
    Ok(())
}

fn missing_peer_is_said(runs: &Runs) -> Result<()> {
    let peer = runs.front(&["calls", "--peer", "linux"])?;
    let ours = text(&peer, 1)?;
    let said = String::from_utf8_lossy(&peer.stderr);
    ensure!(said.contains("the peer could not be run") && said.contains("linux-image-amd64"), "{said}");
    let row = ours.lines().find(|line| line.starts_with("NullProc")).context("no figures of ours")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    ensure!(cells[4..8] == ["-"; 4], "a peer that did not run has figures: {row}");
    Ok(())
}

//! Benchmarks: what they print, that it is exact, and that what is counted is what happened. How fast anything is, is never
//! asserted.

use crate::case::{Case, File, several, sh};
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, bail, ensure};
use machine::Options;
use measure::{ASYNC, ASYNC_CALLS, Bench, Figure, Ours, Setup, Source, count, unit};
use std::process::{Command, Output};
use tally::Costly;

mod pool;

pub fn cases() -> Vec<Case> {
    vec![
        sh("no_such_benchmark", "bench calls nosuch").status(2).err(
            "bench: nosuch: no such benchmark; there are calls, files, ipc, jobs, keys, pool, sizes, spawn, sched\n",
        ),
        several("figures", &CHECKS.map(|(name, _)| name), all),
    ]
}

type Check = (&'static str, fn(&Runs) -> Result<()>);
const CHECKS: [Check; 22] = [
    ("keys_are_earned", keys_are_earned),
    ("two_runs_are_the_same", two_runs_are_the_same),
    ("counted_from_two_sides", counted_from_two_sides),
    ("null_call", null_call),
    ("bound_calls_stay_outside", bound_calls_stay_outside),
    ("refused_calls", refused_calls),
    ("steps_of_a_call", steps_of_a_call),
    ("size_does_not_matter", size_does_not_matter),
    ("matrix_of_sizes", matrix_of_sizes),
    ("itc_by_size", itc_by_size),
    ("itc_is_counted", itc_is_counted),
    ("switches_have_parts", switches_have_parts),
    ("files_by_many_threads", files_by_many_threads),
    ("messages_beside_idle_processors", pool::messages_beside_idle_processors),
    ("messages_beside_rendezvous", pool::messages_beside_rendezvous),
    ("messages_to_a_clock", pool::messages_to_a_clock),
    ("a_service_on_all_processors", pool::a_service_on_all_processors),
    ("itc_without_waiting", itc_without_waiting),
    ("copies_are_counted", copies_are_counted),
    ("lines_for_programs", lines_for_programs),
    ("table_for_people", table_for_people),
    ("missing_peer_is_said", missing_peer_is_said),
];

/// What was measured, and what the front tool made of it.
struct Runs {
    calls: [Ours; 2],
    sizes: Ours,
    ipc: Ours,
    keys: Ours,
    sched: Ours,
    files: Ours,
    pool: Ours,
    spawn: [Ours; 2],
    table: Output,
    json: Output,
    peer: Output,
}

fn all(lab: &Lab, _: &Options) -> Result<Vec<Found>, Failure> {
    let plugin = lab.workspace().host_library("musubi-plugin")?;
    let setup = Setup { parts: lab.parts(), plugin: &plugin, kvm: false };
    let measure = |name: &str| Ours::measure(&setup, &Bench::find(name).context("there is no such benchmark")?);
    // An apt that knows no package: there is no Linux to be had.
    let folder = lab.folder(&[File::Made {
        guest: "apt.conf",
        data: b"Dir::State::lists \"/nonexistent\";\nDir::Cache \"/nonexistent\";\n".to_vec(),
        executable: false,
    }])?;
    let apt = folder.path("apt.conf");
    let front = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["musubi", "bench"]).args(words).current_dir(lab.workspace().top()).env("APT_CONFIG", &apt);
        command.output().context("./musubi bench does not start")
    };
    let runs = Runs {
        calls: [measure("calls")?, measure("calls")?],
        sizes: measure("sizes")?,
        ipc: measure("ipc")?,
        keys: measure("keys")?,
        sched: measure("sched")?,
        files: measure("files")?,
        pool: measure("pool")?,
        spawn: [measure("spawn")?, measure("spawn")?],
        table: front(&["sizes"])?,
        json: front(&["calls", "--json"])?,
        peer: front(&["calls", "--peer", "linux"])?,
    };
    Ok(CHECKS.map(|(name, check)| (name, check(&runs).map_err(Failure::from))).into())
}

fn find<'a>(ours: &'a Ours, case: &str, way: &str, bytes: u64, unit: &str) -> Result<&'a Figure> {
    let same = |f: &&Figure| f.case == case && f.way == way && f.bytes == bytes && f.unit == unit;
    ours.figures.iter().find(same).with_context(|| format!("no {unit} of {case} with {bytes} bytes by {way}"))
}

/// Threads with files of their own execute no more for each operation than one alone; and what is loaded needs no call.
fn files_by_many_threads(runs: &Runs) -> Result<()> {
    for case in ["make-and-remove", "open-and-close", "write", "read", "load"] {
        let bytes = if ["write", "read", "load"].contains(&case) { 4096 } else { 0 };
        let taken = |way| find(&runs.files, case, way, bytes, unit::INSTRUCTIONS).map(|figure| figure.value);
        let alone = taken("1-thread")?;
        for way in ["2-threads", "4-threads"] {
            let each = taken(way)?;
            ensure!(each * 100 <= alone * 110, "{case}: {each} by {way}, {alone} by one");
            find(&runs.files, case, way, bytes, "permille")?;
            // As many times as fast as there are threads, if each has a processor of its own.
            let (share, threads) =
                (find(&runs.files, case, way, bytes, count::BY_SHARE)?.value, way.as_bytes()[0] - b'0');
            ensure!(share >= 900 * u64::from(threads), "{case} by {way}: {share} thousandths of what one does");
        }
        ensure!(case == "load" || alone > 1000, "{case}: {alone} is too little for a call that does something");
    }
    Ok(())
}

/// A number that all rounds agree on.
fn exact(ours: &Ours, case: &str, way: &str, bytes: u64, unit: &str) -> Result<u64> {
    let figure = find(ours, case, way, bytes, unit)?;
    ensure!(figure.min == figure.max, "not every round is alike: {}", figure.line());
    Ok(figure.value)
}

fn two_runs_are_the_same(runs: &Runs) -> Result<()> {
    for [one, other] in [&runs.calls, &runs.spawn] {
        for (one, other) in one.figures.iter().zip(&other.figures) {
            ensure!(one == other, "two runs differ:\n{}\n{}", one.line(), other.line());
        }
        ensure!(one.figures.len() == other.figures.len(), "two runs print not the same number of figures");
    }
    Ok(())
}

/// The kernel's counters, and the guest's clock, against the instructions that were seen to be executed.
fn counted_from_two_sides(runs: &Runs) -> Result<()> {
    for ours in [&runs.calls[0], &runs.sizes, &runs.spawn[0]] {
        let totals: Vec<&Figure> = ours.figures.iter().filter(|figure| figure.is_total()).collect();
        ensure!(totals.len() == ours.cases.len(), "{} cases, {} of them seen", totals.len(), ours.cases.len());
        for (total, case) in totals.iter().zip(&ours.cases) {
            let counted = |unit| find(ours, &total.case, &total.way, total.bytes, unit).map(|figure| figure.value);
            let seen = |what| case.summary(|round| round.count(what)).map(|(median, ..)| median).context("no rounds");
            let (entries, swaps) = (counted(count::ENTRIES)?, seen(Costly::Swap)?);
            ensure!(swaps == 2 * entries, "{entries} kernel entries, but {swaps} swaps: {}", total.line());
            let (roots, written) = (counted(count::VIEWS)? + counted(count::FLUSHES)?, seen(Costly::RootWrite)?);
            ensure!(roots == written, "{roots} switches and flushes, but {written} were seen: {}", total.line());
            ensure!(seen(Costly::PageFlush)? == 0, "flushes of pages that nobody counts: {}", total.line());
            let (instructions, ..) = case.summary(|round| round.instructions).context("no rounds")?;
            // An instruction that faults is seen at each attempt, and ticks once.
            let faults = if ours.figures[0].bench == "spawn" { entries } else { 0 };
            let agree = (total.value..=total.value + faults).contains(&instructions);
            ensure!(agree, "{instructions} instructions were seen: {}", total.line());
        }
    }
    Ok(())
}

fn null_call(runs: &Runs) -> Result<()> {
    for (way, expected) in [("epc-h", [0, 0, 4, 0, 0, 0]), ("epc-s", [2, 0, 2, 0, 0, 0])] {
        let counted = |unit| exact(&runs.calls[0], "NullProc", way, 0, unit);
        let counts =
            [count::ENTRIES, count::VIEWS, count::KEYS, count::FLUSHES, count::COPIED, count::LOCKED].map(counted);
        let counts = counts.into_iter().collect::<Result<Vec<u64>>>()?;
        ensure!(counts == expected, "{way}: {counts:?}");
    }
    let counted = |unit| exact(&runs.calls[0], "NullProc", "plain", 0, unit);
    ensure!(
        (counted(count::ENTRIES)?, counted(count::COPIED)?) == (2, 0),
        "a plain call enters twice and copies nothing"
    );
    Ok(())
}

/// CUBIX-14: a bound call with keys enters the kernel in no round, whatever is passed, by address or copied by the stub: as the
/// kernel counts, and as was seen from outside.
fn bound_calls_stay_outside(runs: &Runs) -> Result<()> {
    let ipc = &runs.ipc;
    let mut rows = vec![("NullProc", "epc-h", 0)];
    for bytes in SIZES {
        rows.extend(["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"].map(|case| (case, "epc-h", bytes)));
        rows.extend(["ArgNoRtn", "ArgRtn_Copy"].map(|case| (case, "epc-h-copied", bytes)));
    }
    rows.extend([2 << 10, 4 << 10, 8 << 10].map(|bytes| ("ColourMap", "epc-h", bytes)));
    for &(case, way, bytes) in &rows {
        let entries = find(ipc, case, way, bytes, count::ENTRIES)?;
        ensure!(entries.max == 0, "a bound call enters the kernel: {}", entries.line());
    }
    let totals: Vec<&Figure> = ipc.figures.iter().filter(|figure| figure.is_total()).collect();
    ensure!(totals.len() == ipc.cases.len(), "{} cases, {} of them seen", totals.len(), ipc.cases.len());
    let direct: Vec<_> = totals.iter().zip(&ipc.cases).filter(|(total, _)| total.way.starts_with("epc-h")).collect();
    ensure!(direct.len() == rows.len(), "{} rows of bound calls, {} are looked at", direct.len(), rows.len());
    for (total, case) in direct {
        let (_, _, swaps) = case.summary(|round| round.count(Costly::Swap)).context("no rounds")?;
        ensure!(swaps == 0, "{swaps} swaps were seen: {}", total.line());
    }
    // Who counts does count.
    ensure!(exact(ipc, "NullProc", "epc-s", 0, count::ENTRIES)? == 2, "a call by the kernel enters it twice");
    Ok(())
}

/// CUBIX-U1, U5: servers that fit the keys are called without the kernel, and who has no key is called all the same.
fn keys_are_earned(runs: &Runs) -> Result<()> {
    let of = |case: &str, way: &str, unit: &str| find(&runs.keys, case, way, 0, unit).map(|figure| figure.value);
    for case in ["in-turn-1", "in-turn-8"] {
        ensure!(of(case, "epc-h", count::ENTRIES)? == 0, "{case}: the kernel takes part");
    }
    for servers in [1, 8, 15, 40, 1000] {
        let case = format!("in-turn-{servers}");
        let (direct, by_kernel) =
            (of(&case, "epc-h", "instructions-per-call")?, of(&case, "epc-s", "instructions-per-call")?);
        ensure!(direct > 0 && by_kernel > 0, "{case} is not measured");
        ensure!(
            direct <= 2 * by_kernel,
            "{case}: who has no key is called for {direct}, by the kernel for {by_kernel}"
        );
    }
    let taken = of("in-turn-40", "epc-h", "keys-taken")?;
    ensure!(taken <= of("in-turn-40", "epc-h", "keys-missed")? / 32 + 1, "{taken} keys changed hands");
    for entries in [1, 10, 100, 1000] {
        for step in ["change", "miss"] {
            ensure!(of(&format!("list-of-{entries}/{step}"), "kernel-call", unit::INSTRUCTIONS)? > 0, "no {step}");
        }
    }
    Ok(())
}

/// A call that is refused by the kernel does not get to the callee; one that the callee refuses does.
fn refused_calls(runs: &Runs) -> Result<()> {
    for (case, way, bytes, views) in
        [("refused", "epc-s", 0, 0), ("refused-pointer", "plain", 64, 2), ("no-such-call", "kernel-call", 0, 0)]
    {
        let switched = exact(&runs.calls[0], case, way, bytes, count::VIEWS)?;
        ensure!(switched == views, "{case}: {switched} switches of view");
    }
    Ok(())
}

fn steps_of_a_call(runs: &Runs) -> Result<()> {
    let steps = |way: &str| -> Vec<(&str, u64)> {
        let figures = runs.calls[0].figures.iter().filter(|figure| figure.way == way);
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
    for (way, expected) in [("epc-h", direct), ("epc-s", entering), ("plain", faulting)] {
        let steps = steps(way);
        let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
        ensure!(names == expected, "{way}: {names:?}");
        let (sum, total) =
            (steps.iter().map(|(_, n)| n).sum::<u64>(), exact(&runs.calls[0], "NullProc", way, 0, unit::INSTRUCTIONS)?);
        ensure!(sum == total, "{way}: the steps come to {sum}, the whole to {total}");
    }
    Ok(())
}

const SIZES: [u64; 5] = [64, 2 << 10, 4 << 10, 8 << 10, 1 << 20];

/// CUBIX-29: to the instruction.
fn size_does_not_matter(runs: &Runs) -> Result<()> {
    for way in ["epc-h", "epc-s", "plain"] {
        for case in ["ArgNoRtn", "ArgRtn_NoCopy"] {
            for unit in [unit::INSTRUCTIONS, count::COPIED, count::ENTRIES, count::VIEWS, count::LOCKED] {
                let all = SIZES.map(|bytes| exact(&runs.sizes, case, way, bytes, unit));
                let all = all.into_iter().collect::<Result<Vec<u64>>>()?;
                ensure!(all.windows(2).all(|pair| pair[0] == pair[1]), "{case} by {way}: {unit} by size: {all:?}");
                ensure!(unit != count::COPIED || all[0] == 0, "{case} by {way} copies {} bytes", all[0]);
            }
        }
    }
    Ok(())
}

fn matrix_of_sizes(runs: &Runs) -> Result<()> {
    for way in ["epc-h", "epc-s", "plain"] {
        find(&runs.sizes, "NullProc", way, 0, unit::INSTRUCTIONS)?;
        for case in ["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy"] {
            for bytes in SIZES {
                find(&runs.sizes, case, way, bytes, unit::INSTRUCTIONS)?;
            }
        }
    }
    Ok(())
}

/// Calls that are under way together: each of the patterns, by size alike unless data are copied, for less than a call that is
/// waited for. (The figure is what one call comes to: as the instructions say that were seen from outside.)
fn itc_without_waiting(runs: &Runs) -> Result<()> {
    let value = |case: &str, way: &str, bytes, unit| find(&runs.ipc, case, way, bytes, unit).map(|figure| figure.value);
    for way in ITC {
        let waited = value("NullProc", way, 0, unit::INSTRUCTIONS)?;
        let null = value("NullProc-async", way, 0, unit::INSTRUCTIONS)?;
        ensure!(0 < null && null < waited, "{way}: {null} a call, {waited} if each is waited for");
        for (case, copies) in [("ArgNoRtn-async", 0), ("ArgRtn_NoCopy-async", 0), ("ArgRtn_Copy-async", ASYNC_CALLS)] {
            for bytes in SIZES {
                let (one, copied) =
                    (value(case, way, bytes, unit::INSTRUCTIONS)?, value(case, way, bytes, count::COPIED)?);
                ensure!(copied == copies * bytes, "{case} of {bytes} bytes by {way}: {copied} bytes are copied");
                let times = value(case, way, bytes, count::COPIES)?;
                ensure!(times == copies, "{case} of {bytes} bytes by {way}: {times} copies");
                ensure!(copies > 0 || one < waited, "{case} of {bytes} bytes by {way}: {one}, and waited for {waited}");
            }
        }
    }
    let totals = runs.ipc.figures.iter().filter(|figure| figure.is_total());
    for (total, case) in totals.zip(&runs.ipc.cases).filter(|(total, _)| total.case.ends_with(ASYNC)) {
        let (seen, ..) = case.summary(|round| round.instructions).context("no rounds")?;
        ensure!(seen.abs_diff(total.value * ASYNC_CALLS) <= ASYNC_CALLS, "{seen} were seen: {}", total.line());
    }
    Ok(())
}

const ITC: [&str; 2] = ["itc-improved", "itc-initial"];

/// CUBIX-40: within 2 %, and the copy costs what it costs by a call.
fn itc_by_size(runs: &Runs) -> Result<()> {
    let value =
        |case: &str, way: &str, bytes| find(&runs.ipc, case, way, bytes, unit::INSTRUCTIONS).map(|figure| figure.value);
    for way in ITC {
        let null = value("NullProc", way, 0)?;
        for case in ["ArgNoRtn", "ArgRtn_NoCopy"] {
            let all = SIZES.map(|bytes| value(case, way, bytes)).into_iter().collect::<Result<Vec<u64>>>()?;
            let (least, most) = all.iter().fold((u64::MAX, 0), |(low, high), n| (low.min(*n), high.max(*n)));
            ensure!(most * 100 <= least * 102, "{case} by {way}: {all:?}");
        }
        let (itc, call) = (value("ArgRtn_Copy", way, 1 << 20)?, value("ArgRtn_Copy", "epc-s", 1 << 20)?);
        ensure!(itc > call && itc - call < 2 * null, "the copy of 1 MiB: {itc} by {way}, {call} by a call");
        ensure!(null > 2 * value("NullProc", "epc-s", 0)?, "{way}: {null} instructions, two switches of threads");
    }
    Ok(())
}

/// CUBIX-62, M6: each way takes two switches of threads, each by one change of view, or four in the initial version; the
/// scheduler hears of each in the initial one. In the improved one threads call it themselves. Of calls it hears nothing.
fn itc_is_counted(runs: &Runs) -> Result<()> {
    let value = |case: &str, way: &str, bytes, unit| find(&runs.ipc, case, way, bytes, unit).map(|figure| figure.value);
    for (way, views) in ITC.into_iter().zip([4, 8]) {
        for (case, bytes) in [("NullProc", 0), ("ArgNoRtn", 8192), ("ArgRtn_NoCopy", 8192), ("ArgRtn_Copy", 8192)] {
            let [entries, switched, events, copied] =
                [count::ENTRIES, count::VIEWS, count::EVENTS, count::COPIED].map(|unit| value(case, way, bytes, unit));
            let (entries, switched, events, copied) = (entries?, switched?, events?, copied?);
            // In the improved one each switch is one change of view, and one more on either side of it until the scheduler has a key.
            let fits = if views == 8 { switched == 8 } else { (2..=4).contains(&switched) };
            ensure!(fits, "{case} by {way}: {switched} switches of view");
            ensure!((events >= 2) == (views == 8), "{case} by {way}: {events} events");
            ensure!(entries >= 2, "{case} by {way}: {entries} entries");
            ensure!(copied == if case == "ArgRtn_Copy" { bytes } else { 0 }, "{case} by {way}: {copied} bytes copied");
        }
    }
    let [improved, initial] = ITC.map(|way| value("NullProc", way, 0, unit::INSTRUCTIONS));
    let (improved, initial) = (improved?, initial?);
    ensure!(2 * improved < initial, "half the switches: {improved} instructions, {initial} in the initial version");
    for way in ["epc-h", "epc-s", ITC[0], ITC[1]] {
        for bytes in [2 << 10, 4 << 10, 8 << 10] {
            ensure!(
                value("ColourMap", way, bytes, unit::INSTRUCTIONS)? > bytes,
                "a picture of {bytes} pixels by {way}"
            );
        }
    }
    for way in ["epc-h", "epc-s", "plain"] {
        for (case, bytes) in [("NullProc", 0), ("ArgRtn_Copy", 8192)] {
            ensure!(value(case, way, bytes, count::EVENTS)? == 0, "{case} by {way} is an event for the scheduler");
        }
    }
    Ok(())
}

/// CUBIX-M7: the rows of the paper's table, for both versions, and what they must be to each other.
fn switches_have_parts(runs: &Runs) -> Result<()> {
    let value = |case: &str, way: &str, unit| find(&runs.sched, case, way, 0, unit).map(|figure| figure.value);
    for (way, switches) in [(ITC[0], 2), ("itc-improved-by-kernel", 2), (ITC[1], 4)] {
        let parts = ["switch", "call_scheduler", "thread_next"].map(|case| value(case, way, unit::INSTRUCTIONS));
        let [Ok(switch), Ok(call), Ok(next)] = parts else { bail!("{way}: a row is missing: {parts:?}") };
        ensure!(call > 0 && next > 0 && call + next < switch, "{way}: {call} and {next} of {switch}");
        // Both are ways between two programs through the kernel; one that was refused would be a third of that.
        let like = way == ITC[0] || (call < 2 * next && next < 2 * call);
        ensure!(like, "{way}: {call} instructions to the scheduler, {next} from it");
        ensure!(value("switches-per-itc", way, "switches")? == switches, "{way}: not {switches} switches");
    }
    let [improved, by_kernel, initial] =
        [ITC[0], "itc-improved-by-kernel", ITC[1]].map(|way| value("switch", way, unit::INSTRUCTIONS));
    ensure!(improved? <= 500, "a switch through the improved scheduler");
    ensure!(by_kernel? < initial?, "a switch through one level costs less than through two");
    Ok(())
}

/// By the callee, which makes the result of the data; and by the stub, which takes data from where the callee cannot reach
/// them, the room for the result too, and brings that back.
fn copies_are_counted(runs: &Runs) -> Result<()> {
    for bytes in SIZES {
        let cases = ["epc-h", "epc-s"].map(|way| {
            [("ArgRtn_Copy", way, "", 1), ("ArgNoRtn", way, "-copied", 1), ("ArgRtn_Copy", way, "-copied", 4)]
        });
        for (case, way, how, times) in cases.into_iter().flatten() {
            let way = &format!("{way}{how}");
            let copied = exact(&runs.sizes, case, way, bytes, count::COPIED)?;
            ensure!(copied == times * bytes, "{case} of {bytes} bytes by {way}: {copied} bytes are copied");
            let copies = exact(&runs.sizes, case, way, bytes, count::COPIES)?;
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
    let text = text(&runs.json, 0)?;
    let figures = Figure::read(text)?;
    for (line, figure) in text.lines().zip(&figures) {
        ensure!(line == figure.line(), "not in the form that is promised: {line}");
    }
    let (measured, papers): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(|f| f.source == Source::Measured);
    ensure!(measured.len() == runs.calls[0].figures.len(), "{} figures of ours", measured.len());
    ensure!(
        papers.iter().any(|f| f.system == "cubix386" && f.way == "epc-s" && f.value == 163),
        "no figures of the paper"
    );
    Ok(())
}

fn table_for_people(runs: &Runs) -> Result<()> {
    let text = text(&runs.table, 0)?;
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("case ")).collect();
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    ensure!(heads.len() == 6, "a table for each pattern, steps, and counts, not {}:\n{text}", heads.len());
    ensure!(words(heads[1])[..8] == ["case", "way", "system", "64", "2048", "4096", "8192", "1048576"], "{}", heads[1]);
    ensure!(words(heads[4]) == ["case", "bytes", "way", "steps"], "{}", heads[4]);
    ensure!(words(heads[5])[3..] == count::ALL, "{}", heads[5]);
    for total in runs.sizes.figures.iter().filter(|figure| figure.is_total()) {
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

fn missing_peer_is_said(runs: &Runs) -> Result<()> {
    let ours = text(&runs.peer, 1)?;
    let said = String::from_utf8_lossy(&runs.peer.stderr);
    ensure!(said.contains("the peer could not be run") && said.contains("linux-image-amd64"), "{said}");
    let row = ours.lines().find(|line| line.starts_with("NullProc")).context("no figures of ours")?;
    let cells: Vec<&str> = row.split_whitespace().collect();
    ensure!(cells[4..8] == ["-"; 4], "a peer that did not run has figures: {row}");
    Ok(())
}

//! What benchmarks say of calls that another thread serves, and of switches between threads.

use super::s80_bench::{Runs, SIZES, find};
use anyhow::{Context, Result, bail, ensure};
use measure::{ASYNC, ASYNC_CALLS, count, unit};

/// By the improved and by the initial version of the scheduler.
pub const ITC: [&str; 2] = ["itc-improved", "itc-initial"];

/// Calls that are under way together: each of the patterns, by size alike unless data are copied, for less than a call that is
/// waited for. (The figure is what one call comes to: as the instructions say that were seen from outside.)
pub fn itc_without_waiting(runs: &Runs) -> Result<()> {
    let value =
        |case: &str, way: &str, bytes, unit| find(runs.of("ipc")?, case, way, bytes, unit).map(|figure| figure.value);
    for way in ITC {
        let waited = value("NullProc", way, 0, unit::INSTRUCTIONS)?;
        let null = value("NullProc-async", way, 0, unit::INSTRUCTIONS)?;
        ensure!(0 < null && null < waited, "{way}: {null} a call, {waited} if each is waited for");
        // Counts are of a call, too.
        let [entries, alone] = ["NullProc-async", "NullProc"].map(|case| value(case, way, 0, count::ENTRIES));
        let (entries, alone) = (entries?, alone?);
        ensure!(entries <= alone, "{way}: {entries} entries a call, {alone} if each is waited for");
        for (case, copies) in [("ArgNoRtn-async", 0), ("ArgRtn_NoCopy-async", 0), ("ArgRtn_Copy-async", 1)] {
            for bytes in SIZES {
                let (one, copied) =
                    (value(case, way, bytes, unit::INSTRUCTIONS)?, value(case, way, bytes, count::COPIED)?);
                ensure!(copied == copies * bytes, "{case} of {bytes} bytes by {way}: {copied} bytes are copied");
                let times = value(case, way, bytes, count::COPIES)?;
                ensure!(times == copies, "{case} of {bytes} bytes by {way}: {times} copies");
                let waited = value(case.trim_end_matches(ASYNC), way, bytes, unit::INSTRUCTIONS)?;
                ensure!(copies > 0 || one < waited, "{case} of {bytes} bytes by {way}: {one}, and waited for {waited}");
            }
        }
    }
    let totals = runs.of("ipc")?.figures.iter().filter(|figure| figure.is_total());
    for (total, case) in totals.zip(&runs.of("ipc")?.cases).filter(|(total, _)| total.case.ends_with(ASYNC)) {
        let (seen, ..) = case.summary(|round| round.instructions).context("no rounds")?;
        ensure!(seen.abs_diff(total.value * ASYNC_CALLS) <= ASYNC_CALLS, "{seen} were seen: {}", total.line());
    }
    Ok(())
}

/// CUBIX-29, 40: the copy costs what it costs by a call. (That nothing else grows with the size: see `bars.rs`.)
pub fn itc_by_size(runs: &Runs) -> Result<()> {
    let value = |case: &str, way: &str, bytes| {
        find(runs.of("ipc")?, case, way, bytes, unit::INSTRUCTIONS).map(|figure| figure.value)
    };
    for way in ITC {
        let null = value("NullProc", way, 0)?;
        let (itc, call) = (value("ArgRtn_Copy", way, 1 << 20)?, value("ArgRtn_Copy", "epc-s", 1 << 20)?);
        ensure!(itc > call && itc - call < 2 * null, "the copy of 1 MiB: {itc} by {way}, {call} by a call");
        ensure!(null > 2 * value("NullProc", "epc-s", 0)?, "{way}: {null} instructions, two switches of threads");
        // CUBIX-29: an address that is passed by a call, to what is copied by messages of this kernel.
        let (passed, copied) = (value("ArgRtn_NoCopy", "epc-s", 8192)?, value("ArgRtn_Copy", way, 8192)?);
        ensure!(4 * passed < copied, "8 KiB by address: {passed}; by {way}, copied: {copied}");
    }
    Ok(())
}

/// CUBIX-62, M6: each way takes two switches of threads, each by one change of view, or four in the initial version; the
/// scheduler hears of each in the initial one. In the improved one threads call it themselves. Of calls it hears nothing.
pub fn itc_is_counted(runs: &Runs) -> Result<()> {
    let value =
        |case: &str, way: &str, bytes, unit| find(runs.of("ipc")?, case, way, bytes, unit).map(|figure| figure.value);
    for (way, views) in ITC.into_iter().zip([4, 8]) {
        for (case, bytes) in [("NullProc", 0), ("ArgNoRtn", 8192), ("ArgRtn_NoCopy", 8192), ("ArgRtn_Copy", 8192)] {
            let [entries, switched, events, copied] =
                [count::ENTRIES, count::VIEWS, count::EVENTS, count::COPIED].map(|unit| value(case, way, bytes, unit));
            let (entries, switched, events, copied) = (entries?, switched?, events?, copied?);
            // In the improved one each switch is one change of view, and one more on either side of it where the scheduler has no key.
            let most = if runs.has_keys { 4 } else { 6 };
            let fits = if views == 8 { switched == 8 } else { (2..=most).contains(&switched) };
            ensure!(fits, "{case} by {way}: {switched} switches of view");
            ensure!((events >= 2) == (views == 8), "{case} by {way}: {events} events");
            ensure!(entries >= 2, "{case} by {way}: {entries} entries");
            ensure!(copied == if case == "ArgRtn_Copy" { bytes } else { 0 }, "{case} by {way}: {copied} bytes copied");
        }
    }
    let [improved, initial] = ITC.map(|way| value("NullProc", way, 0, unit::INSTRUCTIONS));
    let (improved, initial) = (improved?, initial?);
    ensure!(2 * improved < initial, "half the switches: {improved} instructions, {initial} in the initial version");
    for way in runs.ways().chain(ITC) {
        for bytes in SIZES {
            ensure!(
                value("ColourMap", way, bytes, unit::INSTRUCTIONS)? > bytes,
                "a picture of {bytes} pixels by {way}"
            );
        }
    }
    for way in runs.ways() {
        for (case, bytes) in [("NullProc", 0), ("ArgRtn_Copy", 8192)] {
            ensure!(value(case, way, bytes, count::EVENTS)? == 0, "{case} by {way} is an event for the scheduler");
            // With a scheduler of either version in the seat a call is the same call, and tells it nothing.
            for seated in ["ageing", "initial"].map(|scheduler| format!("{way}-under-{scheduler}")) {
                for unit in [count::ENTRIES, count::VIEWS, count::EVENTS, count::COPIES] {
                    let (alone, under) = (value(case, way, bytes, unit)?, value(case, &seated, bytes, unit)?);
                    ensure!(alone == under, "{case} by {seated}: {under} {unit}, {alone} with nobody seated");
                }
                let [alone, under] = [way, seated.as_str()].map(|way| value(case, way, bytes, unit::INSTRUCTIONS));
                let (alone, under) = (alone?, under?);
                // Who is called plainly is found by address, among what a scheduler has added.
                ensure!(under * 100 <= alone * 105, "{case} by {seated}: {under} instructions, {alone} with nobody");
            }
        }
    }
    Ok(())
}

/// CUBIX-33: a call touches less of a cache and of a TLB than a call of another thread, whose scheduler and stack come to it; and the more
/// the kernel has to do with it, the more.
pub fn calls_touch_less(runs: &Runs) -> Result<()> {
    let ways: Vec<&str> = runs.ways().filter(|way| *way != "plain").chain(ITC).collect();
    for unit in count::TOUCHED {
        let value = |way: &&str| find(runs.of("calls")?, "NullProc", way, 0, unit).map(|figure| figure.value);
        let touched = ways.iter().map(value).collect::<Result<Vec<u64>>>()?;
        let rises = touched.is_sorted_by(|less, more| less < more) && touched[0] > 0;
        ensure!(rises, "{unit} of a call by {ways:?}: {touched:?}");
    }
    Ok(())
}

/// CUBIX-M7: the rows of the paper's table, for both versions, and what they must be to each other.
pub fn switches_have_parts(runs: &Runs) -> Result<()> {
    let value = |case: &str, way: &str, unit| find(runs.of("sched")?, case, way, 0, unit).map(|figure| figure.value);
    for (way, switches) in [(ITC[0], 2), ("itc-improved-by-kernel", 2), (ITC[1], 4)] {
        let parts = ["switch", "call_scheduler", "thread_next"].map(|case| value(case, way, unit::INSTRUCTIONS));
        let [Ok(switch), Ok(call), Ok(next)] = parts else { bail!("{way}: a row is missing: {parts:?}") };
        ensure!(call > 0 && next > 0 && call + next < switch, "{way}: {call} and {next} of {switch}");
        // Both are ways between two programs through the kernel; one that was refused would be a third of that.
        let like = way == ITC[0] || (call < 2 * next && next < 2 * call);
        ensure!(like, "{way}: {call} instructions to the scheduler, {next} from it");
        ensure!(value("switches-per-itc", way, "switches")? == switches, "{way}: not {switches} switches");
    }
    in_the_scheduler(runs)?;
    let [by_kernel, initial] = ["itc-improved-by-kernel", ITC[1]].map(|way| value("switch", way, unit::INSTRUCTIONS));
    ensure!(by_kernel? < initial?, "a switch through one level costs less than through two");
    Ok(())
}

/// CUBIX-61: what of a switch there and back is the scheduler's, as the instructions show where they were: twice in by the gate, and twice out by the
/// kernel, which are the two changes of context for each.
fn in_the_scheduler(runs: &Runs) -> Result<()> {
    const WHOLE: &str = "switch-and-back";
    let figures = || {
        let all = runs.of("sched").map(|ours| ours.figures.iter());
        all.map(|all| all.filter(|f| f.way == ITC[0] && f.unit == unit::INSTRUCTIONS))
    };
    if !runs.has_keys {
        return Ok(());
    }
    let whole = figures()?.find(|f| f.case == WHOLE).context("no switch")?.value;
    let part = |name: &str| -> Result<(usize, u64)> {
        let begins = format!("{WHOLE}/{name}");
        let all = figures()?.filter(|f| f.case.starts_with(&begins)).map(|f| f.value);
        Ok(all.fold((0, 0), |(count, sum), value| (count + 1, sum + value)))
    };
    let [callers, gates, schedulers, kernels] = ["caller", "gate", "scheduler", "kernel"].map(part);
    let (callers, gates, schedulers, kernels) = (callers?, gates?, schedulers?, kernels?);
    ensure!((gates.0, schedulers.0, kernels.0) == (4, 4, 2), "{gates:?} in the gate, {schedulers:?}, {kernels:?}");
    let sum = callers.1 + gates.1 + schedulers.1 + kernels.1;
    ensure!(sum == whole, "its parts are {sum} instructions of {whole}");
    ensure!(schedulers.1 * 100 > whole * 20 && schedulers.1 < whole, "{} of {whole} in the scheduler", schedulers.1);
    Ok(())
}

/// CUBIX-U10: a driver that the scheduler calls hears of an interrupt before one whose thread is woken, by whatever level.
pub fn interrupts(runs: &Runs) -> Result<()> {
    let value =
        |way| find(runs.of("sched")?, "interrupt/to-driver", way, 0, unit::INSTRUCTIONS).map(|figure| figure.value);
    let called = value("epc-from-scheduler")?;
    for way in ["thread-improved", "thread-initial", "thread-in-turn"] {
        let woken = value(way)?;
        ensure!(0 < called && called < woken, "{called} instructions to a driver that is called, {woken} by {way}");
        // Who waits for it gives way all the time, and nobody else is there: it is no matter of quanta.
        ensure!(woken < 40_000, "{woken} instructions to a driver by {way}");
    }
    Ok(())
}

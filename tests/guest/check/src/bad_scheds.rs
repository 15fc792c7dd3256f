//! Schedulers that go wrong: what becomes of them, and of everybody else.

mod crowded;
mod told;
mod victims;

pub use told::access;

use crate::report::{Check, Outcome, doing};
use crate::sched::{Load, client, leak, lines};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::sched::reason;
use musubi::interfaces::passing::PassingClient;
use musubi::rt::{guard, probe, sched, section, task, thread, time};
use musubi::{ended, names};

pub const CHECKS: &[Check] = &[
    ("bad_loop", || bad("loop", reason::SLOW)),
    ("bad_wrong", || bad("wrong", reason::WRONG)),
    ("bad_turn", || bad("turn", reason::WRONG)),
    ("bad_fault", || bad("fault", reason::ENDED)),
    ("bad_wait", || bad("wait", reason::WAITED)),
    ("bad_ring", || bad("ring", reason::RING)),
    ("bad_end", || bad("end", reason::ENDED)),
    ("bad_exit", || bad("exit", reason::ENDED)),
    ("who_rests_with_everybody_stays", who_rests_stays),
    ("bad_nobody", || bad("nobody", reason::NEGLECT)),
    ("faults_when_it_is_called", || torn("passing-fault", reason::ENDED)),
    ("loops_when_it_is_called", || torn("passing-loop", reason::SLOW)),
    ("private_data_are_refused", private_data_are_refused),
    ("the_initial_version_keeps_them_apart", the_initial_version_keeps_them_apart),
    ("refused_accesses_are_told", told::refused_accesses),
    ("threads_that_wait_are_refused", || told::refused_names("waits")),
    ("threads_that_run_elsewhere_are_refused", || told::refused_names("elsewhere")),
    ("a_high_level_that_fails", a_high_level_that_fails),
    ("an_initial_one_that_does_not_answer", an_initial_one_that_does_not_answer),
    ("replaced_within_10_ms", replaced_within_10_ms),
    ("given_up_within_10_ms", given_up_within_10_ms),
    ("crowd_given_back_within_10_ms", crowded::given_back),
    ("stopped_on_its_caller_within_10_ms", stopped_on_its_caller_within_10_ms),
    ("who_is_ready_goes_on_within_10_ms", victims::go_on),
];

/// In the initial version's arrangement, data about threads in the high level's own memory: the fast level, told where they
/// are, has no right to them (CUBIX-50).
fn private_data_are_refused() -> Outcome {
    let mut log = Vec::new();
    // It asks another program where they are: with many threads it may have to wait for the answer, which costs it the seat.
    for _ in 0..6 {
        let _ = bad("peek", reason::ENDED);
        log = lines(1)?;
        let refusal = "bad peek: the fast level has failed: fault: no right to read section";
        if log.iter().any(|line| line.contains(refusal)) {
            return Ok(());
        }
    }
    Err(format!("no refusal in the log: {log:?}"))
}

/// The initial version as it is: its fast level tries to read these data before it sits down, and does not where that is not refused. Nor may
/// anybody else.
fn the_initial_version_keeps_them_apart() -> Outcome {
    let chooser = client()?;
    chooser.choose("initial").map_err(doing("initial"))?;
    let (told, log) = (lines(0)?, lines(1)?);
    let theirs = section::list().find(|section| ended::text(&section.name) == "sched private");
    let theirs = theirs.ok_or("there are no such data")?.base;
    let (asked, read) = (chooser.private(), guard::run(|| probe::read(theirs)));
    chooser.choose("none").map_err(doing("none"))?;
    holds!(told.first().is_some_and(|line| line.starts_with("initial (")), "who decides: {told:?}");
    holds!(!log.iter().any(|line| line.contains(" initial: ")), "it has failed before: {log:?}");
    same!((asked, read), (Err(Error::Denied), Err(Error::Faulted)), "for who is no level of it");
    Ok(())
}

/// Where nobody is ready no scheduler is put out, however long that is.
fn who_rests_stays() -> Outcome {
    for name in ["ageing", "initial", "deadline", "share", "gang"] {
        let chooser = client()?;
        chooser.choose(name).map_err(doing(name))?;
        let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let before = gone();
        for _ in 0..4 {
            time::sleep_ns(350_000_000);
        }
        same!(gone(), before, "{name}: seats lost while everybody slept");
        chooser.choose("none").map_err(doing("none"))?;
    }
    Ok(())
}

/// How often it stands in the log that the fast level of such a bad one has ended with this status.
fn said(mode: &str, status: u64) -> Result<usize, String> {
    let line = format!("bad {mode}: the fast level has failed: it ended with status {status}");
    let is_it =
        |one: &String| one.split_once(&line).is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_ascii_digit()));
    Ok(lines(1)?.iter().filter(|one| is_it(one)).count())
}

/// The high level fails, the fast one being as it should: both are started again, everybody gets on, and `sched` shows why
/// and what was in the queues.
fn a_high_level_that_fails() -> Outcome {
    let load = Load::start(4 * task::processors().count())?;
    let chooser = client()?;
    let modes = [("fault", ": fault: "), ("end", ": it ended with status 3"), ("loop", ""), ("sleep", "")];
    for (mode, how) in modes {
        let name = format!("late {mode}");
        // It may be gone again before all seats are taken.
        let _ = chooser.choose(&name);
        let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let (before, until) = (gone(), time::now_ns() + 60_000_000_000);
        let failed = if how.is_empty() { "does not answer" } else { "has failed" };
        let why = format!("{name}: the high level {failed}{how}");
        // On a host that does not run all processors at once the fast level may be found too slow now and then.
        let again = || gone() >= before + 2 * task::processors().count() as u64;
        while !again() || !is_kept(&why)? {
            holds!(time::now_ns() < until, "{name} was not started again, or no {why:?} and queues in {:?}", lines(0)?);
            load.all_run()?;
            time::sleep_ns(5_000_000);
        }
    }
    chooser.choose("none").map_err(doing("none"))?;
    load.all_run()?;
    load.stop()
}

/// Whether `sched` shows how a scheduler has failed, and who was in its queues then.
fn is_kept(how: &str) -> Result<bool, String> {
    let told = lines(0)?;
    let has_failed =
        told.iter().any(|line| line.strip_prefix("last failure: ").is_some_and(|line| line.starts_with(how)));
    Ok(has_failed && told.iter().any(|line| line.starts_with("last failure:   cpu ") && line.contains(" level 16: ")))
}

/// A scheduler that goes wrong is put out, for the right reason; everybody gets on, it is started again, and how it ended can
/// be read, and who was in its queues.
fn bad(mode: &str, why: u64) -> Outcome {
    let load = Load::start(8)?;
    let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
    let before = gone();
    // It may be gone again before all seats are taken.
    let chooser = client()?;
    let name = format!("bad {mode}");
    let _ = chooser.choose(&name);
    let until = time::now_ns() + 60_000_000_000;
    let mut last = before;
    let (mut times, mut kept) = (0, false);
    let mut reasons = Vec::new();
    while (times < 2 || !kept) && time::now_ns() < until {
        let now = gone();
        if now > last {
            times += 1;
            last = now;
            reasons.extend(sched::seats().map(|seat| seat.reason));
            load.all_run()?;
        }
        kept |= is_kept(&format!("{name}: the fast level has failed: "))?;
        time::sleep_ns(5_000_000);
    }
    let told = lines(0)?;
    chooser.choose("none").map_err(doing("none"))?;
    load.all_run()?;
    load.stop()?;
    holds!(times >= 2, "it was put out {times} times: not started again");
    holds!(kept, "neither how it failed nor who was in its queues is shown: {told:?}");
    holds!(reasons.contains(&why), "the reasons: {reasons:?}, without {why}");
    let log = lines(1)?;
    holds!(log.iter().any(|line| line.contains(&name)), "the log does not say so: {log:?}");
    Ok(())
}

/// A scheduler goes wrong on a thread that has called it as a procedure: what it did there is torn, so it is put out like one that goes wrong
/// in its seat, and the caller hears of it.
fn torn(mode: &str, why: u64) -> Outcome {
    let load = Load::start(8)?;
    let chooser = client()?;
    let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
    let (before, until) = (gone(), time::now_ns() + 60_000_000_000);
    chooser.choose(&format!("bad {mode}")).map_err(doing(mode))?;
    let mut reasons = Vec::new();
    while !reasons.contains(&why) {
        holds!(time::now_ns() < until, "{mode}: put out {} times for {reasons:?}, not for {why}", gone() - before);
        // Another one may offer it for a moment, or nobody.
        let called = names::lookup("passing").and_then(PassingClient::bind).map(|client| {
            let answer = client.wake_up(0);
            let _ = client.unbind();
            answer
        });
        holds!(!matches!(called, Ok(Ok(()))), "{mode}: a call of what goes wrong says that it is well");
        if gone() > before {
            reasons.extend(sched::seats().map(|seat| seat.reason));
        }
        load.all_run()?;
    }
    // The server looks from time to time.
    while !lines(1)?.iter().any(|line| line.contains(&format!("bad {mode}: "))) {
        holds!(time::now_ns() < until, "the log does not say so: {:?}", lines(1)?);
        time::sleep_ns(1_000_000);
    }
    chooser.choose("none").map_err(doing("none"))?;
    load.all_run()?;
    load.stop()
}

/// In the initial version nobody runs who was not chosen by the high level. One that loops, sleeps, faults or ends is given up by
/// the fast level itself, which says so; otherwise everything would stand still until its buffer of events is full.
fn an_initial_one_that_does_not_answer() -> Outcome {
    let load = Load::start(4 * task::processors().count())?;
    let chooser = client()?;
    for (mode, or_else) in
        [("loop", None), ("sleep", None), ("fault", Some("fault: ")), ("end", Some("it ended with status 3"))]
    {
        let name = format!("mute {mode}");
        let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let (before, until) = (gone(), time::now_ns() + 60_000_000_000);
        // It may be gone again before all seats are taken.
        let _ = chooser.choose(&name);
        // Whose end is seen first: that of the high level, where it has one, or that of the fast one.
        let silent = format!("{name}: the high level does not answer");
        let failed = or_else.map(|how| format!("{name}: the high level has failed: {how}"));
        let is_so = |line: &String| line.contains(&silent) || failed.as_ref().is_some_and(|how| line.contains(how));
        // The queues are the high level's own, and are there when it is not any more.
        let queue = |line: &String| line.contains("  cpu ") && line.contains(" level 16: ");
        // On a host that does not run all processors at once the fast level may be found too slow now and then.
        while gone() < before + 2 * task::processors().count() as u64
            || !lines(1)?.iter().any(is_so)
            || !lines(1)?.iter().any(queue)
        {
            holds!(
                time::now_ns() < until,
                "{name} was not put out for that reason, or with no queues: {:?}",
                lines(1)?
            );
            time::sleep_ns(5_000_000);
        }
        load.all_run()?;
        chooser.choose("none").map_err(doing("none"))?;
    }
    load.stop()
}

/// In a machine whose clock counts instructions, which goes on whatever the host does: however a scheduler goes wrong, from when it was
/// asked what it did not decide until the kernel's round robin has its threads it is less than 10 ms.
fn replaced_within_10_ms() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    for (mode, why) in [
        ("loop", reason::SLOW),
        ("wrong", reason::WRONG),
        ("turn", reason::WRONG),
        ("fault", reason::ENDED),
        ("wait", reason::WAITED),
        ("ring", reason::RING),
        ("end", reason::ENDED),
    ] {
        let load = Load::start(3)?;
        let chooser = client()?;
        let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let said = || {
            // The line about a seat comes behind the one that says who has failed.
            let told = lines(1)?.into_iter().skip_while(|line| !line.contains(&format!("bad {mode}: ")));
            Ok::<_, String>(told.into_iter().any(|line| line.contains(" us after it was asked")))
        };
        let (before, until) = (gone(), time::now_ns() + 10_000_000_000);
        let of_seats: Vec<u64> = sched::seats().map(|seat| seat.dismissed).collect();
        // It may be gone again before all seats are taken, and whoever waits for that waits until another one is chosen.
        let choosing = thread::spawn(move || _ = client().map(|chooser| chooser.choose(&format!("bad {mode}"))), 0);
        let choosing = choosing.map_err(doing("thread"))?;
        while gone() == before {
            holds!(time::now_ns() < until, "{mode}: it was not put out");
            time::sleep_ns(1_000_000);
        }
        // What they compute until the log says so would be waited for only.
        load.stop()?;
        // The server looks from time to time.
        while !said()? {
            holds!(time::now_ns() < until, "{mode}: the log does not say how long it was: {:?}", lines(1));
            time::sleep_ns(1_000_000);
        }
        chooser.choose("none").map_err(doing("none"))?;
        choosing.join().map_err(doing("join"))?;
        // One may go wrong first, and the others end with it.
        let lost = sched::seats().zip(of_seats).filter(|(seat, before)| seat.dismissed > *before);
        let lost: Vec<(u64, u64)> = lost.map(|(seat, _)| (seat.took_ns, seat.reason)).collect();
        holds!(lost.iter().any(|(_, reason)| *reason == why), "{mode}: put out for {lost:?}, not {why}");
        holds!(lost.iter().all(|(_, one)| [why, reason::ENDED].contains(one)), "{mode}: put out for {lost:?}");
        for (took, reason) in lost {
            holds!(0 < took && took < 10_000_000, "{mode}: its threads went on after {took} ns");
            // It is the time that is measured, not a constant: one that loops has it for the longest.
            holds!((reason == reason::SLOW) == (took > 7_500_000), "{mode}: its threads went on after {took} ns");
        }
    }
    Ok(())
}

/// In such a machine: a high level that loops, sleeps, faults or ends is given up by the fast one, in both versions, less than 10 ms from when it was
/// called and others were kept waiting for what it does; and in spite of interrupts.
fn given_up_within_10_ms() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let modes = ["loop", "sleep", "fault", "end"];
    for name in ["late", "mute"].iter().flat_map(|kind| modes.map(|mode| format!("{kind} {mode}"))) {
        // Some of them wake up more often than the high level is looked at.
        let load = Load::start(4)?;
        let chooser = client()?;
        // It may be gone again before all seats are taken.
        let _ = chooser.choose(&name);
        let until = time::now_ns() + 30_000_000_000;
        let after = " the high level was given up after ";
        let waited = loop {
            let told = lines(0)?;
            let of_this = told.iter().any(|line| line.contains(&format!("last failure: {name}: ")));
            let waited = told.iter().find_map(|line| {
                let (_, waited) = line.split_once("last failure: ").and_then(|(_, line)| line.split_once(after))?;
                waited.split(' ').next()?.parse::<u64>().ok()
            });
            if let Some(waited) = waited.filter(|_| of_this) {
                break waited;
            }
            holds!(time::now_ns() < until, "{name} was not given up: {told:?}");
            time::sleep_ns(1_000_000);
        };
        chooser.choose("none").map_err(doing("none"))?;
        load.all_run()?;
        load.stop()?;
        holds!((6_000..10_000).contains(&waited), "{name}: given up after {waited} us");
    }
    Ok(())
}

/// In such a machine: a scheduler that loops on a thread that has called it is put out less than 10 ms
/// after it was called, at whatever time of the caller's quantum that was.
fn stopped_on_its_caller_within_10_ms() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    same!(task::processors().count(), 1, "processors");
    for tenth in 0..10 {
        let chooser = client()?;
        chooser.choose("bad passing-loop").map_err(doing("passing-loop"))?;
        let gone = || sched::seats().map(|seat| seat.dismissed).sum::<u64>();
        let before = gone();
        let called: &'static AtomicU64 = leak(AtomicU64::new(0));
        let calls = move || {
            // The one of a scheduler that was chosen before may still be there.
            let mut answer = Ok(());
            while gone() == before && (answer.is_ok() || called.load(Ordering::SeqCst) == 0) {
                let Ok(client) = names::lookup("passing").and_then(PassingClient::bind) else { continue };
                let since = time::now_ns();
                while time::now_ns() < since + QUANTUM_NS / 10 * tenth {}
                called.store(time::now_ns(), Ordering::SeqCst);
                answer = client.wake_up(0);
            }
        };
        let caller = thread::spawn(calls, 0).map_err(doing("thread"))?;
        let until = time::now_ns() + 10_000_000_000;
        // As often as it can: it has the processor only where the caller has not.
        while gone() == before {
            holds!(time::now_ns() < until, "tenth {tenth}: it was not put out");
        }
        // (This one may be behind the caller by then, and programs that see to the next scheduler.)
        let (since, of_seat): (u64, Vec<_>) =
            (called.load(Ordering::SeqCst), sched::seats().map(|seat| (seat.reason, seat.when)).collect());
        caller.join().map_err(doing("join"))?;
        chooser.choose("none").map_err(doing("none"))?;
        let [(why, when)] = of_seat[..] else { return Err(format!("{} seats", of_seat.len())) };
        let waited = when.saturating_sub(since);
        same!(why, reason::SLOW, "tenth {tenth}: put out for");
        holds!(
            (3_000_000..10_000_000).contains(&waited),
            "tenth {tenth}: it was put out {waited} ns after it was called"
        );
    }
    Ok(())
}

/// Of a thread under the kernel's and the usual schedulers.
const QUANTUM_NS: u64 = 10_000_000;

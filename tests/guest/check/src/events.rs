//! What the scheduler is told, as people see it: `sched` counts events by kind, and `sched trace` shows the steps between the levels.

use crate::peer::{Peer, op};
use crate::posts::post;
use crate::report::{Check, Outcome, doing};
use crate::sched::{Load, leak, lines, with};
use crate::{holds, same};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::sched::THREAD_NEXT;
use musubi::abi::task::exit;
use musubi::abi::trace::kind;
use musubi::command::Command;
use musubi::interfaces::passing::PassingClient;
use musubi::names;
use musubi::rt::post::FOR_EVER;
use musubi::rt::{info, sched, task, thread, time};
use musubi::trace::{self, Record};

pub const CHECKS: &[Check] = &[
    ("every_kind_of_event_is_counted", every_kind),
    ("each_processor_hears_of_its_own", of_each_processor),
    ("unknown_kinds_are_counted", unknown_kinds),
    ("request_buffer_switch_in_this_order", in_this_order),
    ("the_kernel_has_seen_these_switches", as_the_kernel_has_seen),
    ("nobody_else_switches", nobody_else_switches),
    ("calls_tell_the_scheduler_nothing", calls_tell_nothing),
];

/// The trace of the levels, by processor: every step is the one that comes behind the one before it, and each choice is about one thread (CUBIX-51).
fn in_this_order() -> Outcome {
    with("initial", || {
        let me = task::identity().thread;
        let mut mine = false;
        // What others do in between may push the own switch out of the trace of another processor.
        for _ in 0..50 {
            thread::yield_now();
            let told = lines(2)?;
            same!(told.len(), task::processors().count(), "processors with a trace");
            for line in &told {
                mine |= is_orderly(line)?.contains(&me);
            }
            if mine {
                return Ok(());
            }
        }
        Err(format!("thread {me} gave way and is not in the trace: {:?}", lines(2)?))
    })
}

/// The threads that were switched to, if each step comes behind the one that it must.
fn is_orderly(line: &str) -> Result<Vec<u64>, String> {
    let (_, steps) = line.split_once(": ").ok_or(line)?;
    let mut threads = Vec::new();
    let mut before: Option<(u64, &str, &str)> = None;
    for step in steps.split(", ") {
        let (n, what) = step.split_once(' ').ok_or(line)?;
        let n = n.parse::<u64>().map_err(|_| format!("{step:?} in {line}"))?;
        let (kind, thread) = what.split_once("thread ").unwrap_or((what, ""));
        // Steps that were written while others were read are missing.
        if let Some((last, earlier, about)) = before.filter(|(last, ..)| last + 1 == n) {
            let good = match earlier {
                "request" => kind == "event buffer: ",
                "event buffer: " => kind == "switch to " && about == thread,
                "switch to " => kind == "request" || (kind == "no switch to " && about == thread),
                _ => kind == "request",
            };
            holds!(good, "step {n} behind step {last}: {line}");
        }
        if kind == "switch to " {
            threads.extend(thread.parse::<u64>());
        }
        before = Some((n, kind, thread));
    }
    holds!(before.is_some(), "no steps: {line}");
    Ok(threads)
}

/// What a level of the initial version, or somebody else, is to the kernel's trace.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Fast,
    High,
    Other,
}

/// What the levels say of themselves is what the kernel has seen of them: the fast level goes to nobody but the high one that has not come back from
/// it just then, and to the threads that are in the buffer, one after the other (CUBIX-51).
fn as_the_kernel_has_seen() -> Outcome {
    let stop = leak(AtomicBool::new(false));
    let gives_way = move || {
        while !stop.load(Ordering::Relaxed) {
            thread::yield_now();
        }
    };
    let other = thread::spawn(gives_way, 0).map_err(doing("thread"))?;
    let outcome = with("initial", || {
        // This thread may go elsewhere meanwhile, or have others in between.
        let mut last = (0, String::new());
        for _ in 0..50 {
            let (told, record, _) = trace::during(|| {
                (0..GIVES_WAY).for_each(|_| thread::yield_now());
                lines(2)
            })
            .map_err(doing("tracing"))?;
            for (processor, line) in told?.iter().enumerate() {
                let went = went_to(&record, processor)?;
                let named = named(line)?;
                let agree = named.windows(AGREE).filter(|few| went.windows(AGREE).any(|some| some == *few)).count();
                if agree >= last.0 {
                    last = (agree, format!("processor {processor} went to {went:?}, and says {line}"));
                }
            }
            if last.0 > GIVES_WAY - AGREE {
                return Ok(());
            }
        }
        Err(format!("agrees {} times: {}", last.0, last.1))
    });
    stop.store(true, Ordering::Relaxed);
    other.join().map_err(doing("join"))?;
    outcome
}

/// In the improved version the kernel has seen no switch but to the fast level of that processor, from it, by its text on a thread that gives way
/// (`thread_next`), or by a message, which takes nobody's turn (CUBIX-22, 47).
fn nobody_else_switches() -> Outcome {
    const LEAST: usize = 100;
    with("ageing", || {
        let load = Load::start(2 * task::processors().count())?;
        let (outcome, record, _) = trace::during(|| {
            for _ in 0..30 {
                time::sleep_ns(1_000_000);
                thread::yield_now();
            }
            Ok::<_, musubi::Error>(())
        })
        .map_err(doing("tracing"))?;
        outcome.map_err(doing("sleeping"))?;
        load.stop()?;
        let seats: Vec<u64> = sched::seats().map(|seat| seat.thread).collect();
        let mut count = 0;
        for processor in 0..task::processors().count() {
            let own = record.events.iter().filter(|(at, event)| *at == processor && event.kind == kind::SWITCH);
            for event in own.map(|(_, event)| event) {
                let by_level = seats.contains(&event.thread) || seats.contains(&event.a);
                let (by_text, by_message) = (event.handler == THREAD_NEXT, event.b == 0);
                holds!(by_level || by_text || by_message, "processor {processor}, levels {seats:?}: {event:?}");
                count += 1;
            }
        }
        holds!(count >= LEAST, "{count} switches were seen");
        Ok(())
    })
}

/// How often a thread gives way; and so many switches in a row are taken for the same if they are to the same threads.
const GIVES_WAY: usize = 6;
const AGREE: usize = 3;

/// The threads to which the fast level of a processor went, and only after it had come from the high one.
fn went_to(record: &Record, processor: usize) -> Result<Vec<u64>, String> {
    let own =
        record.events.iter().filter(|(at, event)| *at == processor && event.kind == kind::SWITCH).map(|one| &one.1);
    let (mut levels, mut before, mut all) = (BTreeMap::new(), None, Vec::new());
    for event in own {
        let to = match record.name(event.task).as_str() {
            "fast-initial" => Level::Fast,
            "sched-initial" => Level::High,
            _ => Level::Other,
        };
        levels.insert(event.thread, to);
        let from = levels.get(&event.a).copied();
        let switch = (from, to);
        let good = match switch {
            // Who ran when the trace began is not known.
            (Some(Level::Fast), Level::Other) => before.is_none_or(|(from, to): (Option<Level>, Level)| {
                from.is_none_or(|from| from == Level::High) && to == Level::Fast
            }),
            (Some(Level::High), to) => to == Level::Fast,
            (Some(Level::Other), to) => to == Level::Fast,
            (Some(Level::Fast), Level::Fast) => false,
            (Some(Level::Fast), Level::High) | (None, _) => true,
        };
        holds!(good, "thread {} to {}, processor {processor}: {:?}", event.a, event.thread, record.events);
        if from == Some(Level::Fast) && to == Level::Other {
            all.push(event.thread);
        }
        before = Some(switch);
    }
    Ok(all)
}

/// The threads to which it has gone by its own word, and not come back from at once.
fn named(line: &str) -> Result<Vec<u64>, String> {
    let (_, steps) = line.split_once(": ").ok_or(line)?;
    let mut all = Vec::new();
    for step in steps.split(", ") {
        match step.split_once(' ').ok_or(line)?.1.split_once("switch to thread ") {
            Some(("", thread)) => all.extend(thread.parse::<u64>().ok().filter(|thread| *thread != 0)),
            Some(_) => drop(all.pop()),
            None => {}
        }
    }
    Ok(all)
}

/// Events of each kind that the fast levels of all processors have seen.
fn heard(kind: &str) -> Result<u64, String> {
    heard_where(kind, "cpu ")
}

/// The same of those whose line begins so.
fn heard_where(kind: &str, begin: &str) -> Result<u64, String> {
    let mut sum = None;
    for line in lines(0)?.iter().filter(|line| line.starts_with(begin) && line.contains(" heard of: ")) {
        let (_, counts) = line.split_once(": ").ok_or("no counts")?;
        let count =
            counts.split(", ").find_map(|count| count.strip_prefix(kind)?.strip_prefix(' ')?.parse::<u64>().ok());
        sum = Some(sum.unwrap_or(0) + count.ok_or_else(|| format!("no {kind} in {line}"))?);
    }
    sum.ok_or_else(|| String::from("nobody has heard of anything"))
}

/// CUBIX-42: a fast level to which all kinds of events are unknown goes on, and `sched` shows how many there were.
fn unknown_kinds() -> Outcome {
    with("bad strange", || {
        let before = heard("unknown events")?;
        let until = time::now_ns() + 20_000_000_000;
        while heard("unknown events")? <= before + 10 {
            holds!(time::now_ns() < until, "unknown events: {before} before, and hardly more since: {:?}", lines(0)?);
            time::sleep_ns(1_000_000);
        }
        same!(heard("wake-ups")?, 0, "wake-ups that were known");
        holds!(sched::seats().all(|seat| seat.thread != 0), "a seat is empty");
        Ok(())
    })
}

/// How often a kind of event is provoked at most.
const TRIES: u32 = 20;

/// What a kind of event is provoked by.
type Provoke = (&'static str, fn() -> Outcome);

/// Until it is woken.
fn sleeps() {
    let _ = sched::sleep(u64::MAX);
}

const PROVOKED: [Provoke; 8] = [
    ("wake-ups", || {
        let other = thread::spawn(sleeps, 0).map_err(doing("thread"))?;
        time::sleep_ns(1_000_000);
        sched::wake_up(other.number()).map_err(doing("wake-up"))?;
        other.join().map_err(doing("join")).map(drop)
    }),
    ("calls that wait", || {
        time::sleep_ns(1_000_000);
        Ok(())
    }),
    ("interrupts", || {
        let keyboard = crate::interrupts::keyboard()?;
        crate::interrupts::probe(&keyboard).map(drop)
    }),
    ("exceptions", || {
        let reads = Command::new(b"bin/check").args(["check", "as", "peek", "4096"]).spawn().map_err(doing("peek"))?;
        let how = reads.wait().map_err(doing("peek"))?;
        same!(how.kind, exit::FAULT, "how a program ends that reads what is not there");
        Ok(())
    }),
    ("ticks", || {
        // Somebody else on each processor is ready.
        let load = Load::start(2 * task::processors().count())?;
        let until = time::now_ns() + 100_000_000;
        while time::now_ns() < until {}
        load.stop()
    }),
    ("ends", || {
        let other = thread::spawn(|| (), 0).map_err(doing("thread"))?;
        other.join().map_err(doing("join")).map(drop)
    }),
    ("hand-overs", || {
        let (there, back) = (post()?, post()?);
        // On the sender's turn, and still when the scheduler is asked.
        let echo = move || {
            let got = there.receive(FOR_EVER);
            thread::yield_now();
            let _ = got.and_then(|got| back.send(0, got.words, None));
        };
        let other = thread::spawn(echo, 0).map_err(doing("thread"))?;
        time::sleep_ns(1_000_000);
        let got = there.send_and_receive(1, [7; 6], back, FOR_EVER).map_err(doing("a round"))?;
        same!(got.words, [7; 6], "what came back");
        other.join().map_err(doing("join"))?;
        there.free(true).and_then(|()| back.free(true)).map_err(doing("freeing"))
    }),
    ("calls of the scheduler", || {
        let me = task::identity().thread;
        sched::set_priority(me, 7).and_then(|()| sched::set_priority(me, 16)).map_err(doing("priority"))
    }),
];

/// CUBIX-41, 42: an event of each kind is provoked, told to the fast level, and counted there by its kind; none is of an unknown one.
fn every_kind() -> Outcome {
    for name in ["ageing", "initial"] {
        with(name, || {
            for (kind, provoke) in PROVOKED {
                let before = heard(kind)?;
                // On a slow host a short sleep may be over before it has begun; and what is not urgent is read with what is.
                let mut after = before;
                for _ in 0..TRIES {
                    provoke().map_err(|why| format!("{kind}: {why}"))?;
                    thread::yield_now();
                    after = heard(kind)?;
                    if after > before {
                        break;
                    }
                }
                holds!(after > before, "{name}: {kind} {after} after one was provoked, {before} before");
            }
            same!(heard("unknown events")?, 0, "unknown events");
            Ok(())
        })?;
    }
    with("ageing", || {
        let before = heard("called by threads themselves")?;
        let passing = names::lookup("passing").and_then(PassingClient::bind).map_err(doing("passing"))?;
        let me = task::identity().thread;
        passing.wake_up(me).and_then(|()| passing.sleep()).map_err(doing("sleep"))?;
        let after = heard("called by threads themselves")?;
        holds!(after > before, "called by threads {after} times after a call, {before} before");
        Ok(())
    })
}

/// Threads on all processors at a time do what the scheduler is to hear of: the fast level of that processor does (CUBIX-41).
fn of_each_processor() -> Outcome {
    type Does = fn();
    // (Whose wake-up is heard where is the kernel's choice.)
    const DO: [(&str, Does); 3] = [
        ("calls that wait", || time::sleep_ns(1_000_000)),
        ("exceptions", || {
            let _ = musubi::rt::guard::run(|| musubi::rt::probe::write(8));
        }),
        ("calls of the scheduler", || {
            let me = task::identity().thread;
            let _ = sched::set_priority(me, 7).and_then(|()| sched::set_priority(me, 16));
        }),
    ];
    const ROUNDS: usize = 50;
    let all = task::processors().count() as u64;
    let own = || {
        let me = task::identity().thread;
        task::threads().find(|one| one.thread == me).map_or(u64::MAX, |one| one.processor)
    };
    with("ageing", || {
        for (kind, does) in DO {
            let mut found = alloc::collections::BTreeSet::new();
            for _ in 0..ROUNDS {
                let before: Result<Vec<u64>, String> =
                    (0..all).map(|cpu| heard_where(kind, &format!("cpu {cpu} "))).collect();
                let before = before?;
                let here: &'static AtomicU64 = crate::sched::leak(AtomicU64::new(0));
                let once = move || {
                    here.fetch_add(1, Ordering::SeqCst);
                    // Each keeps its processor until all have one.
                    let until = time::now_ns() + 100_000_000;
                    while here.load(Ordering::SeqCst) < all && time::now_ns() < until {}
                    let at = own();
                    does();
                    thread::exit(if own() == at { at } else { u64::MAX });
                };
                let threads: Result<Vec<_>, _> = (0..all).map(|_| thread::spawn(once, 0)).collect();
                let mut stayed = Vec::new();
                for one in threads.map_err(doing("thread"))? {
                    stayed.push(one.join().map_err(doing("join"))?);
                }
                // (Who has moved in between may have done so on either.)
                for cpu in stayed.into_iter().filter(|cpu| *cpu < all) {
                    let after = heard_where(kind, &format!("cpu {cpu} "))?;
                    holds!(after > before[cpu as usize], "{kind}: nothing was heard on processor {cpu}, where it was");
                    found.insert(cpu);
                }
                if found.len() as u64 == all {
                    break;
                }
            }
            holds!(found.len() as u64 == all, "{kind}: of {all} processors it happened on {found:?} only");
        }
        Ok(())
    })
}

/// A million calls into another program by a procedure call: no scheduler, which is there to be told, hears of any (CUBIX-27). What it hears of
/// meanwhile are time and those who wake up by it: not more often than the kernel looks at the time, on each processor.
fn calls_tell_nothing() -> Outcome {
    const CALLS: u64 = 1_000_000;
    /// From one time that the kernel looks at the time beside a scheduler to the next.
    const TICK_NS: u64 = 1_000_000;
    let counted = || -> Result<[u64; 2], String> {
        let all = info::all().map_err(doing("info"))?;
        Ok(all
            .processors()
            .fold([0; 2], |[events, switches], (_, counts)| [events + counts.events, switches + counts.switches]))
    };
    with("ageing", || {
        let peer = Peer::start()?;
        peer.call(op::ADD, &[1]).map_err(doing("the first call"))?;
        let before = counted()?;
        // It does hear of one that waits.
        (0..10).for_each(|_| time::sleep_ns(1_000_000));
        let waited = counted()?;
        holds!(waited[0] >= before[0] + 10, "of ten waits it heard {} times", waited[0] - before[0]);
        let began = time::now_ns();
        for _ in 0..CALLS {
            peer.call(op::ADD, &[1]).map_err(doing("a call"))?;
        }
        let took = time::now_ns() - began;
        let after = counted()?;
        let [events, switches] = [after[0] - waited[0], after[1] - waited[1]];
        let ticks = (took / TICK_NS + 1) * task::processors().count() as u64;
        // On a slow host not so many that they could hide what each call tells.
        let most = ticks.min(CALLS / 10);
        holds!(
            events <= most && switches <= most,
            "in {CALLS} calls {events} events and {switches} switches, and {ticks} ticks"
        );
        peer.end()
    })
}

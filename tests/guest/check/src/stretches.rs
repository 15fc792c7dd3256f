//! Switches for one ITC, counted exactly (CUBIX-M7): in stretches in which both partners are on one processor and no interrupt comes to
//! it, so that nothing else can happen there, on however many processors the machine has.

use crate::report::{Outcome, doing};
use crate::sched::{leak, lines};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::Error;
use musubi::pass::Pass;
use musubi::rt::{sched, task, thread, time};

/// Times there and back in a stretch, and stretches that are counted. Short ones: on a busy host hardly any longer one is undisturbed.
const PASSES: u64 = 2;
const STRETCHES: usize = 20;
const PATIENCE_NS: u64 = 60_000_000_000;

/// Each ITC is so many switches, in every stretch and without a remainder.
pub fn exactly(per_itc: u64, way: impl Pass) -> Outcome {
    let (over, me) = (leak(AtomicBool::new(false)), task::identity().thread);
    let busy = move || {
        while !over.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    };
    // Whoever is woken goes to an idle processor: there is none but that of the two.
    let busy: Result<Vec<_>, _> = (1..task::processors().count()).map(|_| thread::spawn(busy, 0)).collect();
    let mut all = busy.map_err(doing("thread"))?;
    let partner = move || {
        let _ = way.sleep();
        while !over.load(Ordering::SeqCst) {
            let _ = way.pass(me);
        }
    };
    let partner = thread::spawn(partner, 0).map_err(doing("thread"))?;
    let other = partner.number();
    all.push(partner);
    // Where there are priorities, nobody comes in between.
    for thread in [me, other] {
        let answer = sched::set_priority(thread, 5);
        holds!(matches!(answer, Ok(()) | Err(Error::NotSupported)), "a priority: {answer:?}");
    }
    let counted = stretches(me, other, way);
    over.store(true, Ordering::SeqCst);
    let _ = sched::set_priority(me, 16);
    way.wake_up(other).map_err(doing("wake-up"))?;
    for one in all {
        one.join().map_err(doing("join"))?;
    }
    let counted = counted?;
    same!(counted, alloc::vec![per_itc * 2 * PASSES; STRETCHES], "switches in {} ITCs", 2 * PASSES);
    Ok(())
}

fn stretches(me: u64, other: u64, way: impl Pass) -> Result<Vec<u64>, String> {
    let high = high_level()?;
    let mut counted = Vec::new();
    let until = time::now_ns() + PATIENCE_NS;
    let mut disturbed = 0;
    // After something else has happened, at the start too, the one that sleeps may do so by another way, and where the scheduler is has to
    // be found out: the next stretch only comes to rest.
    let mut is_settled = false;
    while counted.len() < STRETCHES {
        holds!(time::now_ns() < until, "only {} stretches were undisturbed, {disturbed} were not", counted.len());
        // They come together in the end.
        let _ = way.pass(other);
        let before = Surroundings::of(me, other, high)?;
        let at = before.at.0;
        let state = || {
            let info = task::processors().nth(at as usize).ok_or("no processor")?;
            Ok::<_, String>((info.interrupts, info.switches + way.entered(at)))
        };
        // From here on interrupts are seen; what one before has left to be done is done before anything is counted.
        let watched = state()?;
        let _ = way.pass(other);
        let began = state()?;
        for _ in 0..PASSES {
            let _ = way.pass(other);
        }
        let ended = state()?;
        let undisturbed = at == before.at.1 && before == Surroundings::of(me, other, high)? && ended.0 == watched.0;
        if undisturbed && is_settled {
            counted.push(ended.1 - began.1);
        }
        disturbed += u32::from(!undisturbed);
        is_settled = undisturbed;
    }
    Ok(counted)
}

/// The task that chooses each time, in the initial version.
fn high_level() -> Result<u64, String> {
    let lines = lines(0)?;
    let number = |line: &String| {
        line.strip_prefix("initial ")?.split("high level: task ").nth(1)?.split(')').next()?.parse().ok()
    };
    Ok(lines.iter().find_map(number).unwrap_or(0))
}

/// Where the two are, and for how long everybody else has run who was on their processor last: no other thread may have, not even because
/// it has waited for long enough, nor the high level of the improved version.
#[derive(PartialEq, Eq)]
struct Surroundings {
    at: (u64, u64),
    others: Vec<(u64, u64)>,
}

impl Surroundings {
    fn of(me: u64, other: u64, high: u64) -> Result<Surroundings, String> {
        let all: Vec<_> = task::threads().collect();
        let at = |number| all.iter().find(|t| t.thread == number).map(|t| t.processor).ok_or("a partner is gone");
        let at = (at(me)?, at(other)?);
        let decides = |thread| sched::seats().any(|seat| seat.thread == thread);
        let others = all.iter().filter(|t| t.processor == at.0 && t.task != high && ![me, other].contains(&t.thread));
        let others = others.filter(|t| !decides(t.thread)).map(|t| (t.thread, t.time)).collect();
        Ok(Surroundings { at, others })
    }
}

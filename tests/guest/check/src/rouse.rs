//! How long it is until an idle processor that is roused executes whom it was roused for (K1-33). Where the clock counts instructions: of all
//! processors together, so what the waking one executes meanwhile belongs to it.

use crate::holds;
use crate::report::{Check, ONE_PROCESSOR, Outcome, doing, skipped};
use crate::sched::leak;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::rt::sync::{wait, wake};
use musubi::rt::{task, thread, time};

pub const CHECKS: &[Check] = &[("an_idle_processor_is_roused_in_time", roused)];

const ROUNDS: u32 = 1000;
/// Until whoever waits does so, and its processor has nothing to do.
const AT_REST: u64 = 100_000;
/// The bound: instructions from before the call that wakes to the first one of whoever waited.
const BOUND: u64 = 20_000;

#[derive(Default)]
struct Bell {
    rung: AtomicU32,
    heard: AtomicU32,
    when: AtomicU64,
}

fn roused() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    if task::processors().count() < 2 {
        return skipped(ONE_PROCESSOR);
    }
    let bell: &'static Bell = leak(Bell::default());
    let body = move || {
        for round in 1..=ROUNDS {
            while bell.rung.load(Ordering::SeqCst) != round {
                let _ = wait(&bell.rung, round - 1, u64::MAX);
            }
            bell.when.store(time::ticks(), Ordering::SeqCst);
            bell.heard.store(round, Ordering::SeqCst);
        }
    };
    let waits = thread::spawn(body, 0).map_err(doing("thread"))?;
    let mut took = alloc::vec::Vec::with_capacity(ROUNDS as usize);
    for round in 1..=ROUNDS {
        let rest = time::ticks() + AT_REST;
        while time::ticks() < rest {
            spin_loop();
        }
        let began = time::ticks();
        bell.rung.store(round, Ordering::SeqCst);
        wake(&bell.rung, 1);
        // Nobody has this processor meanwhile but for the timer.
        while bell.heard.load(Ordering::SeqCst) != round {
            spin_loop();
        }
        took.push(bell.when.load(Ordering::SeqCst) - began);
    }
    waits.join().map_err(doing("join"))?;
    took.sort_unstable();
    let [usual, longest] = [took.len() / 2, took.len() - 1].map(|at| took[at]);
    holds!(longest <= BOUND, "{longest} instructions until it ran (mostly {usual}), and the bound is {BOUND}");
    Ok(())
}

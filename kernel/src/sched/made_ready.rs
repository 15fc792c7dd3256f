//! Who was made ready: where it goes, and who hears of it.

use crate::line;
use crate::machine::machine;
use crate::processor::Processor;
use crate::seat;
use crate::thread::Thread;
use ::sched::{Phase, helper, place};
use abi::sched::ready as why;
use abi::task::state;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// Puts a thread that was made ready into a queue: an idle processor's if there is one, else its own.
pub fn ready(thread: Arc<Thread>, turn: u64) {
    if seat::errand::is_disturbed(&thread, turn) {
        return;
    }
    let processors = &machine().processors;
    let last = thread.processor.load(Ordering::Relaxed);
    let (count, is_free) = (processors.len(), |p: usize| processors[p].is_free());
    let at = place(last, count, is_free);
    let chosen = &processors[at];
    announce(chosen, thread, turn, why::WOKEN);
    chosen.attend();
    chosen.poke();
    let is_idle = |p: usize| processors[p].idle.load(Ordering::SeqCst);
    helper(at, count, is_idle, is_free).into_iter().for_each(|p| processors[p].poke());
}

/// Lets the processor's scheduler know of a ready thread, or its queue; whoever runs there makes room.
pub fn announce(processor: &Processor, thread: Arc<Thread>, turn: u64, why: u32) {
    if tell_or_queue(processor, thread, turn, why) {
        processor.make_room();
    }
}

/// The same without a wish. Whether the scheduler has heard of it.
pub(super) fn tell_or_queue(processor: &Processor, thread: Arc<Thread>, turn: u64, why: u32) -> bool {
    // First where it is, then that it is there: who puts the scheduler out finds it, or it goes into the queue. And who has
    // found it may be running it already. (Who gives way is not in a hurry.)
    let is_called = |thread: &Thread| why != why::YIELDED && line::is_next(thread);
    {
        let wait = thread.wait.lock();
        if wait.life.phase() == Phase::Ready && wait.life.turn() == turn {
            thread.processor.store(processor.index, Ordering::SeqCst);
            thread.shows(state::READY);
        }
    }
    let tell = |(thread, turn): &(Arc<Thread>, u64)| {
        let called = is_called(thread);
        let is_told = processor.tells_ready(thread, *turn, if called { why::CALLED } else { why });
        // An interrupt that has come in between has told of one who was not known yet.
        if is_told && !called && is_called(thread) {
            processor.tells_ready(thread, *turn, why::HURRIED);
        }
        is_told
    };
    processor.queue.put((thread, turn), |(thread, _)| is_called(thread), tell, || processor.office.is_taken())
}

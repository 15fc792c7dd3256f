//! Waits for messages that end at some moment: `core/post` has the rules for the one timer that a thread has for them; here it is set.

use super::{pool, wake};
use crate::machine::machine;
use crate::sched::{Timeout, at};
use crate::thread::Thread;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use ::post::Rung;
use ::sched::Key;

/// A timer that is set: the processor that keeps it, what it is cancelled by there, when it comes.
pub struct Set(usize, Key, u64);

impl Set {
    pub fn new(until: u64, what: Timeout) -> Set {
        let (processor, key) = at(until, what);
        Set(processor, key, until)
    }

    pub fn cancel(&self) {
        machine().processors[self.0].timers(|timers| timers.cancel(self.1));
    }
}

/// If the thread waits, and its timer comes only after the end of that, it is set anew.
pub fn arm(thread: &Arc<Thread>) {
    let record = thread.part.record();
    if let Some(until) = pool().timer_wanted(record) {
        set(thread, record, until);
    }
}

/// One lock at a time: what the thread has is exchanged under its own, and what is not needed is cancelled then. By that time it may be in another
/// wait, for which somebody has set an earlier one: only what is wanted still takes its place.
fn set(thread: &Arc<Thread>, record: u32, mut until: u64) {
    loop {
        let new = Set::new(until, Timeout::Message(thread.clone(), until));
        let (unused, wanted) = {
            let mut wait = thread.wait.lock();
            // (The record is another thread's as soon as this one has ended.)
            let wanted = if thread.part.record() == record { pool().timer_wanted(record) } else { None };
            if wanted == Some(until) {
                pool().timer_is_set(record, until);
                (wait.limit.replace(new), None)
            } else {
                (Some(new), wanted)
            }
        };
        unused.inspect(Set::cancel);
        match wanted {
            Some(other) => until = other,
            None => return,
        }
    }
}

/// The timer that was set for `until` has come, at `now`. Whether something that was lent was taken back for that, which takes long.
pub fn rings(thread: &Arc<Thread>, until: u64, now: u64) -> bool {
    let record = {
        let mut wait = thread.wait.lock();
        // It may have been set anew since.
        if wait.limit.take_if(|set| set.2 == until).is_none() {
            return false;
        }
        thread.part.record()
    };
    match pool().rings(record, now) {
        Rung::Later(until) => set(thread, record, until),
        Rung::Over(woken) => {
            wake(woken);
            return woken.touched;
        }
        Rung::Nothing => {}
    }
    false
}

/// The thread has ended: it has no timer any more, and no record. Value: the one that it had; 0: none.
pub fn forget(thread: &Thread) -> u32 {
    let (set, record) = {
        let mut wait = thread.wait.lock();
        (wait.limit.take(), thread.part.record.swap(0, Ordering::SeqCst))
    };
    set.inspect(Set::cancel);
    record
}

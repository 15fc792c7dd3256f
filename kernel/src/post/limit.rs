//! Waits for messages that end at some moment: `core/post` has the rules for the one timer that a thread has for them; here it is set.

use super::{pool, wake};
use crate::machine::machine;
use crate::sched::{Timeout, at};
use crate::thread::{Thread, Wait};
use alloc::sync::Arc;
use ::post::Rung;
use ::sched::Key;

/// A timer that is set: the processor that keeps it, what it is cancelled by there, when it comes.
pub struct Set(usize, Key, u64);

impl Set {
    fn cancel(&self) {
        machine().processors[self.0].timers(|timers| timers.cancel(self.1));
    }
}

/// If the thread waits, and its timer comes only after the end of that, it is set anew.
pub fn arm(thread: &Arc<Thread>) {
    let record = thread.part.record();
    if pool().timer_wanted(record).is_none() {
        return;
    }
    let mut wait = thread.wait.lock();
    if let Some(until) = pool().timer_wanted(record) {
        set(thread, &mut wait, record, until);
    }
}

fn set(thread: &Arc<Thread>, wait: &mut Wait, record: u32, until: u64) {
    let (processor, key) = at(until, Timeout::Message(thread.clone(), until));
    if let Some(before) = wait.limit.replace(Set(processor, key, until)) {
        before.cancel();
    }
    pool().timer_is_set(record, until);
}

/// The timer that was set for `until` has come, at `now`.
pub fn rings(thread: &Arc<Thread>, until: u64, now: u64) {
    let rung = {
        let mut wait = thread.wait.lock();
        // It may have been set anew since.
        if wait.limit.take_if(|set| set.2 == until).is_none() {
            return;
        }
        let record = thread.part.record();
        let rung = pool().rings(record, now);
        if let Rung::Later(until) = rung {
            set(thread, &mut wait, record, until);
        }
        rung
    };
    if let Rung::Over(woken) = rung {
        wake(woken);
    }
}

/// The thread has ended.
pub fn forget(thread: &Thread) {
    let set = thread.wait.lock().limit.take();
    set.inspect(Set::cancel);
}

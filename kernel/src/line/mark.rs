//! The mark that an interrupt leaves (SSS-28, 29): its message, from when it is sent until a thread runs that has received it. What is left to
//! do for the device waits as long, so programs read how long that was, and whoever is woken by it has the next turn (`core/sched`, row).

use super::{Line, lines};
use crate::machine::machine;
use crate::thread::Thread;
use abi::sched::ready as why;
use ::sched::{CALLING, Phase};
use alloc::sync::Arc;
use arch::time;
use core::sync::atomic::{AtomicU64, Ordering};

/// Of a line.
pub struct Mark {
    /// Since when a message lies in the post, and one has been given to a thread that has not run since, in ns; 0: none.
    queued: AtomicU64,
    handed: AtomicU64,
    /// Threads that were given one and have not run since.
    given: AtomicU64,
    /// Number of the thread that was given one last; 0: none.
    driver: AtomicU64,
    /// The earlier of both, and the longest that one lasted, in the record.
    marked: &'static AtomicU64,
    longest_ns: &'static AtomicU64,
}

impl Mark {
    pub fn new(marked: &'static AtomicU64, longest_ns: &'static AtomicU64) -> Mark {
        let [queued, handed, given, driver] = [const { AtomicU64::new(0) }; 4];
        Mark { queued, handed, given, driver, marked, longest_ns }
    }

    /// A thread was given the message.
    pub fn handed(&self) {
        let _ = self.handed.compare_exchange(0, time::now(), Ordering::SeqCst, Ordering::SeqCst);
        self.show();
    }

    /// Nobody is to see it any more.
    pub fn forget(&self) {
        [&self.queued, &self.handed, &self.driver].into_iter().for_each(|word| word.store(0, Ordering::SeqCst));
        self.show();
    }

    /// The message lies in the post, as its driver has not come back yet: where others run in its place it is next, as if it had been called.
    pub fn hurries(&self, index: usize) {
        let Some(thread) = machine().threads.find(self.driver.load(Ordering::SeqCst)) else { return };
        thread.called.hurries(index);
        let turn = {
            let wait = thread.wait.lock();
            (wait.life.phase() == Phase::Ready && !wait.life.is_parked()).then_some(wait.life.turn())
        };
        let Some(turn) = turn else { return };
        let at = &machine().processors[thread.processor.load(Ordering::SeqCst)];
        let is_it = |(other, its): &(Arc<Thread>, u64)| *its == turn && Arc::ptr_eq(other, &thread);
        if at.office.tell_ready(&thread, turn, why::HURRIED) || at.queue.call(is_it) {
            at.attend();
        }
    }

    fn is_over(&self, since: u64, now: u64) {
        self.longest_ns.fetch_max(now.saturating_sub(since), Ordering::Relaxed);
        self.show();
    }

    /// Whoever changes one of both shows it afterwards, and looks whether that is still so: the last one is right.
    fn show(&self) {
        let earlier = || {
            let both = [&self.queued, &self.handed].map(|since| since.load(Ordering::SeqCst));
            both.into_iter().filter(|since| *since != 0).min().unwrap_or(0)
        };
        loop {
            let since = earlier();
            self.marked.store(since, Ordering::SeqCst);
            if earlier() == since {
                return;
            }
        }
    }
}

const _: () = assert!((arch::apic::LINES as usize) < CALLING);

/// Whether the message of this line lies in its post.
fn lies(index: usize) -> bool {
    lines().get(index).is_some_and(|line| line.mark.queued.load(Ordering::SeqCst) != 0)
}

/// Whether an interrupt has called the thread, so its turn is next.
#[inline]
pub fn is_next(thread: &Thread) -> bool {
    thread.called.is_set() && thread.called.is_next(lies)
}

/// The line of the device that a message names as its sender.
fn of_place(place: u64) -> Option<(usize, &'static Line)> {
    let node = machine().node;
    lines().iter().enumerate().find(|(_, line)| {
        let section = line.section.load(Ordering::Relaxed);
        section != 0 && section | node == place
    })
}

/// The message from this place waits in its post, or was received there. Under the post's lock.
pub fn waits(place: u64, waits: bool) {
    let Some((_, line)) = of_place(place) else { return };
    if waits {
        line.mark.queued.store(time::now(), Ordering::SeqCst);
        line.mark.show();
    } else {
        let (since, now) = (line.mark.queued.swap(0, Ordering::SeqCst), time::now());
        line.mark.is_over(if since == 0 { now } else { since }, now);
    }
}

/// The message from this place has ended the wait of a thread.
pub fn calls(thread: &Thread, place: u64) {
    if let Some((index, line)) = of_place(place) {
        line.mark.driver.store(thread.number, Ordering::SeqCst);
        let since = match line.mark.handed.load(Ordering::SeqCst) {
            0 => time::now(),
            since => since,
        };
        if thread.called.calls(index, since) {
            line.mark.given.fetch_add(1, Ordering::SeqCst);
            // If one who was given another message has run meanwhile.
            let _ = line.mark.handed.compare_exchange(0, since, Ordering::SeqCst, Ordering::SeqCst);
            line.mark.show();
        }
    }
}

/// The thread runs from now on.
#[inline]
pub fn goes_on(thread: &Thread, now: u64) {
    if thread.called.is_set() {
        has_seen(thread, now);
    }
}

#[cold]
fn has_seen(thread: &Thread, now: u64) {
    let Some((index, since)) = thread.called.goes_on(lies) else { return };
    let Some(line) = lines().get(index) else { return };
    // Others that were given one may not have run.
    if line.mark.given.fetch_sub(1, Ordering::SeqCst) == 1 {
        line.mark.handed.store(0, Ordering::SeqCst);
    }
    line.mark.is_over(since, now);
}

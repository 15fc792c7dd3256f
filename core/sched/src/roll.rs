//! The threads that are ready at one processor, for whoever decides there: the round robin takes them from here, and one who sits in
//! the processor's seat is told of them. Seats are taken and lost while others make threads ready.

use crate::Ring;
#[cfg(not(test))]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicUsize, Ordering};
#[cfg(not(test))]
use spin::Mutex;
#[cfg(test)]
use tests::Mutex;

/// The round robin's queue of a processor.
#[derive(Debug)]
pub struct Roll<T> {
    queue: Mutex<Ring<T>>,
    /// How many are in it, written by whoever has the lock: to see that it is empty takes none.
    len: AtomicUsize,
}

impl<T> Default for Roll<T> {
    fn default() -> Roll<T> {
        Roll { queue: Mutex::default(), len: AtomicUsize::new(0) }
    }
}

impl<T> Roll<T> {
    /// Lets whoever decides know of a ready thread: `tell` tells the one in the seat, if there is one; `is_taken` says whether there is.
    /// Whether somebody was told; if not, it is in the queue, and will be told if somebody sits down (invariant 38). `is_called`: by an
    /// interrupt. (That one says so first, and then looks here: [`Roll::call`].)
    pub fn put(
        &self,
        thread: T,
        is_called: impl Fn(&T) -> bool,
        mut tell: impl FnMut(&T) -> bool,
        is_taken: impl Fn() -> bool,
    ) -> bool {
        loop {
            if tell(&thread) {
                return true;
            }
            let mut queue = self.queue.lock();
            // Who sits down says so before the queue is emptied.
            if !is_taken() {
                if is_called(&thread) {
                    queue.push_called(thread)
                } else {
                    queue.push_back(thread)
                }
                self.tell_len(&queue);
                return false;
            }
        }
    }

    /// The one of whom `is` says so is next, as if an interrupt had called it. Whether it is here.
    pub fn call(&self, is: impl Fn(&T) -> bool) -> bool {
        self.queue.lock().call(is)
    }

    /// The one of whom `is` says so has had its turn otherwise.
    pub fn withdraw(&self, is: impl FnMut(&T) -> bool) -> Option<T> {
        self.get(|queue| queue.remove(is))
    }

    /// Whose turn it is.
    pub fn take(&self) -> Option<T> {
        self.get(Ring::pop_front)
    }

    /// What an idle processor may take over.
    pub fn steal(&self) -> Option<T> {
        self.get(Ring::steal)
    }

    fn get(&self, which: impl FnOnce(&mut Ring<T>) -> Option<T>) -> Option<T> {
        // Who finds it empty comes before whoever is about to put one there.
        if self.is_empty() {
            return None;
        }
        let mut queue = self.queue.lock();
        let got = which(&mut queue);
        self.tell_len(&queue);
        got
    }

    /// How many are ready.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::SeqCst)
    }

    /// Whether nobody is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, for one who has sat down.
    #[must_use]
    pub fn empty(&self) -> Ring<T> {
        let mut queue = self.queue.lock();
        self.len.store(0, Ordering::SeqCst);
        core::mem::take(&mut *queue)
    }

    /// A thread that nobody is told of: it ends.
    pub fn push(&self, thread: T) {
        let mut queue = self.queue.lock();
        queue.push_back(thread);
        self.tell_len(&queue);
    }

    fn tell_len(&self, queue: &Ring<T>) {
        self.len.store(queue.len(), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::thread;
    use std::vec::Vec;

    /// With the face of `spin`'s.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }

    /// A processor: whoever sits there knows these threads.
    #[derive(Default)]
    struct Processor {
        roll: Roll<u32>,
        seat: Mutex<Option<Vec<u32>>>,
    }

    impl Processor {
        fn ready(&self, thread: u32) {
            let tell = |thread: &u32| self.seat.lock().as_mut().map(|known| known.push(*thread)).is_some();
            self.roll.put(thread, |thread| thread % 2 == 0, tell, || self.seat.lock().is_some());
        }

        fn sit(&self) {
            *self.seat.lock() = Some(Vec::new());
            let mut found = self.roll.empty();
            while let Some(thread) = found.pop_front() {
                self.ready(thread);
            }
        }

        /// What the one who sat there knew is in the queue again: the kernel has a table of all threads.
        fn dismiss(&self) {
            let known = self.seat.lock().take();
            known.into_iter().flatten().for_each(|thread| self.ready(thread));
        }
    }

    /// Threads become ready while one sits down and is put out, and another one sits down: in the end each is known to whoever decides.
    #[test]
    fn who_is_in_a_hurry_is_next() {
        let run = || {
            let roll = Roll::default();
            (0..5).for_each(|thread| _ = roll.put(thread, |_| false, |_| false, || false));
            let call = |thread| roll.call(|one| *one == thread);
            assert!(!call(7) && call(2) && call(3) && roll.len() == 5);
            assert!(call(2), "it keeps its place");
            let turns: Vec<_> = core::iter::from_fn(|| roll.take()).collect();
            assert_eq!(turns, [2, 3, 0, 1, 4]);
        };
        shuttle::check_random(run, 1);
    }

    /// An interrupt calls somebody who is just becoming ready: he is before those who were.
    #[test]
    fn who_is_called_while_he_becomes_ready_is_next() {
        let run = || {
            let (roll, called) = (Arc::new(Roll::default()), Arc::new(AtomicUsize::new(0)));
            roll.put(0, |_| false, |_| false, || false);
            let calls = {
                let (roll, called) = (roll.clone(), called.clone());
                thread::spawn(move || {
                    called.store(1, Ordering::SeqCst);
                    roll.call(|thread| *thread == 1);
                })
            };
            roll.put(1, |_| called.load(Ordering::SeqCst) == 1, |_| false, || false);
            calls.join().unwrap();
            assert_eq!(roll.take(), Some(1));
        };
        let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
        assert!(shuttle::Runner::new(scheduler, shuttle::Config::new()).run(run) >= 3);
    }

    #[test]
    fn no_thread_is_lost_between_two_who_decide() {
        let run = |ends_seated: bool| {
            let processor = Arc::new(Processor::default());
            let readies = (0..2).map(|n| {
                let processor = processor.clone();
                thread::spawn(move || {
                    processor.ready(2 * n);
                    processor.ready(2 * n + 1);
                })
            });
            let readies: Vec<_> = readies.collect();
            processor.sit();
            processor.dismiss();
            if ends_seated {
                processor.sit();
            }
            readies.into_iter().for_each(|one| one.join().unwrap());
            let seat = processor.seat.lock().take();
            let mut left = processor.roll.empty();
            let queue: Vec<u32> = core::iter::from_fn(|| left.pop_front()).collect();
            let mut known = if ends_seated {
                assert!(queue.is_empty(), "one sits there, and is not told of {queue:?}");
                seat.unwrap()
            } else {
                queue
            };
            known.sort_unstable();
            assert_eq!(known, [0, 1, 2, 3]);
        };
        for ends_seated in [true, false] {
            shuttle::check_random(move || run(ends_seated), 20_000);
            shuttle::check_pct(move || run(ends_seated), 10_000, 3);
        }
    }
}

//! Priorities that are asked for: anybody may ask as often as he likes, and no scheduler is to be put out by that. Of each thread only
//! the latest wish is kept, the one in the seat hears of so many at a time, and is asked for nothing else once in a beat.

use crate::BEAT_NS;
use alloc::collections::VecDeque;
#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};

/// Wishes that a scheduler hears of each time that it is asked.
pub const WISHES: usize = 32;

/// What is wished for one thread and was not told yet.
#[derive(Debug, Default)]
pub struct Wish(AtomicU64);

impl Wish {
    /// For none.
    pub const fn new() -> Wish {
        Wish(AtomicU64::new(0))
    }

    /// The latest wish. Whether the thread is to be put on a shelf: it is on none.
    pub fn set(&self, level: u64) -> bool {
        self.0.swap(level + 1, Ordering::SeqCst) == 0
    }

    /// The thread is on no shelf any more: what was wished last.
    pub fn take(&self) -> Option<u64> {
        self.0.swap(0, Ordering::SeqCst).checked_sub(1)
    }
}

/// Threads for which something is wished, of one processor: each once, however often that was.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    waiting: VecDeque<u64>,
    /// From when on the scheduler may be asked because of them.
    from: u64,
}

impl Shelf {
    /// One more thread.
    pub fn put(&mut self, thread: u64) {
        self.waiting.push_back(thread);
    }

    /// When the scheduler is to be asked at the latest; `None`: nothing waits.
    pub fn due(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.from)
    }

    /// The scheduler is being asked at time `now`, with room for so many: the threads that have waited longest.
    pub fn take(&mut self, room: usize, now: u64) -> impl Iterator<Item = u64> + use<'_> {
        let count = self.waiting.len().min(room).min(WISHES);
        if count > 0 {
            self.from = now + BEAT_NS;
        }
        self.waiting.drain(..count)
    }

    /// Nobody sits there any more: the threads whose wishes are not told.
    pub fn clear(&mut self) -> VecDeque<u64> {
        core::mem::take(self).waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;
    use std::vec::Vec;

    #[test]
    fn each_thread_once_the_longest_first_and_once_in_a_beat() {
        let once = || {
            let mut shelf = Shelf::default();
            assert_eq!(shelf.due(), None);
            (0..WISHES as u64 + 3).for_each(|thread| shelf.put(thread));
            assert_eq!(shelf.due(), Some(0), "the first at once");
            assert_eq!(shelf.take(0, 100).count(), 0);
            assert_eq!(shelf.due(), Some(0), "without room nothing was told");
            assert!(shelf.take(2, 100).eq(0..2));
            assert_eq!(shelf.due(), Some(100 + BEAT_NS));
            // Whoever is asked for something else before hears of them, too; and not of too many.
            assert!(shelf.take(usize::MAX, 200).eq(2..WISHES as u64 + 2));
            assert_eq!(shelf.due(), Some(200 + BEAT_NS));
            assert_eq!(shelf.take(usize::MAX, 300).count(), 1);
            assert_eq!(shelf.due(), None);
            assert_eq!(shelf.take(usize::MAX, 400).count(), 0);
            shelf.put(7);
            assert_eq!(shelf.due(), Some(300 + BEAT_NS), "telling nothing is no reason to wait");
            assert!(shelf.clear().into_iter().eq([7]));
            assert_eq!(shelf.due(), None);
        };
        shuttle::check_dfs(once, Some(1));
    }

    /// Several ask for two threads at once, on two processors, while their schedulers read: none is on a shelf twice, and what is told last
    /// is the latest wish, after which nothing waits.
    #[test]
    fn the_latest_wish_is_told_in_the_end() {
        const ASKERS: u64 = 3;
        let run = || {
            let wishes: Arc<[Wish; 2]> = Arc::new([Wish::new(), Wish::new()]);
            let shelves: Arc<[Mutex<Shelf>; 2]> = Arc::default();
            // In the order in which they were made, and told.
            let made: Arc<[Mutex<Vec<u64>>; 2]> = Arc::default();
            let told: Arc<[Mutex<Vec<u64>>; 2]> = Arc::default();
            let read = {
                let (wishes, shelves, told) = (wishes.clone(), shelves.clone(), told.clone());
                move |p: usize| {
                    let mut shelf = shelves[p].lock().unwrap();
                    assert!(shelf.waiting.len() <= 2);
                    let threads: Vec<u64> = shelf.take(1, 0).collect();
                    for thread in threads {
                        // A thread may have gone from one processor to the other; which of two that tell at once is heard first is theirs.
                        let mut told = told[thread as usize].lock().unwrap();
                        told.push(wishes[thread as usize].take().expect("it is on the shelf because of a wish"));
                    }
                }
            };
            let mut lives: Vec<_> = (0..ASKERS)
                .map(|asker| {
                    let (wishes, shelves, made) = (wishes.clone(), shelves.clone(), made.clone());
                    thread::spawn(move || {
                        for n in 0..3 {
                            let (thread, level) = (n % 2, asker * 3 + n as u64);
                            let is_new = {
                                let mut made = made[thread].lock().unwrap();
                                made.push(level);
                                wishes[thread].set(level)
                            };
                            if is_new {
                                shelves[asker as usize % 2].lock().unwrap().put(thread as u64);
                            }
                        }
                    })
                })
                .collect();
            lives.extend((0..2).map(|p| {
                let read = read.clone();
                thread::spawn(move || (0..3).for_each(|_| read(p)))
            }));
            lives.into_iter().for_each(|life| life.join().unwrap());
            while (0..2).any(|p| shelves[p].lock().unwrap().due().is_some()) {
                (0..2).for_each(&read);
            }
            for thread in 0..2 {
                assert_eq!(told[thread].lock().unwrap().last(), made[thread].lock().unwrap().last());
                assert_eq!(wishes[thread].take(), None);
            }
        };
        shuttle::check_random(run, 2_000);
        shuttle::check_pct(run, 1_000, 3);
    }
}

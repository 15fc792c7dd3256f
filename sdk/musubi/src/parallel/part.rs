//! What one thread has left of a loop. Its owner takes from the front, others from the back.

use core::ops::Range;
#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};

/// First round and the one behind the last, in one word.
#[derive(Debug)]
pub struct Part(AtomicU64);

fn word(rounds: &Range<u32>) -> u64 {
    u64::from(rounds.start) << 32 | u64::from(rounds.end)
}

fn rounds(word: u64) -> Range<u32> {
    (word >> 32) as u32..word as u32
}

impl Part {
    pub fn new(rounds: Range<u32>) -> Part {
        Part(AtomicU64::new(word(&rounds)))
    }

    /// The owner: up to `grain` rounds.
    pub fn take(&self, grain: u32) -> Option<Range<u32>> {
        self.split(|left| left.start + grain.min(left.end - left.start), true)
    }

    /// Another one: half of what is left, at least one round.
    pub fn steal(&self) -> Option<Range<u32>> {
        self.split(|left| left.start + (left.end - left.start) / 2, false)
    }

    /// The owner, who has nothing left, has stolen these.
    pub fn refill(&self, rounds: Range<u32>) {
        self.0.store(word(&rounds), Ordering::Release);
    }

    /// Cuts what is left in two. Value: the front or the back; the other one stays.
    fn split(&self, at: impl Fn(&Range<u32>) -> u32, front: bool) -> Option<Range<u32>> {
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let left = rounds(seen);
            if left.is_empty() {
                return None;
            }
            let at = at(&left);
            let (front_part, back_part) = (left.start..at, at..left.end);
            let (mine, stays) = if front { (front_part, back_part) } else { (back_part, front_part) };
            match self.0.compare_exchange(seen, word(&stays), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(mine),
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use shuttle::sync::Arc;
    use shuttle::thread;
    use std::vec::Vec;

    /// Two owners who steal from each other, and one who only steals: each round is done once.
    #[test]
    fn each_round_is_done_once() {
        const ROUNDS: u32 = 7;
        let run = || {
            let parts = Arc::new([Part::new(0..3), Part::new(3..ROUNDS), Part::new(0..0)]);
            let workers = (0..3).map(|me| {
                let parts = parts.clone();
                thread::spawn(move || {
                    let mut done = Vec::new();
                    loop {
                        while let Some(some) = parts[me].take(2) {
                            done.extend(some);
                        }
                        let Some(stolen) = (1..3).find_map(|step| parts[(me + step) % 3].steal()) else { break };
                        parts[me].refill(stolen);
                    }
                    done
                })
            });
            let workers: Vec<_> = workers.collect();
            let mut done: Vec<u32> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
            done.sort_unstable();
            assert!(done.into_iter().eq(0..ROUNDS));
        };
        shuttle::check_random(run, 20_000);
        shuttle::check_pct(run, 5_000, 3);
    }

    #[test]
    fn a_part_is_cut_from_both_ends() {
        let once = || {
            let part = Part::new(10..20);
            assert_eq!(part.take(4), Some(10..14));
            assert_eq!(part.steal(), Some(17..20));
            assert_eq!(part.take(100), Some(14..17));
            assert_eq!((part.take(1), part.steal()), (None, None));
            part.refill(5..6);
            assert_eq!(part.steal(), Some(5..6), "the last one, too");
        };
        shuttle::check_dfs(once, Some(1));
    }
}

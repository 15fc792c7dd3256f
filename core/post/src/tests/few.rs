//! All interleavings in which threads are interrupted a few times only. Where a case has too many to go through, those are not: their number grows with a power of
//! the case's length, not with two to the length, and what goes wrong at all goes wrong with very few (who waits, or has ended, is not interrupted:
//! that costs nothing).

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, Runner};
use std::vec::Vec;

/// Depth first through all ways with at most `most` interruptions.
#[derive(Debug)]
struct Few {
    most: u32,
    /// At each step who could go on, and which of them does now.
    steps: Vec<(Vec<TaskId>, usize)>,
    at: usize,
    interrupted: u32,
    begun: bool,
}

impl Scheduler for Few {
    fn new_execution(&mut self) -> Option<Schedule> {
        (self.at, self.interrupted) = (0, 0);
        if core::mem::replace(&mut self.begun, true) {
            loop {
                let (options, taken) = self.steps.last_mut()?;
                *taken += 1;
                if *taken < options.len() {
                    break;
                }
                self.steps.pop();
            }
        }
        Some(Schedule::new(0))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, is_yielding: bool) -> Option<TaskId> {
        let goes_on = current.filter(|current| !is_yielding && runnable.iter().any(|task| task.id() == *current));
        if self.at == self.steps.len() {
            let others = runnable.iter().map(|task| task.id()).filter(|task| Some(*task) != current);
            // Who gives way waits for others, if there are any.
            let mut options: Vec<TaskId> = match goes_on {
                Some(current) if self.interrupted == self.most => [current].into(),
                Some(current) => core::iter::once(current).chain(others).collect(),
                None => others.collect(),
            };
            if options.is_empty() {
                options.extend(current);
            }
            self.steps.push((options, 0));
        }
        let (options, taken) = &self.steps[self.at];
        let next = options[*taken];
        self.at += 1;
        self.interrupted += u32::from(goes_on.is_some_and(|current| current != next));
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("the cases have no chances")
    }
}

/// Runs a case in all these ways. How many there were.
pub fn run(most: u32, test: impl Fn() + Send + Sync + 'static) -> usize {
    let few = Few { most, steps: Vec::new(), at: 0, interrupted: 0, begun: false };
    Runner::new(few, Config::new()).run(test)
}

mod tests {
    use super::run;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use shuttle::thread;
    use std::panic;

    /// A sum that is lost when both have read before either writes: that takes one interruption.
    #[test]
    fn one_interruption_is_enough_for_a_lost_sum() {
        let lost = |most| {
            panic::catch_unwind(|| {
                run(most, || {
                    let sum = Arc::new(AtomicU32::new(0));
                    let adds = |sum: &AtomicU32| sum.store(sum.load(Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let other = thread::spawn({
                        let sum = sum.clone();
                        move || adds(&sum)
                    });
                    adds(&sum);
                    other.join().unwrap();
                    assert_eq!(sum.load(Ordering::SeqCst), 2);
                })
            })
            .is_err()
        };
        assert_eq!([0, 1, 2].map(lost), [false, true, true]);
    }
}

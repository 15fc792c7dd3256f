//! Threads that miss the same pages at once, as the kernel has them: a thread begins its wait first and then says so under the section's
//! lock. None sleeps for ever, one asks at a time, and who is killed while it waits gets away.

use crate::transit::{Key, Transit};
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

const PAGES: u64 = 2;
const KEY: fn(u64) -> Key = |page| Key { page, of: 0 };

/// A thread's wait: the number of the present one, and whether it was ended.
#[derive(Default)]
struct Sleeper {
    wait: Mutex<(u64, bool)>,
    bell: Condvar,
}

impl Sleeper {
    fn begin(&self) -> u64 {
        let mut wait = self.wait.lock().unwrap();
        *wait = (wait.0 + 1, false);
        wait.0
    }

    fn wake(&self, ticket: u64) {
        let mut wait = self.wait.lock().unwrap();
        if wait.0 == ticket {
            wait.1 = true;
            self.bell.notify_all();
        }
    }

    fn sleep(&self) {
        let mut wait = self.wait.lock().unwrap();
        while !wait.1 {
            wait = self.bell.wait(wait).unwrap();
        }
    }
}

struct Section {
    state: Mutex<(Transit<(Arc<Sleeper>, u64)>, [bool; PAGES as usize])>,
    asking: [AtomicU32; PAGES as usize],
}

impl Section {
    fn new() -> Arc<Section> {
        Arc::new(Section {
            state: Mutex::new((Transit::new(), [false; 2])),
            asking: [AtomicU32::new(0), AtomicU32::new(0)],
        })
    }

    /// Touches a page until it is there, or `is_killed`. `supplies`: whether its pager makes the page valid.
    fn touch(&self, me: &Arc<Sleeper>, page: u64, supplies: impl Fn() -> bool, is_killed: impl Fn() -> bool) -> bool {
        loop {
            let asks = {
                let (transit, valid) = &mut *self.state.lock().unwrap();
                if valid[page as usize] {
                    return true;
                }
                transit.ask(KEY(page))
            };
            if is_killed() {
                if asks {
                    self.answer(page);
                }
                return false;
            }
            if asks {
                assert_eq!(
                    self.asking[page as usize].fetch_add(1, Ordering::SeqCst),
                    0,
                    "one asks for a page at a time"
                );
                thread::yield_now();
                if supplies() {
                    self.state.lock().unwrap().1[page as usize] = true;
                }
                self.asking[page as usize].fetch_sub(1, Ordering::SeqCst);
                self.answer(page);
            } else {
                let ticket = me.begin();
                let waits = self.state.lock().unwrap().0.wait(KEY(page), (me.clone(), ticket), |_| false);
                if waits.is_err() || is_killed() {
                    me.wake(ticket);
                }
                me.sleep();
            }
        }
    }

    fn answer(&self, page: u64) {
        let waiters = self.state.lock().unwrap().0.answered(KEY(page));
        waiters.iter().for_each(|(sleeper, ticket)| sleeper.wake(*ticket));
    }
}

#[test]
fn nobody_sleeps_for_ever() {
    shuttle::check_random(
        || {
            let section = Section::new();
            let threads: Vec<_> = (0..4u64)
                .map(|number| {
                    let section = section.clone();
                    thread::spawn(move || {
                        let me = Arc::new(Sleeper::default());
                        for page in [number % PAGES, (number + 1) % PAGES] {
                            assert!(section.touch(&me, page, || true, || false));
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(section.state.lock().unwrap().0.count(), 0);
        },
        2000,
    );
}

#[test]
fn who_is_killed_gets_away_and_the_others_go_on() {
    shuttle::check_random(
        || {
            let section = Section::new();
            let killed = Arc::new(Mutex::new(false));
            let victim = Arc::new(Sleeper::default());
            let (s, k, v) = (section.clone(), killed.clone(), victim.clone());
            // Its pager would never supply: only its death gets it away, asking or waiting.
            let dies = thread::spawn(move || s.touch(&v, 0, || false, || *k.lock().unwrap()));
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let section = section.clone();
                    thread::spawn(move || assert!(section.touch(&Arc::new(Sleeper::default()), 0, || true, || false)))
                })
                .collect();
            let killer = thread::spawn(move || {
                *killed.lock().unwrap() = true;
                let ticket = victim.wait.lock().unwrap().0;
                victim.wake(ticket);
            });
            killer.join().unwrap();
            others.into_iter().for_each(|thread| thread.join().unwrap());
            dies.join().unwrap();
            assert_eq!(section.state.lock().unwrap().0.count(), 0);
        },
        2000,
    );
}

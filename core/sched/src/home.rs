//! Where interrupts go that were sent to no processor in particular: to one that is idle, as long as there is one (K1-45, U11).

#[cfg(not(test))]
use core::sync::atomic::{AtomicUsize, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicUsize, Ordering};

/// The processor that they come to now. Many processors change it at once; whoever has, tells the hardware.
#[derive(Debug, Default)]
pub struct Home(AtomicUsize);

impl Home {
    /// At first: the processor that boots.
    pub const fn new() -> Home {
        Home(AtomicUsize::new(0))
    }

    pub fn at(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Processor `p` is idle from now on. Whether interrupts come to it now: where they came to is busy.
    pub fn idles(&self, p: usize, is_idle: impl Fn(usize) -> bool) -> bool {
        let at = self.at();
        at != p && !is_idle(at) && self.go(at, p)
    }

    /// Processor `p` is busy. Whether interrupts go to another one of `count` now, which is idle.
    pub fn is_busy(&self, p: usize, count: usize, is_idle: impl Fn(usize) -> bool) -> bool {
        let (mut from, mut moved) = (p, false);
        // Each time but the first because some other processor has become busy meanwhile.
        loop {
            let Some(to) = (0..count).find(|to| *to != from && is_idle(*to)) else { break };
            if self.at() != from || !self.go(from, to) {
                break;
            }
            moved = true;
            if is_idle(to) {
                break;
            }
            // It has become busy meanwhile, and may have looked before interrupts came to it.
            from = to;
        }
        moved
    }

    fn go(&self, from: usize, to: usize) -> bool {
        self.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::thread;

    #[test]
    fn interrupts_stay_where_somebody_is_idle() {
        let once = || {
            let home = Home::new();
            assert!(!home.idles(1, |p| p == 0), "they come to an idle one");
            assert!(home.idles(1, |_| false));
            assert!(!home.idles(1, |_| false), "it is there");
            assert!(!home.is_busy(0, 4, |p| p == 2), "it is not there");
            assert!(!home.is_busy(1, 4, |_| false), "nobody is idle");
            assert!(!home.is_busy(1, 4, |p| p == 1), "not to itself");
            assert!(home.is_busy(1, 4, |p| p == 3));
            assert_eq!(home.at(), 3);
        };
        shuttle::check_dfs(once, Some(1));
    }

    /// Whatever processors do meanwhile: in the end, if one is idle, they come to one that is.
    #[test]
    fn an_idle_processor_is_found_in_the_end() {
        const PROCESSORS: usize = 3;
        let run = || {
            let home = Arc::new(Home::new());
            let idle: Arc<[AtomicBool; PROCESSORS]> = Arc::new([const { AtomicBool::new(false) }; PROCESSORS]);
            let lives = (0..PROCESSORS).map(|p| {
                let (home, idle) = (home.clone(), idle.clone());
                thread::spawn(move || {
                    let is_idle = |p: usize| idle[p].load(Ordering::SeqCst);
                    for step in 0..2 + p {
                        idle[p].store(step % 2 == 0, Ordering::SeqCst);
                        if step % 2 == 0 {
                            home.idles(p, is_idle);
                        } else {
                            home.is_busy(p, PROCESSORS, is_idle);
                        }
                    }
                })
            });
            let lives: alloc::vec::Vec<_> = lives.collect();
            lives.into_iter().for_each(|life| life.join().unwrap());
            assert!(!idle[0].load(Ordering::SeqCst) && idle[1].load(Ordering::SeqCst));
            assert!(idle[home.at()].load(Ordering::SeqCst));
        };
        shuttle::check_random(run, 20_000);
        shuttle::check_pct(run, 5_000, 3);
    }
}

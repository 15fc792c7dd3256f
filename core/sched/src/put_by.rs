//! Somebody who is ready and in no queue: the thread that runs on a processor has sent him something and is about to wait, and then he goes
//! on in its place, before others that are ready, in what is left of its turn. A processor that has nothing to do takes him before that, and if the other one looks around
//! it makes him ready like anybody else.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU32, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU32, Ordering};

/// Of one processor. 0: nobody. Others put by there who rests there, and tell it so in any case.
#[derive(Debug, Default)]
pub struct PutBy(AtomicU32);

impl PutBy {
    /// Puts one by, unless somebody is. Whether it did. Only then it is looked for who idles, and that one is told; who begins to idle looks
    /// in the other order.
    #[inline]
    pub fn put(&self, who: u32) -> bool {
        self.0.compare_exchange(0, who, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Who it is.
    #[inline(always)]
    pub fn who(&self) -> Option<u32> {
        Some(self.0.load(Ordering::SeqCst)).filter(|who| *who != 0)
    }

    /// This one is put by no more. Whether he was: somebody may have been faster.
    #[inline]
    pub fn take(&self, who: u32) -> bool {
        self.0.compare_exchange(who, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Whoever it is, is put by no more.
    #[inline(always)]
    pub fn take_any(&self) -> Option<u32> {
        self.who().filter(|who| self.take(*who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shuttle::sync::atomic::AtomicBool;
    use shuttle::sync::{Arc, Condvar, Mutex};
    use shuttle::thread;

    #[test]
    fn one_is_put_by_and_taken() {
        shuttle::check_random(
            || {
                let put_by = PutBy::default();
                assert_eq!((put_by.who(), put_by.take_any()), (None, None));
                assert!(put_by.put(7) && !put_by.put(8));
                assert_eq!(put_by.who(), Some(7));
                assert!(!put_by.take(8) && put_by.take(7) && !put_by.take(7));
                assert!(put_by.put(8));
                assert_eq!((put_by.take_any(), put_by.who()), (Some(8), None));
            },
            1,
        );
    }

    /// What is shared: who is put by, whether the other processor idles, and what it sleeps until.
    #[derive(Default)]
    struct Machine {
        put_by: PutBy,
        idles: AtomicBool,
        /// Who rests there has been told by the kernel proper.
        told: AtomicBool,
        poked: Mutex<bool>,
        pokes: Condvar,
    }

    /// One puts by, and waits or computes; another one begins to idle. Whoever was put by goes on with one of them, and if it computes the other one has
    /// him without being told twice.
    fn run(waits: bool) {
        let machine = Arc::new(Machine::default());
        let other = {
            let machine = machine.clone();
            thread::spawn(move || {
                machine.idles.store(true, Ordering::SeqCst);
                loop {
                    if let Some(who) = machine.put_by.take_any() {
                        return who;
                    }
                    let mut poked = machine.poked.lock().unwrap();
                    while !*poked {
                        poked = machine.pokes.wait(poked).unwrap();
                    }
                    *poked = false;
                    if waits && machine.put_by.who().is_none() {
                        return 0;
                    }
                }
            })
        };
        let poke = || {
            *machine.poked.lock().unwrap() = true;
            machine.pokes.notify_one();
        };
        assert!(machine.put_by.put(7));
        if machine.idles.load(Ordering::SeqCst) {
            poke();
        }
        let own = if waits { machine.put_by.take_any().unwrap_or(0) } else { 0 };
        if waits {
            // The end.
            poke();
        }
        assert_eq!(own + other.join().unwrap(), 7);
    }

    /// One rests at a processor that idles, or wakes up: then it settles, lets interrupts in, and settles last thing before it runs something
    /// else, until it is interrupted. Another one puts by there who rests, where it sees it idle, and tells it; or the kernel proper does.
    fn run_there(wakes: bool) {
        let machine = Arc::new(Machine::default());
        let there = {
            let machine = machine.clone();
            thread::spawn(move || {
                machine.idles.store(true, Ordering::SeqCst);
                let mut who = machine.put_by.take_any();
                if who.is_none() && wakes {
                    machine.idles.store(false, Ordering::SeqCst);
                    who = machine.put_by.take_any();
                    *machine.poked.lock().unwrap() = false;
                    who = who.or_else(|| machine.put_by.take_any());
                }
                while who.is_none() && !machine.told.load(Ordering::SeqCst) {
                    let mut poked = machine.poked.lock().unwrap();
                    while !*poked && !machine.told.load(Ordering::SeqCst) {
                        poked = machine.pokes.wait(poked).unwrap();
                    }
                    *poked = false;
                    drop(poked);
                    who = machine.put_by.take_any();
                }
                who.unwrap_or(0)
            })
        };
        let is_put = machine.idles.load(Ordering::SeqCst) && machine.put_by.put(7);
        {
            let mut poked = machine.poked.lock().unwrap();
            *poked = is_put;
            machine.told.store(!is_put, Ordering::SeqCst);
        }
        machine.pokes.notify_one();
        assert_eq!(there.join().unwrap(), if is_put { 7 } else { 0 });
    }

    /// Goes through all orders.
    fn all(waits: bool) {
        all_of(move || run(waits));
    }

    fn all_of(run: impl Fn() + Send + Sync + 'static) {
        const MOST: usize = 200_000;
        let scheduler = shuttle::scheduler::DfsScheduler::new(Some(MOST), false);
        let ways = shuttle::Runner::new(scheduler, shuttle::Config::new()).run(run);
        assert!((3..MOST).contains(&ways), "{ways} interleavings");
    }

    #[test]
    fn who_is_put_by_goes_on_once() {
        all(true);
    }

    #[test]
    fn who_rests_elsewhere_is_found_there() {
        all_of(|| run_there(false));
        all_of(|| run_there(true));
    }

    #[test]
    fn nobody_idles_beside_one_who_is_put_by() {
        all(false);
    }
}

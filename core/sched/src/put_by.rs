//! Those who are ready and in no queue: the thread that runs on a processor has sent them something and is about to wait, and then the first of them goes
//! on in its place, before others that are ready, in what is left of its turn, and the next one when that one waits. A processor that has nothing to do takes one before that, and if
//! the other one looks around it makes all of them ready like anybody else.

#[cfg(not(test))]
use core::sync::atomic::{AtomicU64, Ordering};
#[cfg(test)]
use shuttle::sync::atomic::{AtomicU64, Ordering};

/// So many have room.
const MOST: u32 = 4;
/// Bits of each: none is 0, and all together are one word, in which the first is lowest.
const BITS: u32 = u64::BITS / MOST;

/// Of one processor. Others put by there who rests there, and tell it so in any case.
#[derive(Debug, Default)]
pub struct PutBy(AtomicU64);

fn first_of(all: u64) -> u32 {
    (all & ((1 << BITS) - 1)) as u32
}

/// How many there are.
fn len_of(all: u64) -> u32 {
    (u64::BITS - all.leading_zeros()).div_ceil(BITS)
}

/// All but this one.
fn without(all: u64, who: u32) -> Option<u64> {
    let at = (0..len_of(all)).map(|n| n * BITS).find(|at| first_of(all >> at) == who)?;
    let before = all & ((1 << at) - 1);
    // What is behind it moves up.
    Some(before | (all >> at >> BITS) << at)
}

impl PutBy {
    /// Puts one by behind all others, unless there is no room. Whether it did. Only then it is looked for who idles, and that one is told; who begins to idle looks
    /// in the other order.
    #[inline]
    pub fn put(&self, who: u32) -> bool {
        self.put_alone(who) || self.put_behind(who)
    }

    /// The same unless somebody is.
    #[inline]
    pub fn put_alone(&self, who: u32) -> bool {
        who < 1 << BITS && self.0.compare_exchange(0, who.into(), Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    #[cold]
    fn put_behind(&self, who: u32) -> bool {
        let fits = who < 1 << BITS;
        fits && self.change(|all| (len_of(all) < MOST).then(|| all | u64::from(who) << (len_of(all) * BITS))).is_some()
    }

    /// Makes of all of them what `to` says, if it does. What they were.
    #[inline]
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut all = self.0.load(Ordering::SeqCst);
        while let Some(changed) = to(all) {
            match self.0.compare_exchange(all, changed, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return Some(all),
                Err(other) => all = other,
            }
        }
        None
    }

    /// Who is the first.
    #[inline(always)]
    pub fn who(&self) -> Option<u32> {
        Some(first_of(self.0.load(Ordering::SeqCst))).filter(|who| *who != 0)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        len_of(self.0.load(Ordering::SeqCst)) as usize
    }

    /// This one is put by no more. Whether he was: somebody may have been faster.
    #[inline]
    pub fn take(&self, who: u32) -> bool {
        self.change(|all| without(all, who)).is_some()
    }

    /// The first one, whoever it is, is put by no more.
    #[inline(always)]
    pub fn take_any(&self) -> Option<u32> {
        self.change(|all| (all != 0).then_some(all >> BITS)).map(first_of)
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
                assert!(put_by.put(7) && !put_by.put_alone(8));
                assert_eq!((put_by.who(), put_by.count()), (Some(7), 1));
                assert!(!put_by.take(8) && put_by.take(7) && !put_by.take(7) && !put_by.take(0));
                assert!(put_by.put_alone(8));
                assert_eq!((put_by.take_any(), put_by.who()), (Some(8), None));
            },
            1,
        );
    }

    /// In the order in which they came, whoever is taken out of the middle, and no more than have room.
    #[test]
    fn the_first_is_taken_first() {
        use shuttle::rand::Rng;
        shuttle::check_random(
            || {
                let (put_by, mut list) = (PutBy::default(), Vec::new());
                let mut rng = shuttle::rand::thread_rng();
                for _ in 0..200 {
                    let who = [1, 2, 3, 4, 5, 300, (1 << BITS) - 1][rng.gen_range(0..7)];
                    match rng.gen_range(0..4) {
                        0 => assert_eq!(put_by.take_any(), (!list.is_empty()).then(|| list.remove(0))),
                        1 => {
                            let at = list.iter().position(|one| *one == who);
                            assert_eq!(put_by.take(who), at.map(|at| list.remove(at)).is_some());
                        }
                        _ if !list.contains(&who) => {
                            let has_room = list.len() < MOST as usize;
                            assert_eq!(put_by.put(who), has_room);
                            list.extend(has_room.then_some(who));
                        }
                        _ => {}
                    }
                    assert_eq!((put_by.who(), put_by.count()), (list.first().copied(), list.len()));
                }
                assert!(!put_by.put(1 << BITS));
            },
            100,
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

    /// Beside one who is put by another one is, and their sender waits, as do those who go on in its place; or computes. Another one begins to idle, and has one of them, or idles again. Each goes on once, and if
    /// the first one computes the other one has both.
    fn run_two(waits: bool) {
        let machine = Arc::new(Machine::default());
        assert!(machine.put_by.put(7));
        let other = {
            let machine = machine.clone();
            thread::spawn(move || {
                let mut had = Vec::new();
                machine.idles.store(true, Ordering::SeqCst);
                while had.len() < if waits { 1 } else { 2 } {
                    if let Some(who) = machine.put_by.take_any() {
                        had.push(who);
                        continue;
                    }
                    let mut poked = machine.poked.lock().unwrap();
                    while !*poked {
                        poked = machine.pokes.wait(poked).unwrap();
                    }
                    // The end.
                    if std::mem::take(&mut *poked) && waits && machine.put_by.who().is_none() {
                        break;
                    }
                }
                had
            })
        };
        let poke = || {
            *machine.poked.lock().unwrap() = true;
            machine.pokes.notify_one();
        };
        assert!(machine.put_by.put(8));
        if machine.idles.load(Ordering::SeqCst) {
            poke();
        }
        let mut own = Vec::new();
        if waits {
            own.extend(std::iter::from_fn(|| machine.put_by.take_any()));
            poke();
        }
        let had = other.join().unwrap();
        assert!(own.is_sorted() && had.is_sorted(), "{own:?} {had:?}");
        own.extend(had);
        own.sort_unstable();
        assert_eq!(own, [7, 8]);
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
        let is_put = machine.idles.load(Ordering::SeqCst) && machine.put_by.put_alone(7);
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
    fn both_go_on_once() {
        all_of(|| run_two(true));
        all_of(|| run_two(false));
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

//! Lanes: one puts, one takes, under shuttle's interleavings; and words that one of them overwrites.

use super::*;
use crate::{Putter, Taker, Wake, lane_words};

const PLACES: u64 = 2;

fn lane() -> Arc<Vec<AtomicU64>> {
    Arc::new(words(lane_words::<2>(PLACES)))
}

#[test]
fn messages_arrive_once_and_in_order() {
    for limit in [FOR_EVER, Limit::Snoop(u64::MAX)] {
        random(move || {
            const ALL: u64 = 5;
            let (machine, shared) = (Machine::new(2), lane());
            let putter = {
                let (machine, shared) = (machine.clone(), shared.clone());
                thread::spawn(move || {
                    let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
                    let lane = Putter::<2>::new(&shared, PLACES).unwrap();
                    for n in 0..ALL {
                        loop {
                            match lane.put(&[n, n + 100]) {
                                Ok(mut wake) => break wake.now(&partners),
                                Err(error) => assert_eq!(error, Error::Busy),
                            }
                            thread::yield_now();
                        }
                    }
                    machine.wait_for_end(2);
                })
            };
            let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
            let lane = Taker::<2>::new(&shared, PLACES).unwrap();
            for n in 0..ALL {
                assert_eq!(lane.take_after(&partners, Wake::default(), limit), Ok([n, n + 100]));
            }
            assert_eq!(lane.take_after(&partners, Wake::default(), Limit::Poll), Err(Error::Busy));
            machine.end(2);
            putter.join().unwrap();
        });
    }
}

#[test]
fn a_call_and_its_answer_cost_one_pass_each() {
    random(|| {
        const CALLS: u64 = 3;
        let (machine, there, back) = (Machine::new(2), lane(), lane());
        let server = {
            let (machine, there, back) = (machine.clone(), there.clone(), back.clone());
            thread::spawn(move || {
                let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
                let calls = Taker::<2>::new(&there, PLACES).unwrap();
                let answers = Putter::<2>::new(&back, PLACES).unwrap();
                let mut wake = Wake::default();
                while let Ok([n, _]) = calls.take_after(&partners, wake, FOR_EVER) {
                    wake = answers.put(&[n + 100, 0]).unwrap();
                }
            })
        };
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let calls = Putter::<2>::new(&there, PLACES).unwrap();
        let answers = Taker::<2>::new(&back, PLACES).unwrap();
        for n in 0..CALLS {
            let wake = calls.put(&[n, 0]).unwrap();
            assert_eq!(answers.take_after(&partners, wake, FOR_EVER), Ok([n + 100, 0]));
        }
        machine.end(1);
        server.join().unwrap();
        let entries = machine.entries();
        // Each call has at most one step into the kernel on each side; what is more are first sleeps and ends.
        assert!(entries <= 2 * CALLS + 6, "{entries} entries");
    });
}

#[test]
fn what_the_dead_had_put_is_taken_first() {
    random(|| {
        let (machine, shared) = (Machine::new(2), lane());
        let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
        let putter = {
            let (machine, shared) = (machine.clone(), shared.clone());
            thread::spawn(move || {
                let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
                let lane = Putter::<2>::new(&shared, PLACES).unwrap();
                lane.put(&[1, 2]).unwrap().now(&partners);
                machine.end(1);
            })
        };
        let lane = Taker::<2>::new(&shared, PLACES).unwrap();
        let take = || lane.take_after(&partners, Wake::default(), FOR_EVER);
        assert_eq!(take(), Ok([1, 2]));
        assert_eq!(take(), Err(Error::Dead));
        putter.join().unwrap();
    });
}

#[test]
fn only_so_many_fit() {
    alone(|| {
        let (shared, few) = (lane(), words(lane_words::<2>(PLACES) - 1));
        assert!(Putter::<2>::new(&few, PLACES).is_none() && Taker::<2>::new(&few, PLACES).is_none());
        assert!(Putter::<2>::new(&shared, 3).is_none());
        let machine = Machine::new(2);
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let (putter, taker) = (Putter::<2>::new(&shared, PLACES).unwrap(), Taker::<2>::new(&shared, PLACES).unwrap());
        for n in 0..7 {
            putter.put(&[n, 0]).unwrap().now(&partners);
            putter.put(&[n, 1]).unwrap().now(&partners);
            assert_eq!(putter.put(&[n, 2]).err(), Some(Error::Busy));
            for nth in 0..2 {
                assert_eq!(taker.take_after(&partners, Wake::default(), Limit::Poll), Ok([n, nth]));
            }
        }
        assert_eq!(machine.entries(), 0, "nobody was waited for");
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// What is written there costs an error or a wrong message, and no end of this thread is further than the lane is long.
    #[test]
    fn any_words_at_all(
        found in prop::collection::vec(prop_oneof![any::<u64>(), 0..5u64], 20),
        changes in prop::collection::vec((0..20usize, prop_oneof![any::<u64>(), 0..5u64]), 0..20),
    ) {
        alone(move || {
            let machine = Machine::new(2);
            let shared: Vec<AtomicU64> = found.iter().map(|word| AtomicU64::new(*word)).collect();
            let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
            let (putter, taker) =
                (Putter::<2>::new(&shared, PLACES).unwrap(), Taker::<2>::new(&shared, PLACES).unwrap());
            let use_both = || {
                for limit in [Limit::Poll, Limit::Sleep(0), Limit::Snoop(0)] {
                    match putter.put(&[1, 2]) {
                        Ok(mut wake) => wake.now(&partners),
                        Err(error) => assert!(matches!(error, Error::Busy | Error::Changed)),
                    }
                    if let Err(error) = taker.take_after(&partners, Wake::default(), limit) {
                        assert!(matches!(error, Error::Busy | Error::Changed | Error::TimedOut));
                    }
                }
            };
            use_both();
            for (at, value) in &changes {
                shared[*at].store(*value, Ordering::SeqCst);
                use_both();
            }
        });
    }
}

#[test]
fn a_position_that_cannot_be_is_told() {
    alone(|| {
        let (machine, shared) = (Machine::new(2), lane());
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let (putter, taker) = (Putter::<2>::new(&shared, PLACES).unwrap(), Taker::<2>::new(&shared, PLACES).unwrap());
        let take = || taker.take_after(&partners, Wake::default(), Limit::Poll);
        // More put than there are places, or fewer than were taken; more taken than put.
        for (put, taken) in [(PLACES + 1, 1), (u64::MAX, 2), (1 << 63, 1 << 63)] {
            shared[0].store(put, Ordering::SeqCst);
            assert_eq!(take(), Err(Error::Changed));
            shared[8].store(taken, Ordering::SeqCst);
            assert_eq!(putter.put(&[0, 0]).err(), Some(Error::Changed));
        }
        (shared[0].store(0, Ordering::SeqCst), shared[8].store(0, Ordering::SeqCst));
        assert_eq!(take(), Err(Error::Busy));
        assert!(putter.put(&[7, 8]).is_ok());
        assert_eq!(take(), Ok([7, 8]));
    });
}

//! Under `shuttle`'s interleavings: a wake-up that is lost is a deadlock, which it reports.

mod deaths;
mod hostile;
mod lanes;
mod machine;

use crate::{Event, Limit, PARTNERS_MAX, Partners, Queue, Semaphore, Taken, Threads};
use abi::Error;
use machine::{As, Machine, words};
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use std::collections::VecDeque;

const FOR_EVER: Limit = Limit::Sleep(u64::MAX);
const RUNS: usize = 1000;

fn random(body: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(body, RUNS);
}

/// Once, for what has no other threads.
fn alone(body: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(body, 1);
}

#[test]
fn messages_arrive_once_and_in_order() {
    for limit in [FOR_EVER, Limit::Snoop(u64::MAX)] {
        random(move || {
            const EACH: u64 = 3;
            let (machine, shared) = (Machine::new(3), Arc::new(words(Queue::<As, 2>::words(2))));
            let putters: Vec<_> = [1, 2]
                .map(|me| {
                    let (machine, shared) = (machine.clone(), shared.clone());
                    thread::spawn(move || {
                        let partners = Partners::watch(As::new(&machine, me), &[3 - me, 3]).unwrap();
                        let queue = Queue::<_, 2>::new(&shared, 2, &partners).unwrap();
                        (0..EACH).for_each(|n| queue.put(&[me, n], limit).unwrap());
                        machine.wait_for_end(3);
                    })
                })
                .into();
            let partners = Partners::watch(As::new(&machine, 3), &[1, 2]).unwrap();
            let queue = Queue::<_, 2>::new(&shared, 2, &partners).unwrap();
            let mut next = [0; 2];
            for _ in 0..2 * EACH {
                let Taken::Message([from, n]) = queue.take(limit).unwrap() else { panic!("nobody has ended") };
                assert_eq!(n, next[from as usize - 1]);
                next[from as usize - 1] += 1;
            }
            assert_eq!(queue.take(Limit::Poll), Err(Error::Busy));
            machine.end(3);
            putters.into_iter().for_each(|putter| putter.join().unwrap());
        });
    }
}

#[test]
fn two_takers_share_what_comes() {
    random(|| {
        let (machine, shared) = (Machine::new(3), Arc::new(words(Queue::<As, 1>::words(2))));
        let takers: Vec<_> = [1, 2]
            .map(|me| {
                let (machine, shared) = (machine.clone(), shared.clone());
                thread::spawn(move || {
                    let partners = Partners::watch(As::new(&machine, me), &[3 - me, 3]).unwrap();
                    let queue = Queue::<_, 1>::new(&shared, 2, &partners).unwrap();
                    let take = || match queue.take(FOR_EVER).unwrap() {
                        Taken::Message([n]) => n,
                        Taken::Left(who) => panic!("{who} has not ended"),
                    };
                    let sum = take() + take();
                    machine.wait_for_end(3);
                    sum
                })
            })
            .into();
        let partners = Partners::watch(As::new(&machine, 3), &[1, 2]).unwrap();
        let queue = Queue::<_, 1>::new(&shared, 2, &partners).unwrap();
        (0..4).for_each(|n| queue.put(&[1 << n], FOR_EVER).unwrap());
        machine.end(3);
        assert_eq!(takers.into_iter().map(|taker| taker.join().unwrap()).sum::<u64>(), 15);
    });
}

#[test]
fn a_call_and_its_answer_cost_one_pass_each() {
    random(|| {
        let machine = Machine::new(2);
        let shared = Arc::new((words(Queue::<As, 1>::words(4)), words(Queue::<As, 1>::words(4))));
        const CALLS: u64 = 3;
        let server = {
            let (machine, shared) = (machine.clone(), shared.clone());
            thread::spawn(move || {
                let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
                let requests = Queue::<_, 1>::new(&shared.0, 4, &partners).unwrap();
                let answers = Queue::<_, 1>::new(&shared.1, 4, &partners).unwrap();
                let mut wake = crate::Wake::default();
                while let Ok(Taken::Message([n])) = requests.take_after(wake, FOR_EVER) {
                    wake = answers.put_quietly(&[n + 100], FOR_EVER).unwrap();
                }
            })
        };
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let requests = Queue::<_, 1>::new(&shared.0, 4, &partners).unwrap();
        let answers = Queue::<_, 1>::new(&shared.1, 4, &partners).unwrap();
        for n in 0..CALLS {
            let wake = requests.put_quietly(&[n], FOR_EVER).unwrap();
            assert_eq!(answers.take_after(wake, FOR_EVER), Ok(Taken::Message([n + 100])));
        }
        machine.end(1);
        server.join().unwrap();
        let entries = machine.entries();
        // Each call has at most one step into the kernel on each side; what is more are first sleeps and ends.
        assert!(entries <= 2 * CALLS + 6, "{entries} entries");
    });
}

#[test]
fn a_semaphore_lets_so_many_in() {
    random(|| {
        let (machine, shared) = (Machine::new(3), Arc::new(words(Semaphore::<As>::WORDS)));
        let inside = Arc::new(AtomicU64::new(0));
        let all: Vec<_> = [1, 2, 3]
            .map(|me| {
                let (machine, shared, inside) = (machine.clone(), shared.clone(), inside.clone());
                thread::spawn(move || {
                    let others: Vec<u64> = (1..=3).filter(|other| *other != me).collect();
                    let partners = Partners::watch(As::new(&machine, me), &others).unwrap();
                    let semaphore = Semaphore::new(&shared, 2, &partners).unwrap();
                    for _ in 0..2 {
                        let held = semaphore.acquire(FOR_EVER).unwrap();
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert_eq!(held.left, None);
                        drop(held);
                    }
                    machine.wait_for_all(3);
                })
            })
            .into();
        all.into_iter().for_each(|one| one.join().unwrap());
    });
}

#[test]
fn an_event_is_had_once() {
    random(|| {
        let (machine, shared) = (Machine::new(2), Arc::new(words(Event::<As>::WORDS)));
        let other = {
            let (machine, shared) = (machine.clone(), shared.clone());
            thread::spawn(move || {
                let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
                Event::new(&shared, &partners).unwrap().set();
                machine.wait_for_end(1);
            })
        };
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let event = Event::new(&shared, &partners).unwrap();
        event.wait(FOR_EVER).unwrap();
        assert_eq!(event.wait(Limit::Poll), Err(Error::Busy));
        machine.end(1);
        other.join().unwrap();
    });
}

#[test]
fn one_spins_while_the_partner_runs_and_sleeps_when_it_does_not() {
    alone(|| {
        let (machine, shared) = (Machine::new(2), words(Event::<As>::WORDS));
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let event = Event::new(&shared, &partners).unwrap();
        // It stops running after some looks: then this one goes to sleep, which ends at once.
        machine.run_for(2, 7);
        let before = machine.entries();
        assert_eq!(event.wait(Limit::Snoop(0)), Err(Error::TimedOut));
        assert_eq!((machine.spins(), machine.entries() - before), (6, 1));
        machine.run_for(2, 0);
        assert_eq!(event.wait(Limit::Snoop(0)), Err(Error::TimedOut));
        assert_eq!(machine.spins(), 6, "the partner does not run");
        // It runs, and sets the event meanwhile: no sleep.
        machine.run_for(2, 1000);
        shared[0].store(1, Ordering::SeqCst);
        let before = machine.entries();
        assert_eq!(event.wait(Limit::Snoop(u64::MAX)), Ok(()));
        assert_eq!(machine.entries(), before);
        // What is said of who runs is old: one does not spin for ever because of that.
        machine.say_nothing_of_oneself();
        assert_eq!(event.wait(Limit::Snoop(0)), Err(Error::TimedOut));
        assert_eq!(machine.spins(), 6);
    });
}

#[test]
fn one_spins_for_who_holds_a_place_and_for_nobody_else() {
    alone(|| {
        let (machine, shared) = (Machine::new(3), words(Semaphore::<As>::WORDS));
        let partners = Partners::watch(As::new(&machine, 1), &[2, 3]).unwrap();
        let semaphore = Semaphore::new(&shared, 1, &partners).unwrap();
        shared[0].store(2, Ordering::SeqCst);
        machine.run_for(3, 1000);
        assert_eq!(semaphore.acquire(Limit::Snoop(0)).err(), Some(Error::TimedOut));
        assert_eq!(machine.spins(), 0, "the holder sleeps, who runs is another one");
        machine.run_for(3, 0);
        machine.run_for(2, 7);
        assert_eq!(semaphore.acquire(Limit::Snoop(0)).err(), Some(Error::TimedOut));
        assert!(machine.spins() > 0, "the holder runs");
    });
}

#[test]
fn what_cannot_be_is_refused() {
    alone(|| {
        let machine = Machine::new(PARTNERS_MAX as u64 + 2);
        let of = |others: &[u64]| Partners::watch(As::new(&machine, 1), others).err();
        assert_eq!(of(&[0]), Some(Error::BadArgument));
        assert_eq!(of(&[1]), Some(Error::BadArgument));
        assert_eq!(of(&[1 << 32]), Some(Error::BadArgument));
        assert_eq!(of(&[2, 3, 4, 5, 6, 7, 8, 9, 10]), Some(Error::TooBig));
        machine.end(5);
        assert_eq!(of(&[2, 5]), Some(Error::Dead));
        assert!(!machine.is_watched(2), "what was begun is taken back");
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        let few = words(10);
        assert!(Queue::<_, 2>::new(&few, 2, &partners).is_none());
        assert!(Queue::<_, 2>::new(&words(1000), 3, &partners).is_none());
        assert!(Semaphore::new(&words(100), 9, &partners).is_none());
        assert!(Semaphore::new(&words(100), 0, &partners).is_none());
        assert!(Event::new(&few, &partners).is_none());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// One thread that puts and takes: a plain queue of bounded length.
    #[test]
    fn a_queue_is_a_queue(steps in prop::collection::vec(any::<bool>(), 0..200), lap in 0..3u64) {
        alone(move || {
            let (machine, shared) = (Machine::new(2), words(Queue::<As, 1>::words(4)));
            let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
            let queue = Queue::<_, 1>::new(&shared, 4, &partners).unwrap();
            for _ in 0..4 * lap {
                queue.put(&[0], Limit::Poll).unwrap();
                queue.take(Limit::Poll).unwrap();
            }
            let mut model = VecDeque::new();
            for (n, put) in (0u64..).zip(&steps) {
                if *put {
                    let room = model.len() < 4;
                    assert_eq!(queue.put(&[n], Limit::Poll), if room { Ok(()) } else { Err(Error::Busy) });
                    if room {
                        model.push_back(n);
                    }
                } else {
                    let expected = model.pop_front().map(|n| Taken::Message([n])).ok_or(Error::Busy);
                    assert_eq!(queue.take(Limit::Poll), expected);
                }
            }
        });
    }
}

#[test]
fn threads_are_told_apart_by_who_they_are() {
    alone(|| {
        let machine = Machine::new(3);
        let partners = Partners::watch(As::new(&machine, 1), &[2, 3]).unwrap();
        assert_eq!((partners.me(), partners.threads().me(), partners.is_alone()), (1, 1, false));
        machine.end(2);
        let shared = words(Event::<As>::WORDS);
        let event = Event::new(&shared, &partners).unwrap();
        assert!(partners.has_lost());
        assert_eq!(event.wait(Limit::Poll), Err(Error::Dead));
        assert_eq!(event.wait(Limit::Poll), Err(Error::Busy), "an end is told once");
        machine.end(3);
        event.set();
        assert_eq!(event.wait(Limit::Poll), Ok(()), "what came before the end");
        (0..2).for_each(|_| assert_eq!(event.wait(Limit::Poll), Err(Error::Dead), "nobody is left"));
        assert!(partners.is_alone());
    });
}

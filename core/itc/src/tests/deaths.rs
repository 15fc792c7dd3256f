//! Partners that end: in the middle, outside, or before. Whoever waits hears of it, and what they held is found.

use super::*;

/// Ends a thread when its body is over, however far it came.
fn dying(machine: &Arc<Machine>, me: u64, body: impl FnOnce(&Arc<Machine>) + Send + 'static) -> thread::JoinHandle<()> {
    let machine = machine.clone();
    thread::spawn(move || {
        body(&machine);
        machine.end(me);
    })
}

#[test]
fn a_putter_ends_in_the_middle() {
    random(|| {
        let (machine, shared) = (Machine::new(3), Arc::new(words(Queue::<As, 1>::words(2))));
        let (dead, live) = (shared.clone(), shared.clone());
        let first = dying(&machine, 1, move |machine| {
            let partners = Partners::watch(As::new(machine, 1), &[2, 3]).unwrap();
            let queue = Queue::<_, 1>::new(&dead, 2, &partners).unwrap();
            queue.put(&[1], FOR_EVER).unwrap();
            // It has a place, and never puts a message there.
            while queue.claim().unwrap().is_none() {
                thread::yield_now();
            }
        });
        let second = {
            let machine = machine.clone();
            thread::spawn(move || {
                let partners = match Partners::watch(As::new(&machine, 2), &[1, 3]) {
                    Err(Error::Dead) => Partners::watch(As::new(&machine, 2), &[3]).unwrap(),
                    other => other.unwrap(),
                };
                let queue = Queue::<_, 1>::new(&live, 2, &partners).unwrap();
                for n in [2, 3] {
                    // The end of the first one is told once, that of the last one for ever.
                    while let Err(error) = queue.put(&[n], FOR_EVER) {
                        assert_eq!(error, Error::Dead);
                        if machine.has_ended(3) {
                            return;
                        }
                    }
                }
                machine.wait_for_end(3);
            })
        };
        let others: &[u64] = &[1, 2];
        let partners = match Partners::watch(As::new(&machine, 3), others) {
            Ok(partners) => partners,
            Err(error) => {
                // Nothing to see of a thread that was gone before.
                assert_eq!(error, Error::Dead);
                machine.end(3);
                first.join().unwrap();
                return second.join().unwrap();
            }
        };
        let queue = Queue::<_, 1>::new(&shared, 2, &partners).unwrap();
        let (mut messages, mut left) = (Vec::new(), 0);
        while messages.len() < 3 || left == 0 {
            match queue.take(FOR_EVER) {
                Ok(Taken::Message([n])) => messages.push(n),
                Ok(Taken::Left(1)) => left += 1,
                Err(Error::Dead) => {}
                other => panic!("{other:?}"),
            }
        }
        messages.sort_unstable();
        assert_eq!((messages, left, queue.left()), (vec![1, 2, 3], 1, 1));
        machine.end(3);
        first.join().unwrap();
        second.join().unwrap();
    });
}

#[test]
fn a_taker_ends_in_the_middle() {
    random(|| {
        let (machine, shared) = (Machine::new(3), Arc::new(words(Queue::<As, 1>::words(1))));
        let taken = shared.clone();
        let partners = Partners::watch(As::new(&machine, 3), &[1]).unwrap();
        let queue = Queue::<_, 1>::new(&shared, 1, &partners).unwrap();
        let first = dying(&machine, 1, move |machine| {
            let partners = Partners::watch(As::new(machine, 1), &[3]).unwrap();
            let queue = Queue::<_, 1>::new(&taken, 1, &partners).unwrap();
            while queue.begin().unwrap().is_none() {
                thread::yield_now();
            }
        });
        queue.put(&[1], FOR_EVER).unwrap();
        // There is room again only because the place of the dead one is found.
        while let Err(error) = queue.put(&[2], FOR_EVER) {
            assert_eq!(error, Error::Dead);
        }
        assert_eq!(queue.left(), 1);
        assert_eq!(queue.take(FOR_EVER), Ok(Taken::Message([2])));
        first.join().unwrap();
        assert_eq!(queue.take(FOR_EVER), Err(Error::Dead), "nobody is left");
    });
}

#[test]
fn a_place_in_a_semaphore_has_its_holders_number() {
    random(|| {
        let (machine, shared) = (Machine::new(2), Arc::new(words(Semaphore::<As>::WORDS)));
        let held = shared.clone();
        let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
        let first = dying(&machine, 1, move |machine| {
            let partners = Partners::watch(As::new(machine, 1), &[2]).unwrap();
            let semaphore = Semaphore::new(&held, 1, &partners).unwrap();
            core::mem::forget(semaphore.acquire(FOR_EVER).unwrap());
        });
        machine.wait_for_end_or(&shared[0], 1);
        let semaphore = Semaphore::new(&shared, 1, &partners).unwrap();
        let place = semaphore.acquire(FOR_EVER).unwrap();
        assert_eq!(place.left, Some(1));
        drop(place);
        assert_eq!(semaphore.acquire(Limit::Poll).unwrap().left, None, "it is told once");
        first.join().unwrap();
    });
}

#[test]
fn who_waits_for_the_dead_hears_of_it() {
    random(|| {
        let (machine, shared) = (Machine::new(2), Arc::new(words(64)));
        let partners = Partners::watch(As::new(&machine, 2), &[1]).unwrap();
        let first = dying(&machine, 1, |_| {});
        let event = Event::new(&shared[..16], &partners).unwrap();
        assert_eq!(event.wait(FOR_EVER), Err(Error::Dead));
        let queue = Queue::<_, 1>::new(&shared[16..], 1, &partners).unwrap();
        assert_eq!(queue.take(Limit::Snoop(u64::MAX)), Err(Error::Dead));
        assert_eq!(queue.take(Limit::Poll), Err(Error::Dead));
        first.join().unwrap();
    });
}

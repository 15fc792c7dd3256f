//! A partner that overwrites everything costs an error, never a wait without end, and no panic.

use super::*;
use std::panic::AssertUnwindSafe;

const ROOM: usize = 160;

/// All operations that do not wait, once.
fn use_all(partners: &Partners<As>, shared: &[AtomicU64]) {
    let event = Event::new(shared, partners).unwrap();
    let semaphore = Semaphore::new(shared, 3, partners).unwrap();
    let queue = Queue::<_, 3>::new(shared, 8, partners).unwrap();
    let is_told = |error: Error| matches!(error, Error::Busy | Error::Changed | Error::Dead | Error::TimedOut);
    for limit in [Limit::Poll, Limit::Sleep(0), Limit::Snoop(0)] {
        assert!(event.wait(limit).err().is_none_or(is_told));
        assert!(semaphore.acquire(limit).err().is_none_or(is_told));
        assert!(queue.put(&[1, 2, 3], limit).err().is_none_or(is_told));
        assert!(queue.take(limit).err().is_none_or(is_told));
    }
    event.set();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_words_at_all(
        found in prop::collection::vec(prop_oneof![any::<u64>(), 0..12u64, (0..4u64, 0..3u64, 0..4u64)
            .prop_map(|(what, lap, thread)| what << 62 | lap << 32 | thread)], ROOM),
        changes in prop::collection::vec((0..ROOM, any::<u64>()), 0..20),
        ended in any::<bool>(),
    ) {
        alone(move || {
            let machine = Machine::new(3);
            let shared: Vec<AtomicU64> = found.iter().map(|word| AtomicU64::new(*word)).collect();
            let partners = Partners::watch(As::new(&machine, 1), &[2, 3]).unwrap();
            if ended {
                machine.end(2);
            }
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| {
                use_all(&partners, &shared);
                for (at, value) in &changes {
                    shared[*at].store(*value, Ordering::SeqCst);
                    use_all(&partners, &shared);
                }
            }));
            assert!(outcome.is_ok(), "it panicked");
        });
    }
}

#[test]
fn overwritten_meanwhile() {
    shuttle::check_random(
        || {
            let (machine, shared) = (Machine::new(2), Arc::new(words(ROOM)));
            let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
            let wild = {
                let (machine, shared) = (machine.clone(), shared.clone());
                thread::spawn(move || {
                    for n in 0..40u64 {
                        let at = (n * 37 % 97) as usize;
                        shared[at].store(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), Ordering::SeqCst);
                    }
                    // It ends: that is what bounds the waits of the others.
                    machine.end(2);
                })
            };
            use_all(&partners, &shared);
            let queue = Queue::<_, 3>::new(&shared, 8, &partners).unwrap();
            for _ in 0..20 {
                match queue.take(FOR_EVER) {
                    Ok(_) => {}
                    Err(error) => {
                        assert!(matches!(error, Error::Dead | Error::Changed | Error::Busy));
                        break;
                    }
                }
            }
            wild.join().unwrap();
        },
        500,
    );
}

#[test]
fn who_is_no_partner_is_neither_waited_for_nor_woken() {
    alone(|| {
        let (machine, shared) = (Machine::new(4), words(ROOM));
        let partners = Partners::watch(As::new(&machine, 1), &[2]).unwrap();
        // A place held by a thread that this one does not deal with, and may live for ever.
        shared[0].store(4, Ordering::SeqCst);
        let semaphore = Semaphore::new(&shared, 1, &partners).unwrap();
        assert_eq!(semaphore.acquire(FOR_EVER).err(), Some(Error::Changed));
        let before = machine.entries();
        shared.iter().for_each(|word| word.store(4, Ordering::SeqCst));
        Event::new(&shared, &partners).unwrap().set();
        assert_eq!(machine.entries(), before);
    });
}

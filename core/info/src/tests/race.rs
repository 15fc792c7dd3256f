//! Who reads while others write, under shuttle's interleavings.

use super::model::{N, table};
use crate::atomic::{AtomicU64, Ordering};
use crate::{fields, read, write};
use std::sync::Arc;

fn random(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, 2000);
}

/// All interleavings of two switches or fewer are among those of so many.
fn by_depth(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_pct(test, 2000, 3);
}

fn both(test: impl Fn() + Send + Sync + Clone + 'static) {
    random(test.clone());
    by_depth(test);
}

fn record() -> Arc<Vec<AtomicU64>> {
    Arc::new((0..4).map(|_| AtomicU64::new(0)).collect())
}

#[test]
fn no_record_is_torn() {
    both(|| {
        let shared = record();
        let writer = {
            let shared = shared.clone();
            shuttle::thread::spawn(move || {
                (1..4).for_each(|n| write(&shared, |words| fields(words, 1, &[n, 2 * n, 3 * n])))
            })
        };
        let mut last = 0;
        for _ in 0..3 {
            if let Some([sequence, a, b, c]) = read::<4>(&shared) {
                assert_eq!((b, c), (2 * a, 3 * a), "words of two moments");
                assert_eq!(sequence, 2 * a, "words of another moment than their sequence");
                assert!(a >= last, "what was read is older than what was read before");
                last = a;
            }
        }
        writer.join().unwrap();
        assert_eq!(read::<4>(&shared).map(|all| all[1]), Some(3));
    });
}

/// The test before can fail: without the sequence it does.
#[test]
fn without_the_sequence_records_are_torn() {
    let torn = std::panic::catch_unwind(|| {
        random(|| {
            let shared = record();
            let writer = {
                let shared = shared.clone();
                shuttle::thread::spawn(move || (1..4).for_each(|n| fields(&shared, 1, &[n, 2 * n, 3 * n])))
            };
            let [_, a, b, c] = read::<4>(&shared).unwrap();
            assert_eq!((b, c), (2 * a, 3 * a));
            writer.join().unwrap();
        });
    });
    assert!(torn.is_err());
}

/// A live word is the object's whose number stands beside it, even when the place changes hands and who had it before still stores.
#[test]
fn live_words_are_nobody_elses() {
    both(|| {
        let (table, words) = table(1);
        let owners: Vec<_> = [1, 2]
            .map(|number| {
                shuttle::thread::spawn(move || {
                    let slot = Arc::new(table.claim(|record| fields(record, 1, &[number])));
                    slot.set(2, number * 10);
                    let late = {
                        let slot = slot.clone();
                        shuttle::thread::spawn(move || slot.set(2, number * 10 + 1))
                    };
                    slot.hide();
                    drop(slot);
                    late.join().unwrap();
                })
            })
            .into();
        for _ in 0..3 {
            for record in words.iter().flat_map(|page| page.chunks(N)) {
                if let Some([_, number, live]) = read::<3>(record)
                    && number != 0
                {
                    assert!(live == 0 || live / 10 == number, "{live} is not {number}'s");
                }
            }
        }
        owners.into_iter().for_each(|owner| owner.join().unwrap());
        assert!(
            words.iter().flat_map(|page| page.chunks(N)).all(|record| record[1].load(Ordering::Relaxed) == 0),
            "somebody is shown who has gone"
        );
    });
}

#[test]
fn a_place_has_one_owner() {
    both(|| {
        let (table, _) = table(1);
        let claim = |number: u64| shuttle::thread::spawn(move || table.claim(|record| fields(record, 1, &[number])));
        let slots = [1, 2, 3].map(claim).map(|one| one.join().unwrap());
        let mut places: Vec<_> = slots.iter().filter_map(|slot| slot.place()).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), slots.iter().filter(|slot| slot.has_place()).count());
    });
}

/// A writer that never gets done keeps nobody for ever.
#[test]
fn a_hostile_writer_keeps_nobody() {
    shuttle::check_random(
        || {
            let shared = record();
            shared[0].store(7, Ordering::Relaxed);
            assert_eq!(read::<4>(&shared), None);
            assert_eq!(read::<5>(&shared), None, "a record that is shorter");
        },
        1,
    );
}

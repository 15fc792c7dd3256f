//! A table against a plain list of who has which place.

use crate::atomic::AtomicU64;
use crate::{Slot, Table, fields, read};
use proptest::prelude::*;

/// So few records a page that tables get full.
pub const N: usize = 256;

/// Of so many pages, which are all there, and these.
pub fn table(pages: usize) -> (&'static Table<N>, Vec<&'static [AtomicU64; 512]>) {
    let words =
        |len: usize| -> &'static [AtomicU64] { Box::leak((0..len).map(|_| AtomicU64::new(0)).collect::<Box<_>>()) };
    let all: Vec<&'static [AtomicU64; 512]> = (0..pages).map(|_| words(512).try_into().unwrap()).collect();
    let table: &'static Table<N> =
        Box::leak(Box::new(Table::new(pages * (512 / N), words(8), words(N).try_into().unwrap())));
    assert_eq!((table.pages(), table.wants()), (pages, Some(0)));
    all.iter().for_each(|page| table.grows(page));
    assert_eq!(table.wants(), None, "there may be no more");
    (table, all)
}

#[derive(Clone, Debug)]
enum Step {
    Make,
    End(usize),
    Hide(usize),
    Store(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Make),
        2 => (0..8usize).prop_map(Step::End),
        1 => (0..8usize).prop_map(Step::Hide),
        3 => (0..8usize, 1..100u64).prop_map(|(at, value)| Step::Store(at, value)),
    ]
}

struct One {
    slot: Slot<N>,
    number: u64,
    live: u64,
    hidden: bool,
}

fn run(steps: Vec<Step>) {
    let (table, words) = table(2);
    assert_eq!(table.room(), 4);
    let mut all: Vec<One> = Vec::new();
    let mut most = 0;
    for (at, step) in steps.into_iter().enumerate() {
        let number = at as u64 + 1;
        match step {
            Step::Make => {
                let slot = table.claim(|record| fields(record, 1, &[number]));
                let shown = all.iter().filter(|one| one.slot.has_place()).count();
                assert_eq!(slot.has_place(), shown < 4, "a place is had while there is one");
                all.push(One { slot, number, live: 0, hidden: false });
                most = most.max((shown + 1).min(4));
            }
            Step::End(at) if at < all.len() => drop(all.swap_remove(at)),
            Step::Hide(at) if at < all.len() => {
                all[at].slot.hide();
                all[at].hidden = true;
            }
            Step::Store(at, value) if at < all.len() => {
                all[at].slot.set(2, value);
                all[at].live = value;
            }
            _ => {}
        }
        let mut shown: Vec<(u64, u64)> = Vec::new();
        for record in words.iter().flat_map(|page| page.chunks(N)) {
            let [_, number, live] = read::<3>(record).unwrap();
            shown.extend((number != 0).then_some((number, live)));
        }
        shown.sort_unstable();
        let mut wanted: Vec<(u64, u64)> =
            all.iter().filter(|one| one.slot.has_place() && !one.hidden).map(|one| (one.number, one.live)).collect();
        wanted.sort_unstable();
        assert_eq!(shown, wanted);
        assert_eq!(table.left_out(), all.iter().filter(|one| !one.slot.has_place()).count() as u64);
        assert!(table.used() >= most as u64 && table.used() <= 4);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_table_shows_who_there_is(steps in prop::collection::vec(step(), 0..60)) {
        shuttle::check_random(move || run(steps.clone()), 1);
    }
}

/// Pages come one after the other, each before who comes could need it: nobody is left out, and no page comes for nothing.
#[test]
fn a_table_grows_ahead_of_who_comes() {
    const SMALL: usize = 16;
    const EACH: usize = 512 / SMALL;
    shuttle::check_random(
        || {
            let words = |len: usize| -> &'static [AtomicU64] {
                Box::leak((0..len).map(|_| AtomicU64::new(0)).collect::<Box<_>>())
            };
            let table: &'static Table<SMALL> =
                Box::leak(Box::new(Table::new(4 * EACH, words(8), words(SMALL).try_into().unwrap())));
            let mut pages = 0;
            let mut grow = || {
                while let Some(at) = table.wants() {
                    assert_eq!(at, pages);
                    table.grows(words(512).try_into().unwrap());
                    pages += 1;
                }
                pages
            };
            let mut all = Vec::new();
            for n in 0..4 * EACH {
                let ready = grow();
                assert!(ready == 4 || (n + EACH..n + 2 * EACH).contains(&(ready * EACH)), "{ready} pages for {n}");
                all.push(table.claim(|record| fields(record, 1, &[n as u64 + 1])));
            }
            assert!(all.iter().enumerate().all(|(at, slot)| slot.place() == Some(at)));
            assert!(!table.claim(|_| ()).has_place(), "one more than there may be");
            // Who comes next has the lowest place that was given back, and no page comes for that.
            drop(all.split_off(EACH));
            all.swap_remove(3);
            assert_eq!(
                [3, EACH].map(|_| table.claim(|_| ())).each_ref().map(|slot| slot.place()),
                [Some(3), Some(EACH)]
            );
            assert_eq!((grow(), table.left_out()), (4, 0));
        },
        1,
    );
}

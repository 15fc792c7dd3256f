//! The ring against a plain list, and under shuttle's interleavings; stretches by hand.

use crate::{Reader, Stretch, Words, Writer, longest, note};
use abi::trace::{Event, HEAD, RECORD, RING, kind};
use proptest::prelude::*;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;
use std::cell::Cell;
use std::rc::Rc;

/// Few records, so that they are soon overwritten.
const FEW: u64 = 4;

#[derive(Clone)]
struct Plain(Rc<Vec<Cell<u64>>>);

impl Plain {
    fn new() -> Plain {
        Plain(Rc::new(vec![Cell::new(0); RING + FEW as usize * RECORD]))
    }
}

impl Words for Plain {
    fn load(&self, at: usize) -> u64 {
        self.0[at].get()
    }
    fn store(&self, at: usize, value: u64) {
        self.0[at].set(value);
    }
    fn records(&self) -> u64 {
        FEW
    }
}

/// All words tell which event it is.
fn event(n: u64) -> Event {
    Event { time: n, kind: kind::WAKE, handler: n & 0xff, thread: n, task: n, text: n, a: n, b: n }
}

#[test]
fn an_event_survives_its_words() {
    let event = Event { time: 1, kind: 2, handler: 0xff, thread: 3, task: 4, text: 5, a: 6, b: u64::MAX };
    assert_eq!(Event::of_words(event.words()), event);
}

proptest! {
    #[test]
    fn a_reader_takes_what_is_left_and_counts_the_rest(steps in prop::collection::vec(prop::bool::weighted(0.7), 0..200)) {
        let words = Plain::new();
        let (mut writer, mut reader) = (Writer::new(words.clone()), Reader::from_now(words.clone()));
        let (mut written, mut next, mut lost) = (0, 0, 0);
        for writes in steps {
            if writes {
                writer.put(&event(written));
                written += 1;
                continue;
            }
            let oldest = written.saturating_sub(FEW);
            if next < oldest {
                lost += oldest - next;
                next = oldest;
            }
            let expected = (next < written).then(|| event(next));
            next += u64::from(expected.is_some());
            prop_assert_eq!(reader.take(), expected);
            prop_assert_eq!(reader.lost(), lost);
        }
        // Whoever comes late finds what is left.
        let mut late = Reader::from_oldest(words.clone());
        let left: Vec<u64> = std::iter::from_fn(|| late.take()).map(|event| event.time).collect();
        prop_assert_eq!(left, (written.saturating_sub(FEW)..written).collect::<Vec<_>>());
        // And another writer goes on.
        Writer::new(words.clone()).put(&event(written));
        prop_assert_eq!(late.take(), Some(event(written)));
    }

    #[test]
    fn stretches_do_not_go_over_rounds(steps in prop::collection::vec((0..3u8, 0..4u64, 0..50u64), 0..100)) {
        let (mut stretch, mut now, mut round, mut open, mut is_on) = (Stretch::default(), 0, 0, None, false);
        for (step, handler, ticks) in steps {
            now += ticks;
            prop_assert_eq!(stretch.is_on(), is_on);
            match step {
                0 => {
                    stretch.begin(handler, now, round);
                    (open, is_on) = (Some((handler, now)), true);
                }
                1 => {
                    let expected = open.take().map(|(handler, began)| (handler, now - began));
                    prop_assert_eq!(stretch.end(now, round), expected);
                    is_on = false;
                }
                _ => {
                    round += 1;
                    open = None;
                }
            }
        }
    }

    #[test]
    fn the_longest_is_kept(ticks in prop::collection::vec((0..4u64, 0..1000u64), 0..50)) {
        let words = Plain::new();
        ticks.iter().for_each(|(handler, ticks)| note(&words, *handler, *ticks));
        for handler in 0..4 {
            let of = || ticks.iter().filter(|one| one.0 == handler).map(|one| one.1);
            prop_assert_eq!(longest(&words, handler), (of().max().unwrap_or(0), of().count() as u64));
        }
    }
}

#[derive(Clone)]
struct Shared(Arc<Vec<AtomicU64>>);

impl Shared {
    fn new() -> Shared {
        let words = 1 + FEW as usize / 2 * RECORD;
        Shared(Arc::new((0..words).map(|_| AtomicU64::new(0)).collect()))
    }

    /// What lies between the head and the ring is not there.
    fn at(at: usize) -> usize {
        if at == HEAD { 0 } else { at - RING + 1 }
    }
}

impl Words for Shared {
    fn load(&self, at: usize) -> u64 {
        self.0[Shared::at(at)].load(Ordering::Acquire)
    }
    fn store(&self, at: usize, value: u64) {
        self.0[Shared::at(at)].store(value, Ordering::Release);
    }
    fn records(&self) -> u64 {
        FEW / 2
    }
}

const WRITTEN: u64 = 6;

/// Every record that is read is whole and in order, and each is either read or counted as lost.
fn one_writes_two_read() {
    let words = Shared::new();
    let readers: Vec<_> = (0..2).map(|_| Reader::from_now(words.clone())).collect();
    let writer = thread::spawn(move || {
        let mut writer = Writer::new(words);
        (0..WRITTEN).for_each(|n| writer.put(&event(n)));
    });
    let readers: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            thread::spawn(move || {
                let (mut seen, mut after) = (0, 0);
                for _ in 0..3 {
                    while let Some(read) = reader.take() {
                        assert_eq!(read, event(read.time), "a half record");
                        assert!(read.time >= after, "record {} after {after}", read.time);
                        after = read.time + 1;
                        seen += 1;
                        assert_eq!(seen + reader.lost(), after, "a record that was neither read nor lost");
                    }
                }
                (reader, seen)
            })
        })
        .collect();
    writer.join().unwrap();
    for reader in readers {
        let (mut reader, mut seen) = reader.join().unwrap();
        while reader.take().is_some() {
            seen += 1;
        }
        assert_eq!(seen + reader.lost(), WRITTEN, "all that was written");
    }
}

#[test]
fn readers_against_the_writer() {
    shuttle::check_random(one_writes_two_read, 3000);
    shuttle::check_pct(one_writes_two_read, 3000, 3);
}

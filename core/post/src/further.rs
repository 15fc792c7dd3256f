//! Permits that a thread keeps beyond those that it has at hand (`face.rs`): what others have put out of their places there. Few threads need any, so there is room for some threads'
//! only, from the first such permit on until their record is given back; who finds no room does without.

use crate::face::FACES;
use crate::free::Chain;
use crate::lock::{OPEN, get, set};
use crate::part::Whose;
use crate::pool::Permit;
use crate::sync::owned;
use crate::sync::{AtomicU32, Ordering};
use abi::Rights;
use abi::post::POSTS_MAX;
use alloc::boxed::Box;

/// Of a thread, for all of its texts that are kept.
const PERMITS: usize = 16;
/// There is room for one thread of so many,
const THREADS: u32 = 8;
/// and of that a part is for the system's.
const FOR_SYSTEM: u32 = 4;

/// What a permit is for, beside the number of its post: all in the bits that are not the epoch's.
const TO_RECEIVE: u64 = POSTS_MAX;
const FACE: u64 = TO_RECEIVE << 1;
const OF_FACES: u64 = FACE * (FACES as u64 - 1);
const _: () = assert!(POSTS_MAX.is_power_of_two() && FACES.is_power_of_two() && FACE * FACES as u64 <= OPEN);

fn permit(word: u64, needed: Rights) -> Permit {
    Permit::new((word % POSTS_MAX) as u32, word & !(OPEN - 1), needed)
}

/// Of which text of the thread's, and for which right.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    pub face: usize,
    pub needed: Rights,
}

impl Which {
    fn word(self, post: u32) -> u64 {
        let right = if self.needed == Rights::READ { TO_RECEIVE } else { 0 };
        self.face as u64 * FACE | right | u64::from(post)
    }
}

/// Of one thread, whose processor alone reads and writes it.
#[derive(Debug, Default)]
pub(crate) struct Further {
    /// Permits, in whatever order; 0: none.
    words: [owned::AtomicU64; PERMITS],
    /// Which of them goes next, if no other one gives way.
    turn: owned::AtomicU32,
    /// Of one that is nobody's.
    next: AtomicU32,
}

impl Further {
    fn at(&self, post: u32, which: Which) -> Option<&owned::AtomicU64> {
        let wanted = which.word(post);
        // No permit is for post 0, which the word of none would be.
        let mut words = self.words.iter().filter(|_| post != 0);
        words.find(|word| word.load(Ordering::Relaxed) % OPEN == wanted)
    }

    /// The permit for a post of this number, if it is here.
    pub fn find(&self, post: u32, which: Which) -> Option<Permit> {
        self.at(post, which).map(|word| permit(word.load(Ordering::Relaxed), which.needed))
    }

    /// The same, which goes from here to its place. What is there `before`, another one of the same text and right, comes here in its stead.
    pub fn exchange(&self, post: u32, which: Which, before: Option<Permit>) -> Option<Permit> {
        let kept = self.at(post, which)?;
        let found = permit(kept.load(Ordering::Relaxed), which.needed);
        kept.store(before.map_or(0, |before| before.epoch | which.word(before.post())), Ordering::Relaxed);
        Some(found)
    }

    /// Another one has put this out of its place, which is still good: it comes here, where none is, or one that `is_good` no more. If there is no such, that goes whose turn it is.
    pub fn keep(&self, one: &Permit, which: Which, is_good: impl Fn(&Permit) -> bool) {
        let gives_way = |kept: &&owned::AtomicU64| {
            let word = kept.load(Ordering::Relaxed);
            word == 0 || !is_good(&permit(word, which.needed))
        };
        let at = self.words.iter().find(gives_way).unwrap_or_else(|| {
            let turn = get(&self.turn);
            set(&self.turn, turn.wrapping_add(1));
            &self.words[turn as usize % PERMITS]
        });
        at.store(one.epoch | which.word(one.post()), Ordering::Relaxed);
    }

    /// All of this text's is forgotten.
    pub fn forget(&self, face: usize) {
        let is_its = |word: &&owned::AtomicU64| word.load(Ordering::Relaxed) & OF_FACES == face as u64 * FACE;
        self.words.iter().filter(is_its).for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

/// All of them, by numbers from 1 on.
#[derive(Debug)]
pub(crate) struct All {
    all: Box<[Further]>,
    free: Chain,
    left: AtomicU32,
}

impl All {
    /// Where so many threads have records.
    pub fn new(records: u32) -> All {
        let count = records.div_ceil(THREADS);
        let all: Box<[Further]> = (0..count).map(|_| Further::default()).collect();
        let free = Chain::default();
        (1..=count).rev().for_each(|number| free.put(number, &all[number as usize - 1].next));
        All { all, free, left: AtomicU32::new(count) }
    }

    /// That of a number; 0: nobody's.
    pub fn get(&self, number: u32) -> Option<&Further> {
        self.all.get((number as usize).wrapping_sub(1))
    }

    /// Room for one more thread. 0: what there is is others'.
    pub fn take(&self, whose: Whose) -> u32 {
        let reserve = if whose == Whose::System { 0 } else { self.all.len() as u32 / FOR_SYSTEM };
        let one_less = |left: u32| (left > reserve).then(|| left - 1);
        if self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less).is_err() {
            return 0;
        }
        self.free.take(|number| &self.all[number as usize - 1].next).unwrap_or(0)
    }

    /// Its thread has ended.
    pub fn give(&self, number: u32) {
        if let Some(one) = self.get(number) {
            (0..FACES).for_each(|face| one.forget(face));
            self.free.put(number, &one.next);
            self.left.fetch_add(1, Ordering::AcqRel);
        }
    }
}

//! Permits beyond those that a thread has at hand (`face.rs`): what others have put out of their places there. In one word each, so that a record has room for many.

use crate::face::FACES;
use crate::lock::OPEN;
use crate::pool::Permit;
use crate::sync::Ordering;
use crate::sync::owned::AtomicU64;
use abi::Rights;
use abi::post::POSTS_MAX;

/// Those of all texts of the thread that are kept, in whatever order.
const FURTHER: usize = 16;

/// A permit in one word: the epoch, and in the bits that are not its own the number of the post. (0 is nobody's.)
#[inline(always)]
pub(crate) fn word(permit: &Permit) -> u64 {
    permit.epoch | u64::from(permit.post())
}

#[inline(always)]
pub(crate) fn permit(word: u64, needed: Rights) -> Permit {
    let number = u64::from(word as u16);
    Permit::new(number as u32, word ^ number, needed)
}

/// What it is for, beside the number.
const TO_RECEIVE: u64 = POSTS_MAX;
const FACE: u64 = TO_RECEIVE << 1;
const OF_FACES: u64 = FACE * (FACES as u64 - 1);
const _: () = assert!(
    POSTS_MAX.is_power_of_two() && FACES.is_power_of_two() && FACE * FACES as u64 <= 1 << 16 && 1 << 16 <= OPEN
);

/// Of which text of the thread's, and for which right.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    pub face: usize,
    pub needed: Rights,
}

impl Which {
    fn tag(self) -> u64 {
        let right = if self.needed == Rights::READ { TO_RECEIVE } else { 0 };
        self.face as u64 * FACE | right
    }
}

/// Only its own thread's processor reads and writes it.
#[derive(Debug, Default)]
pub(crate) struct Further {
    /// Permits with what they are for; 0: none.
    words: [AtomicU64; FURTHER],
}

impl Further {
    fn at(&self, post: u32, which: Which) -> Option<&AtomicU64> {
        let wanted = which.tag() | u64::from(post);
        let mut words = self.words.iter().filter(|_| post != 0);
        words.find(|word| u64::from(word.load(Ordering::Relaxed) as u16) == wanted)
    }

    /// The permit for a post of this number, if it is here.
    pub fn find(&self, post: u32, which: Which) -> Option<Permit> {
        self.at(post, which).map(|word| permit(word.load(Ordering::Relaxed) ^ which.tag(), which.needed))
    }

    /// The same as a word, which goes from here to its place. What is there `before`, another such word of the same kind or 0, comes here in its stead.
    pub fn exchange(&self, post: u32, which: Which, before: u64) -> Option<u64> {
        let word = self.at(post, which)?;
        let found = word.load(Ordering::Relaxed) ^ which.tag();
        word.store(if before == 0 { 0 } else { before | which.tag() }, Ordering::Relaxed);
        Some(found)
    }

    /// Another one has put this out of its place, which is still good: it comes here, where none is, or one that `is_good` no more. If there is no such, one of them goes, by the
    /// number: who uses more in turn finds most of them all the same.
    pub fn keep(&self, word: u64, which: Which, is_good: impl Fn(&Permit) -> bool) {
        let has_room = |kept: &&AtomicU64| {
            let word = kept.load(Ordering::Relaxed);
            word == 0 || !is_good(&permit(word & !(TO_RECEIVE | OF_FACES), which.needed))
        };
        let at = self.words.iter().find(has_room).unwrap_or(&self.words[word as usize % FURTHER]);
        at.store(word | which.tag(), Ordering::Relaxed);
    }

    /// All of this text's is forgotten.
    pub fn forget(&self, face: usize) {
        let is_its = |word: &&AtomicU64| word.load(Ordering::Relaxed) & OF_FACES == face as u64 * FACE;
        self.words.iter().filter(is_its).for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

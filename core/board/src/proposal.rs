//! What an application proposes to the policy, and the answer: one at a time. A scheduler's keeper writes the proposal and
//! has the policy called; the policy answers.

use crate::sync::{AtomicU64, Ordering};
use crate::terms::Terms;

/// What the policy knows, as bits by kind; bit 0: it is there.
const KNOWN: usize = 0;
const NUMBER: usize = 1;
const TAKEN: usize = 2;
const ANSWERED: usize = 3;
/// Of those of even numbers, and below of the others: who answers when it is too late does not write over the next one's.
const ANSWER: usize = 4;
const THREAD: usize = 5;
const TERMS: usize = 6;
/// The weight of those who have agreed on nothing; 0: they take turns by level.
const WEIGHT: usize = 10;
/// Something was agreed on, or everybody has a weight: not only levels count.
const TERMS_COUNT: usize = 11;
/// Processors whose fast level has named nobody, as bits.
const RESTING: usize = 12;
const OTHER_ANSWER: usize = 13;
pub(crate) const WORDS: usize = 14;

const fn answer_of(number: u64) -> usize {
    if number.is_multiple_of(2) { ANSWER } else { OTHER_ANSWER }
}

/// The proposal on a board.
#[derive(Clone, Copy, Debug)]
pub struct Proposals<'a>(pub(crate) &'a [AtomicU64; WORDS]);

impl Proposals<'_> {
    #[inline]
    fn get(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Acquire)
    }

    #[inline]
    fn set(&self, at: usize, value: u64) {
        self.0[at].store(value, Ordering::Release);
    }

    /// High: what kinds of terms it knows, besides priorities.
    pub fn know(&self, kinds: &[Terms]) {
        self.set(KNOWN, kinds.iter().fold(1, |bits, terms| bits | 1 << terms.kind()));
    }

    /// Whether the policy knows this kind; `None`: nobody is there yet.
    pub fn knows(&self, terms: Terms) -> Option<bool> {
        let known = self.get(KNOWN);
        (known != 0).then_some(known >> terms.kind() & 1 != 0)
    }

    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.get(WEIGHT)
    }

    pub(crate) fn set_weight(&self, weight: u64) {
        self.set(WEIGHT, weight);
        self.note_terms();
    }

    #[inline]
    pub fn has_terms(&self) -> bool {
        self.get(TERMS_COUNT) != 0
    }

    pub(crate) fn note_terms(&self) {
        self.set(TERMS_COUNT, 1);
    }

    #[inline]
    pub(crate) fn resting(&self) -> u64 {
        self.get(RESTING)
    }

    #[inline]
    pub(crate) fn set_resting(&self, processor: usize, rests: bool) {
        let bit = 1 << processor;
        if rests {
            self.0[RESTING].fetch_or(bit, Ordering::AcqRel);
        } else if self.resting() & bit != 0 {
            self.0[RESTING].fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Proposes terms for a thread; one at a time. Its number.
    pub fn propose(&self, thread: u64, terms: Terms) -> u64 {
        self.set(THREAD, thread);
        (TERMS..).zip(terms.words()).for_each(|(at, word)| self.set(at, word));
        let number = self.get(NUMBER) + 1;
        self.set(NUMBER, number);
        number
    }

    /// Takes back what was not answered: who may not speak for a thread has proposed nothing.
    pub fn withdraw(&self) {
        self.set(TAKEN, self.get(NUMBER));
    }

    /// The answer to a proposal: 0 is yes, anything else why not.
    pub fn answer(&self, number: u64) -> Option<u64> {
        (self.get(ANSWERED) == number).then(|| self.get(answer_of(number)))
    }

    /// High: answers what is proposed with what `decide` says of it, a thread and its terms; one processor's does. Whether there was something.
    pub fn decide(&self, decide: impl FnOnce(u64, Terms) -> u64) -> bool {
        let (number, taken) = (self.get(NUMBER), self.get(TAKEN));
        if number == taken {
            return false;
        }
        // Before it is taken: until then nobody proposes anything else.
        let (thread, terms) = (self.get(THREAD), Terms::from_words([0, 1, 2, 3].map(|at| self.get(TERMS + at))));
        let mine = self.0[TAKEN].compare_exchange(taken, number, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if mine {
            self.note_terms();
            let answer = decide(thread, terms);
            // Mostly nobody has lost patience meanwhile.
            if self.get(NUMBER) == number {
                self.set(answer_of(number), answer);
                self.0[ANSWERED].fetch_max(number, Ordering::AcqRel);
            }
        }
        mine
    }
}

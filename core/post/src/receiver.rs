//! The record of a thread that waits for messages: whether it still waits, where it is queued, what it was given.

use crate::face::{FACES, Face};
use crate::further::Further;
use crate::limit::Limit;
use crate::message::{Body, Envelope, Hands, Letter, Question};
use crate::pool::Woken;
use crate::sync::{AtomicU32, AtomicU64, Ordering, owned};

/// Posts that one thread can wait for at once.
pub const SEVERAL_MAX: usize = 8;

/// Receivers and domains of one thread that can be told apart. (A receiver and one of its places are to go into the word of a post: `lock.rs`.)
const DOMAINS: u32 = 12;
pub(crate) const RECEIVERS_MAX: u32 = 1 << 16;
const _: () = assert!(RECEIVERS_MAX <= 1 << (31 - DOMAINS));

/// Its place in the queue of one post.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub post: AtomicU32,
    // Its neighbours; under the lock of that post. Nobody is after it (0) as long as it is in no queue, and what is said of who is before it holds only in one,
    // and not of the first.
    pub before: owned::AtomicU32,
    pub after: owned::AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It does something else.
    Idle = 0,
    /// Whoever changes this to [`Phase::Taken`] ends the wait, and nobody else does.
    Waiting = 1,
    /// The wait is over, and the thread will be woken.
    Taken = 2,
}

/// Ticket and phase in one word.
const fn state(ticket: u32, phase: Phase) -> u64 {
    (ticket as u64) << 8 | phase as u64
}

/// Who has received a question and has not answered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Record of the thread.
    pub receiver: u32,
    /// Number of its domain for the text that it executed then.
    pub domain: u32,
}

impl Holder {
    #[inline]
    pub(crate) fn word(self, ticket: u32) -> u64 {
        u64::from(ticket) << 32 | u64::from(self.receiver) << DOMAINS | u64::from(self.domain % (1 << DOMAINS))
    }

    #[inline]
    pub(crate) fn from_word(word: u64) -> Option<Holder> {
        let (receiver, domain) = (word as u32 >> DOMAINS, word as u32 % (1 << DOMAINS));
        (receiver != 0).then_some(Holder { receiver, domain })
    }
}

/// Memory goes with the question.
const LENDS: u32 = 1;
/// Somebody has used that: from this bit on one for each word that may say where it begins.
const TOUCHED_AT: u32 = 8;
const TOUCHED: u32 = 0x1f << TOUCHED_AT;
/// The wait is for an answer, not for whatever comes to a post: whoever holds the question may give that.
const ASKS: u32 = 4;
/// What it asks lies in a post, or has been received since: in that of its first place, which such a wait has no other use for.
const LIES: u32 = 8;

/// The record.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Receiver {
    state: AtomicU64,
    /// Of the question that its thread asks: the ticket and the [`Holder`].
    held: AtomicU64,
    pub thread: owned::AtomicU64,
    pub card: owned::AtomicU32,
    /// Of this record.
    pub number: owned::AtomicU32,
    /// For whom it was had ([`crate::Whose`]).
    pub user: owned::AtomicU32,
    pub faces: [Face; FACES],
    pub further: Further,
    /// The domain that it waits in; whoever takes rights away reads it meanwhile.
    domain: AtomicU32,
    /// How many of the places this wait uses, or is about to.
    pub count: AtomicU32,
    pub places: [Place; SEVERAL_MAX],
    /// What it was given: a message, or an error's word.
    error: owned::AtomicU64,
    pub letter: Letter,
    /// What it asks, if memory goes with it; whether there is such, and whether somebody has used that.
    asked: Letter,
    original: owned::AtomicU64,
    loan: AtomicU32,
    pub limit: Limit,
    /// Of a record that is free.
    pub next: AtomicU32,
}

/// There is one for each piece of the kernel's heap of nine times so many bytes: what it takes everybody pays.
#[cfg(not(test))]
const _: () = assert!(size_of::<Receiver>() <= 896);

impl Receiver {
    /// Of the wait that begins next.
    #[inline(always)]
    pub fn next_ticket(&self) -> u32 {
        ((self.state.load(Ordering::Relaxed) >> 8) as u32).wrapping_add(1)
    }

    /// A wait begins. Only its own thread says so.
    #[inline(always)]
    pub fn begin(&self, domain: u32) -> u32 {
        self.begin_as(domain, false)
    }

    /// The same; `asks`: for an answer and nothing else.
    #[inline(always)]
    pub fn begin_as(&self, domain: u32, asks: bool) -> u32 {
        let ticket = self.next_ticket();
        self.domain.store(domain, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.loan.store(if asks { ASKS } else { 0 }, Ordering::Relaxed);
        self.held.store(u64::from(ticket) << 32, Ordering::Relaxed);
        self.state.store(state(ticket, Phase::Waiting), Ordering::SeqCst);
        ticket
    }

    /// The wait uses this place from now on, at that post. First that is known, then it is looked whether the wait is over: whoever ends it looks in the other
    /// order, and takes it out of the queue, or it does not get in.
    #[inline(always)]
    pub fn uses(&self, place: usize, post: u32) {
        self.places[place].post.store(post, Ordering::Relaxed);
        self.count.store(place as u32 + 1, Ordering::SeqCst);
    }

    /// What is asked in this wait is kept, because memory is lent with it.
    pub fn lend(&self, envelope: &Envelope, original: u64, hands: &impl Hands) {
        self.asked.write(0, envelope, hands);
        self.original.store(original, Ordering::Relaxed);
        self.loan.store(LENDS | self.loan.load(Ordering::Relaxed) & ASKS, Ordering::Release);
    }

    /// Whether its wait is for an answer. To be asked before that wait is claimed, which says that it is still the same.
    #[inline(always)]
    pub fn asks(&self) -> bool {
        self.loan.load(Ordering::SeqCst) & ASKS != 0
    }

    /// What it asks is about to lie there. Under the lock of that post.
    pub fn lies(&self, post: u32) {
        self.places[0].post.store(post, Ordering::Relaxed);
        self.loan.fetch_or(LIES, Ordering::SeqCst);
    }

    /// Whether what it asks in this wait lies there, and nobody has said that it has received it. As [`Receiver::asks`].
    pub fn lies_at(&self, ticket: u32, post: u32) -> bool {
        self.loan.load(Ordering::SeqCst) & LIES != 0
            && self.places[0].post.load(Ordering::SeqCst) == post
            && self.held(ticket).is_none()
    }

    /// The wait that somebody may end now.
    #[inline(always)]
    pub fn waits(&self) -> Option<u32> {
        let now = self.state.load(Ordering::SeqCst);
        (now & 0xff == Phase::Waiting as u64).then_some((now >> 8) as u32)
    }

    /// Whether it is in this wait, and nobody has ended it.
    #[inline(always)]
    pub fn is_in(&self, ticket: u32) -> bool {
        self.state.load(Ordering::SeqCst) == state(ticket, Phase::Waiting)
    }

    /// Whether the wait that it is in uses that post, or is about to.
    pub fn is_at(&self, post: u32) -> bool {
        let count = self.count.load(Ordering::SeqCst) as usize;
        self.places.iter().take(count).any(|place| place.post.load(Ordering::SeqCst) == post)
    }

    /// Ends this wait. Whoever has done so finishes it: a result is left, the places are given up, the thread is woken.
    #[inline(always)]
    #[must_use]
    pub fn claim(&self, ticket: u32) -> bool {
        let (waiting, taken) = (state(ticket, Phase::Waiting), state(ticket, Phase::Taken));
        self.state.compare_exchange(waiting, taken, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Its thread is to be woken. `number`: of this record.
    #[inline(always)]
    pub fn woken(&self, number: u32) -> Woken {
        let touched = self.loan.load(Ordering::SeqCst) & TOUCHED != 0;
        let (thread, card) = (self.thread.load(Ordering::Relaxed), self.card.load(Ordering::Relaxed));
        Woken { receiver: number, thread, card, touched }
    }

    /// The same of whatever wait it is in.
    #[inline(always)]
    pub fn claim_any(&self) -> bool {
        let now = self.state.load(Ordering::SeqCst);
        let taken = now ^ (Phase::Waiting as u64 ^ Phase::Taken as u64);
        now & 0xff == Phase::Waiting as u64
            && self.state.compare_exchange(now, taken, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Of a wait that was claimed: what it ends with.
    #[inline]
    pub fn leave_message(&self, post: u32, envelope: &Envelope, hands: &impl Hands) {
        self.letter.write(post, envelope, hands);
        self.error.store(0, Ordering::Release);
    }

    pub fn leave_error(&self, error: abi::Error) {
        self.error.store(error.word(), Ordering::Release);
    }

    /// Its thread takes what was left; `None`: nothing has come.
    #[inline]
    pub fn collect<'a>(&'a self, into: impl FnOnce(&'a Letter)) -> Option<Result<(), abi::Error>> {
        let now = self.state.load(Ordering::SeqCst);
        if now & 0xff != Phase::Taken as u64 {
            return None;
        }
        let outcome = match abi::Error::from_word(self.error.load(Ordering::Acquire)) {
            Some(error) => Err(error),
            None => {
                into(&self.letter);
                Ok(())
            }
        };
        self.rest((now >> 8) as u32);
        Some(outcome)
    }

    /// The same of whichever wait was claimed.
    #[inline]
    pub fn rest_claimed(&self) {
        self.state.fetch_and(!0xff, Ordering::SeqCst);
    }

    /// A claimed wait is over.
    #[inline]
    pub fn rest(&self, ticket: u32) {
        self.state.store(state(ticket, Phase::Idle), Ordering::SeqCst);
    }

    /// As who it waits, and receives a question.
    #[inline(always)]
    pub fn holder(&self, receiver: u32) -> Holder {
        Holder { receiver, domain: self.domain.load(Ordering::Relaxed) }
    }

    /// Its question of that ticket has been received by this one: only once, and only if it still asks that.
    #[inline(always)]
    pub fn hold(&self, ticket: u32, holder: Holder) {
        let (none, held) = (u64::from(ticket) << 32, holder.word(ticket));
        let _ = self.held.compare_exchange(none, held, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// The same said by the asker itself, whose question nobody else has seen yet.
    #[inline(always)]
    pub fn hold_first(&self, ticket: u32, holder: Holder) {
        self.held.store(holder.word(ticket), Ordering::SeqCst);
    }

    /// Who holds its question of that ticket.
    #[inline]
    pub fn held(&self, ticket: u32) -> Option<Holder> {
        let word = self.held.load(Ordering::SeqCst);
        if (word >> 32) as u32 == ticket { Holder::from_word(word) } else { None }
    }

    /// Somebody uses what is lent by this word.
    pub fn touch(&self, word: u32) {
        self.loan.fetch_or(1 << (TOUCHED_AT + word), Ordering::SeqCst);
    }

    /// The words by which somebody has used anything.
    pub fn touched(&self) -> u32 {
        (self.loan.load(Ordering::SeqCst) & TOUCHED) >> TOUCHED_AT
    }

    /// What was lent last, and by whom.
    pub fn last_lent(&self) -> (Body, acl::Subject) {
        (self.asked.body(), self.lender())
    }

    /// That is over and done with: its thread may be asked about it again before its next wait begins.
    pub fn is_taken_back(&self) {
        self.loan.store(0, Ordering::Relaxed);
    }

    fn lender(&self) -> acl::Subject {
        self.asked.from().subject(self.original.load(Ordering::Relaxed))
    }

    /// What is lent with a question that is still open.
    pub fn lent(&self, question: Question) -> Option<(Body, acl::Subject)> {
        if self.loan.load(Ordering::Acquire) & LENDS == 0 {
            return None;
        }
        let (body, from) = self.last_lent();
        // Whoever asks the next question first changes the ticket.
        (self.waits() == Some(question.ticket)).then_some((body, from))
    }
}

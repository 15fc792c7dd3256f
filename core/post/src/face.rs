//! As who a thread sends and receives while it executes a text, and what the lists of posts allowed it there: found out once, so
//! that a message costs a look at an access list only the first time, and after a change.

use crate::further::{self, Which};
use crate::message::{Hands, Question, Sender};
use crate::pool::{By, Caller, Permit, Pool};
use crate::receive::Step;
use crate::receiver::Receiver;
use crate::sync::Ordering;
use crate::sync::owned::{AtomicU32, AtomicU64};
use abi::{Error, Rights};

/// Texts of one thread that are kept, by the domain's number: its own program and one that it calls do not push each other out.
pub(crate) const FACES: usize = 2;

/// Permits of each that are at hand, by the numbers of their posts: four to send, four to receive. (Others are kept further away: `further.rs`.)
const KEPT: usize = 8;

/// A permit in a word, by the name that the post has for programs.
#[derive(Debug, Default)]
struct Kept {
    name: AtomicU64,
    word: AtomicU64,
}

impl Kept {
    fn set(&self, name: u64, word: u64) {
        self.word.store(word, Ordering::Relaxed);
        self.name.store(name, Ordering::Relaxed);
    }
}

/// A cache of what the kernel knows of a domain, and of access lists, never more than these say (invariant 7). Only its own
/// thread's processor writes it, except for [`Face::forget`].
#[derive(Debug, Default)]
pub(crate) struct Face {
    /// One more than its number; 0: nobody's.
    domain: AtomicU32,
    account: AtomicU32,
    sender: [AtomicU64; 4],
    original: AtomicU64,
    permits: [Kept; KEPT],
}

/// Which one is that of this domain.
#[inline(always)]
fn number(domain: u32) -> usize {
    domain as usize % FACES
}

/// Distance of the names of posts.
const STEP: u64 = abi::layout::GRANULE;

/// A name that is never looked for at this place: where no permit is kept. (A caller may name anything, 0 too.)
fn nowhere(at: usize) -> u64 {
    (at as u64 / 2 + 2) * STEP
}

fn place(name: u64, needed: Rights) -> usize {
    // A sender's and a receiver's permit for the same post are different ones.
    (name / STEP * 2 + u64::from(needed == Rights::READ)) as usize % KEPT
}

impl Face {
    fn introduce(&self, by: &Caller) {
        self.domain.store(0, Ordering::SeqCst);
        let Sender { thread, task, user, place } = by.sender;
        self.sender
            .iter()
            .zip([thread, task, user, place])
            .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        self.original.store(by.original, Ordering::Relaxed);
        self.account.store(by.account, Ordering::Relaxed);
        self.permits.iter().enumerate().for_each(|(at, kept)| kept.name.store(nowhere(at), Ordering::Relaxed));
        self.domain.store(by.domain + 1, Ordering::SeqCst);
    }

    /// The permit for a post of this name, if it is at hand.
    #[inline(always)]
    fn permit(&self, name: u64, needed: Rights) -> Option<Permit> {
        let kept = &self.permits[place(name, needed)];
        let permit = further::permit(kept.word.load(Ordering::Relaxed), needed);
        (kept.name.load(Ordering::Relaxed) == name).then_some(permit)
    }

    /// The word of the one that is in the place of this name; 0: none.
    fn before(&self, name: u64, needed: Rights) -> u64 {
        let at = place(name, needed);
        let kept = &self.permits[at];
        if kept.name.load(Ordering::Relaxed) == nowhere(at) { 0 } else { kept.word.load(Ordering::Relaxed) }
    }

    fn keep(&self, name: u64, needed: Rights, word: u64) {
        self.permits[place(name, needed)].set(name, word);
    }

    pub fn forget(&self) {
        self.domain.store(0, Ordering::SeqCst);
    }

    #[inline]
    fn sender(&self) -> Sender {
        let [thread, task, user, place] = &self.sender;
        let get = |word: &AtomicU64| word.load(Ordering::Relaxed);
        Sender { thread: get(thread), task: get(task), user: get(user), place: get(place) }
    }
}

/// A caller that was introduced.
#[derive(Clone, Copy)]
pub(crate) struct Who<'a> {
    me: &'a Receiver,
    processor: u32,
    domain: u32,
}

impl<'a> Who<'a> {
    #[inline(always)]
    fn new(me: &'a Receiver, processor: usize, domain: u32) -> Who<'a> {
        Who { me, processor: processor as u32, domain }
    }

    #[inline(always)]
    fn face(&self) -> &'a Face {
        &self.me.faces[number(self.domain)]
    }

    fn which(&self, needed: Rights) -> Which {
        Which { face: number(self.domain), needed }
    }
}

impl By for Who<'_> {
    #[inline(always)]
    fn sender(&self) -> Sender {
        self.face().sender()
    }
    #[inline(always)]
    fn original(&self) -> u64 {
        self.face().original.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn domain(&self) -> u32 {
        self.domain
    }
    #[inline(always)]
    fn receiver(&self) -> u32 {
        self.me.number.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn account(&self) -> u32 {
        self.face().account.load(Ordering::Relaxed)
    }
    #[inline(always)]
    fn processor(&self) -> usize {
        self.processor as usize
    }
}

/// A caller that was introduced, with what is known of it at hand.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pool: &'a Pool,
    pub(crate) by: Who<'a>,
}

impl Known<'_> {
    /// Who pays for what it leaves in a post.
    pub fn account(&self) -> u32 {
        self.by.account()
    }

    /// The permit for one right that it has had before, for the post that programs know by this name, if it is at hand. It may be good no more.
    #[inline(always)]
    pub fn permit(&self, name: u64, needed: Rights) -> Option<Permit> {
        self.by.face().permit(name, needed)
    }

    /// The same of the post of this number where it is kept further away.
    pub fn permit_further(&self, post: u32, needed: Rights) -> Option<Permit> {
        self.by.me.further.find(post, self.by.which(needed))
    }

    /// The one for the post of this number and name comes to be at hand. Whether that was to be done; `None`: there is none. By the thread's own processor, with interrupts off.
    pub fn fetch(&self, (post, name): (u32, u64), needed: Rights) -> Option<bool> {
        let (face, which) = (self.by.face(), self.by.which(needed));
        if face.permit(name, needed).is_some() {
            return Some(false);
        }
        let word = self.by.me.further.exchange(post, which, face.before(name, needed))?;
        face.keep(name, needed, word);
        Some(true)
    }

    /// It has been given this one, and has it at hand from now on. What that puts out of its place is kept further away, if it is good.
    fn keep(&self, (post, name): (u32, u64), needed: Rights, permit: &Permit) {
        let (face, further, which) = (self.by.face(), &self.by.me.further, self.by.which(needed));
        let (before, is_good) = (face.before(name, needed), |permit: &Permit| self.pool.is_good(permit));
        let is_other = further::permit(before, needed).post() != post;
        // One that was kept of the same post goes.
        _ = further.exchange(post, which, 0);
        if before != 0 && is_other && is_good(&further::permit(before, needed)) {
            further.keep(before, which, is_good);
        }
        face.keep(name, needed, further::word(permit));
    }

    /// The number of the post of this name, if the list is known to give the right now: for one at which nothing is done yet.
    #[inline]
    pub fn allowed(&self, name: u64, needed: Rights) -> Option<u32> {
        self.permit(name, needed).filter(|permit| self.pool.is_good(permit)).map(|permit| permit.post())
    }

    /// [`Pool::limit`]. Whether the timer that is set is early enough.
    #[inline]
    pub fn limit(&self, until: u64) -> bool {
        self.by.me.limit(until)
    }

    /// [`Pool::send`] of what is in these hands, where whoever is to be woken is left.
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn send(&self, to: Permit, back: u32, hands: &mut impl Hands) -> Result<(), Error> {
        self.pool.send_with(to, self.by, back, hands)
    }

    /// [`Pool::receive_with`] at one post.
    #[inline]
    pub fn receive(&self, at: Permit, waits: bool, hands: &mut impl Hands) -> Step {
        self.pool.receive_alone(at, self.by, waits, hands)
    }

    /// The same at several.
    #[inline]
    pub fn receive_of(&self, at: &[Permit], waits: bool, hands: &mut impl Hands) -> Step {
        self.pool.receive_with(at, self.by, waits, hands)
    }

    /// [`Pool::send_and_receive_with`].
    #[inline]
    pub fn send_and_receive(&self, to: Permit, at: Permit, hands: &mut impl Hands) -> Step {
        self.pool.step(self.by.me, to, at, self.by, hands)
    }

    /// [`Pool::ask_with`].
    #[inline]
    pub fn ask(&self, to: Permit, hands: &mut impl Hands) -> Step {
        self.pool.ask_as(self.by.me, to, self.by, hands)
    }

    /// [`Pool::answer_and_receive_with`].
    #[inline]
    pub fn answer_and_receive(&self, question: Question, at: Permit, hands: &mut impl Hands) -> Step {
        self.pool.answer_as(self.by.me, question, at, self.by, hands)
    }
}

impl Pool {
    fn face(&self, receiver: u32, domain: u32) -> &Face {
        &self.receiver(receiver).faces[number(domain)]
    }

    /// From now on [`Pool::known`] knows this one.
    pub fn introduce(&self, by: &Caller) {
        let face = self.face(by.receiver, by.domain);
        let is_known = face.domain.load(Ordering::SeqCst) == by.domain + 1 && face.sender() == by.sender;
        if !is_known || face.account.load(Ordering::Relaxed) != by.account {
            self.receiver(by.receiver).further.forget(number(by.domain));
            face.introduce(by);
        }
    }

    /// Who calls, if it was introduced.
    #[inline(always)]
    pub fn known(&self, receiver: u32, domain: u32, processor: usize) -> Option<Known<'_>> {
        let me = self.receiver(receiver);
        let face = &me.faces[number(domain)];
        if face.domain.load(Ordering::SeqCst) != domain + 1 {
            return None;
        }
        Some(Known { pool: self, by: Who::new(me, processor, domain) })
    }

    /// The thread has no domain of this number any more.
    pub fn forget_domain(&self, receiver: u32, domain: u32) {
        if let Some(one) = self.receivers.get(receiver as usize) {
            let face = &one.faces[number(domain)];
            if face.domain.load(Ordering::SeqCst) == domain + 1 {
                face.forget();
                one.further.forget(number(domain));
            }
        }
    }

    /// Whose account it is has changed for who executes this text. All are looked through, in stretches.
    pub fn forget_text(&self, text: u64) {
        let faces = self.records_in_stretches().flat_map(|(_, record)| &record.faces);
        faces.filter(|face| face.sender().text() == text).for_each(Face::forget);
    }

    /// The caller's permit for one right at a post of this number and name. Where none is kept that is good, `check` asks the
    /// access list.
    ///
    /// # Errors
    /// `NotFound`: nobody has the post; those of `check`.
    pub fn permit_for(
        &self,
        by: &Caller,
        (post, name): (u32, u64),
        needed: Rights,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Permit, Error> {
        let known = self.known(by.receiver, by.domain, by.processor);
        let kept = known.and_then(|known| known.permit(name, needed).or_else(|| known.permit_further(post, needed)));
        if let Some(permit) = kept.filter(|permit| self.is_good(permit)) {
            return Ok(permit);
        }
        let permit = self.permit(post, needed, check)?;
        if let Some(known) = known {
            known.keep((post, name), needed, &permit);
        }
        Ok(permit)
    }
}

//! Messages: what programs write into them, what the kernel adds, and the words that keep them meanwhile.

use crate::account::MESSAGES_MAX;
#[cfg(doc)]
use crate::pool::Pool;
use crate::pool::{By, Received, Woken};
use crate::receive::{Called, Step};
use crate::receiver::RECEIVERS_MAX;
use crate::sync::Ordering;
use crate::sync::owned::AtomicU64;
use abi::post::{QUESTION, address, head, number, of_head};
use abi::{Error, Rights};
use acl::Subject;

/// What a sender writes: the same as a call carries (K1-48). It travels in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Which operation of the interface it is about: 32 bits of it travel.
    pub op: u64,
    pub words: [u64; 6],
    /// What is lent with it: bit `i` lends for reading what word `i` points to, with the length in word `i + 1`; bit
    /// `8 + i` for writing, too. Only where an answer is expected.
    pub lend: u16,
}

/// What is lent: `[address, address + len)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub address: u64,
    pub len: u64,
    pub rights: Rights,
}

const READ: u16 = 0x1f;
const WRITE: u16 = READ << 8;

impl Body {
    /// The ranges that are lent.
    pub fn lent(&self) -> impl Iterator<Item = Range> + '_ {
        self.lent_by_word().map(|(_, range)| range)
    }

    /// The same, each with the number of the word that says where it begins.
    pub(crate) fn lent_by_word(&self) -> impl Iterator<Item = (u32, Range)> + '_ {
        (0..5).filter_map(|i| {
            let rights = match (self.lend >> i & 1, self.lend >> (8 + i) & 1) {
                (_, 1) => Rights::READ | Rights::WRITE,
                (1, _) => Rights::READ,
                _ => return None,
            };
            Some((i as u32, Range { address: self.words[i], len: self.words[i + 1], rights }))
        })
    }

    /// The same with only those ranges lent whose words are marked in `words`.
    pub(crate) fn lending_only(self, words: u32) -> Body {
        let words = words as u16 & READ;
        Body { lend: self.lend & (words | words << 8), ..self }
    }
}

/// How a message was sent. Each way has code for itself on the short way of the kernel, where nothing is asked that this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its sender goes on.
    Alone,
    /// Its sender waits for the answer and nothing else.
    Asks,
    /// Its sender waits at a post.
    Calls,
    /// It is an answer, and its sender waits at a post.
    Answers,
}

impl Sent {
    /// The question that it is, of who waits with this ticket.
    #[inline(always)]
    pub(crate) fn question(self, by: impl By, ticket: u32) -> Option<Question> {
        match self {
            Sent::Asks | Sent::Calls => Some(Question { asker: by.receiver(), ticket }),
            Sent::Alone | Sent::Answers => None,
        }
    }
}

/// A call by message that waits for its answer: the record of the thread that asks, and which of its waits that is. Or a message that lends memory, whose
/// sender goes on: the loan's number, and how often that was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub(crate) asker: u32,
    pub(crate) ticket: u32,
}

/// In the place of an asker: it is a loan. Then how often, what does not go into the ticket, and the number.
const LOAN: u32 = (abi::post::LOAN >> 32) as u32;
const NUMBER_BITS: u32 = 20;
const _: () = assert!(RECEIVERS_MAX <= LOAN && MESSAGES_MAX < 1 << NUMBER_BITS);

impl Question {
    /// As programs see it. They may write anything there: it is the one who holds it that may answer it.
    #[inline]
    pub const fn word(self) -> u64 {
        QUESTION | (self.asker as u64) << 32 | self.ticket as u64
    }

    /// `None` for words that no question has.
    #[inline]
    pub const fn from_word(word: u64) -> Option<Question> {
        if word & QUESTION == 0 {
            return None;
        }
        Some(Question { asker: (word >> 32) as u32 & !(1 << 31), ticket: word as u32 })
    }

    /// Bits of a loan's turn: none is had again soon, and none is guessed.
    pub(crate) const TURN_BITS: u32 = 62 - NUMBER_BITS;

    pub(crate) const fn of_loan(number: u32, turn: u64) -> Question {
        let above = (turn >> 32) as u32 & ((1 << (30 - NUMBER_BITS)) - 1);
        Question { asker: LOAN | above << NUMBER_BITS | number, ticket: turn as u32 }
    }

    /// Memory is lent with it, and nobody waits: the answer comes to a post.
    #[inline]
    pub const fn is_loan(self) -> bool {
        self.asker & LOAN != 0
    }

    /// The number of such, by which there is only one at a time.
    pub const fn number(self) -> Option<u32> {
        match self.loan() {
            Some((number, _)) => Some(number),
            None => None,
        }
    }

    /// Number and turn.
    pub(crate) const fn loan(self) -> Option<(u32, u64)> {
        if !self.is_loan() {
            return None;
        }
        let above = self.asker >> NUMBER_BITS & ((1 << (30 - NUMBER_BITS)) - 1);
        Some((self.asker % (1 << NUMBER_BITS), (above as u64) << 32 | self.ticket as u64))
    }
}

/// Where the answer goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Back {
    /// None is expected.
    #[default]
    Nowhere,
    /// To this post, like any message.
    Post(u32),
    /// To the one who asks and waits for nothing else, or to the post of one who lends.
    Question(Question),
}

/// Who has sent a message: set by the kernel (invariant 37).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    pub thread: u64,
    pub task: u64,
    pub user: u64,
    /// Address of the text that it executed, and in the lowest bits the node.
    pub place: u64,
}

impl Sender {
    pub fn of(subject: &Subject) -> Sender {
        let Subject { node, user, task, thread, text, .. } = *subject;
        Sender { thread, task, user, place: text | node }
    }

    /// Whom access lists see in it; `original`: of its text.
    pub fn subject(&self, original: u64) -> Subject {
        let Sender { thread, task, user, .. } = *self;
        Subject { node: self.node(), user, task, thread, text: self.text(), original }
    }

    pub fn node(&self) -> u64 {
        self.place % abi::layout::GRANULE
    }

    pub fn text(&self) -> u64 {
        self.place - self.node()
    }
}

/// A message as it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub body: Body,
    pub from: Sender,
    pub back: Back,
    /// The wait that ends with an error if the one who has received this ends first.
    pub(crate) question: Option<Question>,
}

/// What goes with a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub from: Sender,
    /// The post for the answer; 0: none, or it is a question's.
    pub back: u32,
    pub question: Option<Question>,
}

impl Envelope {
    /// Where the answer goes.
    #[inline]
    pub fn back(&self) -> Back {
        match (self.back, self.question) {
            (0, None) => Back::Nowhere,
            (0, Some(question)) => Back::Question(question),
            (post, _) => Back::Post(post),
        }
    }

    /// The same as programs see it; 0: none is expected.
    #[inline]
    fn back_word(&self) -> u64 {
        match self.back() {
            Back::Nowhere => 0,
            Back::Post(post) => address(self.from.node(), post.into()),
            Back::Question(question) => question.word(),
        }
    }
}

/// What a caller sends, and where it finds what comes. Nothing of it is copied on the way that need not be.
pub trait Hands {
    fn op(&self) -> u64;
    /// What is lent, as [`Body::lend`].
    fn lend(&self) -> u16;
    fn words(&self) -> &[u64; 6];
    /// Their caller waits (never [`Sent::Alone`]), and this one has received what is in them, at `post` (0: it is an answer): whether it takes that over
    /// as it is, so that it need not be kept for it. Then nobody collects it, and its wait is over with `rest`, which is done in that case. Nothing is left to do
    /// after that: it need not come back.
    fn carry(
        &mut self,
        woken: &Woken,
        sent: Sent,
        post: u32,
        by: impl By,
        back: (u32, Option<Question>),
        rest: impl FnOnce(),
    ) -> bool;
    /// This one is to be woken: it has received what is in them, which is kept for it.
    fn wake(&mut self, woken: Woken);
    /// What is in them was written down, where it lies until it is received.
    fn written(&self) {}
    /// A message that was there, and where it lies ([`Pool::letter`]). Whether it is to stay there, in a slot: then whoever has these gives that back
    /// ([`Pool::done_with`]), and until then its sender pays for it.
    fn show(&mut self, lies: Lies, letter: &Letter) -> bool;
    /// The list of this post has changed in the middle of the call: whether it lets the caller receive there. No lock is held.
    ///
    /// # Errors
    /// What the call is to end with.
    fn may_receive(&self, post: u32, by: impl By) -> Result<(), Error>;
}

/// Hands that have a body, and keep a copy of what comes.
pub(crate) struct Own<'a> {
    body: &'a Body,
    came: Option<(u32, Message)>,
    pub woken: Option<Woken>,
}

impl<'a> Own<'a> {
    pub fn new(body: &'a Body) -> Own<'a> {
        Own { body, came: None, woken: None }
    }

    /// What a step has come to, with what it has left here.
    pub fn called(self, step: Step) -> Result<Called, Error> {
        let received = match (step, self.came) {
            (Step::Refused(error), _) => return Err(error),
            (Step::Came, Some((post, message))) => Received::Message(post, message),
            (Step::Came, None) => Received::Ended(Error::Changed),
            (Step::Ended(error), _) => Received::Ended(error),
            (Step::Waits(ticket), _) => Received::Waits(ticket),
        };
        Ok(Called { woken: self.woken, received })
    }
}

impl Hands for Own<'_> {
    fn op(&self) -> u64 {
        self.body.op
    }

    fn lend(&self) -> u16 {
        self.body.lend
    }

    fn words(&self) -> &[u64; 6] {
        &self.body.words
    }

    fn carry(&mut self, _: &Woken, _: Sent, _: u32, _: impl By, _: (u32, Option<Question>), _: impl FnOnce()) -> bool {
        false
    }

    fn wake(&mut self, woken: Woken) {
        self.woken = Some(woken);
    }

    fn show(&mut self, _: Lies, letter: &Letter) -> bool {
        self.came = Some((letter.post(), letter.read()));
        false
    }

    /// Whoever has these asks for the permits again.
    fn may_receive(&self, _: u32, _: impl By) -> Result<(), Error> {
        Err(Error::Changed)
    }
}

/// Whether it lends what there is to be lent: a word and the one after it.
#[inline]
pub(crate) fn is_well_formed(lend: u16) -> bool {
    let marks = (lend | lend >> 8) & READ;
    lend == 0 || lend & !(READ | WRITE) == 0 && marks & marks << 1 == 0
}

/// Where a message lies that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// In this slot: it belongs to the processor again, or stays with who has received it.
    Slot(u32),
    /// In the record of who has received it.
    Record(u32),
}

/// Registers of a message that is received (`abi::post`), in this order: `rbx rbp r10 r8 r9 r12 r13 r14 r15 rdi rsi rdx rax`.
pub const REGISTERS: usize = 13;

// Of these: the sender's thread and place, the first word, the sender's task, where the answer goes, the sender's user, the head. The last
// one is 0: no error.
const THREAD: usize = 0;
const PLACE: usize = 1;
const WORDS: usize = 2;
const TASK: usize = 8;
const BACK: usize = 9;
const USER: usize = 10;
const HEAD: usize = 11;

/// A message that is kept, as its receiver is to have it: whoever goes on with it loads its registers from here, so it is copied no more.
#[derive(Debug, Default)]
pub struct Letter {
    registers: [AtomicU64; REGISTERS],
    question: AtomicU64,
}

// Who reads a word that was written later also sees what was done before that (question.rs, `loan`).
#[inline]
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Release);
}

#[inline]
fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

impl Letter {
    /// What is in these hands, sent to `post` (0: it is an answer).
    #[inline]
    pub(crate) fn write(&self, post: u32, envelope: &Envelope, hands: &impl Hands) {
        let words = hands.words();
        (0..6).for_each(|i| set(&self.registers[WORDS + i], words[i]));
        self.address(head(hands.op() as u32, hands.lend(), post), envelope);
        hands.written();
    }

    /// One word of what is in no hands: the operation, or one of those that follow it. First of all those, then the letter is [sealed](Letter::seal).
    pub(crate) fn write_word(&self, at: usize, word: u64) {
        match at {
            0 => set(&self.registers[HEAD], head(word as u32, 0, 0)),
            _ => set(&self.registers[WORDS + at - 1], word),
        }
    }

    /// Where such is sent, and who sends it.
    pub(crate) fn seal(&self, post: u32, envelope: &Envelope) {
        let (op, ..) = of_head(get(&self.registers[HEAD]));
        self.address(head(op, 0, post), envelope);
    }

    #[inline]
    fn address(&self, head: u64, envelope: &Envelope) {
        let Envelope { from: Sender { thread, task, user, place }, .. } = *envelope;
        let to = &self.registers;
        set(&to[HEAD], head);
        set(&to[BACK], envelope.back_word());
        [(THREAD, thread), (PLACE, place), (TASK, task), (USER, user)]
            .into_iter()
            .for_each(|(at, word)| set(&to[at], word));
        set(&self.question, envelope.question.map_or(0, Question::word));
    }

    /// The same words here.
    pub(crate) fn copy(&self, of: &Letter) {
        let all = self.registers.iter().zip(&of.registers).chain([(&self.question, &of.question)]);
        all.for_each(|(to, from)| set(to, get(from)));
    }

    /// As it is received.
    #[inline]
    pub fn registers(&self) -> &[AtomicU64; REGISTERS] {
        &self.registers
    }

    /// The post that it was sent to; 0: it is an answer.
    #[inline]
    pub fn post(&self) -> u32 {
        of_head(get(&self.registers[HEAD])).2
    }

    pub fn from(&self) -> Sender {
        let [thread, place, task, user] = [THREAD, PLACE, TASK, USER].map(|at| get(&self.registers[at]));
        Sender { thread, task, user, place }
    }

    pub fn back(&self) -> Back {
        match get(&self.registers[BACK]) {
            0 => Back::Nowhere,
            word => Question::from_word(word)
                .map_or_else(|| number(self.from().node(), word).map_or(Back::Nowhere, Back::Post), Back::Question),
        }
    }

    #[inline]
    pub(crate) fn question(&self) -> Option<Question> {
        Question::from_word(get(&self.question))
    }

    pub fn body(&self) -> Body {
        let (op, lend, _) = of_head(get(&self.registers[HEAD]));
        Body { op: op.into(), words: core::array::from_fn(|i| get(&self.registers[WORDS + i])), lend }
    }

    pub fn read(&self) -> Message {
        Message { body: self.body(), from: self.from(), back: self.back(), question: self.question() }
    }

    /// Of a message that comes again and again: how often it came, in its first word.
    pub(crate) fn count_up(&self) {
        let count = &self.registers[WORDS];
        set(count, get(count).saturating_add(1));
    }

    /// It is what has come of this loan: where an answer would go stands which.
    pub(crate) fn is_of(&self, loan: Question) {
        set(&self.registers[BACK], loan.word());
    }

    pub(crate) fn forget_count(&self) {
        set(&self.registers[WORDS], 0);
    }
}

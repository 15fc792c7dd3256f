//! Messages: what programs write into them, what the kernel adds, and the words that keep them meanwhile.

use crate::sync::Ordering;
use crate::sync::owned::AtomicU64;
use abi::Rights;
use acl::Subject;

/// What a sender writes: the same as a call carries (K1-48). It travels in registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Which operation of the interface it is about.
    pub op: u64,
    pub words: [u64; 6],
    /// What is lent with it: bit `i` lends for reading what word `i` points to, with the length in word `i + 1`; bit
    /// `8 + i` for writing, too. Only with a question.
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
    /// Whether it lends what there is to be lent: a word and the one after it.
    pub fn is_well_formed(&self) -> bool {
        let marks = (self.lend | self.lend >> 8) & READ;
        self.lend & !(READ | WRITE) == 0 && marks & marks << 1 == 0
    }

    /// The ranges that are lent.
    pub fn lent(&self) -> impl Iterator<Item = Range> + '_ {
        (0..5).filter_map(|i| {
            let rights = match (self.lend >> i & 1, self.lend >> (8 + i) & 1) {
                (_, 1) => Rights::READ | Rights::WRITE,
                (1, _) => Rights::READ,
                _ => return None,
            };
            Some(Range { address: self.words[i], len: self.words[i + 1], rights })
        })
    }
}

/// A call by message that waits for its answer: the record of the thread that asks, and which of its waits that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    pub(crate) asker: u32,
    pub(crate) ticket: u32,
}

const QUESTION: u64 = 1 << 63;

impl Question {
    /// As programs see it. They may write anything there: it is the one who holds it that may answer it.
    pub const fn word(self) -> u64 {
        QUESTION | (self.asker as u64) << 32 | self.ticket as u64
    }

    /// `None` for words that no question has.
    pub const fn from_word(word: u64) -> Option<Question> {
        if word & QUESTION == 0 {
            return None;
        }
        Some(Question { asker: (word >> 32) as u32 & !(1 << 31), ticket: word as u32 })
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
    /// To the one who asks and waits for nothing else.
    Question(Question),
}

/// A message as it is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub body: Body,
    /// Who sent it: set by the kernel (invariant 37).
    pub from: Subject,
    pub back: Back,
    /// The wait that ends with an error if the one who has received this ends first.
    pub(crate) question: Option<Question>,
}

/// The words of a message that is kept.
#[derive(Debug, Default)]
pub(crate) struct Letter {
    op: AtomicU64,
    words: [AtomicU64; 6],
    /// What is lent, and above it the post for the answer.
    meta: AtomicU64,
    from: [AtomicU64; 6],
    question: AtomicU64,
}

// Who reads a word that was written later also sees what was done before that (question.rs, `loan`).
fn set(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Release);
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

impl Letter {
    pub fn write(&self, message: &Message) {
        let Message { body: Body { op, words, lend }, from, back, question } = *message;
        set(&self.op, op);
        self.words.iter().zip(words).for_each(|(word, value)| set(word, value));
        let post = if let Back::Post(post) = back { post } else { 0 };
        set(&self.meta, u64::from(lend) | u64::from(post) << 32);
        let Subject { node, user, task, thread, text, original } = from;
        self.from.iter().zip([node, user, task, thread, text, original]).for_each(|(word, value)| set(word, value));
        set(&self.question, question.map_or(0, Question::word));
    }

    pub fn read(&self) -> Message {
        let [node, user, task, thread, text, original] = [0, 1, 2, 3, 4, 5].map(|i| get(&self.from[i]));
        let (meta, question) = (get(&self.meta), Question::from_word(get(&self.question)));
        let back = match ((meta >> 32) as u32, question) {
            (0, None) => Back::Nowhere,
            (0, Some(question)) => Back::Question(question),
            (post, _) => Back::Post(post),
        };
        Message { body: self.body(meta), from: Subject { node, user, task, thread, text, original }, back, question }
    }

    fn body(&self, meta: u64) -> Body {
        Body { op: get(&self.op), words: [0, 1, 2, 3, 4, 5].map(|i| get(&self.words[i])), lend: meta as u16 }
    }

    /// Of a message that comes again and again: how often it came, in its first word.
    pub fn count_up(&self) {
        set(&self.words[0], get(&self.words[0]).saturating_add(1));
    }

    pub fn forget_count(&self) {
        set(&self.words[0], 0);
    }
}

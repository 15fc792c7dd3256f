//! Posts: messages to whoever waits for them (docs/decisions/0009).

use abi::calls::{number, stub};
use abi::post::{ANY, LOAN, QUESTION, REFUSE_QUESTIONS, TAKE_QUESTIONS, head, of_head};
use abi::{AclEntry, Error};

use crate::Trap;
use crate::trap::{MESSAGE, message_call};

pub use abi::post::Body;

/// For ever, as a limit of time.
pub const FOR_EVER: u64 = u64::MAX;

/// A message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    pub op: u32,
    pub words: [u64; 6],
    /// What is lent with it, as `abi::post::head` has it.
    pub lend: u16,
    /// Number of the post that it came to; 0: an answer.
    pub post: u32,
    /// Where the answer goes: a post's address, or a question or a loan to be answered with [`answer`]; 0: nowhere. Of what a loan has come to
    /// ([`Post::send_lending`]): that loan.
    pub back: u64,
    /// Who has sent it.
    pub thread: u64,
    pub task: u64,
    pub user: u64,
    pub text: u64,
    pub node: u64,
}

/// Numbers of the calls that carry messages.
const SEND: u64 = number("post_send");
const RECEIVE: u64 = number("post_receive");
const CALL: u64 = number("post_call");
const ANSWER: u64 = number("post_answer");

/// Node in the lowest bits of a text's address.
const NODE: u64 = 0x1f;

#[inline]
fn frame([a, b, c]: [u64; 3], op: u32, words: [u64; 6]) -> [u64; 10] {
    let [d, e, f, g, h, i] = words;
    [a, b, c, head(op, 0, 0), d, e, f, g, h, i]
}

#[inline]
fn message(frame: [u64; MESSAGE]) -> Message {
    let [back, user, head, task, a, b, c, d, e, f, thread, text] = frame;
    let (op, lend, post) = of_head(head);
    let words = [a, b, c, d, e, f];
    Message { op, words, lend, post, back, thread, task, user, text: text & !NODE, node: text & NODE }
}

impl Message {
    /// Of a loan that has ended without an answer: with what.
    #[must_use]
    pub fn lost(&self) -> Option<Error> {
        let is_of_loan = self.thread == 0 && self.back & (QUESTION | LOAN) == QUESTION | LOAN;
        if is_of_loan { Error::from_word(self.words[0]) } else { None }
    }
}

/// A post, by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Post(pub u64);

impl Post {
    /// Gets any post.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn any() -> Result<Post, Error> {
        stub::post_get(&Trap, ANY).map(Post)
    }

    /// Gets the post of this number.
    ///
    /// # Errors
    /// `Exists` if somebody has it, or what the kernel answers.
    pub fn known(number: u64) -> Result<Post, Error> {
        stub::post_get(&Trap, number).map(Post)
    }

    /// Gives it back; by force, if it is in use.
    ///
    /// # Errors
    /// `Busy` without force, or what the kernel answers.
    pub fn free(self, force: bool) -> Result<(), Error> {
        stub::post_free(&Trap, self.0, force.into()).map(drop)
    }

    /// Nobody will receive here for a while: whoever asks, and whose question lies here, hears `Dead`; or (`false`) not any more. What asks nothing goes on lying here.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn refuse_questions(self, refuses: bool) -> Result<(), Error> {
        stub::post_free(&Trap, self.0, if refuses { REFUSE_QUESTIONS } else { TAKE_QUESTIONS }).map(drop)
    }

    /// Lets somebody send (`CALL`), receive (`READ`) or free (`CHANGE_ACL`).
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn allow(self, entry: &AclEntry) -> Result<(), Error> {
        stub::acl_set(&Trap, self.0, core::ptr::from_ref(entry) as u64).map(drop)
    }

    /// Sends a message; its answer is expected at the post `back`.
    ///
    /// # Errors
    /// What the kernel answers.
    #[inline]
    pub fn send(self, op: u32, words: [u64; 6], back: Option<Post>) -> Result<(), Error> {
        message_call(SEND, frame([self.0, back.map_or(0, |post| post.0), 0], op, words)).map(drop)
    }

    /// Sends messages one after the other. How many were sent.
    ///
    /// # Errors
    /// What the kernel answers, if it was none.
    pub fn send_many(self, messages: &[Body]) -> Result<u64, Error> {
        stub::post_send_many(&Trap, self.0, messages.as_ptr() as u64, messages.len() as u64, 0)
    }

    /// Sends one message so many times. How many were sent.
    ///
    /// # Errors
    /// What the kernel answers, if it was none.
    pub fn send_copies(self, message: &Body, count: u64) -> Result<u64, Error> {
        stub::post_send_many(&Trap, self.0, core::ptr::from_ref(message) as u64, count, 1)
    }

    /// Receives the next message, waiting at most `ns` (0: not at all).
    ///
    /// # Errors
    /// `TimedOut`; `NotFound` if the post goes; what the kernel answers.
    #[inline]
    pub fn receive(self, ns: u64) -> Result<Message, Error> {
        message_call(RECEIVE, frame([self.0, 1, ns], 0, [0; 6])).map(message)
    }

    /// Sends a message here and receives the next one at `at`, in one step.
    ///
    /// # Errors
    /// As `send` and `receive`; `Dead` if whoever has received the message ends before anything came.
    #[inline]
    pub fn send_and_receive(self, op: u32, words: [u64; 6], at: Post, ns: u64) -> Result<Message, Error> {
        message_call(CALL, frame([self.0, at.0, ns], op, words)).map(message)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// As `send`; `Dead` if whoever has received the question ends; `NotFound` if the post goes before.
    #[inline]
    pub fn ask(self, op: u32, words: [u64; 6], ns: u64) -> Result<Message, Error> {
        message_call(CALL, frame([self.0, 0, ns], op, words)).map(message)
    }
}

impl Post {
    /// Asks, and lends memory until the answer comes, the wait ends otherwise or whoever has received the question ends: `lend` has bit
    /// `i` if word `i` is the address of memory to be read, with its length in the next word, and bit `8 + i` if it may be written, too.
    /// Whole pages are lent, to the thread that receives, in the text that it executes then.
    ///
    /// # Errors
    /// As [`Post::ask`]; `BadArgument` if it lends what has no length.
    pub fn ask_lending(self, op: u32, words: [u64; 6], lend: u16, ns: u64) -> Result<Message, Error> {
        self.lending([0, ns], op, words, lend)
    }

    /// Sends a message here, lends memory with it as [`Post::ask_lending`] does, and receives the next one at `at`, in one step. Whatever
    /// comes there, and however the wait ends, nothing is lent any more.
    ///
    /// # Errors
    /// As [`Post::send_and_receive`]; `BadArgument` if it lends what has no length.
    pub fn send_and_receive_lending(
        self,
        op: u32,
        words: [u64; 6],
        lend: u16,
        at: Post,
        ns: u64,
    ) -> Result<Message, Error> {
        self.lending([at.0, ns], op, words, lend)
    }

    /// Sends a message and lends memory with it as [`Post::ask_lending`] does, without waiting: until whoever has received it answers, or ends, this
    /// thread ends, one of the posts goes, `ns` are over (0 or [`FOR_EVER`]: no limit) or it is taken back ([`cancel`]). How it has ended comes to
    /// `back`: the answer, or a message that is [lost](Message::lost). In a call it lends what this program's own threads may use, and nothing that is lent to it
    /// for the call. Value: the loan, which that message names.
    ///
    /// # Errors
    /// As [`Post::send`]; `BadArgument` if it lends nothing, or what has no length; `NotSupported`: what is lent for writing lies on a stack, where whoever
    /// this thread calls meanwhile may run; `MessageQuota`: a loan is paid for as a message.
    pub fn send_lending(self, op: u32, words: [u64; 6], lend: u16, back: Post, ns: u64) -> Result<u64, Error> {
        if lend == 0 {
            return Err(Error::BadArgument);
        }
        let mut frame = frame([self.0, back.0, ns], op, words);
        frame[3] = head(op, lend, 0);
        message_call(SEND, frame).map(|frame| frame[2])
    }

    fn lending(self, [at, ns]: [u64; 2], op: u32, words: [u64; 6], lend: u16) -> Result<Message, Error> {
        let mut frame = frame([self.0, at, ns], op, words);
        frame[3] = head(op, lend, 0);
        message_call(CALL, frame).map(message)
    }
}

/// Receives from the first of these posts that has a message.
///
/// # Errors
/// As [`Post::receive`].
pub fn receive_of(posts: &[Post], ns: u64) -> Result<Message, Error> {
    let mut addresses = [0; abi::post::SEVERAL_MAX as usize];
    if posts.len() > addresses.len() {
        return Err(Error::TooBig);
    }
    addresses.iter_mut().zip(posts).for_each(|(address, post)| *address = post.0);
    let [first, a, b, c, d, e, f, last] = addresses;
    message_call(RECEIVE, [first, posts.len() as u64, ns, last, a, b, c, d, e, f]).map(message)
}

/// Takes back what was lent with a message by this program.
///
/// # Errors
/// `NotFound`: it is over, and how is at the post.
pub fn cancel(loan: u64) -> Result<(), Error> {
    stub::post_cancel(&Trap, loan).map(drop)
}

/// Answers a question or a loan (`back` of a message).
///
/// # Errors
/// `NotFound`: it is not this thread's to answer, or nobody waits for it any more.
#[inline]
pub fn answer(question: u64, op: u32, words: [u64; 6]) -> Result<(), Error> {
    message_call(ANSWER, frame([question, 0, 0], op, words)).map(drop)
}

/// Answers a question, and receives the next message in one step.
///
/// # Errors
/// As [`answer`] and [`Post::receive`].
#[inline]
pub fn answer_and_receive(question: u64, op: u32, words: [u64; 6], at: Post, ns: u64) -> Result<Message, Error> {
    message_call(ANSWER, frame([question, at.0, ns], op, words)).map(message)
}

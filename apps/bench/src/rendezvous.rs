//! The reference for posts: MINIX's rendezvous, by the number of a task and without a queue (K1-M2). Who sends waits until the
//! receiver takes the message; who sends and receives waits for that one's answer.
//!
//! It is made of what the kernel has that is nearest to it, questions: the asker waits, the message goes from its registers to the
//! receiver's, and the answer goes to the asker by its number, past every queue. So it has the same entry, the same switch and the
//! same care about kills and rights as what it is compared with, and no part that a rendezvous in the kernel would not have as
//! well, but for finding the receiver (a post, by a look at its lock and queue, instead of a table by number).

use musubi::Error;
use musubi::rt::post::{self, FOR_EVER, Message, Post};

/// Tasks have the numbers of these posts.
#[derive(Clone, Copy)]
pub struct Rendezvous<'a> {
    /// Who hears at which post.
    pub tasks: &'a [Post],
    /// The own number.
    pub me: usize,
}

/// What was received, and of which question.
pub struct Received {
    pub op: u32,
    pub words: [u64; 6],
    from: Waiting,
}

/// Who waits for the answer.
#[derive(Clone, Copy)]
pub struct Waiting(u64);

/// Marks a message whose sender waits only until it is taken.
const SENT: u32 = 1 << 31;

impl Rendezvous<'_> {
    fn post(&self, task: usize) -> Result<Post, Error> {
        self.tasks.get(task).copied().ok_or(Error::NotFound)
    }

    /// Sends, and waits for the answer.
    #[inline]
    pub fn send_and_receive(&self, to: usize, op: u32, words: [u64; 6]) -> Result<[u64; 6], Error> {
        self.post(to)?.ask(op, words, FOR_EVER).map(|answer| answer.words)
    }

    /// Sends, and waits until it is taken.
    pub fn send(&self, to: usize, op: u32, words: [u64; 6]) -> Result<(), Error> {
        self.post(to)?.ask(op | SENT, words, FOR_EVER).map(drop)
    }

    /// Receives from whoever sends.
    pub fn receive(&self) -> Result<Received, Error> {
        taken(self.post(self.me)?.receive(FOR_EVER)?)
    }

    /// Sends to one that waits for the answer, and receives from whoever sends next.
    #[inline]
    pub fn answer_and_receive(&self, to: Waiting, op: u32, words: [u64; 6]) -> Result<Received, Error> {
        taken(post::answer_and_receive(to.0, op, words, self.post(self.me)?, FOR_EVER)?)
    }
}

/// It is taken: who only sends goes on.
#[inline]
fn taken(message: Message) -> Result<Received, Error> {
    let Message { op, words, back, .. } = message;
    if op & SENT != 0 {
        post::answer(back, op, [0; 6])?;
    }
    Ok(Received { op: op & !SENT, words, from: Waiting(back) })
}

impl Received {
    #[inline]
    pub fn from(&self) -> Waiting {
        self.from
    }

    /// Sends to whoever waits for the answer.
    pub fn answer(&self, op: u32, words: [u64; 6]) -> Result<(), Error> {
        post::answer(self.from.0, op, words)
    }
}

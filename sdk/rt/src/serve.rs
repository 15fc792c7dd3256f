//! The further ways to a server: lines and a post, offered by one gate behind those of the methods. Behind the post wait as many
//! threads of the server's as there are processors; each answers and waits for the next message in one step.
//!
//! A message comes from anybody who may send, so nothing in it is believed. One of another interface, of no method, or whose words
//! are no arguments is answered with an error, and counted. A fault in a method ends that request; threads work inside of
//! [`guard::run`].

use abi::gate::{Record, record};
use abi::{AclEntry, Error, Rights};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::gate::{Skeleton, Values};
use crate::line::Lines;
use crate::post::{FOR_EVER, Message, Post, answer_and_receive};
use crate::request::{self, ANSWER};
use crate::sync::Mutex;
use crate::{Caller, guard, section, task, thread};

mod away;
mod deferred;
mod kept;
pub(crate) mod lent;
mod shares;
use away::Staff;
pub use away::{Away, LOOK_NS, away};
pub use deferred::{Deferred, defer};
use kept::Kept;
pub use shares::{Seldom, Shares};

/// What the gate behind the methods is asked for.
pub mod opener {
    pub const LINE: u64 = 0;
    pub const POST: u64 = 1;
    pub const COUNT: u64 = 2;
}

/// How a server may be called, besides by its gates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ways {
    /// Callers of one user's that may have a line (ITC) at a time; all together may have twice as many.
    pub lines: usize,
    /// Where requests come. Whoever owns it decides what becomes of them when this server has ended.
    pub post: Option<Post>,
    /// Threads that wait there; 0: one for each processor.
    pub receivers: usize,
}

impl Ways {
    #[must_use]
    pub fn lines(self, lines: usize) -> Ways {
        Ways { lines, ..self }
    }

    #[must_use]
    pub fn post(self, post: Post) -> Ways {
        Ways { post: Some(post), ..self }
    }

    #[must_use]
    pub fn receivers(self, receivers: usize) -> Ways {
        Ways { receivers, ..self }
    }
}

/// What a server counts of its post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Count {
    /// Messages of another interface, of no method, or with words that the skeleton refused.
    Refused,
    /// Methods that have faulted.
    Faulted,
    /// Answers that had to be kept for a while: many lay at somebody's post.
    Kept,
    /// Answers that nobody would have.
    Lost,
}

const COUNTS: usize = 4;

/// What stands behind the gates of a server that offers more than those.
pub(crate) struct Offered<S, const METHODS: u64> {
    methods: S,
    lines: Lines,
    office: Option<Office>,
}

impl<S: Skeleton + 'static, const METHODS: u64> Offered<S, METHODS> {
    pub(crate) fn new(methods: S, ways: &Ways) -> Self {
        let receivers = if ways.receivers == 0 { task::processors().count().max(1) } else { ways.receivers };
        let office = ways.post.map(|post| Office::new(post, receivers));
        Offered { methods, lines: Lines::new(ways.lines), office }
    }

    /// Starts the threads that wait at the post.
    pub(crate) fn open(&'static self) -> Result<(), Error> {
        let Some(office) = &self.office else { return Ok(()) };
        let receiver = move |desk| thread::spawn(move || office.serve(&self.methods, METHODS, desk), 0).map(drop);
        office.staff.hire(Box::new(receiver))
    }

    /// On the client's thread.
    fn opened(&'static self, caller: &Caller, [what, which, ..]: &[u64; 6]) -> Result<u64, Error> {
        let office = || self.office.as_ref().ok_or(Error::NotSupported);
        match *what {
            opener::LINE => self.lines.open(&self.methods, METHODS, caller),
            opener::POST if *which != u64::from(S::IDENTITY) => Err(Error::Refused),
            opener::POST => {
                let post = office()?.post;
                lent::remember(caller);
                Ok(post.0)
            }
            opener::COUNT => {
                let count = office()?.counts.get(*which as usize).ok_or(Error::BadArgument)?;
                Ok(count.load(Ordering::Relaxed))
            }
            _ => Err(Error::NoSuchCall),
        }
    }
}

impl<S: Skeleton + 'static, const METHODS: u64> Skeleton for Offered<S, METHODS> {
    const IDENTITY: u32 = S::IDENTITY;

    #[inline(always)]
    fn dispatch(&self, caller: &Caller, index: u64, words: &[u64; 6]) -> Values {
        if index < METHODS {
            return self.methods.dispatch(caller, index, words);
        }
        // SAFETY: `Gates::export` has put this value where it stays for ever.
        let always = unsafe { &*core::ptr::from_ref(self) };
        Values::of(always.opened(caller, words))
    }
}

/// An answer on its way.
#[derive(Clone, Copy, Debug)]
struct Reply {
    back: u64,
    head: u32,
    words: [u64; ANSWER],
}

impl Reply {
    fn words(&self) -> [u64; 6] {
        let [status, first, second] = self.words;
        [status, first, second, 0, 0, 0]
    }
}

/// A word for where an answer goes has this bit if it is a question.
const QUESTION: u64 = 1 << 63;
/// While some are kept, it is tried again so often, with so many at a time.
const AGAIN_NS: u64 = 1_000_000;
const AT_A_TIME: usize = 16;

/// A post and what its receivers have in common.
#[derive(Debug)]
struct Office {
    post: Post,
    counts: [AtomicU64; COUNTS],
    /// Answers for which there is no room in the pool now: what lies uncollected at its askers' posts is charged to this program. One
    /// who waits needs no room, so each of those who do gets theirs, whatever the others leave lying.
    kept: Mutex<Kept>,
    kept_len: AtomicU32,
    /// Somebody sends what is kept, though no receiver has anything to do.
    sending: AtomicBool,
    /// Requests that are answered later ([`defer`]): where to, and their heads.
    deferred: Mutex<Vec<(u64, u32)>>,
    /// What each receiver has received last, by its desk.
    at_work: Vec<Work>,
    staff: Staff,
}

/// A request: where its answer goes, and its head; the task whose request it is, while that waits for something else ([`away`]).
#[derive(Debug, Default)]
#[repr(align(64))]
struct Work {
    back: AtomicU64,
    head: AtomicU32,
    waits: AtomicU64,
    /// Whose the post for its answer has to be, if it has waited; 0: it has not, or asks as a question does.
    whose: AtomicU64,
    /// Its receiver holds the section that its pointers lead to, or it has waited: see [`Office::settle`].
    owes: AtomicBool,
}

/// Decodes a message about a request and runs its method. `None`: it asks for nothing ([`request::WATCH`]).
///
/// # Errors
/// `Refused`: of another interface; `BadArgument`: there is no such method. (What the method's skeleton refuses is in the values.)
pub fn served<S: Skeleton>(
    methods: &S,
    count: u64,
    caller: &Caller,
    head: u32,
    words: &[u64; 6],
) -> Option<Result<Values, Error>> {
    let (identity, tag, method) = request::of_head(head);
    if identity != S::IDENTITY {
        return Some(Err(Error::Refused));
    }
    if tag == request::WATCH {
        return None;
    }
    Some(request::run(methods, count, caller, method, words))
}

fn caller(message: &Message) -> Caller {
    let Message { task, user, text, thread, .. } = *message;
    Caller(Record { task, user, text, thread, flags: record::BY_POST, ..Record::default() })
}

impl Office {
    fn new(post: Post, receivers: usize) -> Self {
        let counts = [const { AtomicU64::new(0) }; COUNTS];
        let at_work = (0..receivers + away::DESKS).map(|_| Work::default()).collect();
        let (kept_len, sending, staff) = (AtomicU32::new(0), AtomicBool::new(false), Staff::new(receivers));
        Office { post, counts, kept: Mutex::default(), kept_len, sending, deferred: Mutex::default(), at_work, staff }
    }

    /// Whether a request is here: received, or answered in vain so far.
    fn knows(&self, back: u64, head: u32) -> bool {
        let has = |work: &Work| work.back.load(Ordering::SeqCst) == back && work.head.load(Ordering::SeqCst) == head;
        self.at_work.iter().any(has) || self.deferred.lock().contains(&(back, head)) || self.kept.lock().has(back, head)
    }

    fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The life of a receiver: until the post is no more.
    fn serve<S: Skeleton>(&'static self, methods: &S, count: u64, desk: usize) {
        let work = &self.at_work[desk];
        deferred::sit_down(self, work).expect("a receiver is a thread of this program's");
        // Whether a method is running, and what is to be answered next.
        let (serving, next) = (Cell::new(false), Cell::new(None));
        let reply = |outcome| {
            let (back, head) = (work.back.load(Ordering::Relaxed), work.head.load(Ordering::Relaxed));
            Reply { back, head, words: request::answer(outcome) }
        };
        let receive = || -> Result<(), Error> {
            loop {
                let message = match self.next(next.take()) {
                    Ok(message) => message,
                    Err(Error::TimedOut | Error::Dead) => continue,
                    Err(error) => return Err(error),
                };
                work.back.store(message.back, Ordering::Release);
                work.head.store(message.op, Ordering::Release);
                serving.set(true);
                // A fault in there comes back to below: what was written before counts, and nothing else.
                compiler_fence(Ordering::SeqCst);
                let outcome = served(methods, count, &caller(&message), message.op, &message.words);
                compiler_fence(Ordering::SeqCst);
                serving.set(false);
                self.settle(work);
                let Some(outcome) = outcome else {
                    let [asked, at_once, ..] = message.words;
                    let knows = self.knows(message.back, asked as u32);
                    if !knows || at_once != 0 {
                        let known = if knows { request::KNOWN } else { 0 };
                        next.set(Some(reply(Ok(Values(asked, known)))));
                    }
                    continue;
                };
                if outcome.is_err() || outcome == Ok(Values(Error::Refused.word(), 0)) {
                    self.count(Count::Refused);
                }
                next.set(Some(reply(outcome)));
            }
        };
        loop {
            let error = match guard::run(receive) {
                // `Dead`: the method has ended its thread, as far as it was its.
                Err(error @ (Error::Faulted | Error::NoMemory | Error::Dead)) if serving.replace(false) => error,
                // The post is no more, or this program is about to be.
                Ok(Err(Error::NotFound | Error::Killed)) | Err(Error::Killed) => return,
                // Without its receivers a server would only seem to be there.
                how => panic!("a receiver cannot go on: {how:?}"),
            };
            self.settle(work);
            self.back_at(work);
            self.count(Count::Faulted);
            next.set(Some(reply(Err(error))));
        }
    }

    /// The request of whoever sits there is served, and about to be answered: what it came with is not used any more, and what has waited may
    /// have nobody left to be answered.
    fn settle(&self, work: &Work) {
        if work.owes.swap(false, Ordering::Relaxed) {
            section::hold_none();
            self.look_whose(work);
        }
    }

    /// Answers and receives, in one step if there is somebody to be answered.
    fn next(&self, reply: Option<Reply>) -> Result<Message, Error> {
        let ns = if self.kept_len.load(Ordering::Relaxed) == 0 { FOR_EVER } else { self.try_again() };
        let Some(reply) = reply.filter(|reply| reply.back != 0) else { return self.post.receive(ns) };
        let Reply { back, head, .. } = reply;
        let outcome = match back & QUESTION {
            0 => Post(back).send_and_receive(head, reply.words(), self.post, ns),
            _ => answer_and_receive(back, head, reply.words(), self.post, ns),
        };
        match outcome {
            Err(Error::MessageQuota) => {
                self.keep(reply, deferred::owner(back));
                self.post.receive(AGAIN_NS)
            }
            // It has got the answer, or it is this thread's wait that is over.
            Err(error @ (Error::Dead | Error::TimedOut | Error::Killed)) => Err(error),
            Err(_) => {
                // Nobody waits any more, or may be answered. (Or the own post is no more: then this says so again.)
                self.count(Count::Lost);
                self.post.receive(ns)
            }
            message => message,
        }
    }

    /// Keeps an answer for this task's post; 0: nobody's.
    fn keep(&self, reply: Reply, task: u64) {
        let user = task::info(task).map_or(0, |info| info.user);
        let mut kept = self.kept.lock();
        self.count(if kept.add(reply, task, user) { Count::Kept } else { Count::Lost });
        self.kept_len.store(kept.len() as u32, Ordering::Relaxed);
    }

    /// Sends what is kept, as far as it can be. How long to wait then.
    #[cold]
    fn try_again(&self) -> u64 {
        let mut kept = self.kept.lock();
        for _ in 0..kept.len().min(AT_A_TIME) {
            // Whoever has that post by now has asked nothing.
            let sent = kept.first().map(|(task, reply)| match deferred::owner(reply.back) == *task {
                true => Post(reply.back).send(reply.head, reply.words(), None),
                false => Err(Error::Dead),
            });
            match sent {
                None => break,
                Some(Err(Error::MessageQuota)) => kept.put_last(),
                Some(sent) => {
                    kept.remove_first();
                    if sent.is_err() {
                        self.count(Count::Lost);
                    }
                }
            }
        }
        self.kept_len.store(kept.len() as u32, Ordering::Relaxed);
        if kept.len() == 0 { FOR_EVER } else { AGAIN_NS }
    }
}

/// Lets those send who may call.
pub(crate) fn admit(post: Post, entry: &AclEntry) -> Result<(), Error> {
    // A supervisor's post is the supervisor's affair.
    if section::info(post.0)?.rights & u64::from(Rights::CHANGE_ACL.bits()) == 0 {
        return Ok(());
    }
    post.allow(&AclEntry { rights: entry.rights & Rights::CALL.bits(), ..*entry })
}

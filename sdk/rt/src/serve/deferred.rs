//! Requests that are answered later than their methods return: when what they wait for has come, by whichever thread sees to that. So
//! as many may wait behind a post as there are, and its receivers serve others.

use core::sync::atomic::Ordering;

use super::{Office, QUESTION, Reply, Work};
use crate::gate::Values;
use crate::local::Local;
use crate::post::Post;
use crate::sync::Mutex;
use crate::{Caller, request, section, thread, time};
use abi::Error;
use abi::gate::record;

/// Where a receiver works.
pub(super) type Desk = (&'static Office, &'static Work);

static DESK: Local<Mutex<Option<Desk>>> = Local::new(|| Mutex::new(None));

/// This thread receives here from now on.
pub(super) fn sit_down(office: &'static Office, work: &'static Work) -> Result<(), Error> {
    DESK.with(|desk| *desk.lock() = Some((office, work)))
}

/// Where this thread receives.
pub(super) fn desk() -> Result<Option<Desk>, Error> {
    DESK.with(|desk| *desk.lock())
}

/// A request whose sender still waits for the answer.
#[derive(Debug)]
pub struct Deferred {
    office: Option<&'static Office>,
    back: u64,
    head: u32,
    /// Whose that post has to be: by the time of the answer somebody else may have it.
    owner: u64,
}

/// Keeps the request that is being served, so that it is answered later; what its method returns is not sent. `None`: it came by a gate,
/// and may wait on its own thread. To be asked once in a method.
///
/// # Errors
/// `NotSupported`: it came in a way whose answer only this thread can give, by a line, as a question or with memory that is lent with it.
pub fn defer(caller: &Caller) -> Result<Option<Deferred>, Error> {
    if caller.flags & record::BY_LINE != 0 {
        return Err(Error::NotSupported);
    }
    if caller.flags & record::BY_POST == 0 {
        return Ok(None);
    }
    let (office, work) = desk()?.ok_or(Error::NotSupported)?;
    let (back, head) = (work.back.load(Ordering::Relaxed), work.head.load(Ordering::Relaxed));
    if back & QUESTION != 0 {
        return Err(Error::NotSupported);
    }
    // First known there, then no more here: who asks for it meanwhile finds it in one of the two.
    office.deferred.lock().push((back, head));
    work.back.store(0, Ordering::SeqCst);
    let owner = owner_for(caller, back);
    Ok(Some(Deferred { office: Some(office), back, head, owner }))
}

/// Whose a post is; 0: nobody's.
pub(super) fn owner(post: u64) -> u64 {
    section::owner(post).unwrap_or(0)
}

/// Whose the post has to be when the answer is sent there: the sender's, or of whom the text is that he sends from, as what that gets is. 0: it is
/// another one's already, who has got its number while the request lay in the queue.
pub(super) fn owner_for(sender: &Caller, post: u64) -> u64 {
    let owner = owner(post);
    if owner == sender.task || section::owner(sender.text) == Ok(owner) { owner } else { 0 }
}

impl Deferred {
    /// Answers it.
    pub fn answer(mut self, outcome: Result<u64, Error>) {
        let words = request::answer(Ok(Values::of(outcome)));
        self.send(Reply { back: self.back, head: self.head, words });
    }

    fn send(&mut self, reply: Reply) {
        let Some(office) = self.office.take() else { return };
        if reply.back != 0 && owner(reply.back) != self.owner {
            office.count(super::Count::Lost);
        } else if reply.back != 0 {
            match Post(reply.back).send(reply.head, reply.words(), None) {
                Ok(()) => {}
                Err(Error::MessageQuota) => office.keep_until_sent(reply, self.owner),
                Err(_) => office.count(super::Count::Lost),
            }
        }
        let mut deferred = office.deferred.lock();
        if let Some(at) = deferred.iter().position(|one| *one == (reply.back, reply.head)) {
            deferred.swap_remove(at);
        }
    }
}

impl Drop for Deferred {
    /// Nobody will answer it any more.
    fn drop(&mut self) {
        let words = request::answer(Err(Error::Dead));
        self.send(Reply { back: self.back, head: self.head, words });
    }
}

impl Office {
    /// Keeps an answer while the receivers may all be waiting: then a thread of its own tries again.
    fn keep_until_sent(&'static self, reply: Reply, task: u64) {
        self.keep(reply, task);
        if self.sending.swap(true, Ordering::SeqCst) {
            return;
        }
        let send = move || {
            loop {
                while self.try_again() != crate::post::FOR_EVER {
                    time::sleep_ns(super::AGAIN_NS);
                }
                self.sending.store(false, Ordering::SeqCst);
                // Somebody may have kept one since, and relied on this thread.
                if self.kept_len.load(Ordering::SeqCst) == 0 || self.sending.swap(true, Ordering::SeqCst) {
                    return;
                }
            }
        };
        if thread::spawn(send, 0).is_err() {
            // The next receiver that has something to do tries.
            self.sending.store(false, Ordering::SeqCst);
        }
    }
}

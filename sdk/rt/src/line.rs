//! Lines: ITC as a transport of an interface. The client binds as for other calls and has the server open a line in the
//! first page of the argument section: two queues, one for calls and one for answers. A thread of the server takes calls
//! from it and runs the same methods that others call on their own threads.
//!
//! Neither side trusts the page. The server's thread does all of its work on a line inside of [`guard::run`], so that
//! a client that takes the section away costs the line, not the server. When one side's thread ends, the other's wait does.

use abi::gate::{Binding, record};
use abi::{Error, Rights};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::gate::Skeleton;
use crate::itc::{self, Limit, Partners, Putter, Taker, Wake, lane_words};
use crate::request::{self, ANSWER, CALL, values_of};
use crate::serve::Shares;
use crate::sync::Mutex;
use crate::{Caller, guard, section, task, thread};

/// Bytes of the argument section that a line takes.
pub const LINE_LEN: u64 = 4096;
/// Calls that may be under way.
const CALLS: u64 = 16;
/// Lines that one task may have of a server.
const LINES_PER_TASK: usize = 4;

const ANSWERS_AT: usize = lane_words::<CALL>(CALLS).next_multiple_of(8);
const _: () = assert!((ANSWERS_AT + lane_words::<ANSWER>(CALLS)) * 8 <= LINE_LEN as usize);
/// Instead of a gate: the client is done.
const CLOSE: u64 = u64::MAX;

type Words = &'static [AtomicU64];

fn words(base: u64) -> Result<Words, Error> {
    if !section::may(base, LINE_LEN, Rights::READ | Rights::WRITE, section::Who::Own) {
        return Err(Error::BadAddress);
    }
    // SAFETY: the kernel says that this domain may use it, argument sections begin at a page, and whatever is there is a
    // valid word. Should it be taken away, the access faults.
    Ok(unsafe { core::slice::from_raw_parts(base as *const AtomicU64, (LINE_LEN / 8) as usize) })
}

/// The client's end.
#[derive(Debug)]
pub struct Line {
    calls: Putter<'static, CALL>,
    answers: Taker<'static, ANSWER>,
    partners: Partners,
    /// Where the stack of the thread lies that may use it: no other thread's does.
    stack: u64,
    /// Calls made, answers taken, answers that nobody has collected.
    made: Cell<u64>,
    taken: Cell<u64>,
    under_way: Cell<u64>,
    /// Answers that were taken before they were asked for, with the number of the call.
    early: RefCell<Vec<(u64, [u64; ANSWER])>>,
}

// SAFETY: all methods begin with `own`, which only lets the thread on that made the line: nobody else gets to what
// is inside.
unsafe impl Send for Line {}
// SAFETY: as above.
unsafe impl Sync for Line {}

/// The granule that this thread's stack lies in: sections begin at granules, and each stack is one.
fn stack() -> u64 {
    let here = 0u8;
    core::ptr::from_ref(&here) as u64 / abi::layout::GRANULE
}

impl Line {
    pub(crate) fn open(binding: &Binding, server: u64) -> Result<Line, Error> {
        let words = words(binding.args)?;
        let calls = Putter::new(&words[..ANSWERS_AT], CALLS).ok_or(Error::TooBig)?;
        Ok(Line {
            calls,
            answers: Taker::new(&words[ANSWERS_AT..], CALLS).ok_or(Error::TooBig)?,
            partners: itc::partners(&[server])?,
            stack: stack(),
            made: Cell::new(0),
            taken: Cell::new(0),
            under_way: Cell::new(0),
            early: RefCell::new(Vec::with_capacity(CALLS as usize)),
        })
    }

    #[inline]
    fn own(&self) -> Result<(), Error> {
        if stack() == self.stack { Ok(()) } else { Err(Error::Busy) }
    }

    /// Makes a call. Its number, and who is to be woken.
    #[inline]
    fn send(&self, index: u64, words: &[u64; 6]) -> Result<(u64, Wake), Error> {
        if self.under_way.get() == CALLS {
            return Err(Error::Busy);
        }
        let [a, b, c, d, e, f] = *words;
        let wake = self.calls.put(&[index, a, b, c, d, e, f])?;
        let call = self.made.replace(self.made.get() + 1);
        self.under_way.set(self.under_way.get() + 1);
        Ok((call, wake))
    }

    /// Waits for the answer to a call that is under way. With `Busy` and `TimedOut`, which `limit` has to do with, it still is.
    ///
    /// # Errors
    /// `Busy`, too, on another thread; as a call.
    #[inline]
    pub(crate) fn receive(&self, call: u64, mut wake: Wake, limit: Limit) -> Result<[u64; 2], Error> {
        if call < self.taken.get() {
            let mut early = self.early.borrow_mut();
            let at = early.iter().position(|(of, _)| *of == call).ok_or(Error::NotFound)?;
            self.under_way.set(self.under_way.get() - 1);
            return values_of(early.swap_remove(at).1);
        }
        loop {
            let answer = match self.answers.take_after(&self.partners, wake, limit) {
                Err(error @ (Error::Busy | Error::TimedOut)) => return Err(error),
                other => other,
            };
            let of = self.taken.get();
            if answer.is_err() || of == call {
                self.under_way.set(self.under_way.get() - 1);
            }
            let answer = answer?;
            self.taken.set(of + 1);
            if of == call {
                return values_of(answer);
            }
            self.early.borrow_mut().push((of, answer));
            wake = Wake::default();
        }
    }

    #[inline]
    pub(crate) fn call(&self, index: u64, words: &[u64; 6]) -> Result<[u64; 2], Error> {
        self.own()?;
        let (call, wake) = self.send(index, words)?;
        self.receive(call, wake, Limit::Snoop(u64::MAX))
    }

    /// Makes a call whose answer is waited for later. Its number.
    pub(crate) fn begin(&self, index: u64, words: &[u64; 6]) -> Result<u64, Error> {
        self.own()?;
        let (call, mut wake) = self.send(index, words)?;
        wake.now(&self.partners);
        Ok(call)
    }

    /// [`Line::receive`], on whatever thread this is called.
    pub(crate) fn wait(&self, call: u64, limit: Limit) -> Result<[u64; 2], Error> {
        self.own()?;
        self.receive(call, Wake::default(), limit)
    }

    /// Tells the server's thread that it may end.
    pub(crate) fn close(&self) {
        if self.own().is_ok()
            && let Ok(mut wake) = self.calls.put(&[CLOSE, 0, 0, 0, 0, 0, 0])
        {
            wake.now(&self.partners);
        }
    }
}

/// The server's end.
#[derive(Debug)]
pub(crate) struct Lines {
    max: usize,
    /// Who has lines: one user has at most `max`, and that leaves room for others.
    shares: Mutex<Shares>,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Lines { max, shares: Mutex::new(Shares::new(LINES_PER_TASK, 2 * max)) }
    }

    /// On the client's thread. Value: the thread that serves the line with the first `count` of these methods.
    pub(crate) fn open<S: Skeleton>(
        &'static self,
        methods: &'static S,
        count: u64,
        caller: &Caller,
    ) -> Result<u64, Error> {
        if self.max == 0 {
            return Err(Error::NotSupported);
        }
        if caller.args_base == 0 || caller.args_len < LINE_LEN {
            return Err(Error::BadArgument);
        }
        if !self.shares.lock().take(caller.task, caller.user) {
            return Err(Error::Busy);
        }
        let (mut of, client) = (*caller, task::identity().thread);
        let (base, len) = (caller.args_base, caller.args_len);
        let owner = section::owner(base).inspect_err(|_| self.shares.lock().give(caller.task))?;
        of.0.args_base += LINE_LEN;
        of.0.args_len -= LINE_LEN;
        of.0.flags |= record::BY_LINE;
        let served = thread::spawn(
            move || {
                // All its life: the client may unbind while a method waits, and the line itself lies there, too.
                if section::hold(base, len, owner).is_ok() {
                    serve(methods, count, &of, base, client);
                    section::hold_none();
                }
                self.shares.lock().give(of.task);
            },
            0,
        );
        served.map(|thread| thread.number()).inspect_err(|_| self.shares.lock().give(caller.task))
    }
}

/// The life of a line.
fn serve<S: Skeleton>(methods: &S, count: u64, of: &Caller, base: u64, client: u64) {
    let (Ok(partners), Ok(words)) = (itc::partners(&[client]), words(base)) else { return };
    let calls = Taker::<CALL>::new(&words[..ANSWERS_AT], CALLS);
    let answers = Putter::<ANSWER>::new(&words[ANSWERS_AT..], CALLS);
    let (Some(calls), Some(answers)) = (calls, answers) else { return };
    // Whether a call is being served, and how the one before has ended in the middle; whether the bound call has begun at all.
    let (serving, ended, begun) = (Cell::new(false), Cell::new(Error::Faulted), Cell::new(false));
    let work = || -> Result<(), Error> {
        begun.set(true);
        let mut wake = Wake::default();
        if serving.replace(false) {
            // It has faulted.
            wake = answers.put(&request::answer(Err(ended.get())))?;
        }
        loop {
            let [index, a, b, c, d, e, f] = calls.take_after(&partners, wake, Limit::Sleep(u64::MAX))?;
            if index == CLOSE {
                return Ok(());
            }
            serving.set(true);
            // A fault in there comes back to the beginning: what was written before counts, and nothing else.
            compiler_fence(Ordering::SeqCst);
            let outcome = request::run(methods, count, of, index, &[a, b, c, d, e, f]);
            compiler_fence(Ordering::SeqCst);
            serving.set(false);
            wake = answers.put(&request::answer(outcome))?;
        }
    };
    // A fault in a method ends that call; one in the line's own words the line.
    while let Err(error @ (Error::Faulted | Error::NoMemory)) = guard::run(work)
        && begun.replace(false)
        && serving.get()
    {
        ended.set(error);
    }
}

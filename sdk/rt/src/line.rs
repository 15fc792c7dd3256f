//! Lines: ITC as a transport of an interface. The client binds as for other calls and has the server open a line in the
//! first page of the argument section: two queues, one for calls and one for answers. A thread of the server takes calls
//! from it and runs the same methods that others call on their own threads.
//!
//! Neither side trusts the page. The server's thread does all of its work on a line inside of [`guard::run`], so that
//! a client that takes the section away costs the line, not the server. When one side's thread ends, the other's wait does.

use abi::gate::{Binding, record};
use abi::{Error, Rights};
use alloc::collections::BTreeMap;
use core::cell::{Cell, RefCell};
use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;

use crate::gate::{Skeleton, Values};
use crate::itc::{self, Limit, Partners, Queue, Taken, Wake};
use crate::sync::Mutex;
use crate::{Caller, guard, section, task, thread};

/// Bytes of the argument section that a line takes.
pub const LINE_LEN: u64 = 4096;
/// Calls that may be under way.
const CALLS: u64 = 16;
/// Lines that one task may have of a server.
const LINES_PER_TASK: usize = 4;

/// Which gate, six words, ticket.
const CALL: usize = 8;
/// Ticket, status, two values.
const ANSWER: usize = 4;
const ANSWERS_AT: usize = Queue::<CALL>::words(CALLS);
const _: () = assert!((ANSWERS_AT + Queue::<ANSWER>::words(CALLS)) * 8 <= LINE_LEN as usize);
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

fn queues(words: Words, partners: &Partners) -> Result<(Queue<'_, CALL>, Queue<'_, ANSWER>), Error> {
    let calls = Queue::new(&words[..ANSWERS_AT], CALLS, partners);
    calls.zip(Queue::new(&words[ANSWERS_AT..], CALLS, partners)).ok_or(Error::TooBig)
}

/// The client's end.
#[derive(Debug)]
pub struct Line {
    words: Words,
    partners: Partners,
    /// Where the stack of the thread lies that may use it: no other thread's does.
    stack: u64,
    tickets: Cell<u64>,
    under_way: Cell<u64>,
    /// Answers that came before they were asked for.
    early: RefCell<BTreeMap<u64, [u64; ANSWER]>>,
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
        let partners = itc::partners(&[server])?;
        Ok(Line {
            words,
            partners,
            stack: stack(),
            tickets: Cell::new(0),
            under_way: Cell::new(0),
            early: RefCell::default(),
        })
    }

    fn own(&self) -> Result<(Queue<'_, CALL>, Queue<'_, ANSWER>), Error> {
        if stack() != self.stack {
            return Err(Error::Busy);
        }
        queues(self.words, &self.partners)
    }

    fn send(&self, calls: &Queue<'_, CALL>, index: u64, words: &[u64; 6]) -> Result<(u64, Wake), Error> {
        if self.under_way.get() == CALLS {
            return Err(Error::Busy);
        }
        let ticket = self.tickets.get();
        let [a, b, c, d, e, f] = *words;
        let wake = calls.put_quietly(&[index, a, b, c, d, e, f, ticket], Limit::Sleep(u64::MAX))?;
        self.tickets.set(ticket + 1);
        self.under_way.set(self.under_way.get() + 1);
        Ok((ticket, wake))
    }

    fn receive(&self, answers: &Queue<'_, ANSWER>, ticket: u64, mut wake: Wake) -> Result<[u64; 2], Error> {
        self.under_way.set(self.under_way.get() - 1);
        let known = self.early.borrow_mut().remove(&ticket);
        let [_, status, first, second] = match known {
            Some(answer) => answer,
            None => loop {
                match answers.take_after(wake, Limit::Snoop(u64::MAX))? {
                    Taken::Message(answer) if answer[0] == ticket => break answer,
                    Taken::Message(answer) => {
                        wake = Wake::default();
                        // The answer to nothing that was asked says that somebody else writes there.
                        let mut early = self.early.borrow_mut();
                        if answer[0] >= self.tickets.get() || early.len() as u64 >= CALLS {
                            return Err(Error::Changed);
                        }
                        early.insert(answer[0], answer);
                    }
                    Taken::Left(_) => return Err(Error::Dead),
                }
            },
        };
        match status {
            0 => Ok([first, second]),
            word => Err(Error::from_word(word).map_or(Error::BadArgument, Error::told)),
        }
    }

    fn call(&self, index: u64, words: &[u64; 6]) -> Result<[u64; 2], Error> {
        let (calls, answers) = self.own()?;
        let (ticket, wake) = self.send(&calls, index, words)?;
        self.receive(&answers, ticket, wake)
    }

    pub(crate) fn post(&self, index: u64, words: &[u64; 6]) -> Result<Posted<'_>, Error> {
        let (calls, _) = self.own()?;
        let (ticket, mut wake) = self.send(&calls, index, words)?;
        wake.now(&self.partners);
        Ok(Posted { state: State::UnderWay(self, ticket), _lent: PhantomData })
    }

    /// Tells the server's thread that it may end.
    pub(crate) fn close(&self) {
        if let Ok((calls, _)) = self.own() {
            let _ = calls.put(&[CLOSE, 0, 0, 0, 0, 0, 0, 0], Limit::Poll);
        }
    }
}

/// Where a stub comes to that calls by a line (`trap.rs`): `words` are six words, and the place for two values.
///
/// # Safety
/// `line` lives, and `words` are the caller's.
pub(crate) unsafe extern "C" fn call(line: *const Line, index: u64, words: *mut [u64; 6]) -> u64 {
    // SAFETY: the caller says so.
    let (line, words) = unsafe { (&*line, &mut *words) };
    match line.call(index, words) {
        Ok(values) => {
            words[..2].copy_from_slice(&values);
            0
        }
        Err(error) => error.word(),
    }
}

/// A call whose answer is collected later. What was lent for it stays lent until then.
#[derive(Debug)]
pub struct Posted<'a> {
    state: State<'a>,
    _lent: PhantomData<&'a mut [u8]>,
}

#[derive(Debug)]
enum State<'a> {
    UnderWay(&'a Line, u64),
    Answered(Result<[u64; 2], Error>),
    Collected,
}

impl Posted<'_> {
    pub(crate) fn answered(outcome: Result<[u64; 2], Error>) -> Self {
        Posted { state: State::Answered(outcome), _lent: PhantomData }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As a call that is not posted.
    pub fn collect(mut self) -> Result<[u64; 2], Error> {
        self.take()
    }

    fn take(&mut self) -> Result<[u64; 2], Error> {
        match core::mem::replace(&mut self.state, State::Collected) {
            State::UnderWay(line, ticket) => {
                let (_, answers) = line.own()?;
                line.receive(&answers, ticket, Wake::default())
            }
            State::Answered(outcome) => outcome,
            State::Collected => Err(Error::NotFound),
        }
    }
}

impl Drop for Posted<'_> {
    /// What was lent comes back first.
    fn drop(&mut self) {
        if matches!(self.state, State::UnderWay(..)) {
            let _ = self.take();
        }
    }
}

/// A posted call with a value of the method's type.
#[derive(Debug)]
pub struct Answer<'a, T> {
    posted: Posted<'a>,
    value: fn([u64; 2]) -> Result<T, Error>,
}

impl<'a, T> Answer<'a, T> {
    #[must_use]
    pub fn of(posted: Posted<'a>, value: fn([u64; 2]) -> Result<T, Error>) -> Self {
        Answer { posted, value }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// As a call that is not posted.
    pub fn collect(self) -> Result<T, Error> {
        (self.value)(self.posted.collect()?)
    }
}

/// The server's end: a skeleton, and behind its methods the gate that opens lines.
pub(crate) struct Lines<S, const METHODS: u64> {
    methods: S,
    max: usize,
    /// The tasks that have lines, each as often as it has.
    tasks: Mutex<alloc::vec::Vec<u64>>,
}

impl<S: Skeleton + 'static, const METHODS: u64> Lines<S, METHODS> {
    pub(crate) fn new(methods: S, max: usize) -> Self {
        Lines { methods, max, tasks: Mutex::new(alloc::vec::Vec::new()) }
    }

    /// On the client's thread. Value: the thread that serves the line.
    fn open(&'static self, caller: &Caller) -> Result<u64, Error> {
        if caller.args_base == 0 || caller.args_len < LINE_LEN {
            return Err(Error::BadArgument);
        }
        {
            let mut tasks = self.tasks.lock();
            if tasks.len() >= self.max || tasks.iter().filter(|task| **task == caller.task).count() >= LINES_PER_TASK {
                return Err(Error::Busy);
            }
            tasks.push(caller.task);
        }
        let (mut of, client) = (*caller, task::identity().thread);
        let base = caller.args_base;
        of.0.args_base += LINE_LEN;
        of.0.args_len -= LINE_LEN;
        of.0.flags |= record::BY_LINE;
        let served = thread::spawn(
            move || {
                self.serve(&of, base, client);
                self.forget(of.task);
            },
            0,
        );
        served.map(|thread| thread.number()).inspect_err(|_| self.forget(caller.task))
    }

    fn forget(&self, task: u64) {
        let mut tasks = self.tasks.lock();
        if let Some(at) = tasks.iter().position(|one| *one == task) {
            tasks.swap_remove(at);
        }
    }

    /// The life of a line.
    fn serve(&self, of: &Caller, base: u64, client: u64) {
        let Ok(partners) = itc::partners(&[client]) else { return };
        // The ticket of the call that is being served.
        let current = Cell::new(None);
        let work = || -> Result<(), Error> {
            let (calls, answers) = queues(words(base)?, &partners)?;
            let answer = |ticket, status, values: Values| {
                let outcome = answers.put_quietly(&[ticket, status, values.0, values.1], Limit::Sleep(u64::MAX));
                current.set(None);
                outcome
            };
            let mut wake = match current.get() {
                // It has faulted.
                Some(ticket) => answer(ticket, Error::Faulted.word(), Values(0, 0))?,
                None => Wake::default(),
            };
            loop {
                let Taken::Message([index, a, b, c, d, e, f, ticket]) =
                    calls.take_after(wake, Limit::Sleep(u64::MAX))?
                else {
                    return Ok(());
                };
                if index == CLOSE {
                    return Ok(());
                }
                if index >= METHODS {
                    wake = answer(ticket, Error::BadArgument.word(), Values(0, 0))?;
                    continue;
                }
                current.set(Some(ticket));
                let values = self.methods.dispatch(of, index, &[a, b, c, d, e, f]);
                wake = answer(ticket, 0, values)?;
            }
        };
        // A fault in a method ends that call; one in the line's own words comes without a call, or again at once.
        let mut last = None;
        while guard::run(work) == Err(Error::Faulted) && current.get().is_some() && current.get() != last {
            last = current.get();
        }
    }
}

impl<S: Skeleton + 'static, const METHODS: u64> Skeleton for Lines<S, METHODS> {
    #[inline(always)]
    fn dispatch(&self, caller: &Caller, index: u64, words: &[u64; 6]) -> Values {
        if index < METHODS {
            return self.methods.dispatch(caller, index, words);
        }
        // SAFETY: `Gates::export` has put this value where it stays for ever.
        let always = unsafe { &*core::ptr::from_ref(self) };
        Values::of(always.open(caller))
    }
}

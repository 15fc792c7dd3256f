//! What a thread that waits may know of the one that it waits for: whether it is running (SSS-2), and that it has ended
//! (CUBIX-63). Watching costs nothing until the watched thread ends; then all threads are looked through.

use crate::info;
use crate::machine::machine;
use crate::sched;
use crate::thread::Thread;
use crate::wait;
use ::sched::Phase;
use abi::info::{RUNNING_ENDS, RUNNING_MAX, RUNNING_STEP, RUNNING_TURN};
use abi::Error;
use abi::sched::WATCHES_MAX;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use spin::Mutex;

/// Whom a thread watches, each with how often. Of fixed size: there is nothing to be charged.
#[derive(Default)]
pub struct Watches(Mutex<[(u64, u32); WATCHES_MAX]>);

impl Watches {
    pub fn has(&self, thread: u64) -> bool {
        self.0.lock().iter().any(|(number, _)| *number == thread)
    }

    fn add(&self, thread: u64) -> Result<(), Error> {
        let mut all = self.0.lock();
        let at = all.iter().position(|one| one.0 == thread).or_else(|| all.iter().position(|one| one.0 == 0));
        let one = &mut all[at.ok_or(Error::TooBig)?];
        *one = (thread, one.1.checked_add(1).ok_or(Error::TooBig)?);
        Ok(())
    }

    /// One time less. Whether there was one.
    fn take(&self, thread: u64) -> bool {
        let mut all = self.0.lock();
        let Some(one) = all.iter_mut().find(|one| one.0 == thread) else { return false };
        one.1 -= 1;
        if one.1 == 0 {
            *one = (0, 0);
        }
        true
    }

    /// Of a thread that has ended. Whether it was watched.
    fn forget(&self, thread: u64) -> bool {
        let mut all = self.0.lock();
        let found = all.iter_mut().find(|one| one.0 == thread);
        found.map(|one| *one = (0, 0)).is_some()
    }
}

/// `call_scheduler`: begins to watch.
pub fn begin(thread: &Arc<Thread>, number: u64) -> Result<u64, Error> {
    let threads = &machine().threads;
    if number == 0 || !threads.has_been(number) {
        return Err(Error::NotFound);
    }
    let other = threads.find(number).ok_or(Error::Dead)?;
    if other.wait.lock().life.phase() == Phase::Ended {
        // It is about to leave the table, and whoever waits for its end may know already.
        return Err(Error::Dead);
    }
    other.watched.store(true, Ordering::SeqCst);
    thread.watches.add(number)?;
    // It leaves the table before it looks for watchers: who finds it there will be found.
    if threads.find(number).is_none() {
        thread.watches.forget(number);
        return Err(Error::Dead);
    }
    Ok(0)
}

/// Takes it back.
pub fn end(thread: &Arc<Thread>, number: u64) -> Result<u64, Error> {
    if number != 0 && thread.watches.take(number) { Ok(0) } else { Err(Error::NotFound) }
}

/// A thread has ended and left the table: whoever watches it is woken.
pub fn ended(thread: &Thread) {
    if !thread.watched.load(Ordering::SeqCst) {
        return;
    }
    {
        // Before anybody is woken: who has not seen the number change need not ask whether somebody has ended.
        let mut ends = ENDS.lock();
        *ends += 1;
        info::running().0[RUNNING_ENDS as usize / 8].store(*ends, Ordering::Release);
    }
    sched::in_stretches(machine().threads.all(), |other| {
        if other.watches.forget(thread.number) {
            wait::rouse(&other);
        }
    });
}

static ENDS: Mutex<u64> = Mutex::new(0);

/// Words of the page that says who runs where.
const STEP: usize = RUNNING_STEP as usize / 8;
const TURN: usize = RUNNING_TURN as usize / 8;

/// Lets the short way write there, too. Boot only.
pub fn show() {
    let processors = machine().processors.len();
    assert!(processors as u64 <= RUNNING_MAX, "room for {processors} processors");
    (0..processors).for_each(|index| arch::pass::show_running(index, info::running(), index * STEP));
}

/// `running`.
pub fn section() -> Result<u64, Error> {
    info::section().ok_or(Error::NotFound)
}

/// A thread runs on a processor from now on; 0: none. On its own turn, or on the one that was running there.
#[inline]
pub fn runs(processor: usize, thread: u64, own_turn: bool) {
    let page = &info::running().0;
    page[processor * STEP].store(thread, Ordering::Release);
    if own_turn {
        page[processor * STEP + TURN].store(thread, Ordering::Release);
    }
}

/// The threads that run on the processors.
pub fn who_runs() -> impl Iterator<Item = u64> {
    let page = &info::running().0;
    let all = (0..machine().processors.len()).map(|processor| page[processor * STEP].load(Ordering::Acquire));
    all.filter(|thread| *thread != 0)
}

/// The thread that runs on a processor, and on whose turn, if that is another's.
pub fn borrows(processor: usize) -> Option<(u64, u64)> {
    let page = &info::running().0;
    let (thread, turn) = (page[processor * STEP].load(Ordering::Acquire), page[processor * STEP + TURN].load(Ordering::Acquire));
    (thread != turn && thread != 0 && turn != 0).then_some((thread, turn))
}

//! Waiting: lists of waiters of one object, and waits on a word of memory.

use crate::claim;
use crate::pass;
use crate::domain::Domain;
use crate::saved::Saved;
use crate::sched;
use crate::thread::Thread;
use abi::{Error, Rights};
use ::sched::Phase;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Mutex;

/// Threads that wait for one event of one object, by number, and in which of their waits; each repeats its call when woken.
#[derive(Default)]
pub struct Waiters(Arc<Crowd>);

type Crowd = Mutex<BTreeMap<u64, (Arc<Thread>, u64)>>;

/// Of a thread: where it is found while it waits for an event, and perhaps afterwards.
pub type AtEvent = Mutex<Weak<Crowd>>;

impl Waiters {
    /// The thread waits until [`Waiters::wake_all`] or the time-out, unless `done` already holds.
    pub fn wait(&self, thread: Saved<'_>, timeout: u64, done: impl Fn() -> bool) {
        if timeout == 0 && !done() {
            return thread.answer(Err(Error::TimedOut));
        }
        forget_event(&thread);
        *thread.at_event.lock() = Arc::downgrade(&self.0);
        let mut list = self.0.lock();
        let ticket = sched::begin_wait(thread);
        list.insert(thread.number, (Arc::clone(&thread), ticket));
        drop(list);
        // The event may have come before we were on the list.
        if timeout != 0 && done() {
            sched::wake_to_repeat(&thread, ticket);
            return;
        }
        if thread.is_killed() {
            // In its own text it ends now; in a callee it is told, as by every other wait.
            sched::wake(&thread, ticket, Err(Error::Killed));
            return;
        }
        set_timeout(&thread, ticket, timeout, Err(Error::TimedOut));
    }

    /// However many wait: interrupts are let in between. Call without locks.
    pub fn wake_all(&self) {
        let list = core::mem::take(&mut *self.0.lock());
        sched::in_stretches(list, |(_, (thread, ticket))| _ = sched::wake_to_repeat(&thread, ticket));
    }
}

/// The thread waits for something else from now on, or has ended: for what it waited before without its coming (a time-out, a kill), it is
/// remembered no longer. So there are never more of these notes than threads.
fn forget_event(thread: &Thread) {
    let crowd = core::mem::take(&mut *thread.at_event.lock()).upgrade();
    let gone = crowd.and_then(|crowd| crowd.lock().remove(&thread.number));
    drop(gone);
}

/// Ends a wait with `result` after `timeout` ns; `u64::MAX`: never.
pub fn set_timeout(thread: &Arc<Thread>, ticket: u64, timeout: u64, result: Result<u64, Error>) {
    if let Some(deadline) = arch::time::now().checked_add(timeout).filter(|_| timeout != u64::MAX) {
        sched::wake_at(deadline, thread, ticket, result);
    }
}

/// `sleep`.
pub fn sleep(thread: Saved<'_>, ns: u64) {
    let ticket = sched::begin_wait(thread);
    set_timeout(&thread, ticket, ns, Ok(0));
    if thread.is_killed() {
        sched::wake(&thread, ticket, Err(Error::Killed));
    }
}

/// `call_scheduler`: sleeps until another thread says otherwise, or at most `timeout` ns.
pub fn sleep_until_woken(thread: Saved<'_>, timeout: u64) {
    let ticket = sched::begin_wait(thread);
    let woken = {
        let mut wait = thread.wait.lock();
        let woken = core::mem::take(&mut wait.woken);
        wait.asleep = if woken { 0 } else { ticket };
        woken
    };
    if woken {
        sched::wake(&thread, ticket, Ok(0));
    } else if thread.is_killed() {
        sched::wake(&thread, ticket, Err(Error::Killed));
    } else {
        set_timeout(&thread, ticket, timeout, Err(Error::TimedOut));
    }
}

/// Wakes a thread that sleeps like that; one that does not will not the next time. Whether it slept.
pub fn rouse(thread: &Arc<Thread>) -> bool {
    if thread.card.is_known() && pass::call_back(thread) {
        return true;
    }
    let (ticket, is_parked) = {
        let mut wait = thread.wait.lock();
        let asleep = core::mem::take(&mut wait.asleep);
        let sleeps = asleep != 0 && asleep == wait.ticket && wait.life.phase() == Phase::Waiting;
        wait.woken |= !sleeps;
        (sleeps.then_some(asleep), wait.life.is_parked())
    };
    if is_parked {
        // Put aside for the first time since it was looked for above: nobody looks at `woken` any more.
        return pass::unpark(thread);
    }
    ticket.is_some_and(|ticket| sched::wake(thread, ticket, Ok(0)))
}

/// For the next section that is made.
pub fn serial() -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(0);
    MADE.fetch_add(1, Ordering::Relaxed)
}

/// A word of memory, by the section it lies in, which may have gone by now: the same word for everyone.
type Key = (u64, u64);
const BUCKETS: usize = 64;

struct Waiter {
    thread: Arc<Thread>,
    ticket: u64,
}

/// Threads that wait for words, in order of their coming.
struct Bucket {
    waiters: BTreeMap<(Key, u64), Waiter>,
    came: u64,
}

static WORDS: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(Bucket { waiters: BTreeMap::new(), came: 0 }) }; BUCKETS];

fn bucket(key: Key) -> &'static Mutex<Bucket> {
    &WORDS[(key.0 ^ key.1 >> 2) as usize % BUCKETS]
}

/// Of a thread: where it is found while it waits for a word, and perhaps afterwards.
pub type AtWord = Mutex<Option<(Key, u64)>>;

/// A thread has ended, or waits elsewhere from now on: no list keeps it for a wait that is over (a time-out, a kill).
pub fn forget(thread: &Thread) {
    forget_event(thread);
    let place = thread.at_word.lock().take();
    let gone = place.and_then(|place| bucket(place.0).lock().waiters.remove(&place));
    drop(gone);
}

/// `wait`: sleeps while the word holds `expected`. The word is read under the bucket's lock, which a waker takes after
/// it has changed the word: no wake-up is lost.
pub fn on_word(thread: Saved<'_>, domain: &Domain, address: u64, expected: u32, timeout: u64) {
    let word = match claim::word(domain, address, Rights::READ) {
        Ok(word) => word,
        Err(error) => return thread.answer(Err(error)),
    };
    let key = word.key();
    forget(&thread);
    let (mut list, value) = loop {
        let list = bucket(key).lock();
        let outcome = word.load(domain);
        if outcome == Err(Error::Busy) {
            // Not with the lock in hand, which many others want: somebody may be cloning the section.
            drop(list);
            if let Err(error) = word.ready(domain) {
                return thread.answer(Err(error));
            }
            continue;
        }
        match outcome {
            Ok(value) => break (list, value),
            Err(error) => return thread.answer(Err(error)),
        }
    };
    if value != expected {
        return thread.answer(Err(Error::Changed));
    }
    if timeout == 0 {
        return thread.answer(Err(Error::TimedOut));
    }
    let ticket = sched::begin_wait(thread);
    list.came += 1;
    let place = (key, list.came);
    list.waiters.insert(place, Waiter { thread: Arc::clone(&thread), ticket });
    *thread.at_word.lock() = Some(place);
    drop(list);
    set_timeout(&thread, ticket, timeout, Err(Error::TimedOut));
    if thread.is_killed() && thread.may_end() {
        sched::wake(&thread, ticket, Err(Error::Killed));
    }
}

/// `wake`: how many were woken.
pub fn wake_word(domain: &Domain, address: u64, count: u64) -> Result<u64, Error> {
    let key = claim::word(domain, address, Rights::WRITE)?.key();
    let woken = Cell::new(0);
    // Who begins to wait from now on is not meant: he might be back again and again before all others were woken.
    let came = bucket(key).lock().came;
    let next = || {
        if woken.get() >= count {
            return None;
        }
        let mut list = bucket(key).lock();
        let place = *list.waiters.range((key, 0)..=(key, came)).next()?.0;
        list.waiters.remove(&place)
    };
    let wake = |waiter: Waiter| {
        // Who was left where it waits is not made ready before its turn to end comes.
        if waiter.thread.is_left() {
            return;
        }
        // Who ends has no use for it.
        let counts = !waiter.thread.may_end();
        woken.set(woken.get() + u64::from(sched::wake(&waiter.thread, waiter.ticket, Ok(0)) && counts));
    };
    sched::in_stretches(core::iter::from_fn(next), wake);
    Ok(woken.get())
}

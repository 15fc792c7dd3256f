//! Receivers that wait in the middle of a request, for what only another request can bring: a pipe that is empty, a key that nobody has
//! pressed. Meanwhile another thread receives in the place of each, so that a server has as many at its post as it wants, however many of
//! its clients wait for something.

use core::sync::atomic::{AtomicU32, Ordering};

use super::deferred::{desk, owner, owner_for};
use super::{Count, Office, QUESTION, Shares, Work};
use crate::sync::{Mutex, Once};
use crate::{Caller, section, task, thread};
use abi::Error;
use abi::gate::record;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Requests that may wait so at a time, of one task's and of all.
const EACH: usize = 8;
const MOST: usize = 48;
/// Desks besides those of the receivers: of threads that wait. Who has waited receives on, and nobody has to be begun for the next one that
/// waits; so there are never more. (A receiver must not end: who has asked it about his request would take the server for dead.)
pub(super) const DESKS: usize = MOST;
/// How often a wait for a message's sender, or a line's client, is to look whether that one is still there ([`Away::goes_on`]), in ns.
pub const LOOK_NS: u64 = 500_000_000;

/// Who is at work.
pub(super) struct Staff {
    /// Receivers that do not wait, and how many there are to be at least.
    on_duty: AtomicU32,
    wanted: u32,
    /// Desks at which nobody has sat yet.
    free: Mutex<Vec<usize>>,
    waiting: Mutex<Shares>,
    /// Begins the life of a receiver.
    begin: Once<Box<dyn Fn(usize) -> Result<(), Error> + Send + Sync>>,
}

impl core::fmt::Debug for Staff {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Staff").field("on_duty", &self.on_duty).field("wanted", &self.wanted).finish_non_exhaustive()
    }
}

impl Staff {
    pub fn new(wanted: usize) -> Staff {
        Staff {
            on_duty: AtomicU32::new(0),
            wanted: wanted as u32,
            free: Mutex::new((0..wanted + DESKS).rev().collect()),
            waiting: Mutex::new(Shares::new(EACH, MOST)),
            begin: Once::new(),
        }
    }

    /// How receivers are begun: with the number of their desk.
    ///
    /// # Errors
    /// Those of the first ones.
    pub fn hire(&self, begin: Box<dyn Fn(usize) -> Result<(), Error> + Send + Sync>) -> Result<(), Error> {
        self.begin.get_or_try(|| Ok::<_, Error>(begin))?;
        (0..self.wanted).try_for_each(|_| self.one_more())
    }

    fn one_more(&self) -> Result<(), Error> {
        let begin = self.begin.get().ok_or(Error::NotSupported)?;
        let desk = self.free.lock().pop().ok_or(Error::Busy)?;
        self.on_duty.fetch_add(1, Ordering::SeqCst);
        begin(desk).inspect_err(|_| {
            self.on_duty.fetch_sub(1, Ordering::SeqCst);
            self.free.lock().push(desk);
        })
    }

    /// The request of this task that waited, or was ended while it did, does not any more.
    pub fn is_back(&self, task: u64) {
        self.on_duty.fetch_add(1, Ordering::SeqCst);
        self.waiting.lock().give(task);
    }
}

/// A receiver waits, and another one has its place.
#[derive(Debug)]
#[must_use = "it is back when this ends"]
pub struct Away {
    /// Of a request that came by a post.
    from: Option<(&'static Office, &'static Work)>,
    /// Whose request it is, task and text, where that one is not this thread's caller.
    of: Option<(u64, u64)>,
}

/// From here on the request that is being served waits for others. To be asked without a lock in hand, and not for what comes soon: by a
/// post, another thread is begun. A request that came by a gate waits on its caller's thread, and one by a line on that line's.
///
/// # Errors
/// `Busy`: so many of this task's, or of this user's, wait already; what the kernel answers.
pub fn away(caller: &Caller) -> Result<Away, Error> {
    let of = (caller.flags & (record::BY_POST | record::BY_LINE) != 0).then_some((caller.task, caller.text));
    if caller.flags & record::BY_POST == 0 {
        return Ok(Away { from: None, of });
    }
    let Some((office, work)) = desk()? else { return Ok(Away { from: None, of }) };
    let staff = &office.staff;
    if !staff.waiting.lock().take(caller.task, caller.user) {
        return Err(Error::Busy);
    }
    staff.on_duty.fetch_sub(1, Ordering::SeqCst);
    work.waits.store(caller.task, Ordering::SeqCst);
    work.waits_for(caller);
    let away = Away { from: Some((office, work)), of };
    // One that has come back does instead.
    if staff.on_duty.load(Ordering::SeqCst) < staff.wanted {
        staff.one_more()?;
    }
    Ok(away)
}

impl Away {
    /// Most ns to wait until it is looked whether the sender is still there. By a gate it is the kernel that ends the wait of one who
    /// is not.
    #[must_use]
    pub fn patience_ns(&self) -> u64 {
        if self.of.is_some() { LOOK_NS } else { u64::MAX }
    }

    /// To be asked between two waits.
    ///
    /// # Errors
    /// `Killed`: nobody is left who could want the answer.
    pub fn goes_on(&self) -> Result<(), Error> {
        let is_gone = self.of.is_some_and(|(task, text)| task::info(task).is_none() || section::owner(text).is_err());
        if is_gone || thread::is_killed() { Err(Error::Killed) } else { Ok(()) }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some((office, work)) = self.from {
            office.back_at(work);
        }
    }
}

/// Where an answer goes that must be somebody's, who is none any more.
const NOBODY: u64 = u64::MAX;

impl Work {
    /// Its sender may free the post for the answer meanwhile, and somebody else have that number next.
    fn waits_for(&self, sender: &Caller) {
        let back = self.back.load(Ordering::Relaxed);
        // By a question the kernel knows who has asked. Who waits once more is known from before.
        if back == 0 || back & QUESTION != 0 || self.whose.load(Ordering::Relaxed) != 0 {
            return;
        }
        let whose = match owner_for(sender, back) {
            0 => NOBODY,
            task => task,
        };
        self.whose.store(whose, Ordering::Relaxed);
        self.owes.store(true, Ordering::Relaxed);
    }
}

impl Office {
    /// What has waited is answered at its sender's post, and at nobody else's who has got the number since.
    pub(super) fn look_whose(&self, work: &Work) {
        let (whose, back) = (work.whose.swap(0, Ordering::Relaxed), work.back.load(Ordering::Relaxed));
        if whose != 0 && back != 0 && owner(back) != whose {
            work.back.store(0, Ordering::SeqCst);
            self.count(Count::Lost);
        }
    }

    /// Who sits there waits no more.
    pub(super) fn back_at(&self, work: &Work) {
        match work.waits.swap(0, Ordering::SeqCst) {
            0 => {}
            task => self.staff.is_back(task),
        }
    }
}

//! What a thread's wait for a message has ended with. A message stays where it was written down, and its registers are loaded from there when the thread goes on, by
//! the long way as by the short one: so it is copied once (K1-48).

use super::pool;
use crate::processor::{Processor, here};
use crate::thread::Thread;
use ::post::{Letter, Lies};
use abi::Error;
use arch::post::{Frame, Kept};
use core::sync::atomic::Ordering;

#[derive(Clone, Copy)]
pub(super) enum Ended {
    Came(&'static Letter),
    Failed(Error),
}

impl Ended {
    /// A wait that is over. `None`: it is not.
    pub fn collected(receiver: u32) -> Option<Ended> {
        let mut came = None;
        let outcome = pool().collect_into(receiver, |letter| came = Some(letter))?;
        Some(outcome.map_or_else(Ended::Failed, |()| Ended::of(came)))
    }

    /// A message was there when the running thread looked. If it lies in a slot, that is the thread's until it goes on, by the way out that looks around.
    pub fn there(thread: &Thread, lies: Option<Lies>) -> Ended {
        here().attend();
        if let Some(Lies::Slot(slot)) = lies {
            thread.part.slot.store(slot, Ordering::Relaxed);
        }
        Ended::of(lies.map(|lies| pool().letter(lies)))
    }

    fn of(letter: Option<&'static Letter>) -> Ended {
        letter.map_or(Ended::Failed(Error::Changed), Ended::Came)
    }

    /// Of a notice, which comes from no thread: from where.
    pub fn notice(&self) -> Option<u64> {
        match self {
            Ended::Came(letter) => Some(letter.from()).filter(|from| from.thread == 0).map(|from| from.place),
            Ended::Failed(_) => None,
        }
    }

    /// The thread goes on with it.
    pub fn give(self, thread: &Thread) {
        let area = &mut thread.inner.lock().area;
        match self {
            Ended::Came(letter) => area.goes_on_with(Kept::new(letter.registers())),
            Ended::Failed(error) => {
                let mut frame = Frame::default();
                fail(&mut frame, error);
                frame.give(area.registers_mut());
            }
        }
    }
}

/// A wait that ended without a message; nothing is left of whoever ran here before.
pub(super) fn fail(frame: &mut Frame, error: Error) {
    *frame = frame.bare();
    frame.rax = error.word();
}

/// The last that is done here before the thread goes on. Where its message lies nobody writes until it has: the slot is this processor's, and the next one that it takes.
pub fn goes_on(here: &Processor, thread: &Thread) {
    let slot = thread.part.slot.load(Ordering::Relaxed);
    if slot != 0 {
        give_back(here, thread, slot);
    }
}

#[cold]
#[inline(never)]
fn give_back(here: &Processor, thread: &Thread, slot: u32) {
    thread.part.slot.store(0, Ordering::Relaxed);
    pool().done_with(slot, here.index);
}

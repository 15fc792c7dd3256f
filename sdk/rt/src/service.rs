//! A server that is restarted where it stood (docs/decisions/0011): its gates are at the same addresses again, but what was bound to
//! the one before is bound to nobody. So the binding is made anew, and the call with it, where that changes nothing.
//!
//! A call that was not made because its server had ended already is made as soon as the next one is there. One that was made, and
//! that its server ended in the middle of, is repeated if the interface says that it may be; otherwise its caller hears `Dead`. The same
//! holds for requests by message (`later/again.rs`), with the same patience.

use abi::Error;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU32;

use crate::lend::Slice;
use crate::sync::{Mutex, Place, wait};
use crate::{Bound, section};

/// Waits until the server whose gate this is has been restarted, for so many ns at most (`u64::MAX`: for ever). Errors: `NotFound`: nobody
/// restarts it; `Dead`: not any more; `TimedOut`; `Killed`.
pub type Wait = fn(gate: u64, ns: u64) -> Result<(), Error>;

static WAIT: Place<Wait> = Place::new();

/// How this program waits for servers.
pub fn set_wait(how: &'static Wait) {
    WAIT.set(Some(how));
}

/// Between two tries, in ns: whoever restarts a server may not have heard of its end yet.
pub(crate) const PAUSE_NS: u64 = 1_000_000;
/// So many tries while the server is said to be there: then it is another one that stands there now.
pub(crate) const TRIES: u32 = 10_000;
/// The same where it refuses, and is said to have been ready before: what it is not yet, it is never.
const REFUSALS: u32 = 3;

/// How long somebody tries to reach a server that is restarted, whichever way.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    tries: u32,
    refusals: u32,
}

impl Patience {
    /// A try has come to this. `always`: see [`Service::always`].
    ///
    /// # Errors
    /// That it is to be the last one.
    pub fn bears(&mut self, error: Error, always: bool) -> Result<(), Error> {
        match error {
            Error::NotFound | Error::Dead if self.tries < TRIES => self.tries += 1,
            // It has gates already, and has not let anybody in yet.
            error if error.refusal().is_some() && self.refusals < if always { TRIES } else { REFUSALS } => {
                self.refusals += 1;
            }
            error => return Err(error),
        }
        Ok(())
    }
}

/// A server that is restarted where it stood, and this program's binding to it.
#[derive(Debug)]
pub struct Service {
    gate: u64,
    args_len: u64,
    always: bool,
    held: Mutex<Option<Arc<Held>>>,
}

/// A binding that ends with its last user, and the task that it is to.
#[derive(Debug)]
pub(crate) struct Held {
    bound: Option<Bound>,
    pub task: u64,
}

impl Held {
    fn new(bound: Bound) -> Held {
        let task = section::owner(bound.binding().text).unwrap_or(0);
        Held { bound: Some(bound), task }
    }

    pub fn bound(&self) -> Result<&Bound, Error> {
        self.bound.as_ref().ok_or(Error::Dead)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(bound) = self.bound.take() {
            let _ = bound.unbind();
        }
    }
}

impl Service {
    /// The server whose block of gates is at `gate`, with an argument section of `args_len` bytes (0: none). It is bound with the first
    /// call.
    #[must_use]
    pub const fn new(gate: u64, args_len: u64) -> Service {
        Service { gate, args_len, always: false, held: Mutex::new(None) }
    }

    /// One without which nobody can be asked whether it comes back: it is believed to.
    #[must_use]
    pub const fn always(mut self) -> Service {
        self.always = true;
        self
    }

    /// Entry address of its block of gates.
    #[must_use]
    pub const fn gate(&self) -> u64 {
        self.gate
    }

    pub(crate) const fn args_len(&self) -> u64 {
        self.args_len
    }

    /// Calls gate `index` with slices, as `Bound::call_with` does; `again`: doing it twice is doing it once.
    ///
    /// # Errors
    /// `Dead` if the server ended in the middle of what may not be repeated, or for good; `Faulted`; what the kernel answers.
    pub fn call_with<const N: usize>(
        &self,
        again: bool,
        index: u64,
        words: [u64; 6],
        mut slices: [Slice; N],
    ) -> Result<[u64; 2], Error> {
        let (mut ended_in, mut is_anew) = (0, false);
        loop {
            let held = self.held()?;
            let is_same = ended_in != 0 && held.task == ended_in;
            if is_same && !is_anew {
                // Another thread has bound to that one, perhaps before its end: who is bound anew is bound to one that is there.
                self.forget(&held);
                is_anew = true;
                continue;
            }
            let Some(bound) = held.bound.as_ref().filter(|_| !is_same) else {
                // The server has not ended: the method has ended its thread, and would again.
                return Err(Error::Dead);
            };
            let (outcome, made) = bound.call_or_not(index, words, &mut slices);
            if outcome != Err(Error::Dead) {
                return outcome;
            }
            self.forget(&held);
            if made && !again {
                return outcome;
            }
            (ended_in, is_anew) = (if made { held.task } else { 0 }, false);
        }
    }

    /// Lets go of the binding, which ends with the last call that is under way by it; the next call makes another one.
    pub fn unbind(&self) {
        let before = self.held.lock().take();
        drop(before);
    }

    pub(crate) fn forget(&self, gone: &Arc<Held>) {
        let before = {
            let mut held = self.held.lock();
            if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, gone)) { held.take() } else { None }
        };
        // Its binding may end with it: not with the lock in hand.
        drop(before);
    }

    /// The binding; made, if there is none, as soon as the server is there.
    fn held(&self) -> Result<Arc<Held>, Error> {
        let mut patience = Patience::default();
        loop {
            match self.try_held() {
                Ok(held) => return Ok(held),
                Err(error) => patience.bears(error, self.always)?,
            }
            self.wait()?;
        }
    }

    /// The binding; made, if there is none and the server is there now.
    pub(crate) fn try_held(&self) -> Result<Arc<Held>, Error> {
        if let Some(held) = &*self.held.lock() {
            return Ok(held.clone());
        }
        let made = Arc::new(Held::new(Bound::bind(self.gate, self.args_len)?));
        // Somebody else may have been faster: then this one's ends with the scope, without the lock.
        let mut held = self.held.lock();
        Ok(held.get_or_insert_with(|| made.clone()).clone())
    }

    fn wait(&self) -> Result<(), Error> {
        if !self.always {
            is_back(self.gate, u64::MAX)?;
        }
        pause()
    }
}

/// Waits at most so long until whoever restarts a server says that it is there.
///
/// # Errors
/// `Dead`: it will not be; `TimedOut`, `Killed`.
pub(crate) fn is_back(gate: u64, ns: u64) -> Result<(), Error> {
    (WAIT.get().ok_or(Error::Dead)?)(gate, ns).map_err(|error| match error {
        // Nobody will come back.
        Error::NotFound => Error::Dead,
        other => other,
    })
}

/// Whether whoever restarts a server says that it was stopped or given up. What nobody restarts, nobody has given up.
pub(crate) fn is_given_up(gate: u64) -> bool {
    WAIT.get().is_some_and(|wait| wait(gate, 0) == Err(Error::Dead))
}

/// The rest between two tries.
pub(crate) fn pause() -> Result<(), Error> {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    match wait(&NEVER, 0, PAUSE_NS) {
        Err(error @ (Error::Killed | Error::Dead)) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_has_an_end() {
        let mut patience = Patience::default();
        for _ in 0..TRIES {
            assert_eq!(patience.bears(Error::NotFound, false), Ok(()));
        }
        assert_eq!(patience.bears(Error::Dead, false), Err(Error::Dead));
        assert_eq!(Patience::default().bears(Error::Killed, true), Err(Error::Killed));
    }
}

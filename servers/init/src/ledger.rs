//! What the name service knows, so that the next one knows it, too; and where it says that it is ready.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::interfaces::ledger::{Ledger, RECORD};
use musubi::interfaces::names::NAME_MAX;
use musubi::interfaces::ready::Ready;
use musubi::rt::{Condition, Mutex, section};
use musubi::{Caller, Error};

/// As many names as the name service has at most.
const MAX: usize = 4096;
/// With fewer names than this nobody looks for dead ones among them.
const FEW: usize = 16;

#[derive(Clone, Copy)]
struct Kept {
    gate: u64,
    task: u64,
    stands: bool,
}

pub struct Book {
    names: Mutex<(BTreeMap<String, Kept>, usize)>,
    /// Where the name service stands.
    text: AtomicU64,
    /// The gate and the task of the one that is ready.
    ready: Mutex<(u64, u64)>,
    changed: Condition,
}

impl Book {
    pub const fn new() -> Book {
        Book {
            names: Mutex::new((BTreeMap::new(), FEW)),
            text: AtomicU64::new(0),
            ready: Mutex::new((0, 0)),
            changed: Condition::new(),
        }
    }

    /// The only text that writes here.
    pub fn is_of(&self, text: u64) {
        self.text.store(text, Ordering::SeqCst);
    }

    /// Waits until the name service that is this task is ready, for so long. Value: its gate.
    pub fn await_ready(&self, task: u64, timeout_ns: u64) -> Result<u64, Error> {
        let mut ready = self.ready.lock();
        if ready.1 != task {
            let _ = self.changed.wait(&mut ready, timeout_ns);
        }
        if ready.1 == task { Ok(ready.0) } else { Err(Error::TimedOut) }
    }

    fn check(&self, caller: &Caller) -> Result<(), Error> {
        if caller.text == self.text.load(Ordering::SeqCst) { Ok(()) } else { Err(Error::Denied) }
    }
}

impl Ready for Book {
    fn ready(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        self.check(caller)?;
        *self.ready.lock() = (gate, caller.task);
        self.changed.notify_all();
        Ok(())
    }
}

fn lives(kept: &Kept) -> bool {
    kept.stands || section::info(kept.gate).is_ok_and(|info| info.owner == kept.task)
}

impl Ledger for Book {
    fn keep(&self, caller: &Caller, name: &str, gate: u64, task: u64, stands: bool) -> Result<(), Error> {
        self.check(caller)?;
        if name.len() > NAME_MAX {
            return Err(Error::TooBig);
        }
        let name = String::from(name);
        let (names, full) = &mut *self.names.lock();
        // The name service does the same with its own, and knows no more than these.
        if names.len() >= *full && !names.contains_key(&name) {
            names.retain(|_, kept| lives(kept));
            *full = (2 * names.len()).clamp(FEW, MAX);
            if names.len() >= MAX {
                return Err(Error::Quota);
            }
        }
        names.insert(name, Kept { gate, task, stands });
        Ok(())
    }

    fn forget(&self, caller: &Caller, name: &str) -> Result<(), Error> {
        self.check(caller)?;
        self.names.lock().0.remove(name);
        Ok(())
    }

    fn nth(&self, caller: &Caller, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error> {
        self.check(caller)?;
        let index = usize::try_from(index).map_err(|_| Error::NotFound)?;
        let (found, kept) =
            self.names.lock().0.iter().nth(index).map(|(name, kept)| (name.clone(), *kept)).ok_or(Error::NotFound)?;
        for (to, word) in record.chunks_exact_mut(8).zip([kept.gate, kept.task, kept.stands.into()]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let len = found.len().min(name.len());
        name[..len].copy_from_slice(&found.as_bytes()[..len]);
        Ok(found.len() as u64)
    }
}

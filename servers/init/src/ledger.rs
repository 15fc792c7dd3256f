//! What servers know, so that the next ones know it, too; and where the name service says that it is ready.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::interfaces::ledger::{KEY_MAX, Ledger, RECORD_MAX};
use musubi::interfaces::ready::Ready;
use musubi::rt::{Condition, Mutex, fault};
use musubi::{Caller, Error};

/// Records of one server.
const MAX: usize = 8192;

pub struct Book {
    /// Of each text that writes here.
    kept: Mutex<BTreeMap<u64, BTreeMap<String, Vec<u8>>>>,
    /// Where the name service stands.
    names: AtomicU64,
    /// The gate and the task of the one that is ready.
    ready: Mutex<(u64, u64)>,
    changed: Condition,
}

impl Book {
    pub const fn new() -> Book {
        Book {
            kept: Mutex::new(BTreeMap::new()),
            names: AtomicU64::new(0),
            ready: Mutex::new((0, 0)),
            changed: Condition::new(),
        }
    }

    /// Servers with this text have a ledger here.
    pub fn is_for(&self, text: u64) {
        self.kept.lock().entry(text).or_default();
    }

    /// The name service has this text.
    pub fn names_are(&self, text: u64) {
        self.names.store(text, Ordering::SeqCst);
    }

    /// Waits until the name service that is this task is ready, for so long. Value: its gate.
    pub fn await_ready(&self, task: u64, timeout_ns: u64) -> Result<u64, Error> {
        let mut ready = self.ready.lock();
        if ready.1 != task {
            let _ = self.changed.wait(&mut ready, timeout_ns);
        }
        if ready.1 == task { Ok(ready.0) } else { Err(Error::TimedOut) }
    }

    fn with<T>(
        &self,
        caller: &Caller,
        what: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        what(self.kept.lock().get_mut(&caller.text).ok_or(Error::Denied)?)
    }
}

impl Ready for Book {
    fn ready(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        if caller.text != self.names.load(Ordering::SeqCst) {
            return Err(Error::Denied);
        }
        *self.ready.lock() = (gate, caller.task);
        self.changed.notify_all();
        Ok(())
    }
}

impl Ledger for Book {
    fn keep(&self, caller: &Caller, key: &str, record: &[u8]) -> Result<(), Error> {
        if key.len() > KEY_MAX || record.len() > RECORD_MAX {
            return Err(Error::TooBig);
        }
        if key.contains('\0') {
            return Err(Error::BadArgument);
        }
        let record = fault::copy_in(record)?;
        self.with(caller, |kept| {
            if kept.len() >= MAX && !kept.contains_key(key) {
                return Err(Error::Quota);
            }
            kept.insert(String::from(key), record);
            Ok(())
        })
    }

    fn forget(&self, caller: &Caller, key: &str) -> Result<(), Error> {
        self.with(caller, |kept| {
            kept.remove(key);
            Ok(())
        })
    }

    fn next(&self, caller: &Caller, after: &str, entry: &mut [u8]) -> Result<u64, Error> {
        let found = self.with(caller, |kept| {
            let next = kept.range::<str, _>((Excluded(after), Unbounded)).next();
            let (key, record) = next.ok_or(Error::NotFound)?;
            Ok([key.as_bytes(), &[0], record].concat())
        })?;
        fault::copy_out(entry, &found)?;
        Ok(found.len() as u64)
    }
}

//! What servers know, so that the next ones know it, too; and where those say that they are ready that publish no name.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};
use musubi::abi::gate::record::BY_POST;
use musubi::interfaces::ledger::{KEY_MAX, Ledger, RECORD_MAX};
use musubi::interfaces::ready::Ready;
use musubi::rt::{Condition, Mutex, fault, task};
use musubi::{Caller, Error};

/// Records of one server.
const MAX: usize = 8192;

/// What the servers of one place have written.
#[derive(Default)]
struct Kept {
    /// The one that stands there.
    server: u64,
    records: BTreeMap<String, Vec<u8>>,
}

pub struct Book {
    /// Of each text that writes here: its servers write without waiting for other ones'.
    kept: Mutex<BTreeMap<u64, Arc<Mutex<Kept>>>>,
    /// Of each text that says here when it is ready: the gate and the task of the one that was last.
    ready: Mutex<BTreeMap<u64, (u64, u64)>>,
    changed: Condition,
}

impl Book {
    pub const fn new() -> Book {
        Book { kept: Mutex::new(BTreeMap::new()), ready: Mutex::new(BTreeMap::new()), changed: Condition::new() }
    }

    /// Servers with this text have a ledger here.
    pub fn is_for(&self, text: u64) {
        self.kept.lock().entry(text).or_default();
    }

    /// The next one begins with this text, and what the one before may still say is not heard any more. Value: its number.
    pub fn begins(&self, text: u64) -> u64 {
        let kept = self.kept.lock().entry(text).or_default().clone();
        let mut kept = kept.lock();
        kept.server += 1;
        kept.server
    }

    /// Servers with this text say here when they are ready.
    pub fn hears(&self, text: u64) {
        self.ready.lock().entry(text).or_default();
    }

    /// Waits until the server with this text that is this task is ready, for so long. Value: its gate.
    pub fn await_ready(&self, text: u64, task: u64, timeout_ns: u64) -> Result<u64, Error> {
        let mut ready = self.ready.lock();
        let gate = |ready: &BTreeMap<u64, (u64, u64)>| ready.get(&text).filter(|one| one.1 == task).map(|one| one.0);
        if gate(&ready).is_none() {
            let _ = self.changed.wait(&mut ready, timeout_ns);
        }
        gate(&ready).ok_or(Error::TimedOut)
    }

    fn with<T>(&self, caller: &Caller, what: impl FnOnce(&mut Kept) -> Result<T, Error>) -> Result<T, Error> {
        let kept = self.kept.lock().get(&caller.text).cloned().ok_or(Error::Denied)?;
        let mut kept = kept.lock();
        what(&mut kept)
    }

    /// For the server that stands there: one that has ended may have said this before, or a thread that had called it may still be on its way.
    fn change(
        &self,
        caller: &Caller,
        server: u64,
        change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.with(caller, |kept| if kept.server == server { change(&mut kept.records) } else { Err(Error::Dead) })
    }
}

/// What somebody has sent before he ended may come after the first words of the next one, who is not begun before the end is known. To be asked
/// with what is to be changed in hand.
fn is_there(caller: &Caller) -> Result<(), Error> {
    let is_gone = caller.flags & BY_POST != 0 && task::info(caller.task).is_none();
    if is_gone { Err(Error::Dead) } else { Ok(()) }
}

impl Ready for Book {
    fn ready(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        let mut all = self.ready.lock();
        let last = all.get_mut(&caller.text).ok_or(Error::Denied)?;
        is_there(caller)?;
        *last = (gate, caller.task);
        drop(all);
        self.changed.notify_all();
        Ok(())
    }
}

impl Ledger for Book {
    fn keep(&self, caller: &Caller, server: u64, key: &str, record: &[u8]) -> Result<(), Error> {
        if key.len() > KEY_MAX || record.len() > RECORD_MAX {
            return Err(Error::TooBig);
        }
        if key.contains('\0') {
            return Err(Error::BadArgument);
        }
        let (key, record) = (String::from(key), fault::copy_in(record)?);
        self.change(caller, server, |kept| {
            if kept.len() >= MAX && !kept.contains_key(&key) {
                return Err(Error::Quota);
            }
            kept.insert(key, record);
            Ok(())
        })
    }

    fn forget(&self, caller: &Caller, server: u64, key: &str) -> Result<(), Error> {
        self.change(caller, server, |kept| {
            kept.remove(key);
            Ok(())
        })
    }

    fn next(&self, caller: &Caller, after: &str, entry: &mut [u8]) -> Result<u64, Error> {
        let found = self.with(caller, |kept| {
            let next = kept.records.range::<str, _>((Excluded(after), Unbounded)).next();
            let (key, record) = next.ok_or(Error::NotFound)?;
            Ok([key.as_bytes(), &[0], record].concat())
        })?;
        fault::copy_out(entry, &found)?;
        Ok(found.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use musubi::abi::gate::Record;

    /// By its gate, or by a message of one that has ended.
    fn server(text: u64, flags: u32) -> Caller {
        Caller(Record { text, task: 5, flags, ..Record::default() })
    }

    #[test]
    fn what_one_who_has_ended_says_changes_nothing() {
        let book = Book::new();
        book.is_for(7);
        let [before, now] = [book.begins(7), book.begins(7)];
        let server = |text| server(text, 0);
        assert_eq!(book.keep(&server(7), now, "a", b"1"), Ok(()));
        assert_eq!(book.keep(&server(7), before, "a", b"2"), Err(Error::Dead));
        assert_eq!(book.forget(&server(7), before, "a"), Err(Error::Dead));
        assert_eq!([before, now].map(|one| book.keep(&server(8), one, "a", b"3")), [Err(Error::Denied); 2]);
        let mut entry = [9; 4];
        assert_eq!((book.next(&server(7), "", &mut entry), entry), (Ok(3), *b"a\x001\x09"));
    }

    #[test]
    fn who_has_ended_does_not_speak_after_the_next_one() {
        let book = Book::new();
        book.hears(7);
        assert_eq!(book.ready(&server(7, 0), 3), Ok(()));
        assert_eq!(book.ready(&server(7, BY_POST), 4), Err(Error::Dead));
        assert_eq!([0, BY_POST].map(|flags| book.ready(&server(8, flags), 4)), [Err(Error::Denied); 2]);
        assert_eq!(book.await_ready(7, 5, 0), Ok(3));
    }
}

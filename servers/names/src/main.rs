#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod known;
mod table;

use alloc::string::String;
use known::Known;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::names::{NAME_MAX, Names, names_serve_by};
use musubi::interfaces::ready::{ReadyClient, VARIABLE};
use musubi::ledger::Ledger;
use musubi::rt::sync::MutexGuard;
use musubi::rt::{Mutex, Once, fault, gate::ANYBODY, section, serve::Ways, task, thread, time};
use musubi::servers::{number, own_post};
use musubi::{Caller, Error, Start};
use table::{Entry, Table};

musubi::program!(run);

/// Bytes that are kept with a name: its gate, the task that answers there, and whether it stands.
const RECORD: usize = 24;

struct Service {
    /// Who changes something has this in hand until it is kept, too: who publishes next is written down next. To read nobody needs it.
    changing: Mutex<()>,
    /// For moments: nobody has it in hand while he calls another program.
    table: Mutex<Table>,
    known: Known,
    /// Where the table is kept, too: at whoever restarts this program.
    ledger: Once<Ledger>,
}

/// [`Service::changing`], in hand.
type Changing<'a> = MutexGuard<'a, ()>;

static SERVICE: Service = Service::new();

fn run(_: &Start) -> i32 {
    let (Some(gate), Some(post)) = (number(VARIABLE), own_post()) else {
        return 2;
    };
    let offered = SERVICE.ledger.get_or_try(Ledger::of_this_server).and_then(|ledger| {
        remember(ledger)?;
        let gates = names_serve_by(&SERVICE, Ways::default().post(post))?;
        gates.admit(&ANYBODY)?;
        ReadyClient::bind(gate)?.ready(gates.address())
    });
    match offered {
        Ok(()) => thread::park(),
        Err(e) => e.word() as i32,
    }
}

/// What the one before knew.
fn remember(ledger: &Ledger) -> Result<(), Error> {
    let mut table = SERVICE.table.lock();
    ledger.each(|name, record| {
        let record: &[u8; RECORD] = record.try_into().map_err(|_| Error::BadArgument)?;
        let word = |n: usize| record[8 * n..][..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        table.restore(String::from(name), Entry { gate: word(0), task: word(1), stands: word(2) != 0 });
        Ok(())
    })
}

/// The task that answers for the gate at an address, if there is a gate.
fn owner(gate: u64) -> Option<u64> {
    let info = section::info(gate).ok()?;
    (info.gate_count > 0 || info.gates == gate).then_some(info.owner)
}

/// Whose a task is.
fn user(task: u64) -> Option<u64> {
    task::info(task).map(|info| info.user)
}

impl Service {
    const fn new() -> Service {
        Service { changing: Mutex::new(()), table: Mutex::new(Table::new()), known: Known::new(), ledger: Once::new() }
    }

    fn keep(&self, name: &str, entry: &Entry) -> Result<(), Error> {
        let mut record = [0; RECORD];
        for (to, word) in record.chunks_exact_mut(8).zip([entry.gate, entry.task, entry.stands.into()]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.ledger.get().ok_or(Error::NotFound)?.keep(name, &record)
    }

    /// What cannot be kept is not so: or it would be until the next restart only, though its caller has heard of an error.
    fn enter(&self, _: &Changing<'_>, name: String, entry: Entry) -> Result<(), Error> {
        self.keep(&name, &entry)?;
        let mut table = self.table.lock();
        table.enter(name, entry);
        self.known.turn();
        Ok(())
    }

    fn gone(&self) -> Option<String> {
        self.table.lock().gone()
    }

    /// Names that have gone need not be kept. This runs on the thread of whoever asks for something, who may not be able to call on from here: that
    /// is no reason to refuse him, and somebody else comes.
    fn forget(&self, _: &Changing<'_>) {
        let Some(ledger) = self.ledger.get() else { return };
        while let Some(name) = self.gone() {
            if ledger.forget(&name).is_err() {
                return;
            }
            self.table.lock().is_forgotten(&name);
        }
    }

    /// The same, if nobody changes anything just now: he does it then, or the next one.
    fn forget_now(&self) {
        if self.gone().is_some()
            && let Some(changing) = self.changing.try_lock()
        {
            self.forget(&changing);
        }
    }
}

impl Names for Service {
    fn publish(&self, caller: &Caller, name: &str, gate: u64) -> Result<(), Error> {
        // Before anything is made of it.
        if name.len() > NAME_MAX {
            return Err(Error::TooBig);
        }
        let name = String::from(name);
        let by = caller.text_task()?;
        let of = owner(gate).ok_or(Error::BadArgument)?;
        if of != by && caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let changing = self.changing.lock();
        self.forget(&changing);
        let entry_for = || self.table.lock().entry_for(&name, gate, of, owner, user);
        let mut entry = entry_for();
        if entry == Err(Error::Quota) && self.table.lock().makes_room(time::now_ns(), owner) {
            self.forget(&changing);
            entry = entry_for();
        }
        self.forget(&changing);
        let entry = entry?;
        self.enter(&changing, name, entry)
    }

    fn lookup(&self, name: &str) -> Result<u64, Error> {
        if let Some(entry) = self.known.find(name).filter(|entry| entry.alive(owner)) {
            return Ok(entry.gate);
        }
        let (found, turn) = {
            let mut table = self.table.lock();
            (table.lookup(name, owner), self.known.now())
        };
        let Some(entry) = found else {
            self.forget_now();
            return Err(Error::NotFound);
        };
        self.known.keep(name, entry, turn);
        Ok(entry.gate)
    }

    fn withdraw(&self, caller: &Caller, name: &str) -> Result<(), Error> {
        let by = caller.text_task()?;
        let _changing = self.changing.lock();
        self.table.lock().may_withdraw(name, by)?;
        // As soon as it is forgotten where it is kept.
        self.ledger.get().ok_or(Error::NotFound)?.forget(name)?;
        let mut table = self.table.lock();
        table.withdraw(name);
        self.known.turn();
        Ok(())
    }

    fn stand(&self, caller: &Caller, name: &str, stands: bool) -> Result<u64, Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let changing = self.changing.lock();
        let entry = self.table.lock().standing(name, stands)?;
        self.enter(&changing, String::from(name), entry).map(|()| entry.task)
    }

    fn list(&self, index: u64, name: &mut [u8]) -> Result<u64, Error> {
        let found = self.table.lock().nth(index, owner);
        self.forget_now();
        let found = found.ok_or(Error::NotFound)?.into_bytes();
        fault::copy_out(name, &found[..found.len().min(NAME_MAX)])?;
        Ok(found.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_kept_is_not_known() {
        // Nobody keeps anything.
        let service = Service::new();
        let changing = service.changing.lock();
        let alive = |_| Some(7);
        let new = service.table.lock().entry_for("pipes", 1, 7, alive, |_| Some(USER_SYSTEM)).unwrap();
        assert!(service.enter(&changing, "pipes".into(), new).is_err());
        assert_eq!(service.table.lock().lookup("pipes", alive), None);
        service.table.lock().enter("pipes".into(), new);
        let stands = service.table.lock().standing("pipes", true).unwrap();
        assert!(service.enter(&changing, "pipes".into(), stands).is_err());
        assert_eq!(service.table.lock().lookup("pipes", |_| None), None, "it does not stand");
    }
}

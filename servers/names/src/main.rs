#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod table;

use alloc::string::String;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::names::{NAME_MAX, Names, names_serve_by};
use musubi::interfaces::ready::{ReadyClient, VARIABLE};
use musubi::ledger::Ledger;
use musubi::rt::{Mutex, Once, fault, gate::ANYBODY, section, serve::Ways, task, thread, time};
use musubi::servers::{number, own_post};
use musubi::{Caller, Error, Start};
use table::{Entry, Table};

musubi::program!(run);

/// Bytes that are kept with a name: its gate, the task that answers there, and whether it stands.
const RECORD: usize = 24;

struct Service {
    table: Mutex<Table>,
    /// Where the table is kept, too: at whoever restarts this program.
    ledger: Once<Ledger>,
}

static SERVICE: Service = Service { table: Mutex::new(Table::new()), ledger: Once::new() };

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
    /// With the table in hand.
    fn keep(&self, name: &str, entry: &Entry) -> Result<(), Error> {
        let mut record = [0; RECORD];
        for (to, word) in record.chunks_exact_mut(8).zip([entry.gate, entry.task, entry.stands.into()]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        self.ledger.get().ok_or(Error::NotFound)?.keep(name, &record)
    }

    /// What cannot be kept is not so: or it would be until the next restart only, though its caller has heard of an error.
    fn enter(&self, table: &mut Table, name: String, entry: Entry) -> Result<(), Error> {
        self.keep(&name, &entry)?;
        table.enter(name, entry);
        Ok(())
    }

    /// Names that have gone need not be kept. This runs on the thread of whoever asks for something, who may not be able to call on from here: that
    /// is no reason to refuse him, and somebody else comes.
    fn forget(&self, table: &mut Table) {
        if let Some(ledger) = self.ledger.get() {
            table.forget_gone(|name| ledger.forget(name).is_ok());
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
        let mut table = self.table.lock();
        self.forget(&mut table);
        let mut entry = table.entry_for(&name, gate, of, owner, user);
        if entry == Err(Error::Quota) && table.makes_room(time::now_ns(), owner) {
            self.forget(&mut table);
            entry = table.entry_for(&name, gate, of, owner, user);
        }
        self.forget(&mut table);
        // In one step with the table: who publishes next is written down next.
        self.enter(&mut table, name, entry?)
    }

    fn lookup(&self, name: &str) -> Result<u64, Error> {
        let mut table = self.table.lock();
        let found = table.lookup(name, owner);
        self.forget(&mut table);
        found.ok_or(Error::NotFound)
    }

    fn withdraw(&self, caller: &Caller, name: &str) -> Result<(), Error> {
        let by = caller.text_task()?;
        let mut table = self.table.lock();
        table.withdraw(name, by, |name| self.ledger.get().ok_or(Error::NotFound)?.forget(name))
    }

    fn stand(&self, caller: &Caller, name: &str, stands: bool) -> Result<u64, Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let mut table = self.table.lock();
        let entry = table.standing(name, stands)?;
        self.enter(&mut table, String::from(name), entry).map(|()| entry.task)
    }

    fn list(&self, index: u64, name: &mut [u8]) -> Result<u64, Error> {
        let found = {
            let mut table = self.table.lock();
            let found = table.nth(index, owner);
            self.forget(&mut table);
            found.ok_or(Error::NotFound)?.into_bytes()
        };
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
        let service = Service { table: Mutex::new(Table::new()), ledger: Once::new() };
        let mut table = Table::new();
        let alive = |_| Some(7);
        let new = table.entry_for("pipes", 1, 7, alive, |_| Some(USER_SYSTEM));
        assert!(service.enter(&mut table, "pipes".into(), new.unwrap()).is_err());
        assert_eq!(table.lookup("pipes", alive), None);
        table.enter("pipes".into(), new.unwrap());
        let stands = table.standing("pipes", true).unwrap();
        assert!(service.enter(&mut table, "pipes".into(), stands).is_err());
        assert_eq!(table.lookup("pipes", |_| None), None, "it does not stand");
    }
}

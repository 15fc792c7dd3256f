#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod table;

use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::names::{NAME_MAX, Names, names_serve};
use musubi::interfaces::ready::{ReadyClient, VARIABLE};
use musubi::rt::{Mutex, gate::ANYBODY, section, thread};
use musubi::{Caller, Error, Start};
use table::Table;

musubi::program!(run);

struct Service(Mutex<Table>);

static SERVICE: Service = Service(Mutex::new(Table::new()));

fn run(start: &Start) -> i32 {
    let gate = start.variable(VARIABLE).and_then(|v| core::str::from_utf8(v).ok()?.parse().ok());
    let Some(gate) = gate else { return 2 };
    let offered = names_serve(&SERVICE).and_then(|gates| {
        gates.admit(&ANYBODY)?;
        ReadyClient::bind(gate)?.ready(gates.address())
    });
    if offered.is_err() {
        return 1;
    }
    thread::park()
}

/// The task that answers for the gate at an address, if there is a gate.
fn owner(gate: u64) -> Option<u64> {
    let info = section::info(gate).ok()?;
    (info.gate_count > 0 || info.gates == gate).then_some(info.owner)
}

impl Names for Service {
    fn publish(&self, caller: &Caller, name: &str, gate: u64) -> Result<(), Error> {
        let name = String::from(name);
        let by = caller.text_task()?;
        let of = owner(gate).ok_or(Error::BadArgument)?;
        if of != by && caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        self.0.lock().publish(name, gate, of, owner)
    }

    fn lookup(&self, name: &str) -> Result<u64, Error> {
        // A copy: what the caller lent may change while it is compared, or go away while the lock is held.
        let name = String::from(name);
        self.0.lock().lookup(&name, owner).ok_or(Error::NotFound)
    }

    fn withdraw(&self, caller: &Caller, name: &str) -> Result<(), Error> {
        let name = String::from(name);
        let by = caller.text_task()?;
        self.0.lock().withdraw(&name, by)
    }

    fn list(&self, index: u64, name: &mut [u8]) -> Result<u64, Error> {
        let found: Vec<u8> = self.0.lock().nth(index, owner).ok_or(Error::NotFound)?.into_bytes();
        let len = found.len().min(name.len()).min(NAME_MAX);
        name[..len].copy_from_slice(&found[..len]);
        Ok(found.len() as u64)
    }
}

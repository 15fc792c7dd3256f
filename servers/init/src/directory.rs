//! Where the servers are: the name service says so. In a machine without one each program finds it in its environment.

use alloc::format;
use alloc::vec::Vec;
use musubi::Error;
use musubi::interfaces::names::NamesService;
use musubi::interfaces::ready::GATE;
use musubi::rt::{Mutex, Once};

pub struct Directory {
    names: Once<NamesService>,
    /// What is told instead, once each.
    told: Mutex<Vec<(&'static str, u64)>>,
}

impl Directory {
    pub const fn new() -> Directory {
        Directory { names: Once::new(), told: Mutex::new(Vec::new()) }
    }

    /// The name service, if there is one, as soon as it was started.
    pub fn names(&self) -> Option<&NamesService> {
        self.names.get()
    }

    /// The name service is at this gate, from its first start on: everybody knows where it stands.
    pub fn names_are_at(&self, gate: u64) -> Result<(), Error> {
        let names = self.names.get_or_try(|| Ok::<_, Error>(NamesService::new_with_args(gate, 4096).always()))?;
        if names.service().gate() == gate { Ok(()) } else { Err(Error::Changed) }
    }

    /// What programs are started with.
    pub fn gate(&self) -> u64 {
        self.names().map_or(0, |names| names.service().gate())
    }

    pub fn publish(&self, name: &'static str, gate: u64) -> Result<(), Error> {
        if let Some(names) = self.names() {
            return names.publish(name, gate);
        }
        let mut told = self.told.lock();
        told.retain(|one| one.0 != name);
        told.push((name, gate));
        Ok(())
    }

    pub fn lookup(&self, name: &str) -> Result<u64, Error> {
        match self.names() {
            Some(names) => names.lookup(name),
            None => self.told.lock().iter().find(|one| one.0 == name).map(|one| one.1).ok_or(Error::NoServer),
        }
    }

    /// What a program's environment says besides; nothing where there is a name service.
    pub fn variables(&self) -> Vec<Vec<u8>> {
        self.told.lock().iter().map(|(name, gate)| format!("{GATE}{name}={gate}").into_bytes()).collect()
    }
}

//! Who drives which device.

use alloc::vec::Vec;
use instance::manifest::Manifest;
use musubi::abi::boot::{DeviceRecord, device};
use musubi::abi::rights::principal;
use musubi::abi::task::{USER_PERSON, USER_SYSTEM};
use musubi::interfaces::devices::{Devices, RECORD, ask};
use musubi::rt::section::Ports;
use musubi::rt::{Mutex, info, interrupt, section, task, trace};
use musubi::{AclEntry, Caller, Error, Rights};
use zerocopy::IntoBytes;

pub struct DeviceTable {
    /// A device, and the text that has it.
    devices: Mutex<Vec<(DeviceRecord, u64)>>,
    /// The section of the keyboard's controller, known without that lock: whoever asks for a call to its ports may be ended in here.
    keyboard: Option<u64>,
}

impl DeviceTable {
    pub fn new(manifest: &Manifest, own_text: u64) -> DeviceTable {
        let own = AclEntry {
            principal: principal::ANY,
            rights: (Rights::READ | Rights::WRITE | Rights::CHANGE_ACL).bits(),
            id: 0,
            text: own_text,
        };
        for device in &manifest.devices {
            let _ = section::grant(device.section, &own);
        }
        let keyboard = manifest.devices.iter().find(|d| d.kind == device::PS2).map(|d| d.section);
        DeviceTable { devices: Mutex::new(manifest.devices.iter().map(|d| (*d, 0)).collect()), keyboard }
    }

    fn give(&self, text: u64, kind: u64, index: u64) -> Result<DeviceRecord, Error> {
        let mut devices = self.devices.lock();
        let mut same = devices.iter_mut().filter(|d| d.0.kind == kind);
        let (device, owner) = same.nth(usize::try_from(index).map_err(|_| Error::NotFound)?).ok_or(Error::NotFound)?;
        if *owner != 0 && *owner != text && section::info(*owner).is_ok_and(|info| info.base == *owner) {
            return Err(Error::Busy);
        }
        let rights = (Rights::READ | Rights::WRITE).bits();
        let entry = AclEntry { principal: principal::ANY, rights, id: 0, text };
        let_text(device.section, &entry)?;
        *owner = text;
        Ok(*device)
    }

    /// One of a driver's calls, whoever has the keyboard's controller.
    fn at_ports(&self, what: u64) -> Result<(), Error> {
        let ports = Ports(self.keyboard.ok_or(Error::NotFound)?);
        match what {
            ask::PORT_READ => ports.read(STATE, 1).map(drop),
            ask::PORT_WRITE => ports.write(NOTHING, 1, 0),
            _ => ports.write_bytes(NOTHING, &BYTES),
        }
    }
}

/// Gives a text a right. The kernel takes that out with the text, if it was there then; who has sent a message may have ended before it is served.
fn let_text(base: u64, entry: &AclEntry) -> Result<(), Error> {
    let owner = || section::owner(entry.text).map_err(|_| Error::Dead);
    let before = owner()?;
    section::grant(base, entry)?;
    if owner() != Ok(before) {
        let _ = section::grant(base, &AclEntry { rights: Rights::empty().bits(), ..*entry });
        return Err(Error::Dead);
    }
    Ok(())
}

/// Of the controller's ports: one that nothing answers at, and the state.
const NOTHING: u64 = 2;
const STATE: u64 = 4;
/// What one call writes at most.
static BYTES: [u8; 64 << 10] = [0; 64 << 10];

/// As long as a line of the log may be.
static MARK: [u8; 1024] = {
    let mut line = [b'-'; 1024];
    let (head, _) = line.split_at_mut(BEGIN.len());
    head.copy_from_slice(BEGIN);
    line
};
const BEGIN: &[u8] = b"trace: a mark ";

impl Devices for DeviceTable {
    fn claim(&self, caller: &Caller, kind: u64, index: u64, record: &mut [u8; RECORD]) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let device = self.give(caller.text, kind, index)?;
        record.copy_from_slice(device.as_bytes());
        Ok(())
    }

    fn route(&self, caller: &Caller, number: u64, processor: u64) -> Result<(), Error> {
        if !matches!(caller.user, USER_SYSTEM | USER_PERSON) {
            return Err(Error::Denied);
        }
        interrupt::route(number, (processor != u64::MAX).then_some(processor))
    }

    fn trace(&self, caller: &Caller, what: u64) -> Result<(), Error> {
        if !matches!(caller.user, USER_SYSTEM | USER_PERSON) {
            return Err(Error::Denied);
        }
        if what > ask::PORT_BYTES {
            return Err(Error::BadArgument);
        }
        if what > ask::MARK {
            return self.at_ports(what);
        }
        if what == ask::MARK {
            task::log(core::str::from_utf8(&MARK).unwrap_or_default());
            return Ok(());
        }
        let mut base = 0;
        for processor in 0..info::all()?.processors().count() as u64 {
            base = trace::switch(processor, what == ask::ON)?;
        }
        if base != 0 && what != ask::PAUSE {
            let entry = |rights: Rights| AclEntry {
                principal: principal::USER,
                rights: rights.bits(),
                id: caller.user,
                text: caller.text,
            };
            match what {
                ask::ON => let_text(base, &entry(Rights::READ))?,
                _ => section::grant(base, &entry(Rights::empty()))?,
            }
        }
        Ok(())
    }
}

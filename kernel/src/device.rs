//! Devices as sections: I/O ports reached by calls. Which program may is the section's ACL; interrupts are in `line.rs`.

use crate::claim;
use crate::domain::Domain;
use crate::sched;
use crate::section::{Ports, Section};
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::{log_out, ports};
use spin::Mutex;

/// Most bytes that one call writes to a port: the kernel's time is bounded.
const BYTES_MAX: u64 = 64 << 10;

/// The ports behind a section, for one who has the right.
pub fn section(domain: &Domain, base: u64, right: Rights) -> Result<(Arc<Section>, Ports), Error> {
    let section = Section::named(base)?;
    if section.kind() != kind::PORTS {
        return Err(Error::NotSupported);
    }
    section.check(domain, right)?;
    let ports = section.ports.ok_or(Error::NotSupported)?;
    Ok((section, ports))
}

fn port(ports: &Ports, port: u64, width: u64) -> Result<u16, Error> {
    if !matches!(width, 1 | 2 | 4) || port.checked_add(width).is_none_or(|end| end > u64::from(ports.count)) {
        return Err(Error::BadArgument);
    }
    Ok(ports.first + port as u16)
}

pub fn read(domain: &Domain, base: u64, number: u64, width: u64) -> Result<u64, Error> {
    let (section, range) = section(domain, base, Rights::READ)?;
    // Who takes the right away is not told before this is done.
    let _still = section.lock_for(domain, Rights::READ)?;
    Ok(u64::from(ports::read(port(&range, number, width)?, width)))
}

pub fn write(domain: &Domain, base: u64, number: u64, width: u64, value: u64) -> Result<u64, Error> {
    let (section, range) = section(domain, base, Rights::WRITE)?;
    let _still = section.lock_for(domain, Rights::WRITE)?;
    let port = port(&range, number, width)?;
    log_out::program_sets(port, width, value as u32);
    Ok(0)
}

/// As many bytes are written in one go: others wait for the port as long, and interrupts.
const PART: usize = 512;

/// Held while a part of a call's bytes is written, by the number of the port: each part comes whole, also between a program that has
/// ended and the one that has the device next. Several ports may share one.
static WRITING: [Mutex<()>; 8] = [const { Mutex::new(()) }; 8];

pub fn write_bytes(domain: &Domain, base: u64, number: u64, from: u64, len: u64) -> Result<u64, Error> {
    let (section, range) = section(domain, base, Rights::WRITE)?;
    let port = port(&range, number, 1)?;
    let mut page = [0; PART];
    let len = len.min(BYTES_MAX);
    let mut done = 0;
    while done < len {
        if done > 0 {
            sched::breathe();
        }
        let part = (len - done).min(PART as u64) as usize;
        match claim::read(domain, from + done, &mut page[..part]) {
            // The bytes before are written, and a call that has changed something is not made again.
            Err(_) if done > 0 => break,
            outcome => outcome?,
        }
        let written = {
            let _writing = WRITING[usize::from(port >> 3) % WRITING.len()].lock();
            // The right may have gone since it was looked at, or its program have ended and the next one begun.
            let _still = section.lock_for(domain, Rights::WRITE)?;
            if domain.text.is_dead() {
                return Err(Error::Dead);
            }
            log_out::program_writes(port, &page[..part])
        };
        done += written as u64;
        if written < part {
            // There is no room: it is waited for outside.
            break;
        }
    }
    Ok(done)
}

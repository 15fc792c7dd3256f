//! Processes: waiting for them, ending them, and what belongs together (docs/decisions/0012). They are started by `command`.

use alloc::vec::Vec;
use interfaces::processes::{ProcessesService, RECORD};
use rt::abi::task::{Exit, Limits};
use rt::{Error, Once};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub use interfaces::processes::{ProcessInfo, group, whom};

static CLIENT: Once<ProcessesService> = Once::new();

pub(crate) fn client() -> Result<&'static ProcessesService, Error> {
    CLIENT.get_or_try(|| crate::names::server("processes").map(ProcessesService::new))
}

/// As [`whom`]: each process of a group.
#[must_use]
pub const fn of_group(group: u64) -> u64 {
    group | whom::GROUP
}

/// Waits at most so long until somebody ([`whom`]) has ended. Who, and how; asked again it is the same one, until it is forgotten.
///
/// # Errors
/// `TimedOut`; `NotFound`: there is nobody to wait for; `Denied`: another user's.
pub fn wait(whom: u64, timeout_ns: u64) -> Result<(u64, Exit), Error> {
    let task = client()?.wait(whom, timeout_ns)?;
    Ok((task, status(task)?.exit))
}

/// The same, and forgets it if it is a child: each is told of once.
///
/// # Errors
/// As [`wait`].
pub fn collect(whom: u64, timeout_ns: u64) -> Result<(u64, Exit), Error> {
    let ended = wait(whom, timeout_ns)?;
    match client()?.forget(ended.0) {
        // Somebody else's child, or another thread was faster.
        Ok(()) | Err(Error::Denied | Error::NotFound) => Ok(ended),
        Err(error) => Err(error),
    }
}

/// What is known of a process.
///
/// # Errors
/// `NotFound`, or what the kernel answers.
pub fn status(task: u64) -> Result<ProcessInfo, Error> {
    let mut record = [0; RECORD];
    client()?.status(task, &mut record)?;
    Ok(read(&record))
}

fn read(record: &[u8; RECORD]) -> ProcessInfo {
    ProcessInfo::read_from_bytes(record).unwrap_or_else(|_| ProcessInfo::new_zeroed())
}

/// All processes, in the order of their numbers.
///
/// # Errors
/// What the kernel answers.
pub fn list() -> Result<Vec<ProcessInfo>, Error> {
    let mut all: Vec<ProcessInfo> = Vec::new();
    let mut record = [0; RECORD];
    loop {
        match client()?.next(all.last().map_or(0, |one| one.task), &mut record) {
            Ok(_) => all.push(read(&record)),
            Err(Error::NotFound) => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

/// Ends somebody ([`whom`]). How many processes.
///
/// # Errors
/// `NotFound`: nobody was there; `Denied`: another user's.
pub fn kill(whom: u64) -> Result<u64, Error> {
    client()?.kill(whom)
}

/// Brings this process (0) or a child into a group ([`group::NEW`], or one that is there). The group.
///
/// # Errors
/// `NotFound`, `Denied`.
pub fn join(task: u64, group: u64) -> Result<u64, Error> {
    client()?.join(task, group)
}

/// Sets what a process that descends from this one may use from now on; 0: as before.
///
/// # Errors
/// `NotFound`, `Denied`.
pub fn limit(task: u64, to: &Limits) -> Result<(), Error> {
    let mut bytes = [0; interfaces::processes::LIMITS];
    bytes.copy_from_slice(to.as_bytes());
    client()?.limit(task, &bytes)
}

//! Finding and publishing services.

use crate::servers::number;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use interfaces::names::{NAME_MAX, NamesService};
use interfaces::ready::{GATE, ReadyClient, VARIABLE};
use rt::gate::ANYBODY;
use rt::{Error, Gates, Once};

static CLIENT: Once<NamesService> = Once::new();

fn client() -> Result<&'static NamesService, Error> {
    CLIENT.get_or_try(|| match rt::start().names() {
        0 => Err(Error::NoServer),
        // Nobody could be asked where to ask whether it comes back.
        gate => Ok(NamesService::new_with_args(gate, 4096).always()),
    })
}

/// The entry address that a name stands for.
///
/// # Errors
/// `NotFound`; what the name service answers. Without one, `NoServer` for what is not in the environment.
pub fn lookup(name: &str) -> Result<u64, Error> {
    match rt::start().names() {
        0 => number(&format!("{GATE}{name}")).ok_or(Error::NoServer),
        _ => client()?.lookup(name),
    }
}

/// The same for a server of the system, whose name is there as long as it is.
///
/// # Errors
/// `NoServer`: it was left out or stopped; what the name service answers.
pub fn server(name: &str) -> Result<u64, Error> {
    lookup(name).map_err(|error| if error == Error::NotFound { Error::NoServer } else { error })
}

/// Lets everybody call `gates` and makes them known as `name`. Without a name service a server of the system tells who has started it.
///
/// # Errors
/// `Exists` if another program has the name; what the name service answers. Without one, `NoServer`.
pub fn publish(name: &str, gates: &Gates) -> Result<(), Error> {
    gates.admit(&ANYBODY)?;
    match number(VARIABLE).filter(|_| rt::start().names() == 0) {
        Some(ready) => ReadyClient::bind(ready)?.ready(gates.address()),
        None => client()?.publish(name, gates.address()),
    }
}

/// Waits until a name is known.
///
/// # Errors
/// `TimedOut`.
pub fn await_name(name: &str, timeout_ns: u64) -> Result<u64, Error> {
    let until = rt::time::now_ns().saturating_add(timeout_ns);
    loop {
        match lookup(name) {
            Err(Error::NotFound) if rt::time::now_ns() < until => rt::time::sleep_ns(1_000_000),
            Err(Error::NotFound) => return Err(Error::TimedOut),
            other => return other,
        }
    }
}

/// All names.
///
/// # Errors
/// What the name service answers.
pub fn list() -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let mut name = [0; NAME_MAX];
    loop {
        match client()?.list(names.len() as u64, &mut name) {
            Ok(len) => names.push(String::from_utf8_lossy(&name[..(len as usize).min(NAME_MAX)]).into_owned()),
            Err(Error::NotFound) => return Ok(names),
            Err(e) => return Err(e),
        }
    }
}

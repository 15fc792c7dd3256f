//! The service `loader`: from a request to a running task.

use crate::files::FileTable;
use crate::image::{Kind, Originals, Refusal};
use crate::instance;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::linux::LinuxClient;
use musubi::interfaces::loader::Loader;
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::request::{LEN_MAX, Request};
use musubi::rt::Mutex;
use musubi::{Caller, Error};

pub struct Service {
    files: &'static FileTable,
    originals: Originals,
    /// The personality that was bound last, by its gate.
    linux: Mutex<Option<(u64, &'static LinuxClient)>>,
}

impl Service {
    pub fn new(files: &'static FileTable) -> Service {
        Service { files, originals: Originals::default(), linux: Mutex::new(None) }
    }

    /// Starts a program for a thread of `user`.
    pub fn start_for(&self, request: &Request, user: u64) -> Result<u64, Refusal> {
        if request.user != user && user != USER_SYSTEM {
            let reason = format!("user {user} cannot start a program as user {}", request.user);
            return Err(Refusal { error: Error::Denied, reason });
        }
        let (number, record, file) = self.files.bytes(&request.path).ok_or(Error::NotFound)?;
        let name = base_name(&request.path);
        match self.originals.of(number, name, file)? {
            Kind::Native(original) => instance::start(&original, request, name),
            Kind::Linux => {
                self.files.share(number)?;
                self.start_linux(request, record.section, record.len)
            }
        }
    }

    /// The same, for the first program that this one starts by itself.
    pub fn start(&self, request: &Request, user: u64) -> Result<u64, String> {
        self.start_for(request, user).map_err(|r| match r.reason.as_str() {
            "" => format!("{}", r.error),
            reason => String::from(reason),
        })
    }

    fn start_linux(&self, request: &Request, section: u64, len: u64) -> Result<u64, Refusal> {
        let none = |_| Refusal { error: Error::NotSupported, reason: "no service runs Linux programs".into() };
        let linux = self.personality(request.names).map_err(none)?;
        let mut reason = [0; 256];
        linux.spawn(&request.encode(), section, len, &mut reason).map_err(|error| {
            let len = reason.iter().position(|&b| b == 0).unwrap_or(reason.len());
            Refusal { error, reason: String::from_utf8_lossy(&reason[..len]).into_owned() }
        })
    }

    fn personality(&self, names: u64) -> Result<&'static LinuxClient, Error> {
        if names == 0 {
            return Err(Error::NotFound);
        }
        let names = NamesClient::bind_with_args(names, 4096)?;
        let gate = names.lookup("linux");
        let _ = names.unbind();
        let gate = gate?;
        let mut known = self.linux.lock();
        if let Some((_, client)) = known.filter(|k| k.0 == gate) {
            return Ok(client);
        }
        let client: &'static LinuxClient = Box::leak(Box::new(LinuxClient::bind(gate)?));
        *known = Some((gate, client));
        Ok(client)
    }
}

/// What people call the program of a path.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

impl Loader for Service {
    fn spawn(&self, caller: &Caller, request: &[u8], reason: &mut [u8]) -> Result<u64, Error> {
        if request.len() > LEN_MAX {
            return Err(Error::TooBig);
        }
        // A copy: the caller's other threads could change it between check and use.
        let request: Vec<u8> = request.to_vec();
        let request = Request::decode(&request)?;
        self.start_for(&request, caller.user).map_err(|refusal| {
            let line = refusal.reason.as_bytes();
            let len = line.len().min(reason.len().saturating_sub(1));
            reason[..len].copy_from_slice(&line[..len]);
            if let Some(end) = reason.get_mut(len) {
                *end = 0;
            }
            refusal.error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_by_the_last_part_of_its_path() {
        assert_eq!(base_name(b"bin/hello"), b"hello");
        assert_eq!(base_name(b"hello"), b"hello");
    }
}

//! What a server wants the next one to know (docs/decisions/0011): records by key, kept by whoever restarts it.

use crate::servers::number;
use alloc::string::String;
use interfaces::ledger::{ENTRY_MAX, LedgerClient, NUMBER, VARIABLE};
use rt::Error;

/// This server's ledger.
#[derive(Debug)]
pub struct Ledger {
    client: LedgerClient,
    /// Which server this is.
    server: u64,
}

impl Ledger {
    /// The one in the environment.
    ///
    /// # Errors
    /// `NotFound`: there is none, for nobody restarts this program, or not with what it knew.
    pub fn of_this_server() -> Result<Ledger, Error> {
        let gate = number(VARIABLE).ok_or(Error::NotFound)?;
        let server = number(NUMBER).ok_or(Error::NotFound)?;
        LedgerClient::bind_with_args(gate, 4096).map(|client| Ledger { client, server })
    }

    /// Keeps a record, in the place of what was kept by this key.
    ///
    /// # Errors
    /// `TooBig`: longer than `interfaces::ledger` says; `Quota`: too many records; `Dead`: this server has
    /// ended, and the next one writes there.
    pub fn keep(&self, key: &str, record: &[u8]) -> Result<(), Error> {
        self.client.keep(self.server, key, record)
    }

    /// What was kept by this key is not needed any more.
    ///
    /// # Errors
    /// What a call can end with.
    pub fn forget(&self, key: &str) -> Result<(), Error> {
        self.client.forget(self.server, key)
    }

    /// Shows every key and its record, in the order of the keys.
    ///
    /// # Errors
    /// The first one of `show`'s, which ends it.
    pub fn each(&self, mut show: impl FnMut(&str, &[u8]) -> Result<(), Error>) -> Result<(), Error> {
        let (mut entry, mut after) = ([0; ENTRY_MAX], String::new());
        loop {
            let len = match self.client.next(&after, &mut entry) {
                Err(Error::NotFound) => return Ok(()),
                len => len? as usize,
            };
            let found = entry.get(..len).ok_or(Error::BadArgument)?;
            let end = found.iter().position(|byte| *byte == 0).ok_or(Error::BadArgument)?;
            after = String::from_utf8_lossy(&found[..end]).into_owned();
            show(&after, &found[end + 1..])?;
        }
    }
}

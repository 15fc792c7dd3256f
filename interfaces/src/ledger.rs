//! What a server wants the next one to know, kept by whoever restarts it: records by key, for each server its own. The gate to call
//! is in the environment of such a server, as a decimal number; others may know it by the name `ledger`, and are refused. What was sent there and is
//! not answered when its sender ends is kept, or not.

use derive::interface;
use rt::{Caller, Error};

/// The environment variable.
pub const VARIABLE: &str = "LEDGER";
/// Another one: which of the servers that have stood there this is. What one writes after its end, on a thread that has called it, is `Dead`.
pub const NUMBER: &str = "LEDGER_NUMBER";

/// Longest record, and longest key, in bytes. A key has no NUL in it.
pub const RECORD_MAX: usize = 256;
pub const KEY_MAX: usize = 64;
/// Longest entry that `next` writes.
pub const ENTRY_MAX: usize = KEY_MAX + 1 + RECORD_MAX;

#[interface]
pub trait Ledger {
    /// The server of this number keeps a record, in the place of what was kept by this key.
    #[repeat]
    fn keep(&self, caller: &Caller, server: u64, key: &str, record: &[u8]) -> Result<(), Error>;
    /// What was kept by this key is not needed any more.
    #[repeat]
    #[when_short]
    fn forget(&self, caller: &Caller, server: u64, key: &str) -> Result<(), Error>;
    /// Writes the first key behind `after` (by its bytes), a NUL, and the record. Value: their length. `NotFound` at the end.
    #[repeat]
    #[when_short]
    fn next(&self, caller: &Caller, after: &str, entry: &mut [u8]) -> Result<u64, Error>;
}

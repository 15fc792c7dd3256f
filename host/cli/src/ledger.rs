//! The ledger of requirements: printed by `./musubi requirements`, checked after a full `./musubi test`.

use anyhow::{Result, bail};
use build::Workspace;
use verdict::Results;

/// Prints the ledger.
pub fn print(_workspace: &Workspace, _words: &[String]) -> Result<u8> {
    bail!("there is no ledger yet")
}

/// Compares the ledger with what ran: what it says is wrong, one line each.
pub fn check(_workspace: &Workspace, _results: &Results) -> Result<Vec<String>> {
    Ok(Vec::new())
}

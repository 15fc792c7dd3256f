//! The ledger of requirements: printed by `./musubi requirements`, held against what ran by `./musubi test`.

use anyhow::{Context, Result};
use build::Workspace;
use ledger::{Ledger, State, System};
use std::path::Path;

/// Prints the ledger, or the part of it that the words name: a system, a state, or both.
pub fn print(workspace: &Workspace, words: &[String]) -> Result<u8> {
    let (mut system, mut state) = (None, None);
    for word in words {
        if let Some(found) = System::parse(word) {
            system = Some(found);
        } else {
            let found = State::parse(word).with_context(|| format!("{word} is neither a system nor a state"))?;
            state = Some(found);
        }
    }
    print!("{}", ledger::table(&Ledger::load(workspace.top())?, system, state));
    Ok(0)
}

/// What the ledger says that the results of the tests do not bear out.
pub fn check(workspace: &Workspace, results: &Path) -> Result<Vec<String>> {
    let results = ledger::Results::load(results)?;
    Ok(ledger::check_results(&Ledger::load(workspace.top())?, &results))
}

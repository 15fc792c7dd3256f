//! The ledger of requirements: printed by `./musubi requirements`, held against what ran by `./musubi test`.

use crate::print;
use anyhow::{Context, Result};
use build::Workspace;
use ledger::{Ledger, State, System};
use std::path::Path;

/// Prints the ledger, or the part of it that the words name: a system, a state, or both; or single rows by their numbers,
/// with the tests that show them.
pub fn show(workspace: &Workspace, words: &[String]) -> Result<u8> {
    let ledger = Ledger::load(workspace.top())?;
    let row = |word: &String| ledger.rows.iter().find(|row| row.number.eq_ignore_ascii_case(word));
    let rows: Option<Vec<_>> = words.iter().map(row).collect();
    if let Some(rows) = rows.filter(|rows| !rows.is_empty()) {
        let mut text = String::new();
        for row in rows {
            text += &format!("{}: {}\n  {}\n", row.number, row.title, row.state);
            if !row.note.is_empty() {
                text += &format!("  {}\n", row.note);
            }
            row.tests.iter().for_each(|test| text += &format!("  shown by {test}\n"));
        }
        return print(&text);
    }
    let (mut system, mut state) = (None, None);
    for word in words {
        if let Some(found) = System::parse(word) {
            system = Some(found);
        } else {
            let found =
                State::parse(word).with_context(|| format!("{word} is neither a system, a state nor a number"))?;
            state = Some(found);
        }
    }
    print(&ledger::table(&ledger, system, state))
}

/// What the ledger says that the results of the tests do not bear out.
pub fn check(workspace: &Workspace, results: &Path) -> Result<Vec<String>> {
    let results = ledger::Results::load(results)?;
    Ok(ledger::check_results(&Ledger::load(workspace.top())?, &results))
}

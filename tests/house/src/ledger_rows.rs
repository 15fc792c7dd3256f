//! The ledger of requirements: sound in itself, and naming tests that exist.

use std::path::Path;

use anyhow::Result;
use ledger::{Ledger, Results};

use crate::source::Source;
use crate::tree::{self, Crate};
use crate::{Problems, tree::crates};

pub fn check(root: &Path) -> Result<Problems> {
    let ledger = Ledger::load(root)?;
    let mut problems = ledger::check(&ledger);
    let (crates, files) = (crates(root)?, tree::files(root)?);
    for row in &ledger.rows {
        for test in row.tests.iter().filter(|test| !exists(root, &crates, &files, test)) {
            problems.push(format!(
                "{}: there is no test {test}; write it, or correct its name in {}",
                row.number,
                ledger::PATH
            ));
        }
    }
    Ok(problems)
}

/// After all tests have run: every named one ran and passed.
pub fn check_results(root: &Path, results: &Path) -> Result<Problems> {
    Ok(ledger::check_results(&Ledger::load(root)?, &Results::load(results)?))
}

/// Looks for the test's function. System tests are found out by running them.
fn exists(root: &Path, crates: &[Crate], files: &[String], test: &str) -> bool {
    let parts: Vec<&str> = test.split("::").collect();
    let (Some(name), home) = (parts.last(), parts[0]) else {
        return false;
    };
    let folders: Vec<String> = match home {
        "house" => vec!["tests/house/tests/".into()],
        "host" if parts.len() > 2 => {
            crates.iter().filter(|c| c.short == parts[1]).map(|c| format!("{}/", c.dir)).collect()
        }
        // An ill-formed name is the ledger's own complaint.
        _ => return true,
    };
    files
        .iter()
        .filter(|file| tree::extension(file) == "rs" && folders.iter().any(|folder| file.starts_with(folder)))
        .filter_map(|file| tree::text(root, file))
        .any(|text| has_function(&text, name))
}

fn has_function(text: &str, name: &str) -> bool {
    text.contains(name) && {
        let source = Source::new(text);
        source.find_word(name).iter().any(|(line, column)| source.code[*line][..*column].trim_end().ends_with("fn"))
    }
}

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

/// Each call of the kernel's names a test that exists (SSS-32): `docs/abi.md` shows them.
pub fn check_calls(root: &Path) -> Result<Problems> {
    let files = tree::files(root)?;
    let stages = files.iter().filter(|file| file.starts_with("tests/system/src/stages/"));
    let stages: Vec<_> = stages.filter_map(|file| Some((file, tree::text(root, file)?))).collect();
    let mut problems = Vec::new();
    let tested = tree::text(root, TESTED).unwrap_or_default();
    for line in tested.lines() {
        let parts: Vec<&str> = line.split([' ', ':']).filter(|part| !part.is_empty()).collect();
        let there = match parts[..] {
            [_, "system", stage, test] => stages
                .iter()
                .any(|(file, text)| file.ends_with(&format!("/{stage}.rs")) && text.contains(&format!("\"{test}\""))),
            _ => false,
        };
        if !there {
            problems.push(format!("{TESTED}: there is no test as in {line:?}; write it, or correct its name"));
        }
    }
    if tested.is_empty() {
        problems.push(format!("{TESTED} is missing"));
    }
    Ok(problems)
}

/// Calls and their tests.
const TESTED: &str = "abi/tests/tested.txt";

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

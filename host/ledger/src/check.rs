//! What can be wrong with the ledger. Every problem is one line that says what to do.

use std::collections::BTreeMap;

use crate::{Ledger, Number, Outcome, PATH, Results, Row, State};

/// Problems that show without running a test.
pub fn check(ledger: &Ledger) -> Vec<String> {
    let mut problems = numbers(ledger);
    problems.extend(ledger.rows.iter().flat_map(row));
    problems
}

fn numbers(ledger: &Ledger) -> Vec<String> {
    let mut seen: BTreeMap<Number, u32> = Number::expected().map(|n| (n, 0)).collect();
    let mut problems = Vec::new();
    for row in &ledger.rows {
        match row.id().and_then(|n| seen.get_mut(&n)) {
            Some(count) => *count += 1,
            None => problems
                .push(format!("{}: there is no such number; correct it, or remove the row from {PATH}", row.number)),
        }
    }
    for (number, count) in seen {
        match count {
            1 => {}
            0 => problems.push(format!("{number}: has no row; add one to {PATH}")),
            _ => problems.push(format!("{number}: has {count} rows; keep one in {PATH}")),
        }
    }
    problems
}

fn row(row: &Row) -> Vec<String> {
    let mut problems = Vec::new();
    let mut problem = |text: String| problems.push(format!("{}: {text}", row.number));
    if row.title.trim().is_empty() {
        problem("has no title; say what is asked, in a line".into());
    }
    if row.state == State::Works && row.tests.is_empty() {
        problem("'works' names no test; name one that shows it, or use 'in part'".into());
    }
    let due = match row.state {
        State::Replaced => Some("by what it is replaced, and why"),
        State::Fact => Some("why it only describes old hardware"),
        State::InPart => Some("what is missing"),
        State::Works | State::NotYet => None,
    };
    if let Some(due) = due.filter(|_| row.note.trim().is_empty()) {
        problem(format!("'{}' needs a note that says {due}", row.state));
    }
    for test in &row.tests {
        if !well_named(test) {
            problem(format!("'{test}' is not house::NAME, host::CRATE::PATH::TEST or system::STAGE::NAME"));
        }
    }
    problems
}

fn well_named(test: &str) -> bool {
    let parts: Vec<&str> = test.split("::").collect();
    let least = match parts[0] {
        "house" => 2,
        "host" | "system" => 3,
        _ => return false,
    };
    parts.len() >= least && parts.iter().all(|part| !part.trim().is_empty())
}

/// Problems that show once the tests have run: a row stands on tests that ran and passed, or it does not stand.
/// This holds for the tests of every row, so that a row in part cannot rest on a test that is gone.
pub fn check_results(ledger: &Ledger, results: &Results) -> Vec<String> {
    let mut problems = Vec::new();
    for row in &ledger.rows {
        for test in &row.tests {
            let ended = match results.get(test) {
                Some(Outcome::Ok | Outcome::Long) => continue,
                Some(Outcome::Failed) => "failed; mend it, or take the row back to 'in part' without it",
                Some(Outcome::Skipped) => "was skipped; let it run, or name one that runs",
                None => "did not run; write it, correct its name, or remove it from the row",
            };
            problems.push(format!("{}: the test {test} {ended}", row.number));
        }
    }
    problems
}

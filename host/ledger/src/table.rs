//! The ledger as a person reads it.

use std::fmt::Write;

use crate::{Kind, Ledger, Row, State, System};

/// Rows first, counts last, so that the counts stand above the next prompt.
/// Counts cover every state of the systems shown; `state` only chooses rows.
pub fn table(ledger: &Ledger, system: Option<System>, state: Option<State>) -> String {
    let mut out = String::new();
    let systems: Vec<System> = System::ALL.into_iter().filter(|s| system.is_none_or(|chosen| chosen == *s)).collect();
    for row in &ledger.rows {
        let shown = row.id().is_some_and(|id| systems.contains(&id.system));
        if shown && state.is_none_or(|chosen| chosen == row.state) {
            write_row(&mut out, row);
        }
    }
    if !out.is_empty() {
        out.push('\n');
    }
    write_counts(&mut out, ledger, &systems);
    out
}

fn write_row(out: &mut String, row: &Row) {
    const INDENT: usize = 21;
    let _ = writeln!(out, "{:<10} {:<9} {}", row.number, row.state, row.title);
    for (i, line) in lines(&row.note).iter().enumerate() {
        let mark = if i == 0 { '-' } else { ' ' };
        let _ = writeln!(out, "{:INDENT$}{mark} {line}", "");
    }
    for test in &row.tests {
        let _ = writeln!(out, "{:INDENT$}+ {test}", "");
    }
}

/// A note in lines that fit a wide terminal beside the indent.
fn lines(note: &str) -> Vec<String> {
    const WIDTH: usize = 97;
    let mut lines: Vec<String> = Vec::new();
    for word in note.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

fn write_counts(out: &mut String, ledger: &Ledger, systems: &[System]) {
    let _ = write!(out, "{:<10}", "");
    for state in State::ALL {
        let _ = write!(out, "{state:>10}");
    }
    for kind in Kind::ALL {
        let _ = write!(out, "{kind:>13}");
    }
    let _ = writeln!(out, "{:>8}", "total");
    for system in systems {
        write_count(out, ledger, &system.to_string(), &[*system]);
    }
    if systems.len() > 1 {
        write_count(out, ledger, "all", systems);
    }
}

fn write_count(out: &mut String, ledger: &Ledger, name: &str, systems: &[System]) {
    let rows: Vec<_> = ledger
        .rows
        .iter()
        .filter_map(|row| row.id().map(|id| (id, row.state)))
        .filter(|(id, _)| systems.contains(&id.system))
        .collect();
    let _ = write!(out, "{name:<10}");
    for state in State::ALL {
        let _ = write!(out, "{:>10}", rows.iter().filter(|(_, s)| *s == state).count());
    }
    for kind in Kind::ALL {
        let _ = write!(out, "{:>13}", rows.iter().filter(|(id, _)| id.kind == kind).count());
    }
    let _ = writeln!(out, "{:>8}", rows.len());
}

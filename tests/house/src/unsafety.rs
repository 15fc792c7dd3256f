//! `unsafe` stands in few crates, and never without its reason.

use std::path::Path;

use anyhow::Result;

use crate::source::Source;
use crate::{Problems, tree};

/// Who may hold `unsafe`: crates, and folders of them, with the reason. One more wants as good a reason as these.
const LISTED: &[(&str, &str)] = &[
    ("kernel/arch", "assembly, page tables and registers of the machine, behind a safe interface"),
    ("sdk/rt", "start-up, gates and the heap of a program"),
    ("sdk/window", "a foreign program's memory and registers"),
    ("core/sync", "cells behind locks, checked by models"),
    ("host/plugin", "called by QEMU, whose interface is one of C; runs in QEMU alone"),
    ("tests/guest", "programs that do what is forbidden, to see them stopped"),
];

/// How far above an `unsafe` its reason may stand.
const NEAR: usize = 6;

pub fn check(root: &Path) -> Result<Problems> {
    let crates = tree::crates(root)?;
    let listed = |dir: &str| LISTED.iter().any(|(name, _)| within(dir, name));
    let mut problems = Problems::new();
    for file in tree::files(root)?.iter().filter(|file| tree::extension(file) == "rs") {
        let Some(text) = tree::text(root, file) else {
            continue;
        };
        let source = Source::new(&text);
        let owner = tree::owner(&crates, file);
        if owner.is_some_and(|c| listed(&c.dir)) {
            problems.extend(unexplained(&source).into_iter().map(|(line, what)| format!("{file}:{line}: {what}")));
            continue;
        }
        for (line, _) in source.find_word("unsafe") {
            problems.push(format!(
                "{file}:{}: unsafe outside {}; use a safe function of these, or give them one",
                line + 1,
                LISTED.iter().map(|(dir, _)| *dir).collect::<Vec<_>>().join(", ")
            ));
        }
        if owner.is_some_and(|c| c.roots.contains(file)) && !refuses_unsafe(&source) {
            problems.push(format!("{file}: a crate's first file says #![forbid(unsafe_code)]; add it"));
        }
    }
    Ok(problems)
}

fn within(dir: &str, folder: &str) -> bool {
    dir.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `#![forbid(unsafe_code)]` or `#![deny(...)]`, among other lints if need be.
fn refuses_unsafe(source: &Source) -> bool {
    let code: String = source.code.concat().split_whitespace().collect();
    ["#![forbid(", "#![deny("].iter().any(|start| {
        code.match_indices(start).any(|(at, _)| {
            let lints = &code[at + start.len()..];
            lints.split(')').next().unwrap_or("").split(',').any(|lint| lint == "unsafe_code")
        })
    })
}

/// Every `unsafe` without its reason: line from 1, and what to write.
fn unexplained(source: &Source) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (line, column) in source.find_word("unsafe") {
        let what = match What::of(&source.after(line, column + "unsafe".len())) {
            What::Nothing => continue,
            What::Duty if near(source, line, &["SAFETY:"]) => continue,
            What::Duty => "unsafe without a reason; say in a `// SAFETY:` comment above why it is sound",
            What::Contract if near(source, line, &["# Safety", "SAFETY:"]) => continue,
            What::Contract => "unsafe fn or trait without its contract; say under `/// # Safety` what the caller owes",
        };
        found.push((line + 1, what));
    }
    found
}

enum What {
    /// An attribute or the type of a function pointer: promises nothing by itself.
    Nothing,
    /// A block, an impl, an extern block: we vouch for it.
    Duty,
    /// A function or trait: whoever uses it must vouch.
    Contract,
}

impl What {
    fn of(after: &str) -> What {
        // The name of an ABI is blanked with the other literals.
        let after = after.strip_prefix("extern").map_or(after, str::trim_start);
        let word: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        match word.as_str() {
            "" if after.starts_with('(') => What::Nothing,
            "fn" if after["fn".len()..].trim_start().starts_with('(') => What::Nothing,
            "fn" | "trait" => What::Contract,
            _ => What::Duty,
        }
    }
}

/// A mark in the comments of this line, of the lines just above it, or of the comments and attributes that it begins with.
fn near(source: &Source, line: usize, marks: &[&str]) -> bool {
    let marked = |line: usize| marks.iter().any(|mark| source.comments[line].contains(mark));
    if (line.saturating_sub(NEAR)..=line).any(marked) {
        return true;
    }
    let belongs = |line: &usize| {
        let code = source.code[*line].trim();
        let comment = source.comments[*line].trim();
        code.starts_with('#') || code.is_empty() && !comment.is_empty()
    };
    (0..line).rev().take_while(belongs).any(marked)
}

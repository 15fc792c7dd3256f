//! `docs/invariants.md` is what `SAFETY:` comments stand on: numbered without gaps, each with an owner, each citation real.

use std::path::Path;

use anyhow::Result;

use crate::source::Source;
use crate::{Problems, tree};

const PAGE: &str = "docs/invariants.md";
const OWNERS: [&str; 8] = ["abi", "core", "kernel", "sdk", "servers", "apps", "host", "tests"];

pub fn check(root: &Path) -> Result<Problems> {
    let page = tree::text(root, PAGE).unwrap_or_default();
    let mut problems = Problems::new();
    let mut last = 0;
    for (line, text) in page.lines().enumerate() {
        let Some((number, text)) = numbered(text) else {
            continue;
        };
        if number != last + 1 {
            problems.push(format!("{PAGE}:{}: number {number} after {last}; count on, and never again", line + 1));
        }
        last = number;
        let owner = text.split_once("*Owner: ").and_then(|(_, owner)| owner.split('*').next());
        if !owner.is_some_and(|owner| OWNERS.contains(&owner.split('/').next().unwrap_or(""))) {
            problems.push(format!("{PAGE}:{}: end it with \"*Owner: FOLDER*\", whose code keeps it", line + 1));
        }
    }
    for file in tree::files(root)?.iter().filter(|file| tree::extension(file) == "rs") {
        let Some(text) = tree::text(root, file) else {
            continue;
        };
        if !text.contains(CITED) {
            continue;
        }
        for (line, comment) in Source::new(&text).comments.iter().enumerate() {
            for cited in citations(comment).filter(|cited| !(1..=last).contains(cited)) {
                problems.push(format!("{file}:{}: there is no invariant {cited} in {PAGE}", line + 1));
            }
        }
    }
    Ok(problems)
}

fn numbered(line: &str) -> Option<(u32, &str)> {
    let (number, text) = line.split_once(". ")?;
    Some((number.parse().ok()?, text))
}

const CITED: &str = "invariant ";

fn citations(comment: &str) -> impl Iterator<Item = u32> {
    comment.split(CITED).skip(1).filter_map(|rest| {
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

//! `docs/reading.md` leads through every source file of the contract, the ideas and the kernel.

use std::path::Path;

use anyhow::Result;

use crate::{Problems, tree};

const PAGE: &str = "docs/reading.md";
const FOLDERS: [&str; 3] = ["abi/", "core/", "kernel/"];

pub fn check(root: &Path) -> Result<Problems> {
    let page = tree::text(root, PAGE).unwrap_or_default();
    let entries: Vec<_> = page.lines().enumerate().filter_map(|(i, line)| entry(line).map(|e| (i + 1, e))).collect();
    let there: Vec<String> = tree::files(root)?.into_iter().filter(|file| belongs(file)).collect();
    let mut problems = Problems::new();
    for (i, (line, (file, about))) in entries.iter().enumerate() {
        if !there.iter().any(|f| f == file) {
            problems
                .push(format!("{PAGE}:{line}: {file} is not a source file of abi, core or kernel; remove the line"));
        } else if about.trim().is_empty() {
            problems.push(format!("{PAGE}:{line}: {file}: say in half a line what a reader finds there"));
        }
        if entries[..i].iter().any(|(_, (earlier, _))| earlier == file) {
            problems.push(format!("{PAGE}:{line}: {file} is listed twice; keep the place where it is best read"));
        }
    }
    for file in there.iter().filter(|file| !entries.iter().any(|(_, (listed, _))| listed == file)) {
        problems.push(format!("{file}: not in {PAGE}; add \"- `{file}`: half a line\" where it is best read"));
    }
    Ok(problems)
}

fn belongs(file: &str) -> bool {
    FOLDERS.iter().any(|folder| file.starts_with(folder)) && matches!(tree::extension(file), "rs" | "S" | "ld")
}

/// ``- `FILE`: half a line``, or the same with a number.
fn entry(line: &str) -> Option<(&str, &str)> {
    let item = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
    let item = item.strip_prefix("- ").or_else(|| item.strip_prefix(". "))?;
    let (file, about) = item.strip_prefix('`')?.split_once('`')?;
    Some((file, about.trim_start_matches(':')))
}

//! The kernel knows tasks and threads (K1-40, U4): who has started whom, who belongs together, and who waits for whose end, is a server's affair (docs/decisions/0012).

use std::path::Path;

use anyhow::{Result, ensure};

use crate::source::Source;
use crate::{Problems, tree};

/// The kernel, and what programs can say to it of tasks.
const KERNEL: &str = "kernel/";
const CONTRACT: [&str; 2] = ["abi/src/task.rs", "abi/src/calls.rs"];
/// Words of a system that has them. (A `group` is one of texts in the kernel: decision 18.)
const NOTIONS: [&str; 16] = [
    "child",
    "children",
    "fork",
    "job",
    "jobs",
    "orphan",
    "orphans",
    "parent",
    "parents",
    "pid",
    "ppid",
    "process",
    "processes",
    "session",
    "waitpid",
    "zombie",
];

pub fn check(root: &Path) -> Result<Problems> {
    let is_meant =
        |file: &&String| CONTRACT.contains(&file.as_str()) || file.starts_with(KERNEL) && tree::extension(file) == "rs";
    let files: Vec<String> = tree::files(root)?.iter().filter(is_meant).cloned().collect();
    ensure!(CONTRACT.iter().all(|file| files.iter().any(|one| one == file)), "the contract lies elsewhere");
    ensure!(files.len() > CONTRACT.len(), "the kernel lies elsewhere");
    Ok(files.iter().filter_map(|file| Some(of(file, &tree::text(root, file)?))).flatten().collect())
}

fn of(file: &str, text: &str) -> Problems {
    let source = Source::new(text);
    let words = source.code.iter().enumerate().flat_map(|(line, code)| words(code).into_iter().map(move |w| (line, w)));
    words
        .filter(|(_, word)| NOTIONS.contains(&word.as_str()))
        .map(|(line, word)| {
            format!("{file}:{}: `{word}`: what a process is, the process server says (K1-40, decision 12)", line + 1)
        })
        .collect()
}

/// What names consist of: of `FirstChild` and `first_child` the same.
fn words(code: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in code.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is one").extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notions_are_found_in_names_and_not_in_comments() {
        assert_eq!(
            of("a.rs", "let processor = here(); // its parent's process\nlet text = \"child\";\n"),
            Problems::new()
        );
        assert_eq!(
            of("a.rs", "struct Task {\n    first_child: u64,\n    parent: u64,\n}\nfn killProcess() {}\n").len(),
            3
        );
        assert_eq!(of("a.rs", "enum Call { ProcessFork }\n").len(), 2);
    }
}

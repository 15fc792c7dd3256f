//! Every check that `tests/guest/check` can do in the guest is one that a stage of the system tests asks for: a check that nobody runs
//! shows nothing.

use std::path::Path;

use anyhow::Result;

use crate::{Problems, tree};

const CHECKS: &str = "tests/guest/check/src/";
const STAGES: &str = "tests/system/src/stages/";

pub fn check(root: &Path) -> Result<Problems> {
    let files = tree::files(root)?;
    let of = |folder: &str| {
        let belongs = |file: &&String| file.starts_with(folder) && tree::extension(file) == "rs";
        files.iter().filter(belongs).filter_map(|file| Some((file, tree::text(root, file)?))).collect::<Vec<_>>()
    };
    let stages: String = of(STAGES).into_iter().map(|(_, text)| text).collect();
    let mut problems = Problems::new();
    for (file, text) in of(CHECKS) {
        for name in named(&text).filter(|name| !mentions(&stages, name)) {
            problems.push(format!(
                "{file}: no stage in {STAGES} asks for the check {name}; list it where its group is run"
            ));
        }
    }
    Ok(problems)
}

/// The names in the lists of checks.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let lists = text.split(": &[Check] =").skip(1).filter_map(|rest| rest.split_once("];").map(|(list, _)| list));
    // A name opens a pair; other brackets are calls.
    let is_pair = |list: &str, at: usize| !is_part(list[..at].chars().next_back());
    let pairs = lists.flat_map(move |list| {
        list.match_indices('(').filter(move |(at, _)| is_pair(list, *at)).map(move |(at, _)| &list[at + 1..])
    });
    pairs.filter_map(|pair| {
        let (name, rest) = pair.trim_start().strip_prefix('"')?.split_once('"')?;
        rest.trim_start().starts_with(',').then_some(name)
    })
}

fn is_part(c: Option<char>) -> bool {
    c.is_some_and(|c| c == '_' || c.is_alphanumeric())
}

/// Whether the word is there as a whole.
fn mentions(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !is_part(text[..at].chars().next_back()) && !is_part(text[at + name.len()..].chars().next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_lists_of_checks() {
        let text = "pub const CHECKS: &[Check] = &[(\"one\", one), (\n    \"two_more\",\n    || more(2, \"x\"),\n)];\nfn f() { (\"three\", 3); }";
        assert_eq!(named(text).collect::<Vec<_>>(), ["one", "two_more"]);
        assert!(named("const N: usize = 1;").next().is_none());
    }

    #[test]
    fn a_name_is_a_whole_word() {
        assert!(mentions("check x one_more", "one_more"));
        assert!(!mentions("check x one_more_thing, no_one_more", "one_more"));
    }
}

//! What files are called, and what they must not name.

use std::path::Path;

use anyhow::Result;

use crate::{Problems, tree};

/// A file is named by its idea; these name none.
const EMPTY_NAMES: [&str; 4] = ["util.rs", "misc.rs", "common.rs", "manager.rs"];

/// Places outside the project, which nobody who clones it has. Written so that this file does not hold them.
const ELSEWHERE: [&str; 2] = [concat!("..", "/shared"), concat!("seeds", "-digest")];

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for file in tree::files(root)? {
        let name = file.rsplit('/').next().unwrap_or(&file);
        if EMPTY_NAMES.contains(&name) {
            problems.push(format!("{file}: a name that says nothing; name the file by what is in it"));
        }
        let Some(text) = tree::text(root, &file) else {
            continue;
        };
        for (line, words) in text.lines().enumerate() {
            for place in ELSEWHERE.iter().filter(|place| words.contains(**place)) {
                problems.push(format!(
                    "{file}:{}: names '{place}', which is not in the project; say it here instead",
                    line + 1
                ));
            }
        }
    }
    Ok(problems)
}

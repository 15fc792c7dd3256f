//! A file is read in one sitting.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{Problems, tree};

const LIMIT: usize = 500;
const LIST: &str = "tests/house/long-files.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default, rename = "file")]
    files: Vec<Long>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    path: String,
    max: usize,
    reason: String,
}

pub fn check(root: &Path) -> Result<Problems> {
    let list: List = toml::from_str(&tree::text(root, LIST).unwrap_or_default()).context(LIST)?;
    let mut lengths = BTreeMap::new();
    for file in tree::files(root)? {
        // The front door is a shell script without an extension.
        if matches!(tree::extension(&file), "rs" | "S" | "sh") || file == "musubi" {
            lengths.insert(file.clone(), tree::text(root, &file).unwrap_or_default().lines().count());
        }
    }
    let mut problems: Problems = list.files.iter().filter_map(|long| excuse(long, lengths.get(&long.path))).collect();
    for (file, lines) in lengths {
        if lines > LIMIT && !list.files.iter().any(|long| long.path == file) {
            problems.push(format!(
                "{file}: {lines} lines; split it by idea, below {LIMIT}, or list it with a reason in {LIST}"
            ));
        }
    }
    Ok(problems)
}

/// An entry must be needed, and as tight as the file is.
fn excuse(long: &Long, lines: Option<&usize>) -> Option<String> {
    let Long { path, max, reason } = long;
    match lines {
        None => Some(format!("{LIST}: {path} does not exist; remove its entry")),
        Some(lines) if *lines <= LIMIT => Some(format!("{LIST}: {path} has {lines} lines now; remove its entry")),
        Some(lines) if lines > max => Some(format!("{path}: {lines} lines, but {LIST} allows {max}; make it shorter")),
        Some(lines) if lines * 10 < max * 9 => Some(format!("{LIST}: {path} has {lines} lines now; lower max to that")),
        Some(_) if reason.trim().is_empty() => {
            Some(format!("{LIST}: {path} has no reason; say why it is better whole"))
        }
        Some(_) => None,
    }
}

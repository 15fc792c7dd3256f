//! What every crate has: a page that says what it is, the workspace's lints and the workspace's licence.

use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::{Problems, tree};

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for member in tree::crates(root)? {
        let dir = &member.dir;
        let manifest: Table =
            tree::text(root, &format!("{dir}/Cargo.toml")).unwrap_or_default().parse().context(dir.clone())?;
        if tree::text(root, &format!("{dir}/README.md")).unwrap_or_default().trim().is_empty() {
            problems.push(format!("{dir}: has no README.md; say in 3 to 10 lines what it is"));
        }
        if !from_workspace(manifest.get("lints")) {
            problems.push(format!("{dir}/Cargo.toml: add `[lints]` with `workspace = true`"));
        }
        if !from_workspace(manifest.get("package").and_then(|package| package.get("license"))) {
            problems.push(format!("{dir}/Cargo.toml: add `license.workspace = true` to [package]"));
        }
    }
    Ok(problems)
}

fn from_workspace(value: Option<&Value>) -> bool {
    value.and_then(|value| value.get("workspace")).and_then(Value::as_bool) == Some(true)
}

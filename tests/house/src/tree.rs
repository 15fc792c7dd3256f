//! The tree under test: its files and its crates, with paths from its root and `/` between folders.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use cargo_metadata::{CargoOpt, DependencyKind, MetadataCommand, TargetKind};

/// Folders that hold products and no sources, where git does not tell us.
const PRODUCTS: [&str; 3] = [".git", "target", "out"];

/// Every file that belongs to the project: what git tracks or would add; without git, what is there.
pub fn files(root: &Path) -> Result<Vec<String>> {
    let mut files = git_files(root).map_or_else(|| walk(root), Ok)?;
    files.sort();
    files.dedup();
    Ok(files)
}

fn git_files(root: &Path) -> Option<Vec<String>> {
    root.join(".git").exists().then_some(())?;
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let names = String::from_utf8(listed.stdout).ok()?;
    // The index still names files that were just removed.
    Some(names.split('\0').filter(|name| !name.is_empty() && root.join(name).is_file()).map(String::from).collect())
}

fn walk(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && !PRODUCTS.contains(&name.as_str()) {
                folders.push(path);
            } else if kind.is_file() {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// The text of a file, or None where it is not text.
pub fn text(root: &Path, file: &str) -> Option<String> {
    String::from_utf8(fs::read(root.join(file)).ok()?).ok()
}

/// The extension, if the name has one.
pub fn extension(file: &str) -> &str {
    Path::new(file).extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// A member of the workspace.
#[derive(Debug)]
pub struct Crate {
    /// Its folder, which is what the rules know it by.
    pub dir: String,
    /// The folders of the members that it uses; crates from elsewhere are not listed.
    pub uses: Vec<Use>,
    /// The files that lib, programs and procedural macros begin at.
    pub roots: Vec<String>,
    /// The name that tests of this crate are reported under.
    pub short: String,
}

#[derive(Debug)]
pub struct Use {
    pub dir: String,
    /// Only its tests use it.
    pub by_tests: bool,
}

pub fn crates(root: &Path) -> Result<Vec<Crate>> {
    let root = root.canonicalize()?;
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_string()])
        .features(CargoOpt::AllFeatures)
        .exec()
        .context("cargo metadata")?;
    let inside = |path: &Path| -> Option<String> { Some(path.strip_prefix(&root).ok()?.to_str()?.to_string()) };
    let mut crates = Vec::new();
    for package in &metadata.packages {
        let dir = package.manifest_path.parent().context("a manifest has a folder")?;
        let uses = package.dependencies.iter().filter_map(|d| {
            let dir = inside(d.path.as_ref()?.as_std_path())?;
            Some(Use { dir, by_tests: d.kind == DependencyKind::Development })
        });
        let begins = |kind: &TargetKind| {
            matches!(kind, TargetKind::Lib | TargetKind::Bin | TargetKind::ProcMacro)
                || matches!(kind, TargetKind::StaticLib | TargetKind::RLib | TargetKind::CDyLib)
        };
        crates.push(Crate {
            dir: inside(dir.as_std_path()).context("a member outside the tree")?,
            uses: uses.collect(),
            roots: (package.targets.iter())
                .filter(|t| t.kind.iter().any(begins))
                .filter_map(|t| inside(t.src_path.as_std_path()))
                .collect(),
            short: package.name.strip_prefix("musubi-").unwrap_or(&package.name).to_string(),
        });
    }
    crates.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(crates)
}

/// The crate that a file belongs to: the one with the longest folder around it.
pub fn owner<'a>(crates: &'a [Crate], file: &str) -> Option<&'a Crate> {
    crates
        .iter()
        .filter(|c| file.strip_prefix(&c.dir).is_some_and(|rest| rest.starts_with('/')))
        .max_by_key(|c| c.dir.len())
}

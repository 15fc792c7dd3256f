//! The project with a piece of one file replaced, in a folder of its own: to see that somebody notices.

use crate::Workspace;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A piece of a file, and what is there instead.
#[derive(Clone, Copy, Debug)]
pub struct Edit {
    /// From the project's folder.
    pub file: &'static str,
    pub from: &'static str,
    pub to: &'static str,
}

impl Edit {
    /// # Errors
    /// The piece is not there exactly once.
    pub fn apply(&self, text: &str) -> Result<String> {
        let found = text.matches(self.from).count();
        ensure!(found == 1, "{} has this {found} times:\n{}", self.file, self.from);
        Ok(text.replacen(self.from, self.to, 1))
    }
}

impl Workspace {
    /// A copy with these edits and no others. There is one such folder: who wants the next one is done with this one. What was compiled for the one
    /// before and is the same is not compiled again.
    pub fn edited(&self, edits: &[&Edit]) -> Result<Workspace> {
        let copy = Workspace { top: self.results()?.join("edited"), ..self.clone() };
        let mut edited = BTreeMap::new();
        for edit in edits {
            let path = self.top.join(edit.file);
            let text = match edited.remove(Path::new(edit.file)) {
                Some(text) => text,
                None => fs::read_to_string(&path).with_context(|| path.display().to_string())?,
            };
            edited.insert(Path::new(edit.file), edit.apply(&text)?);
        }
        let mut files = BTreeSet::new();
        collect(&self.top, Path::new(""), &mut files)?;
        let mut before = BTreeSet::new();
        if copy.top.exists() {
            collect(&copy.top, Path::new(""), &mut before)?;
        }
        for gone in before.difference(&files) {
            fs::remove_file(copy.top.join(gone)).with_context(|| gone.display().to_string())?;
        }
        for file in files {
            let bytes = match edited.remove(file.as_path()) {
                Some(text) => text.into_bytes(),
                None => fs::read(self.top.join(&file)).with_context(|| file.display().to_string())?,
            };
            let to = copy.top.join(&file);
            // What is the same stays as old as it is.
            if fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&to, bytes).with_context(|| to.display().to_string())?;
        }
        Ok(copy)
    }
}

/// Files below a folder, but for what was built and what is git's; as paths from `top`.
fn collect(top: &Path, folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(top.join(folder)).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            collect(top, &path, files)?;
        } else if kind.is_file() {
            files.insert(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace(top: &Path) -> Workspace {
        Workspace { top: top.into(), cargo: "cargo".into(), rustc: "rustc".into() }
    }

    #[test]
    fn a_copy_has_one_edit_and_what_is_the_same_stays_as_old() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for (file, text) in [("core/a.rs", "one two"), ("core/b.rs", "one two"), ("target/debug/x", "")] {
            fs::create_dir_all(top.join(file).parent().unwrap()).unwrap();
            fs::write(top.join(file), text).unwrap();
        }
        let (first, second) =
            (Edit { file: "core/a.rs", from: "two", to: "three" }, Edit { file: "core/b.rs", from: "one", to: "" });
        let copy = workspace(top).edited(&[&first]).unwrap();
        let read = |file: &str| fs::read_to_string(copy.top().join(file)).unwrap();
        let time = |file: &str| fs::metadata(copy.top().join(file)).unwrap().modified().unwrap();
        assert_eq!((read("core/a.rs").as_str(), read("core/b.rs").as_str()), ("one three", "one two"));
        assert!(!copy.top().join("target").exists());

        fs::write(top.join("core/c.rs"), "").unwrap();
        let old = time("core/b.rs");
        workspace(top).edited(&[&first]).unwrap();
        assert_eq!(time("core/b.rs"), old);
        fs::remove_file(top.join("core/c.rs")).unwrap();
        workspace(top).edited(&[&second]).unwrap();
        assert_eq!((read("core/a.rs").as_str(), read("core/b.rs").as_str()), ("one two", " two"));
        assert!(!copy.top().join("core/c.rs").exists());
    }

    #[test]
    fn a_piece_that_is_not_there_once_is_an_error() {
        let edit = Edit { file: "a", from: "x", to: "y" };
        assert_eq!(edit.apply("axb").unwrap(), "ayb");
        assert!(edit.apply("ab").unwrap_err().to_string().contains("0 times"));
        assert!(edit.apply("axxb").unwrap_err().to_string().contains("2 times"));
    }
}

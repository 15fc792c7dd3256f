//! A folder for one machine: its pack, its pipes, its console log.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const PREFIX: &str = "musubi-";

/// Makes the folder; it goes when the value is dropped. A killed process drops nothing, so what such ones left
/// behind is removed here.
pub(crate) fn make() -> Result<TempDir> {
    let base = std::env::temp_dir();
    sweep(&base);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let made = tempfile::Builder::new().prefix(&prefix).tempdir_in(&base);
    made.with_context(|| format!("cannot make a folder in {}", base.display()))
}

fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(owner) else {
            continue;
        };
        if !Path::new("/proc").join(pid.to_string()).exists() {
            // Another user's, or another sweep was faster: nothing is lost by leaving it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that a folder's name says it belongs to.
fn owner(name: &str) -> Option<u32> {
    let (pid, random) = name.strip_prefix(PREFIX)?.split_once('-')?;
    if random.len() == 6 { pid.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_owner_and_other_names_do_not() {
        assert_eq!(owner("musubi-12-abcdef"), Some(12));
        assert_eq!(owner("musubi-notes-abcdef"), None);
        assert_eq!(owner("musubi-12"), None);
        let dir = make().unwrap();
        assert_eq!(owner(dir.path().file_name().unwrap().to_str().unwrap()), Some(std::process::id()));
    }

    #[test]
    fn a_dead_owners_folder_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let (dead, mine) = (base.path().join("musubi-999999999-abcdef"), base.path().join("musubi-1-abcdef"));
        fs::create_dir(&dead).unwrap();
        fs::create_dir(&mine).unwrap();
        sweep(base.path());
        assert!(!dead.exists() && mine.exists());
    }
}

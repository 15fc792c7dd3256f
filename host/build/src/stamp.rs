//! Whether anything has changed since the last build. cargo finds that out too, but needs half a second for each of
//! our targets; looking at every source's time and length needs a few milliseconds.

use crate::Built;
use anyhow::Result;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// All that the kernel and the programs are made of.
const SOURCES: [&str; 12] = [
    "Cargo.toml",
    "Cargo.lock",
    ".cargo",
    "targets",
    "abi",
    "core",
    "kernel",
    "sdk",
    "interfaces",
    "servers",
    "apps",
    "tests/guest",
];
const STAMP: &str = "built";

/// A number that changes with every change of a source or of the compiler.
pub(crate) fn fingerprint(top: &Path, rustc: &Path) -> u64 {
    let mut files = Vec::new();
    for source in SOURCES {
        collect(&top.join(source), &mut files);
    }
    files.push(rustc.to_path_buf());
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        state(&file).hash(&mut hasher);
        file.hash(&mut hasher);
    }
    hasher.finish()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_file() {
        files.push(path.to_path_buf());
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_name() != "target" {
            collect(&entry.path(), files);
        }
    }
}

/// Length and time of last change of a file, if it is there.
fn state(file: &Path) -> Option<(u64, u128)> {
    let meta = fs::metadata(file).ok()?;
    let time = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((meta.len(), time.as_nanos()))
}

/// What the last build made, if it was from the same sources and is still as it was.
pub(crate) fn unchanged(results: &Path, sources: u64) -> Option<Built> {
    let stamp = fs::read_to_string(results.join(STAMP)).ok()?;
    let mut lines = stamp.lines();
    if lines.next()? != format!("{sources:016x}") {
        return None;
    }
    let mut programs = Vec::new();
    let mut kernel = None;
    for line in lines {
        let mut fields = line.splitn(3, '\t');
        let (name, was, path) = (fields.next()?, fields.next()?, PathBuf::from(fields.next()?));
        if format!("{:?}", state(&path)?) != was {
            return None;
        }
        if name.is_empty() { kernel = Some(path) } else { programs.push((name.into(), path)) }
    }
    Some(Built { kernel: kernel?, programs })
}

/// Notes what was built from which sources.
pub(crate) fn remember(results: &Path, sources: u64, built: &Built) -> Result<()> {
    let mut stamp = format!("{sources:016x}\n");
    let kernel = [(String::new(), built.kernel.clone())];
    for (name, path) in kernel.iter().chain(&built.programs) {
        let Some(now) = state(path) else { continue };
        stamp.push_str(&format!("{name}\t{now:?}\t{}\n", path.display()));
    }
    // Renamed into place: another build may be reading it.
    let mut file = tempfile::NamedTempFile::new_in(results)?;
    file.write_all(stamp.as_bytes())?;
    file.persist(results.join(STAMP))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_or_product_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        fs::create_dir_all(top.join("core/acl/src")).unwrap();
        let source = top.join("core/acl/src/lib.rs");
        fs::write(&source, "1").unwrap();
        let built = Built { kernel: top.join("k"), programs: vec![("shell".into(), top.join("s h"))] };
        fs::write(&built.kernel, "k").unwrap();
        fs::write(&built.programs[0].1, "s").unwrap();

        let before = fingerprint(top, Path::new("/bin/sh"));
        remember(top, before, &built).unwrap();
        assert_eq!(fingerprint(top, Path::new("/bin/sh")), before);
        assert_eq!(unchanged(top, before), Some(built.clone()));
        fs::write(&source, "22").unwrap();
        let after = fingerprint(top, Path::new("/bin/sh"));
        assert_ne!(after, before);
        assert_eq!(unchanged(top, after), None);
        fs::write(top.join("core/acl/src/new.rs"), "").unwrap();
        assert_ne!(fingerprint(top, Path::new("/bin/sh")), after);
        fs::write(&built.programs[0].1, "ss").unwrap();
        assert_eq!(unchanged(top, before), None);
    }

    #[test]
    fn without_a_kernel_there_is_nothing_to_reuse() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(STAMP), "0000000000000001\n").unwrap();
        assert_eq!(unchanged(dir.path(), 1), None);
    }
}

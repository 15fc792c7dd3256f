//! `--put HOSTFILE[:GUESTPATH]`.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file of the host that goes into the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    pub host: PathBuf,
    pub guest: Vec<u8>,
}

impl Put {
    /// Parses the argument as typed; the guest's path is the host's as typed unless one is given. Names may have
    /// colons in them: the longest part before a colon (or the whole) that is a file of the host is the host's.
    pub fn parse(argument: &OsStr) -> Result<Self> {
        Self::parse_with(argument, |path| path.exists())
    }

    fn parse_with(argument: &OsStr, exists: impl Fn(&Path) -> bool) -> Result<Self> {
        let bytes = argument.as_bytes();
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        if exists(&path(bytes)) {
            return Ok(Self { host: path(bytes), guest: bytes.to_vec() });
        }
        let colons = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
        for at in colons {
            let (host, guest) = (&bytes[..at], &bytes[at + 1..]);
            if exists(&path(host)) {
                ensure!(!guest.is_empty(), "--put {}: no guest path after the colon", argument.display());
                return Ok(Self { host: path(host), guest: guest.to_vec() });
            }
        }
        let host = bytes.split(|byte| *byte == b':').next().unwrap_or(bytes);
        bail!("--put {}: there is no file {}", argument.display(), path(host).display())
    }

    /// Reads the file: its bytes, whether it may be executed, and its modification time.
    pub fn read(&self) -> Result<(Vec<u8>, bool, i64)> {
        let shown = || format!("--put {}", self.host.display());
        let meta = std::fs::metadata(&self.host).with_context(shown)?;
        ensure!(!meta.is_dir(), "--put {}: is a directory", self.host.display());
        // A pipe or a device may have no end; the empty file that everybody has is a device, too.
        let is_file = meta.is_file() || self.host == Path::new("/dev/null");
        ensure!(is_file, "--put {}: is a pipe or a device, not a file", self.host.display());
        let data = std::fs::read(&self.host).with_context(shown)?;
        Ok((data, meta.mode() & 0o111 != 0, meta.mtime()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(argument: &str, files: &[&str]) -> Result<(String, String)> {
        let put = Put::parse_with(OsStr::new(argument), |path| files.iter().any(|f| Path::new(f) == path))?;
        Ok((put.host.display().to_string(), String::from_utf8(put.guest).unwrap()))
    }

    fn pair(host: &str, guest: &str) -> (String, String) {
        (host.into(), guest.into())
    }

    #[test]
    fn the_guest_path_is_as_typed_or_as_given() {
        assert_eq!(parse("/bin/busybox", &["/bin/busybox"]).unwrap(), pair("/bin/busybox", "/bin/busybox"));
        assert_eq!(parse("../a b", &["../a b"]).unwrap(), pair("../a b", "../a b"));
        assert_eq!(parse("a:bin/x", &["a"]).unwrap(), pair("a", "bin/x"));
    }

    #[test]
    fn colons_in_names() {
        assert_eq!(parse("a:b", &["a:b", "a"]).unwrap(), pair("a:b", "a:b"));
        assert_eq!(parse("a:b:c", &["a:b", "a"]).unwrap(), pair("a:b", "c"));
        assert_eq!(parse("a:b:c", &["a"]).unwrap(), pair("a", "b:c"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert!(parse("a:b", &[]).unwrap_err().to_string().contains("no file a"));
        assert!(parse("a:", &["a"]).unwrap_err().to_string().contains("no guest path"));
    }

    #[test]
    fn the_mode_of_the_host_says_what_may_be_executed() {
        let me = Put { host: std::env::current_exe().unwrap(), guest: b"me".to_vec() };
        let (data, executable, mtime) = me.read().unwrap();
        assert!(executable && mtime > 0 && data.starts_with(b"\x7fELF"));
    }

    #[test]
    fn only_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        let refused = |host: &Path| {
            let read = Put { host: host.into(), guest: b"x".to_vec() }.read();
            read.expect_err("it must be refused").to_string()
        };
        assert!(refused(Path::new("/")).contains("is a directory"));
        assert!(refused(Path::new("/dev/zero")).contains("is a pipe or a device"));
        // To open it would wait for a writer.
        assert!(refused(&fifo).contains("is a pipe or a device"));
        assert_eq!(Put { host: "/dev/null".into(), guest: b"x".to_vec() }.read().unwrap().0, b"");
    }
}

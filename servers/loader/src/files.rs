//! The members of the boot pack by name. A file's section becomes readable for everybody when somebody asks for it.

use crate::manifest::Manifest;
use alloc::vec::Vec;
use musubi::abi::boot::FileRecord;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::NAME_LEN;
use musubi::interfaces::files::{FileInfo, Files, RECORD};
use musubi::rt::{Mutex, section};
use musubi::{AclEntry, Caller, Error, Rights};
use zerocopy::IntoBytes;

pub struct FileTable {
    files: Vec<(&'static [u8], FileRecord)>,
    /// Which files everybody may read already.
    open: Mutex<Vec<bool>>,
}

impl FileTable {
    pub fn new(manifest: &Manifest, own_text: u64) -> FileTable {
        let own = AclEntry {
            principal: principal::ANY,
            rights: (Rights::READ | Rights::CHANGE_ACL).bits(),
            id: 0,
            text: own_text,
        };
        // This program works on its callers' threads, so its rights must not depend on the thread.
        for (name, file) in manifest.files.iter().filter(|f| f.1.section != 0) {
            let _ = section::grant(file.section, &own);
            // For people; the end of a long name says more than its beginning.
            let _ = section::name(file.section, &name[name.len().saturating_sub(NAME_LEN)..]);
        }
        FileTable { files: manifest.files.clone(), open: Mutex::new(alloc::vec![false; manifest.files.len()]) }
    }

    /// The file of a name. The shell starts in `/`, so `/bin/x` and `./bin/x` name `bin/x`, too, and a file put in as
    /// `/bin/x` is found by `bin/x` if there is no other.
    fn find(&self, path: &[u8]) -> Option<usize> {
        let exactly = |name: &[u8]| self.files.iter().position(|f| f.0 == name);
        exactly(path).or_else(|| self.files.iter().position(|f| plain(f.0) == plain(path)))
    }

    /// A file's number and bytes, for the loader itself.
    pub fn bytes(&self, path: &[u8]) -> Option<(usize, FileRecord, &'static [u8])> {
        let number = self.find(path)?;
        let record = self.files[number].1;
        Some((number, record, section::view(record.section, record.len)?))
    }

    /// Lets everybody read a file.
    pub fn share(&self, number: usize) -> Result<(), Error> {
        let mut open = self.open.lock();
        let section = self.files[number].1.section;
        if !open[number] && section != 0 {
            let all = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
            section::grant(section, &all)?;
        }
        open[number] = true;
        Ok(())
    }

    fn info(&self, number: usize) -> FileInfo {
        let record = &self.files[number].1;
        FileInfo { section: record.section, len: record.len, mtime: record.mtime, flags: record.flags }
    }
}

/// A path without what says nothing where there is one directory.
fn plain(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
        path = rest;
    }
    path
}

impl Files for FileTable {
    fn lookup(&self, _caller: &Caller, path: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error> {
        let number = self.find(path).ok_or(Error::NotFound)?;
        self.share(number)?;
        record.copy_from_slice(self.info(number).as_bytes());
        Ok(())
    }

    fn list(&self, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error> {
        let number = usize::try_from(index).ok().filter(|&i| i < self.files.len()).ok_or(Error::NotFound)?;
        record.copy_from_slice(self.info(number).as_bytes());
        let full = self.files[number].0;
        let len = full.len().min(name.len());
        name[..len].copy_from_slice(&full[..len]);
        Ok(full.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn leading_dots_and_slashes_say_nothing() {
        assert_eq!(plain(b"/./bin/x"), b"bin/x");
        assert_eq!(plain(b".hidden"), b".hidden");
    }
}

//! The members of the boot pack by name: what is started before there is a file server, which then gets them all.

use crate::manifest::Manifest;
use alloc::vec::Vec;
use musubi::abi::boot::{FileRecord, flag};
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::NAME_LEN;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::pack::{Pack, PackInfo, RECORD};
use musubi::rt::{fault, section};
use musubi::{AclEntry, Caller, Error, Rights};
use zerocopy::IntoBytes;

/// A member, as it is called there.
#[derive(Clone, Copy)]
pub struct Member {
    pub number: usize,
    pub name: &'static [u8],
    pub bytes: &'static [u8],
    /// By `--put`.
    pub is_put: bool,
}

pub struct PackTable {
    files: Vec<(&'static [u8], FileRecord)>,
}

impl PackTable {
    pub fn new(manifest: &Manifest, own_text: u64) -> PackTable {
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
        PackTable { files: manifest.files.clone() }
    }

    /// A file by its name.
    pub fn find(&self, path: &[u8]) -> Option<Member> {
        let exactly = |name: &[u8]| self.files.iter().position(|f| f.0 == name);
        let number = exactly(path).or_else(|| self.files.iter().position(|f| plain(f.0) == plain(path)))?;
        self.member(number)
    }

    /// The same by where it lies.
    pub fn at(&self, base: u64) -> Option<Member> {
        let number = self.files.iter().position(|f| f.1.section == base && base != 0)?;
        self.member(number)
    }

    fn member(&self, number: usize) -> Option<Member> {
        let (name, record) = &self.files[number];
        let is_put = record.flags & u64::from(flag::PUT) != 0;
        Some(Member { number, name, bytes: section::view(record.section, record.len)?, is_put })
    }
}

/// A path without what says nothing where there is one directory.
fn plain(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
        path = rest;
    }
    path
}

impl Pack for PackTable {
    fn take(&self, caller: &Caller, index: u64, record: &mut [u8; RECORD], name: &mut [u8]) -> Result<u64, Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let (full, file) =
            usize::try_from(index).ok().and_then(|number| self.files.get(number)).ok_or(Error::NotFound)?;
        if file.section != 0 {
            let all = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
            section::grant(file.section, &all)?;
        }
        let info = PackInfo { section: file.section, len: file.len, mtime: file.mtime, flags: file.flags };
        fault::copy_out(record, info.as_bytes())?;
        let len = full.len().min(name.len());
        fault::copy_out(name, &full[..len])?;
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

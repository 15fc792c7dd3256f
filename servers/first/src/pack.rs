//! The members of the boot pack, each a section: for the file server, which gets them all.

use alloc::vec::Vec;
use instance::manifest::Manifest;
use musubi::abi::boot::FileRecord;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::NAME_LEN;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::pack::{Pack, PackInfo, RECORD};
use musubi::rt::{fault, section};
use musubi::{AclEntry, Caller, Error, Rights};
use zerocopy::IntoBytes;

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

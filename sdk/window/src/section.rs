//! Sections that are made here for foreign programs.

use rt::abi::calls::stub;
use rt::abi::rights::principal;
use rt::abi::section::{flag, kind};
use rt::{AclEntry, Error, Rights, Trap};

use crate::memory;

/// A section without Rust objects. The personality reaches it on any thread; it stays when this value goes.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    base: u64,
    reserve: u64,
}

impl Section {
    /// A new section of `len` bytes of zeroes that may grow to `reserve`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn create(len: u64, reserve: u64) -> Result<Section, Error> {
        let base = stub::section_create(&Trap, len, reserve, kind::DATA, flag::ANY_PRINCIPAL, 0, 0)?;
        Ok(Section { base, reserve })
    }

    /// A copy-on-write clone.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn clone_of(original: &Section) -> Result<Section, Error> {
        let base = rt::section::clone_at(original.base, flag::ANY_PRINCIPAL, 0, 0)?;
        Ok(Section { base, reserve: original.reserve })
    }

    /// A copy-on-write clone of what begins at that address, whoever's it is. It is not written by this value.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn snapshot(of: u64) -> Result<Section, Error> {
        let base = rt::section::clone_at(of, flag::ANY_PRINCIPAL, 0, 0)?;
        Ok(Section { base, reserve: 0 })
    }

    /// A section of a played machine: on a host there is no kernel that would make one, and nothing reads it here.
    #[cfg(not(target_os = "musubi"))]
    #[must_use]
    pub fn played(base: u64, reserve: u64) -> Section {
        Section { base, reserve }
    }

    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    #[must_use]
    pub fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Makes it a section of code, which nobody can write any more.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn seal(&self) -> Result<(), Error> {
        stub::section_seal(&Trap, self.base).map(drop)
    }

    /// # Errors
    /// `TooBig` above what was reserved, or what the kernel answers.
    pub fn resize(&self, len: u64) -> Result<(), Error> {
        stub::section_resize(&Trap, self.base, len).map(drop)
    }

    /// # Errors
    /// What the kernel answers.
    pub fn delete(&self) -> Result<(), Error> {
        rt::section::delete(self.base)
    }

    /// # Errors
    /// What the kernel answers.
    pub fn name(&self, name: &[u8]) -> Result<(), Error> {
        rt::section::name(self.base, name)
    }

    /// Lets the threads of `task` in `text` use it.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn allow(&self, task: u64, text: u64, rights: Rights) -> Result<(), Error> {
        let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: task, text };
        rt::section::grant(self.base, &entry)
    }

    /// Lets `task` pay for it. It ends with the task.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn give(&self, task: u64) -> Result<(), Error> {
        rt::section::give(self.base, task)
    }

    /// Writes bytes at an offset.
    ///
    /// # Errors
    /// `BadAddress` if they do not fit.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        memory::put(self.at(offset, bytes.len() as u64)?, bytes)
    }

    /// Copies `len` bytes from an address of the single space to an offset.
    ///
    /// # Errors
    /// `BadAddress` if they do not fit, or do not lie in the single space.
    pub fn load(&self, offset: u64, from: u64, len: u64) -> Result<(), Error> {
        memory::check_space(from, len)?;
        memory::copy(self.at(offset, len)?, from, len)
    }

    /// The place of `[offset, offset + len)`.
    fn at(&self, offset: u64, len: u64) -> Result<memory::Place, Error> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.reserve);
        if fits { Ok(memory::Place::within(self, offset)) } else { Err(Error::BadAddress) }
    }
}

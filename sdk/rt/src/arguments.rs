//! Pointers that come with a call, checked before the body of a method runs.
//!
//! A caller's pointer is an allegation. It is believed if it lies in the argument section that the kernel names for the
//! binding, or if the kernel says that the caller itself may do the access (so nobody can make a server touch what only
//! the server may touch) and that the server may, too (so a bad pointer is an error, not a fault).

use abi::{Error, Rights};

use crate::Caller;
use crate::section::{Who, may};

/// The most pointers that six words hold.
const MAX: usize = 3;

/// The pointers of one call.
#[derive(Debug)]
pub struct Arguments<'c> {
    caller: &'c Caller,
    ranges: [(u64, u64, bool); MAX],
    count: usize,
}

impl<'c> Arguments<'c> {
    #[must_use]
    pub fn new(caller: &'c Caller) -> Arguments<'c> {
        Arguments { caller, ranges: [(0, 0, false); MAX], count: 0 }
    }

    /// # Errors
    /// `Refused` if the range is not the caller's to read, or overlaps one that is to be written.
    pub fn read(&mut self, address: u64, len: u64) -> Result<&'c [u8], Error> {
        if len == 0 {
            return Ok(&[]);
        }
        self.check(address, len, false)?;
        // SAFETY: checked: this domain may read the range, and no exclusive slice of this call overlaps it. The caller's
        // other threads may still write it: bytes have no invalid values, and servers copy before they decide.
        Ok(unsafe { core::slice::from_raw_parts(address as *const u8, len as usize) })
    }

    /// # Errors
    /// `Refused` if the range is not the caller's to write, or overlaps another argument.
    pub fn write(&mut self, address: u64, len: u64) -> Result<&'c mut [u8], Error> {
        if len == 0 {
            return Ok(&mut []);
        }
        self.check(address, len, true)?;
        // SAFETY: checked: this domain may read and write the range, and no other slice of this call overlaps it.
        Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut u8, len as usize) })
    }

    /// # Errors
    /// As [`Arguments::read`].
    pub fn read_array<const N: usize>(&mut self, address: u64) -> Result<&'c [u8; N], Error> {
        self.read(address, N as u64)?.try_into().map_err(|_| Error::Refused)
    }

    /// # Errors
    /// As [`Arguments::write`].
    pub fn write_array<const N: usize>(&mut self, address: u64) -> Result<&'c mut [u8; N], Error> {
        self.write(address, N as u64)?.try_into().map_err(|_| Error::Refused)
    }

    /// # Errors
    /// As [`Arguments::read`], and if it is not UTF-8.
    pub fn text(&mut self, address: u64, len: u64) -> Result<&'c str, Error> {
        core::str::from_utf8(self.read(address, len)?).map_err(|_| Error::Refused)
    }

    fn check(&mut self, address: u64, len: u64, write: bool) -> Result<(), Error> {
        let end = address.checked_add(len).filter(|_| isize::try_from(len).is_ok()).ok_or(Error::Refused)?;
        if address == 0 || self.count == MAX {
            return Err(Error::Refused);
        }
        let lent = self.caller.args_len > 0
            && address >= self.caller.args_base
            && end <= self.caller.args_base.saturating_add(self.caller.args_len);
        let rights = if write { Rights::READ | Rights::WRITE } else { Rights::READ };
        let allowed = || may(address, len, rights, Who::Caller) && may(address, len, rights, Who::Own);
        if !lent && !allowed() {
            return Err(Error::Refused);
        }
        let overlaps = |&(from, to, writes): &(u64, u64, bool)| (write || writes) && address < to && from < end;
        if self.ranges[..self.count].iter().any(overlaps) {
            return Err(Error::Refused);
        }
        self.ranges[self.count] = (address, end, write);
        self.count += 1;
        Ok(())
    }
}

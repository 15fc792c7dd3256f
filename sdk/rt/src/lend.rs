//! Memory lent to a called program. A binding's argument section is the only memory that both texts may use without a
//! change of rights; here it is shared out to the calls that are under way. The records are kept outside of it, where
//! the called program cannot reach them.

use abi::Error;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use crate::sync::{Condition, Mutex};

/// Loans begin at multiples of this, so that no two share a cache line.
const UNIT: u64 = 64;

/// The argument section of one binding.
#[derive(Debug)]
pub struct Loans {
    base: u64,
    len: u64,
    free: Mutex<Free>,
    returned: Condition,
}

#[derive(Debug, Default)]
struct Free {
    /// Ranges (offset, length), by offset, never touching each other.
    ranges: Vec<(u64, u64)>,
    /// Bytes copied to lend what lay elsewhere, and back: of the loans that are over.
    copied: u64,
}

impl Loans {
    pub(crate) fn new(base: u64, len: u64) -> Loans {
        let ranges = if len > 0 { alloc::vec![(0, len / UNIT * UNIT)] } else { Vec::new() };
        Loans { base, len, free: Mutex::new(Free { ranges, copied: 0 }), returned: Condition::new() }
    }

    pub(crate) fn copied(&self) -> u64 {
        self.free.lock().copied
    }

    fn contains(&self, bytes: &[u8]) -> bool {
        let from = bytes.as_ptr() as u64;
        from >= self.base && from + bytes.len() as u64 <= self.base + self.len
    }

    pub(crate) fn alloc(&self, len: usize) -> Result<Loan<'_>, Error> {
        let units = self.units(len)?;
        let offset = take(&mut self.free.lock().ranges, units).ok_or(Error::Busy)?;
        Ok(Loan { loans: self, offset, len, copied: 0 })
    }

    /// As `alloc`, but waits for other threads' calls to give memory back.
    fn alloc_waiting(&self, len: usize) -> Result<Loan<'_>, Error> {
        let units = self.units(len)?;
        let mut free = self.free.lock();
        loop {
            if let Some(offset) = take(&mut free.ranges, units) {
                return Ok(Loan { loans: self, offset, len, copied: 0 });
            }
            self.returned.wait(&mut free, u64::MAX)?;
        }
    }

    fn units(&self, len: usize) -> Result<u64, Error> {
        let units = (len as u64).max(1).checked_next_multiple_of(UNIT).ok_or(Error::TooBig)?;
        if units > self.len / UNIT * UNIT { Err(Error::TooBig) } else { Ok(units) }
    }

    pub(crate) fn lend<'a>(&'a self, bytes: &'a [u8]) -> Result<Lent<'a>, Error> {
        if bytes.is_empty() || self.contains(bytes) {
            return Ok(Lent::as_is(bytes));
        }
        let mut copy = self.alloc_waiting(bytes.len())?;
        copy.fill_from(bytes);
        Ok(Lent { address: copy.address(), len: bytes.len() as u64, _bytes: bytes, _copy: Some(copy) })
    }

    pub(crate) fn lend_mut<'a>(&'a self, bytes: &'a mut [u8]) -> Result<LentMut<'a>, Error> {
        if bytes.is_empty() || self.contains(bytes) {
            return Ok(LentMut::as_is(bytes));
        }
        let mut copy = self.alloc_waiting(bytes.len())?;
        copy.fill_from(bytes);
        Ok(LentMut { address: copy.address(), bytes, copy: Some(copy) })
    }
}

fn take(free: &mut Vec<(u64, u64)>, len: u64) -> Option<u64> {
    let at = free.iter().position(|range| range.1 >= len)?;
    let (offset, whole) = free[at];
    if whole == len {
        free.remove(at);
    } else {
        free[at] = (offset + len, whole - len);
    }
    Some(offset)
}

fn give_back(free: &mut Vec<(u64, u64)>, offset: u64, len: u64) {
    let at = free.partition_point(|range| range.0 < offset);
    let mut merged = (offset, len);
    if at < free.len() && merged.0 + merged.1 == free[at].0 {
        merged.1 += free.remove(at).1;
    }
    if at > 0 && free[at - 1].0 + free[at - 1].1 == merged.0 {
        free[at - 1].1 += merged.1;
    } else {
        free.insert(at, merged);
    }
}

/// A piece of the argument section, given back when this value goes.
#[derive(Debug)]
pub struct Loan<'a> {
    loans: &'a Loans,
    offset: u64,
    len: usize,
    copied: u64,
}

impl Loan<'_> {
    fn fill_from(&mut self, bytes: &[u8]) {
        self.copied += bytes.len() as u64;
        self.copy_from_slice(bytes);
    }

    fn copy_to(&mut self, bytes: &mut [u8]) {
        self.copied += bytes.len() as u64;
        bytes.copy_from_slice(self);
    }

    /// Its address, the same in the called program.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.loans.base + self.offset
    }
}

impl Deref for Loan<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the argument section, which lives as long as the binding that `loans` belongs to,
        // and is lent to nobody else in this program. What the called program does to it are bytes like others.
        unsafe { core::slice::from_raw_parts(self.address() as *const u8, self.len) }
    }
}

impl DerefMut for Loan<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and this value is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.address() as *mut u8, self.len) }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let units = (self.len as u64).max(1).next_multiple_of(UNIT);
        {
            let mut free = self.loans.free.lock();
            give_back(&mut free.ranges, self.offset, units);
            free.copied += self.copied;
        }
        self.loans.returned.notify_all();
    }
}

/// Bytes lent for reading.
#[derive(Debug)]
pub struct Lent<'a> {
    address: u64,
    len: u64,
    _bytes: &'a [u8],
    _copy: Option<Loan<'a>>,
}

impl<'a> Lent<'a> {
    pub(crate) fn as_is(bytes: &'a [u8]) -> Lent<'a> {
        Lent { address: bytes.as_ptr() as u64, len: bytes.len() as u64, _bytes: bytes, _copy: None }
    }

    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a word of the call, not a container")]
    pub fn len(&self) -> u64 {
        self.len
    }
}

/// Bytes lent for writing.
#[derive(Debug)]
pub struct LentMut<'a> {
    address: u64,
    bytes: &'a mut [u8],
    copy: Option<Loan<'a>>,
}

impl<'a> LentMut<'a> {
    pub(crate) fn as_is(bytes: &'a mut [u8]) -> LentMut<'a> {
        LentMut { address: bytes.as_ptr() as u64, bytes, copy: None }
    }

    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a word of the call, not a container")]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Takes over what the called program wrote.
    pub fn finish(self) {
        if let Some(mut copy) = self.copy {
            copy.copy_to(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loans_come_back_whole_in_any_order() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::new(memory.as_ptr() as u64, 4096);
        let (a, b, c) = (loans.alloc(64).unwrap(), loans.alloc(1000).unwrap(), loans.alloc(1).unwrap());
        assert!(loans.alloc(4000).is_err());
        drop(b);
        drop(a);
        drop(c);
        assert_eq!(loans.free.lock().ranges, [(0, 4096)]);
        assert_eq!(loans.alloc(4097).unwrap_err(), Error::TooBig);
        assert_eq!(loans.alloc(4096).unwrap().len(), 4096);
    }

    #[test]
    fn what_is_copied_is_counted_and_nothing_else() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::new(memory.as_ptr() as u64, 4096);
        let mut own = [7u8; 100];
        drop(loans.lend(&own).unwrap());
        assert_eq!(loans.copied(), 100);
        loans.lend_mut(&mut own).unwrap().finish();
        assert_eq!(loans.copied(), 300);
        let mut there = loans.alloc(100).unwrap();
        drop(loans.lend(&there).unwrap());
        loans.lend_mut(&mut there).unwrap().finish();
        assert_eq!(loans.copied(), 300);
    }
}

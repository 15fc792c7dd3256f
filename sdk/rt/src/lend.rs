//! Memory lent to a called program. A binding's argument section is the only memory that both texts may use without a
//! change of rights; here it is shared out to the calls that are under way. The records are kept outside of it, where
//! the called program cannot reach them.

use abi::Error;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

use crate::sync::{Condition, Mutex};

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub times: u64,
    pub bytes: u64,
}

impl Copied {
    fn add(&mut self, times: u64, bytes: u64) {
        self.times += times;
        self.bytes += bytes;
    }
}

/// Loans begin at multiples of this, so that no two share a cache line.
const UNIT: u64 = 64;

/// The argument section of one binding.
#[derive(Debug)]
pub struct Loans {
    base: u64,
    /// What begins up to here behind the base, and ends there, is passed as it is, and nothing else is to be done for it.
    reach: u64,
    /// The same, and something is: it is lent with a question.
    lies: u64,
    /// A multiple of the unit.
    len: u64,
    free: Mutex<Free>,
    returned: Condition,
}

#[derive(Debug, Default)]
struct Free {
    /// Ranges (offset, length), by offset, never touching each other.
    ranges: Vec<(u64, u64)>,
    /// Threads that wait for more: nobody enters the kernel to wake none.
    waiting: u32,
    /// To lend what lay elsewhere, and back: of the loans that are over.
    copied: Copied,
}

impl Loans {
    pub(crate) fn new(base: u64, len: u64) -> Loans {
        let len = len / UNIT * UNIT;
        let ranges = if len > 0 { alloc::vec![(0, len)] } else { Vec::new() };
        Loans {
            base,
            reach: len,
            lies: len,
            len,
            free: Mutex::new(Free { ranges, ..Free::default() }),
            returned: Condition::new(),
        }
    }

    /// Of calls that pass memory as it is, wherever it lies: nothing is lent.
    pub(crate) fn none() -> Loans {
        Loans { reach: u64::MAX, lies: u64::MAX, ..Loans::new(0, 0) }
    }

    /// Of questions, which lend what they point to: all that is passed goes the longer way.
    pub(crate) fn of_questions(base: u64, len: u64) -> Loans {
        Loans { reach: 0, ..Loans::new(base, len) }
    }

    pub(crate) fn copied(&self) -> Copied {
        self.free.lock().copied
    }

    /// Whether a slice can be passed as it is, without anything else.
    #[inline(always)]
    pub(crate) fn reaches(&self, slice: &Slice) -> bool {
        self.is_within(slice, self.reach)
    }

    #[inline(always)]
    fn is_within(&self, slice: &Slice, reach: u64) -> bool {
        let offset = slice.address.wrapping_sub(self.base);
        offset <= reach && slice.len as u64 <= reach - offset
    }

    pub(crate) fn alloc(&self, len: usize) -> Result<Loan<'_>, Error> {
        let units = self.units(len)?;
        let offset = take(&mut self.free.lock().ranges, units).ok_or(Error::Busy)?;
        Ok(Loan { loans: self, offset, len, copied: Copied::default() })
    }

    /// As `alloc`, but waits for other threads' calls to give memory back.
    fn alloc_waiting(&self, len: usize) -> Result<Loan<'_>, Error> {
        let units = self.units(len)?;
        let mut free = self.free.lock();
        loop {
            if let Some(offset) = take(&mut free.ranges, units) {
                return Ok(Loan { loans: self, offset, len, copied: Copied::default() });
            }
            free.waiting += 1;
            let outcome = self.returned.wait(&mut free, u64::MAX);
            free.waiting -= 1;
            outcome?;
        }
    }

    fn units(&self, len: usize) -> Result<u64, Error> {
        let units = (len as u64).max(1).checked_next_multiple_of(UNIT).ok_or(Error::TooBig)?;
        if units > self.len { Err(Error::TooBig) } else { Ok(units) }
    }

    fn copies(&self, slice: &Slice) -> bool {
        slice.len > 0 && !self.is_within(slice, self.lies)
    }

    /// Copies those of `slices` that cannot be passed as they are. All copies are one loan: two threads that each had a part and
    /// waited for the rest would wait for ever, and so would one whose slices do not fit at once.
    fn copy_in<'a>(
        &'a self,
        words: &mut [u64; 6],
        slices: &[Slice],
        alloc: impl FnOnce(&'a Loans, usize) -> Result<Loan<'a>, Error>,
    ) -> Result<Option<Loan<'a>>, Error> {
        let padded = |slice: &Slice| slice.len.checked_next_multiple_of(UNIT as usize);
        let mut whole = Some(0usize);
        for slice in slices.iter().filter(|slice| self.copies(slice)) {
            whole = whole.and_then(|sum| sum.checked_add(padded(slice)?));
        }
        let whole = whole.ok_or(Error::TooBig)?;
        if whole == 0 {
            return Ok(None);
        }
        let mut loan = alloc(self, whole)?;
        let mut at = 0;
        for slice in slices.iter().filter(|slice| self.copies(slice)) {
            words[slice.word] = loan.address() + at as u64;
            loan.copied.add(1, slice.len as u64);
            loan[at..at + slice.len].copy_from_slice(slice.bytes());
            at += slice.len.next_multiple_of(UNIT as usize);
        }
        Ok(Some(loan))
    }

    /// Copies those of `slices` that cannot be passed as they are, lets `call` use the copies' addresses, and takes over
    /// what it wrote there if it went well.
    pub(crate) fn copying<T>(
        &self,
        words: &mut [u64; 6],
        slices: &mut [Slice],
        call: impl FnOnce(&[u64; 6]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let Some(mut loan) = self.copy_in(words, slices, Loans::alloc_waiting)? else { return call(words) };
        let outcome = call(words)?;
        self.copy_back(&mut loan, slices);
        Ok(outcome)
    }

    /// Takes over what was written to the copies.
    fn copy_back(&self, loan: &mut Loan<'_>, slices: &mut [Slice]) {
        let mut at = 0;
        for slice in slices.iter_mut().filter(|slice| self.copies(slice)) {
            let len = slice.len;
            if let Some(bytes) = slice.bytes_mut() {
                bytes.copy_from_slice(&loan[at..at + len]);
                loan.copied.add(1, len as u64);
            }
            at += len.next_multiple_of(UNIT as usize);
        }
    }

    /// The same for a call whose answer comes later: the copies are there until the loan is over. Nobody would copy back.
    ///
    /// # Errors
    /// `BadAddress`: a slice to be written lies elsewhere; as [`Loans::alloc`].
    pub(crate) fn lend(&self, words: &mut [u64; 6], slices: &[Slice]) -> Result<Option<Loan<'_>>, Error> {
        self.may_lend(slices)?;
        self.copy_in(words, slices, Loans::alloc)
    }

    pub(crate) fn may_lend(&self, slices: &[Slice]) -> Result<(), Error> {
        let nowhere = self.len == 0 && slices.iter().any(|slice| slice.len > 0);
        if nowhere || slices.iter().any(|slice| slice.written && self.copies(slice)) {
            return Err(Error::BadAddress);
        }
        Ok(())
    }

    /// Copies of what lies elsewhere, for who keeps both: they are given back by [`Loans::take_back`].
    ///
    /// # Errors
    /// As [`Loans::alloc`].
    pub(crate) fn lend_copies(&self, words: &mut [u64; 6], slices: &[Slice]) -> Result<Option<Part>, Error> {
        slices.iter().for_each(|slice| slice.say_where(words));
        self.copy_in(words, slices, Loans::alloc).map(|loan| loan.map(Part::of))
    }

    /// The end of such a loan; `slices`: what was written to the copies is taken over into these.
    pub(crate) fn take_back(&self, part: Part, slices: &mut [Slice]) {
        let mut loan = Loan { loans: self, offset: part.offset, len: part.len, copied: part.copied };
        self.copy_back(&mut loan, slices);
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
    // Mostly one thread calls, and has taken from the front of all that there is.
    if let [only] = free.as_mut_slice()
        && only.0 == offset + len
    {
        *only = (offset, only.1 + len);
        return;
    }
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
    copied: Copied,
}

/// A loan that is given back by hand.
#[derive(Debug)]
pub(crate) struct Part {
    offset: u64,
    len: usize,
    copied: Copied,
}

impl Part {
    fn of(loan: Loan<'_>) -> Part {
        let loan = ManuallyDrop::new(loan);
        Part { offset: loan.offset, len: loan.len, copied: loan.copied }
    }
}

impl Loan<'_> {
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
        let waiting = {
            let mut free = self.loans.free.lock();
            give_back(&mut free.ranges, self.offset, units);
            free.copied.add(self.copied.times, self.copied.bytes);
            free.waiting
        };
        if waiting > 0 {
            self.loans.returned.notify_all();
        }
    }
}

/// What lends all of these with a message.
///
/// # Errors
/// `NotSupported`: of one the length is not in the next word.
pub(crate) fn marks(words: &[u64; 6], slices: &[Slice]) -> Result<u16, Error> {
    let mut lent = slices.iter().filter(|slice| !slice.is_empty());
    lent.try_fold(0, |all, slice| slice.mark(words).map(|mark| all | mark)).ok_or(Error::NotSupported)
}

/// A slice that a call passes: where it is, and which word of the call says so.
#[derive(Debug)]
pub struct Slice<'a> {
    address: u64,
    len: usize,
    word: usize,
    written: bool,
    _bytes: PhantomData<&'a mut [u8]>,
}

impl<'a> Slice<'a> {
    /// The called program reads it.
    #[inline(always)]
    pub fn read(word: usize, bytes: &'a [u8]) -> Slice<'a> {
        Slice { address: bytes.as_ptr() as u64, len: bytes.len(), word, written: false, _bytes: PhantomData }
    }

    /// The called program may write it.
    #[inline(always)]
    pub fn write(word: usize, bytes: &'a mut [u8]) -> Slice<'a> {
        Slice { address: bytes.as_mut_ptr() as u64, len: bytes.len(), word, written: true, _bytes: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn say_where(&self, words: &mut [u64; 6]) {
        words[self.word] = self.address;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The mark that lends it with a message whose words these are (`abi::post::head`). `None`: its length is not in the next one.
    fn mark(&self, words: &[u64; 6]) -> Option<u16> {
        let has_len = words.get(self.word + 1) == Some(&(self.len as u64));
        has_len.then_some(if self.written { 1 << (8 + self.word) } else { 1 << self.word })
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: made from such a slice, which is borrowed as long as this value lives.
        unsafe { core::slice::from_raw_parts(self.address as *const u8, self.len) }
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as for `bytes`, and made from an exclusive slice.
        self.written.then(|| unsafe { core::slice::from_raw_parts_mut(self.address as *mut u8, self.len) })
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

    /// A call that adds 1 to every byte of what it is lent for writing.
    fn call(loans: &Loans, read: &[u8], write: &mut [u8]) -> Result<(), Error> {
        let lens = (read.len(), write.len());
        let mut slices = [Slice::read(0, read), Slice::write(2, write)];
        let mut words = [0; 6];
        slices.iter().for_each(|slice| slice.say_where(&mut words));
        loans.copying(&mut words, &mut slices, |words| {
            let inside = |at: u64, len: usize| at >= loans.base && at + len as u64 <= loans.base + loans.len;
            assert!(lens.0 == 0 || inside(words[0], lens.0));
            assert!(lens.1 == 0 || inside(words[2], lens.1));
            // SAFETY: `loans` lent these bytes of the test's own memory for this call.
            let write = unsafe { core::slice::from_raw_parts_mut(words[2] as *mut u8, lens.1) };
            write.iter_mut().for_each(|byte| *byte += 1);
            Ok(())
        })
    }

    #[test]
    fn what_is_copied_is_counted_and_nothing_else() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::new(memory.as_ptr() as u64, 4096);
        let mut own = [7u8; 100];
        call(&loans, &own, &mut []).unwrap();
        assert_eq!(loans.copied(), Copied { times: 1, bytes: 100 });
        call(&loans, &[], &mut own).unwrap();
        assert_eq!((loans.copied(), own), (Copied { times: 3, bytes: 300 }, [8; 100]));
        let mut there = loans.alloc(100).unwrap();
        there.fill(3);
        call(&loans, &own, &mut there).unwrap();
        assert_eq!((loans.copied().bytes, &*there), (400, [4; 100].as_slice()), "what lies there is passed as it is");
        drop(there);
        assert_eq!(loans.free.lock().ranges, [(0, 4096)]);
    }

    #[test]
    fn what_lies_there_is_not_copied_for_a_question() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::of_questions(memory.as_ptr() as u64, 4096);
        let mut there = loans.alloc(100).unwrap();
        there.fill(3);
        assert!(!loans.reaches(&Slice::read(0, &there)), "it is to be lent");
        call(&loans, &[], &mut there).unwrap();
        assert_eq!((loans.copied().bytes, &*there), (0, [4; 100].as_slice()));
        let own = [7u8; 100];
        call(&loans, &own, &mut there).unwrap();
        assert_eq!(loans.copied(), Copied { times: 1, bytes: 100 });
        let slices = [Slice::read(0, &own), Slice::write(2, &mut there)];
        assert_eq!(marks(&[0, 100, 0, 100, 0, 0], &slices), Ok(1 | 1 << 10));
        assert_eq!(marks(&[0, 100, 0, 99, 0, 0], &slices), Err(Error::NotSupported));
    }

    #[test]
    fn the_slices_of_one_call_fit_together_or_not_at_all() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::new(memory.as_ptr() as u64, 4096);
        let (read, mut write) = ([1u8; 2048], [1u8; 2049]);
        assert_eq!(call(&loans, &read, &mut write), Err(Error::TooBig));
        assert_eq!(call(&loans, &read, &mut write[..2048]), Ok(()));
        assert_eq!((write[0], write[2047], write[2048], loans.copied().bytes), (2, 2, 1, 3 * 2048));
        assert_eq!(loans.free.lock().ranges, [(0, 4096)]);
    }

    #[test]
    fn threads_wait_for_each_other_and_all_get_their_turn() {
        let memory = std::vec![0u8; 4096];
        let loans = Loans::new(memory.as_ptr() as u64, 4096);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let loans = &loans;
                scope.spawn(move || {
                    // At most two such calls fit at once.
                    let (read, mut write) = ([0; 600], [thread; 900]);
                    for round in 1..=50 {
                        call(loans, &read, &mut write).unwrap();
                        assert!(write.iter().all(|byte| *byte == thread + round));
                    }
                });
            }
        });
        assert_eq!(loans.free.lock().ranges, [(0, 4096)]);
        assert_eq!(loans.free.lock().waiting, 0);
        assert_eq!(loans.copied().bytes, 4 * 50 * (600 + 2 * 900));
    }
}

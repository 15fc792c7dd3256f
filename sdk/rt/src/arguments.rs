//! Pointers that come with a call, checked before the body of a method runs.
//!
//! A caller's pointer is an allegation. It is believed if it lies in the argument section that the kernel names for the
//! binding, or if the kernel says that the caller itself may do the access (so nobody can make a server touch what only
//! the server may touch) and that the server may, too (so a bad pointer is an error, not a fault). No two pointers of a
//! call overlap if one of them is written through.

use abi::calls::stub;
use abi::gate::{PASSED_FOR_WRITING, record};
use abi::{Error, gate};
use alloc::string::String;
use core::marker::PhantomData;

use crate::serve::lent;
use crate::{Caller, Trap, fault};

/// `&[u8]`: address and length.
#[derive(Clone, Copy, Debug)]
pub struct Read(pub u64, pub u64);
/// `&mut [u8]`: address and length.
#[derive(Clone, Copy, Debug)]
pub struct Write(pub u64, pub u64);
/// `&str`: address and length. What the method gets is a copy: text in memory that a caller can still write may stop being text at any
/// moment.
#[derive(Clone, Copy, Debug)]
pub struct Text(pub u64, pub u64);
/// `&[u8; N]`: address and length, as of every pointer (what a message lends is read off its words).
#[derive(Clone, Copy, Debug)]
pub struct ReadArray<const N: usize>(pub u64, pub u64);
/// `&mut [u8; N]`: address and length.
#[derive(Clone, Copy, Debug)]
pub struct WriteArray<const N: usize>(pub u64, pub u64);

/// The pointers of a call, as references to what they point to.
///
/// # Errors
/// `Refused` if one is not the caller's to use so, overlaps one that is to be written, or (`Text`) is not UTF-8; `TooBig` for a text
/// longer than [`TEXT_MAX`]; `BadAddress` for one that goes while it is copied.
#[inline(always)]
pub fn arguments<'c, P: Pointers<'c>>(caller: &'c Caller, pointers: P) -> Result<P::References, Error> {
    pointers.check(caller)
}

/// A tuple of pointers.
pub trait Pointers<'c> {
    type References;
    /// # Errors
    /// As [`arguments`].
    fn check(self, caller: &'c Caller) -> Result<Self::References, Error>;
}

/// One pointer: what a method's argument of a type comes as.
pub trait Pointer<'c> {
    type Reference;
    fn range(&self) -> Range;
    /// # Errors
    /// `Refused` if the bytes are none of the type, or not as many as it has, and as [`arguments`].
    fn reference(checked: Checked<'c>) -> Result<Self::Reference, Error>;
}

/// What a pointer claims.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    address: u64,
    len: u64,
    written: bool,
}

/// A range that the method has to itself, as far as it writes. Made here only.
#[derive(Debug)]
pub struct Checked<'c> {
    range: Range,
    _caller: PhantomData<&'c mut [u8]>,
}

impl<'c> Checked<'c> {
    #[inline(always)]
    fn read(self) -> &'c [u8] {
        // SAFETY: checked: this domain may read the range, and no exclusive slice of this call overlaps it. The caller's
        // other threads may still write it: bytes have no invalid values, and servers copy before they decide.
        unsafe {
            core::hint::assert_unchecked(self.range.address != 0);
            core::slice::from_raw_parts(self.range.address as *const u8, self.range.len as usize)
        }
    }

    #[inline(always)]
    fn write(self) -> &'c mut [u8] {
        // SAFETY: checked: this domain may read and write the range, which was claimed for writing, so no other slice of
        // this call overlaps it.
        unsafe {
            core::hint::assert_unchecked(self.range.address != 0);
            core::slice::from_raw_parts_mut(self.range.address as *mut u8, self.range.len as usize)
        }
    }
}

macro_rules! pointer {
    ([$($generic:tt)*] $ty:ty, $reference:ty, $written:literal, |$this:ident| $len:expr, |$checked:ident| $made:expr) => {
        impl<'c, $($generic)*> Pointer<'c> for $ty {
            type Reference = $reference;

            #[inline(always)]
            fn range(&self) -> Range {
                let $this = self;
                Range { address: self.0, len: $len, written: $written }
            }

            #[inline(always)]
            fn reference($checked: Checked<'c>) -> Result<$reference, Error> {
                $made
            }
        }
    };
}

pointer!([] Read, &'c [u8], false, |this| this.1, |checked| Ok(checked.read()));
pointer!([] Write, &'c mut [u8], true, |this| this.1, |checked| Ok(checked.write()));
pointer!([] Text, String, false, |this| this.1, |checked| text(checked.read()));
pointer!([const N: usize] ReadArray<N>, &'c [u8; N], false, |this| this.1, |checked| {
    checked.read().try_into().map_err(|_| Error::Refused)
});
pointer!([const N: usize] WriteArray<N>, &'c mut [u8; N], true, |this| this.1, |checked| {
    checked.write().try_into().map_err(|_| Error::Refused)
});

/// Most bytes of a text that is passed.
pub const TEXT_MAX: usize = 4096;

#[inline(never)]
fn text(lent: &[u8]) -> Result<String, Error> {
    if lent.len() > TEXT_MAX {
        return Err(Error::TooBig);
    }
    String::from_utf8(fault::copy_in(lent)?).map_err(|_| Error::Refused)
}

macro_rules! tuples {
    ($(($($pointer:ident $value:ident),+))*) => { $(
        impl<'c, $($pointer: Pointer<'c>),+> Pointers<'c> for ($($pointer,)+) {
            type References = ($($pointer::Reference,)+);

            #[inline(always)]
            fn check(self, caller: &'c Caller) -> Result<Self::References, Error> {
                let ($($value,)+) = self;
                let [$($value),+] = checked(caller, [$($value.range()),+])?;
                Ok(($($pointer::reference(Checked { range: $value, _caller: PhantomData })?,)+))
            }
        }
    )* };
}

// As many as there are words.
tuples! {
    (A a)
    (A a, B b)
    (A a, B b, C c)
    (A a, B b, C c, D d)
    (A a, B b, C c, D d, E e)
    (A a, B b, C c, D d, E e, F f)
}

impl Range {
    /// Whether it is in the argument section of the caller's binding. What is there has an end and is not at 0.
    #[inline(always)]
    fn is_lent(&self, record: &gate::Record) -> bool {
        let offset = self.address.wrapping_sub(record.args_base);
        offset < record.args_len && self.len <= record.args_len - offset
    }

    #[inline(always)]
    fn end(&self) -> u64 {
        self.address.wrapping_add(self.len)
    }

    /// Of ranges that do not wrap. (Says yes to an empty one inside of another.)
    #[inline(always)]
    fn may_meet(&self, other: &Range) -> bool {
        (self.written || other.written) && self.address < other.end() && other.address < self.end()
    }
}

/// The ranges, if they are to be believed. What every call does is here, and short.
#[inline(always)]
fn checked<const N: usize>(caller: &Caller, ranges: [Range; N]) -> Result<[Range; N], Error> {
    let lent = ranges.iter().all(|range| range.is_lent(caller));
    if lent && apart(&ranges, |_| true) { Ok(ranges) } else { asked_for(caller, ranges) }
}

/// Whether no two ranges meet that one writes through, of those that `counts`.
#[inline(always)]
fn apart<const N: usize>(ranges: &[Range; N], counts: impl Fn(&Range) -> bool) -> bool {
    let mut apart = true;
    for at in 1..N {
        for before in 0..at {
            let (one, other) = (&ranges[before], &ranges[at]);
            apart &= !(one.may_meet(other) && counts(one) && counts(other));
        }
    }
    apart
}

/// The same for ranges anywhere, with the kernel's word for those outside of the argument section.
#[cold]
#[inline(never)]
fn asked_for<const N: usize>(caller: &Caller, mut ranges: [Range; N]) -> Result<[Range; N], Error> {
    for range in &mut ranges {
        if range.len == 0 {
            // Nothing is read there, but a reference needs an address.
            range.address = 1;
        }
        let ends = range.address.checked_add(range.len).is_some() && isize::try_from(range.len).is_ok();
        if range.address == 0 || !ends {
            return Err(Error::Refused);
        }
    }
    if !apart(&ranges, |range| range.len > 0) {
        return Err(Error::Refused);
    }
    if caller.flags & (record::BY_LINE | record::BY_POST) != 0 {
        let mut outside = outside(caller, &ranges).map(|range| (range.address, range.len)).peekable();
        let by_post = caller.flags & record::BY_POST != 0;
        let believed = outside.peek().is_none() || by_post && lent::hold(caller, outside);
        return if believed { Ok(ranges) } else { Err(Error::Refused) };
    }
    let mut outside = outside(caller, &ranges);
    loop {
        // The kernel is asked about three at a time; most calls have no more.
        let (mut words, mut asked) = ([0; 6], false);
        for pair in words.chunks_exact_mut(2) {
            let Some(range) = outside.next() else { break };
            pair[0] = range.address;
            pair[1] = range.len | if range.written { PASSED_FOR_WRITING } else { 0 };
            asked = true;
        }
        if !asked {
            return Ok(ranges);
        }
        let [a, a_len, b, b_len, c, c_len] = words;
        if stub::may_pass(&Trap, a, a_len, b, b_len, c, c_len) != Ok(1) {
            return Err(Error::Refused);
        }
        if N <= AT_ONCE {
            return Ok(ranges);
        }
    }
}

/// Ranges that `may_pass` takes.
const AT_ONCE: usize = 3;

/// Those that are not in the argument section.
fn outside<'r>(caller: &Caller, ranges: &'r [Range]) -> impl Iterator<Item = &'r Range> + Clone {
    ranges.iter().filter(move |range| range.len > 0 && !range.is_lent(caller))
}

#[cfg(test)]
mod tests;

//! Reading the table: where it lies, and with nothing but a few words of stack, for programs that are no more quite themselves. What the
//! table says is not believed: whatever bytes it consists of, there is a name or there is none.

use crate::{HEAD, INDEX, MAGIC, NAME_MAX, PROGRAM_NAME, PROGRAMS, RECORD, STEP};
use abi::layout::PAGE;
use core::fmt;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    array(bytes, at).map(|word| u32::from_le_bytes(word) as usize)
}

/// A number (write.rs) and what follows it.
fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate().take(5) {
        value |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a>(&'a [u8]);

/// What it says of one program.
#[derive(Clone, Copy, Debug)]
pub struct Functions<'a> {
    all: &'a [u8],
    list: &'a [u8],
    count: usize,
}

/// A function's name.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    len: usize,
}

impl<'a> Table<'a> {
    /// Nothing, if these bytes are no table.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Table<'a>> {
        bytes.starts_with(&MAGIC).then_some(Table(bytes))
    }

    /// What is said of the program with this text.
    #[must_use]
    pub fn of_text(&self, text: &[u8]) -> Option<Functions<'a>> {
        let sum = crate::sum(text);
        self.find(|record| {
            array(record, 32).map(u64::from_le_bytes) == Some(sum) && word(record, 40) == Some(text.len())
        })
    }

    /// The same by its name and the length of the section that its text is in.
    #[must_use]
    pub fn of_name(&self, name: &[u8], len: u64) -> Option<Functions<'a>> {
        self.find(|record| {
            let (called, rest) = record.split_at(PROGRAM_NAME);
            let pages = word(rest, 8).map(|len| (len as u64).next_multiple_of(PAGE));
            called.strip_prefix(name).is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
                && pages == Some(len.next_multiple_of(PAGE))
        })
    }

    fn find(&self, is: impl Fn(&[u8]) -> bool) -> Option<Functions<'a>> {
        let records = self.0.get(HEAD..)?.chunks_exact(RECORD).take(word(self.0, PROGRAMS)?);
        let record = records.into_iter().find(|record| is(record))?;
        Some(Functions { all: self.0, list: self.0.get(word(record, 44)?..)?, count: word(record, 48)? })
    }
}

impl Functions<'_> {
    /// The last function that begins at this distance from the beginning of the text, or before: its name, and the distance from where
    /// it begins.
    #[must_use]
    pub fn find(&self, at: u32) -> Option<(Name, u32)> {
        let (mut rest, mut begin) = (self.list, 0u32);
        let mut found = None;
        for _ in 0..self.count {
            let (step, after) = number(rest)?;
            let (name, after) = number(after)?;
            begin = begin.checked_add(step)?;
            if begin > at {
                break;
            }
            found = Some((name, begin));
            rest = after;
        }
        let (name, begin) = found?;
        Some((self.name(name as usize)?, at - begin))
    }

    fn name(&self, number: usize) -> Option<Name> {
        let index = word(self.all, INDEX)?.checked_add(number / STEP * 4)?;
        let mut at = word(self.all, index)?;
        let mut name = Name { bytes: [0; NAME_MAX], len: 0 };
        for _ in 0..=number % STEP {
            let [shared, more] = array(self.all, at)?;
            let (shared, more) = (usize::from(shared).min(name.len), usize::from(more));
            let end = at.checked_add(2 + more)?;
            let spelled = self.all.get(at + 2..end)?;
            name.bytes.get_mut(shared..shared + more)?.copy_from_slice(spelled);
            name.len = shared + more;
            at = end;
        }
        Some(name)
    }
}

impl Name {
    #[must_use]
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("?")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

//! What a call was refused for: the thing, the right that is missing, and the (thread, text) pair that lacks it
//! (CUBIX-12).
//!
//! The kernel answers [`Error::NoRight`](crate::Error::NoRight) with the refusal's [word](Refusal::word) beside it, in
//! `rdx`, of what the call itself named. Thread and text are the caller's own: the SDK adds them at once, so that the
//! error stays true wherever it is carried.

use crate::layout::GRANULE;
use crate::rights::Rights;
use core::fmt;

/// What is not the caller's to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Object {
    /// The section at this base: these rights are missing there.
    Section(u64, Rights),
    /// The task of this number: it is somebody else's.
    Task(u64),
    /// The thread of this number: it is another task's.
    Thread(u64),
    /// What only the system's own user may do.
    System,
}

/// Who lacked what. It is part of every [`Error`](crate::Error), and so of every answer that a call can have: packed into
/// 16 bytes, an answer of one word still travels in two registers, and calls that go well pay nothing for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// One of [`kind`], and the missing rights of a section.
    what: u8,
    /// In granules for a section, else a number.
    object: [u8; 5],
    thread: [u8; 5],
    /// In granules.
    text: [u8; 4],
}

/// The upper two bits of `what`.
mod kind {
    pub const SECTION: u8 = 0x00;
    pub const TASK: u8 = 0x40;
    pub const THREAD: u8 = 0x80;
    pub const SYSTEM: u8 = 0xc0;
}

const RIGHTS: u8 = Rights::all().bits() as u8;
const _: () = assert!(RIGHTS as u32 == Rights::all().bits() && RIGHTS & kind::SYSTEM == 0);

const _: () = assert!(size_of::<crate::Error>() == 16 && size_of::<Result<u64, crate::Error>>() == 16);
const _: () = assert!(crate::layout::SPACE_END / GRANULE <= u32::MAX as u64);

/// The low bytes of a number; of one that does not fit, the greatest that does. (Numbers of threads and tasks count up
/// from 1, and 2^40 of them are a lifetime.)
const fn packed<const N: usize>(number: u64) -> [u8; N] {
    let most = u64::MAX >> (64 - 8 * N);
    let bytes = if number > most { most } else { number }.to_le_bytes();
    let mut low = [0; N];
    let mut i = 0;
    while i < N {
        low[i] = bytes[i];
        i += 1;
    }
    low
}

const fn unpacked<const N: usize>(low: [u8; N]) -> u64 {
    let mut bytes = [0; 8];
    let mut i = 0;
    while i < N {
        bytes[i] = low[i];
        i += 1;
    }
    u64::from_le_bytes(bytes)
}

/// The lowest byte of a word is `what`; the number is shifted by this, the base of a section lies above.
const BYTE: u32 = 8;
const _: () = assert!(1 << BYTE <= GRANULE);

impl Refusal {
    /// `thread` in `text` lacks what `object` says.
    #[must_use]
    pub const fn new(object: Object, thread: u64, text: u64) -> Refusal {
        let (what, number) = match object {
            Object::Section(base, right) => (kind::SECTION | right.bits() as u8 & RIGHTS, base / GRANULE),
            Object::Task(number) => (kind::TASK, number),
            Object::Thread(number) => (kind::THREAD, number),
            Object::System => (kind::SYSTEM, 0),
        };
        Refusal { what, object: packed(number), thread: packed(thread), text: packed(text / GRANULE) }
    }

    #[must_use]
    pub const fn object(&self) -> Object {
        let number = unpacked(self.object);
        match self.what & !RIGHTS {
            kind::SECTION => Object::Section(number * GRANULE, Rights::from_bits_truncate(self.what as u32)),
            kind::TASK => Object::Task(number),
            kind::THREAD => Object::Thread(number),
            _ => Object::System,
        }
    }

    #[must_use]
    pub const fn thread(&self) -> u64 {
        unpacked(self.thread)
    }

    /// Base of the text section that the thread was executing.
    #[must_use]
    pub const fn text(&self) -> u64 {
        unpacked(self.text) * GRANULE
    }

    /// The object in one word, as it travels in a register.
    #[must_use]
    pub const fn word(&self) -> u64 {
        match self.object() {
            Object::Section(base, _) => base | self.what as u64,
            Object::Task(number) | Object::Thread(number) => number << BYTE | self.what as u64,
            Object::System => self.what as u64,
        }
    }

    /// The refusal of a word, of the thread in the text; `None` if no refusal has this word.
    #[must_use]
    pub fn from_word(word: u64, thread: u64, text: u64) -> Option<Refusal> {
        let what = word as u8;
        let object = match what & !RIGHTS {
            kind::SECTION => Object::Section(word / GRANULE * GRANULE, Rights::from_bits_truncate(what.into())),
            kind::TASK => Object::Task(word >> BYTE),
            kind::THREAD => Object::Thread(word >> BYTE),
            _ => Object::System,
        };
        Some(Refusal::new(object, thread, text)).filter(|refusal| refusal.word() == word)
    }

    /// One line for people, with sections called as `named` writes them.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write<N: fmt::Display>(&self, f: &mut impl fmt::Write, named: impl Fn(u64) -> N) -> fmt::Result {
        match self.object() {
            Object::Section(base, right) => write!(f, "no right {} on section {}", right.words(), named(base))?,
            Object::Task(number) => write!(f, "no right over task {number}")?,
            Object::Thread(number) => write!(f, "no right over thread {number}")?,
            Object::System => f.write_str("no right of the system's user")?,
        }
        write!(f, ", by (thread {}, text {})", self.thread(), named(self.text()))
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Refusal({:?}, thread {}, text {:#x})", self.object(), self.thread(), self.text())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |base| Address(base))
    }
}

struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

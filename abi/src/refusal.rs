//! What a call was refused for: the thing, the right that is missing there, and the (thread, text) pair that lacks it
//! (CUBIX-15).
//!
//! All of it is in the error itself, of what the call named, and only for the program that made the call: the object, and
//! of the thread its last bits. The rest of the thread's number, and the text, are those of whoever holds the error: an
//! error does not leave its program ([`Error::told`](crate::Error::told)).

use crate::layout::GRANULE;
use crate::rights::Rights;
use core::fmt;
use spin::Once;

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

/// A thread that executes a text section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub thread: u64,
    pub text: u64,
}

/// A refusal in the word of an error: bits 0 to 7 say what it is about, 8 to 27 are the last of the thread's number, 28 to
/// 63 are the object's number (in granules for a section).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub object: Object,
    /// The thread's number modulo [`THREADS`].
    thread: u64,
}

/// Values of the lowest byte, above all numbers of errors. With `SECTION` go the missing rights.
mod what {
    pub const SECTION: u64 = 0x40;
    pub const TASK: u64 = 0x80;
    pub const THREAD: u64 = 0x81;
    pub const SYSTEM: u64 = 0x82;
}

const RIGHTS: u64 = Rights::all().bits() as u64;
const _: () = assert!(RIGHTS < what::SECTION);
const THREAD: u32 = 8;
const OBJECT: u32 = 28;
/// Threads whose numbers can be told apart: an error is seldom kept while as many others are made.
const THREADS: u64 = 1 << (OBJECT - THREAD);
/// A greater number does not fit, and is written as this. (No machine makes so many tasks.)
const MOST: u64 = u64::MAX >> OBJECT;
const _: () = assert!(crate::layout::SPACE_END / GRANULE <= MOST);

impl Refusal {
    pub(crate) const fn new(object: Object, thread: u64) -> Refusal {
        Refusal { object, thread: thread % THREADS }
    }

    pub(crate) const fn word(&self) -> u64 {
        let (what, number) = match self.object {
            Object::Section(base, right) => (what::SECTION | right.bits() as u64 & RIGHTS, base / GRANULE),
            Object::Task(number) => (what::TASK, number),
            Object::Thread(number) => (what::THREAD, number),
            Object::System => (what::SYSTEM, 0),
        };
        let number = if number > MOST { MOST } else { number };
        number << OBJECT | self.thread << THREAD | what
    }

    /// `None` if no refusal has this word.
    pub(crate) fn from_word(word: u64) -> Option<Refusal> {
        let (what, number) = (word & 0xff, word >> OBJECT);
        let object = match what {
            what::TASK => Object::Task(number),
            what::THREAD => Object::Thread(number),
            what::SYSTEM if number == 0 => Object::System,
            _ if what & !RIGHTS == what::SECTION => {
                Object::Section(number * GRANULE, Rights::from_bits_truncate((what & RIGHTS) as u32))
            }
            _ => return None,
        };
        Some(Refusal::new(object, word >> THREAD))
    }

    /// The number of the thread that was refused: of all that it can be, the one nearest to `near`, that of a thread which
    /// holds the error.
    #[must_use]
    pub const fn thread(&self, near: u64) -> u64 {
        let above = self.thread.wrapping_sub(near) % THREADS;
        if above > THREADS / 2 && near + above >= THREADS { near + above - THREADS } else { near + above }
    }

    /// One line for people, with sections called as `named` writes them. `holder` is who holds the error.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn write<N: fmt::Display>(
        &self,
        f: &mut impl fmt::Write,
        holder: Option<Who>,
        named: impl Fn(u64) -> N,
    ) -> fmt::Result {
        match self.object {
            Object::Section(base, right) => write!(f, "no right {} on section {}", right.words(), named(base))?,
            Object::Task(number) => write!(f, "no right over task {number}")?,
            Object::Thread(number) => write!(f, "no right over thread {number}")?,
            Object::System => f.write_str("no right of the system's user")?,
        }
        match holder {
            Some(who) => write!(f, ", by (thread {}, text {})", self.thread(who.thread), named(who.text)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, who(), Address)
    }
}

struct Address(u64);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// How a program finds out who it is.
static WHO: Once<fn() -> Who> = Once::new();

/// Says how a program finds out who it is. The SDK does, before the program begins.
pub fn set_who(who: fn() -> Who) {
    WHO.call_once(|| who);
}

/// The executing thread and text, where that was said.
#[must_use]
pub fn who() -> Option<Who> {
    WHO.get().map(|who| who())
}

//! The one error type of calls. Numbers are fixed; each variant says the cause and what the caller can do.

use crate::refusal::{Object, Refusal};
use core::fmt;
use core::num::NonZeroU64;

/// Why a call was refused. A refused call has changed nothing.
///
/// It is one word, the same in a program and in the register that brings it from the kernel: its number, or all that a
/// [`Refusal`] says. So a call that goes well pays nothing for what one that is refused has to tell.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(NonZeroU64);

const _: () = assert!(size_of::<Result<(), Error>>() == 8 && size_of::<Result<u64, Error>>() == 16);

macro_rules! errors {
    ($( $(#[doc = $doc:literal])+ $number:literal $name:ident $text:literal; )*) => {
        #[allow(non_upper_case_globals, reason = "to those who use them they are the variants of an error")]
        impl Error {
            $( $(#[doc = $doc])+ pub const $name: Error = Error::of($number); )*
        }

        // A line for each number from 1 on. (Tables of texts would be addresses, which make every start of a program longer.)
        const NAMES: &str = concat!($( stringify!($name), "\n" ),*);
        const TEXTS: &str = concat!($( $text, "\n" ),*);

        const fn has_number(number: u64) -> bool {
            matches!(number, $( $number )|*)
        }
    };
}

impl Error {
    const fn of(word: u64) -> Error {
        match NonZeroU64::new(word) {
            Some(word) => Error(word),
            None => panic!("0 is no error"),
        }
    }

    /// The executing (thread, text) pair has no right to do it. Only the kernel says so, of what the call named, and only
    /// to the program that made the call. Ask the owner of the section for an entry.
    #[must_use]
    pub const fn no_right(object: Object, thread: u64) -> Error {
        Error::of(Refusal::new(object, thread).word())
    }

    /// What stands in the register for the error. Of all but refusals, its number.
    #[must_use]
    #[inline]
    pub const fn word(self) -> u64 {
        self.0.get()
    }

    /// The error of a word; `None` for 0 (success) and for words that no error has.
    #[must_use]
    #[inline]
    pub fn from_word(word: u64) -> Option<Error> {
        let known = has_number(word) || Refusal::from_word(word).is_some();
        NonZeroU64::new(word).filter(|_| known).map(Error)
    }

    /// What is missing, if that is why.
    #[must_use]
    pub fn refusal(self) -> Option<Refusal> {
        Refusal::from_word(self.word())
    }

    /// Whether it is one of the errors for more than somebody may have: trying again is of use when something was given back.
    #[must_use]
    pub const fn is_quota(self) -> bool {
        let number = self.word();
        number == Error::Quota.word() || Error::MemoryQuota.word() <= number && number <= Error::MessageQuota.word()
    }

    /// What a called program tells its caller: what it was itself refused for is not the caller's affair.
    #[must_use]
    #[inline]
    pub const fn told(self) -> Error {
        if has_number(self.word()) { self } else { Error::Denied }
    }
}

errors! {
    /// The called program does not do it for this caller.
    1 Denied "access denied";
    /// The section, task, thread, gate, binding or name does not exist (any more).
    2 NotFound "not found";
    /// An argument is outside what the call accepts.
    3 BadArgument "bad argument";
    /// A range is not within one section, wraps round, or is not accessible memory.
    4 BadAddress "bad address";
    /// The machine has no free memory. Nothing was taken. (Or the called program found none for its own memory, and went no further than that.)
    5 NoMemory "out of memory";
    /// A server gives its caller no more of what it has. (What the kernel refuses has errors of its own, from [`Error::MemoryQuota`] on.)
    6 Quota "quota exceeded";
    /// The program that was called has ended, or ended in the middle of the call.
    7 Dead "the called program is dead";
    /// The called program faulted in the middle of the call.
    8 Faulted "the called program faulted";
    /// The thread is as deep in calls as it may be (`gate::DEPTH_MAX`), or its stack for that text is used up.
    9 TooDeep "calls nested too deep";
    /// Somebody else is using it; try again.
    10 Busy "busy";
    /// The time limit passed first.
    11 TimedOut "timed out";
    /// This machine or kind of section cannot do it.
    12 NotSupported "not supported";
    /// It exists already.
    13 Exists "exists already";
    /// It is longer than what was reserved or what the call accepts.
    14 TooBig "too big";
    /// The server's skeleton refused the arguments before its body ran.
    15 Refused "refused by the server";
    /// The thread or task was killed while it waited.
    16 Killed "killed";
    /// The kernel has no call of this number.
    17 NoSuchCall "no such call";
    /// The word did not hold the expected value (`wait`).
    18 Changed "changed meanwhile";
    /// The file is not a program of a known kind, or is damaged.
    19 BadProgram "not a program that can be run";
    /// A path goes on behind something that is no directory, or a directory was needed.
    20 NotADirectory "not a directory";
    /// A file was needed, and this is a directory.
    21 IsADirectory "a directory";
    /// The directory still holds something.
    22 NotEmpty "directory not empty";
    /// The task, or whoever pays for it, may have no more memory. Nothing was taken; as for the following ones.
    23 MemoryQuota "quota of memory exceeded";
    /// No more sections.
    24 SectionQuota "quota of sections exceeded";
    /// No more addresses: sections reserve what they may grow to.
    25 SpaceQuota "quota of address space exceeded";
    /// No more threads.
    26 ThreadQuota "quota of threads exceeded";
    /// No more tasks: each counts as a thread of whoever pays for it.
    27 TaskQuota "quota of tasks exceeded";
    /// No more posts: each counts as a section, and is one of those that the user was promised.
    28 PostQuota "quota of posts exceeded";
    /// As many of the sender's messages wait to be received as may.
    29 MessageQuota "quota of waiting messages exceeded";
    /// A page that the kernel should have read or written for the caller is not there, and its pager cannot be asked here, or has failed.
    30 Absent "a page is absent and its pager cannot supply it";
    /// The machine has so much free memory, but not in a row. Nothing was taken.
    31 Scattered "free memory is not in a row";
    /// Who does it here is a server, and this machine was started without that one, or somebody has stopped it.
    32 NoServer "its server was left out or stopped";
}

impl fmt::Display for Error {
    /// One lower-case phrase for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal() {
            Some(refusal) => write!(f, "{refusal}"),
            None => f.write_str(line(TEXTS, *self)),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refusal() {
            Some(refusal) => write!(f, "NoRight({:?})", refusal.object),
            None => f.write_str(line(NAMES, *self)),
        }
    }
}

/// The line about an error that is no refusal.
fn line(lines: &'static str, error: Error) -> &'static str {
    lines.lines().nth(error.word() as usize - 1).unwrap_or("")
}

/// Every number with the error's name and text.
pub fn table() -> impl Iterator<Item = (u64, &'static str, &'static str)> {
    (1..).zip(NAMES.lines().zip(TEXTS.lines())).map(|(number, (name, text))| (number, name, text))
}

impl core::error::Error for Error {}

//! The one error type of calls. Numbers are fixed; each variant says the cause and what the caller can do.

use crate::refusal::Refusal;
use core::fmt;

macro_rules! errors {
    ($( $(#[doc = $doc:literal])+ $number:literal $name:ident $text:literal; )*) => {
        /// Why a call was refused. A refused call has changed nothing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Error {
            /// The executing (thread, text) pair has no right to do it. Only the kernel says so, of what the call named, and
            /// only to the program that made the call. Ask the owner of the section for an entry.
            NoRight(Refusal) = Error::NO_RIGHT as u8,
            $( $(#[doc = $doc])+ $name = $number, )*
        }

        impl Error {
            /// Every number with the error's name and text.
            pub const TABLE: &[(u64, &str, &str)] =
                &[$( ($number, stringify!($name), $text), )* (Error::NO_RIGHT, "NoRight", "no right ...")];

            /// What stands in the register for the error.
            #[must_use]
            #[inline]
            pub const fn number(self) -> u64 {
                match self { $( Error::$name => $number, )* Error::NoRight(_) => Error::NO_RIGHT }
            }

            /// The error of a number that stands alone; `None` for 0 (success), for unknown numbers and for `NoRight`.
            #[must_use]
            #[inline]
            pub const fn from_number(number: u64) -> Option<Error> {
                match number { $( $number => Some(Error::$name), )* _ => None }
            }
        }

        impl fmt::Display for Error {
            /// One lower-case phrase for people.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Error::$name => f.write_str($text), )*
                    Error::NoRight(refusal) => write!(f, "{refusal}"),
                }
            }
        }
    };
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
    /// The machine has no free memory. Nothing was taken.
    5 NoMemory "out of memory";
    /// The task's quota does not allow it. Nothing was taken.
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
}

impl Error {
    /// The number of `NoRight`.
    pub const NO_RIGHT: u64 = 20;

    /// What stands beside the number, where a call that went well has its value.
    #[must_use]
    #[inline]
    pub const fn word(self) -> u64 {
        match self {
            Error::NoRight(refusal) => refusal.word(),
            _ => 0,
        }
    }

    /// What a called program tells its caller: what it was itself refused for is not the caller's affair.
    #[must_use]
    #[inline]
    pub const fn told(self) -> Error {
        match self {
            Error::NoRight(_) => Error::Denied,
            other => other,
        }
    }
}

impl core::error::Error for Error {}

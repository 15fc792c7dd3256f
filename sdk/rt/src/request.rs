//! How a request and its answer lie in words, where they do not travel as a call: the same for lines and posts.
//!
//! A request is the number of a method and the six words of a call. An answer is [`ANSWER`] words: a status of the transport's (0:
//! the method has run) and the two values that a call returns. In a message both have a head of 32 bits: which method (8), which of
//! the sender's requests ([`TAG_MAX`]), and of which interface (the rest). So whoever receives it can tell a message of another
//! interface from his own without a word more, and the answer finds its request.

use abi::Error;

use crate::Caller;
use crate::gate::{Skeleton, Values};

/// Words of an answer.
pub const ANSWER: usize = 3;
/// Words of a request: the method and its words.
pub const CALL: usize = 7;

/// Requests that one sender has under way are told apart by numbers below this one.
pub const TAG_MAX: u32 = 0xfff;
/// Tag of a message that asks for nothing: its sender waits, and hears if its receiver ends. Its first word is the head of a request; it is
/// answered (with that, and [`KNOWN`] or 0) if the receiver does not know of that, or if the second word is not 0.
pub const WATCH: u32 = TAG_MAX;
pub const KNOWN: u64 = 1;
const TAG_AT: u32 = 8;
const IDENTITY_AT: u32 = 20;
/// An identity is below this.
pub const IDENTITIES: u32 = 1 << (32 - IDENTITY_AT);

/// The head of a message about a request.
#[inline]
#[must_use]
pub const fn head(identity: u32, tag: u32, method: u64) -> u32 {
    identity << IDENTITY_AT | (tag & TAG_MAX) << TAG_AT | method as u32 & 0xff
}

/// Identity, tag, method.
#[inline]
#[must_use]
pub const fn of_head(head: u32) -> (u32, u32, u64) {
    (head >> IDENTITY_AT, head >> TAG_AT & TAG_MAX, head as u64 & 0xff)
}

/// What an answer's words say of how it went.
#[inline]
#[must_use]
pub const fn answer(outcome: Result<Values, Error>) -> [u64; ANSWER] {
    match outcome {
        Ok(Values(first, second)) => [0, first, second],
        Err(error) => [error.word(), 0, 0],
    }
}

/// The values in an answer.
///
/// # Errors
/// What the transport says. What a server was itself refused for it does not tell.
#[inline]
pub fn values_of([status, first, second]: [u64; ANSWER]) -> Result<[u64; 2], Error> {
    match status {
        0 => Ok([first, second]),
        word => Err(crate::bound::told_by(word)),
    }
}

/// Runs a method of so many.
///
/// # Errors
/// `BadArgument`: there is none of this number.
#[inline]
pub fn run<S: Skeleton>(
    methods: &S,
    count: u64,
    caller: &Caller,
    method: u64,
    words: &[u64; 6],
) -> Result<Values, Error> {
    if method < count { Ok(methods.dispatch(caller, method, words)) } else { Err(Error::BadArgument) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_holds_all_three() {
        for (identity, tag, method) in [(0, 0, 0), (IDENTITIES - 1, TAG_MAX, 255), (0x123, 0x456, 0x78), (1, 0, 1)] {
            assert_eq!(of_head(head(identity, tag, method)), (identity, tag, method));
        }
    }

    #[test]
    fn every_answer_is_values_or_an_error() {
        assert_eq!(values_of(answer(Ok(Values(u64::MAX, 2)))), Ok([u64::MAX, 2]));
        assert_eq!(values_of(answer(Err(Error::Dead))), Err(Error::Dead));
        assert_eq!(values_of([12345, 0, 0]), Err(Error::BadArgument));
    }
}

//! Bindings whose calls are served by a thread of the server's own: by a line (ITC), or as questions at its post. The stub is that of
//! every other call.

use abi::Error;

use crate::line::Line;
use crate::post::{FOR_EVER, Post};
use crate::request::{self, ANSWER};

/// What serves the calls of a binding, if the caller's thread does not.
#[derive(Debug)]
pub(crate) enum Elsewhere {
    Line(Line),
    /// Whoever receives there. A question is tied to who has received it: nobody else can answer, and its end is heard of.
    Post {
        post: Post,
        identity: u32,
    },
}

impl Elsewhere {
    #[inline]
    fn call(&self, index: u64, words: &[u64; 6]) -> Result<[u64; 2], Error> {
        match self {
            Elsewhere::Line(line) => line.call(index, words),
            Elsewhere::Post { post, identity } => ask(*post, *identity, index, words, 0),
        }
    }
}

/// As a question; `lend`: what is lent with it, as `abi::post::head` has it.
#[inline]
pub(crate) fn ask(post: Post, identity: u32, index: u64, words: &[u64; 6], lend: u16) -> Result<[u64; 2], Error> {
    let head = request::head(identity, 0, index);
    let message = match lend {
        0 => post.ask(head, *words, FOR_EVER)?,
        _ => post.ask_lending(head, *words, lend, FOR_EVER)?,
    };
    let mut answer = [0; ANSWER];
    answer.copy_from_slice(&message.words[..ANSWER]);
    request::values_of(answer)
}

/// Where a stub comes to (`trap.rs`): `words` are six words, and the place for two values.
///
/// # Safety
/// `to` lives, and `words` are the caller's.
pub(crate) unsafe extern "C" fn call(to: *const Elsewhere, index: u64, words: *mut [u64; 6]) -> u64 {
    // SAFETY: the caller says so.
    let (to, words) = unsafe { (&*to, &mut *words) };
    match to.call(index, words) {
        Ok(values) => {
            words[..2].copy_from_slice(&values);
            0
        }
        Err(error) => error.word(),
    }
}

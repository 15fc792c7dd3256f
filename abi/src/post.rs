//! Posts as programs see them (docs/decisions/0009): where they lie, and how a message lies in registers.
//!
//! A message goes in at `post_send`, `post_call` and `post_answer` with its six words in `r10 r8 r9 r12 r13 r14` and [`head`] in `r15`.
//! One that is received comes out in the same six, and besides: `rdx` head, `rdi` where its answer goes, `rbx` the sender's
//! thread, `rbp` its text and (in the low bits) its node, `rsi` its user, `r15` its task. All that a caller keeps over `post_receive`,
//! `post_call` and `post_answer` is `rsp`: vector registers are lost, and the control words have their defaults. Who receives at several posts says which in the registers
//! of a message: the second one's address is in the place of the first word, and the eighth one's in that of the head.
//!
//! Where an answer goes is a post's address, or a [`QUESTION`] that is answered with `post_answer`. Of a message that `post_send` has lent memory with
//! it is the [`LOAN`], and of the message that says how that has ended, too: the answer, or one from thread 0 with the operation of what was sent,
//! whose first word is an error: `Dead`, `TimedOut`, `NotFound` (the post where it lay was freed).

use crate::layout::{GRANULE, SLICE_LEN, STACKS_LEN, slice_base};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Posts of a node have numbers from 1 to below this.
pub const POSTS_MAX: u64 = 1 << 14;
/// Part of a slice below its stacks: each post has a granule, with nothing in it.
pub const POSTS_LEN: u64 = POSTS_MAX * GRANULE;
/// Numbers up to this are had by their number only, and by the system only.
pub const KNOWN_MAX: u64 = 63;
/// `post_get`: any number.
pub const ANY: u64 = u64::MAX;
/// `post_free`: frees nothing, and who asks hears that nobody will receive; or not any more.
pub const REFUSE_QUESTIONS: u64 = 2;
pub const TAKE_QUESTIONS: u64 = 3;
/// Posts that one thread can wait for at once.
pub const SEVERAL_MAX: u64 = 8;
/// Messages that one call sends at most.
pub const MANY_MAX: u64 = 64;

/// Of a word that says where an answer goes: it is to be answered with `post_answer`.
pub const QUESTION: u64 = 1 << 63;
/// And of such: nobody waits for that, and with it ends what was lent.
pub const LOAN: u64 = 1 << 62;

/// Where a node's posts lie.
pub const fn base(node: u64) -> u64 {
    slice_base(node) + SLICE_LEN - STACKS_LEN - POSTS_LEN
}

/// The address of a post, which is its name.
pub const fn address(node: u64, number: u64) -> u64 {
    base(node) + number * GRANULE
}

/// The number of the post of this node that has this address.
pub const fn number(node: u64, address: u64) -> Option<u32> {
    let offset = address.wrapping_sub(base(node));
    if offset < POSTS_LEN && offset.is_multiple_of(GRANULE) && offset != 0 {
        Some((offset / GRANULE) as u32)
    } else {
        None
    }
}

/// Operation and marks of what is lent (bit `i`: word `i` points to memory for reading, with the length in word `i + 1`; bit
/// `8 + i`: for writing, too), and of a message that is received the number of its post (0: an answer).
pub const fn head(op: u32, lend: u16, post: u32) -> u64 {
    op as u64 | (post as u64) << 32 | (lend as u64) << 48
}

/// (operation, lent, post)
pub const fn of_head(head: u64) -> (u32, u16, u32) {
    (head as u32, (head >> 48) as u16, (head >> 32) as u32 & 0xffff)
}

const _: () = assert!(POSTS_MAX <= 1 << 16);

/// A message of `post_send_many`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Body {
    pub op: u64,
    pub words: [u64; 6],
}

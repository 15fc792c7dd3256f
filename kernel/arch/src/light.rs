//! The light entry (`light.S`, SSS-39, SSS-40): a table of functions by the number of the call.

use crate::pass::Card;
use crate::percpu::{self, Block};
use core::mem::offset_of;

/// What a light call comes back with, in `rax` and `rdx`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Answer {
    pub status: u64,
    pub value: u64,
}

/// Serves one light call of the running thread, with its six arguments. Nothing of the thread is saved: there is nothing here to
/// have it wait with.
pub type Handler = extern "C" fn(u64, u64, u64, u64, u64, u64) -> Answer;

/// All of them, in the order of their numbers.
pub type Table = [Handler; abi::calls::LIGHT_COUNT];

/// The same for memory operations.
pub type MbcfTable = [Handler; abi::calls::MBCF_COUNT];

const BEARER: usize = offset_of!(Block, bearer);

/// Number of the running thread's task.
#[inline(always)]
pub fn task() -> u64 {
    // SAFETY: a card, which is never freed; user code runs on a thread, and each has one.
    let card = unsafe { &*(percpu::word::<BEARER>() as *const Card) };
    card.task()
}

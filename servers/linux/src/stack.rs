//! What a Linux program finds on its stack when it starts: arguments, environment, and the auxiliary vector.
//!
//! From the stack pointer upwards: `argc`, addresses of the arguments, 0, addresses of the environment, 0, pairs of the
//! auxiliary vector up to `AT_NULL`, then the bytes that all these point to.

use alloc::vec::Vec;
use linux_raw_sys::auxvec;

use crate::answer::{Errno, errno, fail};
use crate::map::STACK_LEN;

/// Arguments and environment may take a quarter of the stack, and one string this much, as on Linux.
const STRINGS_MAX: u64 = STACK_LEN / 4;
const STRING_MAX: usize = 128 << 10;

/// What the start of a program is told.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    pub arguments: &'a [Vec<u8>],
    pub environment: &'a [Vec<u8>],
    /// Path that the program was found under.
    pub path: &'a [u8],
    pub random: [u8; 16],
    /// Further pairs of the auxiliary vector.
    pub auxiliary: &'a [(u32, u64)],
}

/// A stack ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Goes to `[pointer, pointer + bytes.len())`, which ends at the top.
    pub bytes: Vec<u8>,
    /// The stack pointer at the first instruction.
    pub pointer: u64,
}

/// Builds the stack that ends at `top`, a multiple of 16.
///
/// # Errors
/// `E2BIG` if the strings take too much.
pub fn build(top: u64, start: &Start<'_>) -> Result<Stack, Errno> {
    let strings = start.arguments.iter().chain(start.environment);
    let pointers = 8 * (start.arguments.len() + start.environment.len()) as u64;
    let total: u64 = strings.clone().map(|s| s.len() as u64 + 1).sum::<u64>() + pointers;
    if total > STRINGS_MAX || strings.clone().any(|s| s.len() >= STRING_MAX) {
        return fail(errno::E2BIG);
    }

    // The bytes that are pointed to, each with its offset from their beginning.
    let mut bytes = Vec::new();
    let mut put = |text: &[u8]| {
        let offset = bytes.len() as u64;
        bytes.extend_from_slice(text);
        bytes.push(0);
        offset
    };
    let random = put(&start.random);
    let platform = put(b"x86_64");
    let arguments: Vec<u64> = start.arguments.iter().map(|s| put(s)).collect();
    let environment: Vec<u64> = start.environment.iter().map(|s| put(s)).collect();
    let path = put(start.path);

    // Linux keeps the last eight bytes zero.
    let base = (top - 8 - bytes.len() as u64) & !15;
    let own =
        [(auxvec::AT_RANDOM, base + random), (auxvec::AT_PLATFORM, base + platform), (auxvec::AT_EXECFN, base + path)];
    let mut words = Vec::new();
    words.push(arguments.len() as u64);
    words.extend(arguments.iter().map(|offset| base + offset));
    words.push(0);
    words.extend(environment.iter().map(|offset| base + offset));
    words.push(0);
    for (key, value) in start.auxiliary.iter().chain(&own).chain(&[(auxvec::AT_NULL, 0)]) {
        words.push(u64::from(*key));
        words.push(*value);
    }

    let pointer = (base - 8 * words.len() as u64) & !15;
    let mut stack = Vec::with_capacity((top - pointer) as usize);
    stack.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    stack.resize((base - pointer) as usize, 0);
    stack.extend_from_slice(&bytes);
    stack.resize((top - pointer) as usize, 0);
    Ok(Stack { bytes: stack, pointer })
}

#[cfg(test)]
mod tests;

#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod read;
mod write;

pub use read::{Functions, Name, Table};
pub use write::{Program, table};

/// Where the table is in the machine.
pub const FILE: &str = "etc/functions";
/// Longest name that is kept, in bytes; of longer ones the beginning.
pub const NAME_MAX: usize = 100;
/// What the table begins with.
const MAGIC: [u8; 8] = *b"MUSUBIF1";
/// Offsets in the head, words of 32 bits: how many programs there are, and where the index of names is.
const PROGRAMS: usize = 8;
const INDEX: usize = 12;
const HEAD: usize = 16;
/// A program: its name, its text's checksum and length, where its functions are listed and how many they are.
const RECORD: usize = 52;
const PROGRAM_NAME: usize = 32;
/// Names between two that are spelled out, so that finding one means spelling no more.
const STEP: usize = 16;

/// Checksum of a program's text.
#[must_use]
pub fn sum(text: &[u8]) -> u64 {
    let mut sum = text.len() as u64;
    for part in text.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
    sum
}

#[cfg(test)]
mod tests;

//! Memory of sections, touched on purpose in ways that Rust does not know of: by several programs at once, and to see
//! whether it can be touched at all.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::Section;

/// A section for data, of which this program has all rights.
pub fn data(len: u64) -> Result<Section, Error> {
    Section::create(len, len, musubi::abi::section::kind::DATA, 0)
}

/// The word at an address, shared with whoever may touch it.
pub fn word(address: u64) -> &'static AtomicU64 {
    assert!(address.is_multiple_of(8) && address != 0);
    // SAFETY: checks use it for sections that they made or were given; where there is none, the access faults, and
    // every value is a valid number.
    unsafe { &*(address as *const AtomicU64) }
}

pub fn load(address: u64) -> u64 {
    word(address).load(Ordering::SeqCst)
}

pub fn store(address: u64, value: u64) {
    word(address).store(value, Ordering::SeqCst);
}

/// Stores a text: its length and its bytes, word by word.
pub fn store_text(address: u64, text: &str) {
    store(address, text.len() as u64);
    for (at, part) in (address + 8..).step_by(8).zip(text.as_bytes().chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        store(at, u64::from_le_bytes(bytes));
    }
}

/// The text that was stored at an address.
pub fn load_text(address: u64) -> String {
    let len = load(address).min(512) as usize;
    let words = (address + 8..).step_by(8).take(len.div_ceil(8));
    let bytes: Vec<u8> = words.flat_map(|at| load(at).to_le_bytes()).take(len).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until the word holds something else than 0.
pub fn await_word(address: u64) {
    while load(address) == 0 {
        musubi::rt::thread::yield_now();
    }
}

/// Calls the code at an address as a function without arguments.
pub fn call(address: u64) -> u64 {
    // SAFETY: either the code is one of `CODE_*` below, or the fetch faults: that is what is tried.
    let function: extern "C" fn() -> u64 = unsafe { core::mem::transmute(address) };
    function()
}

/// `mov eax, 42; ret`.
pub const CODE_42: [u8; 6] = [0xb8, 42, 0, 0, 0, 0xc3];

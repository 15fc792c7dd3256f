//! The record that a handler finds and `rt_sigreturn` reads (`struct rt_sigframe` of Linux: return address, `ucontext`, `siginfo`), as words, and the
//! vector registers above it. `linux-raw-sys` does not have it.

use abi::frame::{Frame, Vectors};
use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use super::{Action, AltStack, Handling, Origin};

/// Bytes of the record, without vector registers.
pub const LEN: u64 = 8 * WORDS as u64;
const WORDS: usize = INFO + 16;
const FLAGS: usize = 1;
const STACK: usize = 3;
const REGISTERS: usize = 6;
const RFLAGS: usize = REGISTERS + 17;
const SEGMENTS: usize = REGISTERS + 18;
const ERROR: usize = REGISTERS + 19;
const TRAP: usize = REGISTERS + 20;
const OLD_MASK: usize = REGISTERS + 21;
const ACCESS: usize = REGISTERS + 22;
const VECTORS: usize = REGISTERS + 23;
const MASK: usize = REGISTERS + 32;
const INFO: usize = MASK + 1;
/// Address of `ucontext` and of `siginfo` in the record.
pub const CONTEXT_AT: u64 = 8;
pub const INFO_AT: u64 = 8 * INFO as u64;
/// `UC_FP_XSTATE`, `UC_SIGCONTEXT_SS`, `UC_STRICT_RESTORE_SS`: there is more than FXSAVE has; the stack's selector is saved, and is loaded.
const FLAGS_SET: u64 = 7;
/// The program's code and stack selectors, as Linux has them.
const SELECTORS: u64 = 0x33 | 0x2b << 48;

/// Bytes of vector registers: as the processor saves them, and a word by which programs know that this is not FXSAVE's alone.
pub const VECTORS_LEN: usize = Vectors::LEN + 4;
/// That word, and another one in the bytes that FXSAVE leaves to programs, with lengths and components (`struct _fpx_sw_bytes`).
const MAGIC_END: u32 = 0x4650_5845;
const MAGIC: u32 = 0x4650_5853;
const MAGIC_AT: usize = 464;
const COMPONENTS: u64 = 7;
/// Those that FXSAVE has.
const LEGACY_COMPONENTS: u8 = 3;

/// General registers in the order of `struct sigcontext`.
fn registers(f: &mut Frame) -> [&mut u64; 17] {
    [
        &mut f.r8, &mut f.r9, &mut f.r10, &mut f.r11, &mut f.r12, &mut f.r13, &mut f.r14, &mut f.r15, &mut f.rdi,
        &mut f.rsi, &mut f.rbp, &mut f.rbx, &mut f.rdx, &mut f.rax, &mut f.rcx, &mut f.rsp, &mut f.rip,
    ]
}

/// Where the record goes: below the red zone, so that the handler's stack is aligned as after a call. `None`: it does not fit the alternative stack.
#[must_use]
pub fn address(rsp: u64, action: &Action, alt: Option<AltStack>) -> Option<u64> {
    let on = alt.filter(|alt| alt.holds(rsp));
    let entered = alt.filter(|_| on.is_none() && action.flags & u64::from(linux::SA_ONSTACK) != 0);
    let top = entered.map_or(rsp.wrapping_sub(128), |alt| alt.address + alt.len);
    let vectors = top.wrapping_sub(VECTORS_LEN as u64) & !63;
    let at = (vectors.wrapping_sub(LEN) & !15).wrapping_sub(8);
    on.or(entered).is_none_or(|alt| alt.holds(at)).then_some(at)
}

/// Where the vector registers go of a record that is there.
fn vectors_of(at: u64) -> u64 {
    at.wrapping_add(LEN).wrapping_add(63) & !63
}

/// The record at `at`.
#[must_use]
pub fn store(at: u64, f: &Frame, handling: &Handling, alt: Option<AltStack>, vectors: &Vectors) -> Vec<u8> {
    let mut words = [0u64; WORDS];
    words[0] = handling.action.restorer;
    words[FLAGS] = FLAGS_SET;
    match alt {
        Some(alt) => (words[STACK], words[STACK + 2]) = (alt.address, alt.len),
        None => words[STACK + 1] = linux::SS_DISABLE.into(),
    }
    for (word, register) in words[REGISTERS..].iter_mut().zip(registers(&mut f.clone())) {
        *word = *register;
    }
    words[RFLAGS] = f.rflags;
    words[SEGMENTS] = SELECTORS;
    (words[OLD_MASK], words[MASK]) = (handling.mask, handling.mask);
    words[VECTORS] = vectors_of(at);
    words[INFO] = handling.signal;
    match handling.origin {
        Origin::Sent(sender) => {
            words[INFO + 1] = u64::from(sender.code as u32);
            words[INFO + 2] = sender.task & 0xffff_ffff | sender.user << 32;
        }
        Origin::Fault(fault) => {
            (words[ERROR], words[TRAP], words[ACCESS]) = (fault.error, fault.trap, fault.access);
            (words[INFO + 1], words[INFO + 2]) = (fault.code.into(), fault.address);
        }
    }
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.resize(vectors_of(at).wrapping_sub(at) as usize, 0);
    let start = bytes.len();
    bytes.extend_from_slice(&vectors.0);
    let mut put = |at: usize, value: &[u8]| bytes[start + at..][..value.len()].copy_from_slice(value);
    // A handler that changes x87's registers or SSE's, and knows FXSAVE only, does not say that they are no longer those of a program's start.
    put(Vectors::PRESENT, &[vectors.0[Vectors::PRESENT] | LEGACY_COMPONENTS]);
    put(MAGIC_AT, &MAGIC.to_le_bytes());
    put(MAGIC_AT + 4, &(VECTORS_LEN as u32).to_le_bytes());
    put(MAGIC_AT + 8, &COMPONENTS.to_le_bytes());
    put(MAGIC_AT + 16, &(Vectors::LEN as u32).to_le_bytes());
    bytes.extend_from_slice(&MAGIC_END.to_le_bytes());
    bytes
}

/// Puts the registers of a record back. Value: the mask, and where the vector registers are (0: those of a program's start are meant).
#[must_use]
pub fn load(record: &[u8; LEN as usize], f: &mut Frame) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| record[8 * at + i]));
    for (i, register) in registers(f).into_iter().enumerate() {
        *register = word(REGISTERS + i);
    }
    f.rflags = word(RFLAGS);
    (word(MASK), word(VECTORS))
}

/// Vector registers of which `read` reads a part (from an offset on), as a program has left them. Where it has put there what FXSAVE has, that is all.
///
/// # Errors
/// As `read`.
pub fn load_vectors<E>(mut read: impl FnMut(usize, &mut [u8]) -> Result<(), E>) -> Result<Vectors, E> {
    let mut vectors = Vectors::clean();
    let (legacy, more) = vectors.0.split_at_mut(Vectors::LEGACY);
    read(0, legacy)?;
    let is = |bytes: &[u8], magic: u32| bytes == magic.to_le_bytes();
    if is(&legacy[MAGIC_AT..][..4], MAGIC) {
        let mut end = [0; 4];
        read(Vectors::LEN, &mut end)?;
        if is(&end, MAGIC_END) {
            read(Vectors::LEGACY, more)?;
        }
    }
    Ok(vectors)
}

//! Faults that this program deals with itself (`abi::frame`): touching memory that a caller has passed, and may take away or
//! cut short at any moment, gives an error here, in the middle of the method, so that a server can put its data in order. Any
//! other fault takes its usual course.

use abi::Error;
use abi::frame::Frame;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Copies what a caller has passed.
///
/// # Errors
/// `BadAddress`: it is not all there (any more). `NoMemory`: there is none for a page that it needs.
pub fn copy_in(from: &[u8]) -> Result<Vec<u8>, Error> {
    let mut to: Vec<u8> = Vec::new();
    to.try_reserve_exact(from.len()).map_err(|_| Error::NoMemory)?;
    // SAFETY: there is room for so many bytes, and they have been written when `copy` says so.
    unsafe {
        copy(to.as_mut_ptr(), from.as_ptr(), from.len())?;
        to.set_len(from.len());
    }
    Ok(to)
}

/// Copies to where a caller wants to have it: the first bytes, as far as both go.
///
/// # Errors
/// `BadAddress`: some of it could not be written. `NoMemory`: there is none for a page that it needs.
pub fn copy_out(to: &mut [u8], from: &[u8]) -> Result<(), Error> {
    // SAFETY: both are at least so long.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr(), to.len().min(from.len())) }
}

/// Copies from any address to any other: of windows and sections that Rust knows nothing of.
///
/// # Safety
/// Nobody else has a reference to the `len` bytes at `to`, nor, for writing, to those at `from`; what is written there may be any bytes. If the kernel
/// lets this program access less than that, it is an error and no undefined behaviour.
///
/// # Errors
/// `BadAddress`: it is not all there (any more). `NoMemory`: there is none for a page that it needs.
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), Error> {
    #[cfg(target_os = "musubi")]
    {
        // SAFETY: the caller says so.
        outcome(unsafe { machine::musubi_guarded_copy(to, from, len) })
    }
    #[cfg(not(target_os = "musubi"))]
    {
        // SAFETY: the caller says so.
        unsafe { core::ptr::copy(from, to, len) };
        Ok(())
    }
}

/// Writes zeroes.
///
/// # Safety
/// As of [`copy`].
///
/// # Errors
/// As of [`copy`].
pub unsafe fn clear(to: *mut u8, len: usize) -> Result<(), Error> {
    #[cfg(target_os = "musubi")]
    {
        // SAFETY: the caller says so.
        outcome(unsafe { machine::musubi_guarded_clear(to, len) })
    }
    #[cfg(not(target_os = "musubi"))]
    {
        // SAFETY: the caller says so.
        unsafe { core::ptr::write_bytes(to, 0, len) };
        Ok(())
    }
}

#[cfg(target_os = "musubi")]
fn outcome(of_copy: u64) -> Result<(), Error> {
    match of_copy {
        0 => Ok(()),
        machine::NO_MEMORY => Err(Error::NoMemory),
        _ => Err(Error::BadAddress),
    }
}

/// What is shown of a fault that this program does not mend (an address of a `fn(&Frame)`); 0: nothing.
static SHOW: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `show` is called with the registers of a fault that the program does not mend, on the thread that had it, before it takes
/// its usual course. It is called once, without a lock that anybody needs to know of, and perhaps with any lock of the program's held.
pub fn show_with(show: fn(&Frame)) {
    SHOW.store(show as *mut (), Ordering::Release);
}

#[cfg_attr(not(target_os = "musubi"), allow(dead_code))]
fn show(frame: &Frame) {
    let show = SHOW.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if !show.is_null() {
        // SAFETY: only `show_with` stores here, and it stores a function of this type.
        let show: fn(&Frame) = unsafe { core::mem::transmute(show) };
        show(frame);
    }
}

#[cfg(target_os = "musubi")]
pub(crate) use machine::begin;

#[cfg(target_os = "musubi")]
mod machine {
    use crate::{Trap, probe};
    use abi::calls::stub;
    use abi::frame::Frame;
    use abi::task::cause;
    use core::arch::global_asm;

    // `rdi` = to, `rsi` = from, `rdx` = length; `rsi` = length. `rax`: 0, or what `dealt` has put there. One instruction of each may fault, and
    // where that is dealt with the stack is as at the beginning.
    global_asm!(
        ".section .text.musubi_guarded_copy, \"ax\"",
        ".globl musubi_guarded_copy, musubi_guarded_clear, musubi_guarded_begin, musubi_guarded_end",
        "musubi_guarded_copy:",
        "mov rcx, rdx",
        "xor eax, eax",
        "musubi_guarded_begin:",
        "rep movsb",
        "ret",
        "musubi_guarded_clear:",
        "mov rcx, rsi",
        "xor eax, eax",
        "rep stosb",
        "musubi_guarded_end:",
        "ret",
    );

    // SAFETY: defined above: functions with these signatures, and places in them.
    unsafe extern "C" {
        pub fn musubi_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> u64;
        pub fn musubi_guarded_clear(to: *mut u8, len: usize) -> u64;
        fn musubi_guarded_begin();
        fn musubi_guarded_end();
    }

    /// What a copy answers that has found no memory for a page.
    pub(super) const NO_MEMORY: u64 = 2;

    /// From now on.
    pub(crate) fn begin() {
        // Only a bad address is refused, and this is none.
        let _ = stub::fault_entry(&Trap, dealt as *const () as u64, 0);
    }

    /// Where the kernel has a thread of this text go on.
    extern "C" fn dealt(frame: &mut Frame) -> ! {
        let place = |place: unsafe extern "C" fn()| place as *const () as u64;
        let mended = (place(musubi_guarded_begin)..place(musubi_guarded_end)).contains(&frame.rip);
        if mended {
            frame.rip = place(musubi_guarded_end);
            frame.rax = if frame.cause == cause::NO_MEMORY { NO_MEMORY } else { 1 };
        } else {
            super::show(frame);
        }
        let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, mended.into());
        // It comes back only if the frame is spoilt: another fault here takes its course.
        loop {
            probe::read(8);
        }
    }
}

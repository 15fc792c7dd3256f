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
/// `BadAddress`: it is not all there (any more).
pub fn copy_in(from: &[u8]) -> Result<Vec<u8>, Error> {
    let mut to: Vec<u8> = Vec::with_capacity(from.len());
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
/// `BadAddress`: some of it could not be written.
pub fn copy_out(to: &mut [u8], from: &[u8]) -> Result<(), Error> {
    // SAFETY: both are at least so long.
    unsafe { copy(to.as_mut_ptr(), from.as_ptr(), to.len().min(from.len())) }
}

/// # Safety
/// Nobody else has a reference to the `len` bytes at `to`; what is written there may be any bytes. If the kernel lets this
/// program access less than that, it is an error and no undefined behaviour.
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> Result<(), Error> {
    #[cfg(target_os = "musubi")]
    {
        // SAFETY: the caller says so.
        let done = unsafe { machine::musubi_guarded_copy(to, from, len) };
        if done == 0 { Ok(()) } else { Err(Error::BadAddress) }
    }
    #[cfg(not(target_os = "musubi"))]
    {
        // SAFETY: the caller says so.
        unsafe { core::ptr::copy(from, to, len) };
        Ok(())
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
    use core::arch::global_asm;

    // `rdi` = to, `rsi` = from, `rdx` = length; `rax`: 0, or 1 if it could not all be accessed. One instruction may fault, and
    // where that is dealt with the stack is as at the beginning.
    global_asm!(
        ".section .text.musubi_guarded_copy, \"ax\"",
        ".globl musubi_guarded_copy, musubi_guarded_begin, musubi_guarded_end, musubi_guarded_fault",
        "musubi_guarded_copy:",
        "mov rcx, rdx",
        "musubi_guarded_begin:",
        "rep movsb",
        "musubi_guarded_end:",
        "xor eax, eax",
        "ret",
        "musubi_guarded_fault:",
        "mov eax, 1",
        "ret",
    );

    // SAFETY: defined above: a function with this signature, and places in it.
    unsafe extern "C" {
        pub fn musubi_guarded_copy(to: *mut u8, from: *const u8, len: usize) -> u64;
        fn musubi_guarded_begin();
        fn musubi_guarded_end();
        fn musubi_guarded_fault();
    }

    /// From now on.
    pub(crate) fn begin() {
        // Only a bad address is refused, and this is none.
        let _ = stub::fault_entry(&Trap, dealt as *const () as u64);
    }

    /// Where the kernel has a thread of this text go on.
    extern "C" fn dealt(frame: &mut Frame) -> ! {
        let place = |place: unsafe extern "C" fn()| place as *const () as u64;
        let mended = (place(musubi_guarded_begin)..place(musubi_guarded_end)).contains(&frame.rip);
        if mended {
            frame.rip = place(musubi_guarded_fault);
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

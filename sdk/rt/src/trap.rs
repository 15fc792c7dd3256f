//! The instructions that leave a program: the kernel call, the bound call, the plain call.

use abi::calls::Kernel;
use abi::{Error, gate};

/// The kernel, as the stubs of [`abi::calls::stub`] want it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trap;

impl Kernel for Trap {
    #[inline]
    fn enter(&self, number: u64, arguments: [u64; 6]) -> Result<u64, Error> {
        let (status, value) = machine::kernel_call(number, arguments);
        if status == 0 { Ok(value) } else { Err(error_of(status)) }
    }
}

/// Calls gate `index` of the block that `binding` is bound to.
#[inline]
pub(crate) fn bound_call(binding: u64, index: u64, arguments: [u64; 6]) -> Result<[u64; 2], Error> {
    let (status, values) = machine::bound_call(gate::call_number(binding, index), arguments);
    if status == 0 { Ok(values) } else { Err(error_of(status)) }
}

/// Calls the gate at an exported entry address by a plain `call`: no binding is needed, and none lends memory.
///
/// # Errors
/// `BadAddress` if `address` is not an entry address (it must lie outside everything that this program may execute, so
/// that the call cannot but fault into the kernel); what the kernel answers for the called program otherwise.
#[inline]
pub fn plain_call(address: u64, arguments: [u64; 6]) -> Result<[u64; 2], Error> {
    // Entry addresses are 16 bytes apart in an unmapped page of a text of the single space. A jump anywhere else would
    // be an end without an error; a jump into this program's own code would be worse.
    if !(abi::layout::SPACE_BASE..abi::layout::SPACE_END).contains(&address)
        || !address.is_multiple_of(gate::GATE_STEP)
        || machine::is_own_code(address)
    {
        return Err(Error::BadAddress);
    }
    let (status, values) = machine::plain_call(address, arguments);
    if status == 0 { Ok(values) } else { Err(error_of(status)) }
}

/// Out of the way of calls that go well.
#[cold]
#[inline(never)]
fn error_of(status: u64) -> Error {
    Error::from_word(status).unwrap_or(Error::NotSupported)
}

#[cfg(target_os = "musubi")]
mod machine {
    use core::arch::asm;

    // SAFETY: the linker defines both (program.ld); only their addresses are used.
    unsafe extern "C" {
        /// Where this program's code ends (program.ld).
        static musubi_text_end: u8;
        /// Where its text begins: the linker's symbol for the headers.
        static __ehdr_start: u8;
    }

    /// Whether there may be code of this program at `address`.
    #[inline]
    pub fn is_own_code(address: u64) -> bool {
        let end = (&raw const musubi_text_end) as u64;
        let first = (&raw const __ehdr_start) as u64;
        (first..end.next_multiple_of(abi::layout::PAGE)).contains(&address)
    }

    #[inline]
    pub fn kernel_call(number: u64, a: [u64; 6]) -> (u64, u64) {
        let (status, value);
        // SAFETY: the kernel keeps every register but rax, rdx, rcx and r11, does not use this stack, and touches memory
        // only as the call says, with this domain's rights.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => status,
                inlateout("rdx") a[2] => value,
                in("rdi") a[0], in("rsi") a[1], in("r10") a[3], in("r8") a[4], in("r9") a[5],
                lateout("rcx") _, lateout("r11") _,
                options(nostack),
            );
        }
        (status, value)
    }

    #[inline]
    pub fn bound_call(number: u64, a: [u64; 6]) -> (u64, [u64; 2]) {
        let (status, first, second);
        // SAFETY: abi::gate: rbx, rbp, r12 to r15 and rsp come back, everything else is declared lost. The callee works
        // with the rights that its own ACL entries give it.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number => first,
                inlateout("rdx") a[2] => second,
                inlateout("r10") a[3] => status,
                inlateout("rdi") a[0] => _, inlateout("rsi") a[1] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                clobber_abi("C"),
            );
        }
        (status, [first, second])
    }

    #[inline]
    pub fn plain_call(address: u64, a: [u64; 6]) -> (u64, [u64; 2]) {
        let (status, first, second);
        // SAFETY: as for a bound call; the address is not in this program, so the fetch faults and the kernel makes
        // the crossing (or ends the program).
        unsafe {
            asm!(
                "call rax",
                inlateout("rax") address => first,
                inlateout("rdx") a[2] => second,
                inlateout("rcx") a[3] => _,
                lateout("r10") status,
                inlateout("rdi") a[0] => _, inlateout("rsi") a[1] => _,
                inlateout("r8") a[4] => _, inlateout("r9") a[5] => _,
                clobber_abi("C"),
            );
        }
        (status, [first, second])
    }
}

#[cfg(not(target_os = "musubi"))]
use crate::host as machine;

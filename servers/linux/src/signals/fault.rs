//! What a fault of a program is on Linux: a signal, and what its handler is told.

use abi::Rights;
use abi::frame::{Frame, Vectors, reason};
use linux_raw_sys::general as linux;

/// What is told, as `siginfo` and `struct sigcontext` of Linux have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    pub signal: u64,
    pub code: u32,
    /// `si_addr`.
    pub address: u64,
    /// The vector, and the processor's error code.
    pub trap: u64,
    pub error: u64,
    /// Where an access was to go (`cr2`).
    pub access: u64,
}

/// Bits of the error code of an access.
const PROTECTION: u64 = 1;
const STORE: u64 = 2;
const USER: u64 = 4;
const FETCH: u64 = 16;
const PAGE_FAULT: u64 = 14;
/// Addresses from here on are the kernel's, of which Linux does not say whether anything is there.
const KERNELS: u64 = 1 << 47;

impl Fault {
    /// A fault that a frame tells of. `there`: what the program may do at the address, if anything is mapped there.
    #[must_use]
    pub fn of(frame: &Frame, there: Option<Rights>, vectors: &Vectors) -> Fault {
        if frame.reason == reason::FAULT { Fault::access(frame, there) } else { Fault::exception(frame, vectors) }
    }

    fn access(frame: &Frame, there: Option<Rights>) -> Fault {
        let (need, kind) = match Rights::from_bits_truncate(frame.right as u32) {
            right if right.contains(Rights::EXECUTE) => (Rights::EXECUTE, FETCH),
            right if right.contains(Rights::WRITE) => (Rights::WRITE, STORE),
            _ => (Rights::READ, 0),
        };
        let (signal, code) = match there {
            None => (linux::SIGSEGV, linux::SEGV_MAPERR),
            // It may, and cannot: there is no memory for it.
            Some(rights) if rights.contains(need) => (linux::SIGBUS, linux::BUS_ADRERR),
            Some(_) => (linux::SIGSEGV, linux::SEGV_ACCERR),
        };
        let is_refused = (signal, code) == (linux::SIGSEGV, linux::SEGV_ACCERR) || frame.address >= KERNELS;
        let error = USER | kind | if is_refused { PROTECTION } else { 0 };
        let (address, trap) = (frame.address, PAGE_FAULT);
        Fault { signal: signal.into(), code, address, trap, error, access: address }
    }

    fn exception(frame: &Frame, vectors: &Vectors) -> Fault {
        let trap = frame.address;
        let (signal, code, address) = match trap {
            0 => (linux::SIGFPE, linux::FPE_INTDIV, frame.rip),
            1 => (linux::SIGTRAP, linux::TRAP_TRACE, frame.rip),
            3 => (linux::SIGTRAP, linux::SI_KERNEL, 0),
            6 => (linux::SIGILL, linux::ILL_ILLOPN, frame.rip),
            // Of memory that has failed nobody says where it is.
            11 | 12 | 18 => (linux::SIGBUS, linux::SI_KERNEL, 0),
            16 | 19 => (linux::SIGFPE, floating(trap, vectors), frame.rip),
            17 => (linux::SIGBUS, linux::BUS_ADRALN, 0),
            _ => (linux::SIGSEGV, linux::SI_KERNEL, 0),
        };
        // Those of which the processor says more. (For others the kernel says something else there.)
        let error = if matches!(trap, 10..=14) { frame.code } else { 0 };
        Fault { signal: signal.into(), code, address, trap, error, access: 0 }
    }
}

/// Which floating-point exception it was: of those that have happened, the first that is not masked.
fn floating(trap: u64, vectors: &Vectors) -> u32 {
    let half = |at: usize| u32::from(u16::from_le_bytes([vectors.0[at], vectors.0[at + 1]]));
    let happened = if trap == 16 {
        half(Vectors::STATUS) & !half(Vectors::CONTROL)
    } else {
        half(Vectors::MXCSR) & !(half(Vectors::MXCSR) >> 7)
    };
    match happened {
        h if h & 0x01 != 0 => linux::FPE_FLTINV,
        h if h & 0x04 != 0 => linux::FPE_FLTDIV,
        h if h & 0x08 != 0 => linux::FPE_FLTOVF,
        h if h & 0x12 != 0 => linux::FPE_FLTUND,
        h if h & 0x20 != 0 => linux::FPE_FLTRES,
        _ => linux::FPE_FLTUNK,
    }
}

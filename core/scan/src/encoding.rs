//! What no executable page may hold while the gate of protection keys is in use, and why nothing else.
//!
//! Only what runs in user mode is meant: texts in supervisor mode are trusted. The gate's own page and what the kernel
//! itself executes are exempt.
//!
//! # Forbidden
//!
//! - **WRPKRU** (`0F 01 EF`) always. Prefixes need no look. Behind 66, F2, F3 or LOCK the same bytes are another
//!   instruction (`F3 0F 01 EF` is STUI) or none, but a jump past the prefix makes them WRPKRU; REX, 67 and segments
//!   change nothing. In 32-bit code the encoding is the same.
//! - **XRSTOR, XRSTOR64** (`0F AE /5` with an operand in memory) only where XCR0 has bit 9, the key register's. It loads
//!   the components EDX:EAX AND XCR0; one that XCR0 has not is neither loaded nor initialised, and a header that names
//!   it, in either format, faults. The kernel keeps bit 9 out, and XSETBV is not for user mode. To forbid it all the same
//!   would cost dearly: Debian's `ld.so` holds it, so no program that is linked dynamically would be clear. With an
//!   operand in a register the bytes are LFENCE.
//!
//! # Refused as a whole
//!
//! - **APX**: where XCR0 has bit 19, the prefix REX2 selects the second opcode map without the byte 0F (`D5 80 01 EF`).
//!   So [`Rules::for_xcr0`] takes no value with a bit that this list does not argue about.
//!
//! # Considered, and allowed
//!
//! - *Only at CPL 0; they fault elsewhere*: XRSTORS (`0F C7 /3`), XSETBV, WRMSR, WRMSRNS, WRMSRLIST, LKGS, moves to control
//!   and debug registers, SWAPGS, SYSRET, ERETU, WRUSS, SETSSBSY, and all other instructions of the kernel's.
//! - *Enter the kernel*: SYSCALL, SYSENTER, INT n, INT3, INT1, whatever faults. The kernel computes the register anew from
//!   its own frames at each entry (invariant 26). It leaves SYSENTER without a target.
//! - *Change what the gate does not trust*: WRFSBASE, WRGSBASE, moves to segment registers, far jumps and IRET within user
//!   mode, POPF. The gate uses absolute addresses, which 32-bit code does not reach; single-stepping ends at its door
//!   (invariants 27, 28).
//! - *Load other state*: FXRSTOR (`0F AE /1`), LDMXCSR, FRSTOR: x87 and SSE only. RDPKRU (`0F 01 EE`) reads what is no
//!   secret.
//! - *Off unless the kernel switches them on, which it must not*: SENDUIPI, UIRET, STUI, CLUI, TESTUI (CR4.UINTR: an
//!   interrupt in the gate would be pushed with the gate's rights to a stack of the attacker's choice); WRSS, RSTORSSP,
//!   SAVEPREVSSP, INCSSP (CR4.CET, and of shadow stacks only); UWRMSR (IA32_USER_MSR_CTL); GETSEC (CR4.SMXE).
//! - *Below us*: VMFUNC, VMCALL, VMMCALL do what a hypervisor lets them; without one they fault. A hypervisor of our own
//!   (the guarded twin) enables no VM function and answers no call from user mode.
//! - ENCLU needs an enclave, which only CPL 0 can make, and within which XCR0 is a part of ours.
//! - *Transactions* (XBEGIN, `C7 F8`): an abort brings back the registers of before. Whether that takes the key register
//!   along must not be what the gate rests on: where there is RTM, the kernel switches it off or does without keys.
//!   Scanning is no way: the bytes are common in moves of constants.

use core::fmt;

/// How many bytes decide about an encoding. (XRSTOR is longer; its further bytes may be any.)
pub(crate) const LEN: usize = 3;

// So an encoding lies in one page or in two, and never has a whole page in its middle.
const _: () = assert!(LEN < crate::PAGE + 2);

/// A forbidden encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Writes the key register.
    Wrpkru,
    /// Writes it where XCR0 says so.
    Xrstor,
}

impl Encoding {
    pub(crate) const ALL: [Encoding; 2] = [Encoding::Wrpkru, Encoding::Xrstor];

    /// The byte that all encodings begin with.
    pub(crate) const FIRST: u8 = 0x0f;

    /// The byte of it that code has least of, and where it stands. (In executable segments of Debian 12: 0F is 2.8 % of
    /// all bytes, 01 1.8 %, EF 0.25 %, AE 0.04 %.)
    pub(crate) const fn rarest(self) -> (u8, usize) {
        match self {
            Encoding::Wrpkru => (0xef, 2),
            Encoding::Xrstor => (0xae, 1),
        }
    }

    /// Whether its second byte can be this.
    pub(crate) const fn second(self, byte: u8) -> bool {
        match self {
            Encoding::Wrpkru => byte == 0x01,
            Encoding::Xrstor => byte == 0xae,
        }
    }

    /// Whether its third byte can be this.
    pub(crate) const fn third(self, byte: u8) -> bool {
        match self {
            Encoding::Wrpkru => byte == 0xef,
            // ModRM: the register field is 5, the operand is in memory.
            Encoding::Xrstor => byte >> 3 & 7 == 5 && byte >> 6 != 3,
        }
    }

    pub(crate) const fn is(self, bytes: [u8; LEN]) -> bool {
        bytes[0] == Encoding::FIRST && self.second(bytes[1]) && self.third(bytes[2])
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Wrpkru => "WRPKRU",
            Encoding::Xrstor => "XRSTOR",
        })
    }
}

/// What is forbidden on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    xrstor: bool,
}

/// XCR0 has components of which nobody has argued that no instruction loads the key register by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownState {
    /// Their bits.
    pub bits: u64,
}

/// The key register's bit in XCR0.
const PKRU: u64 = 1 << 9;

/// x87, SSE, AVX, MPX, AVX-512, the key register, AMX.
const KNOWN: u64 = 0b1111_1111 | PKRU | 0b11 << 17;

impl Rules {
    /// The rules for a machine whose XCR0 is this, on every processor, for ever.
    ///
    /// # Errors
    /// A component is unknown here: the machine must do without it, or without keys.
    pub const fn for_xcr0(xcr0: u64) -> Result<Rules, UnknownState> {
        match xcr0 & !KNOWN {
            0 => Ok(Rules { xrstor: xcr0 & PKRU != 0 }),
            bits => Err(UnknownState { bits }),
        }
    }

    /// Whether an encoding is forbidden.
    pub const fn forbid(self, encoding: Encoding) -> bool {
        match encoding {
            Encoding::Wrpkru => true,
            Encoding::Xrstor => self.xrstor,
        }
    }

    pub(crate) fn forbidden(self) -> impl Iterator<Item = Encoding> {
        Encoding::ALL.into_iter().filter(move |encoding| self.forbid(*encoding))
    }
}

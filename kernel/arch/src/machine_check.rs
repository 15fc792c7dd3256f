//! Machine checks: the processor has found that memory, a cache or a bus has failed (SSS-56).

use crate::cpu::{rdmsr, wrmsr};
use core::sync::atomic::{AtomicBool, Ordering};
use x86_64::registers::control::{Cr4, Cr4Flags};

pub const VECTOR: u64 = 18;

const CAPABILITIES: u32 = 0x179;
const STATUS: u32 = 0x17a;
const CONTROL: u32 = 0x17b;
const HAS_CONTROL: u64 = 1 << 8;
/// Of the status: what was interrupted can go on.
const RESTARTABLE: u64 = 1;
/// Registers of the first bank, four for each: control, status, address, more.
const BANKS: u32 = 0x400;
/// In a bank's status: it says something, of what was not corrected, it is not all, and the processor's own state is lost.
const VALID: u64 = 1 << 63;
const OVERFLOWN: u64 = 1 << 62;
const UNCORRECTED: u64 = 1 << 61;
const HAS_ADDRESS: u64 = 1 << 58;
const LOST: u64 = 1 << 57;

static PRESENT: AtomicBool = AtomicBool::new(false);

fn banks() -> u32 {
    // SAFETY: asked only where CPUID says that there are such registers.
    (unsafe { rdmsr(CAPABILITIES) } & 0xff) as u32
}

/// From now on this processor tells of what fails; without this, it would switch itself off.
pub(crate) fn set_up() {
    let features = raw_cpuid::CpuId::new().get_feature_info();
    if !features.is_some_and(|found| found.has_mce() && found.has_mca()) {
        return;
    }
    // SAFETY: CPUID and the capabilities say which of these registers exist. All ones in a control register mean that everything
    // is told; bits that mean nothing are ignored. What firmware has left in the banks is about the time before.
    unsafe {
        if rdmsr(CAPABILITIES) & HAS_CONTROL != 0 {
            wrmsr(CONTROL, u64::MAX);
        }
        for bank in 0..banks() {
            wrmsr(BANKS + 4 * bank, u64::MAX);
            wrmsr(BANKS + 4 * bank + 1, 0);
        }
        Cr4::update(|flags| flags.insert(Cr4Flags::MACHINE_CHECK_EXCEPTION));
    }
    PRESENT.store(true, Ordering::Relaxed);
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All was corrected, or it is another processor's.
    Nothing,
    /// What the program did is wrong; everything else is as it was. The bank's status, and whether the program can go on at the
    /// instruction that was interrupted.
    Program { status: u64, restartable: bool },
    /// Nobody knows what is still right.
    Machine(u64),
}

/// Reads what this processor has found, and has it tell of more. `each` gets a bank's number, status and, if there is one, address.
pub fn take(mut each: impl FnMut(u32, u64, Option<u64>)) -> Found {
    if !PRESENT.load(Ordering::Relaxed) {
        return Found::Nothing;
    }
    // SAFETY: the register exists.
    let restartable = unsafe { rdmsr(STATUS) } & RESTARTABLE != 0;
    let mut found = if restartable { Found::Nothing } else { Found::Program { status: 0, restartable } };
    for bank in 0..banks() {
        let register = BANKS + 4 * bank;
        // SAFETY: as in `set_up`; a bank that says it has an address has the register for it.
        let (status, address) = unsafe {
            let status = rdmsr(register + 1);
            let address = (status & (VALID | HAS_ADDRESS) == VALID | HAS_ADDRESS).then(|| rdmsr(register + 2));
            wrmsr(register + 1, 0);
            (status, address)
        };
        if status & VALID == 0 {
            continue;
        }
        each(bank, status, address);
        found = found.with(status, restartable);
    }
    // SAFETY: the register exists; while it is not zero, a second machine check switches the processor off.
    unsafe { wrmsr(STATUS, 0) };
    found
}

impl Found {
    fn with(self, status: u64, restartable: bool) -> Found {
        match self {
            Found::Machine(_) => self,
            _ if status & UNCORRECTED == 0 => self,
            _ if status & (LOST | OVERFLOWN) != 0 => Found::Machine(status),
            _ => Found::Program { status, restartable },
        }
    }
}

//! Doing on purpose what programs must not: for tests and demonstrations of protection. Each of these ends the program
//! if the system is as it should be, and is harmless if it is not.

use abi::Rights;

use crate::section::{Who, may};

/// Loads the byte at `address`.
pub fn read(address: u64) -> u8 {
    let value: u8;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a load changes nothing; it gives some byte, or faults.
    unsafe {
        core::arch::asm!("mov {}, [{}]", out(reg_byte) value, in(reg) address, options(nostack, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        value = address as u8;
    }
    value
}

/// Makes a write access to the byte at `address` that leaves its value alone.
pub fn write(address: u64) {
    #[cfg(target_arch = "x86_64")]
    if may(address, 1, Rights::WRITE, Who::Own) {
        // SAFETY: adding zero, atomically, changes nothing, whoever owns the byte; or the access faults.
        unsafe {
            core::arch::asm!("lock add byte ptr [{}], 0", in(reg) address, options(nostack));
        }
    } else {
        // A plain store: QEMU with one processor takes an atomic addition apart, so that it would fault by its read.
        // SAFETY: the kernel says that this domain may not write there, so the store faults.
        unsafe {
            core::arch::asm!("mov byte ptr [{}], 0", in(reg) address, options(nostack));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Calls `address` as code. Returns, without having tried, if this program may execute there.
pub fn execute(address: u64) {
    if may(address, 1, Rights::EXECUTE, Who::Own) {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel says that this domain may not execute there, so the fetch faults.
    unsafe {
        core::arch::asm!("call {}", in(reg) address, clobber_abi("C"));
    }
}

/// Ways to make the processor refuse an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    /// Division by zero.
    Divide,
    /// `hlt`, for the kernel only.
    Privileged,
    /// `ud2`, which does not exist.
    Undefined,
    /// `int3`.
    Breakpoint,
    /// A load from an address that is not canonical.
    NonCanonical,
    /// `in` from a port that is not ours.
    Port,
    /// The trap flag: the next instruction is a step.
    Step,
    /// A division by zero of the x87, which it is to tell of.
    X87,
    /// `int 4`, which programs may: the number of what `into` raises, where there is one.
    Overflow,
    /// `int 5`, which supervisor mode may, as those below: the number of what `bound` raises, where there is one.
    Bound,
    /// `int 7`: that of an instruction for a unit that is off.
    NoDevice,
    /// `int 19`: that of what vector instructions raise.
    Vector,
}

/// Executes the instruction.
pub fn instruction(which: Instruction) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each of these raises an exception in user mode, and those that are asked for by number in supervisor mode, too, without another effect.
    unsafe {
        use core::arch::asm;
        match which {
            Instruction::Divide => asm!("div {z}", z = in(reg) 0u64, inout("rax") 1u64 => _, inout("rdx") 0u64 => _),
            Instruction::Privileged => asm!("hlt"),
            Instruction::Undefined => asm!("ud2"),
            Instruction::Breakpoint => asm!("int3"),
            Instruction::NonCanonical => asm!("mov {}, [{}]", out(reg) _, in(reg) 1u64 << 63),
            Instruction::Port => asm!("in al, dx", in("dx") 0x60u16, out("al") _),
            Instruction::Step => asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq", "nop", "nop"),
            Instruction::Overflow => asm!("int 4"),
            Instruction::Bound => asm!("int 5"),
            Instruction::NoDevice => asm!("int 7"),
            Instruction::Vector => asm!("int 19"),
            Instruction::X87 => {
                asm!(
                    "fninit", "push 0x37b", "fldcw [rsp]", "pop {w}", "fld1", "fldz", "fdivp", "fwait", "fninit",
                    w = out(reg) _, out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                );
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = which;
}

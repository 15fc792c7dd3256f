//! The Rust side of `entry.S`: what a trap is, and the functions of the kernel that serve calls and traps.

use crate::context::{Registers, Resume};
use crate::{apic, cpu, descriptors, fatal, pass, percpu, shown};
use core::arch::global_asm;
use core::sync::atomic::Ordering;

global_asm!(
    include_str!("entry.S"),
    include_str!("gate.S"),
    include_str!("pass.S"),
    include_str!("post.S"),
    include_str!("aside.S"),
    include_str!("light.S"),
    light_count = const abi::calls::LIGHT_COUNT,
    mbcf_count = const abi::calls::MBCF_COUNT,
    first_text = const abi::layout::FIRST_TEXT,
    told = const shown::TOLD as u32,
    lap_max = const pass::LAP_MAX,
    look_around = const percpu::LOOK_AROUND,
    options(att_syntax)
);

/// Bits of a page fault's error code (Intel SDM vol. 3A, 4.7).
pub mod page_fault {
    /// Something is mapped there, but not for this.
    pub const PRESENT: u64 = 1;
    pub const STORE: u64 = 1 << 1;
    /// With the program's rights.
    pub const USER: u64 = 1 << 2;
    pub const FETCH: u64 = 1 << 4;
    /// By the page's key.
    pub const KEY: u64 = 1 << 5;
}

/// Why the running thread entered the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Trap {
    /// The `syscall` instruction.
    Call,
    /// A page fault: address, and the processor's error code.
    PageFault { address: u64, error: u64 },
    /// Another exception: vector and error code.
    Exception { vector: u64, error: u64 },
    /// What the short way of a message has left to do (`post.rs`).
    Posted,
    /// A light call has been served, and there is something to look at (`light.S`).
    Left,
    /// An interrupt, not yet acknowledged.
    Interrupt { vector: u8 },
}

/// Names the type that the kernel proper has one of for each processor, and the functions by which it is entered: on the first processor with the machine set up, on
/// every further processor, on every call by the full entry, on every other trap of user code, by a message that may take the short way (sent and received, asked, answered and received
/// in one step, or anything else), by a fault that a pager may be asked for by the short way and by its answer, by light calls and by memory operations.
#[macro_export]
macro_rules! kernel {
    (
        main: $main:path, processor: $processor:path, own: $own:ty, call: $call:path, trap: $trap:path,
        sends_and_receives: $sends_and_receives:path, asks_for_answer: $asks_for_answer:path, answers_and_receives: $answers_and_receives:path,
        plain: $plain:path,
        asks: $asks:path, answered: $answered:path, light: $light:path, mbcf: $mbcf:path
    ) => {
        #[expect(unsafe_code, reason = "the names by which arch finds the kernel")]
        mod entries {
            #![allow(clippy::wildcard_imports)]
            use super::*;
            // SAFETY: there is one kernel in an image, and it has one of each.
            unsafe impl $crate::percpu::Own for $own {}
            // SAFETY: no other symbol of the image has one of these names, and the types are those that arch declares.
            #[unsafe(no_mangle)]
            fn kernel_main(info: $crate::boot::Info) -> ! {
                $main(info)
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            fn kernel_processor(index: usize) -> ! {
                $processor(index)
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            fn kernel_trap(trap: $crate::entry::Trap) -> $crate::context::Resume {
                $trap(trap)
            }
            // SAFETY: as above; `entry.S` calls it.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_call() -> *const $crate::context::Registers {
                $crate::context::Resume::pointer(Some($call()))
            }
            // SAFETY: as above; `aside.S` calls it.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_asks(error: u64, address: u64) -> *const $crate::context::Registers {
                $crate::context::Resume::pointer($asks(error, address))
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_answered(status: u64, value: u64) -> *const $crate::context::Registers {
                $crate::context::Resume::pointer($answered(status, value))
            }
            // SAFETY: as above; `light.S` reads it.
            #[unsafe(no_mangle)]
            static kernel_light: $crate::light::Table = $light;
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            static kernel_mbcf: $crate::light::MbcfTable = $mbcf;
            // SAFETY: as above; `post.S` calls it.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_sends_and_receives(
                frame: &mut $crate::post::Frame,
                domain: u32,
                card: &'static $crate::pass::Card,
            ) -> ! {
                $sends_and_receives(frame, domain, card)
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_asks_for_answer(
                frame: &mut $crate::post::Frame,
                domain: u32,
                card: &'static $crate::pass::Card,
            ) -> ! {
                $asks_for_answer(frame, domain, card)
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_answers_and_receives(
                frame: &mut $crate::post::Frame,
                domain: u32,
                card: &'static $crate::pass::Card,
            ) -> ! {
                $answers_and_receives(frame, domain, card)
            }
            // SAFETY: as above.
            #[unsafe(no_mangle)]
            extern "C" fn kernel_plain(
                frame: &mut $crate::post::Frame,
                domain: u32,
                card: &'static $crate::pass::Card,
            ) -> ! {
                $plain(frame, domain, card)
            }
        }
    };
}

// SAFETY: `kernel!` defines it with this type.
unsafe extern "Rust" {
    /// Defined by the kernel proper. Serves the trap of the thread running on this processor and says how to go on.
    pub(crate) safe fn kernel_trap(trap: Trap) -> Resume;
}

// SAFETY: labels in `entry.S`.
unsafe extern "C" {
    static syscall_entry: u8;
    fn resume() -> !;
}

/// Called by `entry.S` with the running thread's registers saved, for whatever is no call.
#[unsafe(no_mangle)]
extern "C" fn trap_entry() -> *const Registers {
    let end = percpu::block().context.load(Ordering::Relaxed);
    let registers = (end - size_of::<Registers>() as u64) as *const Registers;
    // SAFETY: the save area of the thread that was running; see `Area`.
    let (vector, error) = unsafe { ((*registers).vector, (*registers).error) };
    let trap = match vector {
        14 => Trap::PageFault { address: cpu::fault_address(), error },
        0..=31 => Trap::Exception { vector, error },
        _ => Trap::Interrupt { vector: vector as u8 },
    };
    kernel_trap(trap).0
}

/// Called by `light.S` with the running thread's registers saved, as its call leaves them.
#[unsafe(no_mangle)]
extern "C" fn left_entry() -> *const Registers {
    kernel_trap(Trap::Left).0
}

/// An interrupt in the idle loop, or a fault of the kernel itself.
#[unsafe(no_mangle)]
extern "C" fn kernel_interrupt(registers: &Registers) {
    let vector = registers.vector as u8;
    if vector < apic::FIRST_VECTOR {
        fatal::exception(registers);
    }
    percpu::block().pending.fetch_or(1 << ((vector - apic::FIRST_VECTOR) & 63), Ordering::Relaxed);
    apic::acknowledge(vector);
}

#[unsafe(no_mangle)]
extern "C" fn kernel_fatal(registers: &Registers) -> ! {
    fatal::exception(registers)
}

/// Points the processor's next entry from user mode at these registers.
#[inline(always)]
pub(crate) fn set_save_area(registers: *mut Registers) {
    let end = registers as u64 + size_of::<Registers>() as u64;
    let block = percpu::block();
    if block.context.load(Ordering::Relaxed) != end {
        block.context.store(end, Ordering::Relaxed);
        descriptors::set_entry_stack(end);
    }
}

/// Leaves the kernel for the first time on this processor.
pub fn enter(how: Resume) -> ! {
    // SAFETY: `Resume` is only made by `Area::resume`, which checked the registers.
    unsafe { core::arch::asm!("jmp {}", sym resume, in("rax") how.0, options(noreturn)) }
}

/// Sets up the `syscall` instruction on this processor.
pub(crate) fn set_up() {
    const STAR: u32 = 0xc000_0081;
    const LSTAR: u32 = 0xc000_0082;
    const SFMASK: u32 = 0xc000_0084;
    // SAFETY: selectors as in `descriptors`; TF IF DF NT AC and the rest are cleared on entry (pitfalls, H15).
    unsafe {
        cpu::wrmsr(STAR, 0x0013_0008 << 32);
        cpu::wrmsr(LSTAR, &raw const syscall_entry as u64);
        cpu::wrmsr(SFMASK, 0x0025_7fd5 & !2);
    }
}

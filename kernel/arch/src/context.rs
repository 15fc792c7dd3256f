//! The saved state of a thread: registers as `entry.S` saves them, and vector state.

use crate::fpu;
use crate::percpu::{self, block};
use crate::post::{Frame, Kept};
use abi::frame::Vectors;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, UnsafeCell};

/// General registers in the order in which `entry.S` pushes them (lowest address first).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(16))]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rax: u64,
    pub vector: u64,
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

/// Mark in [`Registers::vector`] of a context saved by the `syscall` instruction.
pub const VECTOR_SYSCALL: u64 = 0x100;
/// In [`Registers::vector`]: saved by a page fault.
pub const PAGE_FAULT: u64 = 14;
/// Mark of a context that was made or changed by the kernel and must be resumed in full.
pub const VECTOR_FULL: u64 = 0x101;

/// Bytes of `syscall`.
const SYSCALL_LEN: u64 = 2;
/// Mark of a context that goes on with the registers of a message that lies elsewhere: at the address that is in [`Registers::error`]. Known to `entry.S`, which tells it
/// from all others by the overflow of a comparison.
const VECTOR_MESSAGE: u64 = 1 << 63;

const USER_CODE: u64 = 0x23;
const USER_DATA: u64 = 0x1b;
/// Of the kernel, and of texts that are placed in supervisor mode.
const SYSTEM_CODE: u64 = 0x08;
const SYSTEM_DATA: u64 = 0x10;
/// Interrupts on, and the bit that is always 1.
pub const FLAGS_DEFAULT: u64 = 0x202;
/// Flags that a program may choose for itself: CF PF AF ZF SF DF OF.
pub const FLAGS_USER: u64 = 0xcd5;
/// TF, which it can set besides: an exception after its next instruction.
pub const FLAG_STEP: u64 = 0x100;
/// AC, which it can set besides: exceptions for accesses that are not aligned.
pub const FLAG_ALIGNMENT: u64 = 0x4_0000;
/// Flags that a program can set besides, with `popf`: TF NT RF AC ID.
const FLAGS_HARMLESS: u64 = 0x25_4100;
/// The first address beyond the lower half.
const HALF: u64 = 1 << 47;

impl Registers {
    /// The call that these were saved by is made once more when they go on: `syscall` is two bytes long, and `rax` still holds the number.
    #[inline]
    pub fn repeat_call(&mut self) {
        self.rip = self.rip.wrapping_sub(SYSCALL_LEN);
    }

    /// It is not, after all.
    pub fn leave_call(&mut self) {
        self.rip = self.rip.wrapping_add(SYSCALL_LEN);
    }

    /// The registers of code about to start at `rip` on `rsp`, everything else zero.
    #[inline]
    pub fn start(rip: u64, rsp: u64) -> Registers {
        Registers {
            rip,
            rsp,
            cs: USER_CODE,
            ss: USER_DATA,
            rflags: FLAGS_DEFAULT,
            vector: VECTOR_FULL,
            ..Registers::default()
        }
    }

    /// Whether it is safe to resume: interrupts on, no system flags, canonical lower-half addresses, and the mode that is meant.
    #[inline]
    fn is_safe(&self, supervisor: bool) -> bool {
        let mode = if supervisor { (SYSTEM_CODE, SYSTEM_DATA) } else { (USER_CODE, USER_DATA) };
        (self.cs, self.ss) == mode && self.rflags & !(FLAGS_USER | FLAGS_HARMLESS) == FLAGS_DEFAULT && self.rip < HALF
    }
}

struct Inner {
    registers: UnsafeCell<Registers>,
    /// The message that it goes on with, if that lies elsewhere yet (K1-48): then only where it goes on is here, until somebody asks for the rest.
    message: Cell<Option<Kept>>,
    vector_state: UnsafeCell<fpu::State>,
}

/// Where a thread's state is saved. While the thread runs on a processor, only that processor touches the area: its
/// entry code writes it, and the kernel code that follows reads and changes it under the thread's lock.
pub struct Area(Box<Inner>);

// SAFETY: the area is plain memory; exclusive use is the rule above, kept by the thread's lock and state.
unsafe impl Send for Area {}

/// Permission to leave the kernel with a certain area's registers: the end of every trap.
pub struct Resume(pub(crate) *const Registers);

impl Resume {
    /// For assembly; null: there is none.
    #[inline]
    pub fn pointer(resume: Option<Resume>) -> *const Registers {
        resume.map_or(core::ptr::null(), |resume| resume.0)
    }
}

impl Area {
    pub fn new(registers: Registers) -> Area {
        Area(Box::new(Inner {
            registers: UnsafeCell::new(registers),
            message: Cell::new(None),
            vector_state: UnsafeCell::new(fpu::State::clean()),
        }))
    }

    /// One of those that are kept, or a new one.
    pub fn spare(kept: &mut Vec<Area>) -> Area {
        kept.pop().unwrap_or_else(|| Area::new(Registers::default()))
    }

    #[inline]
    pub fn registers(&self) -> &Registers {
        self.write_down();
        // SAFETY: no `&mut` exists while `&self` does (nor does `write_down` make one: nothing lies elsewhere now); assembly writes only while user code runs.
        unsafe { &*self.0.registers.get() }
    }

    #[inline]
    pub fn registers_mut(&mut self) -> &mut Registers {
        self.write_down();
        self.0.registers.get_mut()
    }

    /// The same where no message can lie elsewhere: the thread runs, and has not waited since it came into the kernel. Of any other one: only where it goes on.
    #[inline(always)]
    pub fn as_saved(&self) -> Registers {
        // SAFETY: as for `registers`.
        unsafe { *self.0.registers.get() }
    }

    /// Where they are.
    #[inline(always)]
    pub(crate) fn place(&self) -> *const Registers {
        self.0.registers.get()
    }

    #[inline(always)]
    pub fn as_saved_mut(&mut self) -> &mut Registers {
        self.0.registers.get_mut()
    }

    /// The thread has called, and goes on with this message, which lies there until it does.
    pub fn goes_on_with(&mut self, message: Kept) {
        self.0.message.set(Some(message));
    }

    /// A message that lies elsewhere is here from now on.
    #[inline(always)]
    pub fn write_down(&self) {
        if self.0.message.get().is_some() {
            self.copy_message();
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_message(&self) {
        let Some(Kept(message)) = self.0.message.take() else { return };
        // SAFETY: only `goes_on_with` has left a message here, which had the area for itself, and whoever has asked for the registers since has come by
        // here: there is no reference to them.
        let registers = unsafe { &mut *self.0.registers.get() };
        let mut frame = Frame::default();
        frame.take(message);
        frame.give(registers);
        let counters = &block().counters;
        percpu::add(&counters.copied_bytes, size_of::<[u64; 6]>() as u64);
        percpu::add(&counters.copies, 1);
    }

    /// Saves this processor's vector state here. The thread of this area must be the one that ran last.
    #[inline]
    pub fn save_vector_state(&mut self) {
        self.0.vector_state.get_mut().save();
    }

    /// The vector state from here is that of a program's start.
    pub fn forget_vector_state(&mut self) {
        *self.0.vector_state.get_mut() = fpu::State::clean();
    }

    /// Loads the vector state from here.
    #[inline]
    pub fn restore_vector_state(&self) {
        // SAFETY: as for `registers`.
        unsafe { &*self.0.vector_state.get() }.restore();
    }

    /// The saved vector state, as programs are told it.
    pub fn vectors(&self) -> Vectors {
        // SAFETY: as for `registers`.
        unsafe { &*self.0.vector_state.get() }.told()
    }

    /// In place of the saved vector state, what a program asks for.
    pub fn set_vectors(&mut self, asked: &Vectors) {
        self.0.vector_state.get_mut().take(asked);
    }

    /// A copy of the saved vector state (the thread must not be running).
    pub fn copy_vector_state(&mut self, from: &Area) {
        // SAFETY: as for `registers`.
        *self.0.vector_state.get_mut() = unsafe { &*from.0.vector_state.get() }.clone();
    }

    /// The registers to leave the kernel with. Makes the area this processor's save area for the next entry.
    ///
    /// `supervisor`: in the processor's supervisor mode, since the text that the thread executes is placed there.
    ///
    /// # Panics
    /// When the registers would not lead there: a bug in the kernel.
    #[inline(always)]
    pub fn resume(&mut self, supervisor: bool) -> Resume {
        if self.as_saved().rip >= HALF {
            // The program jumped, or returns, to where no code can be: the fetch at 0 faults in its own name.
            self.0.registers.get_mut().rip = 0;
        }
        if supervisor {
            // However it came in (`syscall` says nothing about the mode that it was in), and whatever it has set of the processor's own
            // flags. `sysret` leads to user mode only.
            let registers = self.0.registers.get_mut();
            (registers.cs, registers.ss) = (SYSTEM_CODE, SYSTEM_DATA);
            registers.rflags = registers.rflags & (FLAGS_USER | FLAGS_HARMLESS) | FLAGS_DEFAULT;
            if registers.vector == VECTOR_SYSCALL {
                registers.vector = VECTOR_FULL;
            }
        }
        let registers = self.0.registers.get();
        // SAFETY: exclusive through `&mut self`.
        let safe = unsafe { (*registers).is_safe(supervisor) };
        assert!(safe, "a thread would leave the kernel with unsafe registers: {:#x?}", self.registers());
        crate::entry::set_save_area(registers);
        Resume(registers)
    }

    /// The same on the way out that looks around, by which everybody leaves who has waited: a message that he goes on with may lie elsewhere.
    #[inline(always)]
    pub fn resume_as_left(&mut self, supervisor: bool) -> Resume {
        let resume = self.resume(supervisor);
        if let Some(Kept(message)) = self.0.message.take() {
            let registers = self.0.registers.get_mut();
            (registers.vector, registers.error) = (VECTOR_MESSAGE, message.as_ptr() as u64);
        }
        resume
    }
}

//! The short way of a message (`post.S`, docs/decisions/0009): a thread that sends and then waits *rests* in a post, and the one
//! that has received goes on in its place. Of a thread that rests there is nothing to keep but where it goes on: all its
//! registers are the message's.
//!
//! While a thread rests where the kernel proper has not written that down yet, only that processor touches its card. After that
//! (it rests *anywhere*) it belongs to whoever ends its wait, of whom `core/post` sees to it that there is but one.

use crate::context::{Registers, VECTOR_SYSCALL};
use crate::entry::{Trap, kernel_trap};
use crate::pass::{Card, get, link, set};
use crate::percpu::{self, Block, block};
use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

/// A message in registers, as `post.S` pushes them.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Frame {
    pub rbx: u64,
    pub rbp: u64,
    /// `r10 r8 r9 r12 r13 r14`
    pub words: [u64; 6],
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rax: u64,
    rip: u64,
    rflags: u64,
    rsp: u64,
}

/// Registers of a message, up to where its thread goes on.
const REGISTERS: usize = offset_of!(Frame, rip) / size_of::<u64>();

/// A message that is kept: the same registers, in the order of a [`Frame`].
#[derive(Clone, Copy)]
pub struct Kept(pub(crate) &'static [AtomicU64; REGISTERS]);

impl Kept {
    #[inline(always)]
    pub fn new(registers: &'static [AtomicU64; REGISTERS]) -> Kept {
        Kept(registers)
    }
}

/// What becomes of a message on the short way.
#[derive(Clone, Copy)]
pub enum Way {
    /// Nothing was done.
    Refused,
    /// Its thread goes on, with what is in the frame.
    Back,
    /// The same, with the registers of a message that was there.
    Took(Kept),
    /// Its thread rests, and this one goes on, with the registers of a message that was kept for it or with what is in the frame.
    To(Next, Option<Kept>),
    /// The kernel proper does what is left ([`Trap::Posted`]).
    Kernel,
}

/// A thread that has rested and is to go on here.
#[derive(Clone, Copy)]
pub struct Next(&'static Card);

const SINCE: usize = offset_of!(Block, since);

/// In [`Card::rests`]: it runs, and was put by for a plain message before.
const TOLD: u64 = u64::MAX - 1;

/// In [`Card::rests`]: it was written down, and belongs to whoever ends the wait.
const ANYWHERE: u64 = u64::MAX;

impl Frame {
    pub fn of(registers: &Registers) -> Frame {
        let Registers { rbx, rbp, r10, r8, r9, r12, r13, r14, r15, rdi, rsi, rdx, rax, rip, rflags, rsp, .. } =
            *registers;
        Frame { rbx, rbp, words: [r10, r8, r9, r12, r13, r14], r15, rdi, rsi, rdx, rax, rip, rflags, rsp }
    }

    /// Where its thread goes on, and nothing else.
    pub fn bare(&self) -> Frame {
        let Frame { rip, rflags, rsp, .. } = *self;
        Frame { rip, rflags, rsp, ..Frame::default() }
    }

    /// Takes over the registers of a message that is kept.
    pub fn take(&mut self, kept: &[AtomicU64; REGISTERS]) {
        let [rbx, rbp, words @ .., r15, rdi, rsi, rdx, rax] = kept.each_ref().map(get);
        let Frame { rip, rflags, rsp, .. } = *self;
        *self = Frame { rbx, rbp, words, r15, rdi, rsi, rdx, rax, rip, rflags, rsp };
    }

    /// Gives it to a thread that goes on where it has called.
    pub fn give(&self, registers: &mut Registers) {
        let Registers { rip, rflags, rsp, .. } = *registers;
        *registers = Frame { rip, rflags, rsp, ..*self }.registers();
    }

    /// The registers of a thread that has made a call with this; what a call loses is lost.
    pub fn registers(&self) -> Registers {
        let Frame { rbx, rbp, words, r15, rdi, rsi, rdx, rax, rip, rflags, rsp } = *self;
        let [r10, r8, r9, r12, r13, r14] = words;
        let start = Registers::start(rip, rsp);
        Registers {
            rbx,
            rbp,
            r10,
            r8,
            r9,
            r12,
            r13,
            r14,
            r15,
            rdi,
            rsi,
            rdx,
            rax,
            rcx: rip,
            r11: rflags,
            rflags,
            vector: VECTOR_SYSCALL,
            ..start
        }
    }
}

impl Card {
    /// Number of the record of its thread in the pool; 0: none.
    #[inline]
    pub fn record(&self) -> u32 {
        get(&self.record) as u32
    }

    pub fn set_record(&self, record: u32) {
        set(&self.record, record.into());
    }

    /// The running thread is about to rest; `post.S` has put down in which domain, and where it goes on.
    #[inline(always)]
    pub fn rest(&self, processor: usize) {
        self.rests.store(processor as u64 + 1, Ordering::Release);
    }

    /// It goes on after all.
    #[inline]
    pub fn rise(&self) {
        set(&self.rests, 0);
    }

    /// The running thread rests from here on: the kernel proper hears of it when it settles.
    #[inline(always)]
    pub fn has_lain_down(&'static self) {
        link(self);
        let now = crate::cpu::tsc();
        set(&self.ticks, get(&self.ticks) + now.wrapping_sub(percpu::word::<SINCE>()));
        percpu::set_word::<SINCE>(now);
    }

    /// Whether this is the thread of this number, and it rests where it can go on here; its wait was ended by the caller.
    #[inline(always)]
    pub fn is_next(&self, number: u64, processor: usize) -> bool {
        let rests = self.rests.load(Ordering::Acquire);
        self.number() == number && (rests == processor as u64 + 1 || rests == ANYWHERE)
    }

    /// That thread, if so. It goes on where its card says.
    #[inline(always)]
    pub fn next(&'static self, number: u64, processor: usize) -> Option<Next> {
        if !self.is_next(number, processor) {
            return None;
        }
        set(&self.rests, 0);
        link(self);
        Some(Next(self))
    }

    /// The same for one who was put by. Until it rests again that is remembered.
    pub fn next_told(&'static self, number: u64, processor: usize) -> Option<Next> {
        self.next(number, processor).inspect(|_| self.tell())
    }

    /// The running thread goes on with a plain message that it was put by for.
    pub fn tell(&self) {
        set(&self.rests, TOLD);
    }

    /// Whether it was. It is about to rest.
    #[inline(always)]
    pub fn was_told(&self) -> bool {
        get(&self.rests) == TOLD
    }

    /// The processor where it rests and nobody has written that down yet.
    pub fn rests_at(&self) -> Option<usize> {
        match self.rests.load(Ordering::Acquire) {
            0 | ANYWHERE | TOLD => None,
            at => Some(at as usize - 1),
        }
    }

    /// The processor that has let it go when it came to rest last.
    #[inline(always)]
    pub fn last(&self) -> usize {
        get(&self.last) as usize
    }

    /// Whether it rests and all of its state is there.
    pub fn lies(&self) -> bool {
        self.rests.load(Ordering::Acquire) == ANYWHERE
    }

    /// Registers of a thread that rests: there is no more to them.
    pub fn registers_at_rest(&self) -> Registers {
        Registers { vector: VECTOR_SYSCALL, ..Registers::start(get(&self.rest_rip), get(&self.rest_sp)) }
    }

    /// It was written down that the thread rests, and all of its state is there. It can go on anywhere.
    pub fn lie(&self) {
        set(&self.last, percpu::index() as u64);
        // Whoever has something for it to look at ([`Card::do_not_lie`]) finds it so, or is found when that is asked next.
        self.rests.swap(ANYWHERE, Ordering::SeqCst);
    }

    /// If that is so, it is not to go on by the short way, though it waits.
    pub fn do_not_lie(&self) {
        let _ = self.rests.compare_exchange(ANYWHERE, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// A thread that waits in a post with these registers, in this domain, may rest ([`Card::lie`]).
    pub fn lay_down(&self, registers: &Registers, domain: u32) {
        let Registers { rip, rsp, .. } = *registers;
        set(&self.rest_domain, domain.into());
        set(&self.rest_rip, rip);
        set(&self.rest_sp, rsp);
    }
}

impl Way {
    /// Goes on in `post.S`, whatever is on the stack below the frame. It does not return: what a function puts back at its end nobody
    /// needs there, and that would be a good part of a message.
    #[inline(always)]
    pub fn go(self, frame: &mut Frame) -> ! {
        let frame = core::ptr::from_mut(frame).cast_const().cast();
        let from = |kept: Option<Kept>| kept.map_or(frame, |Kept(registers)| registers.as_ptr());
        let (word, stack) = match self {
            Way::Refused => (0, frame),
            Way::Back => (1, frame),
            Way::Kernel => (2, frame),
            Way::Took(kept) => (3, from(Some(kept))),
            Way::To(Next(card), kept) => (core::ptr::from_ref(card) as u64, from(kept)),
        };
        // SAFETY: that is where `post.S` has called from with the stack pointer at the frame, and it expects no other register but this: the way,
        // or the card of the one that goes on. For the last two it only takes the registers of a message off the stack, whose other end it does
        // not look at, and pushes nothing; those of one that is kept are there as long as the system runs. Nothing that would have to be
        // dropped is left.
        unsafe {
            asm!("mov rsp, {}", "jmp post_done", in(reg) stack, in("rax") word, options(noreturn));
        }
    }
}

impl Frame {
    /// Nothing was done; its call is made once more, from the beginning.
    #[inline(always)]
    pub fn call_again(&mut self) -> ! {
        // SAFETY: as `Way::Refused` does; there all registers are had from the frame, and it goes on where it came in.
        unsafe { asm!("mov rsp, {}", "jmp post_again", in(reg) core::ptr::from_mut(self), options(noreturn)) }
    }
}

/// Called by `post.S` with what the running thread goes on with, if it does.
#[unsafe(no_mangle)]
extern "C" fn post_left(frame: &Frame) -> *const Registers {
    let end = get(&block().context);
    let registers = (end - size_of::<Registers>() as u64) as *mut Registers;
    // SAFETY: the save area of the running thread, which the entry code writes (context.rs, `Area`).
    unsafe { registers.write(frame.registers()) };
    kernel_trap(Trap::Posted).0
}

//! The gate's code: the page that every thread shows, and where in it a thread was that the kernel stopped.

use super::{BY_KERNEL, FRAME_LEN, FRAMES, Gate, PAGE, word};
use crate::context::{FLAGS_DEFAULT, Registers, VECTOR_FULL};
use crate::frames;
use crate::image::direct;
use abi::gate::{DEPTH_MAX, GATE_BASE};
use core::ops::Range;
use spin::Once;

// SAFETY: labels in `gate.S`.
unsafe extern "C" {
    static gate_begin: u8;
    static gate_end: u8;
    static gate_ranges: [u64; 10];
}

/// Places in the gate's code, as addresses.
struct Places {
    in_open: u64,
    in_clean: u64,
    in_trap: u64,
    in_kernel: u64,
    in_end: u64,
    out_open: u64,
    out_clean: u64,
    out_jump: u64,
    out_end: u64,
    again: u64,
}

fn places() -> Places {
    // SAFETY: constants in the image.
    let [a, b, c, d, e, f, g, h, i, j] = unsafe { gate_ranges }.map(|offset| GATE_BASE + offset);
    Places {
        in_open: a,
        in_clean: b,
        in_trap: c,
        in_kernel: d,
        in_end: e,
        out_open: f,
        out_clean: g,
        out_jump: h,
        out_end: i,
        again: j,
    }
}

/// Where a plain call's caller goes on: at a `ret`.
pub fn again() -> u64 {
    places().again
}

/// Whether an address lies in the gate's code.
#[inline]
pub fn is_gate(rip: u64) -> bool {
    rip & !(PAGE - 1) == GATE_BASE
}

/// How far a thread was that was stopped in the gate (pitfalls, H3, H12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// At an instruction that runs with the program's own rights and uses its own stack.
    Outside,
    /// On the way in; the crossing was undone and begins anew.
    In,
    /// On the way out; likewise.
    Out,
    /// The crossing is made; what is left begins anew.
    Made,
    /// It was about to go on in the caller of a frame that only the kernel can return through; the frame is back on the stack.
    KernelFrame,
    /// It tried to return where there was no call.
    NoCall,
}

/// The code page, one for all threads.
pub(super) fn page() -> u64 {
    static CODE: Once<u64> = Once::new();
    *CODE.call_once(|| {
        let page = frames::take_zeroed().expect("memory for the gate");
        // SAFETY: the symbols delimit less than a page of constants; the frame is ours.
        unsafe {
            let begin = &raw const gate_begin;
            let len = (&raw const gate_end).offset_from(begin) as usize;
            assert!(len <= PAGE as usize);
            direct(page).copy_from_nonoverlapping(begin, len);
        }
        page
    })
}

/// Sends a thread that could not cross by itself ([`Stopped::In`]) the way through the kernel.
pub fn send_to_kernel(registers: &mut Registers) {
    registers.rip = places().in_kernel;
}

impl Gate {
    /// Where a thread was that entered the kernel at `rip`; brings the registers to a place from which it can go on.
    #[inline]
    pub fn rewind(&mut self, registers: &mut Registers) -> Stopped {
        let rip = registers.rip;
        if is_gate(rip) || rip & BY_KERNEL != 0 { self.rewind_in_gate(registers) } else { Stopped::Outside }
    }

    fn rewind_in_gate(&mut self, registers: &mut Registers) -> Stopped {
        if word(self.head) < FRAMES {
            self.set_top(0);
            registers.rip = 0;
            return Stopped::NoCall;
        }
        let rip = registers.rip;
        let p = places();
        let within = |range: Range<u64>| range.contains(&rip);
        let depth = self.depth();
        let above = if depth < DEPTH_MAX { self.frame(depth + 1).rip } else { 0 };
        let how = if within(p.in_clean..p.in_kernel) && rip <= p.in_trap {
            (registers.rip, registers.r11) = (p.in_clean, self.frame(depth).record);
            Stopped::Made
        } else if within(p.in_open..p.in_end) {
            if above != 0 {
                self.forget_frame(depth + 1);
            }
            registers.rip = p.in_open;
            Stopped::In
        } else if within(p.out_clean..p.out_end) || (rip & BY_KERNEL != 0 && rip == above) {
            if above & BY_KERNEL != 0 {
                // The gate has taken off what only the kernel can return through. Back with it, whatever has stopped the thread here:
                // nobody else would know that the call is not over, and the mark would be left above the top. So one is there only
                // between the gate's commit and the jump, which cannot be made: some processors fault at it, some at its target.
                self.set_top(depth + 1);
                (registers.rip, registers.rsp) = (p.out_open, self.frame(depth + 1).sp);
                if rip == p.out_jump || rip == above { Stopped::KernelFrame } else { Stopped::Out }
            } else {
                (registers.rip, registers.rbx) = (p.out_clean, word(self.head) + FRAME_LEN);
                Stopped::Made
            }
        } else if within(p.out_open..p.out_end) {
            registers.rip = p.out_open;
            Stopped::Out
        } else {
            return Stopped::Outside;
        };
        (registers.rcx, registers.rdx) = (0, 0);
        registers.rflags = FLAGS_DEFAULT;
        registers.vector = VECTOR_FULL;
        how
    }
}

//! A call that is over for its time in the middle of the gate's way back (pitfalls: H3, H12). The gate takes the callee's frame off first and
//! jumps through it last. Where the frame is marked as one that only the kernel can return through, which a caller can do, the kernel
//! makes the return then; if it has ended the call before, the mark must not stay above the top: who jumps there later would
//! have the kernel take back a call that is over, with a stack pointer and a record of his choice.

use super::asm::through;
use super::sweep::{instructions, stopped_on_the_way_back};
use super::{EARNED, FRAME, Scene, TOP, has_keys, op, record, without_keys};
use crate::memory::{data, load, store};
use crate::peer::{self, Peer};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::gate::{GATE, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::task::{CALLEE_GRACE_NS, CALLEE_TURNS};
use musubi::rt::{Bound, Trap, section, task, time};
use musubi::{Error, Rights};

/// How far the late text has come: its call has not begun; has; its callee has done what it was called for; it is back.
mod stage {
    pub const CALLS: u64 = 1;
    pub const CALLED: u64 = 2;
    pub const BACK: u64 = 3;
}

/// How far around the end of its time the moment is looked for at which the call has to be made.
const AROUND_NS: u64 = 1_000_000;
/// Instructions of the callee behind what it was called for, and of the gate's way back: more than there are.
const WAY_BACK: u64 = 150;
/// Times that all this is tried until there was an interrupt everywhere. (A call takes a second of the machine's time, not of the host's.)
const ROUNDS_MAX: u64 = 12;

/// Of the late text: its binding's slot, and the page with the stage and, behind it, after how many ns it makes its call.
static SLOT: AtomicU64 = AtomicU64::new(0);
static ROOM: AtomicU64 = AtomicU64::new(0);

/// A peer's part: from now on its faults go to [`late`], which calls the gates at `gate`.
pub fn prepare(gate: u64, room: u64) -> Result<u64, Error> {
    let bound: &'static Bound = Box::leak(Box::new(Bound::bind(gate, 0)?));
    SLOT.store(slot(bound.binding().number), Ordering::SeqCst);
    ROOM.store(room, Ordering::SeqCst);
    // Until the gate makes the calls, and both have had what they touch meanwhile: who has no key for that is called by the kernel.
    for _ in 0..EARNED {
        store(room, 0);
        bound.call(0, peer::six(peer::op::POKE, &[room, 0]))?;
        let [_, at] = bound.call(0, peer::six(op::ENTRY, &[]))?;
        if record(at).direct > 0 {
            return stub::fault_entry(&Trap, late as *const () as u64);
        }
    }
    Err(Error::NotSupported)
}

/// A fault entry that makes a call just when its time is over, with a return address that is marked.
extern "C" fn late() -> ! {
    let (began, room) = (time::now_ns(), ROOM.load(Ordering::SeqCst));
    // Who has had as many turns as this needs no time of his own.
    for _ in 0..=CALLEE_TURNS {
        time::sleep_ns(CALLEE_GRACE_NS * 3 / 4 / CALLEE_TURNS);
    }
    let at = began + load(room + 8);
    time::sleep_ns(at.saturating_sub(time::now_ns() + AROUND_NS));
    // (Ticks stand still while nobody runs.)
    wait_until(time::ticks() + at.saturating_sub(time::now_ns()));
    store(room, stage::CALLS);
    through(GATE, SLOT.load(Ordering::SeqCst), peer::op::POKE, room, stage::CALLED, 1 << 63);
    store(room, stage::BACK);
    loop {
        core::hint::spin_loop();
    }
}

/// Where ticks are instructions, exactly until then.
fn wait_until(ticks: u64) {
    // SAFETY: reads the clock until less is left than there are instructions behind, and jumps over those that are too many.
    unsafe {
        asm!(
            "2:",
            "rdtsc",
            "shl rdx, 32",
            "or rax, rdx",
            "mov rcx, {ticks}",
            "sub rcx, rax",
            "cmp rcx, 128",
            "jg 2b",
            "xor eax, eax",
            "test rcx, rcx",
            "cmovs rcx, rax",
            "lea rax, [rip + 3f]",
            "sub rax, rcx",
            "jmp rax",
            ".rept 128",
            "nop",
            ".endr",
            "3:",
            ticks = in(reg) ticks,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            options(nomem, nostack),
        );
    }
}

/// The frame above the top, once for each instruction of the callee's way back at which its caller's time may be over. First of
/// its machine: where the kernel has stopped threads in the gate is counted from the start.
pub fn late_on_the_way_back() -> Outcome {
    holds!(time::ticks_are_instructions(), "the clock does not count instructions");
    let (scene, texts) = (Scene::set()?, Peer::start()?);
    if !has_keys(&texts.bound) {
        texts.end()?;
        scene.end()?;
        return without_keys();
    }
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    texts.call(op::LATE, &[scene.victim.gate, room]).map_err(doing("a text that is late"))?;
    let after = |delay: u64| -> Result<u64, String> {
        (store(room, 0), store(room + 8, delay));
        same!(texts.call(peer::op::FAULT, &[]), Err(Error::Faulted), "a call that is late, {delay} ns after its fault");
        same!(task::identity().depth, 0, "the depth afterwards");
        let address = load(load(TOP) + 2 * FRAME);
        holds!(
            address >> 63 == 0,
            "a call made {delay} ns after the fault is over, and its frame left with the mark: {address:#x}"
        );
        Ok(load(room))
    };
    let wanted = instructions("out_open", "out_trap");
    for _ in 0..ROUNDS_MAX {
        // The latest that its callee still does what it was called for; the earlier it calls, the further they come.
        let (mut done, mut late) = (CALLEE_GRACE_NS - AROUND_NS, CALLEE_GRACE_NS + AROUND_NS);
        same!(after(done)?, stage::BACK, "how far it comes with time enough");
        while late - done > 1 {
            let middle = done.midpoint(late);
            *(if after(middle)? >= stage::CALLED { &mut done } else { &mut late }) = middle;
        }
        for earlier in 0..WAY_BACK {
            after(done - earlier)?;
            if stopped_on_the_way_back() >= wanted {
                texts.end()?;
                return scene.end();
            }
        }
    }
    Err(alloc::format!("stopped at {} places of {wanted} on the way back", stopped_on_the_way_back()))
}

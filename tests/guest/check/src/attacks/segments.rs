//! Segment registers, which a program loads as it likes: nothing of a crossing rests on them (pitfalls: H2, H5).

use super::asm::through;
use super::{Scene, earn, has_keys, op};
use crate::peer;
use crate::report::{Check, Outcome, doing};
use crate::same;
use crate::sections::role as run_role;
use alloc::format;
use core::arch::naked_asm;
use musubi::abi::gate::{ENTER, GATE, slot};
use musubi::abi::task::exit;
use musubi::rt::thread;

pub const CHECKS: &[Check] =
    &[("calls_with_segments_of_ones_own", loaded), ("segments_that_are_not_to_be_had", not_to_be_had)];

/// For data, as programs have it in SS; with any of the rings in its two lowest bits that a program may ask for.
const DATA: u64 = 0x1b;
/// Those that mean nothing, in each way to write them, and data.
const LOADED: [u64; 5] = [0, 1, 2, 3, DATA];

/// Loads DS, ES, FS and GS. Value: what GS and FS are then, in the two lowest words.
#[unsafe(naked)]
extern "C" fn load(selector: u64) -> u64 {
    naked_asm!(
        "mov ds, edi",
        "mov es, edi",
        "mov fs, edi",
        "mov gs, edi",
        "mov ecx, fs",
        "mov eax, gs",
        "shl ecx, 16",
        "or eax, ecx",
        "ret"
    )
}

/// A gate, or a kernel, that found its own by FS or GS would find the caller's, or nothing, and the thread would end here or be told a
/// secret; a callee with thread-local memory by FS would use what its caller has chosen.
fn loaded() -> Outcome {
    let scene = Scene::set()?;
    let has_gate = has_keys(&scene.victim.bound);
    if has_gate {
        earn(&scene.victim)?;
    }
    let ways: &[u64] = if has_gate { &[GATE, ENTER] } else { &[ENTER] };
    let mut sum = scene.victim.call(peer::op::ADD, &[0]).map_err(doing("counting"))?;
    let number = slot(scene.victim.bound.binding().number);
    for selector in LOADED {
        for &way in ways {
            let has = load(selector);
            let bound = through(way, number, peer::op::ADD, 1, 0, 0);
            let plain = scene.victim.plain(peer::op::ADD, &[1]);
            // Another thread's turn, and back.
            thread::yield_now();
            let again = through(way, number, peer::op::ADD, 1, 0, 0);
            load(0);
            let what = format!("selector {selector:#x}, way {way:#x}");
            same!(has, selector | selector << 16, "{what}: what was loaded");
            same!((bound, plain, again), (sum + 1, Ok(sum + 2), sum + 3), "{what}: the calls");
            sum += 3;
        }
    }
    same!(scene.victim.call(op::GET, &[]), Ok(scene.secret), "the secret");
    scene.end()
}

/// The kernel's, of a table that there is not, beyond the table.
const SELECTORS: [u64; 6] = [0x08, 0x0b, 0x10, 0x13, 0x07, 0xfffb];
/// Bases of one's own, by FS and by GS, and the kernel's.
const BASES: u64 = 3;

fn not_to_be_had() -> Outcome {
    let scene = Scene::set()?;
    for which in 0..SELECTORS.len() as u64 + BASES {
        let exit = run_role(&["attack", "segments", &format!("{which}")])?;
        same!(exit.kind, exit::FAULT, "how the program ended that made try {which}");
        same!(scene.victim.call(op::GET, &[]), Ok(scene.secret), "the secret after try {which}");
    }
    scene.end()
}

#[unsafe(naked)]
extern "C" fn base(which: u64) {
    naked_asm!(
        "test edi, edi",
        "jne 2f",
        "wrfsbase rdi",
        "ret",
        "2:",
        "dec edi",
        "jne 3f",
        "wrgsbase rdi",
        "ret",
        "3:",
        "swapgs",
        "ret"
    )
}

/// This program is stopped at each of these; one that is not ends with 0.
pub fn role(which: u64) -> i32 {
    match SELECTORS.get(which as usize) {
        Some(selector) => _ = load(*selector),
        None => base(which - SELECTORS.len() as u64),
    }
    0
}

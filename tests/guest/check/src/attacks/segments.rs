//! Segment registers, which a program loads as it likes: nothing of a crossing rests on them (pitfalls: H2, H5).

use super::asm::through;
use super::{Scene, earn, has_keys, op};
use crate::memory::{data, store};
use crate::peer::{self, Peer};
use crate::raw::kind;
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use core::arch::naked_asm;
use musubi::abi::gate::{ENTER, GATE, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::rt::{Bound, section, thread};
use musubi::{Rights, eprintln};

pub const CHECKS: &[Check] = &[
    ("calls_with_segments_of_ones_own", loaded),
    ("segments_that_are_not_to_be_had", not_to_be_had),
    ("callees_memory_by_fs", callees_memory),
];

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
/// secret; a callee with thread-local memory by FS would use what its caller has chosen. In a program of its own, whose end is told.
fn loaded() -> Outcome {
    let exit = run_role(&["attack", "loaded"])?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "how the program ended that loaded them ({exit:x?})");
    Ok(())
}

pub fn loads() -> i32 {
    calls().map_or_else(
        |why| {
            eprintln!("{why}");
            1
        },
        |()| 0,
    )
}

fn calls() -> Outcome {
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

/// A callee that kept anything by FS or GS would find what its caller has chosen, if that could choose a base.
fn callees_memory() -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.call(peer::op::RAW, &[kind::BY_SEGMENTS, 0]).map_err(doing("gate"))?;
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    (store(room, 1), store(room + 8, 2));
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    for selector in LOADED {
        load(selector);
        let found = bound.call(0, [room, 0, 0, 0, 0, 0]);
        load(0);
        same!(found, Ok([1, 1]), "by FS and GS with selector {selector:#x}");
    }
    for which in 0..2 {
        let words = [format!("{gate:#x}"), format!("{room:#x}"), format!("{which}")];
        let exit = run_role(&["attack", "by-segments", &words[0], &words[1], &words[2]])?;
        // It is stopped when it tries, or has not got through.
        holds!(exit.kind == exit::FAULT || (exit.kind, exit.code) == (exit::EXITED, 0), "try {which}: {exit:x?}");
    }
    peer.end()
}

/// A base of 8 by FS (0) or GS (1), and a callee that looks.
pub fn chosen(gate: u64, room: u64, which: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    choose(8, which);
    match bound.call(0, [room, 0, 0, 0, 0, 0]) {
        Ok([1, 1]) => 0,
        Ok(_) => super::asm::TOUCHED,
        Err(_) => 4,
    }
}

#[unsafe(naked)]
extern "C" fn choose(base: u64, which: u64) {
    naked_asm!("test esi, esi", "jne 2f", "wrfsbase rdi", "ret", "2:", "wrgsbase rdi", "ret")
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

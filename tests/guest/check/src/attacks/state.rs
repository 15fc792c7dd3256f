//! Flags, control words, pending exceptions, segments: what one side leaves in the processor for the other (pitfalls: H8,
//! H12, H15, H16).

use super::asm::{odd_call, spin_with, step};
use super::{Scene, earn_by, has_keys, op};
use crate::memory::data;
use crate::peer;
use crate::raw::kind;
use crate::registers::{told, until_direct};
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::frame::{Frame, wants};
use musubi::abi::gate::{ENTER, GATE, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::principal;
use musubi::abi::task::USER_PERSON;
use musubi::abi::task::exit;
use musubi::rt::{Bound, Trap, section, task, thread, time};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("state_left_for_the_callee", for_the_callee),
    ("steps_into_the_kernel", steps),
    ("a_stack_that_others_write", a_stack_that_others_write),
    ("a_step_that_ends_at_a_call", steps_at_calls),
    ("flags_are_not_left_to_the_kernel", flags_left),
    ("a_thread_begins_with_its_own_rights", beginnings),
];

const TRAP: u64 = 0x100;
const DIRECTION: u64 = 0x400;
const ALIGNMENT: u64 = 0x4_0000;
const NESTED: u64 = 0x4000;
/// Calls after which one would be made by the gate.
const EARNED_AT_LAST: u32 = 500;

/// A callee that copied backwards, rounded otherwise, or faulted at the first division, would do what its caller wants, and
/// perhaps with its lock held.
fn for_the_callee() -> Outcome {
    let scene = Scene::set()?;
    let gate = scene.victim.call(peer::op::RAW, &[kind::DUMP_AND_SPOIL, 0]).map_err(doing("gate"))?;
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let ways: &[u64] = if has_keys(&bound) { &[GATE, ENTER] } else { &[ENTER] };
    for &way in ways {
        if way == GATE {
            until_direct(room, || bound.call(0, [room, 0, 0, 0, 0, 0]).map(drop).map_err(doing("a call")))?;
        }
        for flags in [0x202, 0x202 | DIRECTION, 0x202 | ALIGNMENT | NESTED, 0x20_0202 | 0x8d5] {
            for (mxcsr, control) in [(0x1f80, 0x37f), (0, 0x340), (0x3f, 0xf40), (0xe040, 0)] {
                let what = format!("way {way:#x} flags {flags:#x} mxcsr {mxcsr:#x} control {control:#x}");
                same!(odd_call(way, slot(bound.binding().number), room, flags, mxcsr, control), 0, "{what}");
                let (seen, _) = told(room);
                same!((seen.mxcsr as u32, seen.fcw as u16), (0x1f80, 0x37f), "control words, {what}");
                same!(seen.flags & (TRAP | DIRECTION), 0, "flags, {what}");
                if way == ENTER {
                    same!(seen.flags & (ALIGNMENT | NESTED), 0, "flags, {what}");
                }
                // What is left of the alignment flag means nothing: the callee has loaded a word that lies across two.
            }
        }
    }
    // Nor is anything left of it for one to whom it would mean something: it is called by the kernel, by whatever gate.
    same!(scene.victim.call(peer::op::WANTS, &[wants::ALIGNMENT]), Ok(0), "hearing of alignment");
    for &way in ways {
        for n in 0..2 * EARNED_AT_LAST {
            odd_call(way, slot(bound.binding().number), room, 0x202 | ALIGNMENT, 0x1f80, 0x37f);
            same!(told(room).0.flags & ALIGNMENT, 0, "the flag, way {way:#x}, call {n}");
        }
    }
    same!(scene.victim.call(peer::op::WANTS, &[0]), Ok(0), "hearing of it no more");
    bound.unbind().map_err(doing("unbind"))?;
    scene.end()
}

/// Steps over one instruction, the jump to a gate. `mends`: and deals with the trap itself, by no longer stepping (1) or by going on so (2).
pub fn step_at_a_call(gate: u64, way: u64, mends: u64) -> i32 {
    KEEPS.store(mends == 2, Ordering::SeqCst);
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    if mends != 0 && stub::fault_entry(&Trap, goes_on as *const () as u64, 0).is_err() {
        return 4;
    }
    if way == GATE && earn_by(&bound).is_err() {
        return 8;
    }
    let slot = slot(bound.binding().number);
    // As it is without a step, and with the thread known there.
    if odd_call(way, slot, peer::op::OWN_SECTION, 0x202, 0x1f80, 0x37f) != 0 {
        return 5;
    }
    match odd_call(way, slot, peer::op::OWN_SECTION, 0x202 | TRAP, 0x1f80, 0x37f) {
        0 => 10 + TRAPS.load(Ordering::SeqCst) as i32,
        _ => 6,
    }
}

static TRAPS: AtomicU64 = AtomicU64::new(0);
static KEEPS: AtomicBool = AtomicBool::new(false);

extern "C" fn goes_on(frame: &mut Frame) -> ! {
    TRAPS.fetch_add(1, Ordering::SeqCst);
    if !KEEPS.load(Ordering::SeqCst) {
        frame.rflags &= !TRAP;
    }
    let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, 1);
    task::exit(7)
}

/// A program that has set the trap flag gets its trap before the first instruction of the gate, as at any other place: it ends there, and the
/// call is not made. One that goes on has stepped over one instruction, and the callee knows nothing of it; nor does it of one that wants
/// to go on step by step, in the gate too.
fn steps_at_calls() -> Outcome {
    let scene = Scene::set()?;
    let ways: &[u64] = if has_keys(&scene.victim.bound) { &[GATE, ENTER] } else { &[ENTER] };
    let calls = || scene.victim.call(peer::op::OWN_SECTION, &[]);
    for &way in ways {
        // By the kernel each instruction of the SDK's on the way there is one step.
        let on = if way == GATE { 11..=11 } else { 11..=20 };
        for (mends, kind, codes, made) in
            [(0, exit::FAULT, 0..=0, 2), (1, exit::EXITED, 11..=11, 3), (2, exit::EXITED, on, 3)]
        {
            let before = calls().map_err(doing("counting"))?;
            let words = [format!("{:#x}", scene.victim.gate), format!("{way:#x}"), format!("{mends}")];
            let exit = run_role(&["attack", "step-at-call", &words[0], &words[1], &words[2]])?;
            holds!(exit.kind == kind && codes.contains(&exit.code), "way {way:#x}, mends {mends}: {exit:x?}");
            same!(calls(), Ok(before + made), "calls that were made by way {way:#x}, mends {mends}");
        }
    }
    scene.end()
}

/// A thread that tries what is the victim's with its first instruction, or begins in the gate, or with what the victim is called by.
fn beginnings() -> Outcome {
    let scene = Scene::set()?;
    for which in 0..3 {
        let exit = run_role(&["attack", "begin", &format!("{:#x}", scene.victim.gate), &format!("{which}")])?;
        // (Nobody begins in another text, or in the gate.)
        let wanted = if which > 0 { (exit::EXITED, NOT_STARTED as u64) } else { (exit::FAULT, exit.code) };
        same!((exit.kind, exit.code), wanted, "beginning {which}: {exit:x?}");
        scene.holds("after that")?;
    }
    scene.end()
}

/// The status that says so.
const NOT_STARTED: i32 = 33;

/// The program that starts it.
pub fn begin(gate: u64, which: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    // So that its pages are there, with a key if there are keys.
    let [Ok([_, place]), Ok([_, _]), Ok([entry, _])] =
        [op::PLACE, op::GET, op::ENTRY].map(|what| bound.call(0, [what, 0, 0, 0, 0, 0]))
    else {
        return 4;
    };
    if has_keys(&bound) && earn_by(&bound).is_err() {
        return 5;
    }
    let at = [load_first as *const () as u64, GATE, entry][which as usize];
    if stub::thread_create(&Trap, at, place, 0).is_err() {
        return NOT_STARTED;
    }
    time::sleep_ns(1_000_000_000);
    0
}

/// Loads where it is told to, and ends the program if it is let.
#[unsafe(naked)]
extern "C" fn load_first() {
    naked_asm!(
        "mov rdx, [rdi]",
        "mov eax, 2",
        "mov edi, {touched}",
        "syscall",
        "ud2",
        touched = const super::asm::TOUCHED
    )
}

/// Interrupts and faults leave the alignment flag as it is, and there it means that the kernel may reach the program's pages: whatever a
/// slip of the kernel's would read or write there, SMAP would not stop. The direction flag would have its copies go backwards.
fn flags_left() -> Outcome {
    let left = || task::processors().fold(0, |flags, processor| flags | processor.left_flags);
    same!(left(), 0, "flags that were left to the kernel before");
    let room = data(PAGE).map_err(doing("create"))?;
    let at = room.base();
    // Who is alone on a processor is not interrupted by its timer: so on each there are two that do this.
    let threads = 2 * task::processors().count();
    let spinners: Result<Vec<_>, _> = (0..threads).map(|_| thread::spawn(move || spin_with_all(at), 0)).collect();
    for one in spinners.map_err(doing("a thread"))? {
        one.join().map_err(doing("join"))?;
    }
    same!(left(), 0, "flags that were left to the kernel");
    Ok(())
}

fn spin_with_all(room: u64) {
    for flags in [ALIGNMENT, ALIGNMENT | DIRECTION, NESTED, ALIGNMENT | NESTED] {
        // Some quanta; the interrupt that ends one sees what is left.
        let until = time::now_ns() + 60_000_000;
        while time::now_ns() < until {
            spin_with(0x202 | flags, 1 << 20, room);
        }
    }
}

const STEPS: u64 = 13;

pub fn role(which: u64) -> i32 {
    step(which);
    0
}

/// A trap that is reported behind `syscall` would find the kernel on no stack of its own; one in an interrupt's first
/// instructions likewise; a segment base of the program's would be taken for the kernel's; a vector that programs may use
/// would be a fault of their own making.
fn steps() -> Outcome {
    let scene = Scene::set()?;
    for which in 0..STEPS {
        let exit = run_role(&["attack", "step", &format!("{which}")])?;
        holds!(exit.kind == exit::FAULT || (exit.kind, exit.code) == (exit::EXITED, 0), "step {which}: {exit:x?}");
        if which == 5 || which > 6 {
            same!(exit.kind, exit::FAULT, "step {which}, which is for the kernel");
        }
        same!(scene.victim.call(op::GET, &[]), Ok(scene.secret), "the secret after step {which}");
    }
    scene.end()
}

/// Who calls on his own stack and has another thread write there would own the callee: its return addresses lie there (pitfalls, H11).
fn a_stack_that_others_write() -> Outcome {
    let mark = 0u64;
    let stack = section::info(core::ptr::from_ref(&mark) as u64).map_err(doing("info"))?.base;
    let (own, other) = (task::identity().thread, thread::spawn(|| {}, 0).map_err(doing("thread"))?);
    let writes = |entry: AclEntry| section::grant(stack, &AclEntry { rights: Rights::WRITE.bits(), ..entry });
    let of = |kind, id| AclEntry { principal: kind, id, ..everybody(Rights::READ | Rights::WRITE) };
    for entry in [
        everybody(Rights::WRITE),
        of(principal::THREAD, other.number()),
        of(principal::TASK, musubi::start().task()),
        of(principal::USER, USER_PERSON),
    ] {
        same!(writes(entry), Err(Error::NotSupported), "{entry:?}");
        same!(section::grant(stack, &entry), Err(Error::NotSupported), "{entry:?}, among others");
    }
    // Reading is its own affair, and so is another text on the same thread: that is what calls on one's own stack are.
    let reads = everybody(Rights::READ);
    section::grant(stack, &reads).map_err(doing("letting read"))?;
    section::grant(stack, &AclEntry { rights: 0, ..reads }).map_err(doing("taking that back"))?;
    section::grant(stack, &of(principal::THREAD, own)).map_err(doing("its own thread"))?;
    other.join().map(drop).map_err(doing("join"))
}

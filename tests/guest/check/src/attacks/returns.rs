//! Returning without a call, twice, by another door than one came, to addresses that are none (pitfalls: H1, H2, H4, H12).

use super::asm::{RETURN_AT, STACK, VICTIM, disorderly_return, landing, through};
use super::{Scene, ask, ask_plainly, doors, earn, earn_by, has_keys, op, without_keys};
use crate::memory::{await_word, data, load, store};
use crate::peer::{self, Peer};
use crate::raw::{Seen, kind};
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::gate::{DONE, DOORSTEP, ENTER, GATE, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::rt::{Bound, Trap, section, task, thread};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("back_by_every_door", back_by_every_door),
    ("called_back_by_every_door", called_back),
    ("back_without_a_call", back_without_a_call),
    ("marked_return_addresses", marked_return_addresses),
    ("return_address_changed_meanwhile", changed_meanwhile),
    ("callers_code_with_callees_rights", callers_code),
    ("own_rights_after_a_return", own_rights),
];

/// Ways to make a call: by the gate, by the kernel, plainly.
pub const WAYS: [u64; 3] = [GATE, ENTER, 0];

pub fn back(door: u64, value: u64) -> u64 {
    disorderly_return(door, value)
}

/// A peer's part of [`back_by_every_door`]: it is the caller in the middle.
pub fn pass_on(gate: u64, way: u64, door: u64) -> Result<u64, Error> {
    if way == 0 {
        return musubi::rt::plain_call(gate, [op::BACK, door, 4321, 0, 0, 0]).map(|values| values[1]);
    }
    let bound = Bound::bind(gate, 0)?;
    let value = through(way, slot(bound.binding().number), op::BACK, door, 4321, 0);
    bound.unbind()?;
    Ok(value)
}

/// A peer's part of [`called_back`].
pub fn call_back(gate: u64, way: u64, binding: u64, word: u64) -> Result<u64, Error> {
    if way == 0 {
        let words = [peer::op::CALL_BOUND, binding, word, 0, 0, 0];
        return musubi::rt::plain_call(gate, words).map(|values| values[1]);
    }
    let bound = Bound::bind(gate, 0)?;
    let value = through(way, slot(bound.binding().number), peer::op::CALL_BOUND, binding, word, 0);
    bound.unbind()?;
    Ok(value)
}

/// A program that has left by one door is called back by another: on a stack that begins where it left, at a multiple of 16.
/// (Where doors kept different stack pointers, vector code of the compiler's faulted.)
fn called_back() -> Outcome {
    let (inner, outer) = (Peer::start()?, Peer::start()?);
    if has_keys(&inner.bound) {
        earn(&inner)?;
        earn(&outer)?;
    }
    let raw = outer.call(peer::op::RAW, &[kind::DUMP_AND_SPOIL, 0]).map_err(doing("gate"))?;
    let back = inner.call(peer::op::BIND, &[raw]).map_err(doing("binding"))?;
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    for way in WAYS.into_iter().filter(|way| *way != GATE || has_keys(&inner.bound)) {
        for round in 0..3 {
            let value = outer.call(op::CALL_BACK, &[inner.gate, way, back, room]);
            holds!(value.is_ok(), "way {way:#x}, round {round}: {value:x?}");
            // SAFETY: the callee wrote such a record there, and is done with it.
            let seen = unsafe { *(room as *const Seen) };
            same!(seen.general[7] % 16, 0, "the stack pointer, way {way:#x}, round {round}");
        }
    }
    inner.end()?;
    outer.end()
}

/// A frame is made by one door and taken off by another, in a chain where the doors differ, in disorder of flags and control
/// words. If doors did not know of each other's frames, the callee would come back to where no caller waits.
fn back_by_every_door() -> Outcome {
    let scene = Scene::set()?;
    let middle = Peer::start()?;
    let keys = has_keys(&scene.victim.bound);
    if keys {
        // Or the kernel would make the calls that the gate is to make.
        earn(&scene.victim)?;
    }
    let numbers = slot(scene.victim.bound.binding().number);
    for round in 0..3u64 {
        for door in doors() {
            // Without keys there is no such door.
            let good = keys || door != DONE;
            for way in WAYS {
                if way == GATE && !keys {
                    continue;
                }
                let what = format!("way {way:#x}, door {door:#x}, round {round}");
                let value = 1000 + round;
                if way == 0 {
                    let outcome = ask_plainly(&scene.victim, [op::BACK, door, value, 0, 0, 0]);
                    same!(outcome, if good { Ok(value) } else { Err(Error::Faulted) }, "{what}");
                } else {
                    let outcome = through(way, numbers, op::BACK, door, value, 0);
                    same!(outcome, if good { value } else { Error::Faulted.word() | 1 << 63 }, "{what}");
                }
                let third = core::hint::black_box(1.0f64) / core::hint::black_box(0.0);
                holds!(third.is_infinite(), "{what}: a division of the caller's");
                if good {
                    let passed = middle.call(op::PASS_ON, &[scene.victim.gate, way, door]);
                    same!(passed, Ok(4321), "{what}, in a chain");
                }
                same!(task::identity().depth, 0, "{what}: depth afterwards");
                same!(load(RETURN_AT.as_ptr() as u64) & 7, 0, "{what}: the stack");
            }
        }
        scene.holds("in between")?;
    }
    middle.end()?;
    scene.end()
}

/// What a program is that returns where it was not called, or calls with a marked return address.
pub fn undone(gate: u64, which: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let once = |via, tag| through(via, slot(bound.binding().number), op::GET, 0, 0, tag);
    let jump = |to: u64| {
        super::asm::TARGET.store(to, Ordering::SeqCst);
        let mut all = [0u64; 17];
        all[16] = 0x202;
        super::asm::hostile(&raw const all)
    };
    VICTIM.store(bound.call(0, [op::PLACE, 0, 0, 0, 0, 0]).map_or(0, |v| v[1]), Ordering::SeqCst);
    match which {
        0 => jump(DONE),
        1 => jump(DOORSTEP),
        // It is refused, and goes on.
        2 => return i32::from(stub::gate_return(&Trap, 1, 2) != Err(Error::NotFound)),
        3 => jump(1 << 63 | landing as *const () as u64),
        4..=23 => {
            let tags =
                [1 << 63, 1 << 62, 3 << 62, 1 << 47, 0xffff_8000_0000_0000, 1 << 48, 1 << 57, 7 << 60, 1 << 61, 1];
            let via = if which % 2 == 0 || !has_keys(&bound) { ENTER } else { GATE };
            if via == GATE && earn_by(&bound).is_err() {
                return super::asm::TOUCHED;
            }
            let tag = tags[(which as usize - 4) / 2];
            once(via, tag);
            // Back at all with another address than it came from: then it was the callee who had that fault.
            if tag & !(3 << 62) != 0 {
                return super::asm::TOUCHED;
            }
            // Whatever the mark was, no frame is left.
            if task::identity().depth != 0 {
                return super::asm::TOUCHED;
            }
            jump(1 << 63 | landing as *const () as u64)
        }
        24 => {
            // As the kernel marks a plain call's frame: it must not be taken for one, whose registers are somebody's.
            let back = |tag| through(GATE, slot(bound.binding().number), op::BACK, 0, 4321, tag);
            if !has_keys(&bound) {
                // There is no such gate to be called by.
                return 0;
            }
            if earn_by(&bound).is_err() {
                return 3;
            }
            let good = [0, 1 << 63, 1 << 62, 3 << 62].into_iter().all(|tag| back(tag) == 4321);
            return if good { 0 } else { super::asm::TOUCHED };
        }
        25 | 26 => {
            // By the gate or plainly, when both have earned keys, to where the victim's secret is tried first thing.
            // The return address of a plain call is read when it is over, from a stack that may lie where the callee may read, too.
            let Ok(lends) = Bound::bind(gate, PAGE) else { return 3 };
            let shared = lends.binding().args;
            for _ in 0..1000 {
                let _ = bound.call(0, [op::GET, 0, 0, 0, 0, 0]);
                let _ = lends.call(0, [peer::op::PEEK, shared, 0, 0, 0, 0]);
                let _ = musubi::rt::plain_call(gate, [peer::op::PEEK, shared, 0, 0, 0, 0]);
            }
            let (to, lands) = match which {
                25 => (GATE, super::asm::landing_at_rsi as *const () as u64),
                _ => (gate, super::asm::landing_at_rdx as *const () as u64),
            };
            // A page that is not there yet would have the kernel see to the rights.
            musubi::rt::probe::read(lands);
            super::asm::TARGET.store(to, Ordering::SeqCst);
            // Nothing of its own is touched before: a fault there would mend the rights.
            let stack = [lands];
            let shared = shared + PAGE / 2;
            crate::memory::store(shared, lands);
            let stack = if which == 25 { stack.as_ptr() as u64 } else { shared };
            let mut all = [0u64; 17];
            (all[5], all[7], all[11], all[16]) = (op::PLACE, stack, slot(bound.binding().number), 0x202);
            super::asm::hostile(&raw const all)
        }
        _ => return 3,
    };
    0
}

/// Sleeps by a call of the scheduler, which somebody has ended before it begins, with something added to the return address. By the gate,
/// where it makes such calls.
pub fn marked(gate: u64, tag: u64) -> i32 {
    /// Of `Passing`: `wake_up`. (`through` makes the first call, `sleep`.)
    const WAKE_UP: u64 = 1;
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    let me = task::identity().thread;
    for _ in 0..1000 {
        let _ = bound.call(WAKE_UP, [me, 0, 0, 0, 0, 0]);
    }
    let via = if has_keys(&bound) { GATE } else { ENTER };
    through(via, slot(bound.binding().number), 0, 0, 0, tag);
    0
}

/// The first instruction behind a call tries what is the callee's. A gate that left it to the caller to have his own rights again would let it.
fn own_rights() -> Outcome {
    let scene = Scene::set()?;
    if !has_keys(&scene.victim.bound) {
        scene.end()?;
        return without_keys();
    }
    for (which, how) in [("25", "by the gate"), ("26", "plain")] {
        let exit = run_role(&["attack", "undone", &format!("{:#x}", scene.victim.gate), which])?;
        same!((exit.kind, exit.address), (exit::FAULT, scene.place), "behind a call of the victim's, {how}");
    }
    scene.end()
}

/// At the bottom of all calls. A gate that took off a frame that is not there would go on with what lies below the frames.
fn back_without_a_call() -> Outcome {
    let scene = Scene::set()?;
    for which in 0..4 {
        let exit = run_role(&["attack", "undone", &format!("{:#x}", scene.victim.gate), &format!("{which}")])?;
        let wanted = if which == 2 { (exit::EXITED, 0) } else { (exit::FAULT, exit.code) };
        same!((exit.kind, exit.code), wanted, "return {which}");
        scene.holds("after that")?;
    }
    scene.end()
}

/// Bits of a return address tell the kernel who made a frame. A caller that sets them itself could make the kernel take back a
/// call that is over, or leave it with an address that it cannot return to. Then the fault is the caller's, and ends his program.
fn marked_return_addresses() -> Outcome {
    let scene = Scene::set()?;
    for which in 4..24 {
        let exit = run_role(&["attack", "undone", &format!("{:#x}", scene.victim.gate), &format!("{which}")])?;
        same!(exit.kind, exit::FAULT, "mark {which}");
        scene.holds("after that")?;
    }
    let exit = run_role(&["attack", "undone", &format!("{:#x}", scene.victim.gate), "24"])?;
    same!((exit.kind, exit.code), (exit::EXITED, 0), "returns by the kernel with marks of the kernel's");
    scene.end()
}

/// Another thread of the caller overwrites the return address while the call lasts: the frame has it. (A gate that left it
/// on a stack that others can write would go there with rights of the callee's.)
fn changed_meanwhile() -> Outcome {
    let scene: &'static Scene = Box::leak(Box::new(Scene::set()?));
    if !has_keys(&scene.victim.bound) {
        // By the kernel the address stays on the caller's stack, and is taken from there by the caller himself.
        scene.victim.child.kill().map_err(doing("kill"))?;
        return without_keys();
    }
    let flags = data(PAGE).map_err(doing("create"))?.base();
    section::grant(flags, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    VICTIM.store(scene.place, Ordering::SeqCst);
    // A thread's own stack nobody else can write; but it need not be its own.
    STACK.store(data(PAGE).map_err(doing("create"))?.base() + PAGE - 8, Ordering::SeqCst);
    for round in 0..20 {
        (store(flags, 0), store(flags + 8, 0), store(flags + 16, u64::MAX));
        let body = move || {
            let numbers = slot(scene.victim.bound.binding().number);
            // The first call of a thread is made by the kernel, and any before the callee has a key, also for what it touches.
            (store(flags + 40, 1), _ = scene.victim.call(op::HOLD, &[flags + 32, flags + 40]));
            if earn(&scene.victim).is_err() {
                // Then nothing of this was tried: the value that is left says so.
                store(flags, 1);
                return;
            }
            store(flags + 16, through(GATE, numbers, op::HOLD, flags, flags + 8, 0));
        };
        let caller = thread::spawn(body, 0).map_err(doing("thread"))?;
        await_word(flags);
        store(RETURN_AT.load(Ordering::SeqCst), landing as *const () as u64);
        store(flags + 8, 1);
        caller.join().map_err(doing("join"))?;
        same!(load(flags + 16), 0, "what came back in round {round}");
    }
    scene.holds("afterwards")?;
    scene.victim.child.kill().map_err(doing("kill"))
}

static TOLD: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

extern "C" fn tell() {
    TOLD.store(super::SECRET.load(Ordering::SeqCst), Ordering::SeqCst);
}

/// With keys the caller's code can be fetched in the callee: it runs there with the callee's rights, and cannot touch what is
/// the caller's. A return into the caller's code that was not through the gate would be the same.
fn callers_code() -> Outcome {
    let scene = Scene::set()?;
    super::SECRET.store(0x0123_4567_89ab_cdef, Ordering::SeqCst);
    // Who has no key lives apart, where nothing of the caller's could be got at anyway.
    if has_keys(&scene.victim.bound) {
        earn(&scene.victim)?;
    }
    // A page that is not there yet would have the kernel refuse the fetch. (A call that the compiler sees through would not fetch it.)
    core::hint::black_box(tell as extern "C" fn())();
    same!(TOLD.swap(0, Ordering::SeqCst), 0x0123_4567_89ab_cdef, "what it tells the caller himself");
    let code = tell as *const () as u64;
    for _ in 0..3 {
        same!(ask(&scene.victim, [crate::peer::op::RUN, code, 0, 0, 0, 0]), Err(Error::Faulted), "running it");
        let diverted = ask(&scene.victim, [crate::peer::op::RAW, crate::raw::kind::OTHER_RETURN, 0, 0, 0, 0]);
        let gate = diverted.map_err(doing("gate"))?[1];
        same!(musubi::rt::plain_call(gate, [code, 0, 0, 0, 0, 0]), Err(Error::Faulted), "returning there, plainly");
        let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
        same!(bound.call(0, [code, 0, 0, 0, 0, 0]), Err(Error::Faulted), "returning there");
        bound.unbind().map_err(doing("unbind"))?;
        same!(TOLD.load(Ordering::SeqCst), 0, "what it told");
    }
    scene.end()
}

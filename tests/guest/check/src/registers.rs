//! Registers across calls: what a callee finds in them, what a caller gets back, and that neither sees what the other had
//! in the rest.

use crate::attacks;
use crate::memory::{data, store};
use crate::peer::{Peer, nine, op};
use crate::raw::{AVX, CALLERS, COOKIE, FCW, MXCSR, PLAIN, SPOILT, Seen, filled_call, find_avx, kind};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use core::sync::atomic::Ordering;
use musubi::abi::gate::{DONE, DOORSTEP, ENTER, GATE, Record, slot};
use musubi::abi::info::feature;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::task::Identity;
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, section, task};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("registers_of_a_direct_call", || across(Way::Direct, kind::DUMP_AND_SPOIL)),
    ("registers_of_a_direct_return", || across(Way::Direct, kind::DUMP_AND_DONE)),
    ("registers_of_a_bound_call", || across(Way::Bound, kind::DUMP_AND_SPOIL)),
    ("registers_of_a_plain_call", || across(Way::Plain, kind::DUMP_AND_SPOIL)),
    ("registers_after_a_fault", after_a_fault),
    ("registers_after_a_fault_beneath_the_gate", after_a_fault_beneath_the_gate),
    ("control_words_of_the_caller", control_words),
    ("nine_arguments", nine_arguments),
];

/// CUBIX-30: a C function that finds its last three arguments on its caller's stack, as it is.
fn nine_arguments() -> Outcome {
    let peer = Peer::start()?;
    let gate = peer.call(op::WIDE, &[]).map_err(doing("gate"))?;
    let bound = Bound::bind_on_own_stack(gate, 0).map_err(doing("bind"))?;
    for n in 0..200u64 {
        let a = core::array::from_fn::<u64, 9, _>(|at| (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 >> at));
        let here = nine(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
        same!(bound.call_function(&a), Ok(here), "call {n} with nine arguments");
    }
    same!(bound.call_function(&[7; 14]).is_ok(), true, "fourteen, of which it looks at nine");
    same!(bound.call_function(&[7; 15]), Err(Error::BadArgument), "fifteen");
    // On a stack of its own it would find other things where its arguments should be.
    let own = Bound::bind(gate, 0).map_err(doing("bind"))?;
    same!(own.call(0, [0; 6]).and_then(result_of), Err(Error::NotSupported), "a bound call on the callee's stack");
    same!(own.call_function(&[0; 9]), Err(Error::NotSupported), "the same with nine arguments");
    same!(peer.plain(op::ADD, &[1]), Ok(1), "the server afterwards");
    let plain = musubi::rt::plain_call(gate, [0; 6]).and_then(result_of);
    same!(plain, Err(Error::NotSupported), "a plain call");
    peer.end()
}

fn call(how: Way, bound: &Bound, gate: u64, word: u64) -> Seen {
    // Another value than any that can come back.
    let blank = 0x1111_1111_1111_1111;
    let mut after =
        Seen { general: [blank; 16], vectors: [[blank; 4]; 16], mmx: [blank; 8], mxcsr: blank, fcw: 0, flags: blank };
    let slot = slot(bound.binding().number);
    match how {
        Way::Direct => filled_call(GATE, word, &mut after, slot),
        Way::Bound => filled_call(ENTER, word, &mut after, slot),
        Way::Plain => filled_call(gate, word, &mut after, PLAIN),
    }
    after
}

fn no_vectors(seen: &Seen, who: &str) -> Outcome {
    let lanes = if AVX.load(Ordering::SeqCst) == 0 { 2 } else { 4 };
    for (n, vector) in seen.vectors.iter().enumerate() {
        same!(&vector[..lanes], &[0; 4][..lanes], "vector register {n} {who}");
    }
    same!(seen.mmx, [0; 8], "MMX registers {who}");
    holds!(seen.flags & 0x400 == 0, "the direction flag is set {who}");
    Ok(())
}

/// What a caller must find after a call, whatever the callee did.
fn check_after(how: Way, after: &Seen, values: [u64; 3]) -> Outcome {
    let g = &after.general;
    if how != Way::Plain {
        same!([g[5], g[4], g[10]], values, "rdi rsi r10 afterwards");
        // Nor where the callee's stack is.
        same!([g[8], g[9]], [0; 2], "r8 r9 afterwards");
        holds!(!g.contains(&SPOILT), "a register afterwards is the callee's");
        same!((after.mxcsr as u32, after.fcw as u16), (0x1f80, 0x037f), "control words afterwards");
        return no_vectors(after, "afterwards");
    }
    let kept = [g[1], g[6], g[12], g[13], g[14], g[15]];
    let wanted = [0, 1, 2, 3, 4, 5].map(|n| CALLERS + n);
    same!(kept, wanted, "rbx rbp r12 r13 r14 r15 afterwards");
    same!([g[0], g[3], g[10]], values, "rax rdx r10 afterwards");
    same!([g[4], g[5], g[8], g[9]], [0; 4], "rsi rdi r8 r9 afterwards");
    holds!(![g[2], g[11]].contains(&SPOILT), "rcx and r11 afterwards are the callee's");
    same!(after.mxcsr as u32, MXCSR, "MXCSR afterwards");
    same!(after.fcw as u16, FCW, "x87 control word afterwards");
    no_vectors(after, "afterwards")
}

/// How a call is made.
#[derive(Clone, Copy, PartialEq)]
pub enum Way {
    /// Through the user-mode gate.
    Direct,
    Bound,
    Plain,
}

/// A peer with such a gate, a binding to it, and room to write to.
pub fn stage(kind: u64) -> Result<(Peer, u64, Bound, u64), String> {
    find_avx();
    let peer = Peer::start()?;
    let gate = peer.call(op::RAW, &[kind, 0]).map_err(doing("gate"))?;
    let bound = Bound::bind(gate, PAGE).map_err(doing("bind"))?;
    let room = data(PAGE).map_err(doing("create"))?;
    section::grant(room.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok((peer, gate, bound, room.base()))
}

fn across(way: Way, kind: u64) -> Outcome {
    let (peer, gate, bound, room) = stage(kind)?;
    let who = task::identity();
    if way == Way::Direct && !task::processors().all(|p| p.features & feature::PKU != 0) {
        // Without keys the page of the gate is not to be written: that way is not offered.
        peer.end()?;
        return attacks::without_keys();
    }
    let once = || one_call(way, &bound, gate, room, &who);
    if way == Way::Direct {
        until_direct(room, once)?;
    }
    (0..3).try_for_each(|_| once())?;
    peer.end()
}

/// Calls until the callee has been told to go back by the gate: from then on the gate makes the calls.
pub fn until_direct(room: u64, once: impl Fn() -> Outcome) -> Outcome {
    for _ in 0..10_000 {
        once()?;
        if told(room).1.back == DONE {
            return Ok(());
        }
    }
    Err("the kernel makes all calls".into())
}

/// What a callee has found and written to `room`, with the record that it was told of.
pub fn told(room: u64) -> (Seen, Record) {
    // SAFETY: the callee wrote such a record there, and is done with it; abi::gate: this thread can read what `rbx` leads to.
    unsafe {
        let seen = *(room as *const Seen);
        (seen, *(seen.general[1] as *const Record))
    }
}

/// A call, looked at from both sides.
pub fn one_call(way: Way, bound: &Bound, gate: u64, room: u64, who: &Identity) -> Outcome {
    let after = call(way, bound, gate, room);
    let (seen, record) = told(room);
    let g = &seen.general;
    same!([g[5], g[4], g[12], g[13], g[8], g[9]], [room, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005], "arguments");
    let args = if way == Way::Plain { [0; 2] } else { [bound.binding().args, PAGE] };
    same!([record.args_base, record.args_len], args, "argument section");
    same!([g[14], record.cookie], [0, COOKIE], "index, cookie");
    same!([record.task, record.text, record.user], [who.task, who.text, who.user], "who is calling");
    holds!(!(0..6).any(|n| g.contains(&(CALLERS + n))), "a register in the callee is the caller's");
    holds!([DONE, DOORSTEP].contains(&record.back), "where to go: {:#x}", record.back);
    same!(g[7] % 16, 0, "the stack's alignment");
    same!((seen.mxcsr as u32, seen.fcw as u16), (0x1f80, 0x037f), "control words in the callee");
    no_vectors(&seen, "in the callee")?;
    check_after(way, &after, [77, 88, 0])
}

fn after_a_fault() -> Outcome {
    let (peer, gate, bound, room) = stage(kind::SPOIL_AND_FAULT)?;
    for how in [Way::Bound, Way::Plain] {
        check_after(how, &call(how, &bound, gate, room), [0, 0, Error::Faulted.word()])?;
    }
    // A call that is not made at all.
    same!(peer.call(op::OWN, &[crate::peer::own::SHUT]), Ok(0), "shutting it");
    let refused = call(Way::Bound, &bound, gate, room).general;
    let error = Error::no_right(Object::Section(peer.text, Rights::CALL), task::identity().thread);
    let not_made = musubi::abi::gate::NOT_MADE;
    same!([refused[5], refused[4], refused[10]], [not_made, 0, error.word()], "a refused call");
    peer.end()
}

/// By the gate, of which the kernel hears only when the callee faults.
fn after_a_fault_beneath_the_gate() -> Outcome {
    const CALLS: u64 = 16;
    const TIMES: usize = 200;
    let (peer, _, bound, room) = stage(kind::MAY_FAULT)?;
    if !task::processors().all(|p| p.features & feature::PKU != 0) {
        peer.end()?;
        return attacks::without_keys();
    }
    let seen = || task::processors().map(|p| p.epc).sum::<u64>();
    let mut by_gate = 0;
    for _ in 0..TIMES {
        store(room, 0);
        for _ in 0..CALLS {
            bound.call(0, [room, 0, 0, 0, 0, 0]).map_err(doing("a call"))?;
        }
        store(room, 1);
        let before = seen();
        let after = call(Way::Direct, &bound, 0, room);
        by_gate += usize::from(seen() == before);
        check_after(Way::Direct, &after, [0, 0, Error::Faulted.word()])?;
    }
    holds!(by_gate > 0, "of {TIMES} calls that faulted the gate made none");
    peer.end()
}

/// Each side has its own, and a server's change of rounding is no caller's.
fn control_words() -> Outcome {
    let (peer, _, bound, room) = stage(kind::DUMP_AND_SPOIL)?;
    let third = || core::hint::black_box(1.0f64) / core::hint::black_box(3.0);
    let before = third();
    for _ in 0..10 {
        bound.call(0, [room, 0, 0, 0, 0, 0]).map_err(doing("call"))?;
        same!(third().to_bits(), before.to_bits(), "a third after a call that rounds in its own way");
    }
    peer.end()
}

//! Registers across calls: what a callee finds in them, what a caller gets back, and that neither sees what the other had
//! in the rest.

use crate::memory::data;
use crate::peer::{Peer, op};
use crate::raw::{AVX, CALLERS, COOKIE, FCW, MXCSR, SPOILT, Seen, filled_call, find_avx, kind};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::string::String;
use core::sync::atomic::Ordering;
use musubi::abi::gate::call_number;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::rt::{Bound, section, task};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("registers_of_a_bound_call", || across(Way::Bound)),
    ("registers_of_a_plain_call", || across(Way::Plain)),
    ("registers_after_a_fault", after_a_fault),
    ("control_words_of_the_caller", control_words),
];

fn call(how: u64, word: u64) -> Seen {
    find_avx();
    // Another value than any that can come back.
    let blank = 0x1111_1111_1111_1111;
    let mut after =
        Seen { general: [blank; 16], vectors: [[blank; 4]; 16], mmx: [blank; 8], mxcsr: blank, fcw: 0, flags: blank };
    filled_call(how, word, &mut after);
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
fn check_after(after: &Seen, values: [u64; 3]) -> Outcome {
    let g = &after.general;
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

#[derive(PartialEq)]
enum Way {
    Bound,
    Plain,
}

fn stage(kind: u64) -> Result<(Peer, u64, Bound, u64), String> {
    let peer = Peer::start()?;
    let gate = peer.call(op::RAW, &[kind, 0]).map_err(doing("gate"))?;
    let bound = Bound::bind(gate, PAGE).map_err(doing("bind"))?;
    let room = data(PAGE).map_err(doing("create"))?;
    section::grant(room.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok((peer, gate, bound, room.base()))
}

fn across(way: Way) -> Outcome {
    let (peer, gate, bound, room) = stage(kind::DUMP_AND_SPOIL)?;
    let who = task::identity();
    let how = if way == Way::Bound { call_number(bound.binding().number, 0) } else { gate };
    for _ in 0..3 {
        let after = call(how, room);
        // SAFETY: the callee wrote such a record there, and is done with it.
        let seen = unsafe { *(room as *const Seen) };
        let g = &seen.general;
        same!([g[5], g[4], g[3], g[2], g[8], g[9]], [room, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005], "arguments");
        let args = if way == Way::Bound { [bound.binding().args, PAGE] } else { [0; 2] };
        same!([g[1], g[12]], args, "argument section");
        same!([g[0], g[13], g[6], g[15]], [0, COOKIE, 0, 0], "index, cookie, rbp, r15");
        same!([g[10], g[11], g[14]], [who.task, who.text, who.user], "who is calling");
        same!(g[7] % 16, 8, "the stack's alignment");
        same!((seen.mxcsr as u32, seen.fcw as u16), (0x1f80, 0x037f), "control words in the callee");
        no_vectors(&seen, "in the callee")?;
        check_after(&after, [77, 88, 0])?;
    }
    peer.end()
}

fn after_a_fault() -> Outcome {
    let (peer, gate, bound, room) = stage(kind::SPOIL_AND_FAULT)?;
    for how in [call_number(bound.binding().number, 0), gate] {
        check_after(&call(how, room), [0, 0, Error::Faulted.word()])?;
    }
    // A call that is not made at all.
    same!(peer.call(op::OWN, &[crate::peer::own::SHUT]), Ok(0), "shutting it");
    let refused = call(call_number(bound.binding().number, 0), room).general;
    let error = Error::no_right(Object::Section(peer.text, Rights::CALL), task::identity().thread);
    same!([refused[0], refused[3], refused[10]], [0, 0, error.word()], "a refused call");
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

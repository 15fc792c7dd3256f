//! What the gate keeps for a thread, used behind its back: the frame above the one on top, which still has what the last call
//! put there, records of others, a callee's stack pointer, and all of it where the gate has not shut its key (pitfalls: H1,
//! H3, H4). Without keys the kernel makes all calls, and only one of these can be tried.

use super::asm::{Registers, TARGET, TOUCHED, VICTIM, call_and_use, hostile, landing, open_all, through};
use super::{EARNED, IN_STATE, SECRET, Scene, ask, earn, has_keys, jumps, op, record, without_keys};
use crate::peer::{self, Peer};
use crate::raw::kind;
use crate::report::{Check, Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::format;
use core::sync::atomic::Ordering;
use musubi::Error;
use musubi::abi::gate::{DONE, ENTER, GATE, GATE_BASE, Record, slot};
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::rt::{Bound, probe};

pub const CHECKS: &[Check] = &[
    ("return_address_left_above_the_top", left_above),
    ("call_by_anothers_record", anothers_record),
    ("callees_stack_is_as_before", callees_stack),
    ("the_gates_key_is_shut", key_is_shut),
];

/// The last place of the way back at which the key register is written.
fn last_write() -> Option<u64> {
    let open = open_all();
    let write = &open[open.len() - 3..];
    (DONE..ENTER).rev().find(|at| (0..).zip(write).all(|(n, byte)| probe::read(at + n) == *byte))
}

/// Leaves a return address of its own in the frame above the one on top, by a call of the gates at `gate`, and jumps to the last
/// write of the key register with all keys open. Comes back only if that could not be tried.
pub fn jump_back(gate: u64, place: u64) -> u64 {
    let (Ok(bound), Some(write)) = (Bound::bind(gate, 0), last_write()) else { return 3 };
    VICTIM.store(place, Ordering::SeqCst);
    TARGET.store(write, Ordering::SeqCst);
    for _ in 0..EARNED {
        // So that these pages are there: for one that is not the kernel would come in between, and set the register.
        probe::read(landing as *const () as u64);
        let _ = bound.call(0, [op::GET, 0, 0, 0, 0, 0]);
        call_and_use(slot(bound.binding().number), 0, jumps::forge(0));
    }
    4
}

/// The way back ends with a jump to where the frame above the top says: that of the call which is just over. Who jumps behind all
/// that, to the last write of the key register, comes to an address of his own with the register that he has chosen, if
/// the gate does not compare it with what the frame on top says.
fn left_above() -> Outcome {
    let scene = Scene::set()?;
    if !has_keys(&scene.victim.bound) {
        scene.end()?;
        return without_keys();
    }
    let attacker = Peer::start()?;
    earn(&scene.victim)?;
    earn(&attacker)?;
    let (gate, place) = (scene.victim.gate, scene.place);
    holds!(ask(&attacker, [peer::op::PEEK, place, 0, 0, 0, 0]).is_err(), "the attacker may read the secret");
    for round in 0..5 {
        same!(attacker.call(op::JUMP_BACK, &[gate, place]), Err(Error::Faulted), "a jump back in round {round}");
        scene.holds("after a jump back")?;
    }
    attacker.end()?;
    let exit = run_role(&["attack", "jump-back", &format!("{gate:#x}"), &format!("{place:#x}")])?;
    same!(exit.kind, exit::FAULT, "a jump back by who was not called, code {}", exit.code);
    scene.end()
}

/// The record by which the victim calls a server lies at another offset from the records of this program than any that it
/// may call by. A gate that took any offset would let it call in the victim's name.
fn anothers_record() -> Outcome {
    let (server, victim) = (Peer::start()?, Peer::start()?);
    if !has_keys(&server.bound) {
        server.end()?;
        victim.end()?;
        return without_keys();
    }
    let [entry, to_server] = ask(&server, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("the server's record"))?;
    let [_, to_victim] = ask(&victim, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("the victim's record"))?;
    let own = to_server - slot(server.bound.binding().number);
    let binding = victim.call(peer::op::BIND, &[server.gate]).map_err(doing("binding"))?;
    let mut found = None;
    for _ in 0..EARNED {
        victim.call(peer::op::CALL_BOUND, &[binding, peer::op::ADD, 1]).map_err(doing("the victim's call"))?;
        let first = record(to_victim).records;
        let all = (first..first + PAGE).step_by(size_of::<Record>());
        found = all.clone().find(|at| record(*at).entry == entry && record(*at).direct > 0);
        if found.is_some() {
            break;
        }
    }
    let theirs = found.ok_or("the victim's calls are not made by the gate")?;
    same!(record(theirs).text, victim.text, "whose record it is");
    for way in [GATE, ENTER] {
        let text = through(way, theirs.wrapping_sub(own), peer::op::CALLER, 0, 0, 0);
        holds!(text != victim.text, "called in the victim's name, way {way:#x}");
    }
    same!(server.call(peer::op::ADD, &[0]).is_ok(), true, "the server afterwards");
    server.end()?;
    victim.end()
}

/// A callee that calls others has its stack pointer put back when it returns. If it stayed where the callee's last call left it, a
/// caller would use up the callee's stack.
fn callees_stack() -> Outcome {
    let (outer, inner) = (Peer::start()?, Peer::start()?);
    let binding = outer.call(peer::op::BIND, &[inner.gate]).map_err(doing("binding"))?;
    for call in 1..=2 * EARNED {
        same!(outer.call(peer::op::CALL_BOUND, &[binding, peer::op::ADD, 1]), Ok(call), "call {call}");
    }
    outer.end()?;
    inner.end()
}

/// Where the record of a binding lies, by that of another one whose address its callee has told.
fn record_at(known: &Bound, told: u64, bound: &Bound) -> u64 {
    told - slot(known.binding().number) + slot(bound.binding().number)
}

/// A program that comes back from a call by the gate and stores to the gate's state with its first instruction.
pub fn store_back(gate: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    for _ in 0..EARNED {
        let Ok([_, at]) = bound.call(0, [op::ENTRY, 0, 0, 0, 0, 0]) else { return 4 };
        if record(at).direct > 0 {
            // So that its pages are there: for one that is not the kernel would come in between, and set the register.
            for offset in [0, 255] {
                probe::read(call_and_use as *const () as u64 + offset);
            }
            call_and_use(slot(bound.binding().number), IN_STATE, 0);
        }
    }
    5
}

/// A program that calls a gate beyond the block, with a stack in the gate's state: the gate pushes what its first instruction
/// would have taken from there, and lets the kernel refuse the call, which returns to what was pushed.
pub fn push(gate: u64) -> i32 {
    let Ok(bound) = Bound::bind(gate, 0) else { return 3 };
    // So that there is a record to look at: the kernel comes in between if there is none.
    if bound.call(0, [op::GET, 0, 0, 0, 0, 0]).is_err() {
        return 4;
    }
    // Length of the gate's first instruction.
    const POP: u64 = 2;
    TARGET.store(GATE_BASE + POP, Ordering::SeqCst);
    VICTIM.store(SECRET.as_ptr() as u64, Ordering::SeqCst);
    let mut all: Registers = [0; 17];
    (all[7], all[10], all[16]) = (IN_STATE + 8, landing as *const () as u64, 0x202);
    (all[11], all[14]) = (slot(bound.binding().number), u64::MAX);
    hostile(&raw const all)
}

/// Whoever is entered, returned to, or sent to the kernel by the gate stores to what only the gate writes, before the kernel could
/// see which value the key register has. With the gate's key open, it would choose where its caller goes on.
fn key_is_shut() -> Outcome {
    let peer = Peer::start()?;
    if !has_keys(&peer.bound) {
        peer.end()?;
        return without_keys();
    }
    earn(&peer)?;
    let [_, told] = ask(&peer, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("the record"))?;
    let gate = peer.call(peer::op::RAW, &[kind::STORE_FIRST, 0]).map_err(doing("gate"))?;
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    let at = record_at(&peer.bound, told, &bound);
    let store = || bound.call(0, [IN_STATE, 0, 0, 0, 0, 0]);
    let by_gate = (0..EARNED).any(|_| record(at).direct > 0 || store() != Err(Error::Faulted));
    holds!(by_gate, "the kernel makes all calls");
    same!(store(), Err(Error::Faulted), "a store by a callee");
    for (role, what) in [("store-back", "a store by who is returned to"), ("push", "a push on the way to the kernel")] {
        let exit = run_role(&["attack", role, &format!("{:#x}", peer.gate)])?;
        same!(exit.kind, exit::FAULT, "{what}, code {} (through: {TOUCHED})", exit.code);
    }
    bound.unbind().map_err(doing("unbind"))?;
    peer.end()
}

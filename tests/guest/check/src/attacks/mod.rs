//! Attacks on the gate, on keys, and on who is between two programs (docs/decisions/0006). Each is a program that would
//! succeed if one rule were not kept: it says which. What it must not get at is a *secret*: a word that only one text may
//! touch, on whatever thread; see [`Scene`].

pub mod addresses;
mod asm;
pub mod back;
pub mod code;
pub mod deputies;
pub mod frames;
mod given;
pub mod jumps;
mod late;
pub mod loans;
pub mod passed;
pub mod persona;
pub mod races;
pub mod returns;
mod reused;
pub mod secrets;
pub mod segments;
pub mod state;
mod stopped;
pub mod strangers;
pub mod sweep;
mod told;
pub mod upcalls;
mod writers;

use crate::peer::Peer;
use crate::report::{NO_KEYS, Outcome, doing, skipped};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::Kernel;
use musubi::abi::gate::{DONE, DOORSTEP, GATE_BASE, Record, grade};
use musubi::abi::info::feature;
use musubi::rt::bound::result_of;
use musubi::rt::gate::Values;
use musubi::rt::{Bound, Trap, plain_call, task, thread};

/// What a peer does besides, for attacks on it and by it.
pub mod op {
    /// Ops from here on.
    pub const FIRST: u64 = 64;
    /// Makes `w0` its secret.
    pub const SET: u64 = 64;
    /// Value: its secret.
    pub const GET: u64 = 65;
    /// Value: the secret's address.
    pub const PLACE: u64 = 66;
    /// Jumps to the offset `w0` of the gate's page with the hostile registers number `w1`, to get at the word at `w2`.
    pub const JUMP: u64 = 67;
    /// Value: the key register in this program.
    pub const REGISTER: u64 = 68;
    /// Makes the kernel call `w0` with the words at `w1`.
    pub const KERNEL: u64 = 69;
    /// Goes back by the door at `w0`, with the value `w1`.
    pub const BACK: u64 = 70;
    /// Makes a call of the gates at `w0` by the way `w1` (see [`super::returns::WAYS`]), which goes back by the door `w2`.
    pub const PASS_ON: u64 = 71;
    /// Stores its key register at `w2`, waits without the kernel until the word at `w0` is not 0, and loads the word at `w1`.
    pub const SPIN_AND_LOAD: u64 = 72;
    /// Value: where its gates lead to, and a record that it was called by.
    pub const ENTRY: u64 = 73;
    /// Calls the gates at `w0` by the way `w1`, which then call their binding `w2` with the word `w3`.
    pub const CALL_BACK: u64 = 75;
    /// Stores 1 at `w0` and waits without the kernel until the word at `w1` is not 0.
    pub const HOLD: u64 = 74;
    /// Binds to the gates at `w0`, once, and has them load the first word of what this lends. Values: it, and how many may use that.
    pub const LEND_ON: u64 = 76;
    /// Value: a count in a section that is secret.
    pub const COUNT_IN_SECRET: u64 = 77;
    /// Calls the gates at `w0` and jumps into the gate's way back, to get at the word at `w1`: [`super::frames::jump_back`].
    pub const JUMP_BACK: u64 = 78;
    /// From now on this text's faults go where a call of the gates at `w0` is made when their time is over: [`super::late`].
    pub const LATE: u64 = 79;
    /// The same where the scheduler is called (`w0` is 1), or the name server.
    pub const LATE_AT_EVERYBODYS: u64 = 80;
    /// Stores 1 at `w0`, waits until it is told to go on, and stores there once more: [`super::addresses`].
    pub const WAIT_AND_STORE: u64 = 81;
    /// Who waits in that goes on, if `w0` is 1. Value: for how many rounds they have waited.
    pub const GO_ON: u64 = 82;
    /// Makes a section, and keeps it if it lies at `w0`. Value: where it lies.
    pub const TAKE: u64 = 83;
    /// Passes the address `w0` on, `w1` deep, to the gates at `w2` and back to those at `w3`, and waits there: [`super::told`].
    pub const PASS_DOWN: u64 = 84;
    /// Value: how many wait in that.
    pub const WAITING: u64 = 85;
    /// Lends the `w1` bytes at `w0` with a message to the post `w2`, answered at the post `w3`. Value: the loan. `w2` 0: takes the loan `w0` back.
    pub const LEND_BY_MESSAGE: u64 = 86;
    /// Adds 1 at `w1` and calls the gates at `w0` on its own stack, again and again, until it is told that it cannot. Value: that.
    pub const CALL_ON: u64 = 87;
}

/// Where the gate keeps the address of the frame on top, and the length of a frame.
const TOP: u64 = GATE_BASE + (1 << 30) + 0x1000;
const FRAME: u64 = 32;
/// A word between them that means nothing.
const IN_STATE: u64 = TOP + 0x18;

/// A word alone in a page of zeroes: where a whole record is read from there, as by a kernel that is somebody's deputy, it is a good one.
#[repr(align(4096))]
struct Alone(AtomicU64);

impl core::ops::Deref for Alone {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

static SECRET: Alone = Alone(AtomicU64::new(0));

/// What a peer does for an [`op`].
pub fn serve(record: &Record, what: u64, w: &[u64; 5]) -> Values {
    let value = match what {
        op::SET => {
            SECRET.store(w[0], Ordering::SeqCst);
            0
        }
        op::GET => SECRET.load(Ordering::SeqCst),
        op::PLACE => SECRET.as_ptr() as u64,
        op::JUMP => jumps::jump(w[0], w[1], w[2], u64::from(record.register)),
        op::JUMP_BACK => frames::jump_back(w[0], w[1]),
        op::LATE => return Values::of(late::prepare(w[0], w[1])),
        op::LATE_AT_EVERYBODYS => return Values::of(late::prepare_everybodys(w[0] == 1, w[1])),
        op::WAIT_AND_STORE if w[1] != 0 && !addresses::may_pass(w[0]) => 0,
        op::WAIT_AND_STORE => addresses::wait_and_store(w[0]),
        op::GO_ON => addresses::go_on(w[0]),
        op::PASS_DOWN => return told::pass_down(w[0], w[1], w[2], w[3]),
        op::WAITING => addresses::waiting(),
        op::TAKE => return Values::of(addresses::take(w[0])),
        op::REGISTER => u64::from(record.register),
        op::KERNEL => {
            // SAFETY: the check has put six words there that this program may read.
            let words = unsafe { *(w[1] as *const [u64; 6]) };
            return Values::of(Trap.enter(w[0], words));
        }
        op::BACK => returns::back(w[0], w[1]),
        op::CALL_ON => return Values::of(races::call_on(w[0], w[1])),
        op::PASS_ON => return Values::of(returns::pass_on(w[0], w[1], w[2])),
        op::CALL_BACK => return Values::of(returns::call_back(w[0], w[1], w[2], w[3])),
        op::SPIN_AND_LOAD => asm::spin_and_load(w[0], w[1], w[2], core::ptr::from_ref(&record.register) as u64),
        op::COUNT_IN_SECRET => return Values::of(secrets::count_in_secret()),
        op::LEND_ON => return loans::lend_on(w[0], w[1]),
        op::LEND_BY_MESSAGE => return loans::messages::lend(w[0], w[1], w[2], w[3]),
        op::ENTRY => return Values(record.entry, core::ptr::from_ref(record) as u64),
        op::HOLD => {
            crate::memory::store(w[0], 1);
            while crate::memory::load(w[1]) == 0 {
                core::hint::spin_loop();
            }
            0
        }
        _ => return Values(Error::NoSuchCall.word(), 0),
    };
    Values(0, value)
}

/// A program with a secret, which the thread of the check has been in: its pages are there, and have a key if there are keys.
pub struct Scene {
    pub victim: Peer,
    pub secret: u64,
    pub place: u64,
}

impl Scene {
    pub fn set() -> Result<Scene, String> {
        let victim = Peer::start()?;
        let secret = 0x5ec2_e700_0000_0000 | musubi::rt::time::ticks() & 0xffff_ffff;
        victim.call(op::SET, &[secret]).map_err(doing("the secret"))?;
        let place = victim.call(op::PLACE, &[]).map_err(doing("its place"))?;
        let scene = Scene { victim, secret, place };
        scene.holds("before")?;
        Ok(scene)
    }

    /// The secret is what it was, and the victim answers.
    pub fn holds(&self, when: &str) -> Outcome {
        same!(self.victim.call(op::GET, &[]), Ok(self.secret), "the secret {when}");
        Ok(())
    }

    pub fn end(self) -> Outcome {
        self.holds("afterwards")?;
        self.victim.end()
    }
}

/// An attacker may end its call as it likes; not with the secret, and not with itself, which says that it got through.
pub fn not_told(attacker: &Peer, words: [u64; 6], secret: u64, what: &str) -> Outcome {
    match ask(attacker, words) {
        Ok(values) if values.contains(&secret) => Err(format!("{what}: told the secret")),
        Err(Error::Dead) if ask(attacker, [op::GET, 0, 0, 0, 0, 0]).is_err() => {
            Err(format!("{what}: touched the secret"))
        }
        _ => Ok(()),
    }
}

/// This program's part in roles: see `roles.rs`.
pub fn role(what: &str, at: impl Fn(usize) -> u64) -> i32 {
    match what {
        "jump" => jumps::role(at(0), at(1), at(2)),
        "jump-back" => frames::jump_back(at(0), at(1)) as i32,
        "store-back" => frames::store_back(at(0)),
        "push" => frames::push(at(0)),
        "step-at-call" => state::step_at_a_call(at(0), at(1), at(2)),
        "step" => state::role(at(0)),
        "begin" => state::begin(at(0), at(1)),
        "segments" => segments::role(at(0)),
        "loaded" => segments::loads(),
        "binds" => races::binds(at(0)),
        "by-segments" => segments::chosen(at(0), at(1), at(2)),
        "code" => code::role(at(0), at(1), at(2)),
        "unclear" => code::unclear_for(at(0)),
        "touch" => races::touch(at(0), at(1), at(2)),
        "cross" => races::cross(at(0), at(1)),
        "lend-on" => loans::role(at(0), at(1)),
        "fault-return" => stopped::fault_return(at(0), at(1)),
        "foreign-return" => stopped::foreign_return(at(0), at(1)),
        "undone" => returns::undone(at(0), at(1)),
        "marked" => returns::marked(at(0), at(1)),
        _ => 2,
    }
}

fn doors() -> [u64; 3] {
    [DONE, DOORSTEP, 0]
}

fn has_keys(bound: &Bound) -> bool {
    bound.binding().grade == grade::EPC_H
}

/// What a check says that is about the gate where [`has_keys`] says that there is none.
pub fn without_keys() -> Outcome {
    let has_none = task::processors().all(|p| p.features & feature::PKU == 0);
    holds!(has_none, "there are protection keys, and a binding is not by the gate");
    skipped(NO_KEYS)
}

/// Calls that the kernel has made, on whatever processor.
fn by_kernel() -> u64 {
    task::processors().map(|p| p.epc).sum()
}

/// Calls after which the gate makes them, if it ever does.
const EARNED: u64 = 10_000;

/// Calls until the gate makes the calls by itself: who wants a key earns it by calls without.
fn earn(peer: &Peer) -> Outcome {
    earn_by(&peer.bound)
}

fn earn_by(bound: &Bound) -> Outcome {
    for _ in 0..EARNED {
        let [_, at] = bound.call(0, [op::ENTRY, 0, 0, 0, 0, 0]).map_err(doing("a call"))?;
        if record(at).direct > 0 {
            return Ok(());
        }
    }
    Err("the kernel makes all calls".into())
}

/// A copy of the record at an address.
fn record(at: u64) -> Record {
    // SAFETY: abi::gate: records are the kernel's, and programs can read them.
    unsafe { *(at as *const Record) }
}

fn ask(peer: &Peer, words: [u64; 6]) -> Result<[u64; 2], Error> {
    peer.bound.call(0, words)
}

fn ask_plainly(peer: &Peer, words: [u64; 6]) -> Result<u64, Error> {
    plain_call(peer.gate, words).and_then(result_of)
}

/// Runs `body` on so many threads, and waits for all. Value: how many it was not true of.
fn on_threads(count: u64, body: impl Fn(u64) -> bool + Send + Sync + Copy + 'static) -> Result<u64, String> {
    static BAD: AtomicU64 = AtomicU64::new(0);
    BAD.store(0, Ordering::SeqCst);
    let one = move |n| {
        if !body(n) {
            BAD.fetch_add(1, Ordering::SeqCst);
        }
    };
    let threads: Result<alloc::vec::Vec<_>, _> = (0..count).map(|n| thread::spawn(move || one(n), 0)).collect();
    for thread in threads.map_err(doing("thread"))? {
        thread.join().map_err(doing("join"))?;
    }
    Ok(BAD.load(Ordering::SeqCst))
}

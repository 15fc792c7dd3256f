//! What a peer does that takes more than a line: with a lock in its hands, in its own time, on several threads.

use crate::memory::{load, store, word};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{self as sections, kind};
use musubi::interfaces::stream::StreamClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::Values;
use musubi::rt::itc::Here;
use musubi::rt::serve::away;
use musubi::rt::{Mutex, Trap, fault, plain_call, probe, section, task, thread, time};
use musubi::{Caller, Error};

pub static LOCKED: Mutex<[u64; 2]> = Mutex::new([0; 2]);

pub fn copy_locked(from: u64, len: u64) -> Result<u64, Error> {
    let mut pair = LOCKED.lock();
    pair[0] += 1;
    // SAFETY: whether there is anything is what is tried: the copy says so.
    let lent = unsafe { core::slice::from_raw_parts(from as *const u8, len as usize) };
    match fault::copy_in(lent) {
        Ok(_) => pair[1] += 1,
        Err(why) => {
            pair[0] -= 1;
            return Err(why);
        }
    }
    if pair[0] == pair[1] { Ok(pair[0]) } else { Err(Error::Refused) }
}

/// As long as nothing was left half done, it can be told from the pair.
pub fn own_section() -> Result<u64, Error> {
    static OWN: AtomicU64 = AtomicU64::new(0);
    let mut pair = LOCKED.lock();
    if OWN.load(Ordering::SeqCst) == 0 {
        let own = section::Section::create(PAGE, PAGE, kind::DATA, sections::flag::ANY_PRINCIPAL)?;
        OWN.store(own.base(), Ordering::SeqCst);
        core::mem::forget(own);
    }
    pair[0] += 1;
    let before = word(OWN.load(Ordering::SeqCst)).fetch_add(1, Ordering::SeqCst);
    pair[1] += 1;
    if pair[0] == pair[1] { Ok(before + 1) } else { Err(Error::Refused) }
}

/// Waits until there is something at an address, perhaps aside.
pub fn await_there(caller: &Caller, at: u64, aside: bool) -> Result<u64, Error> {
    let _away = if aside { Some(away(caller)?) } else { None };
    store(at + 8, 1);
    while load(at) == 0 {
        time::sleep_ns(1_000_000);
    }
    Ok(0)
}

/// Reads a stream, of which something may never come.
pub fn read(flag: u64, streams: u64, id: u64) -> Result<u64, Error> {
    let streams = StreamClient::bind_with_args(streams, PAGE)?;
    store(flag, 1);
    streams.read(id, &mut [0; 8])
}

/// Frames of a small peer.
pub const FEW: u64 = 4000;

/// Stores to more pages than those.
pub fn hoard() -> Result<u64, Error> {
    static OWN: AtomicU64 = AtomicU64::new(0);
    let len = 2 * FEW * PAGE;
    if OWN.load(Ordering::SeqCst) == 0 {
        let own = section::Section::create(len, len, kind::DATA, sections::flag::ANY_PRINCIPAL)?;
        OWN.store(own.base(), Ordering::SeqCst);
        core::mem::forget(own);
    }
    (0..2 * FEW).for_each(|page| probe::write(OWN.load(Ordering::SeqCst) + page * PAGE));
    Ok(0)
}

/// The first half of a pair, work until somebody has killed the caller, something on each page of the memory at an address of this length,
/// the second half.
pub fn heed(pair: &[AtomicU64; 2], flag: u64, value: u64, (at, len): (u64, u64)) -> Values {
    pair[0].store(value, Ordering::SeqCst);
    store(flag, 1);
    while !thread::is_killed() {
        core::hint::spin_loop();
    }
    (at..at + len).step_by(PAGE as usize).for_each(|page| store(page, load(page) + 1));
    pair[1].store(value, Ordering::SeqCst);
    store(flag, 2);
    Values(0, 0)
}

/// Each of these waits is over at once; in half of the time that the callee has, at most.
pub fn nap(flag: u64, count: u64) -> Values {
    store(flag, 1);
    while !thread::is_killed() {
        core::hint::spin_loop();
    }
    let until = time::now_ns() + 500_000_000;
    let waits = (0..count).take_while(|_| time::now_ns() < until);
    store(flag + 8, waits.filter(|_| stub::sleep(&Trap, 1_000_000_000) == Err(Error::Killed)).count() as u64);
    store(flag, 2);
    Values(0, 0)
}

/// The first half of a pair, a call that may not come back in time, the second half.
pub fn call_back(pair: &[AtomicU64; 2], value: u64, gate: u64, [what, flag]: [u64; 2]) -> Values {
    pair[0].store(value, Ordering::SeqCst);
    let said = plain_call(gate, [what, flag, u64::MAX / 2, 0, 0, 0]).and_then(result_of);
    store(flag + 8, said.map_or_else(Error::word, |_| 0));
    pair[1].store(value, Ordering::SeqCst);
    Values(0, 0)
}

pub fn meet(base: u64, place: u64, count: u64) -> Result<u64, Error> {
    let here = Here::find()?;
    store(base + 8 * place, task::identity().thread);
    let until = time::now_ns() + 20_000_000_000;
    // Who has seen it says so to the others, who may be too late to see it themselves.
    let seen = base + 8 * count;
    while load(seen) == 0 {
        let all: Vec<u64> = (0..count).map(|n| load(base + 8 * n)).collect();
        let running: Vec<u64> = here.running().collect();
        if all.iter().all(|thread| *thread != 0 && running.contains(thread)) {
            store(seen, 1);
        } else if time::now_ns() > until {
            return Err(Error::TimedOut);
        }
    }
    Ok(0)
}

/// Takes its time on the processor.
#[inline(never)]
pub fn work(rounds: u64) {
    for n in 0..rounds {
        core::hint::black_box(n);
    }
}

pub type Nine = extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64;

/// Every argument in a place of its own. It changes what it was passed on the stack, as a C function may.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
pub extern "C" fn nine(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, mut g: u64, mut h: u64, i: u64) -> u64 {
    let of = |values: [u64; 9]| values.into_iter().fold(0u64, |all, value| all.wrapping_mul(1_000_003) ^ value);
    let whole = of([a, b, c, d, e, f, g, h, i]);
    (g, h) = (core::hint::black_box(!g), core::hint::black_box(!h));
    core::hint::black_box((&mut g, &mut h));
    whole
}

/// Much of the stack is this function's own.
pub fn call_back_plainly(gate: u64, word: u64) -> Result<u64, Error> {
    let much = core::hint::black_box([gate; 512]);
    let mut value = 0;
    for _ in 0..3 {
        value = plain_call(gate, [word, 0, 0, 0, 0, 0]).and_then(result_of)?;
    }
    if core::hint::black_box(&much).iter().all(|own| *own == gate) { Ok(value) } else { Err(Error::Changed) }
}

//! What an interrupt leaves is done within a bound, however many are busy (SSS-28, 29), by a driver that is of no class (SSS-21):
//! `tests/guest/own-driver`.

use crate::irq::{beside, line};
use crate::report::{Check, Outcome, doing};
use crate::sched::with;
use crate::{holds, same};
use alloc::string::String;
use musubi::abi::info::way;
use musubi::rt::{task, time};
use musubi::{Error, names};
use own_driver::{KnocksClient, NAME};

pub const CHECKS: &[Check] = &[
    ("an_interface_of_its_own", an_interface_of_its_own),
    ("ports_by_light_calls", || knocks()?.ports().map_err(doing("what the driver has tried"))),
    ("seen_in_time", seen_in_time),
];

/// Of the clock, in ns: who runs has his quantum of 10 ms to the end, then whoever was called has his turn. As much again for a scheduler
/// that decides in between.
const BOUND_NS: u64 = 20_000_000;
const KNOCKS: u64 = 24;
/// Beside busy threads each takes a turn of all of them.
const FEW: u64 = 6;
/// What is not heard by then is lost.
const PATIENCE_NS: u64 = 20_000_000_000;
/// Busy threads for each processor.
const BUSY: usize = 4;

pub fn knocks() -> Result<KnocksClient, String> {
    names::await_name(NAME, PATIENCE_NS).and_then(KnocksClient::bind).map_err(doing(NAME))
}

/// Knocks, and computes until that was heard. Value: bytes that the driver has taken.
fn knock(knocks: &KnocksClient) -> Result<u64, String> {
    let heard = || knocks.heard().map_err(doing("heard"));
    let (messages, bytes) = heard()?;
    knocks.knock().map_err(doing("knock"))?;
    let until = time::now_ns() + PATIENCE_NS;
    loop {
        let now = heard()?;
        if now.0 > messages && now.1 > bytes {
            return Ok(now.1 - bytes);
        }
        holds!(time::now_ns() < until, "of a knock: {messages} and {bytes}, then {now:?}");
    }
}

fn an_interface_of_its_own() -> Outcome {
    let knocks = knocks()?;
    same!(knocks.read(), Err(Error::NotSupported), "reading from what is no keyboard");
    for _ in 0..KNOCKS {
        same!(knock(&knocks)?, 1, "bytes of a knock");
    }
    let line = line()?;
    same!(line.way, way::POST, "how its interrupts come");
    holds!(line.came >= KNOCKS, "{} interrupts came", line.came);
    Ok(())
}

fn seen_in_time() -> Outcome {
    let knocks = knocks()?;
    for name in ["none", "ageing", "initial"] {
        with(name, || {
            let before = line()?.came;
            beside(BUSY * task::processors().count(), || (0..FEW).try_for_each(|_| knock(&knocks).map(drop)))?;
            let line = line()?;
            holds!(line.came - before >= FEW, "{name}: {} came", line.came - before);
            holds!(line.longest_mark_ns > 0, "{name}: no mark was ever seen");
            holds!(line.longest_mark_ns <= BOUND_NS, "{name}: a mark waited for {} ns", line.longest_mark_ns);
            same!(line.marked, 0, "{name}: a mark that nobody has seen");
            Ok(())
        })?;
    }
    Ok(())
}

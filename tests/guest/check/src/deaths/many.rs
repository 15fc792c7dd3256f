//! Thousands of deaths in a row, and whose account everything is on afterwards.

use super::{one_program, settled_with};
use crate::memory::data;
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::task::TaskInfo;
use musubi::command::Command;
use musubi::ended;
use musubi::rt::{section, task};
use musubi::{Error, Rights};

/// What dies in a tenth of all.
#[derive(Clone, Copy)]
pub struct Deaths {
    /// That end with a caller inside.
    programs: u64,
    /// That fault, or end their thread, before each of these.
    calls: u64,
    /// Callers that are killed inside, before every fifteenth.
    callers: u64,
}

/// Frames by which an account, and the machine, may have grown at the end.
const A_FEW: u64 = 8;
const SOME: u64 = 30;

pub const MIXED: Deaths = Deaths { programs: 105, calls: 5, callers: 53 };
pub const ENDS: Deaths = Deaths { programs: 1000, calls: 0, callers: 0 };

/// All mixed: callees that fault and that end their thread, callers that are killed inside, programs that end with a caller inside, in each way. What is
/// lost with a death is lost ten thousand times; what only grows to its size has it long before.
pub fn die(deaths: Deaths) -> Outcome {
    const PARTS: usize = 10;
    let Deaths { programs, calls, callers } = deaths;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let peer = Peer::start()?;
    let mut all: Vec<Memory> = Vec::with_capacity(PARTS);
    let mut held: Vec<Held> = Vec::with_capacity(PARTS);
    for part in 0..PARTS {
        for n in 0..programs {
            for call in 0..calls {
                let (what, told) = [(op::FAULT, Error::Faulted), (op::THREAD_EXIT, Error::Dead)][call as usize % 2];
                same!(peer.call(what, &[1]), Err(told), "part {part}, call {call} before program {n}");
            }
            if n % 15 == 0 && callers > 0 {
                // By a program of its own: what a killed thread leaves in its heap goes with it.
                let line = format!("check as killed-callers {} {} {callers}", peer.gate, flags.base());
                same!(status_of(&line)?, 0, "part {part}: callers");
            }
            one_program(n, flags.base()).map_err(|why| format!("part {part}, program {n}: {why}"))?;
        }
        // In the first one everything grows that has to.
        let counts = |m: &Memory| (m.sections, m.tasks, m.threads);
        let as_before = |after: &Memory| {
            let Some(before) = all.get(1) else { return Ok(()) };
            same!(counts(after), counts(before), "sections, tasks, threads");
            Ok(())
        };
        let now = settled_with(as_before).map_err(|why| format!("part {part}: {why}"))?;
        all.push(now);
        held.push(Held::now(&now));
    }
    // Every frame that is in use is on the account of somebody who lives, but for what the kernel itself has: not one is lost.
    let (early, late) = held.split_at(PARTS / 2);
    let most = early.iter().map(|held| held.nobodys).max().unwrap_or(0);
    let last = &late[late.len() - 1];
    let grown = last.grown_since(early);
    let lost = last.nobodys - most;
    holds!(
        lost <= 0,
        "{lost} frames more than before are on nobody's account; and these accounts have grown: {grown:?}"
    );
    // And nobody pays for what others have left, but for tables that double.
    let losers: Vec<_> = grown.iter().filter(|(_, more)| *more >= A_FEW).collect();
    holds!(losers.is_empty(), "these accounts have grown by so many frames in the last five thousand: {losers:?}");
    // Tables double and are cleared now and then, and as many threads as have lived at a time keep tables of their stacks: in the end it is
    // not more than it has once been, or by some frames, however many programs have ended.
    let (early, late) = all.split_at(PARTS / 2);
    let most = |what: fn(&Memory) -> u64| early.iter().map(what).max().unwrap_or(0);
    let after = late[late.len() - 1];
    let grown = |what: fn(&Memory) -> u64| what(&after).saturating_sub(most(what));
    let used = |m: &Memory| m.total - m.free - m.kept();
    let (views, memory, heap) = (grown(|m| m.views), grown(used), grown(|m| m.kernel_heap_used));
    let few = SOME * PAGE;
    holds!(views < few, "views have grown by {views:#x} bytes in the last five thousand");
    holds!(memory < few, "{memory:#x} bytes of memory were lost in the last five thousand");
    // Less than the smallest object for each call that has died; and for each of the thousand programs that are tried by name.
    holds!(heap < 4 * PAGE, "the kernel's heap has grown by {heap} bytes in the last five thousand");
    peer.end()
}

/// Frames in use by whose account they are on.
struct Held {
    /// On nobody's: the kernel's own, less what several share and each pays for.
    nobodys: i64,
    /// Task, name, and frames. What a task uses counts for who has started it, too: here is what is its own.
    accounts: Vec<(u64, String, u64)>,
}

impl Held {
    fn now(memory: &Memory) -> Held {
        let tasks: Vec<_> = task::list().collect();
        let own = |one: &TaskInfo| {
            let below = tasks.iter().filter(|other| other.payer == one.task).map(|other| other.used.frames);
            one.used.frames.saturating_sub(below.sum())
        };
        let name = |one: &TaskInfo| ended::text(&one.name);
        let accounts: Vec<_> = tasks.iter().map(|one| (one.task, name(one), own(one))).collect();
        let charged = accounts.iter().map(|one| one.2).sum::<u64>();
        let used = (memory.total - memory.free - memory.kept()) / PAGE;
        Held { nobodys: used.cast_signed() - charged.cast_signed(), accounts }
    }

    /// Who has more than at any of those times, and how many frames.
    fn grown_since(&self, before: &[Held]) -> Vec<(String, u64)> {
        let of = |held: &Held, task: u64| held.accounts.iter().find(|one| one.0 == task).map_or(0, |one| one.2);
        let then = |task: u64| before.iter().map(|held| of(held, task)).max().unwrap_or(0);
        let grown = self.accounts.iter().map(|(task, name, frames)| (name.clone(), frames.saturating_sub(then(*task))));
        grown.filter(|(_, more)| *more > 0).collect()
    }
}

fn status_of(line: &str) -> Result<i32, String> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let child = Command::new(b"bin/check").args(words).spawn().map_err(|e| format!("{line}: {e}"))?;
    let ended = child.wait_for(200_000_000_000).map_err(doing("wait"))?;
    Ok(ended::status(&ended))
}

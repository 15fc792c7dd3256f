//! Every server is ended again and again while others use them all; then it is counted whether anything is missing.

use super::load::Load;
use super::{doing, have, running};
use crate::deaths::{nothing_lost, settled};
use crate::report::Outcome;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::println;
use musubi::rt::{section, time};
use musubi::servers::{self, acts as act};

/// `check as kills N [SERVER...]`
pub fn role(count: u64, only: &[&str]) -> i32 {
    match run(count, only) {
        Ok(()) => {
            println!("ok");
            0
        }
        Err(why) => {
            musubi::eprintln!("{why}");
            1
        }
    }
}

pub fn under_load(count: u64) -> Outcome {
    run(count, &[])
}

fn run(count: u64, only: &[&str]) -> Outcome {
    let all = servers::list().map_err(doing("servers"))?;
    let named: Vec<String> =
        all.into_iter().map(|one| one.name).filter(|name| only.is_empty() || only.contains(&name.as_str())).collect();
    // What has to grow has grown, and what is made once is there.
    rounds(count.div_ceil(4).clamp(2, ENOUGH), &named)?;
    let mut outcome = Ok(());
    for _ in 0..BATCHES {
        let before = (settled()?, posts());
        rounds(count, &named)?;
        let after = (settled()?, posts());
        for name in &named {
            running(name)?;
        }
        outcome = compare(count * named.len() as u64, &before, &after);
        match &outcome {
            Ok(()) => break,
            Err(why) if count >= TOLD_EVERY => musubi::eprintln!("this time: {why}"),
            Err(_) => {}
        }
    }
    outcome
}

/// Rounds after which nothing has to grow any more.
const ENOUGH: u64 = 25;
/// Of which one at least must lose nothing: what is lost for good is lost in each, what only has to grow is not.
const BATCHES: usize = 5;

fn posts() -> usize {
    section::list().filter(|info| info.kind == kind::POST).count()
}

fn compare(kills: u64, before: &(Memory, usize), after: &(Memory, usize)) -> Outcome {
    let counts = |(memory, posts): &(Memory, usize)| (memory.sections, memory.tasks, memory.threads, *posts);
    same!(counts(after), counts(before), "sections, tasks, threads, posts");
    nothing_lost(&before.0, &after.0)?;
    let heap = after.0.kernel_heap_used.saturating_sub(before.0.kernel_heap_used);
    holds!(heap < (2 * kills).max(4 * PAGE), "{heap} bytes of the kernel's heap were lost in {kills}");
    Ok(())
}

/// Ends each server so often, in turn, while it is called by its gate and asked by its post.
fn rounds(count: u64, named: &[String]) -> Outcome {
    let mut load = Load::begin(named)?;
    let outcome = kills(&mut load, count, named);
    let [done, lost] = load.end()?;
    outcome?;
    // To a server that ends somebody is always under way.
    holds!(lost > 0 || count < FEW, "{done} requests were done, and none was lost");
    if count >= TOLD_EVERY {
        musubi::eprintln!("{done} requests were done, {lost} were lost");
    }
    Ok(())
}

fn kills(load: &mut Load, count: u64, named: &[String]) -> Outcome {
    let began = time::now_ns();
    for n in 0..count {
        for name in named {
            load.serves(name).map_err(|why| format!("round {n}: {why}"))?;
            have(name, act::RESTART).map_err(|why| format!("round {n}: {why}"))?;
        }
        if n > 0 && n.is_multiple_of(TOLD_EVERY) {
            let each = (time::now_ns() - began) / (n * named.len() as u64) / 1000;
            musubi::eprintln!("{n} of {count} times each, {each} us for one");
        }
    }
    // And the last ones answer.
    named.iter().try_for_each(|name| load.serves(name))
}

/// Rounds in which perhaps nobody had asked in the very moment.
const FEW: u64 = 20;
/// After so many rounds a long run says how far it is.
const TOLD_EVERY: u64 = 200;

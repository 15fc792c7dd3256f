//! Every server is ended again and again while others use them all; then it is counted whether anything is missing.

use super::apart::fault_in;
use super::load::{self, Load, Pace};
use super::{doing, have, running};
use crate::deaths::{no_more_lost, settled};
use crate::processes::role as role_of;
use crate::report::Outcome;
use crate::{holds, same};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::section::kind;
use musubi::println;
use musubi::rt::{Mutex, section, task, thread, time};
use musubi::servers::{self, acts as act};
use musubi::{files, names, processes, stream};

/// Before the names of servers: not in turn, but each as soon as it has answered.
const TOGETHER: &str = "together";

/// `check as kills N [together] [SERVER...]`
pub fn role(count: u64, words: &[&str]) -> i32 {
    let (how, only) = match words.split_first() {
        Some((&TOGETHER, rest)) => ((together as Ends, load::TOGETHER), rest),
        _ => ((in_turn as Ends, load::IN_TURN), words),
    };
    match run(count, how, only) {
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
    run(count, (in_turn, load::IN_TURN), &[])
}

/// Ends each of the servers so often.
type Ends = fn(&Arc<Load>, u64, &[String]) -> Outcome;
/// And how often others ask them meanwhile.
type How = (Ends, Pace);

fn run(count: u64, how: How, only: &[&str]) -> Outcome {
    let all = servers::list().map_err(doing("servers"))?;
    let named: Vec<String> =
        all.into_iter().map(|one| one.name).filter(|name| only.is_empty() || only.contains(&name.as_str())).collect();
    // What has to grow has grown, and what is made once is there.
    rounds(count.div_ceil(4).clamp(2, ENOUGH), how, &named)?;
    let batches = if count < MANY { BATCHES } else { 1 };
    let mut outcome = Ok(());
    for _ in 0..batches {
        // What is said afterwards has room then that it has taken before.
        let room = State::settled()?;
        let before = State::settled()?;
        drop(room);
        rounds(count, how, &named)?;
        for name in &named {
            running(name)?;
        }
        outcome = before.lost_nothing(count * named.len() as u64);
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
/// So many ends of servers, after which where programs lie has come round.
const BEGINNING: u64 = 200;
/// Stacks that there may be more: fewer than the fewest kills, with each of which one would be lost.
const AT_CHANCE: u64 = 8;
/// Rounds that have no second try: what only had to grow has grown in the first hundreds of them, and is within what a heap may.
const MANY: u64 = 1000;

/// What there is when nobody does anything.
struct State {
    memory: Memory,
    posts: usize,
    sections: Sections,
}

/// How many there are, by the name of whose they are, their own and their kind.
type Sections = BTreeMap<Which, usize>;
type Which = (String, String, u64);

/// Which sections there are.
pub fn sections_of_all() -> Sections {
    let mut sections = Sections::new();
    for info in section::list() {
        let owner = task::info(info.owner).map_or(String::from("nobody"), |info| shown(&info.name));
        *sections.entry((owner, shown(&info.name), info.kind)).or_insert(0) += 1;
    }
    sections
}

/// Of which there are more or fewer than before.
pub fn others(before: &Sections, after: &Sections) -> Vec<String> {
    let count = |of: &Sections, key: &Which| of.get(key).copied().unwrap_or(0);
    let differs = |key: &&Which| count(before, key) != count(after, key);
    let shown = |key: &Which| {
        let (owner, name, kind) = key;
        format!("{name:?} (kind {kind}) of {owner}: {}, not {}", count(after, key), count(before, key))
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    after.keys().chain(gone).filter(differs).map(shown).collect()
}

impl State {
    fn settled() -> Result<State, String> {
        // What this program is bound to, and this thread has a stack for, it has now: what has ended with its server is made anew by the
        // next call, and given back only then.
        names::list().map_err(doing("names"))?;
        files::find(b"/bin/check").map_err(doing("files"))?;
        processes::status(task::identity().task).map_err(doing("processes"))?;
        servers::list().map_err(doing("servers"))?;
        // By this the process server is bound to the loader, and that to the file server.
        role_of(&["status", "0"])
            .spawn()
            .map_err(|why| format!("a program: {why}"))?
            .wait()
            .map_err(doing("its end"))?;
        let _ = stream::errors().is_console();
        let memory = settled()?;
        let sections = sections_of_all();
        let posts = sections.iter().filter(|((.., of), _)| *of == kind::POST).map(|(_, count)| count).sum();
        Ok(State { memory, posts, sections })
    }

    /// What is there soon. On a busy host the last to end may take their time; what is lost does not come back.
    fn lost_nothing(&self, kills: u64) -> Outcome {
        let until = time::now_ns() + 5_000_000_000;
        loop {
            match self.compare(&State::settled()?, kills) {
                Err(_) if time::now_ns() < until => {}
                outcome => return outcome,
            }
        }
    }

    fn compare(&self, after: &State, kills: u64) -> Outcome {
        let stacks = |of: &State| {
            of.sections.iter().filter(|((.., of), _)| *of == kind::STACK).map(|(_, count)| *count as u64).sum::<u64>()
        };
        let counts = |of: &State| (of.memory.sections - stacks(of), of.memory.tasks, of.memory.threads, of.posts);
        let others = others(&self.sections, &after.sections);
        same!(
            counts(after),
            counts(self),
            "sections, tasks, threads, posts; of these there are others now: {others:?}"
        );
        // Which of a server's threads have called another one since that was started, and have a stack there, is chance.
        holds!(stacks(after) <= stacks(self) + AT_CHANCE, "{} stacks, not {}: {others:?}", stacks(after), stacks(self));
        // New programs lie at other addresses, and views that stay have a table more for those now and then, or for a while: not one for a
        // thousand, and in the beginning not for every fifth.
        let tables = (kills / 1000).max(kills.min(BEGINNING) / 5);
        no_more_lost(&self.memory, &after.memory, tables * PAGE)?;
        let heap = after.memory.kernel_heap_used.saturating_sub(self.memory.kernel_heap_used);
        holds!(heap < (2 * kills).max(4 * PAGE), "{heap} bytes of the kernel's heap were lost in {kills}");
        Ok(())
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).trim_end_matches('\0').into()
}

/// Ends each server so often while it is called by its gate and asked by its post.
fn rounds(count: u64, (ends, pace): How, named: &[String]) -> Outcome {
    let load = Arc::new(Load::begin(named, pace)?);
    let outcome = ends(&load, count, named).and_then(|()| named.iter().try_for_each(|name| load.serves(name)));
    let [done, again] = load.end()?;
    outcome?;
    // To a server that ends somebody is always under way.
    holds!(again > 0 || count < FEW, "{done} requests were done, and none was lost with its server and sent again");
    if count >= TOLD_EVERY {
        musubi::eprintln!("{done} requests were done, {again} were lost with their servers and sent again");
    }
    Ok(())
}

/// Whoever ends one server, in rounds of [`ROUND`]: by somebody's wish, which forgives what was; then again and again as if it had failed,
/// so that it comes back later each time; once with a fault in the middle of a request before, where it is passed memory that it works on.
struct Killer {
    name: String,
    /// When the round began.
    since: u64,
}

/// So the pauses are 0, 10, 20 and 40 ms, and there is an end to them.
const ROUND: u64 = 5;
const LAST_PAUSE_NS: u64 = 40_000_000;
/// A server that was there for so long was well, and comes back at once: not asked where that may have come to be.
const SOON_NS: u64 = 9_000_000_000;

impl Killer {
    fn of(name: &str) -> Killer {
        Killer { name: name.into(), since: time::now_ns() }
    }

    fn kill(&mut self, load: &Load, n: u64) -> Outcome {
        self.end(load, n).map_err(|why| format!("{}, time {n}: {why}", self.name))
    }

    fn end(&mut self, load: &Load, n: u64) -> Outcome {
        load.serves(&self.name)?;
        let (began, step) = (time::now_ns(), n % ROUND);
        match step {
            0 => {
                self.since = began;
                return have(&self.name, act::RESTART);
            }
            2 => fault_in(&self.name)?,
            _ => {}
        }
        have(&self.name, act::KILL)?;
        let now = time::now_ns();
        let was_well = now - self.since >= SOON_NS;
        holds!(
            step < ROUND - 1 || was_well || now - began >= LAST_PAUSE_NS,
            "it was there again {} ns after its end",
            now - began
        );
        Ok(())
    }
}

/// One after the other.
fn in_turn(load: &Arc<Load>, count: u64, named: &[String]) -> Outcome {
    let began = time::now_ns();
    let mut killers: Vec<_> = named.iter().map(|name| Killer::of(name)).collect();
    for n in 0..count {
        killers.iter_mut().try_for_each(|killer| killer.kill(load, n))?;
        tell(n, count, began, named.len() as u64);
    }
    Ok(())
}

/// Each by a thread of its own, so that any of them may be away at the same time.
fn together(load: &Arc<Load>, count: u64, named: &[String]) -> Outcome {
    static KILLS: AtomicU64 = AtomicU64::new(0);
    KILLS.store(0, Ordering::SeqCst);
    let (began, all) = (time::now_ns(), named.len() as u64);
    let failed = Arc::new(Mutex::new(Vec::<String>::new()));
    let killers: Result<Vec<_>, _> = named
        .iter()
        .map(|name| {
            let (mut killer, load, failed) = (Killer::of(name), load.clone(), failed.clone());
            let body = move || {
                for n in 0..count {
                    if !failed.lock().is_empty() {
                        return;
                    }
                    if let Err(why) = killer.kill(&load, n) {
                        return failed.lock().push(why);
                    }
                    let kills = KILLS.fetch_add(1, Ordering::SeqCst) + 1;
                    if kills.is_multiple_of(all) {
                        tell(kills / all, count, began, all);
                    }
                }
            };
            thread::spawn(body, 0)
        })
        .collect();
    for killer in killers.map_err(doing("thread"))? {
        killer.join().map_err(doing("join"))?;
    }
    let failed = core::mem::take(&mut *failed.lock());
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) }
}

fn tell(n: u64, count: u64, began: u64, servers: u64) {
    if n > 0 && n.is_multiple_of(TOLD_EVERY) {
        let each = (time::now_ns() - began) / (n * servers) / 1000;
        musubi::eprintln!("{n} of {count} times each, {each} us for one");
    }
}

/// Rounds in which perhaps nobody had asked in the very moment.
const FEW: u64 = 100;
/// After so many rounds a long run says how far it is.
const TOLD_EVERY: u64 = 200;

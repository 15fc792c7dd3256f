//! What is read in the info sections while threads, sections, posts, pagers, programs and schedulers come and go, and an interrupt goes to one
//! processor after the other: every record is whole, and no count ever less.

use super::{all, own};
use crate::irq::KEYBOARD;
use crate::report::{Outcome, doing};
use crate::sched::choose;
use crate::{holds, same};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::gate::DEPTH_MAX;
use musubi::abi::info::layout::{Promised, Section as Record, life};
use musubi::abi::info::way;
use musubi::abi::layout::{GRANULE, PAGE, SPACE_BASE, SPACE_END};
use musubi::abi::post;
use musubi::abi::section::kind;
use musubi::abi::task::state;
use musubi::command::Command;
use musubi::interfaces::devices::DevicesClient;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::info::Info;
use musubi::rt::pager::{self, answer};
use musubi::rt::post::Post;
use musubi::rt::{probe, section, task, thread, time};
use musubi::{Error, names};

/// Three threads make and delete while this one reads, and one has schedulers and an interrupt go from one to the next.
pub fn whole() -> Outcome {
    const READS: u64 = 1_000_000;
    let over = Arc::new(AtomicBool::new(false));
    let mut loads = Vec::new();
    for seed in 0..3 {
        let until = over.clone();
        loads.push(thread::spawn(move || load(&until, seed), 0).map_err(doing("a thread"))?);
    }
    let until = over.clone();
    loads.push(thread::spawn(move || thread::exit(moves(&until).is_err().into()), 0).map_err(doing("a thread"))?);
    // A post in which nothing happens meanwhile.
    let quiet = Post::any().map_err(doing("a post"))?;
    (0..QUIET).try_for_each(|op| quiet.send(op as u32, [0; 6], None)).map_err(doing("a message"))?;
    let seen = read_on(READS, quiet);
    over.store(true, Ordering::Relaxed);
    let mut codes = Vec::new();
    for load in loads {
        codes.push(load.join().map_err(doing("join"))?);
    }
    quiet.free(true).map_err(doing("freeing"))?;
    let seen = seen?;
    holds!(seen.named > 0 && seen.threads > 8, "{seen:?}: there was no load");
    holds!(seen.posts > 4 && seen.tasks > 8 && seen.asked > 0, "{seen:?}: nobody made posts, programs or pagers");
    same!(codes.last(), Some(&0), "a scheduler, or the way of an interrupt, was refused");
    holds!(seen.seats > 2 && seen.ways > 2, "{seen:?}: seats and interrupts stayed where they were");
    holds!(seen.promised > 4, "{seen:?}: what this user has of the pool never changed");
    Ok(())
}

/// Messages that lie in a post.
const QUIET: u64 = 3;

struct Validates;

impl Pager for Validates {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        Ok(answer::VALID)
    }
}

/// Of each section its name says how much is reserved.
fn load(over: &AtomicBool, seed: u64) {
    let pager = pager_serve(&Validates).map(|gates| gates.address());
    let mut last = None;
    let free = |post: Option<Post>| _ = post.map(|post| post.free(true));
    let mut n = seed;
    while !over.load(Ordering::Relaxed) {
        n += 1;
        let pages = n % 7 + 1;
        if let Ok(made) = section::Section::create(PAGE, pages * GRANULE, kind::DATA, 0) {
            let _ = section::name(made.base(), format!("torn {pages}").as_bytes());
            let _ = section::name(made.base(), format!("torn {pages} again").as_bytes());
            probe::write(made.base());
            if pager.is_ok_and(|pager| pager::set(made.base(), pager, 1, 0).is_ok())
                && section::invalidate(made.base(), PAGE).is_ok()
            {
                probe::write(made.base());
            }
            let _ = made.delete();
        }
        if let Ok(other) = thread::spawn(|| {}, 0) {
            let _ = other.join();
        }
        // It lives until there is another one, so that it is seen.
        if let Ok(post) = Post::any() {
            (0..n % 4).for_each(|op| _ = post.send(op as u32, [n; 6], None));
            free(last.replace(post));
        }
        // It ends at once: what it is to do there is not.
        if n.is_multiple_of(16)
            && let Ok(child) = Command::new(b"bin/check").args(["check", "as", "nothing"]).spawn()
        {
            let _ = child.wait();
        }
    }
    free(last);
}

/// Gives the seats to one scheduler after the other, and the keyboard's interrupt to one processor after the other.
fn moves(over: &AtomicBool) -> Outcome {
    const STEP_NS: u64 = 5_000_000;
    let devices = names::lookup("devices").and_then(|gate| DevicesClient::bind_with_args(gate, PAGE));
    let devices = devices.map_err(doing("devices"))?;
    let processors = task::processors().count() as u64;
    let mut moved = Ok(());
    for n in 0.. {
        if over.load(Ordering::Relaxed) || moved.is_err() {
            break;
        }
        moved = choose(if n % 2 == 0 { "ageing" } else { "none" });
        let to = if n % 3 == 0 { u64::MAX } else { n % processors };
        moved = moved.and(devices.route(KEYBOARD, to).map_err(doing("route")));
        time::sleep_ns(STEP_NS);
    }
    choose("none")?;
    devices.route(KEYBOARD, u64::MAX).map_err(doing("route"))?;
    moved
}

/// What was seen: names, threads, changes of what posts this task has, tasks, and sections of this task's with a pager that was asked; threads in
/// seats, processors that an interrupt was to come to, and what this user had of the pool.
#[derive(Debug, Default)]
struct Seen {
    named: u64,
    threads: usize,
    posts: u64,
    tasks: usize,
    asked: u64,
    seats: usize,
    ways: usize,
    promised: usize,
}

/// What never becomes less, of each of its kind.
struct Counts<const N: usize>(BTreeMap<u64, [u64; N]>);

impl<const N: usize> Counts<N> {
    fn rises(&mut self, of: u64, now: [u64; N], what: &str) -> Outcome {
        let before = self.0.insert(of, now).unwrap_or([0; N]);
        holds!(now.iter().zip(before).all(|(now, before)| *now >= before), "{what} {of}: {before:?}, then {now:?}");
        Ok(())
    }
}

impl<const N: usize> Default for Counts<N> {
    fn default() -> Counts<N> {
        Counts(BTreeMap::new())
    }
}

fn read_on(reads: u64, quiet: Post) -> Result<Seen, String> {
    let (all, own) = (all()?, own()?);
    let processors = all.processors().count() as u64;
    let me = task::identity().task;
    let mut times: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut tasks: BTreeMap<u64, u64> = BTreeMap::new();
    let mut before: BTreeSet<u64> = BTreeSet::new();
    let (mut done, mut seen) = (0, Seen::default());
    let mut of_machine = Machine::default();
    while done < reads {
        for one in all.threads() {
            done += 1;
            holds!(one.task != 0 && one.state & 0xff <= state::ENDED, "{one:?}");
            holds!(one.state >> 8 < processors, "thread {} on processor {}", one.number, one.state >> 8);
            let (task, time) = times.entry(one.number).or_insert((one.task, 0));
            holds!(*task == one.task && one.time >= *time, "thread {}: was {task}, {time}: {one:?}", one.number);
            *time = one.time;
        }
        for one in all.tasks() {
            done += 1;
            holds!(one.life <= life::ENDING && one.payer != one.number, "{one:?}");
            let time = tasks.entry(one.number).or_insert(0);
            holds!(one.time >= *time, "task {} had run for {time}: {one:?}", one.number);
            *time = one.time;
        }
        for one in own.sections() {
            done += 1;
            holds!(is_right(&one), "{one:?}");
            let name = musubi::ended::text(&one.name);
            if let Some(pages) = name.strip_prefix("torn ").filter(|_| one.owner == me) {
                seen.named += 1;
                seen.asked += u64::from(one.asked != 0);
                let pages = pages.trim_end_matches(" again");
                same!(pages, format!("{}", one.reserve / GRANULE).as_str(), "the name of {:#x}", one.base);
            }
        }
        let mut posts = BTreeSet::new();
        for one in own.posts() {
            done += 1;
            holds!(one.owner != 0, "{one:?}");
            same!(post::number(task::identity().node, one.base).map(u64::from), Some(one.number), "a post's number");
            if one.owner == me {
                posts.insert(one.number);
            }
        }
        // (Their numbers are had again.)
        seen.posts += u64::from(posts != before);
        before = posts;
        let depth = post::number(task::identity().node, quiet.0).map(|number| all.messages(number.into()));
        same!(depth, Some(QUIET), "messages in a post where nothing happens");
        done += 1 + of_machine.look(&all, &own)? + who_runs(&all, processors)?;
    }
    let Machine { sat, ways, had, .. } = of_machine;
    Ok(Seen {
        threads: times.len(),
        tasks: tasks.len(),
        seats: sat.len(),
        ways: ways.len(),
        promised: had.len(),
        ..seen
    })
}

/// What there is of the machine, and what is a user's alone.
#[derive(Default)]
struct Machine {
    processors: Counts<5>,
    interrupts: Counts<4>,
    seats: Counts<4>,
    keys: Counts<4>,
    /// Who sat in seats, where an interrupt was to come to, and what this user had of the pool.
    sat: BTreeSet<u64>,
    ways: BTreeSet<u64>,
    had: BTreeSet<[u64; 4]>,
}

impl Machine {
    /// How many records were read.
    fn look(&mut self, all: &Info, own: &Info) -> Result<u64, String> {
        let mut done = 0;
        for (index, one) in all.processors() {
            done += 1;
            holds!(one.online == 1 && one.idle <= 1, "{one:?}");
            let counts = [one.entries, one.switches, one.faults, one.interrupts, one.idle_ns];
            self.processors.rises(index as u64, counts, "processor")?;
        }
        for one in all.interrupts() {
            done += 1;
            holds!(one.number != 0 && one.idle + one.missed <= one.came + 1, "{one:?}");
            let is_pinned = one.pinned != u64::MAX;
            holds!(one.processor == one.pinned || !is_pinned, "{one:?}");
            holds!((one.text != 0) == (one.task != 0) && (one.way != way::POST || one.text != 0), "{one:?}");
            self.ways.insert(one.pinned);
            let counts = [one.came, one.idle, one.missed, one.longest_ns];
            self.interrupts.rises(one.number, counts, "interrupt")?;
        }
        for (at, one) in all.seats().enumerate() {
            done += 1;
            let seat = one.seat;
            holds!(seat.processor == at as u64 && (seat.thread != 0) == (seat.text != 0), "{seat:?}");
            holds!((seat.reason != 0) == (seat.when != 0) && seat.dismissed >= u64::from(seat.reason != 0), "{seat:?}");
            self.seats.rises(at as u64, [seat.asked, seat.named, seat.dismissed, seat.when], "seat")?;
            self.sat.insert(seat.thread);
        }
        for one in own.keys() {
            done += 1;
            holds!(one.task != 0 && one.evicted <= one.given, "{one:?}");
            self.keys.rises(one.task, [one.misses, one.given, one.evicted, one.looks], "keys of task")?;
        }
        for one in own.own_tasks() {
            done += 1;
            holds!(one.number != 0 && one.used.iter().zip(one.limits).all(|(used, limit)| *used <= limit), "{one:?}");
            holds!(core::str::from_utf8(&one.name).is_ok(), "{one:?}");
        }
        let promised = own.promised();
        done += 1;
        holds!(is_kept(&promised), "{promised:?}");
        self.had.insert(promised.pool_had);
        for one in own.own_threads() {
            done += 1;
            let is_text = |at: u64| at == 0 || (SPACE_BASE..SPACE_END).contains(&at);
            holds!(one.number != 0 && one.depth <= DEPTH_MAX as u64 && is_text(one.text), "{one:?}");
        }
        Ok(done)
    }
}

/// Who runs, and what follows from it of all threads. How many records were read.
fn who_runs(all: &Info, processors: u64) -> Result<u64, String> {
    let twice = || {
        let running: Vec<u64> = all.running().take(processors as usize).collect();
        let again = |at: usize| running[..at].contains(&running[at]);
        (0..running.len()).find(|at| running[*at] != 0 && again(*at)).map(|at| running[at])
    };
    // The words are read one after the other, and a thread may have gone from one processor to the next meanwhile: but it does not do so each time.
    const LOOKS: usize = 16;
    let suspect = twice();
    if suspect.is_some() {
        let always = (0..LOOKS).all(|_| twice() == suspect);
        holds!(!always, "thread {suspect:?} runs on two processors");
    }
    let threads = all.threads_now();
    let now = all.now();
    for one in &threads {
        holds!(one.thread != 0 && one.task != 0 && one.state <= state::ENDED && one.processor < processors, "{one:?}");
        holds!(one.time <= now, "after {now} ns: {one:?}");
        holds!(!one.settled || one.state == state::WAITING, "{one:?}");
    }
    holds!(threads.windows(2).all(|two| two[0].thread < two[1].thread), "a thread is there twice");
    let machine = all.machine();
    let frames = [machine.free, machine.reserve, machine.views];
    holds!(machine.total > 0 && frames.iter().all(|part| *part <= machine.total), "{machine:?}");
    holds!(machine.heap > 0 && machine.sections > 0 && machine.tasks > 0 && machine.threads > 0, "{machine:?}");
    let mut users = BTreeSet::new();
    for one in all.users() {
        holds!(one.section != 0 && one.section % GRANULE == 0 && users.insert(one.user), "{one:?}");
    }
    Ok(processors + threads.len() as u64 + 1 + users.len() as u64)
}

/// Nobody has more of the pool than he was promised, which is as long as there are programs of his.
fn is_kept(one: &Promised) -> bool {
    let is_promised = one.frames > 0 && one.heap > 0 && one.pool.iter().all(|most| *most > 0);
    is_promised && one.pool_had.iter().zip(one.pool).all(|(had, most)| *had <= most)
}

fn is_right(one: &Record) -> bool {
    let inside = |at: u64| (SPACE_BASE..SPACE_END).contains(&at);
    one.owner != 0
        && one.reserve % GRANULE == 0
        && one.base % GRANULE == 0
        && inside(one.base)
        && inside(one.base + one.reserve - 1)
        && one.len <= one.reserve
        && one.kind & 0xff <= kind::POST
}

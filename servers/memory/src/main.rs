#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod desk;
mod round;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use desk::Desk;
use musubi::abi::layout::PAGE;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::memory::{Memory, PART, memory_serve_by};
use musubi::ledger::Ledger;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::serve::{Shares, Ways, away};
use musubi::rt::{Condition, Mutex, section, task, thread};
use musubi::{Caller, Error, Start, servers};
use round::{Round, Said};

musubi::program!(run);

/// Pagers that may be registered.
const MOST: usize = 64;
/// Parts of all memory: below the first it is short, above the second there is enough. What the kernel keeps for the system is less.
const LOW_PART: u64 = 4;
const HIGH_PART: u64 = 3;
/// Operation of the kernel's messages.
const MARK: u32 = 1;
/// How long it is until all are asked again while memory is short.
const AGAIN_NS: u64 = 1_000_000_000;
/// The same if somebody has given something: others may use memory as fast as it comes.
const SOON_NS: u64 = 20_000_000;
/// One that says nothing so often in a row is asked in every thousandth round.
const LATE_MOST: u32 = 10;
/// Bytes that the ledger has of a pager.
const RECORD: usize = 24;
/// A wish is looked at for the last time after so long, in ns: everybody may have been late.
const WISH_NS: u64 = 60_000_000_000;

/// A program that can give pages back.
#[derive(Clone, Copy)]
struct Pager {
    task: u64,
    text: u64,
    post: Post,
    given: u64,
    /// It has answered what it was asked last.
    prompt: bool,
    /// How often in a row it has said nothing, and for how many rounds it is not asked therefore.
    late: u32,
    skip: u32,
}

#[derive(Default)]
struct State {
    pagers: Vec<Pager>,
    /// Pages that somebody waits for.
    wish: u64,
    /// The kernel has said something.
    news: bool,
    /// Rounds that are over.
    rounds: u64,
    given: u64,
}

struct Service {
    state: Mutex<State>,
    over: Condition,
    asked: Condition,
    total: u64,
    low: u64,
    high: u64,
    first: AtomicU64,
    /// Who is registered, for the next server; none if nobody restarts this one.
    ledger: Option<Ledger>,
}

fn run(_: &Start) -> i32 {
    match begin() {
        Ok(()) => thread::park(),
        Err(error) => error.word() as i32,
    }
}

fn begin() -> Result<(), Error> {
    let total = task::memory()?.total;
    let service: &'static Service = Box::leak(Box::new(Service {
        state: Mutex::new(State::default()),
        over: Condition::new(),
        asked: Condition::new(),
        total,
        low: total / LOW_PART,
        high: total / HIGH_PART,
        first: AtomicU64::new(0),
        ledger: Ledger::of_this_server().ok(),
    }));
    // What it needs in bad times it has beforehand.
    service.state.lock().pagers.reserve_exact(MOST);
    service.remember()?;
    let marks = Post::any()?;
    task::memory_to(marks, MARK, service.low, service.high)?;
    thread::spawn(move || service.hear(marks), 0)?;
    thread::spawn(move || service.keep(), 0)?;
    let gates = memory_serve_by(service, Ways::default().post(servers::post()?))?;
    musubi::names::publish("memory", &gates)
}

fn free() -> u64 {
    task::memory().map_or(0, |memory| memory.free)
}

impl Pager {
    fn new(task: u64, text: u64, post: Post) -> Pager {
        Pager { task, text, post, given: 0, prompt: false, late: 0, skip: 0 }
    }

    /// By which it is in the ledger, and what is there of it.
    fn key(&self) -> String {
        format!("{}", self.task)
    }

    fn record(&self) -> [u8; RECORD] {
        let mut record = [0; RECORD];
        let words = [self.task, self.text, self.post.0];
        record.chunks_exact_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
        record
    }

    /// What is there of one that is still there: tasks and posts have their numbers for ever.
    fn of(record: &[u8]) -> Option<Pager> {
        let mut words = record.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let (task, text, post) = (words.next()?, words.next()?, words.next()?);
        let is_there = section::info(post).is_ok_and(|post| post.owner == task);
        (is_there && record.len() == RECORD).then(|| Pager::new(task, text, Post(post)))
    }
}

/// Whether there is one more place, of so many, beside what these tasks have: no user's programs have more of them than they leave to others.
fn has_room(tasks: impl Iterator<Item = u64>, task: u64, most: usize) -> bool {
    let user = |task| task::info(task).map_or(USER_SYSTEM, |info| info.user);
    let mut shares = Shares::new(1, most);
    tasks.for_each(|task| _ = shares.take(task, user(task)));
    shares.take(task, user(task))
}

impl Service {
    /// Those that the server before this one knew.
    fn remember(&self) -> Result<(), Error> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let (mut gone, state) = (Vec::new(), &mut *self.state.lock());
        ledger.each(|key, record| {
            match Pager::of(record) {
                Some(pager) if state.pagers.len() < MOST => state.pagers.push(pager),
                _ => gone.push(String::from(key)),
            }
            Ok(())
        })?;
        gone.iter().try_for_each(|key| ledger.forget(key))
    }

    fn forget_the_dead(&self, state: &mut State) {
        state.pagers.retain(|pager| {
            let is_there = task::info(pager.task).is_some();
            // On the thread of whoever asks, who may not be able to call on from here: it is forgotten when somebody can, or it would be kept for ever.
            is_there || self.ledger.as_ref().is_some_and(|ledger| ledger.forget(&pager.key()).is_err())
        });
    }

    /// For ever: tells the keeper what the kernel says.
    fn hear(&self, marks: Post) -> ! {
        loop {
            match marks.receive(FOR_EVER) {
                // A look too many does no harm.
                Ok(_) | Err(Error::TimedOut) => {}
                Err(error) => panic!("no word of memory: {error}"),
            }
            self.state.lock().news = true;
            self.asked.notify_all();
        }
    }

    /// For ever: sees to it when memory is short, or somebody wants some.
    fn keep(&self) -> ! {
        let mut desk = Desk::new().unwrap_or_else(|error| panic!("no post for answers: {error}"));
        let (mut short, mut has_come) = (false, false);
        loop {
            let told = {
                let mut state = self.state.lock();
                // As long as it is short, those are asked again that had nothing, were late or have come since: the kernel says nothing more.
                let again = if has_come { SOON_NS } else { AGAIN_NS };
                let patience = if short { again } else { u64::MAX };
                while !state.news && state.wish == 0 {
                    if self.asked.wait(&mut state, patience) == Err(Error::TimedOut) {
                        break;
                    }
                }
                core::mem::take(&mut state.news)
            };
            short = quota::is_short(short, told, free(), [self.low, self.high]);
            has_come = self.round(&mut desk, if short { self.high } else { 0 });
        }
    }

    /// How many pages are wanting: to have `target` bytes free, and what was wished.
    fn wanting(&self, target: u64) -> u64 {
        let wish = self.state.lock().wish * PAGE;
        let target = if wish > 0 { target.max(self.low.saturating_add(wish)) } else { target };
        target.saturating_sub(free()).div_ceil(PAGE)
    }

    /// Whether anybody says that he has given something.
    fn round(&self, desk: &mut Desk, target: u64) -> bool {
        desk.look(|task, given| self.has_given(&mut self.state.lock(), task, given));
        let pagers: Vec<Pager> = {
            let state = &mut *self.state.lock();
            self.forget_the_dead(state);
            let asked = |pager: &&Pager| pager.skip == 0;
            let pagers = state.pagers.iter().filter(asked).copied().collect();
            state.pagers.iter_mut().for_each(|pager| pager.skip = pager.skip.saturating_sub(1));
            pagers
        };
        let first = self.first.fetch_add(1, Ordering::Relaxed) as usize % pagers.len().max(1);
        let (mut round, mut has_come) = (Round::new(pagers.len(), first, PART), false);
        while let Some((who, pages)) = round.ask(self.wanting(target)) {
            let said = desk.ask(&pagers[who], pages);
            has_come |= matches!(said, Said::Gave(1..));
            self.note(pagers[who].task, said);
            round.said(said);
        }
        let state = &mut *self.state.lock();
        state.wish = 0;
        state.rounds += 1;
        self.over.notify_all();
        has_come
    }

    /// (It may have ended since.)
    fn has_given(&self, state: &mut State, task: u64, given: u64) {
        state.given += given;
        state.pagers.iter_mut().filter(|one| one.task == task).for_each(|one| one.given += given);
    }

    fn note(&self, task: u64, said: Said) {
        let state = &mut *self.state.lock();
        let Some(pager) = state.pagers.iter_mut().find(|one| one.task == task) else { return };
        match said {
            Said::Gave(given) => {
                (pager.prompt, pager.late) = (true, 0);
                self.has_given(state, task, given);
            }
            Said::Nothing => {
                (pager.prompt, pager.late) = (false, (pager.late + 1).min(LATE_MOST));
                pager.skip = 1 << pager.late;
            }
            Said::Unasked => {}
        }
    }
}

impl Memory for Service {
    fn register(&self, caller: &Caller, post: u64) -> Result<(), Error> {
        let owner = section::info(post)?;
        let text = section::info(caller.text)?;
        if owner.owner != text.owner || text.owner == musubi::start().task() {
            return Err(Error::Denied);
        }
        let state = &mut *self.state.lock();
        let is_full = |pagers: &[Pager]| {
            pagers.len() >= MOST || !has_room(pagers.iter().map(|pager| pager.task), text.owner, MOST)
        };
        // One for each program. Who was late is, wherever it is asked from now on.
        let known = state.pagers.iter().position(|pager| pager.task == text.owner);
        if known.is_none() && is_full(&state.pagers) {
            self.forget_the_dead(state);
            if is_full(&state.pagers) {
                return Err(Error::Busy);
            }
        }
        let pager = Pager::new(text.owner, text.original, Post(post));
        self.ledger.as_ref().map_or(Ok(()), |ledger| ledger.keep(&pager.key(), &pager.record()))?;
        match known.map(|at| &mut state.pagers[at]) {
            Some(known) => (known.text, known.post) = (pager.text, pager.post),
            None => state.pagers.push(pager),
        }
        Ok(())
    }

    fn want(&self, caller: &Caller, pages: u64) -> Result<u64, Error> {
        let bytes = pages.checked_mul(PAGE).ok_or(Error::TooBig)?.min(self.total);
        // More than all of it is not worth a wish.
        let pages = bytes / PAGE;
        let there = || free().saturating_sub(self.low).min(bytes) / PAGE;
        if there() >= pages {
            return Ok(pages);
        }
        let away = away(caller)?;
        let mut state = self.state.lock();
        // The round that begins now has heard of it; one that is under way may have not.
        let until = state.rounds + 2;
        while state.rounds < until && there() < pages {
            state.wish = state.wish.max(pages);
            self.asked.notify_all();
            match self.over.wait(&mut state, away.patience_ns().min(WISH_NS)) {
                Err(Error::TimedOut) => away.goes_on()?,
                waited => waited?,
            }
        }
        Ok(there())
    }

    fn state(&self) -> (u64, u64) {
        (self.high, self.state.lock().given)
    }

    fn pager(&self, index: u64) -> (u64, u64) {
        let state = self.state.lock();
        let pager = usize::try_from(index).ok().and_then(|at| state.pagers.get(at));
        pager.map_or((0, 0), |pager| (pager.task, pager.given))
    }
}

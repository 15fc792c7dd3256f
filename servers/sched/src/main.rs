#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod levels;
mod log;
mod terms;

use ::board::Terms;
use alloc::string::String;
use alloc::vec::Vec;
use levels::{Levels, board_at};
use log::Log;
use musubi::abi::section::{flag, kind};
use musubi::interfaces::sched::{Sched, sched_serve_by};
use musubi::ledger::Ledger;
use musubi::rt::serve::{Ways, away};
use musubi::rt::{Condition, Mutex, Once, Section, fault, gate::ANYBODY, sched, thread, time};
use musubi::{Caller, Error, Start, servers};
use terms::{Carrier, Left};

musubi::program!(run);

/// Longest name of a scheduler.
const NAME_MAX: usize = 64;
/// The key in the ledger.
const CHOSEN: &str = "chosen";
/// How long it may take until all seats are taken.
const PATIENCE_NS: u64 = 10_000_000_000;
/// How often who has chosen one looks whether they are.
const STEP_NS: u64 = 1_000_000;
/// How often it looks at the levels, while there are any.
const LOOK_NS: u64 = 20_000_000;
/// How long it waits before it starts one again that has failed, or whose start has; twice as long each time, until another one is wished for.
const PAUSE_NS: u64 = 50_000_000;
const PAUSE_MAX_NS: u64 = 3_000_000_000;

struct State {
    /// What was asked for; empty: none.
    wish: String,
    levels: Option<Levels>,
    /// Bases of the board, and of the high level's own.
    board: u64,
    private: u64,
    /// Why the last start has failed.
    failed: Option<Error>,
    log: Log,
    /// How the last one failed, and its queues as they were then.
    failure: Vec<String>,
    left: Left,
}

struct Service {
    state: Mutex<State>,
    changed: Condition,
    /// One proposal at a time.
    proposing: Mutex<()>,
    carrier: Carrier,
    /// What was chosen last, for the next server.
    ledger: Once<Ledger>,
    /// Had by who writes that down.
    keeping: Mutex<()>,
}

static SERVICE: Service = Service {
    state: Mutex::new(State {
        wish: String::new(),
        levels: None,
        board: 0,
        private: 0,
        failed: None,
        log: Log::new(),
        failure: Vec::new(),
        left: Left::nothing(),
    }),
    changed: Condition::new(),
    proposing: Mutex::new(()),
    carrier: Carrier::new(),
    ledger: Once::new(),
    keeping: Mutex::new(()),
};

fn run(_: &Start) -> i32 {
    let begun = board_named(b"sched board").and_then(|board| {
        let private = board_named(::board::PRIVATE.as_bytes())?;
        {
            let mut state = SERVICE.state.lock();
            (state.board, state.private, state.wish) = (board, private, chosen()?);
        }
        thread::spawn(|| SERVICE.carrier.serve(), 0)?;
        thread::spawn(|| SERVICE.renew(), 0)?;
        let gates = sched_serve_by(&SERVICE, Ways::default().post(servers::post()?))?;
        gates.admit(&ANYBODY)?;
        musubi::names::publish("sched", &gates)
    });
    match begun {
        Ok(()) => SERVICE.watch(),
        Err(e) => e.word() as i32,
    }
}

fn board_named(name: &[u8]) -> Result<u64, Error> {
    let board = Section::create(board::LEN, 0, kind::DATA, flag::ANY_PRINCIPAL)?;
    let _ = musubi::rt::section::name(board.base(), name);
    Ok(board.base())
}

/// What was chosen when the server before this one ended: its levels have ended with it.
fn chosen() -> Result<String, Error> {
    let mut found = String::new();
    SERVICE.ledger.get_or_try(Ledger::of_this_server)?.each(|key, name| {
        if key == CHOSEN {
            found = String::from_utf8_lossy(name).into_owned();
        }
        Ok(())
    })?;
    Ok(found)
}

impl Service {
    /// Has the next server know what was chosen.
    fn keep(&self, name: &str) -> Result<(), Error> {
        self.ledger.get().ok_or(Error::NotFound)?.keep(CHOSEN, name.as_bytes())
    }

    /// Starts what was asked for, and starts it again when it has ended.
    fn watch(&self) -> ! {
        let (mut pause, mut last) = (PAUSE_NS, String::new());
        let mut state = self.state.lock();
        loop {
            let timeout = if state.levels.is_some() { LOOK_NS } else { u64::MAX };
            let wanted = !state.wish.is_empty() && state.failed.is_none();
            if state.levels.is_some() || !wanted {
                let _ = self.changed.wait(&mut state, timeout);
            }
            let State { wish, levels, board, private, failed, log, failure, left } = &mut *state;
            if let Some(running) = levels.take_if(|levels| levels.name != *wish) {
                running.stop();
                log.add(alloc::format!(
                    "{} was put out: {}",
                    running.name,
                    if wish.is_empty() { "none" } else { wish.as_str() }
                ));
            }
            let mut rest = 0;
            let how = levels.as_ref().and_then(Levels::ended);
            if let Some(how) = how
                && let Some(running) = levels.take()
            {
                *failure = core::iter::once(alloc::format!("{}: {how}", running.name))
                    .chain(
                        levels::given_up(*board)
                            .chain(levels::losses())
                            .chain([*board, *private].into_iter().flat_map(levels::queues))
                            .map(|line| alloc::format!("  {line}")),
                    )
                    .collect();
                failure.iter().for_each(|line| log.add(line.clone()));
                running.stop();
                board_at(*board).into_iter().for_each(|board| left.gather(board));
                rest = pause;
                pause = (pause * 2).min(PAUSE_MAX_NS);
            }
            if last != *wish {
                last = wish.clone();
                pause = PAUSE_NS;
                // It was agreed on with another policy.
                *left = Left::nothing();
            }
            if levels.is_none() && !wish.is_empty() && failed.is_none() && rest == 0 {
                match Levels::start(wish, [*board, *private]) {
                    Ok(started) => *levels = Some(started),
                    // Whoever was to start it has ended in the middle: the next one may.
                    Err((Error::Dead, why)) => {
                        log.add(why);
                        rest = pause;
                        pause = (pause * 2).min(PAUSE_MAX_NS);
                    }
                    Err((error, why)) => {
                        log.add(why);
                        *failed = Some(error);
                    }
                }
            }
            self.changed.notify_all();
            if rest > 0 {
                // Whoever wishes for another one does not wait for that.
                let until = time::now_ns() + rest;
                while state.wish == last && time::now_ns() < until {
                    let left = until.saturating_sub(time::now_ns());
                    let _ = self.changed.wait(&mut state, left);
                }
            }
        }
    }
}

impl Sched for Service {
    fn choose(&self, caller: &Caller, name: &str) -> Result<(), Error> {
        if name.len() > NAME_MAX {
            return Err(Error::TooBig);
        }
        // Levels find this program by its name.
        if musubi::start().names() == 0 && name != "none" {
            return Err(Error::NoServer);
        }
        let name = if name == "none" { String::new() } else { String::from(name) };
        if name.contains('/') || name.contains('\0') {
            return Err(Error::BadArgument);
        }
        // Copied before the lock.
        let wish = name.clone();
        {
            let mut state = self.state.lock();
            state.failed = None;
            state.wish = wish;
        }
        self.changed.notify_all();
        let away = away(caller)?;
        let until = time::now_ns() + PATIENCE_NS;
        while time::now_ns() < until {
            // Who is killed is not to be ended with the lock in hand.
            away.goes_on()?;
            let (done, failed) = {
                let state = self.state.lock();
                let done = match &state.levels {
                    Some(levels) => levels.name == name && levels.decide(),
                    None => name.is_empty() && sched::seats().all(|seat| seat.thread == 0),
                };
                (done, state.failed.or((state.wish != name).then_some(Error::Changed)))
            };
            if let Some(error) = failed {
                return Err(error);
            }
            if done {
                let _one_at_a_time = self.keeping.lock();
                // Somebody may have chosen another one meanwhile, and that one is kept.
                return if self.state.lock().wish == name { self.keep(&name) } else { Err(Error::Changed) };
            }
            match self.changed.wait(&mut self.state.lock(), STEP_NS) {
                Err(Error::TimedOut) => {}
                woken => woken?,
            }
        }
        Err(Error::TimedOut)
    }

    fn line(&self, log: u64, index: u64, line: &mut [u8]) -> Result<u64, Error> {
        let found: Option<String> = {
            let state = self.state.lock();
            match log {
                0 => {
                    let mut lines: Vec<String> = levels::state(state.levels.as_ref(), state.board, state.private);
                    lines.extend(state.failure.iter().map(|line| alloc::format!("last failure: {line}")));
                    lines.get(index as usize).cloned()
                }
                1 => state.log.line(index as usize),
                2 => levels::trace(state.board).nth(index as usize),
                3 => levels::calls(state.board).nth(index as usize),
                _ => return Err(Error::BadArgument),
            }
        };
        let found = found.ok_or(Error::NotFound)?;
        let len = found.len().min(line.len());
        fault::copy_out(line, found.as_bytes())?;
        Ok(len as u64)
    }

    fn share(&self, caller: &Caller, thread: u64, weight: u64) -> Result<(), Error> {
        self.propose(caller, thread, Terms::Share { weight })
    }

    fn periodic(&self, caller: &Caller, thread: u64, period: u64, deadline: u64, budget: u64) -> Result<(), Error> {
        self.propose(caller, thread, Terms::Periodic { period, deadline, budget })
    }

    fn join(&self, caller: &Caller, thread: u64, job: u64) -> Result<(), Error> {
        self.propose(caller, thread, Terms::Job { job: terms::job_of(caller, job) })
    }

    fn processors(&self, caller: &Caller, job: u64) -> Result<u64, Error> {
        let base = self.state.lock().board;
        terms::processors(base, terms::job_of(caller, job))
    }

    fn board(&self, caller: &Caller) -> Result<u64, Error> {
        let state = self.state.lock();
        let _ = state.levels.as_ref().filter(|levels| levels.has(caller.task)).ok_or(Error::Denied)?;
        levels::admit(state.board, caller)
    }

    fn private(&self, caller: &Caller) -> Result<u64, Error> {
        let state = self.state.lock();
        let _ = state.levels.as_ref().filter(|levels| levels.is_high(caller.task)).ok_or(Error::Denied)?;
        levels::admit(state.private, caller)
    }
}

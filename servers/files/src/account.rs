//! Who pays for files: tasks that never run. Each person has one, made by a thread of this program's own, so that it is not a child of
//! whoever happened to ask, and lives as long as this program.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::Error;
use musubi::abi::task::{Limits, USER_SYSTEM};
use musubi::rt::{Condition, Mutex, task};

/// How long a caller waits until there is an account.
const PATIENCE_NS: u64 = 10_000_000_000;

struct State {
    known: BTreeMap<u64, u64>,
    wanted: Vec<u64>,
    /// How often what was wanted was made, and whose account could not be when that was done last. Who wants one later may have it.
    rounds: u64,
    refused: Vec<(u64, Error)>,
}

impl State {
    const fn new() -> State {
        State { known: BTreeMap::new(), wanted: Vec::new(), rounds: 0, refused: Vec::new() }
    }

    /// What has come of a wish of that round, if anything yet.
    fn outcome(&self, user: u64, wished_in: u64) -> Option<Result<u64, Error>> {
        let refused = || self.refused.iter().find(|one| one.0 == user && wished_in < self.rounds);
        self.known.get(&user).map(|known| Ok(*known)).or_else(|| refused().map(|one| Err(one.1)))
    }

    /// Whether it is a new wish.
    fn want(&mut self, user: u64) -> bool {
        let is_new = !self.wanted.contains(&user);
        if is_new {
            self.wanted.push(user);
        }
        is_new
    }

    fn make(&mut self, create: impl Fn(u64) -> Result<u64, Error>) {
        if self.wanted.is_empty() {
            return;
        }
        self.refused.clear();
        self.rounds += 1;
        for user in core::mem::take(&mut self.wanted) {
            match create(user) {
                Ok(account) => drop(self.known.insert(user, account)),
                Err(error) => self.refused.push((user, error)),
            }
        }
    }
}

pub struct Accounts {
    state: Mutex<State>,
    /// An account is there.
    made: Condition,
    /// Somebody wants one, or there is something else to do.
    asked: Condition,
    /// The thread that makes them sleeps until somebody wants something.
    asleep: AtomicBool,
}

impl Accounts {
    pub const fn new() -> Accounts {
        Accounts {
            state: Mutex::new(State::new()),
            made: Condition::new(),
            asked: Condition::new(),
            asleep: AtomicBool::new(false),
        }
    }

    /// The task that pays for a person's files; 0 for the system's own: this program.
    pub fn of(&self, user: u64) -> Result<u64, Error> {
        if user == USER_SYSTEM {
            return Ok(0);
        }
        let mut state = self.state.lock();
        let wished_in = state.rounds;
        loop {
            if let Some(outcome) = state.outcome(user, wished_in) {
                return outcome;
            }
            if state.want(user) {
                self.asked.notify_one();
            }
            self.made.wait(&mut state, PATIENCE_NS)?;
        }
    }

    /// Has the thread look around that makes accounts.
    pub fn stir(&self) {
        if self.asleep.swap(false, Ordering::SeqCst) {
            // Between its last look and its sleep it holds this.
            drop(self.state.lock());
            self.asked.notify_one();
        }
    }

    /// Makes what is wanted, and waits: for ever, or as long as `patience` says, which looks at what others have done before they
    /// called [`Accounts::stir`]. On a thread of this program's own.
    pub fn serve(&self, patience: impl Fn() -> Option<u64>) {
        let mut state = self.state.lock();
        if state.wanted.is_empty() {
            self.asleep.store(true, Ordering::SeqCst);
            let timeout_ns = patience().inspect(|_| self.asleep.store(false, Ordering::SeqCst));
            let _ = self.asked.wait(&mut state, timeout_ns.unwrap_or(u64::MAX));
            self.asleep.store(false, Ordering::SeqCst);
        }
        state.make(|user| {
            // As much as this program itself may have. It is the system's, so that nobody ends it.
            let limits = Limits { threads: 1, ..Limits::default() };
            task::create(&limits, USER_SYSTEM, format!("files of user {user}").as_bytes())
        });
        self.made.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_for_those_who_wait() {
        let mut state = State::new();
        let began = state.rounds;
        assert_eq!((state.want(7), state.want(7), state.outcome(7, began)), (true, false, None));
        state.make(|_| Err(Error::NoMemory));
        assert_eq!(state.outcome(7, began), Some(Err(Error::NoMemory)), "who has waited");
        let later = state.rounds;
        assert_eq!(state.outcome(7, later), None, "who comes later");
        // While nothing is wanted, who was refused can still be told.
        state.make(|_| Err(Error::Busy));
        assert_eq!(state.outcome(7, began), Some(Err(Error::NoMemory)));
        assert!(state.want(7) && state.want(8));
        state.make(|user| if user == 7 { Ok(70) } else { Err(Error::Quota) });
        assert_eq!([7, 8].map(|user| state.outcome(user, later)), [Some(Ok(70)), Some(Err(Error::Quota))]);
        assert_eq!(state.outcome(7, state.rounds), Some(Ok(70)), "what is there stays");
    }
}

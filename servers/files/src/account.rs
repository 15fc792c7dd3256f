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
    known: BTreeMap<u64, Result<u64, Error>>,
    wanted: Vec<u64>,
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
        let state = State { known: BTreeMap::new(), wanted: Vec::new() };
        Accounts {
            state: Mutex::new(state),
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
        loop {
            if let Some(known) = state.known.get(&user) {
                return *known;
            }
            if !state.wanted.contains(&user) {
                state.wanted.push(user);
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
        while let Some(user) = state.wanted.pop() {
            // As much as this program itself may have. It is the system's, so that nobody ends it.
            let limits = Limits { threads: 1, ..Limits::default() };
            let account = task::create(&limits, USER_SYSTEM, format!("files of user {user}").as_bytes());
            state.known.insert(user, account);
        }
        self.made.notify_all();
    }
}

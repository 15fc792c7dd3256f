//! Who pays for files: tasks that never run. Each person has one, made by a thread of this program's own, so that it is not a child of
//! whoever happened to ask, and lives as long as this program.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use musubi::Error;
use musubi::abi::task::{Limits, USER_SYSTEM};
use musubi::rt::sync::Place;
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

/// A person's account, for everybody to look at without a lock: once it is there it stays.
struct Known {
    user: u64,
    account: u64,
    next: Option<&'static Known>,
}

/// Lists of them, by the last bits of the person's number.
struct Book([Place<Known>; LISTS]);

const LISTS: usize = 16;

impl Book {
    const fn new() -> Book {
        Book([const { Place::new() }; LISTS])
    }

    fn get(&self, user: u64) -> Option<u64> {
        let mut list = self.0[user as usize % LISTS].get();
        while let Some(known) = list {
            if known.user == user {
                return Some(known.account);
            }
            list = known.next;
        }
        None
    }

    /// By one at a time.
    fn add(&self, user: u64, account: u64) {
        let list = &self.0[user as usize % LISTS];
        list.set(Some(Box::leak(Box::new(Known { user, account, next: list.get() }))));
    }
}

pub struct Accounts {
    book: Book,
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
            book: Book::new(),
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
        if let Some(account) = self.book.get(user) {
            return Ok(account);
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
        // What was done is there before this is looked at: who goes to sleep says so first, and looks then.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
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
            let account = task::create(&limits, USER_SYSTEM, format!("files of user {user}").as_bytes())?;
            self.book.add(user, account);
            Ok(account)
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

    #[test]
    fn what_is_in_the_book_stays_there() {
        let book = Book::new();
        let users = [7, 7 + LISTS as u64, 8];
        users.iter().for_each(|user| book.add(*user, 10 * user));
        assert_eq!(users.map(|user| book.get(user)), users.map(|user| Some(10 * user)));
        assert_eq!([9, 7 + 2 * LISTS as u64].map(|user| book.get(user)), [None; 2]);
    }
}

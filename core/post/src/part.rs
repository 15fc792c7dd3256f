//! What persons' programs may have of everything: never all of it, so that a server or a driver can begin anew whatever they do (K1-41),
//! and each user no more than he was promised, so that others find theirs whatever he does (K1-U12).

use crate::sync::{AtomicU32, AtomicU64, Ordering, Turns, owned};
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::boxed::Box;

/// How much of each is not for persons' programs, whatever they do (K1-41).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserve {
    pub posts: u32,
    pub messages: u32,
    pub receivers: u32,
    pub accounts: u32,
}

/// For whom something is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// May have all that there is.
    System,
    /// This user's programs, which may have what he was promised ([`crate::Pool::open_user`]).
    User(u32),
}

impl Whose {
    /// As it is kept in a word.
    pub(crate) fn word(self) -> u32 {
        match self {
            Whose::System => 0,
            Whose::User(number) => number,
        }
    }

    pub(crate) fn of(word: u32) -> Whose {
        if word == 0 { Whose::System } else { Whose::User(word) }
    }
}

/// What a user is promised something of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Posts,
    Messages,
    Receivers,
    Accounts,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Posts, Kind::Messages, Kind::Receivers, Kind::Accounts];

/// Users that have something at the same time.
pub(crate) const USERS_MAX: u32 = if cfg!(test) { 4 } else { 16 };
/// A user is promised this part of what nobody was before him, and at least so many, as long as there are.
pub(crate) const PARTS: (u32, u32) = (4, 8);
const THESE: (u32, u32) = if cfg!(test) { (2, 1) } else { PARTS };

/// What the next user is promised where so much is left.
pub(crate) fn next_part(left: u32) -> u32 {
    part_of(left, THESE)
}

pub(crate) fn part_of(left: u32, (part, least): (u32, u32)) -> u32 {
    (left / part).max(least).min(left)
}

/// What a program that another one has started may have, together with those that it starts, of what that one may have.
pub(crate) fn for_started(whole: u32) -> u32 {
    (whole * 3 / 4).max(1).min(whole)
}

/// What a program may have by itself of what it may have with those that it starts.
pub(crate) fn for_itself(whole: u32) -> u32 {
    (whole / 2).max(1).min(whole)
}

/// What a user has of something, and may have at most.
#[derive(Debug, Default)]
struct Part {
    had: AtomicU32,
    most: owned::AtomicU32,
}

/// One of those who have something.
#[derive(Debug, Default)]
struct User {
    /// [`USER_SYSTEM`]: nobody; that one needs no place.
    who: AtomicU64,
    /// His tasks that use the pool, and what they have of it, but for messages, each of which is an account's. At 0 he has nothing.
    uses: AtomicU32,
    parts: [Part; KINDS.len()],
}

/// What was promised to whom.
#[derive(Debug)]
pub(crate) struct Users {
    /// (The first one is nobody's: 0 is the system.)
    all: Box<[User]>,
    /// Of what persons' programs may have, that which nobody was promised.
    left: [AtomicU32; KINDS.len()],
    /// The same of all messages, the system's included: these are promised to its tasks, too.
    messages: AtomicU32,
    /// Held by who makes a user, so that there is no second one of the same.
    making: AtomicU32,
    turns: Turns,
}

impl Users {
    /// Persons' programs may have so much of each, and there are so many messages in all.
    pub fn new(parts: [u32; KINDS.len()], messages: u32) -> Users {
        Users {
            all: (0..=USERS_MAX).map(|_| User::default()).collect(),
            left: parts.map(AtomicU32::new),
            messages: AtomicU32::new(messages),
            making: AtomicU32::new(0),
            turns: Turns::default(),
        }
    }

    fn at(&self, number: u32) -> &User {
        &self.all[number as usize]
    }

    /// A task of this user's begins to use the pool. The first one is promised the user's part of everything.
    ///
    /// # Errors
    /// `NoMemory`: as many users as there may be have something.
    pub fn open(&self, who: u64) -> Result<u32, Error> {
        let turn = self.turns.take();
        while self.making.swap(1, Ordering::Acquire) != 0 {
            self.turns.wait();
        }
        let found = self.find(who);
        self.making.store(0, Ordering::Release);
        drop(turn);
        found
    }

    fn find(&self, who: u64) -> Result<u32, Error> {
        let mut free = None;
        for number in 1..=USERS_MAX {
            let user = self.at(number);
            match user.who.load(Ordering::Acquire) {
                // Whose last use is just over has nothing any more: he is another one with the next.
                is if is == who && add(&user.uses, 1, u32::MAX - 1, 1) => return Ok(number),
                USER_SYSTEM => free = free.or(Some(number)),
                _ => {}
            }
        }
        let number = free.ok_or(Error::NoMemory)?;
        let user = self.at(number);
        for kind in KINDS {
            let left = &self.left[kind as usize];
            // Others only give back meanwhile, but for messages, which the system's tasks are promised, too.
            let mut part = next_part(left.load(Ordering::Acquire));
            if kind == Kind::Messages {
                part = take_up_to(&self.messages, part);
            }
            left.fetch_sub(part, Ordering::AcqRel);
            user.parts[kind as usize].most.store(part, Ordering::Relaxed);
        }
        user.uses.store(1, Ordering::Relaxed);
        user.who.store(who, Ordering::Release);
        Ok(number)
    }

    /// One use less. With the last one what he was promised is others'.
    pub fn close(&self, number: u32) {
        let user = self.at(number);
        if user.uses.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Nobody finds him any more, and nobody has the place before it is said to be free.
        let parts = KINDS.map(|kind| user.parts[kind as usize].most.load(Ordering::Relaxed));
        for kind in KINDS {
            self.left[kind as usize].fetch_add(parts[kind as usize], Ordering::AcqRel);
        }
        self.messages.fetch_add(parts[Kind::Messages as usize], Ordering::AcqRel);
        // From here on the place is another one's.
        user.who.store(USER_SYSTEM, Ordering::Release);
    }

    /// So many messages are a task's of the system.
    ///
    /// # Errors
    /// `MessageQuota`: so many were promised to others.
    pub fn promise(&self, messages: u32) -> Result<(), Error> {
        let less = |left: u32| left.checked_sub(messages);
        let taken = self.messages.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
        taken.map(drop).map_err(|_| Error::MessageQuota)
    }

    /// They are not any more.
    pub fn take_back(&self, messages: u32) {
        if messages > 0 {
            self.messages.fetch_add(messages, Ordering::AcqRel);
        }
    }

    /// What a user may have.
    pub fn most(&self, number: u32, kind: Kind) -> u32 {
        self.at(number).parts[kind as usize].most.load(Ordering::Relaxed)
    }

    /// One more. Who asks has something already, and be it that a task of his uses the pool.
    ///
    /// # Errors
    /// What is left is others': `PostQuota`, `MessageQuota`, or `NoMemory`.
    pub fn take(&self, whose: Whose, kind: Kind) -> Result<(), Error> {
        let Whose::User(number) = whose else { return Ok(()) };
        let user = self.at(number);
        let part = &user.parts[kind as usize];
        if !add(&part.had, 1, part.most.load(Ordering::Relaxed), 0) {
            return Err(match kind {
                Kind::Posts => Error::PostQuota,
                Kind::Messages => Error::MessageQuota,
                Kind::Receivers | Kind::Accounts => Error::NoMemory,
            });
        }
        if kind != Kind::Messages {
            user.uses.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
    }

    /// One less. To be said when it can be had again.
    pub fn give(&self, whose: Whose, kind: Kind) {
        let Whose::User(number) = whose else { return };
        self.at(number).parts[kind as usize].had.fetch_sub(1, Ordering::AcqRel);
        if kind != Kind::Messages {
            self.close(number);
        }
    }
}

/// Adds to a word that is at least `least` and may not exceed `most`.
fn add(word: &AtomicU32, amount: u32, most: u32, least: u32) -> bool {
    let more = |now: u32| now.checked_add(amount).filter(|&sum| now >= least && sum <= most);
    word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
}

/// Takes so much, or all that there is.
fn take_up_to(word: &AtomicU32, amount: u32) -> u32 {
    let less = |now: u32| Some(now - amount.min(now));
    let before = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).unwrap_or(0);
    amount.min(before)
}

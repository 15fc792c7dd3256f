#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod sync;

use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::boxed::Box;
use sync::{AtomicU32, AtomicU64, Lock, Ordering};

/// What a user is promised of what is left.
#[derive(Clone, Copy, Debug)]
pub struct Cut<const KINDS: usize> {
    /// One part of so many,
    pub part: u32,
    /// and at least so much of each kind, as long as there is.
    pub least: [u32; KINDS],
}

/// What a user is promised where so much is left.
#[must_use]
pub fn part_of(left: u32, part: u32, least: u32) -> u32 {
    (left / part).max(least).min(left)
}

/// What a user has of something, and was promised.
#[derive(Debug, Default)]
struct Part {
    had: AtomicU32,
    most: AtomicU32,
}

/// One of those who have something. (Apart from the next one's, for processors that count at the same time.)
#[derive(Debug)]
#[repr(align(64))]
struct User<const KINDS: usize> {
    /// [`USER_SYSTEM`]: nobody; that one needs no place.
    who: AtomicU64,
    /// His tasks, and whatever else keeps the place his. At 0 he has nothing.
    uses: AtomicU32,
    parts: [Part; KINDS],
}

/// What was promised to whom.
#[derive(Debug)]
pub struct Users<const KINDS: usize> {
    /// (The first one is nobody's.)
    all: Box<[User<KINDS>]>,
    /// Of what is for persons' promises, that which nobody was promised.
    left: [AtomicU32; KINDS],
    /// The same of all that is promised, to the system's tasks as well.
    free: [AtomicU32; KINDS],
    cut: Cut<KINDS>,
    /// Held by who makes a user, so that there is no second one of the same.
    making: Lock,
}

impl<const KINDS: usize> Users<KINDS> {
    /// So many users at a time. Of each kind so much is for persons' promises, and for all.
    #[must_use]
    pub fn new(users: u32, parts: [u32; KINDS], all: [u32; KINDS], cut: Cut<KINDS>) -> Users<KINDS> {
        let user = |_| User {
            who: AtomicU64::new(USER_SYSTEM),
            uses: AtomicU32::new(0),
            parts: core::array::from_fn(|_| Part::default()),
        };
        let words = |amounts: [u32; KINDS]| amounts.map(AtomicU32::new);
        Users {
            all: (0..=users).map(user).collect(),
            left: words(parts),
            free: words(all),
            cut,
            making: Lock::default(),
        }
    }

    fn at(&self, number: u32) -> &User<KINDS> {
        &self.all[number as usize]
    }

    /// A task of this user's begins. The first one is promised the user's part of everything.
    ///
    /// # Errors
    /// `NoMemory`: as many users as there may be have something.
    pub fn open(&self, who: u64) -> Result<u32, Error> {
        let _making = self.making.lock();
        let mut free = None;
        for number in (1..).take(self.all.len() - 1) {
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
        for (kind, part) in user.parts.iter().enumerate() {
            // Others only give back meanwhile, but for what the system's tasks are promised, too.
            let most = part_of(self.left[kind].load(Ordering::Acquire), self.cut.part, self.cut.least[kind]);
            let most = take_up_to(&self.free[kind], most);
            // In this order: who adds up what is owed finds it twice, and not not at all.
            part.most.store(most, Ordering::Release);
            self.left[kind].fetch_sub(most, Ordering::AcqRel);
        }
        user.uses.store(1, Ordering::Relaxed);
        user.who.store(who, Ordering::Release);
        Ok(number)
    }

    /// One use more, of who has one.
    pub fn hold(&self, number: u32) {
        self.at(number).uses.fetch_add(1, Ordering::AcqRel);
    }

    /// One use less. With the last one what he was promised is others'.
    pub fn close(&self, number: u32) {
        let user = self.at(number);
        if user.uses.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        // Nobody finds him any more, and nobody has the place before it is said to be free.
        for (kind, part) in user.parts.iter().enumerate() {
            let most = part.most.load(Ordering::Relaxed);
            self.left[kind].fetch_add(most, Ordering::AcqRel);
            part.most.store(0, Ordering::Release);
            self.free[kind].fetch_add(most, Ordering::AcqRel);
        }
        // From here on the place is another one's.
        user.who.store(USER_SYSTEM, Ordering::Release);
    }

    /// So much is a task's of the system, if nobody was promised it. Whether it is.
    pub fn promise(&self, kind: usize, amount: u32) -> bool {
        let less = |free: u32| free.checked_sub(amount);
        self.free[kind].fetch_update(Ordering::AcqRel, Ordering::Relaxed, less).is_ok()
    }

    /// It is not any more.
    pub fn take_back(&self, kind: usize, amount: u32) {
        if amount > 0 {
            self.free[kind].fetch_add(amount, Ordering::AcqRel);
        }
    }

    /// What a user was promised.
    pub fn most(&self, number: u32, kind: usize) -> u32 {
        self.at(number).parts[kind].most.load(Ordering::Acquire)
    }

    /// What a user was promised of each kind, and what was said that he has of it. Nothing, where he has no place.
    pub fn of(&self, who: u64) -> [(u32, u32); KINDS] {
        let is_his = |number: &u32| who != USER_SYSTEM && self.at(*number).who.load(Ordering::Acquire) == who;
        loop {
            let Some(number) = (1..).take(self.all.len() - 1).find(is_his) else { return [(0, 0); KINDS] };
            let told = core::array::from_fn(|kind| (self.most(number, kind), self.had(number, kind)));
            // He may have gone meanwhile, and the place have become another one's, who has more than he was promised.
            if is_his(&number) && (0..KINDS).all(|kind| self.most(number, kind) == told[kind].0) {
                return told;
            }
        }
    }

    /// What was said that he has.
    pub fn had(&self, number: u32, kind: usize) -> u32 {
        self.at(number).parts[kind].had.load(Ordering::Acquire)
    }

    /// One more, of a kind of which nobody has more than he was promised. Whether there was. Who asks has a use of the place.
    pub fn take(&self, number: u32, kind: usize) -> bool {
        let part = &self.at(number).parts[kind];
        add(&part.had, 1, part.most.load(Ordering::Relaxed), 0)
    }

    /// So much more, or less: it was looked at, or is when it is used.
    pub fn counts(&self, number: u32, kind: usize, change: i32) {
        // (Modulo 2^32, as is what is given back.)
        self.at(number).parts[kind].had.fetch_add(change as u32, Ordering::AcqRel);
    }

    /// What has to be there beside all that is had, of a kind of which anybody may have what is owed to nobody: what users were promised and do not have,
    /// and what is left for who comes. `had`: what a user has of it at the least, by number. As long as nobody takes of it but who
    /// [was promised](Self::is_promised) that, everybody can have what he was.
    pub fn owed(&self, kind: usize, had: impl Fn(u32) -> u32) -> u32 {
        let left = || self.left[kind].load(Ordering::Acquire);
        // What becomes a promise meanwhile was left before, and what is none any more is left afterwards. (Where one comes as another one goes it may be less for that moment.)
        let before = left();
        let owed =
            (1..).zip(&self.all[1..]).map(|(number, user)| match user.parts[kind].most.load(Ordering::Acquire) {
                0 => 0,
                most => most.saturating_sub(had(number)),
            });
        owed.sum::<u32>() + left().max(before)
    }

    /// Whether a user who has so much at the most has no more than he was promised.
    pub fn is_promised(&self, number: u32, kind: usize, had: u32) -> bool {
        number != 0 && had <= self.most(number, kind)
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

#[cfg(test)]
mod tests;

//! Who pays for messages that nobody has received yet: a share of the pool per task, below that of who made it.

use crate::free::Chain;
use crate::part::{Part, Whose};
use crate::sync::{AtomicU32, AtomicU64, Ordering, owned};
use abi::Error;
use alloc::boxed::Box;

/// Who gets a share of his own: the others' come out of their payers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Of what persons' programs may have all together.
    User,
    /// Of the system's: that, and what is reserved.
    System,
    /// Of this account's.
    Of(u32),
}

/// One task's account.
#[derive(Debug, Default)]
struct Account {
    /// Messages that are charged, and above them who needs the account: its task, and accounts below. At 0 it is free. Between them
    /// [`RETIRED`].
    use_: AtomicU64,
    // From here on the same as long as anybody needs it.
    limit: owned::AtomicU32,
    payer: owned::AtomicU32,
    /// It has this much of the pool, and whether that is the users' part.
    promised: owned::AtomicU32,
    is_user: owned::AtomicU32,
    /// It counts among those that persons' programs have.
    is_person: owned::AtomicU32,
    next: AtomicU32,
}

const HOLD: u64 = 1 << 32;
/// Nothing is charged any more; what was promised beyond the messages that are left belongs to others already.
const RETIRED: u64 = 1 << 31;
/// The messages in the word.
const MESSAGES: u64 = RETIRED - 1;

/// All accounts.
#[derive(Debug)]
pub(crate) struct Accounts {
    all: Box<[Account]>,
    free: Chain,
    /// What has been promised: to users, and to all.
    users: AtomicU32,
    promised: AtomicU32,
    users_max: u32,
    max: u32,
    /// Accounts that persons' programs have.
    persons: Part,
}

/// Adds to a sum that may not exceed `max`.
fn add_within(sum: &AtomicU32, amount: u32, max: u32) -> bool {
    let more = |now: u32| now.checked_add(amount).filter(|&sum| sum <= max);
    sum.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
}

impl Accounts {
    /// So many accounts, and messages; and how many of each are the system's alone.
    pub fn new((count, kept): (u32, u32), (max, reserve): (u32, u32)) -> Accounts {
        let all: Box<[Account]> = (0..=count).map(|_| Account::default()).collect();
        let free = Chain::default();
        (1..=count).rev().for_each(|number| free.put(number, &all[number as usize].next));
        let (users, promised) = (AtomicU32::new(0), AtomicU32::new(0));
        let persons = Part::new(count.saturating_sub(kept));
        Accounts { all, free, users, promised, users_max: max.saturating_sub(reserve), max, persons }
    }

    fn at(&self, number: u32) -> &Account {
        &self.all[number as usize]
    }

    /// Opens an account for `limit` messages.
    ///
    /// # Errors
    /// `MessageQuota`: so much has been promised to others; `NoMemory`: there is no account left, or for the system only.
    pub fn open(&self, share: Share, limit: u32) -> Result<u32, Error> {
        let whose = Whose::of(share != Share::System);
        self.persons.take(whose)?;
        self.open_within(share, limit).inspect_err(|_| self.persons.give(whose))
    }

    fn open_within(&self, share: Share, limit: u32) -> Result<u32, Error> {
        let is_user = share == Share::User;
        let own = if let Share::Of(_) = share { 0 } else { limit };
        if is_user && !add_within(&self.users, own, self.users_max) {
            return Err(Error::MessageQuota);
        }
        let take_back_users = || {
            if is_user {
                self.users.fetch_sub(own, Ordering::AcqRel);
            }
        };
        if !add_within(&self.promised, own, self.max) {
            take_back_users();
            return Err(Error::MessageQuota);
        }
        let Some(number) = self.free.take(|number| &self.at(number).next) else {
            self.promised.fetch_sub(own, Ordering::AcqRel);
            take_back_users();
            return Err(Error::NoMemory);
        };
        let account = self.at(number);
        let payer = if let Share::Of(payer) = share { payer } else { 0 };
        account.limit.store(limit, Ordering::Relaxed);
        account.payer.store(payer, Ordering::Relaxed);
        account.promised.store(own, Ordering::Relaxed);
        account.is_user.store(u32::from(is_user), Ordering::Relaxed);
        account.is_person.store(u32::from(share != Share::System), Ordering::Relaxed);
        account.use_.store(HOLD, Ordering::Release);
        if payer != 0 {
            self.at(payer).use_.fetch_add(HOLD, Ordering::AcqRel);
        }
        Ok(number)
    }

    /// Its task is over. Messages that it has sent stay, and are paid for until they are received.
    pub fn close(&self, number: u32) {
        self.take_from(number, HOLD);
    }

    /// Its task has ended, though somebody may still know it for long: it sends no more. What it was promised is had by others, but for its
    /// messages that wait: their parts go as they are received. Not for an account that others are a part of.
    pub fn retire(&self, number: u32) {
        let account = self.at(number);
        let before = account.use_.fetch_or(RETIRED, Ordering::AcqRel);
        if before & RETIRED == 0 {
            let promised = account.promised.load(Ordering::Relaxed);
            let is_user = account.is_user.load(Ordering::Relaxed) != 0;
            self.give_back(is_user, promised.saturating_sub((before & MESSAGES) as u32));
        }
    }

    fn give_back(&self, is_user: bool, amount: u32) {
        if amount == 0 {
            return;
        }
        if is_user {
            self.users.fetch_sub(amount, Ordering::AcqRel);
        }
        self.promised.fetch_sub(amount, Ordering::AcqRel);
    }

    /// One message more, of this account and of all that it is a part of.
    ///
    /// # Errors
    /// `MessageQuota`, and nothing was charged: also for one that nobody has any more, which a caller may still know in that moment.
    pub fn charge(&self, number: u32) -> Result<(), Error> {
        if number == 0 {
            return Err(Error::MessageQuota);
        }
        let mut at = number;
        while at != 0 {
            let account = self.at(at);
            let limit = u64::from(account.limit.load(Ordering::Relaxed));
            // (A retired one has more than any limit.)
            let more = |use_: u64| (use_ >= HOLD && use_ % HOLD < limit).then_some(use_ + 1);
            if account.use_.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_err() {
                self.release_below(number, at);
                return Err(Error::MessageQuota);
            }
            at = account.payer.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// One message less.
    pub fn release(&self, number: u32) {
        self.release_below(number, 0);
    }

    /// From this account and its payers, up to `end` without that.
    fn release_below(&self, number: u32, end: u32) {
        let mut at = number;
        while at != end && at != 0 {
            let payer = self.at(at).payer.load(Ordering::Relaxed);
            self.take_from(at, 1);
            at = payer;
        }
    }

    /// What nobody needs any more is free, and perhaps its payer as well.
    fn take_from(&self, number: u32, amount: u64) {
        let (mut at, mut amount) = (number, amount);
        while at != 0 {
            let account = self.at(at);
            let payer = account.payer.load(Ordering::Relaxed);
            let promised = account.promised.load(Ordering::Relaxed);
            let is_user = account.is_user.load(Ordering::Relaxed) != 0;
            let whose = Whose::of(account.is_person.load(Ordering::Relaxed) != 0);
            let before = account.use_.fetch_sub(amount, Ordering::AcqRel);
            // It may be another one's as soon as nobody needs it: what is given back was looked at before.
            let back = match before & RETIRED {
                0 if before == amount => promised,
                0 => 0,
                _ => u32::from(amount != HOLD && promised > 0),
            };
            self.give_back(is_user, back);
            if before & !RETIRED != amount {
                return;
            }
            self.free.put(at, &account.next);
            self.persons.give(whose);
            (at, amount) = (payer, HOLD);
        }
    }

    /// Messages charged to an account.
    pub fn used(&self, number: u32) -> u32 {
        (self.at(number).use_.load(Ordering::Relaxed) & MESSAGES) as u32
    }
}

//! Who pays for messages that nobody has received yet: of the system's tasks each has a share of the pool, of a user's all have his together.
//! A program that another one has started has, with those that it starts itself, three quarters of what that one may have, and every program alone half
//! of what it may have with those: so none leaves nothing to its user's others.

use crate::free::Chain;
use crate::part::{Kind, Users, Whose, for_itself, for_started};
use crate::pool::Pool;
use crate::sync::{AtomicU32, AtomicU64, Ordering, owned};
use abi::Error;
use alloc::boxed::Box;

/// Out of what an account is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A task of the system's: so many messages are promised to it.
    System(u32),
    /// A user's part, of the first programs that he has.
    User(u32),
    /// A part of that of this account.
    Of(u32),
}

/// One task's account.
#[derive(Debug, Default)]
struct Account {
    /// Who needs the account: its task, and accounts below; at 0 it is free. Then [`RETIRED`], how many of the messages its own task has
    /// sent, and how many messages are charged.
    use_: AtomicU64,
    // From here on the same as long as anybody needs it.
    limit: owned::AtomicU32,
    /// Of the limit, for the messages of its own task.
    own: owned::AtomicU32,
    payer: owned::AtomicU32,
    /// So many messages are promised to it, which is the system's.
    promised: owned::AtomicU32,
    /// The user that it counts for ([`Whose`]).
    user: owned::AtomicU32,
    next: AtomicU32,
}

/// The messages in the word.
const MESSAGES: u64 = (1 << BITS) - 1;
const BITS: u32 = 20;
/// One that its own task has sent.
const OWN: u64 = (1 << BITS) + 1;
/// Nothing is charged any more; what was promised beyond the messages that are left belongs to others already.
const RETIRED: u64 = 1 << (2 * BITS);
const HOLD: u64 = RETIRED << 1;
/// More messages than there are for anybody.
pub(crate) const MESSAGES_MAX: u32 = MESSAGES as u32;

/// All accounts.
#[derive(Debug)]
pub(crate) struct Accounts {
    all: Box<[Account]>,
    free: Chain,
    pub users: Users,
}

impl Accounts {
    /// So many, of these users and of the system's.
    pub fn new(count: u32, users: Users) -> Accounts {
        let all: Box<[Account]> = (0..=count).map(|_| Account::default()).collect();
        let free = Chain::default();
        (1..=count).rev().for_each(|number| free.put(number, &all[number as usize].next));
        Accounts { all, free, users }
    }

    fn at(&self, number: u32) -> &Account {
        &self.all[number as usize]
    }

    /// Opens an account.
    ///
    /// # Errors
    /// `MessageQuota`: so much has been promised to others; `NoMemory`: there is no account left, or for others only.
    pub fn open(&self, share: Share) -> Result<u32, Error> {
        let whose = match share {
            Share::System(_) => Whose::System,
            Share::User(user) => Whose::User(user),
            Share::Of(payer) => self.whose(payer),
        };
        self.users.take(whose, Kind::Accounts)?;
        self.open_for(share, whose).inspect_err(|_| self.users.give(whose, Kind::Accounts))
    }

    fn open_for(&self, share: Share, whose: Whose) -> Result<u32, Error> {
        let (limit, own, promised, payer) = match share {
            Share::System(limit) => (limit, limit, limit, 0),
            Share::User(user) => {
                let limit = self.users.most(user, Kind::Messages);
                (limit, for_itself(limit), 0, 0)
            }
            Share::Of(payer) => {
                let limit = for_started(self.at(payer).limit.load(Ordering::Relaxed));
                (limit, for_itself(limit), 0, payer)
            }
        };
        self.users.promise(promised)?;
        let number = self.free.take(|number| &self.at(number).next);
        let number = number.ok_or(Error::NoMemory).inspect_err(|_| self.users.take_back(promised))?;
        let account = self.at(number);
        account.limit.store(limit, Ordering::Relaxed);
        account.own.store(own, Ordering::Relaxed);
        account.payer.store(payer, Ordering::Relaxed);
        account.promised.store(promised, Ordering::Relaxed);
        account.user.store(whose.word(), Ordering::Relaxed);
        account.use_.store(HOLD, Ordering::Release);
        if payer != 0 {
            self.at(payer).use_.fetch_add(HOLD, Ordering::AcqRel);
        }
        Ok(number)
    }

    fn whose(&self, number: u32) -> Whose {
        Whose::of(self.at(number).user.load(Ordering::Relaxed))
    }

    /// Its task is over. Messages that it has sent stay, and are paid for until they are received.
    pub fn close(&self, number: u32) {
        self.take_from(number, HOLD);
    }

    /// Its task has ended, though somebody may still know it for long: it sends no more. What it was promised is had by others, but for its
    /// messages that wait: their parts go as they are received. Of the system's, which others are no part of.
    pub fn retire(&self, number: u32) {
        let account = self.at(number);
        let before = account.use_.fetch_or(RETIRED, Ordering::AcqRel);
        if before & RETIRED == 0 {
            let promised = account.promised.load(Ordering::Relaxed);
            self.users.take_back(promised.saturating_sub((before & MESSAGES) as u32));
        }
    }

    /// One message more, of this account and of all that it is a part of.
    ///
    /// # Errors
    /// `MessageQuota`, and nothing was charged: also for one that nobody has any more, which a caller may still know in that moment.
    pub fn charge(&self, number: u32) -> Result<(), Error> {
        if number == 0 {
            return Err(Error::MessageQuota);
        }
        let (mut at, mut one) = (number, OWN);
        while at != 0 {
            let account = self.at(at);
            let limit = u64::from(account.limit.load(Ordering::Relaxed));
            let own = if at == number { u64::from(account.own.load(Ordering::Relaxed)) } else { MESSAGES };
            let more = |use_: u64| {
                let is_open = use_ >= HOLD && use_ & RETIRED == 0;
                let has_room = use_ & MESSAGES < limit && use_ >> BITS & MESSAGES < own;
                (is_open && has_room).then_some(use_ + one)
            };
            if account.use_.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_err() {
                self.release_below(number, at);
                return Err(Error::MessageQuota);
            }
            (at, one) = (account.payer.load(Ordering::Relaxed), 1);
        }
        self.users.take(self.whose(number), Kind::Messages).inspect_err(|_| self.release_below(number, 0))
    }

    /// One message less.
    pub fn release(&self, number: u32) {
        // As long as that is not said the account is there, and so is its user.
        self.users.give(self.whose(number), Kind::Messages);
        self.release_below(number, 0);
    }

    /// From this account and its payers, up to `end` without that.
    fn release_below(&self, number: u32, end: u32) {
        let (mut at, mut one) = (number, OWN);
        while at != end && at != 0 {
            let payer = self.at(at).payer.load(Ordering::Relaxed);
            self.take_from(at, one);
            (at, one) = (payer, 1);
        }
    }

    /// What nobody needs any more is free, and perhaps its payer as well.
    fn take_from(&self, number: u32, amount: u64) {
        let (mut at, mut amount) = (number, amount);
        while at != 0 {
            let account = self.at(at);
            let payer = account.payer.load(Ordering::Relaxed);
            let promised = account.promised.load(Ordering::Relaxed);
            let whose = self.whose(at);
            let before = account.use_.fetch_sub(amount, Ordering::AcqRel);
            // It may be another one's as soon as nobody needs it: what is given back was looked at before.
            self.users.take_back(match before & RETIRED {
                0 if before == amount => promised,
                0 => 0,
                _ => u32::from(amount != HOLD && promised > 0),
            });
            if before & !RETIRED != amount {
                return;
            }
            self.free.put(at, &account.next);
            self.users.give(whose, Kind::Accounts);
            (at, amount) = (payer, HOLD);
        }
    }

    /// Messages charged to an account.
    pub fn used(&self, number: u32) -> u32 {
        (self.at(number).use_.load(Ordering::Relaxed) & MESSAGES) as u32
    }
}

impl Pool {
    #[inline]
    pub(crate) fn users(&self) -> &Users {
        &self.accounts.users
    }

    /// A task of this user, who is not the system, begins to use the pool; as whose it has anything. The first one of a user is promised his part: a
    /// quarter of what of everything nobody was promised, and at least eight, as long as there are.
    ///
    /// # Errors
    /// `NoMemory`: as many users as there may be have something (16).
    pub fn open_user(&self, user: u64) -> Result<u32, Error> {
        self.users().open(user)
    }

    /// What this user was promised, and has: of posts, messages, records and accounts.
    pub fn promised_to(&self, user: u64) -> [(u32, u32); 4] {
        self.users().of(user)
    }

    /// It uses it no more. What was promised is others' when nothing is left that one of the user's tasks has had.
    pub fn close_user(&self, number: u32) {
        self.users().close(number);
    }

    /// Opens an account.
    ///
    /// # Errors
    /// `MessageQuota`: so much is promised to others; `NoMemory`: there is no account left, or for others only.
    pub fn open_account(&self, share: Share) -> Result<u32, Error> {
        self.accounts.open(share)
    }

    /// Its task is over.
    pub fn close_account(&self, account: u32) {
        self.accounts.close(account);
    }

    /// Its task sends no more, and others may have what it was promised: see [`Pool::close_account`] for when nobody knows it any more.
    /// Not for one whose account others' are a part of.
    pub fn retire_account(&self, account: u32) {
        self.accounts.retire(account);
    }

    /// Messages that an account pays for.
    pub fn charged(&self, account: u32) -> u32 {
        self.accounts.used(account)
    }
}

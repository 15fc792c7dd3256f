//! What persons' programs may have of everything: never all of it, so that a server or a driver can begin anew whatever they do (K1-41),
//! and each user no more than he was promised, so that others find theirs whatever he does (K1-U12).

use ::parts::Cut;
use abi::Error;

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
pub(crate) const CUT: Cut<{ KINDS.len() }> =
    if cfg!(test) { Cut { part: 2, least: [1; KINDS.len()] } } else { Cut { part: 4, least: [8; KINDS.len()] } };

/// What a program that another one has started may have, together with those that it starts, of what that one may have.
pub(crate) fn for_started(whole: u32) -> u32 {
    (whole * 3 / 4).max(1).min(whole)
}

/// What a program may have by itself of what it may have with those that it starts.
pub(crate) fn for_itself(whole: u32) -> u32 {
    (whole / 2).max(1).min(whole)
}

/// What was promised to whom (`core/parts`): of the pool nobody may have more.
#[derive(Debug)]
pub(crate) struct Users(::parts::Users<{ KINDS.len() }>);

impl Users {
    /// Persons' programs may have so much of each, and there are so many messages in all: of these the system's tasks are promised some, too.
    pub fn new(parts: [u32; KINDS.len()], messages: u32) -> Users {
        let mut all = parts;
        all[Kind::Messages as usize] = messages;
        Users(::parts::Users::new(USERS_MAX, parts, all, CUT))
    }

    /// A task of this user's begins to use the pool. The first one is promised the user's part of everything.
    ///
    /// # Errors
    /// `NoMemory`: as many users as there may be have something.
    pub fn open(&self, who: u64) -> Result<u32, Error> {
        self.0.open(who)
    }

    /// One use less. With the last one what he was promised is others'.
    pub fn close(&self, number: u32) {
        self.0.close(number);
    }

    /// So many messages are a task's of the system.
    ///
    /// # Errors
    /// `MessageQuota`: so many were promised to others.
    pub fn promise(&self, messages: u32) -> Result<(), Error> {
        if self.0.promise(Kind::Messages as usize, messages) { Ok(()) } else { Err(Error::MessageQuota) }
    }

    /// They are not any more.
    pub fn take_back(&self, messages: u32) {
        self.0.take_back(Kind::Messages as usize, messages);
    }

    /// What a user may have.
    pub fn most(&self, number: u32, kind: Kind) -> u32 {
        self.0.most(number, kind as usize)
    }

    /// What he was promised of each kind, and has.
    pub fn of(&self, who: u64) -> [(u32, u32); KINDS.len()] {
        self.0.of(who)
    }

    /// One more. Who asks has something already, and be it that a task of his uses the pool.
    ///
    /// # Errors
    /// What is left is others': `PostQuota`, `MessageQuota`, or `NoMemory`.
    pub fn take(&self, whose: Whose, kind: Kind) -> Result<(), Error> {
        let Whose::User(number) = whose else { return Ok(()) };
        if !self.0.take(number, kind as usize) {
            return Err(match kind {
                Kind::Posts => Error::PostQuota,
                Kind::Messages => Error::MessageQuota,
                Kind::Receivers | Kind::Accounts => Error::NoMemory,
            });
        }
        // Of messages each is an account's, which is there as long.
        if kind != Kind::Messages {
            self.0.hold(number);
        }
        Ok(())
    }

    /// One less. To be said when it can be had again.
    pub fn give(&self, whose: Whose, kind: Kind) {
        let Whose::User(number) = whose else { return };
        self.0.counts(number, kind as usize, -1);
        if kind != Kind::Messages {
            self.0.close(number);
        }
    }
}

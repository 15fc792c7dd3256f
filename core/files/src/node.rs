//! A file or a directory: what is known of it, behind its own lock.

use crate::ways::Turns;
use crate::{Taken, bits};
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::ops::{Bound, DerefMut};

/// The locks that whoever uses the tree has. Locks of higher rank are taken after those of lower rank, and no two of one rank.
pub trait Locks: 'static {
    type Lock<T>;
    type Guard<'a, T: 'a>: DerefMut<Target = T>;
    fn new<T>(rank: u64, value: T) -> Self::Lock<T>;
    fn lock<T>(lock: &Self::Lock<T>) -> Self::Guard<'_, T>;
    /// What is counted on by one at a time, and read by anybody.
    type Count: Default;
    fn count(count: &Self::Count) -> u64;
    fn count_on(count: &Self::Count);
    /// Who executes this: the same as long as a thread is there, and seldom another one's.
    fn here() -> usize;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// No other node has, or had, or will have it.
    pub number: u64,
    pub kind: Kind,
    pub owner: u64,
    /// Nine bits as in Unix; the middle three, which would be a group's, say nothing.
    pub mode: u16,
    /// Seconds since 1970.
    pub mtime: i64,
}

/// Names in a directory.
pub(crate) type Names<L, C> = BTreeMap<Box<[u8]>, Arc<Node<L, C>>>;

pub(crate) enum Body<L: Locks, C> {
    File(C),
    Directory { names: Names<L, C>, parent: Weak<Node<L, C>> },
}

/// What changes of a node.
pub(crate) struct State<L: Locks, C> {
    pub mode: u16,
    pub mtime: i64,
    /// No name leads here any more, and none will.
    pub gone: bool,
    pub body: Body<L, C>,
}

pub struct Node<L: Locks, C> {
    pub number: u64,
    pub kind: Kind,
    pub owner: u64,
    /// Of its owner's nodes; none for the root.
    pub(crate) taken: Option<Taken>,
    /// Of a directory.
    pub(crate) turns: Option<Arc<Turns<L>>>,
    pub(crate) state: L::Lock<State<L, C>>,
}

/// Whether somebody may do all of `wanted` (of [`bits`]).
fn may(user: u64, owner: u64, mode: u16, wanted: u16) -> Result<(), Error> {
    let mine = if user == owner { mode >> 6 } else { mode };
    if user == USER_SYSTEM || mine & wanted == wanted { Ok(()) } else { Err(Error::Denied) }
}

impl<L: Locks, C: Default> Node<L, C> {
    pub(crate) fn new(of: Status, parent: Option<&Arc<Node<L, C>>>) -> Node<L, C> {
        let body = match of.kind {
            Kind::File => Body::File(C::default()),
            Kind::Directory => {
                Body::Directory { names: BTreeMap::new(), parent: parent.map(Arc::downgrade).unwrap_or_default() }
            }
        };
        let state = State { mode: of.mode & 0o777, mtime: of.mtime, gone: false, body };
        let turns = (of.kind == Kind::Directory).then(Turns::new);
        Node { number: of.number, kind: of.kind, owner: of.owner, taken: None, turns, state: L::new(of.number, state) }
    }

    pub(crate) fn lock(&self) -> L::Guard<'_, State<L, C>> {
        L::lock(&self.state)
    }

    /// What a name in this directory leads to.
    pub(crate) fn step(self: &Arc<Self>, user: u64, name: &[u8]) -> Result<Arc<Node<L, C>>, Error> {
        self.next(user, name).map(|next| next.0)
    }

    /// The same, and the turn (0: of a file) that it is in as long as this name leads there.
    pub(crate) fn next(self: &Arc<Self>, user: u64, name: &[u8]) -> Result<(Arc<Node<L, C>>, u64), Error> {
        let state = self.lock();
        let Body::Directory { names, parent } = &state.body else { return Err(Error::NotADirectory) };
        if !name.is_empty() {
            may(user, self.owner, state.mode, bits::EXECUTE)?;
        }
        let to = match name {
            b"" | b"." => self.clone(),
            // Above the root is the root; what was taken away leads nowhere.
            b".." => match parent.upgrade() {
                Some(parent) => parent,
                None if state.gone => return Err(Error::NotFound),
                None => self.clone(),
            },
            _ => names.get(name).cloned().ok_or(Error::NotFound)?,
        };
        // With the lock in hand, without which it does not go from here.
        let turn = to.turns.as_ref().map_or(0, |turns| turns.now());
        Ok((to, turn))
    }

    /// Ways through here are not what they were: who does this has the locks of what it changes.
    pub(crate) fn turn(&self) {
        if let Some(turns) = &self.turns {
            turns.turn();
        }
    }

    pub(crate) fn parent(&self) -> Option<Arc<Node<L, C>>> {
        match &self.lock().body {
            Body::Directory { parent, .. } => parent.upgrade(),
            Body::File(_) => None,
        }
    }

    /// Whether somebody may do all of `wanted`.
    ///
    /// # Errors
    /// `Denied`.
    pub fn check(&self, user: u64, wanted: u16) -> Result<(), Error> {
        may(user, self.owner, self.lock().mode, wanted)
    }

    #[must_use]
    pub fn status(&self) -> Status {
        let state = self.lock();
        let Node { number, kind, owner, .. } = *self;
        Status { number, kind, owner, mode: state.mode, mtime: state.mtime }
    }

    /// Whether no name leads here any more.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.lock().gone
    }

    /// Does something to what a file consists of, under its lock. `change` is told the mode, too.
    ///
    /// # Errors
    /// `IsADirectory`.
    pub fn content<T>(&self, change: impl FnOnce(&mut C, u16) -> T) -> Result<T, Error> {
        let mut state = self.lock();
        let mode = state.mode;
        match &mut state.body {
            Body::File(content) => Ok(change(content, mode)),
            Body::Directory { .. } => Err(Error::IsADirectory),
        }
    }

    /// The same, for what changes the file.
    ///
    /// # Errors
    /// `IsADirectory`.
    pub fn write<T>(&self, now: i64, change: impl FnOnce(&mut C, u16) -> T) -> Result<T, Error> {
        let mut state = self.lock();
        let mode = state.mode;
        let Body::File(content) = &mut state.body else { return Err(Error::IsADirectory) };
        let done = change(content, mode);
        state.mtime = now;
        Ok(done)
    }

    /// Another mode; `apply` does what follows from it for a file.
    ///
    /// # Errors
    /// `Denied` for others than the owner and the system; what `apply` answers, and nothing has changed then.
    pub fn set_mode(
        &self,
        user: u64,
        mode: u16,
        apply: impl FnOnce(&mut C, u16) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if user != self.owner && user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let mode = mode & 0o777;
        let mut state = self.lock();
        if let Body::File(content) = &mut state.body {
            apply(content, mode)?;
        }
        state.mode = mode;
        self.turn();
        Ok(())
    }

    /// Another time of the last change.
    ///
    /// # Errors
    /// `Denied` for those who may not write.
    pub fn set_time(&self, user: u64, mtime: i64) -> Result<(), Error> {
        let mut state = self.lock();
        if user != self.owner {
            may(user, self.owner, state.mode, bits::WRITE)?;
        }
        state.mtime = mtime;
        Ok(())
    }

    /// Gives each name behind `after`, in their order, to `each` until that has enough (`false`).
    ///
    /// # Errors
    /// `NotADirectory`, `Denied`.
    pub fn list(
        &self,
        user: u64,
        after: &[u8],
        mut each: impl FnMut(&[u8], &Arc<Node<L, C>>) -> bool,
    ) -> Result<(), Error> {
        let state = self.lock();
        let Body::Directory { names, .. } = &state.body else { return Err(Error::NotADirectory) };
        may(user, self.owner, state.mode, bits::READ)?;
        for (name, node) in names.range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded)) {
            if !each(name, node) {
                break;
            }
        }
        Ok(())
    }
}

impl<L: Locks, C> State<L, C> {
    /// The names of a directory in which somebody may make some.
    pub(crate) fn names_for(&mut self, user: u64, owner: u64) -> Result<&mut Names<L, C>, Error> {
        let mode = self.mode;
        match &mut self.body {
            Body::File(_) => Err(Error::NotADirectory),
            _ if self.gone => Err(Error::NotFound),
            Body::Directory { names, .. } => {
                may(user, owner, mode, bits::WRITE | bits::EXECUTE)?;
                Ok(names)
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !matches!(&self.body, Body::Directory { names, .. } if !names.is_empty())
    }
}

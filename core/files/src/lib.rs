#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod change;
mod node;
mod opens;
mod path;
mod ways;

pub use node::{Kind, Locks, Node, Status};
pub use opens::{By, Open, Opens};
pub use path::{NAME_MAX, PATH_MAX};

use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use ways::Ways;

/// What a person may do to a node, as in the last three bits of a mode.
pub mod bits {
    pub const READ: u16 = 4;
    /// For a directory: make names in it, and take them out.
    pub const WRITE: u16 = 2;
    /// For a directory: go through it.
    pub const EXECUTE: u16 = 1;
}

/// Nodes that one person may have: they lie in the server's memory.
pub const NODES_MAX: u64 = 16384;
/// How often something is tried that others spoil.
const TRIES: usize = 64;

/// How many nodes a person has.
#[derive(Debug, Default)]
pub(crate) struct Share(AtomicU64);

impl Share {
    fn take(self: &Arc<Share>, most: u64) -> Result<Taken, Error> {
        let more = |count: u64| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|_| Error::Quota)?;
        Ok(Taken(self.clone()))
    }
}

/// One of a person's nodes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Share>);

impl Taken {
    /// One more of the same person's.
    fn another(&self, most: u64) -> Result<Taken, Error> {
        self.0.take(most)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Files by their paths. `C`: what a file consists of.
pub struct Tree<L: Locks, C> {
    pub(crate) root: Arc<Node<L, C>>,
    pub(crate) ways: Ways<L, C>,
    next: AtomicU64,
    /// Held while a directory goes to another one.
    moves: L::Lock<()>,
    shares: L::Lock<BTreeMap<u64, Arc<Share>>>,
    most: u64,
}

impl<L: Locks, C: Default> Tree<L, C> {
    /// A tree with a root that belongs to the system, where everybody may make names.
    #[must_use]
    pub fn new(now: i64) -> Tree<L, C> {
        Tree::limited(now, NODES_MAX)
    }

    /// The same, with so many nodes for each person.
    #[must_use]
    pub fn limited(now: i64, most: u64) -> Tree<L, C> {
        let own = Status { number: 1, kind: Kind::Directory, owner: USER_SYSTEM, mode: 0o777, mtime: now };
        Tree {
            root: Arc::new(Node::new(own, None)),
            ways: Ways::new(),
            next: AtomicU64::new(2),
            moves: L::new(0, ()),
            // Taken and given back with nothing else in between.
            shares: L::new(u64::MAX, BTreeMap::new()),
            most,
        }
    }

    #[must_use]
    pub fn root(&self) -> &Arc<Node<L, C>> {
        &self.root
    }

    /// One of a person's nodes, in this directory. In his own it is known without the lock which they are.
    fn taken(&self, user: u64, directory: &Node<L, C>) -> Result<Taken, Error> {
        let most = if user == USER_SYSTEM { u64::MAX } else { self.most };
        match &directory.taken {
            Some(own) if directory.owner == user => own.another(most),
            _ => {
                let share = L::lock(&self.shares).entry(user).or_default().clone();
                share.take(most)
            }
        }
    }

    /// Nodes that a person has: those with names, and those that are still open.
    pub fn nodes_of(&self, user: u64) -> u64 {
        L::lock(&self.shares).get(&user).map_or(0, |share| share.0.load(Ordering::Relaxed))
    }

    /// What a path leads to.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, `Denied`; `TooBig`, `BadArgument` for what is no path.
    pub fn find(&self, user: u64, path: &[u8]) -> Result<Arc<Node<L, C>>, Error> {
        path::check(path)?;
        let (before, name) = path::split(path);
        self.directory(user, before)?.step(user, name)
    }

    /// The directory that a path's last name lies in, and that name; whether a slash follows it.
    fn place<'p>(&self, user: u64, path: &'p [u8]) -> Result<(Arc<Node<L, C>>, &'p [u8], bool), Error> {
        path::check(path)?;
        let (before, name, slash) = path::last(path)?;
        Ok((self.directory(user, before)?, name, slash))
    }
}

#[cfg(test)]
mod tests;

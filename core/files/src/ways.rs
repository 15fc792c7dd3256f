//! Ways to directories that were gone lately. Who goes one again takes no lock of a directory on the way, and writes nothing there: he reads
//! of each only whether it is still where it was, and may still be gone through by whom it could.
//!
//! A way is remembered in parts by who goes (`Locks::here`), each with a lock of its own that he mostly has to himself. What is
//! remembered keeps no directory that has been taken away.

use crate::Tree;
use crate::node::{Locks, Node};
use abi::Error;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;

const PARTS: usize = 32;
/// So many ways are remembered in each part, so long ones at the most, in bytes and in directories: some 200 KiB, whoever goes wherever.
const EACH: usize = 4;
const PATH_MOST: usize = 256;
const STEPS_MOST: usize = 12;

/// How often a directory has been taken from its place, or has got another mode. Counted on with the locks in hand that this takes, and read without any;
/// alone in its cache lines.
#[repr(align(64))]
pub(crate) struct Turns<L: Locks>(L::Count);

impl<L: Locks> Turns<L> {
    pub fn new() -> Arc<Turns<L>> {
        Arc::new(Turns(L::Count::default()))
    }

    pub fn now(&self) -> u64 {
        L::count(&self.0)
    }

    pub fn turn(&self) {
        L::count_on(&self.0);
    }
}

/// A directory on a way, as it was when it was come to.
type Step<L> = (Arc<Turns<L>>, u64);

struct Way<L: Locks, C> {
    user: u64,
    path: Box<[u8]>,
    steps: Vec<Step<L>>,
    to: Weak<Node<L, C>>,
}

impl<L: Locks, C> Way<L, C> {
    fn is(&self, user: u64, path: &[u8]) -> bool {
        self.user == user && *self.path == *path
    }

    /// Numbers never go back: if none has changed when it is read here, none had when the first one was, and the whole way was there at that moment.
    fn is_there(&self) -> bool {
        self.steps.iter().all(|(turns, seen)| turns.now() == *seen)
    }
}

struct Part<L: Locks, C> {
    ways: [Option<Way<L, C>>; EACH],
    /// Which one is forgotten next.
    next: usize,
}

pub(crate) struct Ways<L: Locks, C>(Box<[Own<L::Lock<Part<L, C>>>]>);

/// In cache lines of its own.
#[repr(align(64))]
pub(crate) struct Own<T>(pub T);

impl<L: Locks, C> Ways<L, C> {
    pub fn new() -> Ways<L, C> {
        let part = || Part { ways: [const { None }; EACH], next: 0 };
        // Taken and given back with nothing else in between.
        Ways((0..PARTS).map(|_| Own(L::new(u64::MAX, part()))).collect())
    }

    fn part(&self) -> L::Guard<'_, Part<L, C>> {
        L::lock(&self.0[L::here() % PARTS].0)
    }

    fn find(&self, user: u64, path: &[u8]) -> Option<Arc<Node<L, C>>> {
        let part = self.part();
        let way = part.ways.iter().flatten().find(|way| way.is(user, path))?;
        if way.is_there() { way.to.upgrade() } else { None }
    }

    fn keep(&self, way: Way<L, C>) {
        // What goes is dropped without the lock.
        let _before = {
            let mut part = self.part();
            let known = part.ways.iter().position(|one| one.as_ref().is_some_and(|one| one.is(way.user, &way.path)));
            let at = known.unwrap_or(part.next);
            part.next = (at + 1) % EACH;
            part.ways[at].replace(way)
        };
    }
}

impl<L: Locks, C: Default> Tree<L, C> {
    /// The directory that a path leads to, of which nothing is left but perhaps slashes behind it.
    pub(crate) fn directory(&self, user: u64, path: &[u8]) -> Result<Arc<Node<L, C>>, Error> {
        if path.iter().all(|&b| b == b'/') {
            return Ok(self.root.clone());
        }
        if let Some(known) = self.ways.find(user, path) {
            return Ok(known);
        }
        let mut steps = Vec::new();
        // Before anything is asked of it: what changes from here on is seen.
        steps.extend(self.root.turns.as_ref().map(|turns| (turns.clone(), turns.now())));
        let mut at = self.root.clone();
        for name in path.split(|&b| b == b'/') {
            let (to, seen) = at.next(user, name)?;
            // A name of nothing leads nowhere else.
            if let Some(turns) = to.turns.as_ref().filter(|_| !Arc::ptr_eq(&to, &at) && steps.len() <= STEPS_MOST) {
                steps.push((turns.clone(), seen));
            }
            at = to;
        }
        // What is no directory is refused where a name is looked up in it.
        if at.turns.is_some() && steps.len() <= STEPS_MOST && path.len() <= PATH_MOST {
            self.ways.keep(Way { user, path: path.into(), steps, to: Arc::downgrade(&at) });
        }
        Ok(at)
    }
}

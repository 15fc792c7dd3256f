//! The ready queue of one processor.

use crate::{Pieces, Row};

/// Threads that are ready to run, in the order of their turns.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    queue: Pieces<T>,
    /// Those that an interrupt has called, before the others as [`Row`] says.
    called: Pieces<T>,
    row: Row,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring { queue: Pieces::new(), called: Pieces::new(), row: Row::default() }
    }
}

impl<T> Ring<T> {
    /// Nobody is ready.
    pub fn new() -> Ring<T> {
        Ring::default()
    }

    /// Makes ready: its turn comes after all others.
    pub fn push_back(&mut self, thread: T) {
        self.queue.push_back(thread);
    }

    /// Makes one ready that an interrupt has called: its turn comes next, after those that were called before it.
    pub fn push_called(&mut self, thread: T) {
        self.called.push_back(thread);
    }

    /// The one of whom `is` says so is next, as if an interrupt had called it; if one has, it keeps its place. Whether it is here.
    pub fn call(&mut self, is: impl Fn(&T) -> bool) -> bool {
        let found = self.queue.remove(&is);
        let is_moved = found.is_some();
        found.into_iter().for_each(|thread| self.called.push_back(thread));
        is_moved || self.called.iter().any(is)
    }

    /// Whose turn it is.
    pub fn pop_front(&mut self) -> Option<T> {
        let is_called = self.row.is_next(!self.called.is_empty(), !self.queue.is_empty());
        if is_called { self.called.pop_front() } else { self.queue.pop_front() }
    }

    /// What an idle processor may take over: the one that would wait longest here.
    pub fn steal(&mut self) -> Option<T> {
        self.queue.pop_back().or_else(|| self.called.pop_back())
    }

    /// Takes out the first one that `wanted` says yes to; the order of the others stays.
    pub fn remove(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        [&mut self.called, &mut self.queue].into_iter().find_map(|queue| queue.remove(&mut wanted))
    }

    /// How many are ready.
    pub fn len(&self) -> usize {
        self.queue.len() + self.called.len()
    }

    /// Whether nobody is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

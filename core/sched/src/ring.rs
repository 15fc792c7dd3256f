//! The ready queue of one processor.

use alloc::collections::VecDeque;

/// Threads that are ready to run, in the order of their turns.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    queue: VecDeque<T>,
}

impl<T> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring::new()
    }
}

impl<T> Ring<T> {
    /// Nobody is ready.
    pub const fn new() -> Ring<T> {
        Ring { queue: VecDeque::new() }
    }

    /// Makes ready: its turn comes after all others.
    pub fn push_back(&mut self, thread: T) {
        self.queue.push_back(thread);
    }

    /// Whose turn it is.
    pub fn pop_front(&mut self) -> Option<T> {
        self.queue.pop_front()
    }

    /// What an idle processor may take over: the one that would wait longest here.
    pub fn steal(&mut self) -> Option<T> {
        self.queue.pop_back()
    }

    /// Takes out the first one that `wanted` says yes to; the order of the others stays.
    pub fn remove(&mut self, wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.queue.iter().position(wanted)?;
        self.queue.remove(at)
    }

    /// How many are ready.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether nobody is ready.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

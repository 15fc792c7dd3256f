//! Pages of a section that a pager is being asked for: one thread asks, the others wait until it has been answered, whatever the answer
//! was, and look anew. Everything here is done under the section's lock.

use alloc::vec::Vec;
use sched::Crowd;

/// A page, and whose pager is asked for it: a task's (its number), or the section's (0). Two tasks ask their own ones at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub page: u64,
    pub of: u64,
}

struct Question<W> {
    key: Key,
    waiters: Crowd<W>,
}

/// What is on its way. It is as long as there are threads that ask, and those are paid for.
pub struct Transit<W> {
    asked: Vec<Question<W>>,
    /// The only question, if nobody has waited for its answer: mostly there is no more.
    only: Option<Key>,
}

impl<W> Default for Transit<W> {
    fn default() -> Transit<W> {
        Transit::new()
    }
}

impl<W> Transit<W> {
    #[must_use]
    pub const fn new() -> Transit<W> {
        Transit { asked: Vec::new(), only: None }
    }

    /// Whether somebody asks for it now.
    #[must_use]
    pub fn is_asked(&self, key: Key) -> bool {
        self.only == Some(key) || self.asked.iter().any(|question| question.key == key)
    }

    /// Somebody asks, unless somebody does already. Whether this one does.
    #[inline]
    pub fn ask(&mut self, key: Key) -> bool {
        self.ask_if(key, || true)
    }

    /// The same, if there is room to write it down beside others: where there are, it is asked for. Otherwise nothing has changed.
    #[inline]
    pub fn ask_if(&mut self, key: Key, has_room: impl FnOnce() -> bool) -> bool {
        if self.only.is_none() && self.asked.is_empty() {
            self.only = Some(key);
            return true;
        }
        has_room() && self.ask_beside(key)
    }

    /// The same where there are questions.
    fn ask_beside(&mut self, key: Key) -> bool {
        let first = !self.is_asked(key);
        if first {
            self.spread();
            self.asked.push(Question { key, waiters: Crowd::new() });
        }
        first
    }

    /// The only question becomes one of many.
    fn spread(&mut self) {
        if let Some(key) = self.only.take() {
            self.asked.push(Question { key, waiters: Crowd::new() });
        }
    }

    /// Waits for the answer to a question, if it is still open; else gives the waiter back. `over` says of a waiter whether
    /// its wait has ended by something else: it need not be remembered.
    ///
    /// # Errors
    /// The waiter: there is nothing to wait for any more.
    pub fn wait(&mut self, key: Key, waiter: W, over: impl Fn(&W) -> bool) -> Result<(), W> {
        self.spread();
        match self.asked.iter_mut().find(|question| question.key == key) {
            Some(question) => {
                question.waiters.join(waiter, over);
                Ok(())
            }
            None => Err(waiter),
        }
    }

    /// It was answered, or never will be. Who has waited; they look anew.
    #[must_use = "they are to be woken"]
    pub fn answered(&mut self, key: Key) -> Vec<W> {
        if self.answered_alone(key) {
            return Vec::new();
        }
        match self.asked.iter().position(|question| question.key == key) {
            Some(at) => self.asked.swap_remove(at).waiters.disband(),
            None => Vec::new(),
        }
    }

    /// It was answered, if it was the only question and nobody has waited. Otherwise nothing has changed.
    #[inline]
    pub fn answered_alone(&mut self, key: Key) -> bool {
        let alone = self.only == Some(key);
        if alone {
            self.only = None;
        }
        alone
    }

    /// How many pages are on their way.
    #[must_use]
    pub fn count(&self) -> usize {
        self.asked.len() + usize::from(self.only.is_some())
    }
}

//! Those whom an interrupt has called: each has the next turn here, as in the kernel's round robin, so that what is left to do for a device
//! waits for no queue (SSS-29). Whoever runs has his quantum to the end first.

use crate::queue::{Queue, Ready};
use sched::Row;

/// So many wait here at most; there are hardly more interrupts. Others wait in the queue.
const ROOM: usize = 32;

const NOBODY: Ready = Ready { thread: 0, turn: 0 };

/// Of one processor.
#[derive(Clone, Debug)]
pub struct Called {
    ready: [Ready; ROOM],
    len: usize,
    row: Row,
    /// As it was before the last choice, and whom that was, of these.
    before: Row,
    last: Ready,
}

impl Default for Called {
    fn default() -> Called {
        Called::new()
    }
}

impl Called {
    #[must_use]
    pub const fn new() -> Called {
        Called { ready: [NOBODY; ROOM], len: 0, row: Row::new(), before: Row::new(), last: NOBODY }
    }

    /// One more. Whether there was room.
    pub fn put(&mut self, ready: Ready) -> bool {
        let has_room = self.len < ROOM;
        if has_room {
            self.ready[self.len] = ready;
            self.len += 1;
        }
        has_room
    }

    /// One who waits in the queue for this turn is as if an interrupt had called him. Who does not wait there is not known here, any more or yet.
    pub fn hurry(&mut self, queue: Queue<'_>, ready: Ready) {
        if self.len < ROOM && queue.take_out(ready) {
            self.put(ready);
        }
    }

    /// Whose turn it is now; `None`: that of the first one of the queue, if there is one. `running` goes on if it is that, unless this is the turn that
    /// it `gave` away.
    #[inline]
    pub fn take(&mut self, queue: Queue<'_>, running: u64, gave: Ready) -> Option<Ready> {
        self.before = self.row;
        self.last = NOBODY;
        if self.len > 0 && queue.first_of_all().is_some_and(|first| first.thread == running && first != gave) {
            return None;
        }
        if !self.row.is_next(self.len > 0, !queue.is_empty()) {
            return None;
        }
        self.last = self.ready[0];
        self.ready.copy_within(1..self.len, 0);
        self.len -= 1;
        Some(self.last)
    }

    /// Whoever was chosen last does not run: it is as if nobody had been. If this is whom [`Called::take`] has said, he is the first
    /// again, unless his turn is `past`.
    pub fn undo(&mut self, ready: Ready, past: bool) {
        self.row = self.before;
        let was_taken = self.last == ready && ready != NOBODY;
        self.last = NOBODY;
        if was_taken && !past && self.put(ready) {
            self.ready[..self.len].rotate_right(1);
        }
    }

    /// Whether [`Called::take`] has said this one last.
    pub fn was_taken(&self, ready: Ready) -> bool {
        self.last == ready && ready != NOBODY
    }
}

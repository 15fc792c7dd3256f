//! Turns that threads have given to others, which hold what they wait for (pitfall H13).

use crate::queue::{Queue, Ready};

/// A pair, as the kernel reports it: the waiter stays ready, and may give its next turn again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    pub waiter: u64,
    /// Where the waiter was in the queue: there the other one runs for that turn.
    level: u64,
    key: u64,
    /// Who is to run, and the turn that it is ready for.
    pub to: Ready,
}

/// The loans of one processor: at most one is to be carried out, and one is being so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loans {
    next: Option<Lent>,
    running: Option<Lent>,
}

impl Loans {
    /// The thread `waiter`, which has run at `level` with this key, gives its turn to another one. If it runs on a turn that was given to
    /// it, it passes that on: so who waits for somebody that waits helps the last one of the chain.
    pub fn lend(&mut self, waiter: u64, (level, key): (u64, u64), to: Ready) {
        let above = self.running.filter(|lent| lent.to.thread == waiter);
        let (level, key) = above.map_or((level, key), |lent| (lent.level, lent.key).min((level, key)));
        self.next = Some(Lent { waiter, level, key, to });
    }

    /// The loan that is to be carried out now, if that turn is still the waiter's to give: nobody who comes before it is ready.
    pub fn take(&mut self, queue: Queue<'_>) -> Option<Lent> {
        let lent = self.next.take()?;
        let first = queue.highest().map(|highest| (highest, queue.first_key()));
        first.is_none_or(|first| first >= (lent.level, lent.key)).then_some(lent)
    }

    /// It could not be carried out yet.
    pub fn put_back(&mut self, lent: Lent) {
        self.next = Some(lent);
    }

    /// Who is to run now: on a turn that was given to it, or (`None`) on its own.
    pub fn begin(&mut self, lent: Option<Lent>) {
        self.running = lent;
    }
}

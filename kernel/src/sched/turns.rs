//! What takes long goes by parts, each of which ends in bounded time; whoever else is ready has a turn in between (architecture, section 14, bounded
//! calls; pitfalls, R5).

use crate::processor::here;
use crate::saved::Saved;
use crate::seat::NO_SEAT;
use crate::section::Section;
use crate::thread::Thread;
use abi::Error;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// How far something long has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// It goes on when it is asked for again.
    More,
}

/// Whether this processor has something else to see to: it may be somebody's turn, or the thread was killed. Asked where interrupts were just let in.
pub fn is_due() -> bool {
    here().must_attend()
}

/// The running thread makes its call once more when it goes on; what the kernel has done of it is done.
fn again(thread: Saved<'_>) {
    thread.inner.lock().area.registers_mut().repeat_call();
}

/// A call about a section that goes by parts. Its answer, or none yet.
pub fn by_parts(
    thread: Saved<'_>,
    base: u64,
    go_on: impl FnOnce(&Section) -> Result<Progress, Error>,
) -> Option<Result<u64, Error>> {
    let section = match Section::named(base).and_then(|section| thread.unfinished.goes_on_with(section)) {
        Ok(section) => section,
        Err(error) => {
            thread.unfinished.forget();
            return Some(Err(error));
        }
    };
    // First: who finds a part done is to know whose.
    thread.unfinished.note(&section);
    let progress = go_on(&section);
    if progress == Ok(Progress::More) {
        again(thread);
        return None;
    }
    thread.unfinished.forget();
    Some(progress.map(|_| 0))
}

/// The section that a thread's call goes on with when it is made again, if it is in the middle of one: another one that has come to lie there is none of
/// that call's business. Written by the thread alone.
#[derive(Default)]
pub struct Unfinished {
    /// 0: nothing is unfinished.
    base: AtomicU64,
    serial: AtomicU64,
}

impl Unfinished {
    /// It begins, or goes on.
    pub fn note(&self, section: &Section) {
        self.serial.store(section.serial, Ordering::Relaxed);
        self.base.store(section.base, Ordering::Release);
    }

    /// The thread makes such a call, from the start or once more.
    ///
    /// # Errors
    /// `NotFound`: what it was about has gone.
    pub fn goes_on_with(&self, section: Arc<Section>) -> Result<Arc<Section>, Error> {
        let base = self.base.load(Ordering::Relaxed);
        if base == section.base && self.serial.load(Ordering::Relaxed) != section.serial { Err(Error::NotFound) } else { Ok(section) }
    }

    /// It goes on somewhere else.
    pub fn forget(&self) {
        self.base.store(0, Ordering::Relaxed);
    }

    /// Whether a call about this section is in the middle.
    pub fn is_about(&self, section: &Section) -> bool {
        self.base.load(Ordering::Acquire) == section.base && self.serial.load(Ordering::Relaxed) == section.serial
    }
}

/// A thread that may end, and is the last one of a task that does: some of what the task has goes, on this thread's time. Whether there may be more. (A
/// scheduler's is not waited for.)
pub(super) fn lessens(thread: &Arc<Thread>) -> bool {
    thread.seat.load(Ordering::Relaxed) == NO_SEAT && thread.task.lessen(thread)
}

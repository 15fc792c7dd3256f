//! Two that delete a section at once: what one of them has done of it is not in the other one's way, so it goes by parts whoever is at it.

use super::{MOST, filled, len_of};
use crate::deaths::{no_more_lost, settled, settled_with};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::Error;
use musubi::rt::{section, task, thread};

const LEN: u64 = 320 << 20;
const TRIES: usize = 8;

static GO: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

pub fn delete_at_once() -> Outcome {
    let mut before = settled()?;
    let mut at_once = 0;
    for n in 0..=TRIES {
        let section = filled(LEN)?;
        let base = section.base();
        core::mem::forget(section);
        for state in [&ENDED, &WRONG] {
            state.store(0, Ordering::SeqCst);
        }
        GO.store(false, Ordering::SeqCst);
        let deletes = move || {
            while !GO.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            match section::delete(base) {
                Ok(()) | Err(Error::NotFound) => {}
                Err(error) => WRONG.store(error.word(), Ordering::SeqCst),
            }
            ENDED.fetch_add(1, Ordering::SeqCst);
        };
        let both = [thread::spawn(deletes, 0), thread::spawn(deletes, 0)];
        GO.store(true, Ordering::SeqCst);
        // What is seen of it last: nearly all of it, if the rest has gone at once.
        let mut last = LEN;
        while let Some(len) = len_of(base) {
            holds!(len <= last, "{len} bytes after {last}");
            last = len;
        }
        at_once += usize::from(n > 0 && last > LEN / 2);
        for one in both {
            one.and_then(thread::Thread::join).map_err(doing("a thread that deletes"))?;
        }
        same!(WRONG.load(Ordering::SeqCst), 0, "what one of them was told");
        same!(ENDED.load(Ordering::SeqCst), 2, "who has come back");
        same!(len_of(base), None, "the length of what is deleted");
        if n == 0 {
            // The first one grows what has to grow.
            before = settled()?;
        }
    }
    // (On one processor nobody looks while they are at it, but between two turns.)
    let is_seen = task::processors().count() > 1;
    holds!(!is_seen || 2 * at_once <= TRIES, "{at_once} of {TRIES} times most of it went at once");
    settled_with(|after| no_more_lost(&before, after, MOST)).map(drop)
}

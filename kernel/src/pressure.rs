//! Short memory, told to one program by a message (SSS-59; docs/decisions/0020). What is done about it is that program's affair.

use crate::domain::Domain;
use crate::post::notice::Bell;
use crate::section::Section;
use crate::thread::Thread;
use abi::Error;
use abi::layout::PAGE;
use core::sync::atomic::{AtomicU64, Ordering};
use quota::Marks;
use spin::Mutex;

static BELL: Bell = Bell::new();
static MARKS: Mutex<Option<Marks>> = Mutex::new(None);
/// Frames between which there is nothing to tell ([`Marks::quiet`]).
static FROM: AtomicU64 = AtomicU64::new(0);
static TO: AtomicU64 = AtomicU64::new(u64::MAX);

/// `memory_post`.
pub fn bind(thread: &Thread, domain: &Domain, post: u64, op: u64, low: u64, high: u64) -> Result<u64, Error> {
    let marks = Marks::new(low / PAGE, high / PAGE).ok_or(Error::BadArgument)?;
    BELL.bind(thread, domain, post, op)?;
    set(&mut MARKS.lock(), (post != 0).then_some(marks));
    Ok(0)
}

fn set(kept: &mut Option<Marks>, marks: Option<Marks>) {
    let (from, to) = marks.map_or((0, u64::MAX), |marks| marks.quiet());
    FROM.store(from, Ordering::Relaxed);
    TO.store(to, Ordering::Relaxed);
    *kept = marks;
}

/// Something may have been taken or given back: to be asked where a thread has no locks.
pub fn look() {
    let (free, _) = arch::frames::count();
    if (FROM.load(Ordering::Relaxed)..=TO.load(Ordering::Relaxed)).contains(&free) {
        return;
    }
    let news = {
        let kept = &mut *MARKS.lock();
        let mut marks = *kept;
        let news = marks.as_mut().and_then(|marks| marks.look(free));
        set(kept, marks);
        news
    };
    if news.is_some() {
        BELL.ring();
    }
}

/// A text has ended.
pub fn text_ended(text: &Section) {
    BELL.text_ended(text);
}

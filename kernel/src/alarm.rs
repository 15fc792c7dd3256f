//! The alarm of the machine's clock: one moment, told to one program by a message (K1-M1's clock message).

use crate::domain::Domain;
use crate::machine::machine;
use crate::post::notice::Bell;
use crate::sched::{self, Timeout};
use crate::section::Section;
use crate::thread::Thread;
use abi::Error;
use abi::refusal::Object;
use spin::Mutex;

static BELL: Bell = Bell::new();
/// Where the moment is kept that was set last.
static SET: Mutex<Option<(usize, ::sched::Key)>> = Mutex::new(None);

/// `clock_post`.
pub fn bind(thread: &Thread, domain: &Domain, post: u64, op: u64) -> Result<u64, Error> {
    BELL.bind(thread, domain, post, op)
}

/// `clock_alarm`.
pub fn set(domain: &Domain, at: u64) -> Result<u64, Error> {
    if !BELL.is_of(domain) {
        return Err(domain.subject.refused(Object::System));
    }
    let new = (at != u64::MAX).then(|| sched::at(at, Timeout::Alarm));
    // One lock at a time. Of several that set it at once the last one's stays.
    let old = core::mem::replace(&mut *SET.lock(), new);
    if let Some((processor, key)) = old {
        machine().processors[processor].timers(|timers| timers.cancel(key));
    }
    Ok(0)
}

/// The moment has come.
pub fn ring() {
    BELL.ring();
}

/// A text has ended.
pub fn text_ended(text: &Section) {
    BELL.text_ended(text);
}

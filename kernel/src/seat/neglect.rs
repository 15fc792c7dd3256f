//! Schedulers that name nobody while threads are ready: found by the last processor that comes to rest.

use crate::machine::machine;
use crate::sched::in_stretches;
use crate::thread::Thread;
use ::sched::{Look, Neglect, Phase, Reason, Rest, Seen};
use arch::time;
use core::sync::atomic::Ordering;
use spin::Mutex;

static NEGLECT: Mutex<Neglect> = Mutex::new(Neglect::new());

/// Called by a processor that idles, before it waits for an interrupt: when it is to look again. `is_over`: in this rest it has looked, and
/// nobody was ready.
pub fn look(is_over: &mut bool) -> Option<u64> {
    if *is_over || !machine().processors.iter().any(|p| p.office.is_taken()) || !all_rest() {
        return None;
    }
    let rest = NEGLECT.lock().rests(time::now());
    let mut look = match rest {
        Rest::Nothing => return None,
        Rest::Until(at) => return Some(at),
        Rest::Look(look) => look,
    };
    in_stretches(machine().threads.all(), |thread| sees(&mut look, &thread));
    let still = all_rest();
    let seen = NEGLECT.lock().looked(look, still, time::now());
    match seen {
        Seen::Again(at) => return Some(at),
        Seen::Nothing => *is_over = true,
        Seen::Neglected(number) => put_out(number),
    }
    None
}

/// No processor does anything, or is about to: who sits there has read all that it was told. (One whose host is late is not taken for one that rests.)
fn all_rest() -> bool {
    let mut online = machine().processors.iter().filter(|p| p.online.load(Ordering::Relaxed));
    online.all(|p| p.is_free() && !p.office.has_news())
}

/// A parked thread waits for whoever has parked it: that is its sleep. A level of a scheduler runs when it is wanted.
fn sees(look: &mut Look, thread: &Thread) {
    let turn = {
        let wait = thread.wait.lock();
        (wait.life.phase() == Phase::Ready && !wait.life.is_parked() && !thread.serves.load(Ordering::Relaxed)).then(|| wait.life.turn())
    };
    if let Some(turn) = turn
        && machine().processors[thread.processor.load(Ordering::Relaxed)].office.is_taken()
    {
        look.sees(thread.number, turn);
    }
}

/// Whoever was told of the thread loses all its seats: which of them has forgotten it is its own affair.
fn put_out(number: u64) {
    let Some(thread) = machine().threads.find(number) else { return };
    let Some(text) = machine().processors[thread.processor.load(Ordering::Relaxed)].office.text() else { return };
    for p in machine().processors.iter().filter(|p| p.office.is_of(&text)) {
        p.office.accuse(Reason::Neglect);
        p.attend();
        p.poke();
    }
}

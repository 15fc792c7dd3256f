//! Those who are put by (docs/decisions/0009): a plain message has come for them, and they go on where its sender waits, or where nobody else runs.

use super::{doze, fail, pool, wake};
use crate::machine::machine;
use crate::processor::{Processor, here};
use crate::watch;
use ::post::Woken;
use ::sched::{QUANTUM_NS, place};
use arch::pass::{Card, card};
use arch::post::{Frame, Kept, Way};
use arch::time;
use core::sync::atomic::Ordering;

/// The sender of a plain message goes on, and who has waited for it is put by: he goes on here when the sender waits, or whoever runs here then,
/// or at a processor that has nothing to do. The kernel proper makes him ready when it is entered, which is within a turn. Whether he
/// was put by: not where a scheduler is to be asked, and not beside as many as have room. Who rests where a processor dozes goes on there.
#[inline(always)]
pub(super) fn put(woken: &Woken) -> bool {
    let (here, processors) = (here(), &machine().processors);
    let Some(card) = card(woken.card).filter(|card| !woken.touched && card.number() == woken.thread) else { return false };
    if !card.is_next(woken.thread, here.index) {
        return doze::put_there(card, woken);
    }
    // (A scheduler where he was last is to hear of him, too.)
    let is_asked = || here.office.is_taken() || processors.get(card.last()).is_some_and(|p| p.office.is_taken());
    if is_asked() || !here.put_by.put(woken.receiver) {
        return false;
    }
    if !here.alone {
        // As `sched::ready` would choose.
        let is_free = |p: usize| p != here.index && processors[p].is_free();
        let other = place(card.last(), processors.len(), is_free);
        if is_free(other) {
            processors[other].poke();
        }
    }
    let until = time::now() + QUANTUM_NS;
    if here.alarm().is_none_or(|at| at > until) {
        here.set_alarm(Some(until));
    }
    true
}

/// Who was put by here goes on with what it was sent: on a turn of its own, or where others are ready on what is left of its sender's, whose end the alarm is set for. If it
/// may not by the short way, that is the kernel proper's.
#[inline(always)]
pub(super) fn go_on(frame: &mut Frame, woken: &Woken, processor: usize) -> Option<Way> {
    let next = card(woken.card).and_then(|card| card.next_told(woken.thread, processor))?;
    watch::runs(processor, woken.thread, here().queue.is_empty());
    let mut kept = None;
    // There is something: that is why it was put by.
    if let Some(Err(error)) = pool().collect_into(woken.receiver, |letter| kept = Some(Kept::new(letter.registers()))) {
        fail(frame, error);
    }
    Some(Way::To(next, kept))
}

/// Whoever was put by here is made ready like anybody else. First thing on every entry, once it is written down what has run here; and last thing
/// on a way out that has looked around.
#[inline]
pub fn settle(here: &Processor) {
    while let Some(record) = here.put_by.take_any() {
        wake(pool().woken(record));
    }
}

/// Somebody has told this processor, in the kernel, to look: it may be of one who was put by here meanwhile.
pub fn is_told(here: &Processor) {
    if here.put_by.who().is_some() {
        here.attend();
    }
}

/// This processor has nothing to do: it gets one who was put by. Whether there was one. (Where a scheduler has sat down meanwhile, that hears of him.)
pub fn get(here: &Processor) -> bool {
    let woken = take(here);
    if let Some(woken) = woken {
        super::end(woken, !here.office.is_taken());
        // He is the one who goes on here.
        let handed = here.local.hold().handed.clone();
        handed.filter(|thread| thread.number == woken.thread).into_iter().for_each(|thread| thread.card.tell());
    }
    woken.is_some()
}

/// Takes one who was put by, here or elsewhere. Where he rests at another processor without that being written down, or a scheduler is to be
/// asked, that processor is to make him ready; one that has nothing to do has been told of him.
pub(super) fn take(here: &Processor) -> Option<Woken> {
    let at = |p: &Processor| {
        // If somebody else is faster, there is the next one.
        while let Some(record) = p.put_by.who() {
            let card = card(pool().woken(record).card);
            if here.office.is_taken() || !card.is_some_and(Card::lies) {
                if !p.idle.load(Ordering::SeqCst) {
                    p.look_around();
                }
                return None;
            }
            if p.put_by.take(record) {
                return Some(record);
            }
        }
        None
    };
    let elsewhere = || machine().processors.iter().filter(|p| p.index != here.index).find_map(at);
    // Of whoever has the record now: he was put by, and not the one who was there when it was looked at.
    here.put_by.take_any().or_else(elsewhere).map(|record| pool().woken(record))
}

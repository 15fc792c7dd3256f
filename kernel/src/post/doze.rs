//! A processor whose thread has just begun to wait for a message, and that has nothing else to do, *dozes* before it idles: that the
//! thread waits is not written down yet. A message that comes meanwhile has it go on where it is, and takes no lock but the post's
//! (K1-7). Whatever else happens, and the end of a moment, the kernel proper sees to: it settles first. That is for who was told something by a
//! plain message before: one that is called is handed its caller's processor, and for that it has to lie (docs/decisions/0009).

use super::put_by;
use crate::line;
use crate::machine::machine;
use crate::processor::{Processor, count, here};
use crate::sched;
use crate::watch;
use ::post::Woken;
use ::sched::QUANTUM_NS;
use arch::pass::Card;
use arch::{apic, cpu, time};
use core::sync::atomic::Ordering;

/// So long at most, in nanoseconds: the thread is seen to run meanwhile.
const MOMENT_NS: u64 = 1_000_000;

/// What others only want this processor to look up for.
const LOOKS: u64 = 1 << (apic::RESCHEDULE - apic::FIRST_VECTOR) | 1 << (apic::SHOOTDOWN - apic::FIRST_VECTOR);

/// What has ended it.
pub(super) enum Doze {
    /// Somebody is to go on here.
    Came(Woken),
    /// The kernel proper is wanted, and may have that one to make ready. It [wakes up](wake_up) first.
    Kernel(Option<Woken>),
}

/// Waits a moment for somebody who can go on here.
pub(super) fn doze() -> Doze {
    let here = here();
    if here.alone || is_wanted(here) {
        return Doze::Kernel(None);
    }
    let since = time::now();
    watch::runs(here.index, 0, true);
    // Nobody waits for this processor to forget anything: it does that before a thread goes on.
    let woken = here.away_from_user(|| {
        here.set_idle(true);
        line::idles(here);
        wait(here, since + MOMENT_NS)
    });
    let now = time::now();
    arch::percpu::add(&here.counters.idle_ns, now.saturating_sub(since));
    arch::pass::begins();
    let Some(woken) = woken else { return Doze::Kernel(None) };
    is_busy(here);
    sched::pass_on(here, 0);
    // Only now: whoever wants it to look around, and saw it in the kernel, relies on that.
    if here.must_attend() {
        return Doze::Kernel(Some(woken));
    }
    here.local.hold().quantum_end = now + QUANTUM_NS;
    Doze::Came(woken)
}

/// Whether there is something else to do, for which the kernel proper is needed.
fn is_wanted(here: &Processor) -> bool {
    here.must_attend() || here.office.is_taken() || machine().processors.iter().any(|p| !p.queue.is_empty())
}

fn wait(here: &Processor, until: u64) -> Option<Woken> {
    loop {
        if is_wanted(here) {
            return None;
        }
        let woken = put_by::take(here);
        if woken.is_some() || time::now() >= until {
            return woken;
        }
        if here.alarm().is_none_or(|at| at > until) {
            here.set_alarm(Some(until));
        }
        cpu::idle_wait();
        if arch::percpu::pending() & !LOOKS != 0 {
            return None;
        }
        (0..arch::percpu::take_pending().count_ones()).for_each(|_| count(&here.counters.interrupts));
    }
}

/// First thing of the kernel proper after a call of the short way: what has come to a processor that dozed is served as to one that idles.
pub(super) fn wake_up(here: &Processor) {
    if here.idle.load(Ordering::Relaxed) {
        sched::breathe();
        is_busy(here);
        sched::pass_on(here, 1);
    }
}

fn is_busy(here: &Processor) {
    here.set_idle(false);
    line::is_busy(here);
}

/// A message has come for one who rests where a processor dozes: that one has him go on, or makes him ready when it next settles. Whether it is told.
pub(super) fn put_there(card: &Card, woken: &Woken) -> bool {
    let there = card.rests_at().and_then(|at| machine().processors.get(at));
    let Some(there) = there.filter(|p| p.idle.load(Ordering::SeqCst) && !p.office.is_taken()) else { return false };
    // Alone: he is taken at once, and nobody would see to it that a second one is within a turn.
    let is_put = there.put_by.put_alone(woken.receiver);
    if is_put {
        there.poke();
    }
    is_put
}

/// The same, of a message in whose sender's place he cannot go on.
#[cold]
pub(super) fn is_there(woken: &Woken) -> bool {
    let card = arch::pass::card(woken.card).filter(|card| !woken.touched && card.number() == woken.thread);
    card.is_some_and(|card| put_there(card, woken))
}

//! Waiting for something to do, with interrupts on.

use super::{pass_on, set_alarm};
use crate::gate::lent;
use crate::line;
use crate::machine::machine;
use crate::pass;
use crate::post;
use crate::processor::{Processor, count, here};
use crate::seat::neglect;
use crate::trace;
use crate::trap;
use arch::{cpu, log_out, time};
use core::sync::atomic::Ordering;

/// Serves the interrupts that were noted while kernel code ran with interrupts on.
fn serve_noted(here: &Processor) {
    let mut pending = arch::percpu::take_pending();
    while pending != 0 {
        let bit = pending.trailing_zeros() as u8;
        pending &= pending - 1;
        count(&here.counters.interrupts);
        let vector = arch::apic::FIRST_VECTOR + bit;
        trace::serves(here, vector, || trap::interrupt(vector));
    }
}

/// So deep interrupts come in what others do. The kernel's stack has an end, and of timers any number may be due.
const BREATHS_MAX: u32 = 4;

/// Between the slices of a long operation: interrupts are served, so that their latency does not grow with the length of
/// a section (pitfalls, R5). No locks may be held.
pub fn breathe() {
    let here = here();
    let breaths = here.breaths.load(Ordering::Relaxed);
    if breaths == BREATHS_MAX {
        return;
    }
    here.breaths.store(breaths + 1, Ordering::Relaxed);
    trace::breathes(here, || {
        cpu::let_interrupts_in();
        serve_noted(here);
    });
    here.breaths.store(breaths, Ordering::Relaxed);
    if here.alarm().is_none() {
        // The timer has come, and the way out, which sets it again, may be far away.
        here.set_alarm(here.next_timer().map(|next| next.max(time::now())));
    }
}

/// In the middle of something that interrupts are not to see: nothing in it lets them in, however long it takes.
pub fn without_breath(here: &Processor, what: impl FnOnce()) {
    let breaths = here.breaths.swap(BREATHS_MAX, Ordering::Relaxed);
    what();
    here.breaths.store(breaths, Ordering::Relaxed);
}

/// How much of something long was done since interrupts were let in.
#[derive(Default)]
pub struct Stretch(usize);

impl Stretch {
    /// So many steps are done until interrupts are let in.
    const STEPS: usize = 16;

    /// So many more were done: whether those are enough, and it is time to [`breathe`].
    pub fn is_over_after(&mut self, steps: usize) -> bool {
        self.0 += steps;
        let is_over = self.0 >= Stretch::STEPS;
        if is_over {
            self.0 = 0;
        }
        is_over
    }
}

/// Does something with each, however many they are, and breathes in between. No locks may be held.
pub fn in_stretches<T>(all: impl IntoIterator<Item = T>, mut does: impl FnMut(T)) {
    let mut stretch = Stretch::default();
    for one in all {
        does(one);
        if stretch.is_over_after(1) {
            breathe();
        }
    }
}

/// Waits for a ready thread, with no view loaded and interrupts on.
pub(super) fn idle(here: &Processor) {
    let since = time::now();
    arch::gate::load_root(arch::tables::kernel_root());
    pass::settle(here);
    here.local.hold().keep = None;
    here.set_idle(true);
    line::idles(here);
    trace::idles(here);
    let mut has_looked = false;
    let is_given = loop {
        serve_noted(here);
        let looks_at = neglect::look(&mut has_looked);
        log_out::look();
        lent::look();
        if post::put_by::get(here) {
            break true;
        }
        let until = if here.office.is_taken() {
            let until = here.office.asks_at();
            if here.office.has_news() || time::now() >= until {
                break false;
            }
            (until != u64::MAX).then_some(until)
        } else {
            if machine().processors.iter().any(|p| !p.queue.is_empty()) {
                break false;
            }
            None
        };
        set_alarm(here, [until, looks_at].into_iter().flatten().min());
        cpu::idle_wait();
    };
    // What has come to an idle processor is served as such, though something else has ended the wait.
    breathe();
    trace::is_busy(here);
    here.set_idle(false);
    line::is_busy(here);
    // Beside one who was put by, nobody of those in queues is taken up.
    pass_on(here, if is_given { 0 } else { 1 });
    arch::percpu::add(&here.counters.idle_ns, time::now().saturating_sub(since));
}

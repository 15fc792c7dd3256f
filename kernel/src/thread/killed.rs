//! Threads that are to end, and how long their callees may take.

use super::{Inner, Thread};
use crate::domain::{Domain, retire};
use crate::epc::{self, More};
use crate::machine::machine;
use crate::pager;
use crate::pass;
use crate::place;
use crate::post;
use crate::processor::{Processor, here};
use crate::sched;
use crate::seat::{self, NO_SEAT};
use crate::trace;
use crate::wait;
use crate::watch;
use abi::Error;
use abi::gate::attention;
use abi::task::{CALLEE_GRACE_NS, CALLEE_TIME_NS, CALLEE_TIME_SYSTEM_NS, CALLEE_TURNS, USER_SYSTEM};
use abi::trace::kind;
use ::sched::Phase;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::context::Registers;
use arch::fpu;
use arch::gate::domain_of;
use arch::shown::MACHINE;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use quota::Resource;

/// Of a thread: that it was killed, and how long its callees may yet take.
pub struct Kill {
    is_so: AtomicBool,
    deadline: AtomicU64,
    /// When it may be ended in a callee at the earliest: at this turn, or when it has run for so long.
    turn: AtomicU64,
    time: AtomicU64,
    /// So much of that, in ns, is what the kernel has done on its turns since.
    more: AtomicU64,
    /// It was killed with its task where it waits, and is left there until others of that have ended ([`Task::rouse`](crate::task::Task::rouse)).
    is_left: AtomicBool,
}

impl Default for Kill {
    fn default() -> Kill {
        let [is_so, is_left] = [const { AtomicBool::new(false) }; 2];
        let [deadline, turn, time, more] = [u64::MAX, 0, 0, 0].map(AtomicU64::new);
        Kill { is_so, deadline, turn, time, more, is_left }
    }
}

/// Where a thread is, for who would end it.
#[derive(PartialEq)]
enum Place {
    /// In its own task's text, and in nobody else's call.
    Own,
    /// There, but called by somebody whom it has called: that one is in the middle of something.
    Callback,
    Callee,
}

/// The thread has ended: the texts that it has called know of it no longer. (Of plain calls it is not known from where they were: a text forgets these when others
/// come.)
fn leave_texts(thread: &Thread, leads: BTreeMap<u32, BTreeSet<u64>>) {
    let text = |number| thread.inner.lock().domain_number(number).ok().map(|domain| domain.text.clone());
    for (to, all) in leads {
        let to = text(to);
        sched::in_stretches(all, |record| {
            // Whom nobody knows of is not told that a call is none any more.
            thread.inner.lock().gate.clear_record(record);
            if let (Some(to), Some(from)) = (&to, text(domain_of(record))) {
                to.left(thread, &from, record);
            }
        });
    }
}

impl Thread {
    pub fn is_killed(&self) -> bool {
        self.kill.is_so.load(Ordering::SeqCst)
    }

    pub fn kill_deadline(&self) -> u64 {
        self.kill.deadline.load(Ordering::SeqCst)
    }

    /// How long a killed thread may yet run in a callee, in ns. The time alone does not say that its callee has had any: with
    /// many others ready it may not have been its turn, and it holds a lock.
    pub fn grace_left(&self, now: u64) -> u64 {
        let deadline = self.kill_deadline();
        let by_time = deadline.saturating_sub(now);
        // Its callee has said that it is done.
        let in_system = deadline != 0 && self.domain().text.owner().user == USER_SYSTEM;
        if !in_system && self.wait.lock().life.turn() >= self.kill.turn.load(Ordering::SeqCst) {
            return by_time;
        }
        let more = if in_system { CALLEE_TIME_SYSTEM_NS - CALLEE_TIME_NS } else { 0 };
        by_time.max((self.kill.time.load(Ordering::SeqCst) + more).saturating_sub(self.ran()))
    }

    /// Ends the thread as soon as it executes its own task's text; in a callee it has a bounded time (architecture 14).
    pub fn kill(self: &Arc<Thread>) {
        if self.begins_to_end() || self.is_left_no_more() {
            self.hears_that_it_ends();
        }
    }

    /// The same with its whole task. One that waits in its own text, and no message can come to, is left there for the time being: of a task with many not all are ready at once, each
    /// with much to give back, before others who are. Nobody has it go on by the short way, so it executes nothing more.
    pub fn kill_with_task(self: &Arc<Thread>) {
        if !self.begins_to_end() {
            return;
        }
        self.kill.is_left.store(true, Ordering::SeqCst);
        self.card.do_not_lie();
        if !self.waits_for_nobody() && self.is_left_no_more() {
            self.hears_that_it_ends();
        }
    }

    /// One that was left where it waits ends now. Whether it was.
    pub fn goes_with_task(self: &Arc<Thread>) -> bool {
        let goes = self.is_left_no_more();
        if goes {
            self.hears_that_it_ends();
        }
        goes
    }

    /// Whether it was killed, and nobody is to end this wait of it but who ends its task's threads one after another.
    pub fn is_left(&self) -> bool {
        self.kill.is_left.load(Ordering::SeqCst)
    }

    fn is_left_no_more(&self) -> bool {
        self.kill.is_left.swap(false, Ordering::SeqCst)
    }

    /// Outside of calls, where nobody waits for what it does: not for a message either, which would be had by who ends. (A scheduler's processor does not
    /// wait for others.)
    fn waits_for_nobody(&self) -> bool {
        let ticket = {
            let wait = self.wait.lock();
            (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
        };
        let is_at_home = || {
            let inner = &mut *self.inner.lock();
            inner.sync();
            inner.depth() == 0
        };
        ticket.is_some_and(|ticket| !post::is_wait(self, ticket)) && self.seat.load(Ordering::SeqCst) == NO_SEAT && is_at_home()
    }

    /// It is killed from here on. Whether it was not before.
    fn begins_to_end(&self) -> bool {
        let is_first = !self.kill.is_so.swap(true, Ordering::SeqCst);
        if is_first {
            self.has_its_time();
            self.inner.lock().gate.tell(attention::KILLED);
        }
        is_first
    }

    /// It ends where it waits, or its callee hears of it; or its processor looks around.
    fn hears_that_it_ends(self: &Arc<Thread>) {
        let deadline = self.kill_deadline();
        let (ticket, processor) = {
            let wait = self.wait.lock();
            let processor = &machine().processors[self.processor.load(Ordering::SeqCst)];
            ((wait.life.phase() == Phase::Waiting).then_some(wait.ticket), processor)
        };
        processor.attend();
        match ticket {
            Some(ticket) => {
                if !self.in_own_text(&mut self.inner.lock()) {
                    sched::grace_until(deadline, self, ticket);
                }
                // Its callee hears of it at once, and may come back early.
                if !sched::wake(self, ticket, Err(Error::Killed)) {
                    // A message was faster, and it may run by now, where nobody has written that down.
                    machine().processors.iter().for_each(Processor::look_around);
                }
            }
            None if pass::unpark(self) => {}
            None => processor.poke(),
        }
    }

    /// Its callee has so long from now on.
    fn has_its_time(&self) {
        let deadline = arch::time::now() + CALLEE_GRACE_NS;
        self.kill.turn.store(self.wait.lock().life.turn() + CALLEE_TURNS, Ordering::SeqCst);
        self.kill.time.store(self.ran() + CALLEE_TIME_NS, Ordering::SeqCst);
        self.kill.deadline.store(deadline, Ordering::SeqCst);
    }

    /// What the kernel has done on its turns for what it has ended (so many more turns, for so long) was no time of a callee's, whom it has called for that;
    /// but a callee that ends one thing after the other has an end, too.
    pub fn has_worked(&self, turns: u64, ns: u64) {
        let ns = ns.min(CALLEE_TIME_SYSTEM_NS.saturating_sub(self.kill.more.load(Ordering::Relaxed)));
        if !self.is_killed() || ns == 0 {
            return;
        }
        self.kill.more.fetch_add(ns, Ordering::Relaxed);
        let is_set = |deadline: u64| (deadline != 0 && deadline != u64::MAX).then(|| deadline.saturating_add(ns));
        if self.kill.deadline.fetch_update(Ordering::SeqCst, Ordering::SeqCst, is_set).is_ok() {
            self.kill.turn.fetch_add(turns, Ordering::SeqCst);
            self.kill.time.fetch_add(ns, Ordering::SeqCst);
        }
    }

    fn whereabouts(&self, inner: &mut Inner) -> Place {
        inner.sync();
        let depth = inner.depth();
        if depth == 0 {
            return Place::Own;
        }
        if inner.domain.text.owner().number != self.task.number {
            return Place::Callee;
        }
        // Who has ended has nothing left to put in order.
        let is_others = |depth: usize| {
            let lead = inner.gate.lead(inner.gate.frame(depth).record);
            let domain = lead.and_then(|(number, _)| inner.domain_number(number).ok());
            domain.is_some_and(|domain| !domain.text.is_dead() && domain.text.owner().number != self.task.number)
        };
        if (1..depth).any(is_others) { Place::Callback } else { Place::Own }
    }

    fn in_own_text(&self, inner: &mut Inner) -> bool {
        self.whereabouts(inner) == Place::Own
    }

    /// On the way out of the kernel, of the running thread: if it is killed, what a callee of its has called of its own program ends at once, and
    /// the callee has its time.
    pub fn leave_callbacks(self: &Arc<Thread>) {
        if !self.is_killed() || self.card.is_parked() {
            return;
        }
        while self.whereabouts(&mut self.inner.lock()) == Place::Callback {
            let waits = {
                let wait = self.wait.lock();
                match wait.life.phase() {
                    Phase::Waiting => Some(wait.ticket),
                    _ if wait.life.runs_at(here().index) => None,
                    // Later, then.
                    _ => return,
                }
            };
            if let Some(ticket) = waits {
                sched::wake(self, ticket, Err(Error::Killed));
                return;
            }
            // Its threads are killed before its texts hear of the end.
            let error = if self.domain().text.is_closed() { Error::Dead } else { Error::Killed };
            if !epc::unwind(self, error) {
                return;
            }
        }
    }

    /// Whether a killed thread is where it may be ended.
    pub fn may_end(&self) -> bool {
        self.is_killed() && (self.grace_left(arch::time::now()) == 0 || self.in_own_text(&mut self.inner.lock()))
    }

    /// Of one that is killed, and may have begun to wait for a message: that wait ends first, or a message, or a question's answer, would go to a thread
    /// that is no more. Whether it did wait; whoever has ended that makes it ready, this or who has just sent something.
    pub fn is_given_something(self: &Arc<Thread>) -> bool {
        let ticket = {
            let wait = self.wait.lock();
            (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
        };
        let ticket = ticket.filter(|ticket| post::is_wait(self, *ticket));
        ticket.inspect(|ticket| _ = sched::wake(self, *ticket, Err(Error::Killed))).is_some()
    }

    /// The time is over even for a callee: of a killed thread, or of one that waits in a text that has ended. It may have left that since.
    pub fn grace_over(self: &Arc<Thread>) {
        let ticket = {
            let wait = self.wait.lock();
            if wait.life.phase() != Phase::Waiting {
                return;
            }
            wait.ticket
        };
        if self.is_killed() {
            sched::wake(self, ticket, Err(Error::Killed));
        } else if self.domain().text.is_dead() {
            sched::wake(self, ticket, Err(Error::Dead));
        }
    }

    /// The callee itself has said that it is done with this killed thread.
    pub fn end_of_grace(&self) {
        [&self.kill.deadline, &self.kill.turn].into_iter().for_each(|limit| limit.store(0, Ordering::SeqCst));
        machine().processors[self.processor.load(Ordering::Relaxed)].attend();
    }

    /// What others wait for of a thread that goes on no more in user code, before what takes long: pages that it was to bring, its group of texts, what it was
    /// asked, what it is in the middle of. Its calls are over. On the processor that it runs on, or has begun to wait on; again does nothing.
    pub fn lets_go(&self) {
        let mut left = Vec::new();
        let leads = {
            let mut guard = self.inner.lock();
            let inner = &mut *guard;
            inner.sync();
            // Nobody calls any more, so nothing is to be found out of what leads where.
            let leads = inner.leads.end(&self.task);
            let was_away = inner.depth() > 0;
            while let Some((_, more)) = inner.pop() {
                left.extend(more);
            }
            if was_away {
                // What it had in others' texts is nobody's to look at.
                *inner.area.registers_mut() = Registers::start(0, 0);
                fpu::scrub(None);
            }
            leads
        };
        leave_texts(self, leads);
        left.iter().filter_map(More::served).for_each(|served| _ = pager::release(served));
        self.unfinished.ends();
        place::lets_go(here());
        place::leave_group(self);
        post::thread_ended(self);
    }

    /// It ends by itself: with its task if it is the last one, by parts.
    pub fn ends(self: &Arc<Thread>, code: u64) {
        if !self.task.ends_with(self, code) {
            self.end(code);
        }
    }

    /// Ends the thread, on the processor that it runs on, or has begun to wait on: unless somebody has made it ready meanwhile, and whoever takes
    /// it up comes here again.
    pub fn end(self: &Arc<Thread>, code: u64) {
        let timers = {
            let mut wait = self.wait.lock();
            if !wait.life.end(here().index) {
                return;
            }
            wait.take_timers()
        };
        sched::cancel(timers);
        here().attend();
        trace::note(kind::THREAD_END, self.number, code);
        seat::ended(self);
        self.lets_go();
        // (It has no turns any more.)
        while sched::does_some(self) {}
        let (domains, gone) = {
            let mut inner = self.inner.lock();
            // Its roots are about to go.
            arch::gate::load_root(arch::tables::kernel_root());
            self.task.release(Resource::Frames, inner.gate.owned());
            let gone = core::mem::take(&mut inner.gone);
            (core::mem::take(&mut inner.domains), gone)
        };
        let retire = |domain: &Arc<Domain>| {
            retire(domain);
            sched::breathe();
        };
        gone.iter().for_each(retire);
        drop(gone);
        domains.iter().flatten().for_each(retire);
        sched::in_stretches(domains.into_iter().flatten(), |domain| domain.retire_view());
        wait::forget(self);
        // Before anybody is told: who has joined it may start another one.
        self.task.release(Resource::Threads, 1);
        // Who has joined it does not read of it any more.
        self.shown.hide();
        self.own.hide();
        // First its task knows the code, then the thread is gone: who asks finds one or the other.
        self.task.remember_end(self.number, code);
        *self.exit.lock() = Some(code);
        machine().threads.remove(self.number);
        MACHINE.threads.fetch_sub(1, Ordering::Relaxed);
        self.task.thread_gone(self.number, code);
        self.waiters.wake_all();
        watch::ended(self);
        if self.task.is_dead() {
            // In its place.
            self.task.rouse(1);
        }
    }
}

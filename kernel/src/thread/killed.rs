//! Threads that are to end, and how long their callees may take.

use super::{Inner, Thread};
use crate::epc;
use crate::machine::machine;
use crate::pass;
use crate::processor::{Processor, here};
use crate::sched;
use abi::Error;
use abi::gate::attention;
use abi::task::{CALLEE_GRACE_NS, CALLEE_TIME_NS, CALLEE_TIME_SYSTEM_NS, CALLEE_TURNS, USER_SYSTEM};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use ::sched::Phase;

/// Where a thread is, for who would end it.
#[derive(PartialEq)]
enum Place {
    /// In its own task's text, and in nobody else's call.
    Own,
    /// There, but called by somebody whom it has called: that one is in the middle of something.
    Callback,
    Callee,
}

impl Thread {
    pub fn kill_deadline(&self) -> u64 {
        self.kill_deadline.load(Ordering::SeqCst)
    }

    /// How long a killed thread may yet run in a callee, in ns. The time alone does not say that its callee has had any: with
    /// many others ready it may not have been its turn, and it holds a lock.
    pub fn grace_left(&self, now: u64) -> u64 {
        let deadline = self.kill_deadline();
        let by_time = deadline.saturating_sub(now);
        // Its callee has said that it is done.
        let in_system = deadline != 0 && self.domain().text.owner().user == USER_SYSTEM;
        if !in_system && self.wait.lock().life.turn() >= self.kill_turn.load(Ordering::SeqCst) {
            return by_time;
        }
        let more = if in_system { CALLEE_TIME_SYSTEM_NS - CALLEE_TIME_NS } else { 0 };
        by_time.max((self.kill_time.load(Ordering::SeqCst) + more).saturating_sub(self.ran()))
    }

    /// Ends the thread as soon as it executes its own task's text; in a callee it has a bounded time (architecture 14).
    pub fn kill(self: &Arc<Thread>) {
        if self.killed.swap(true, Ordering::SeqCst) {
            return;
        }
        let deadline = arch::time::now() + CALLEE_GRACE_NS;
        self.kill_turn.store(self.wait.lock().life.turn() + CALLEE_TURNS, Ordering::SeqCst);
        self.kill_time.store(self.time_ns.load(Ordering::Relaxed) + CALLEE_TIME_NS, Ordering::SeqCst);
        self.kill_deadline.store(deadline, Ordering::SeqCst);
        self.inner.lock().gate.tell(attention::KILLED);
        let processor = &machine().processors[self.processor.load(Ordering::Relaxed)];
        processor.attend();
        let ticket = {
            let wait = self.wait.lock();
            (wait.life.phase() == Phase::Waiting).then_some(wait.ticket)
        };
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

    fn place(&self, inner: &mut Inner) -> Place {
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
        self.place(inner) == Place::Own
    }

    /// On the way out of the kernel, of the running thread: if it is killed, what a callee of its has called of its own program ends at once, and
    /// the callee has its time.
    pub fn leave_callbacks(self: &Arc<Thread>) {
        if !self.is_killed() || self.card.is_parked() {
            return;
        }
        while self.place(&mut self.inner.lock()) == Place::Callback {
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
            let error = if self.domain().text.is_dead() { Error::Dead } else { Error::Killed };
            if !epc::unwind(self, error) {
                return;
            }
        }
    }

    /// Whether a killed thread is where it may be ended.
    pub fn may_end(&self) -> bool {
        self.is_killed() && (self.grace_left(arch::time::now()) == 0 || self.in_own_text(&mut self.inner.lock()))
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
        [&self.kill_deadline, &self.kill_turn].into_iter().for_each(|limit| limit.store(0, Ordering::SeqCst));
        machine().processors[self.processor.load(Ordering::Relaxed)].attend();
    }
}

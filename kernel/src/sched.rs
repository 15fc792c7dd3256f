//! The kernel's plain round robin: ready queues, waiting and waking, time-outs, and leaving the kernel. Where a scheduler sits
//! in a processor's seat it decides instead (`seat.rs`); this runs where none does, or one has failed (architecture, section 15).

mod idle;
mod made_ready;
mod out;
mod timeout;
mod turns;

pub use idle::{Stretch, breathe, in_stretches, without_breath};
use idle::idle;
use out::{go, set_alarm};
pub use out::go_on;
use made_ready::tell_or_queue;
pub use made_ready::{announce, ready};
pub use timeout::{Timeout, at, grace_until, wake_at};
pub use turns::{Made, Progress, Step, Unfinished, by_parts, does_some, go_on_from, in_steps, is_due, leaves_the_end_of, leaves_the_rest_of};

use crate::fault;
use crate::line;
use crate::machine::machine;
use crate::mbcf::signal;
use crate::pager;
use crate::place;
use crate::post;
use crate::processor::{Processor, count, here};
use crate::saved::Saved;
use crate::seat::{self, Next};
use crate::task::account;
use crate::thread::{Thread, Wait, answer, seen};
use crate::trace;
use crate::watch;
use abi::trace::kind;
use abi::Error;
use abi::sched::{Event, event, op, ready as why};
use abi::task::state;
use ::sched::{BEAT_NS, Key, Life, Phase, QUANTUM_NS, Weight, successor};
use alloc::sync::Arc;
use arch::context::{PAGE_FAULT, Registers, Resume};
use arch::{cpu, time};
use core::sync::atomic::Ordering;

/// The running thread gives way by itself.
pub fn give_way(_: Saved<'_>) {
    let here = here();
    here.local.hold().yields = true;
    here.make_room();
}

/// The running thread gives way to `to`, if that is still ready for this turn; whoever sits here hears of the pair, and chooses.
pub fn lend(thread: Saved<'_>, to: &Arc<Thread>, turn: u64) -> bool {
    let here = here();
    let pair = Event { kind: event::REQUEST, detail: op::LEND as u32, thread: thread.number, a: to.number, b: turn };
    if here.office.tell(pair, Weight::Heavy).is_none() {
        if to.wait.lock().life.claim(turn, here.index).is_err() {
            return false;
        }
        to.has_had(turn);
        hand(here, to);
    }
    give_way(thread);
    true
}

/// Begins a wait of the running thread; the ticket is what a waker must show.
pub fn begin_wait(thread: Saved<'_>) -> u64 {
    begin_wait_as(thread, |_| {})
}

/// The same; `note` has the wait before anybody can find the thread in it.
pub fn begin_wait_as(thread: Saved<'_>, note: impl FnOnce(&mut Wait)) -> u64 {
    let ticket = begin_wait_that_is_looked_at(thread, note);
    // Only now: who kills the thread or ends the text from here on finds it waiting, and wakes it.
    if thread.domain().text.is_dead() {
        grace_until(0, &thread, ticket);
    } else if thread.is_killed() {
        // A killed thread that waits inside a callee waits no longer than its callee's time. Without one yet: whoever kills it finds it
        // waiting.
        let deadline = thread.kill_deadline();
        if deadline != u64::MAX {
            grace_until(deadline, &thread, ticket);
        }
    }
    ticket
}

/// The same for one who then looks himself whether the thread was killed or its text has ended, and wakes it: who does either from here on finds it
/// waiting.
pub fn begin_wait_that_is_looked_at(thread: Saved<'_>, note: impl FnOnce(&mut Wait)) -> u64 {
    here().attend();
    let mut wait = thread.wait.lock();
    wait.life.wait();
    wait.ticket += 1;
    thread.shows_posts([0; 2]);
    thread.shows(state::WAITING);
    note(&mut wait);
    wait.ticket
}

/// Makes a waiting thread ready with the result of its call. Whether it was waiting for this.
pub fn wake(thread: &Arc<Thread>, ticket: u64, result: Result<u64, Error>) -> bool {
    if let Err(error) = result
        && post::is_wait(thread, ticket)
    {
        // A message may have come first; then that is what it wakes with.
        return post::interrupt(thread, ticket, error);
    }
    // Who waits for a page or a group makes no call: nothing of it changes.
    wake_with(thread, ticket, |registers| {
        if registers.vector != PAGE_FAULT && thread.awaits_group.load(Ordering::SeqCst) != ticket {
            answer(registers, result);
        }
    })
}

/// Makes a waiting thread ready to make its call once more: what it waited for may have come.
pub fn wake_to_repeat(thread: &Arc<Thread>, ticket: u64) -> bool {
    wake_with(thread, ticket, Registers::repeat_call)
}

/// The same with registers changed otherwise.
pub fn wake_with(thread: &Arc<Thread>, ticket: u64, change: impl FnOnce(&mut Registers)) -> bool {
    wake_written(thread, ticket, || change(thread.inner.lock().area.registers_mut()))
}

/// The same for who is the only one that may end this wait, and has changed the registers already. `note`: what else is to be known before it is ready.
pub fn wake_written(thread: &Arc<Thread>, ticket: u64, note: impl FnOnce()) -> bool {
    let Some(turn) = leave_wait(thread, ticket, Life::ready, note) else { return false };
    trace::note(kind::WAKE, thread.number, turn);
    ready(thread.clone(), turn);
    true
}

/// A waiting thread gets this processor, on the turn of the running one, which waits from here on: nobody else sees it
/// ready (K1-30, 50). Its registers are changed already, as for [`wake_written`].
pub fn hand_over(thread: &Arc<Thread>, ticket: u64, note: impl FnOnce()) {
    let here = here();
    if leave_wait(thread, ticket, |life| life.resume(here.index).then_some(()), note).is_some() {
        hand(here, thread);
        trace::note(kind::HAND_OVER, thread.number, 0);
    }
}

/// A thread that was claimed goes on here, whatever is ready besides.
fn hand(here: &Processor, to: &Arc<Thread>) {
    let before = here.local.hold().handed.replace(to.clone());
    // (Somebody who sat down between two of a scheduler's calls has kept it from going on.)
    before.into_iter().for_each(|lost| found(here, lost));
    here.attend();
}

/// Who was claimed, and is in nobody's hands, is ready again.
pub fn found(p: &Processor, lost: Arc<Thread>) {
    let turn = lost.wait.lock().life.ready();
    turn.into_iter().for_each(|turn| announce(p, lost.clone(), turn, why::FOUND));
}

/// The running thread has begun a wait that nobody else may end, and goes on after all, with registers as they are.
pub fn end_wait(thread: &Arc<Thread>, ticket: u64) {
    let here = here();
    let resume = |life: &mut Life| life.resume(here.index).then(|| thread.shows(state::RUNNING));
    leave_wait(thread, ticket, resume, || ());
}

/// Ends a wait, if the thread is still in it, in one of the ways to do so. What it goes on with is there before anybody can have it: who puts a
/// scheduler out looks for all that are ready, and a scheduler may guess a turn.
fn leave_wait<T>(thread: &Thread, ticket: u64, how: impl FnOnce(&mut Life) -> Option<T>, change: impl FnOnce()) -> Option<T> {
    let (left, timers) = {
        let mut wait = thread.wait.lock();
        if wait.life.phase() != Phase::Waiting || wait.ticket != ticket {
            return None;
        }
        let left = how(&mut wait.life)?;
        change();
        thread.card.rise();
        (left, wait.take_timers())
    };
    cancel(timers);
    Some(left)
}

/// Timers of a wait that is over: they would stay until they are due, which may be never. Call without locks.
pub fn cancel(timers: [Option<(usize, Key)>; 2]) {
    for (processor, key) in timers.into_iter().flatten() {
        machine().processors[processor].timers(|timers| timers.cancel(key));
    }
}

/// The timer interrupt.
pub fn tick() {
    let here = here();
    here.counters.left_flags.fetch_or(cpu::flags() & cpu::FLAGS_LEFT, Ordering::Relaxed);
    // The way out sets the next alarm, whatever this one was for.
    here.attend();
    let now = time::now();
    here.alarm_over();
    let beat = {
        let mut local = here.local.hold();
        let beat = (now >= local.beat).then(|| now < local.beat + BEAT_NS / 2);
        if beat.is_some() {
            local.beat = now + BEAT_NS;
        }
        if let Some(thread) = &local.current {
            account(thread, local.switched_at);
            thread.runs_since(now);
            // The short way counts from here, too.
            thread.card.card().bear();
        }
        local.switched_at = now;
        beat
    };
    timeout::expire(here, now);
    if !here.idle.load(Ordering::Relaxed) {
        line::is_busy(here);
    }
    if here.office.is_taken() {
        let current = here.local.hold().current.clone();
        if let Some(on_time) = beat {
            here.office.beat(current.as_ref(), on_time, now);
        }
        let decides = current.as_ref().is_some_and(|thread| here.office.is_holder(here, thread));
        if !decides && !here.is_to_make_room() && now >= here.office.until() {
            seat::note(Event { kind: event::TICK, a: now, ..Event::default() });
            here.make_room();
        } else if !decides && here.office.is_due(now) {
            here.make_room();
        } else if let Some(thread) = current.filter(|_| !decides) {
            here.office.look(&thread, now);
        }
    } else if now >= here.local.hold().quantum_end && !here.queue.is_empty() {
        here.make_room();
    }
}

/// The way out of the kernel: goes on with the running thread, or with the next one.
pub fn leave() -> Resume {
    let here = here();
    if !here.must_attend() {
        return go_on(here, &mut here.local.hold());
    }
    loop {
        here.attending();
        let current = here.local.hold().current.clone();
        // It has something to do here before it goes on, and others have their turns meanwhile.
        let works = current.as_ref().is_some_and(|thread| turns::does_some(thread));
        // Likewise one that runs no more, but ends.
        let mut ends = works && current.as_ref().is_some_and(|thread| thread.unfinished.is_over());
        if let Some(thread) = current.as_ref().filter(|_| !works) {
            thread.leave_callbacks();
            if !thread.card.is_parked() && thread.may_end() && !thread.is_given_something() {
                ends = turns::lessens(thread);
                if !ends {
                    thread.end(abi::Error::Killed.word());
                }
                // The next one may end, too: of a task that was killed, all do.
                breathe();
            } else if thread.is_late.load(Ordering::SeqCst) && !thread.card.is_parked() {
                fault::end_late(thread);
            }
            // Who ends begins nothing any more.
            if !ends {
                if thread.falls.load(Ordering::SeqCst) && !thread.card.is_parked() {
                    fault::fall(thread);
                }
                thread.shed();
                pager::attend(thread);
                seen::attend(thread);
                signal::attend(thread);
                // That may have been its end.
                ends = thread.is_killed() && !thread.card.is_parked() && thread.may_end();
            }
        }
        if here.office.is_taken() && here.office.check(here, current.as_ref()) {
            continue;
        }
        // Asked before the next one is chosen, which may be the same: woken meanwhile, it has a new turn.
        let runs = |thread: &Arc<Thread>| !thread.card.is_parked() && thread.wait.lock().life.runs_at(here.index);
        let running = current.as_ref().is_some_and(runs);
        if (ends || works) && running && !here.is_to_make_room() {
            // It has not come by the last steps out, which do that.
            let until = here.office.is_taken().then(|| here.office.looks_at()).filter(|at| *at != u64::MAX);
            set_alarm(here, until);
            continue;
        }
        let stays = match &current {
            Some(thread) if running && !ends => match place::goes_on(here, thread) {
                Some(stays) => stays,
                // It waits for somebody to leave its group of texts.
                None => continue,
            },
            _ => false,
        };
        if let Some(thread) = current.as_ref().filter(|_| !ends) {
            // Who decides is not interrupted: what has happened waits in the ring.
            if running && (!here.take_make_room() || here.office.is_holder(here, thread)) {
                return go(here, thread);
            }
            let spared = running && (stays || here.office.spares(thread, time::now()));
            if spared && works {
                here.make_room();
                continue;
            }
            if running && stays {
                // Later, then; it is soon done.
                here.make_room();
                return go(here, thread);
            }
            if spared {
                // When it comes back from there, which the kernel would not see: it may call the next moment.
                {
                    let inner = &mut *thread.inner.lock();
                    inner.leave_by_kernel(inner.depth());
                }
                here.make_room();
                return go(here, thread);
            }
        }
        let handed = here.local.hold().handed.take();
        if let Some(next) = handed {
            // Where nobody has run it is a turn of its own; else it runs on as long as the one that has handed on would have.
            let until = current.is_some().then(|| here.local.hold().quantum_end);
            switch(here, current, running, Some(next), until.is_none());
            if let Some(until) = until {
                here.local.hold().quantum_end = until;
            }
            continue;
        }
        let next = if here.office.is_taken() { here.office.next(here, time::now()) } else { Next::InTurn };
        let next = match next {
            Next::InTurn => take(here),
            Next::Run(thread) => Some(thread),
            Next::Nothing => None,
        };
        match (current, next) {
            // Nobody else is ready: a thread that gives way goes on.
            (Some(thread), None) if running => {
                here.local.hold().yields = false;
                if ends || works {
                    here.take_make_room();
                    continue;
                }
                return go(here, &thread);
            }
            (current, Some(next)) => switch(here, current, running, Some(next), true),
            (current, None) => {
                switch(here, current, running, None, true);
                idle(here);
            }
        }
    }
}

fn take(here: &Processor) -> Option<Arc<Thread>> {
    loop {
        let own = here.queue.take();
        let (thread, turn) = own.or_else(|| {
            let others = machine().processors.iter().filter(|p| p.index != here.index);
            let stolen = others.filter_map(|p| p.queue.steal()).next();
            stolen.inspect(|_| pass_on(here, 0))
        })?;
        // Somebody may have taken that turn already.
        if thread.wait.lock().life.claim(turn, here.index).is_ok() {
            return Some(thread);
        }
    }
}

/// Has one more processor look around, if threads are ready beside the `own` ones that this one is about to take up.
pub fn pass_on(here: &Processor, own: usize) {
    let processors = &machine().processors;
    let ready: usize = processors.iter().map(|p| p.queue.len() + p.put_by.count()).sum();
    let next = successor(here.index, processors.len(), ready.saturating_sub(own), |p| processors[p].is_free());
    next.into_iter().for_each(|p| processors[p].poke());
}

/// Lets go of the old thread first, then takes up the new one: so two processors that swap threads cannot wait in a circle.
/// `own_turn`: it was chosen; otherwise it runs on the turn of the old one, or of who has handed on to that.
fn switch(here: &Processor, old: Option<Arc<Thread>>, gives_way: bool, new: Option<Arc<Thread>>, own_turn: bool) {
    let now = time::now();
    let before = old.as_ref().map_or(0, |old| old.number);
    if let Some(old) = &old {
        account(old, here.local.hold().switched_at);
        let turn = if gives_way { old.wait.lock().life.ready() } else { None };
        let (yields, in_post);
        {
            let mut local = here.local.hold();
            let mut inner = old.inner.lock();
            inner.area.save_vector_state();
            old.shows_where(&inner);
            in_post = post::short::lay_down(old, &inner);
            // Its root stays loaded until the next one is, and it may end elsewhere before. (Two in a row may be let go of before another root is
            // loaded: it is the first one's. Or one that has left calls since.)
            if local.keep.is_none() && arch::percpu::root_of(here.index) != inner.domain.root() {
                arch::gate::load_root(arch::tables::kernel_root());
            }
            local.keep.get_or_insert_with(|| inner.domain.clone());
            drop(inner);
            local.current = None;
            yields = core::mem::take(&mut local.yields);
        }
        place::lets_go(here);
        if !old.card.is_parked() {
            if turn.is_some() {
                // First, or it would seem to have been laid aside by the short way.
                old.shows(state::READY);
            }
            // Before another one can take it up: whoever reads who runs sees no thread in two places.
            watch::runs(here.index, 0, false);
            old.on_processor.store(false, Ordering::Release);
        }
        if let Some(ticket) = in_post {
            post::short::lies(old, ticket);
        }
        match turn {
            Some(turn) => _ = tell_or_queue(here, old.clone(), turn, if yields { why::YIELDED } else { why::PREEMPTED }),
            None if here.office.is_taken() && !old.card.is_parked() && !here.office.is_holder(here, old) => {
                let number = old.registers(|r| if r.vector == arch::context::VECTOR_SYSCALL { r.rax } else { u64::MAX });
                seat::note(Event { kind: event::CALL, thread: old.number, a: number, ..Event::default() });
            }
            None => {}
        }
    }
    let number = new.as_ref().map_or(0, |new| new.number);
    // Whoever wishes for room while a scheduler decides has told it something before, which it may not have read any more.
    let is_heard = !here.office.is_taken() || new.as_ref().is_none_or(|new| here.office.is_holder(here, new));
    if let Some(new) = new {
        while new.on_processor.swap(true, Ordering::Acquire) {
            cpu::relax();
        }
        new.processor.store(here.index, Ordering::Relaxed);
        // Before it is said of the thread.
        watch::runs(here.index, number, own_turn);
        new.inner.lock().area.restore_vector_state();
        new.card.card().bear();
        line::goes_on(&new, now);
        let mut local = here.local.hold();
        new.is_taken_up(now, here.index);
        local.current = Some(new);
        local.quantum_end = now + QUANTUM_NS;
        local.beat = now + BEAT_NS;
        local.switched_at = now;
        count(&here.counters.switches);
    } else {
        watch::runs(here.index, 0, own_turn);
    }
    trace::switches(here, before, own_turn);
    if is_heard {
        here.take_make_room();
    }
}

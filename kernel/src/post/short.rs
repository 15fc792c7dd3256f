//! The short way of a message (docs/decisions/0009, `arch/src/post.S`): on it a thread that waits *rests*, and to the kernel proper
//! it still runs until that settles. Here is what the short way decides, and what settling does about it.

use super::doze::{self, Doze};
use super::further::{further, look_further};
use super::{Ended, Part, fail, kept, limit, loan, may_receive, pool, put_by, say, several, wake};
use crate::machine::machine;
use crate::processor::{Processor, here};
use crate::saved::Saved;
use crate::sched;
use crate::seat;
use crate::thread::{Inner, Thread};
use ::post::{By, Hands, Known, Letter, Lies, Permit, Question, Sent, Step, Woken};
use ::sched::Phase;
use abi::post::{SEVERAL_MAX, head, of_head};
use abi::sched::{Event, event};
use abi::{Error, Rights};
use alloc::sync::Arc;
use arch::pass::{Card, card};
use arch::post::{Frame, Kept, Way};
use arch::time;
use core::sync::atomic::Ordering;

/// The calls that take it.
pub(super) const SEND: u64 = abi::calls::number("post_send");
pub(super) const RECEIVE: u64 = abi::calls::number("post_receive");
pub(super) const CALL: u64 = abi::calls::number("post_call");
pub(super) const ANSWER: u64 = abi::calls::number("post_answer");

/// The registers of a thread on the short way: what is sent is in them, and whoever goes on in its place finds it there.
struct Left<'a> {
    frame: &'a mut Frame,
    woken: Option<Woken>,
    /// Where the message lies that was there.
    came: Option<Lies>,
}

/// The same, and whose they are; `LIMITED`: his wait has a limit of time.
struct Carrier<'a, const LIMITED: bool> {
    left: Left<'a>,
    own: &'static Card,
}

impl<'a, const LIMITED: bool> Carrier<'a, LIMITED> {
    #[inline(always)]
    fn new(frame: &'a mut Frame, own: &'static Card) -> Carrier<'a, LIMITED> {
        Carrier { left: Left { frame, woken: None, came: None }, own }
    }

    /// It waits. The timer that is set may have come just now, and it was too early: who settles has it set anew, soon.
    #[inline(always)]
    fn looks_at_timer(&self) {
        if LIMITED && !pool().timer_is_early(self.own.record()) {
            here().set_alarm(Some(time::now()));
        }
    }
}

impl<const LIMITED: bool> Hands for Carrier<'_, LIMITED> {
    #[inline(always)]
    fn op(&self) -> u64 {
        of_head(self.left.frame.r15).0.into()
    }

    #[inline(always)]
    fn lend(&self) -> u16 {
        of_head(self.left.frame.r15).1
    }

    #[inline(always)]
    fn words(&self) -> &[u64; 6] {
        &self.left.frame.words
    }

    /// It does not come back: the processor goes on with whoever has received it.
    #[inline(always)]
    fn carry(
        &mut self,
        woken: &Woken,
        sent: Sent,
        post: u32,
        by: impl By,
        (_, question): (u32, Option<Question>),
        rest: impl FnOnce(),
    ) -> bool {
        if woken.touched {
            return false;
        }
        let Some(next) = card(woken.card).and_then(|card| card.next(woken.thread, by.processor())) else { return false };
        rest();
        let frame = &mut *self.left.frame;
        // In the registers in which it was given: the head, and where the answer is expected.
        let Frame { r15: head, rsi: at, .. } = *frame;
        frame.rdi = match sent {
            Sent::Calls => at,
            Sent::Asks => question.map_or(0, Question::word),
            Sent::Answers | Sent::Alone => 0,
        };
        say(frame, &by.sender());
        frame.rdx = head & !HEAD_POST | u64::from(post) << 32;
        arch::percpu::count_message();
        self.looks_at_timer();
        self.own.has_lain_down();
        Way::To(next, None).go(self.left.frame)
    }

    fn wake(&mut self, woken: Woken) {
        self.left.woken = Some(woken);
    }

    fn written(&self) {
        kept();
    }

    /// Its registers are loaded from there, if the caller goes on by the short way.
    fn show(&mut self, lies: Lies, _: &Letter) -> bool {
        self.left.came = Some(lies);
        true
    }

    fn may_receive(&self, post: u32, by: impl By) -> Result<(), Error> {
        may_receive(post, &by.sender().subject(by.original()))
    }
}

/// Of a head: the post.
const HEAD_POST: u64 = head(0, 0, u16::MAX as u32);

/// Called by `post.S` with interrupts off: the running thread, of this card and in this domain, calls with this frame. Each call has
/// a function for itself, in which nothing is kept for the others.
#[inline(always)]
pub fn sends_and_receives(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    send_and_receive::<false>(frame, domain, own)
}

/// The same where nothing is waited for but the answer.
#[inline(always)]
pub fn asks(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    ask::<false>(frame, domain, own)
}

/// The same for an answer, after which something else is received.
#[inline(always)]
pub fn answers_and_receives(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    answer_and_receive::<false>(frame, domain, own)
}

/// The same for what is sent or received alone, and for waits with a limit of time.
#[inline(always)]
pub fn enter_plain(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    match (frame.rax, frame.rsi, frame.rdx) {
        (SEND, _, _) => send(frame, domain, own),
        (RECEIVE, 1, 0 | u64::MAX) => receive::<false>(frame, domain, own),
        (RECEIVE, 1, _) => receive::<true>(frame, domain, own),
        (RECEIVE, 2..=SEVERAL_MAX, 0 | u64::MAX) => receive_of::<false>(frame, domain, own),
        (RECEIVE, 2..=SEVERAL_MAX, _) => receive_of::<true>(frame, domain, own),
        (_, _, 0) => Way::Refused.go(frame),
        (CALL, 1.., _) => send_and_receive_for(frame, domain, own),
        (CALL, 0, _) => ask_for(frame, domain, own),
        (ANSWER, 1.., _) => answer_and_receive_for(frame, domain, own),
        _ => Way::Refused.go(frame),
    }
}

#[inline(never)]
fn send_and_receive_for(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    send_and_receive::<true>(frame, domain, own)
}

#[inline(never)]
fn ask_for(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    ask::<true>(frame, domain, own)
}

#[inline(never)]
fn answer_and_receive_for(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    answer_and_receive::<true>(frame, domain, own)
}

/// The sender goes on, with all that it had in registers.
#[inline(never)]
fn send(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let mut hands = Carrier::new(frame, own);
    let sent = sent(&mut hands, domain, own);
    let Left { frame, woken, .. } = hands.left;
    if sent.is_none() {
        look_further(frame, domain, own);
    }
    (frame.rax, frame.rdx) = (0, 0);
    leave(woken.filter(|woken| !put_by::put(woken))).go(frame)
}

/// The message goes, if nothing is against it.
#[inline(always)]
fn sent(hands: &mut Carrier<false>, domain: u32, own: &'static Card) -> Option<()> {
    let Frame { rdi: to, rsi: back, .. } = *hands.left.frame;
    let by = pool().known(own.record(), domain, arch::percpu::index())?;
    let to = by.permit(to, Rights::CALL)?;
    let back = if back == 0 { 0 } else { by.allowed(back, Rights::READ)? };
    by.send(to, back, hands).ok()
}

#[inline(never)]
fn receive<const LIMITED: bool>(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rdi: at, rdx: timeout, .. } = *frame;
    let permit = |by: &Known| by.permit(at, Rights::READ);
    make::<LIMITED, true, _>(frame, domain, own, permit, |by, hands, at| by.receive(at, timeout != 0, hands))
}

/// The same at several posts.
#[inline(never)]
fn receive_of<const LIMITED: bool>(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rdi: first, rsi: count, rdx: timeout, .. } = *frame;
    let names = several(first, frame);
    let permits = |by: &Known| {
        let mut all = [Permit::default(); SEVERAL_MAX as usize];
        for (permit, name) in all.iter_mut().zip(&names[..count as usize]) {
            *permit = by.permit(*name, Rights::READ).or_else(|| further(by, *name))?;
        }
        Some(all)
    };
    make::<LIMITED, true, _>(frame, domain, own, permits, |by, hands, at| by.receive_of(&at[..count as usize], timeout != 0, hands))
}

#[inline(always)]
fn send_and_receive<const LIMITED: bool>(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rdi: to, rsi: at, .. } = *frame;
    let permits = |by: &Known| Some((by.permit(to, Rights::CALL)?, by.permit(at, Rights::READ)?));
    make::<LIMITED, false, _>(frame, domain, own, permits, |by, hands, (to, at)| by.send_and_receive(to, at, hands))
}

#[inline(always)]
fn ask<const LIMITED: bool>(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let to = frame.rdi;
    let permit = |by: &Known| by.permit(to, Rights::CALL);
    make::<LIMITED, false, _>(frame, domain, own, permit, |by, hands, to| by.ask(to, hands))
}

#[inline(always)]
fn answer_and_receive<const LIMITED: bool>(frame: &mut Frame, domain: u32, own: &'static Card) -> ! {
    let Frame { rdi: question, rsi: at, .. } = *frame;
    let permits = |by: &Known| Some((Question::from_word(question)?, by.permit(at, Rights::READ)?));
    make::<LIMITED, false, _>(frame, domain, own, permits, |by, hands, (question, at)| by.answer_and_receive(question, at, hands))
}

/// What all of them do, if these permits are at hand. A limit of time is `rdx`; where the thread's timer is to be set for it, the kernel proper does that.
/// `ALONE`: it has sent nothing. If it was told something before by a plain message, which hands no processor over, this one [dozes](doze).
#[inline(always)]
fn make<const LIMITED: bool, const ALONE: bool, P>(
    frame: &mut Frame,
    domain: u32,
    own: &'static Card,
    permits: impl FnOnce(&Known) -> Option<P>,
    call: impl FnOnce(&Known, &mut Carrier<LIMITED>, P) -> Step,
) -> ! {
    let processor = arch::percpu::index();
    let Some(by) = pool().known(own.record(), domain, processor) else { Way::Refused.go(frame) };
    let Some(permits) = permits(&by) else { look_further(frame, domain, own) };
    let until = if LIMITED { time::now().checked_add(frame.rdx) } else { None };
    if until.is_some_and(|until| !by.limit(until)) {
        pool().no_limit(own.record());
        Way::Refused.go(frame);
    }
    let dozes = ALONE && own.was_told();
    own.rest(processor);
    let mut hands = Carrier::new(frame, own);
    let step = call(&by, &mut hands, permits);
    if let Step::Waits(_) = step {
        hands.looks_at_timer();
    }
    slowly(&mut hands.left, hands.own, step, dozes).go(hands.left.frame)
}

/// What becomes of it where nobody goes on with what was sent.
#[cold]
#[inline(never)]
fn slowly(left: &mut Left, own: &'static Card, step: Step, dozes: bool) -> Way {
    let processor = arch::percpu::index();
    let Left { frame, woken, came } = left;
    // What came was there before the wait had begun in earnest, and who has sent it had used what was lent for it.
    let is_lent = of_head(frame.r15).1 != 0 && pool().woken(own.record()).touched;
    match step {
        Step::Waits(_) => {
            own.has_lain_down();
            if woken.is_none() {
                *woken = here().put_by.take_any().map(|record| pool().woken(record));
                if woken.is_none() && dozes {
                    match doze::doze() {
                        Doze::Came(one) => *woken = Some(one),
                        Doze::Kernel(one) => return leave_to_kernel(one),
                    }
                }
                if let Some(way) = woken.and_then(|woken| put_by::go_on(frame, &woken, processor)) {
                    return way;
                }
            } else if woken.is_some_and(|woken| doze::is_there(&woken)) {
                *woken = None;
            }
        }
        // Of what is refused nothing was done: the kernel proper says why.
        Step::Refused(_) => {
            pool().no_limit(own.record());
            own.rise();
            return Way::Refused;
        }
        Step::Ended(error) => {
            own.rise();
            fail(frame, error);
            return if is_lent { take_back_first(*woken) } else { leave(*woken) };
        }
        Step::Came => {
            own.rise();
            if woken.is_none()
                && !is_lent
                && let Some(lies) = *came
            {
                if let Lies::Slot(slot) = lies {
                    // This processor is the next one to write there.
                    pool().done_with(slot, processor);
                }
                return Way::Took(Kept::new(pool().letter(lies).registers()));
            }
            *here().came.hold() = *came;
            return if is_lent { take_back_first(*woken) } else { leave(*woken) };
        }
    }
    leave_to_kernel(*woken)
}

/// The caller goes on, unless the kernel proper has somebody to wake first.
#[inline]
fn leave(woken: Option<Woken>) -> Way {
    if woken.is_none() { Way::Back } else { leave_to_kernel(woken) }
}

/// The kernel proper goes on, and ends this wait ([`finish_short`]).
fn leave_to_kernel(woken: Option<Woken>) -> Way {
    here().posted.store(woken.map_or(0, |woken| woken.receiver), Ordering::Relaxed);
    Way::Kernel
}

/// The same, for a caller who goes on, and has ended himself what he lent.
#[cold]
fn take_back_first(woken: Option<Woken>) -> Way {
    leave_to_kernel(woken);
    here().posted.fetch_or(OWN_LOAN, Ordering::Relaxed);
    Way::Kernel
}

/// Beside the record of who is woken.
const OWN_LOAN: u32 = 1 << 31;

/// What the short way has left to do, for the running thread, which rests or goes on.
pub fn finish_short(thread: &Arc<Thread>) {
    let here = here();
    doze::wake_up(here);
    let left = here.posted.load(Ordering::Relaxed);
    if left == 0 {
        return;
    }
    here.posted.store(0, Ordering::Relaxed);
    let came = here.came.hold().take();
    if came.is_some() {
        Ended::there(thread, came).give(thread);
    }
    if left & OWN_LOAN != 0 {
        loan::end(&pool().woken(thread.part.record()));
    }
    let record = left & !OWN_LOAN;
    if record != 0 {
        let rests = thread.wait.lock().life.phase() == Phase::Waiting;
        let woken = pool().woken(record);
        // Not to itself: it is let go of here first, and taken up like anybody else.
        super::end(woken, rests && woken.thread != thread.number);
    }
}

/// The short way has met this thread here. If it waited, it has gone on.
pub fn goes_on(thread: &Thread, here: &Processor) {
    let resumed = {
        let mut wait = thread.wait.lock();
        let resumed = wait.life.resume(here.index);
        if resumed {
            thread.processor.store(here.index, Ordering::SeqCst);
            thread.shows(abi::task::state::RUNNING);
        }
        resumed
    };
    if resumed {
        thread.part.wait.store(0, Ordering::SeqCst);
        thread.on_processor.store(true, Ordering::SeqCst);
        if thread.is_killed() {
            // Whoever has killed it may have told the processor where it was before.
            here.attend();
        }
    }
}

/// It rests here, and this is written down. `is_last`: nobody has run here since. Whether its wait [is over](is_over) already.
pub fn rests(thread: &Arc<Thread>, here: &Processor, is_last: bool) -> bool {
    let card = thread.card.card();
    let domain = {
        let inner = &mut *thread.inner.lock();
        *inner.area.registers_mut() = card.registers_at_rest();
        inner.area.forget_vector_state();
        inner.sync();
        inner.domain.clone()
    };
    let mut posted = false;
    // Under the lock under which [`is_to_settle`] looks.
    sched::begin_wait_that_is_looked_at(Saved::at_rest(thread), |wait| {
        thread.part.wait.store(wait.ticket, Ordering::SeqCst);
        if is_last {
            // It has not been let go of here yet; see `lay_down`.
            card.rise();
        } else {
            thread.on_processor.store(false, Ordering::Release);
            card.lie();
            thread.keep_from_short();
        }
        posted = wait.posted;
    });
    thread.shows_posts(pool().places(thread.part.record()));
    if !is_last && here.office.is_taken() {
        seat::note(Event { kind: event::CALL, thread: thread.number, a: CALL, ..Event::default() });
    }
    limit::arm(thread);
    posted || thread.is_killed() || domain.text.is_dead()
}

/// The wait of one that [rests] is over: it is made ready. Not before all is written down of who has run here, since interrupts may come meanwhile.
pub fn is_over(thread: &Arc<Thread>) {
    let (posted, ticket) = {
        let wait = &mut *thread.wait.lock();
        (core::mem::take(&mut wait.posted), (wait.life.phase() == Phase::Waiting).then_some(wait.ticket))
    };
    if posted {
        wake(pool().woken(thread.part.record()));
    } else if let Some(ticket) = ticket {
        if thread.is_killed() {
            sched::wake(thread, ticket, Err(Error::Killed));
        } else if thread.domain().text.is_dead() {
            sched::wake(thread, ticket, Err(Error::Dead));
        }
    }
}

/// Begins a wait of the thread's in the pool: whoever finds it waiting finds that, too.
pub fn begin_wait(thread: Saved<'_>) -> u64 {
    sched::begin_wait_as(thread, |wait| thread.part.wait.store(wait.ticket, Ordering::SeqCst))
}

/// Whether a thread whose wait is over rests on a processor that has not written that down: it will make the thread ready then.
pub fn is_to_settle(thread: &Thread) -> bool {
    // It rests there before its wait can end; from then on it is only written down.
    if thread.card.rests_at().is_none() {
        return false;
    }
    let at = {
        let mut wait = thread.wait.lock();
        let Some(at) = thread.card.rests_at() else { return false };
        wait.posted = true;
        at
    };
    let processor = &machine().processors[at];
    processor.attend();
    processor.poke();
    true
}

/// A wait in the pool of a thread that its processor is about to let go of, if whoever ends it may have the thread go on
/// on the short way: it keeps no secret.
pub fn lay_down(thread: &Thread, inner: &Inner) -> Option<u64> {
    let ticket = thread.part.wait.load(Ordering::SeqCst);
    if ticket == 0 {
        return None;
    }
    if inner.domain.is_secret() || inner.domain.text.place.is_nsys() {
        return None;
    }
    thread.card.lay_down(&inner.area.as_saved(), inner.domain.number);
    Some(ticket)
}

/// It was let go of.
pub fn lies(thread: &Thread, ticket: u64) {
    let wait = thread.wait.lock();
    if wait.life.phase() == Phase::Waiting && wait.ticket == ticket {
        thread.card.lie();
        thread.keep_from_short();
    }
}

impl Part {
    pub fn record(&self) -> u32 {
        self.record.load(Ordering::SeqCst)
    }
}

//! Memory that is lent with a question, or with a message whose sender goes on: nothing is done about it until its holder touches it (`core/post` has the
//! rules). Then whole pages are mapped, for that thread in that text only, until the question is over, or the loan. What it passes to the kernel by its
//! address the kernel touches in its name (`claim.rs`), and maps nothing.

use super::limit::Set;
use super::{WORDS, kept, pool, run, wake, with};
use crate::domain::Domain;
use crate::processor::{copied, here};
use crate::saved::Saved;
use crate::sched::Timeout;
use crate::section::{Section, State};
use crate::thread::Thread;
use crate::view::{self, Change};
use abi::layout::PAGE;
use abi::section::kind;
use abi::{Error, Rights};
use ::post::{Body, Caller, Hands, Holder, Loan, Question, Step, Woken};
use ::view::at_most;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::time;
use spin::{Mutex, Once};

/// The timers of loans that have one, by their numbers.
static LIMITS: Once<Vec<Mutex<Option<Set>>>> = Once::new();

/// As many loans as messages. Boot only.
pub fn set_up(count: u32) {
    LIMITS.call_once(|| (0..=count).map(|_| Mutex::default()).collect());
}

fn limit_of(number: Option<u32>) -> Option<&'static Mutex<Option<Set>>> {
    LIMITS.get()?.get(number? as usize)
}

/// `post_send` of a message that lends memory.
pub fn send(
    thread: &Arc<Thread>,
    d: &Domain,
    (post, back): (u64, u64),
    body: &Body,
    limit: u64,
) -> Result<u64, Error> {
    if back == 0 {
        return Err(Error::BadArgument);
    }
    // It would not be had there (`rights`), and its lender is to know.
    if body.lent().any(|range| range.rights.contains(Rights::WRITE) && is_stack(range.address)) {
        return Err(Error::NotSupported);
    }
    let posts = [(post, Rights::CALL), (back, Rights::READ)];
    let send = |by: &Caller, permits: &[_]| pool().send_lending(&permits[0], &permits[1], by, body);
    let (loan, woken) = with(thread, d, &posts, send)?;
    kept();
    // Once more for the loan.
    copied(WORDS);
    if limit != 0
        && let Some(until) = time::now().checked_add(limit)
    {
        lasts_until(loan, until);
    }
    woken.into_iter().for_each(wake);
    // First it is lent, then it is looked whether the text is still there: whoever ends that looks in the other order (`text_ended`).
    if d.text.is_dead() {
        pool().end(loan, Error::Dead).into_iter().for_each(wake);
    }
    Ok(loan.word())
}

fn is_stack(address: u64) -> bool {
    Section::find(address).is_some_and(|section| section.kind() == kind::STACK)
}

/// A loan ends then. It may be over by now, and its number another one's.
fn lasts_until(loan: Question, until: u64) {
    let new = Set::new(until, Timeout::Loan(loan));
    let Some(limit) = limit_of(loan.number()) else { return new.cancel() };
    let unused = {
        let mut limit = limit.lock();
        // Whoever ends it looks here afterwards.
        if pool().is_lent(loan) { limit.replace(new) } else { Some(new) }
    };
    unused.inspect(Set::cancel);
}

/// It has no timer any more.
fn no_limit(over: &Woken) {
    let set = limit_of(over.loan()).and_then(|limit| limit.lock().take());
    set.inspect(Set::cancel);
}

/// Its time is over. Whether something was taken back for that, which takes long.
pub fn rings(loan: Question) -> bool {
    let over = pool().end(loan, Error::TimedOut);
    over.is_some_and(|over| {
        wake(over);
        over.touched
    })
}

/// `post_answer` of such a message: first nothing is lent any more, then whoever has lent it hears.
pub fn answer(thread: Saved<'_>, d: &Domain, loan: Question, at: u64, timeout: u64, body: &Body) {
    let answer = |by: &Caller| -> Result<Option<Woken>, Error> {
        let over = pool().answer_loan(loan, by, body.lend)?;
        end(&over);
        no_limit(&over);
        kept();
        Ok(pool().finish_with(over, by, body))
    };
    if at == 0 {
        let woken = with(&thread, d, &[], |by, _| answer(by));
        return thread.answer(woken.map(|woken| {
            woken.into_iter().for_each(wake);
            0
        }));
    }
    let mut answered = false;
    run(thread, d, Ok([(at, Rights::READ)].into()), timeout, |by, permits, waits, hands| {
        // If the list changes meanwhile, this is done once more, and the answer was given.
        if !answered {
            match answer(by) {
                Ok(woken) => woken.into_iter().for_each(|woken| hands.wake(woken)),
                Err(error) => return Step::Refused(error),
            }
            answered = true;
        }
        pool().receive_with(permits, by, waits, hands)
    });
}

/// `post_cancel`.
pub fn cancel(thread: &Arc<Thread>, d: &Domain, loan: u64) -> Result<u64, Error> {
    let loan = Question::from_word(loan).ok_or(Error::NotFound)?;
    with(thread, d, &[], |by, _| pool().cancel(loan, by)).map(wake)?;
    Ok(0)
}

/// A loan is over that was not answered, and nobody has any of it ([`end`]): whoever has lent it hears, if he is to.
#[cold]
pub fn finish(over: Woken) {
    if over.is_loan() {
        no_limit(&over);
        pool().finish(over, here().index).into_iter().for_each(wake);
    }
}

/// The question or the loan with which this thread has what it touches at an address, perhaps ([`rights`]): the next one behind `after`, which
/// was not. Anybody may lend what is not his, so it is looked on. Call without locks: interrupts are let in.
pub fn find(thread: &Thread, domain: &Domain, address: u64, after: Option<Question>) -> Option<Question> {
    pool().lends(holder(thread, domain)?, address, after)
}

/// As which one this thread holds questions in that domain: in one of its own, since domains have numbers among those of their thread.
fn holder(thread: &Thread, domain: &Domain) -> Option<Holder> {
    let receiver = thread.part.record();
    (receiver != 0 && domain.subject.thread == thread.number).then_some(Holder { receiver, domain: domain.number })
}

/// What is lent to this one at this address in a section, beyond what the list gives it: no more than what who lends it may itself.
/// To be asked under the lock of the section, under which [`take_back`] makes views forget; who does something there in his name keeps that lock until
/// it is done, and [`take_back`] waits for it.
pub fn rights(question: Question, to: (&Thread, &Domain), section: &Section, state: &State, address: u64) -> Rights {
    // Who waits does not run on his stack. Who goes on does, and so does who he calls: that one trusts what lies there (pitfalls, H11).
    let is_used = question.is_loan() && section.kind() == kind::STACK;
    let most = if is_used { Rights::READ } else { at_most(section.kind()) };
    let gives = |loan: &Loan| {
        // What is taken back is looked for where it begins.
        let is_here = section.contains(loan.range.address);
        let lent = if is_here { loan.range.rights & most & state.acl.rights(&loan.from) } else { Rights::empty() };
        // Nothing is to be taken back of what the list gives.
        (!(lent - state.acl.rights(&to.1.subject)).is_empty()).then_some(lent)
    };
    let lent = holder(to.0, to.1).and_then(|holder| pool().loan(question, holder, address, gives));
    lent.unwrap_or(Rights::empty())
}

/// The wait of whoever has lent something is over, or his loan, by whomever it was ended, himself or others: when this returns nobody has any of it any more
/// that the list does not give it. Call without locks, before he goes on, or hears of it.
pub fn end(woken: &Woken) {
    if woken.touched {
        take_back(woken);
    }
}

#[cold]
fn take_back(woken: &Woken) {
    let (body, from) = pool().lent(woken.receiver);
    for range in body.lent() {
        let Some(section) = Section::find(range.address) else { continue };
        if (range.rights & section.state.lock().acl.rights(&from)).is_empty() {
            // It is not his to lend any more, and who took that away has seen to it.
            continue;
        }
        let from = (range.address - section.base) / PAGE * PAGE;
        let to = (range.address - section.base).saturating_add(range.len).checked_next_multiple_of(PAGE);
        let len = to.map_or(section.reserve, |to| to.min(section.reserve)) - from;
        // It is over: nobody comes by it again to where it was taken out.
        view::change_part(&section, section.state.lock(), (from, from + len), Change::Unmap);
    }
    pool().is_taken_back(woken.receiver);
}

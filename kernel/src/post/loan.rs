//! Memory that is lent with a question: nothing is done about it until its holder touches it (`core/post` has the rules). Then whole
//! pages are mapped, for that thread in that text only, until the question is over. What it passes to the kernel by its address the kernel
//! touches in its name (`claim.rs`), and maps nothing.

use super::pool;
use crate::domain::Domain;
use crate::section::{Section, State};
use crate::thread::Thread;
use crate::view::{self, Change};
use abi::Rights;
use abi::layout::PAGE;
use ::post::{Holder, Question, Woken};

/// The question with which this thread has what it touches at an address, perhaps ([`rights`]): the next one behind `after`, which was not. Anybody may lend what is not his, so
/// it is looked on. Call without locks: interrupts are let in.
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
    let loan = holder(to.0, to.1).and_then(|holder| pool().loan(question, holder, address));
    match loan {
        // What is taken back is looked for where it begins.
        Some(loan) if section.contains(loan.range.address) => loan.range.rights & state.acl.rights(&loan.from),
        _ => Rights::empty(),
    }
}

/// The wait of whoever has lent something is over, by whomever it was ended, himself or others: when this returns nobody has any of it any more
/// that the list does not give it. Call without locks, before he goes on.
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
        if section.state.lock().acl.rights(&from).is_empty() {
            // It was never his to lend; or it is not any more, and who took that away has seen to it.
            continue;
        }
        let from = (range.address - section.base) / PAGE * PAGE;
        let to = (range.address - section.base).saturating_add(range.len).checked_next_multiple_of(PAGE);
        let len = to.map_or(section.reserve, |to| to.min(section.reserve)) - from;
        let stale = view::change(&mut section.state.lock().mapped, from, len, Change::Unmap);
        stale.flush();
    }
    pool().is_taken_back(woken.receiver);
}

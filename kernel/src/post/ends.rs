//! Ends of what the pool knows: threads, texts, domains.

use super::{domain_of, goes_on, limit, pool, wake};
use crate::domain::Domain;
use crate::processor::here;
use crate::section::Section;
use crate::thread::Thread;
use ::post::Holder;

/// Whoever asked a thread while that executed this text, or has lent it something, hears of its end. The text is dead already: who is found to hold a question
/// only afterwards falls out of it next ([`fell_out`]).
pub fn text_ended(text: &Section) {
    let is_gone = |holder| domain_of(holder).is_none_or(|domain| core::ptr::eq(&*domain.text, text));
    pool().holders_gone(is_gone, wake);
    pool().lenders_gone(text.base, wake);
}

/// The thread falls out of a text that has ended, whose domain this is: it answers nothing that it has received there.
pub fn fell_out(thread: &Thread, domain: &Domain) {
    let receiver = thread.part.record();
    if receiver != 0 {
        pool().fell_out(Holder { receiver, domain: domain.number }, wake);
    }
}

/// A text has another owner, who pays for what is sent there.
pub fn given(text: &Section) {
    pool().forget_text(text.base);
}

/// A thread has no such domain any more.
pub fn domain_gone(thread: &Thread, domain: u32) {
    pool().forget_domain(thread.part.record(), domain);
}

/// A thread takes a seat.
pub fn sits(thread: &Thread) {
    thread.card.set_record(0);
}

/// A thread has ended.
pub fn thread_ended(thread: &Thread) {
    // It does not go on with what it has received.
    thread.inner.lock().area.write_down();
    goes_on(here(), thread);
    let record = limit::forget(thread);
    if record != 0 {
        pool().close_receiver(record, wake);
        thread.task.about.shows_promised();
    }
}

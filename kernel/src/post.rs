//! Posts (docs/decisions/0009): `core/post` has the rules; here are the threads that wait, the lists that say who may, and the
//! registers that messages travel in.

use crate::claim;
use crate::domain::Domain;
use crate::machine::{machine, spare_heap};
use crate::processor::here;
use crate::sched;
use crate::section::{New, Section};
use crate::task::Task;
use crate::thread::{Thread, answer};
use crate::wait;
use abi::layout::GRANULE;
use abi::post::{ANY, KNOWN_MAX, MANY_MAX, POSTS_MAX, SEVERAL_MAX, address, head, number, of_head};
use abi::rights::principal;
use abi::section::kind;
use abi::task::USER_SYSTEM;
use abi::{AclEntry, Error, Rights};
use ::post::{Back, Body, Called, Caller, Config, Message, Permit, Permits, Pool, Question, Received, Share, Woken};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::context::Registers;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spin::{Mutex, Once};

const _: () = assert!(::post::KNOWN_MAX as u64 == KNOWN_MAX && ::post::SEVERAL_MAX as u64 == SEVERAL_MAX);

static POOL: Once<Pool> = Once::new();

/// Bytes of the kernel's heap for each message, record and account, and for each post.
const HEAP_EACH: u64 = 8192;
const HEAP_POST: u64 = 4096;

/// What a thread has of the pool.
#[derive(Default)]
pub struct Part {
    /// Its record; 0: it has none yet.
    record: AtomicU32,
    permits: Mutex<Permits>,
    /// The wait of the scheduler's that is a wait for a message; 0: none.
    wait: AtomicU64,
}

/// A task's account; 0: it could not be had.
#[derive(Default)]
pub struct Purse(Once<u32>);

impl Drop for Purse {
    fn drop(&mut self) {
        if let Some(account) = self.0.get() {
            pool().close_account(*account);
        }
    }
}

fn pool() -> &'static Pool {
    POOL.get().expect("the pool is made before anything runs")
}

/// Makes the pool. Boot only.
pub fn set_up() {
    let heap = arch::heap_usage().0;
    let count = (heap / HEAP_EACH) as u32;
    let processors = machine().processors.len();
    let posts = (heap / HEAP_POST).min(POSTS_MAX - 1) as u32;
    let config = Config { posts, messages: count, reserve: count / 4, receivers: count, accounts: count, processors };
    POOL.call_once(|| Pool::new(config));
}

/// Who pays for what `task` leaves in queues.
fn account(task: &Task) -> Result<u32, Error> {
    task.purse.0.try_call_once(|| {
        let all = (arch::heap_usage().0 / HEAP_EACH) as u32;
        match &task.payer {
            Some(payer) => pool().open_account(Share::Of(account(payer)?), all / 16),
            None if task.user == USER_SYSTEM => pool().open_account(Share::System, all / 64),
            None => pool().open_account(Share::User, all / 16),
        }
    }).copied()
}

/// The post at this address.
fn named(post: u64) -> Result<(Arc<Section>, u32), Error> {
    let number = number(machine().node, post).ok_or(Error::NotFound)?;
    let section = Section::named(post).ok().filter(|section| section.kind() == kind::POST).ok_or(Error::NotFound)?;
    Ok((section, number))
}

/// `post_get`.
pub fn get(d: &Domain, wanted: u64) -> Result<u64, Error> {
    spare_heap()?;
    let number = match wanted {
        ANY => pool().get_any()?,
        1..=KNOWN_MAX if d.text.owner().user != USER_SYSTEM => return Err(d.subject.refused(abi::refusal::Object::System)),
        1..POSTS_MAX => pool().get(wanted as u32)?,
        _ => return Err(Error::NotFound),
    };
    let rights = Rights::READ | Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: d.subject.task, text: d.text.base };
    let at = address(machine().node, number.into());
    let new = New { len: 0, reserve: GRANULE, kind: kind::POST, at, room: 0, owner: d.text.owner(), entry, ports: None };
    Section::create(new).map(|section| section.base).inspect_err(|_| {
        let _ = pool().free(number, true, here().index, wake);
    })
}

/// `post_free`.
pub fn free(d: &Domain, post: u64, force: u64) -> Result<u64, Error> {
    let (section, number) = named(post)?;
    match force {
        0 => {}
        1 => return section.delete_for(d).map(|()| 0),
        _ => return Err(Error::BadArgument),
    }
    section.check(d, Rights::CHANGE_ACL)?;
    // Whoever deletes it meanwhile does not free the number once more: another one may have it by then.
    if !section.post.swap(false, Ordering::SeqCst) {
        return Err(Error::NotFound);
    }
    pool().free(number, false, here().index, wake).inspect_err(|_| section.post.store(true, Ordering::SeqCst))?;
    section.delete();
    Ok(0)
}

/// The section of a post goes.
pub fn deleted(section: &Section) {
    if let Some(number) = number(machine().node, section.base)
        && section.post.swap(false, Ordering::SeqCst)
    {
        let _ = pool().free(number, true, here().index, wake);
    }
}

/// The list of a post has changed.
pub fn list_changed(section: &Section) {
    if let Some(number) = number(machine().node, section.base) {
        pool().changed(number);
    }
}

/// Whoever asked a thread while that executed this text hears of its end. The text is dead already: who receives a question
/// in it from here on looks for that.
pub fn text_ended(text: &Section) {
    let is_gone = |holder: ::post::Holder| {
        let thread = machine().threads.find(pool().thread_of(holder.receiver));
        let domain = thread.and_then(|thread| thread.inner.lock().domains.get(holder.domain as usize).cloned().flatten());
        domain.is_none_or(|domain| domain.text.base == text.base)
    };
    pool().holders_gone(is_gone, wake);
}

/// A thread has ended.
pub fn thread_ended(thread: &Thread) {
    let record = thread.part.record.swap(0, Ordering::SeqCst);
    if record != 0 {
        pool().close_receiver(record, wake);
    }
}

/// Does `call` as this caller, with permits for the posts at these addresses; once more if a list changes meanwhile.
fn with<T>(
    thread: &Thread,
    d: &Domain,
    posts: &[(u64, Rights)],
    mut call: impl FnMut(&Caller, &[Permit]) -> Result<T, Error>,
) -> Result<T, Error> {
    let sends = posts.iter().any(|(_, right)| *right == Rights::CALL);
    let account = if sends { account(&d.text.owner()).unwrap_or(0) } else { 0 };
    let mut receiver = thread.part.record.load(Ordering::SeqCst);
    if receiver == 0 {
        receiver = pool().open_receiver(thread.number)?;
        thread.part.record.store(receiver, Ordering::SeqCst);
    }
    let permits = &mut *thread.part.permits.lock();
    let by = Caller { subject: &d.subject, domain: d.number, receiver, account, processor: here().index };
    loop {
        let mut all = [Permit::default(); SEVERAL_MAX as usize];
        for (permit, (post, right)) in all.iter_mut().zip(posts) {
            let number = number(machine().node, *post).ok_or(Error::NotFound)?;
            *permit = permits.get(pool(), d.text.base, number, *right, || named(*post)?.0.check(d, *right))?;
        }
        match call(&by, &all[..posts.len()]) {
            Err(Error::Changed) => {}
            outcome => return outcome,
        }
    }
}

fn body_of(thread: &Thread) -> Body {
    thread.registers(|r| {
        let (op, lend, _) = of_head(r.r15);
        Body { op: op.into(), words: [r.r10, r.r8, r.r9, r.r12, r.r13, r.r14], lend }
    })
}

/// A message to where its receiver finds it.
fn show(registers: &mut Registers, post: u32, message: &Message) {
    let Message { body, from, back, .. } = message;
    let Body { op, words, lend } = *body;
    [registers.r10, registers.r8, registers.r9, registers.r12, registers.r13, registers.r14] = words;
    registers.rdi = match *back {
        Back::Nowhere => 0,
        Back::Post(post) => address(machine().node, post.into()),
        Back::Question(question) => question.word(),
    };
    registers.rbx = from.thread;
    registers.rbp = from.text | from.node;
    registers.rsi = from.user;
    registers.r15 = from.task;
    answer(registers, Ok(head(op as u32, lend, post)));
}

fn finish(registers: &mut Registers, received: Received) {
    match received {
        Received::Message(post, message) => show(registers, post, &message),
        Received::Ended(error) => answer(registers, Err(error)),
        // Collected without anything having come: cannot be, and would be heard as this.
        Received::Waits(_) => answer(registers, Err(Error::Changed)),
    }
}

/// `post_send`.
pub fn send(thread: &Arc<Thread>, d: &Domain, post: u64, back: u64) -> Result<u64, Error> {
    let body = body_of(thread);
    let back = match back {
        0 => 0,
        back => {
            let (section, number) = named(back)?;
            section.check(d, Rights::READ)?;
            number
        }
    };
    let woken = with(thread, d, &[(post, Rights::CALL)], |by, permits| pool().send(&permits[0], by, &body, back))?;
    woken.into_iter().for_each(wake);
    Ok(0)
}

/// `post_send_many`.
pub fn send_many(thread: &Arc<Thread>, d: &Domain, post: u64, from: u64, count: u64, same: u64) -> Result<u64, Error> {
    if count == 0 || same > 1 {
        return Err(Error::BadArgument);
    }
    let count = count.min(MANY_MAX);
    let there = if same == 1 { 1 } else { count };
    let step = size_of::<abi::post::Body>() as u64;
    let records: Result<Vec<abi::post::Body>, Error> = (0..there).map(|i| claim::read_record(d, from + i * step)).collect();
    let records = records?;
    let body = |n: u32| {
        let record = &records[if same == 1 { 0 } else { n as usize }];
        Body { op: record.op, words: record.words, lend: 0 }
    };
    let mut woken = Vec::new();
    let sent = with(thread, d, &[(post, Rights::CALL)], |by, permits| {
        pool().send_many(&permits[0], by, count as u32, body, |one| woken.push(one))
    });
    woken.into_iter().for_each(wake);
    sent.map(u64::from)
}

/// `post_receive`.
pub fn receive(thread: &Arc<Thread>, d: &Domain, post: u64, count: u64, timeout: u64) {
    let posts: Result<Vec<(u64, Rights)>, Error> = match count {
        0 => Err(Error::BadArgument),
        1 => Ok([(post, Rights::READ)].into()),
        2..=SEVERAL_MAX => (0..count).map(|i| Ok((claim::read_record::<u64>(d, post + i * 8)?, Rights::READ))).collect(),
        _ => Err(Error::TooBig),
    };
    run(thread, d, posts, timeout, |by, permits, waits| {
        Ok(Called { woken: None, received: pool().receive(permits, by, waits)? })
    });
}

/// `post_call`.
pub fn call(thread: &Arc<Thread>, d: &Domain, post: u64, at: u64, timeout: u64) {
    let body = body_of(thread);
    if timeout == 0 {
        return thread.answer(Err(Error::BadArgument));
    }
    let posts = [(post, Rights::CALL), (at, Rights::READ)];
    let posts = posts[..if at == 0 { 1 } else { 2 }].to_vec();
    run(thread, d, Ok(posts), timeout, |by, permits, _| match permits {
        [to, at] => pool().send_and_receive(to, at, by, &body),
        _ => pool().ask(&permits[0], by, &body),
    });
}

/// `post_answer`.
pub fn answer_question(thread: &Arc<Thread>, d: &Domain, question: u64, at: u64, timeout: u64) {
    let body = body_of(thread);
    let Some(question) = Question::from_word(question) else { return thread.answer(Err(Error::NotFound)) };
    if at == 0 {
        let woken = with(thread, d, &[], |by, _| pool().answer(question, by, &body));
        return thread.answer(woken.map(|woken| {
            wake(woken);
            0
        }));
    }
    run(thread, d, Ok([(at, Rights::READ)].into()), timeout, |by, permits, waits| match waits {
        true => pool().answer_and_receive(question, &permits[0], by, &body),
        false => {
            let woken = pool().answer(question, by, &body)?;
            let received = pool().receive(permits, by, false).unwrap_or_else(Received::Ended);
            Ok(Called { woken: Some(woken), received })
        }
    });
}

/// A call that may wait: to the scheduler the thread waits from here on, whatever comes of it.
fn run(
    thread: &Arc<Thread>,
    d: &Domain,
    posts: Result<Vec<(u64, Rights)>, Error>,
    timeout: u64,
    mut call: impl FnMut(&Caller, &[Permit], bool) -> Result<Called, Error>,
) {
    let posts = match posts {
        Ok(posts) => posts,
        Err(error) => return thread.answer(Err(error)),
    };
    let ticket = sched::begin_wait(thread);
    thread.part.wait.store(ticket, Ordering::SeqCst);
    let called = with(thread, d, &posts, |by, permits| call(by, permits, timeout != 0));
    let Called { woken, received } = called.unwrap_or_else(|error| Called { woken: None, received: Received::Ended(error) });
    let waits = matches!(received, Received::Waits(_));
    if !waits {
        sched::end_wait(thread, ticket, |registers| finish(registers, received));
        forget_wait(thread, ticket);
    }
    if let Some(woken) = woken {
        end(woken, waits);
    }
    if d.text.is_dead() {
        // It may have become the holder of a question after those were looked through.
        text_ended(&d.text);
    }
    if waits {
        wait::set_timeout(thread, ticket, timeout, Err(Error::TimedOut));
        // Whoever has said so before found no wait yet.
        if thread.is_killed() {
            sched::wake(thread, ticket, Err(Error::Killed));
        } else if d.text.is_dead() {
            sched::wake(thread, ticket, Err(Error::Dead));
        }
    }
}

/// From here on this wait can be ended by anybody again: it is over.
fn forget_wait(thread: &Thread, ticket: u64) {
    let _ = thread.part.wait.compare_exchange(ticket, 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// A wait for a message is over: the thread is ready.
fn wake(woken: Woken) {
    end(woken, false);
}

/// The same; `here`: it gets this processor, from the thread that has sent it something and waits.
fn end(woken: Woken, here: bool) {
    let Some(thread) = machine().threads.find(woken.thread) else { return };
    let ticket = thread.part.wait.load(Ordering::SeqCst);
    let Some(received) = pool().collect(woken.receiver) else { return };
    let change = |registers: &mut Registers| finish(registers, received);
    if here {
        sched::hand_over(&thread, ticket, change);
    } else {
        sched::wake_with(&thread, ticket, change);
    }
    forget_wait(&thread, ticket);
    let domain = thread.domain();
    if domain.text.is_dead() {
        text_ended(&domain.text);
    }
}

/// Whether this is a wait for a message.
pub fn is_wait(thread: &Thread, ticket: u64) -> bool {
    ticket != 0 && thread.part.wait.load(Ordering::SeqCst) == ticket
}

/// Ends a wait for a message by something else. Whether it did: a message may have come first.
pub fn interrupt(thread: &Thread, error: Error) -> bool {
    let record = thread.part.record.load(Ordering::SeqCst);
    if record == 0 {
        return false;
    }
    let woken = pool().waits(record).and_then(|ticket| pool().interrupt(record, ticket, error));
    woken.map(wake).is_some()
}

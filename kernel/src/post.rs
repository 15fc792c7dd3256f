//! Posts (docs/decisions/0009): `core/post` has the rules; here are the threads that wait, the lists that say who may, and the
//! registers that messages travel in.

use crate::crossing::OWN;
use crate::domain::Domain;
use crate::line;
use crate::machine::machine;
use crate::processor::{copied, here};
use crate::saved::Saved;
use crate::sched;
use crate::seat::NO_SEAT;
use crate::section::Section;
use crate::task::Task;
use crate::thread::Thread;
use abi::post::{KNOWN_MAX, POSTS_MAX, SEVERAL_MAX, address, number, of_head};
use abi::section::kind;
use abi::{Error, Rights};
use ::acl::Subject;
use ::sched::Phase;
use ::post::{
    Body, By, Caller, Config, Hands, Holder, Letter, Lies, Permit, Pool, Question, Reserve, SHOWN, Sender, Sent, Shown, Step,
    Woken,
};
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::post::Frame;
use arch::shown::Page;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spin::Once;

mod doze;
mod ended;
mod ends;
mod further;
mod had;
pub mod limit;
pub mod loan;
mod many;
pub mod notice;
mod purse;
pub mod put_by;
pub mod short;

use ended::{Ended, fail};
pub use ended::goes_on;
pub use ends::{domain_gone, fell_out, given, sits, text_ended, thread_ended};
pub use had::{deleted, free, get};
pub use loan::cancel;
pub use many::send as send_many;
pub use purse::Purse;
use purse::{account, whose};

const _: () = assert!(::post::KNOWN_MAX as u64 == KNOWN_MAX && ::post::SEVERAL_MAX as u64 == SEVERAL_MAX);

static POOL: Once<Pool> = Once::new();

/// Bytes of the kernel's heap for each message, record and account, and for each post.
const HEAP_EACH: u64 = 8192;
const HEAP_POST: u64 = 4096;

/// Bytes of a message that are copied where it is written down: its words.
const WORDS: u64 = size_of::<[u64; 6]>() as u64;

/// What a thread has of the pool.
#[derive(Default)]
pub struct Part {
    /// Its record; 0: it has none yet.
    record: AtomicU32,
    /// The wait of the scheduler's that is a wait for a message; 0: none.
    wait: AtomicU64,
    /// The slot where the message lies that it goes on with, until it does; 0: none.
    slot: AtomicU32,
}

fn pool() -> &'static Pool {
    POOL.get().expect("the pool is made before anything runs")
}

/// What a user was promised of it, and has: of posts, messages, records and accounts.
pub fn promised_to(user: u64) -> [(u32, u32); 4] {
    POOL.get().map_or([(0, 0); 4], |pool| pool.promised_to(user))
}

/// What has come to each post, by number (`abi::info::layout::PostCounts`): programs read it.
pub static COUNTS: Once<Vec<&'static Page>> = Once::new();
/// Records in a page.
const COUNTS_EACH: usize = 512 / SHOWN;

/// Makes the pool. Boot only.
pub fn set_up() {
    let heap = arch::heap_size();
    let count = (heap / HEAP_EACH) as u32;
    let processors = machine().processors.len();
    let posts = (heap / HEAP_POST).min(POSTS_MAX - 1) as u32;
    let reserve = Reserve { posts: posts / 4, messages: count / 4, receivers: count / 4, accounts: count / 4 };
    let config = Config { posts, messages: count, receivers: count, accounts: count, reserve, processors, rest: sched::breathe, waits: line::waits };
    let pages = (0..(posts as usize + 1).div_ceil(COUNTS_EACH)).map(|_| Page::lasting().expect("memory for what posts count"));
    let pages = COUNTS.call_once(|| pages.collect());
    let shown = |post: u32| -> &'static Shown { &pages[post as usize / COUNTS_EACH].0.as_chunks().0[post as usize % COUNTS_EACH] };
    POOL.call_once(|| Pool::showing(config, shown));
    loan::set_up(count);
}

/// The post at this address.
fn named(post: u64) -> Result<(Arc<Section>, u32), Error> {
    let number = number(machine().node, post).ok_or(Error::NotFound)?;
    let section = Section::named(post).ok().filter(|section| section.kind() == kind::POST).ok_or(Error::NotFound)?;
    Ok((section, number))
}

/// Somebody may have a right to this post no more: who waits there without it hears what it would hear if it came now.
pub fn list_changed(section: &Section) {
    if let Some(number) = number(machine().node, section.base) {
        let may = |waits: Holder| section.check(&*domain_of(waits).ok_or(Error::Dead)?, Rights::READ);
        pool().changed(number, may, wake);
        pool().lenders_changed(number, |who| section.state.lock().acl.rights(who).contains(Rights::READ), wake);
    }
}

/// Whether the list lets this one receive there.
#[cold]
fn may_receive(post: u32, who: &Subject) -> Result<(), Error> {
    let section = named(address(machine().node, post.into()))?.0;
    section.state.lock().acl.check(section.base, who, Rights::READ)
}

/// As who a thread waits, or has received a question; `None`: that is over.
fn domain_of(holder: Holder) -> Option<Arc<Domain>> {
    let thread = machine().threads.find(pool().thread_of(holder.receiver))?;
    thread.inner.lock().domains.get(holder.domain as usize).cloned().flatten()
}

/// As whom a thread lends what it does not wait for. A call ends, and what its caller has lent to it with that, while such a loan goes on: so who is in one lends
/// what the text may on threads of its own task, as if one of those did. In its own text, also where that is called back, a thread is what it is at any time.
fn lends_as(d: &Domain, owner: &Task, sender: Sender) -> Sender {
    if d.number == OWN { sender } else { Sender { thread: 0, task: owner.number, user: owner.user, ..sender } }
}

/// Does `call` as this caller, with permits for the posts at these addresses; once more if a list changes meanwhile.
fn with<T>(
    thread: &Thread,
    d: &Domain,
    posts: &[(u64, Rights)],
    mut call: impl FnMut(&Caller, &[Permit]) -> Result<T, Error>,
) -> Result<T, Error> {
    let owner = d.text.owner();
    let sends = posts.iter().any(|(_, right)| *right == Rights::CALL);
    let known = || pool().known(thread.part.record(), d.number, 0).map_or(0, |known| known.account());
    let account = if sends { account(&owner).unwrap_or(0) } else { known() };
    let mut receiver = thread.part.record();
    if receiver == 0 {
        receiver = pool().open_receiver(thread.number, thread.card.id(), whose(&thread.task)?)?;
        thread.part.record.store(receiver, Ordering::SeqCst);
        thread.task.about.shows_promised();
        thread.card.set_record(receiver);
    }
    let sender = Sender { user: d.speaks_for, ..Sender::of(&d.subject) };
    let by = Caller { sender, lender: lends_as(d, &owner, sender), original: d.subject.original, domain: d.number, receiver, account, processor: here().index };
    // Who sits in a seat does not pass its processor on by a message.
    if thread.seat.load(Ordering::Relaxed) == NO_SEAT {
        pool().introduce(&by);
        if account != 0 && !Arc::ptr_eq(&owner, &d.text.owner()) {
            pool().forget_text(d.text.base);
        }
    }
    loop {
        let mut all = [Permit::default(); SEVERAL_MAX as usize];
        for (permit, (post, right)) in all.iter_mut().zip(posts) {
            let number = number(machine().node, *post).ok_or(Error::NotFound)?;
            *permit = pool().permit_for(&by, (number, *post), *right, || named(*post)?.0.check(d, *right))?;
        }
        match call(&by, &all[..posts.len()]) {
            Err(Error::Changed) => {}
            outcome => return outcome,
        }
    }
}

/// Registers as hands: what is sent is in them, and what comes.
pub struct Registered<'a> {
    frame: &'a Frame,
    woken: Option<Woken>,
    /// Where the message lies that was there.
    came: Option<Lies>,
}

impl Hands for Registered<'_> {
    fn op(&self) -> u64 {
        of_head(self.frame.r15).0.into()
    }

    fn lend(&self) -> u16 {
        of_head(self.frame.r15).1
    }

    fn words(&self) -> &[u64; 6] {
        &self.frame.words
    }

    fn carry(&mut self, _: &Woken, _: Sent, _: u32, _: impl By, _: (u32, Option<Question>), _: impl FnOnce()) -> bool {
        false
    }

    fn wake(&mut self, woken: Woken) {
        self.woken = Some(woken);
    }

    fn written(&self) {
        kept();
    }

    /// Its registers are loaded from there when the thread goes on.
    fn show(&mut self, lies: Lies, _: &Letter) -> bool {
        self.came = Some(lies);
        true
    }

    fn may_receive(&self, post: u32, by: impl By) -> Result<(), Error> {
        may_receive(post, &by.sender().subject(by.original()))
    }
}

/// A message was written down, where it lies until it is received.
#[inline(always)]
fn kept() {
    copied(WORDS);
    arch::percpu::count_message();
}

/// Who has sent the message.
#[inline(always)]
fn say(frame: &mut Frame, from: &Sender) {
    frame.rbx = from.thread;
    frame.rbp = from.place;
    frame.rsi = from.user;
    frame.r15 = from.task;
    frame.rax = 0;
}

fn body_of(thread: &Thread) -> Body {
    let frame = thread.registers(Frame::of);
    let (op, lend, _) = of_head(frame.r15);
    Body { op: op.into(), words: frame.words, lend }
}

/// `post_send`.
pub fn send(thread: &Arc<Thread>, d: &Domain, post: u64, back: u64, limit: u64) -> Result<u64, Error> {
    let body = body_of(thread);
    if body.lend != 0 {
        return loan::send(thread, d, (post, back), &body, limit);
    }
    let back = match back {
        0 => 0,
        back => {
            let (section, number) = named(back)?;
            section.check(d, Rights::READ)?;
            number
        }
    };
    let woken = with(thread, d, &[(post, Rights::CALL)], |by, permits| pool().send(&permits[0], by, &body, back))?;
    kept();
    woken.into_iter().for_each(wake);
    Ok(0)
}

/// The posts at which somebody receives who calls with this frame, the first of them and then those in the registers of a message.
fn several(first: u64, frame: &Frame) -> [u64; SEVERAL_MAX as usize] {
    let Frame { words: [a, b, c, d, e, f], r15, .. } = *frame;
    [first, a, b, c, d, e, f, r15]
}

/// `post_receive`.
pub fn receive(thread: Saved<'_>, d: &Domain, post: u64, count: u64, timeout: u64) {
    let posts = match count {
        0 => Err(Error::BadArgument),
        1..=SEVERAL_MAX => {
            let posts = thread.registers(|registers| several(post, &Frame::of(registers)));
            Ok(posts[..count as usize].iter().map(|post| (*post, Rights::READ)).collect())
        }
        _ => Err(Error::TooBig),
    };
    run(thread, d, posts, timeout, |by, permits, waits, hands| {
        pool().receive_with(permits, by, waits, hands)
    });
}

/// `post_call`.
pub fn call(thread: Saved<'_>, d: &Domain, post: u64, at: u64, timeout: u64) {
    if timeout == 0 {
        return thread.answer(Err(Error::BadArgument));
    }
    let posts = [(post, Rights::CALL), (at, Rights::READ)];
    let posts = posts[..if at == 0 { 1 } else { 2 }].to_vec();
    run(thread, d, Ok(posts), timeout, |by, permits, _, hands| match permits {
        [to, at] => pool().send_and_receive_with(to, at, by, hands),
        _ => pool().ask_with(&permits[0], by, hands),
    });
}

/// `post_answer`.
pub fn answer_question(thread: Saved<'_>, d: &Domain, question: u64, at: u64, timeout: u64) {
    let body = body_of(&thread);
    let Some(question) = Question::from_word(question) else { return thread.answer(Err(Error::NotFound)) };
    if question.is_loan() {
        return loan::answer(thread, d, question, at, timeout, &body);
    }
    if at == 0 {
        let woken = with(&thread, d, &[], |by, _| pool().answer(question, by, &body));
        return thread.answer(woken.map(|woken| {
            kept();
            wake(woken);
            0
        }));
    }
    let mut answered = false;
    run(thread, d, Ok([(at, Rights::READ)].into()), timeout, |by, permits, waits, hands| {
        if waits {
            return pool().answer_and_receive_with(question, &permits[0], by, hands);
        }
        // If the list changes meanwhile, this is done once more, and the answer was given.
        if !answered {
            match pool().answer(question, by, &body) {
                Ok(woken) => {
                    kept();
                    hands.wake(woken);
                }
                Err(error) => return Step::Refused(error),
            }
            answered = true;
        }
        pool().receive_with(permits, by, false, hands)
    });
}

/// A call that may wait: to the scheduler the thread waits from here on, whatever comes of it.
fn run(
    thread: Saved<'_>,
    d: &Domain,
    posts: Result<Vec<(u64, Rights)>, Error>,
    timeout: u64,
    mut call: impl FnMut(&Caller, &[Permit], bool, &mut Registered) -> Step,
) {
    let posts = match posts {
        Ok(posts) => posts,
        Err(error) => return thread.answer(Err(error)),
    };
    // A driver that the scheduler calls: its wait would be ended with the call (`errand.rs`), and the post would not hear of it.
    if timeout != 0 && thread.seat.load(Ordering::Relaxed) != NO_SEAT && thread.inner.lock().depth() > 0 {
        return thread.answer(Err(Error::Busy));
    }
    let ticket = short::begin_wait(thread);
    let frame = thread.registers(Frame::of);
    let mut hands = Registered { frame: &frame, woken: None, came: None };
    let lends = hands.lend() != 0;
    let until = arch::time::now().checked_add(timeout).filter(|_| timeout != 0);
    let step = with(&thread, d, &posts, |by, permits| {
        until.inspect(|until| pool().limit(by.receiver, *until));
        match call(by, permits, timeout != 0, &mut hands) {
            Step::Refused(error) => Err(error),
            step => Ok(step),
        }
    });
    let Registered { woken, came, .. } = hands;
    let ended = match step {
        Ok(Step::Waits(_)) => None,
        Ok(Step::Came) => Some(Ended::there(&thread, came)),
        Ok(Step::Ended(error) | Step::Refused(error)) | Err(error) => Some(Ended::Failed(error)),
    };
    let waits = ended.is_none();
    if let Some(ended) = ended {
        let record = thread.part.record();
        pool().no_limit(record);
        if lends && record != 0 {
            loan::end(&pool().woken(record));
        }
        // It waits no more in the pool, so nobody else ends this wait.
        ended.give(&thread);
        sched::end_wait(&thread, ticket);
        forget_wait(&thread, ticket);
    }
    if let Some(woken) = woken {
        end(woken, waits);
    }
    if waits {
        thread.shows_posts(pool().places(thread.part.record()));
        limit::arm(&thread);
        // Whoever has said so before found no wait yet.
        if thread.is_killed() {
            sched::wake(&thread, ticket, Err(Error::Killed));
        } else if d.text.is_dead() {
            sched::wake(&thread, ticket, Err(Error::Dead));
        }
    }
}

/// From here on this wait can be ended by anybody again: it is over.
fn forget_wait(thread: &Thread, ticket: u64) {
    let _ = thread.part.wait.compare_exchange(ticket, 0, Ordering::SeqCst, Ordering::SeqCst);
}

/// A wait for a message is over: the thread is ready. Or a loan is: whoever has lent that hears of it.
pub fn wake(woken: Woken) {
    end(woken, false);
}

/// The same; `here`: it gets this processor, from the thread that has sent it something and waits.
fn end(woken: Woken, here: bool) {
    loan::end(&woken);
    let Some(thread) = machine().threads.find(woken.thread) else { return loan::finish(woken) };
    if short::is_to_settle(&thread) {
        return;
    }
    let ticket = thread.part.wait.load(Ordering::SeqCst);
    let Some(ended) = Ended::collected(woken.receiver) else { return };
    let note = || ended.notice().into_iter().for_each(|place| line::calls(&thread, place));
    if thread.seat.load(Ordering::Relaxed) != NO_SEAT {
        // It decides on another processor, which may end that wait (seat/errand.rs): only who is first changes its registers.
        sched::wake_written(&thread, ticket, || {
            note();
            ended.give(&thread);
        });
    } else {
        // Whoever has got what this wait has ended with is the only one to end it, and until then its thread goes on nowhere: so one lock after the other.
        ended.give(&thread);
        if here {
            sched::hand_over(&thread, ticket, note);
        } else {
            sched::wake_written(&thread, ticket, note);
        }
    }
    forget_wait(&thread, ticket);
}

/// Whether this is a wait for a message.
pub fn is_wait(thread: &Thread, ticket: u64) -> bool {
    ticket != 0 && thread.part.wait.load(Ordering::SeqCst) == ticket
}

/// Whether this is a wait for a message, and one has come.
pub fn is_over(thread: &Thread, ticket: u64) -> bool {
    let record = thread.part.record();
    record != 0 && is_wait(thread, ticket) && pool().waits(record).is_none()
}

/// Ends this wait for a message by something else. Whether it did: a message may have come first.
pub fn interrupt(thread: &Thread, ticket: u64, error: Error) -> bool {
    let (record, waits) = {
        // As long as it waits nobody else has its record, and a wait of that is this one.
        let wait = thread.wait.lock();
        if wait.life.phase() != Phase::Waiting || wait.ticket != ticket {
            return false;
        }
        let record = thread.part.record();
        (record, if record == 0 { None } else { pool().waits(record) })
    };
    let woken = waits.and_then(|ticket| pool().interrupt(record, ticket, error));
    woken.map(wake).is_some()
}

//! Pagers outside the kernel (SSS-57 to 60, CUBIX-20; docs/decisions/0016): a fault on a page that is absent or invalid is a call of a
//! gate, on the thread that has it. Whom it goes to and who waits is decided in `core/pager`; here is how the thread gets there and back.

mod again;
mod limit;
mod missed;
mod set;

pub use again::{Asked, again, back};
pub use limit::{Round, Standing, attend, look};
pub use missed::{note, noted, noted_since_entry};
pub use set::{set, set_of_task};

use crate::aside;
use crate::domain::{Domain, Place};
use crate::epc::More;
use crate::fault::{self, Denial};
use crate::gate;
use crate::machine::{machine, spare_heap_at_all, spare_heap_for};
use crate::saved::Saved;
use crate::sched;
use crate::seat::NO_SEAT;
use crate::section::{Section, State};
use crate::thread::{Inner, Thread, answer};
use crate::view::Stale;
use crate::trace;
use abi::trace::kind as event;
use abi::layout::PAGE;
use abi::pager::{NOT_MINE, answer, flag, miss, why};
use abi::task::{USER_SYSTEM, cause};
use abi::{Error, Rights};
use ::gate::Block;
use ::pager::answer::Patience;
use ::pager::transit::{Key, Transit};
use ::pager::who::{Candidate, Miss, Outcome, Who};
use again::Seen;
use ::view::Access;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::context::{Area, PAGE_FAULT, Registers, VECTOR_SYSCALL};
use core::sync::atomic::{AtomicU64, Ordering};
use pages::Marks;
use spin::MutexGuard;

/// Of what programs read of a pager: it is asked once more, and it was asked in vain.
const ASKED: u64 = 1;
const IN_VAIN: u64 = 1 << abi::info::layout::IN_VAIN;

/// Counts pagers.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A gate that faults are sent to.
pub struct Pager {
    /// None has had it before.
    number: u64,
    /// Not held: a text knows its task, which would stay with it.
    text: Weak<Section>,
    address: u64,
    block: Block,
    index: u64,
    pub level: u64,
    flags: u64,
    /// Of the text's callers, when the gate was last seen to be there.
    seen: AtomicU64,
}

/// What a section has to do with its pager.
#[derive(Default)]
pub struct Paged {
    pub pager: Option<Arc<Pager>>,
    /// Who waits, by number: who has ended meanwhile keeps no memory here.
    transit: Transit<(u64, u64)>,
    /// Pages that were supplied as clean, and not stored to since.
    pub clean: Marks,
}

/// What a thread has left that is being served by a pager.
pub struct Served {
    area: Area,
    pager: Arc<Pager>,
    missed: Missed,
    who: Who,
    /// The page is in transit for this.
    key: Option<Key>,
    outer: u64,
}

impl Served {
    /// Programs read how often a pager is asked, and with what success.
    fn tells(&self, thread: &Thread, what: u64) {
        match self.who {
            Who::Task => thread.task.shows_asked(what),
            Who::Section => self.missed.section.state.lock().show_asked(what),
        }
    }

    /// It was passed over on the way down: nobody waits for it any more.
    pub fn is_passed(&self, thread: &Thread) {
        thread.served.end(self.outer);
    }

    /// What its thread has left.
    pub fn registers(&self) -> &Registers {
        self.area.registers()
    }
}

/// A page that an access needs, and that is not to be used.
#[derive(Clone)]
pub struct Missed {
    section: Arc<Section>,
    offset: u64,
    address: u64,
    access: Access,
    /// Where it was missed is in the window of the thread's task.
    in_window: bool,
    /// It was the kernel, in a call that is made again: its number and third argument, which the answer is written over.
    call: Option<(u64, u64)>,
}

impl Missed {
    fn denial(&self, cause: u64, detail: u64) -> Denial {
        Denial { cause, section: self.section.base, right: self.access.right(), detail }
    }
}

impl State {
    /// Why a page is not to be used, if so: one of `abi::pager::miss`.
    #[inline(always)]
    pub fn misses(&self, page: u64) -> Option<u64> {
        if self.invalid.has(page) {
            Some(miss::INVALID)
        } else if self.paged.pager.is_some() && self.pages.get(page).is_none() {
            Some(miss::ABSENT)
        } else {
            None
        }
    }
}

impl Pager {
    /// A gate of the executing text, to be a pager.
    fn new(domain: &Domain, address: u64, level: u64, flags: u64) -> Result<Arc<Pager>, Error> {
        if flags & !flag::ALL != 0 {
            return Err(Error::BadArgument);
        }
        spare_heap_for(&domain.text.owner())?;
        let (text, block, index) = gate::find_gate(address).ok_or(Error::NotFound)?;
        if !Arc::ptr_eq(&text, &domain.text) {
            return Err(Error::BadArgument);
        }
        // Which page, of which section, whose fault: that is believed.
        gate::is_for_upcalls(&block)?;
        let (number, seen) = (NUMBERS.fetch_add(1, Ordering::Relaxed), AtomicU64::new(u64::MAX));
        Ok(Arc::new(Pager { number, text: Arc::downgrade(&text), address, block, index, level, flags, seen }))
    }

    /// Its text, if that has not ended.
    pub fn text(&self) -> Option<Arc<Section>> {
        self.text.upgrade().filter(|text| !text.is_dead())
    }

    /// Whether that has ended, or its task has, whose texts nobody comes into any more. Call without locks.
    fn is_closed(&self) -> bool {
        self.text().is_none_or(|text| text.is_closed())
    }

    /// Whether its gate is there.
    fn lives(&self, text: &Section) -> bool {
        let now = text.callers.generation();
        if self.seen.load(Ordering::Relaxed) == now {
            return true;
        }
        let there = text.gates.lock().find(self.address) == Some((self.block, self.index));
        if there {
            self.seen.store(now, Ordering::Relaxed);
        }
        there
    }

    /// Whether it keeps others from taking its place.
    fn is_of_another(&self, domain: &Domain) -> bool {
        self.text().is_some_and(|text| !Arc::ptr_eq(&text, &domain.text))
    }

    fn candidate(&self, domain: &Domain, in_call: bool) -> Candidate {
        let Some(text) = self.text() else { return Candidate { level: self.level, lives: false, known: false } };
        Candidate { level: self.level, lives: self.lives(&text), known: is_known(&text, domain, in_call) }
    }
}

/// Whether a pager's text is no stranger to the one that has the fault. Only where somebody else waits for that does it matter; both may be given to
/// others at any time.
fn is_known(text: &Arc<Section>, domain: &Domain, in_call: bool) -> bool {
    !in_call || Arc::ptr_eq(text, &domain.text) || {
        let owner = text.owner();
        owner.user == USER_SYSTEM || Arc::ptr_eq(&owner, &domain.text.owner())
    }
}

/// An access has found a page that is not to be used. Its section is locked, and the list allows it.
pub fn fault(thread: &Arc<Thread>, domain: &Arc<Domain>, place: &Place, address: u64, access: Access, state: MutexGuard<'_, State>) -> Result<(), Denial> {
    let in_window = place.window.is_some();
    let missed = Missed { section: place.section.clone(), offset: place.offset, address, access, in_window, call: None };
    let seen = Seen::of(&thread.task, domain, place, access, &state);
    drop(state);
    let asks = ask(thread, domain, missed, None);
    if asks.is_ok() && let Some(seen) = seen {
        again::remember(thread, seen);
    }
    asks
}

/// The kernel has missed a page in a call that has changed nothing: the pager is asked and the call made again, as if the instruction had
/// had the fault (pitfalls, H14). Otherwise it stays refused. `result`: as the call has told it, if it has not put it into the registers.
pub fn repeat(thread: &Arc<Thread>, domain: &Arc<Domain>, call: (u64, u64), absent: (u64, bool), result: Option<Result<u64, Error>>) -> Option<Result<u64, Error>> {
    let (address, write) = absent;
    let is_refused = match result {
        Some(result) => result == Err(Error::Absent),
        None => thread.registers(|r| r.vector == VECTOR_SYSCALL && r.rax == Error::Absent.word()),
    };
    if !is_refused {
        return result;
    }
    let Some(place) = domain.locate(address) else {
        // It was refused to be made again, and what was there has gone meanwhile.
        let gone = Err(Error::BadAddress);
        thread.answer(gone);
        return Some(gone);
    };
    let in_window = place.window.is_some();
    let access = if write { Access::Write } else { Access::Read };
    let missed = Missed { section: place.section.clone(), offset: place.offset, address, access, in_window, call: Some(call) };
    {
        let inner = &mut *thread.inner.lock();
        let r = inner.area.registers_mut();
        r.repeat_call();
        // It is no call any more, for whoever ends a wait of it.
        (r.rax, r.rdx, r.vector) = (call.0, call.1, PAGE_FAULT);
    }
    let denial = ask(thread, domain, missed, None).err()?;
    let inner = &mut *thread.inner.lock();
    let r = inner.area.registers_mut();
    r.leave_call();
    r.vector = VECTOR_SYSCALL;
    let error = if denial.cause == cause::INVALID { Error::BadAddress } else { Error::Absent };
    answer(r, Err(error));
    Some(Err(error))
}

/// Finds out whom to ask, and asks, or waits for who does.
fn ask(thread: &Arc<Thread>, domain: &Arc<Domain>, missed: Missed, declined: Option<Who>) -> Result<(), Denial> {
    let page = missed.offset / PAGE;
    let (depth, innermost) = {
        let inner = thread.inner.lock();
        let served = inner.more.iter().rev().find_map(|(_, more)| more.served());
        let by_short_way = || inner.asked.as_ref().and_then(|asked| asked.level());
        (inner.depth(), served.map(|served| served.pager.level).or_else(by_short_way))
    };
    let (of_section, invalid, is_of_task) = {
        let state = missed.section.state.lock();
        // Where it was cut short meanwhile the access is made again, and says so.
        let Some(kind) = state.misses(page).filter(|_| missed.offset < state.len) else { return Ok(()) };
        let invalid = kind == miss::INVALID;
        (state.paged.pager.clone(), invalid, invalid && state.is_of_task(&thread.task, page, missed.in_window))
    };
    let of_task = if is_of_task { thread.task.pager.lock().clone() } else { None };
    // Nor does a thread of the system's wait for a stranger.
    let in_call = depth > 0 || thread.task.user == USER_SYSTEM;
    let candidate = |pager: &Arc<Pager>| pager.candidate(domain, in_call);
    let decides = thread.seat.load(Ordering::Relaxed) != NO_SEAT;
    let known = Miss {
        invalid,
        task: of_task.as_ref().map(candidate),
        section: of_section.as_ref().map(candidate),
        in_call,
        innermost,
        decides,
    };
    let who = match known.whom(declined) {
        Outcome::Ask(who) => who,
        Outcome::Nobody => return Err(missed.denial(cause::INVALID, 0)),
        Outcome::Refused(why) => return Err(missed.denial(cause::PAGER, why)),
    };
    let (pager, of) = match who {
        Who::Task => (of_task, thread.task.number),
        Who::Section => (of_section, 0),
    };
    let Some(pager) = pager else { return Ok(()) };
    // The question is written down, or who waits for its answer; and the pager runs with registers of its own.
    let no_room = missed.denial(cause::PAGER, why::NO_ROOM);
    if spare_heap_at_all(&domain.text).is_err() {
        return Err(no_room);
    }
    let mut key = Some(Key { page, of });
    let validates_before = pager.flags & flag::VALID_BEFORE != 0 && (who == Who::Section || may_validate(thread, domain, &pager, &missed.section));
    if validates_before {
        if pager.is_closed() {
            return Err(missed.denial(cause::PAGER, why::DEAD));
        }
        key = None;
        make_valid(&missed)?;
    } else {
        let mut state = missed.section.state.lock();
        if state.misses(page).is_none() {
            return Ok(());
        }
        if !state.paged.transit.ask(Key { page, of }) {
            drop(state);
            wait(thread, &missed.section, Key { page, of });
            return Ok(());
        }
    }
    let kind = if invalid { miss::INVALID } else { miss::ABSENT };
    let entered = {
        let inner = &mut *thread.inner.lock();
        let area = Area::spare(&mut inner.areas);
        enter(thread, inner, kind, Served { area, pager, missed, who, key, outer: 0 })
    };
    entered.map_err(|served| {
        release(&served);
        if served.pager.is_closed() { served.missed.denial(cause::PAGER, why::DEAD) } else { no_room }
    })
}

/// Whether a page is made valid before a task's pager is asked: the text that has missed it might have done so by a call, or the pager might. (A window
/// shows sections whose lists neither may change.)
fn may_validate(thread: &Arc<Thread>, domain: &Domain, pager: &Pager, section: &Section) -> bool {
    let may = |domain: &Domain| section.state.lock().acl.rights(&domain.subject).contains(Rights::CHANGE_ACL);
    if may(domain) {
        return true;
    }
    let Some(text) = pager.text() else { return false };
    let Ok(pager) = thread.domain_for(&mut thread.inner.lock(), &text) else { return false };
    may(&pager)
}

/// SSS-60: first the page, then the pager.
fn make_valid(missed: &Missed) -> Result<(), Denial> {
    let page = missed.offset / PAGE;
    let mut state = missed.section.state.lock();
    if state.deleted || missed.offset >= state.len {
        return Ok(());
    }
    // Without a pager of the section's an absent page is one of zeroes, when it is touched.
    let is_absent = state.paged.pager.is_some() && state.pages.get(page).is_none();
    let present = if is_absent { crate::claim::present(&mut state, page, false).map(Some) } else { Ok(None) };
    let present = present.map_err(|_| missed.denial(cause::NO_MEMORY, 0))?;
    state.invalid.take(page, 1);
    state.shows_again(page * PAGE, PAGE);
    let mut stale = Stale::default();
    if let Some(present) = present {
        drop(present.frame);
        stale.join(present.stale);
    }
    drop(state);
    stale.flush();
    Ok(())
}

/// Somebody asks for the page already: the thread waits, and makes its access once more. (Its wait begins first, so that no answer comes
/// between looking and waiting.)
fn wait(thread: &Arc<Thread>, section: &Section, key: Key) {
    let ticket = sched::begin_wait(Saved::by_fault(thread));
    let has_left = |(other, ticket): &(u64, u64)| machine().threads.look(*other, |other| other.has_left(*ticket)).unwrap_or(true);
    let joined = section.state.lock().paged.transit.wait(key, (thread.number, ticket), has_left);
    if joined.is_err() || thread.is_killed() {
        sched::wake_with(thread, ticket, |_| {});
    }
}

/// Enters the pager.
fn enter(thread: &Arc<Thread>, inner: &mut Inner, kind: u64, mut served: Served) -> Result<(), Served> {
    let pager = served.pager.clone();
    let Missed { section, offset, access, .. } = &served.missed;
    trace::note(event::PAGER, section.base, *offset / PAGE * PAGE);
    let words = [section.base, *offset, u64::from(access.right().bits()), kind];
    let text = pager.text().ok_or(Error::Dead);
    let entered = text.and_then(|text| aside::enter(thread, inner, &text, &pager.block, pager.index, words, &mut served.area));
    let Ok(depth) = entered else { return Err(served) };
    served.outer = thread.served.begin();
    served.tells(thread, ASKED);
    inner.more.push((depth, More::Served(served)));
    Ok(())
}

/// The thread is back from a pager (its frame is off): everything of the thread is as it was. Under its lock.
pub fn restore(thread: &Thread, inner: &mut Inner, served: &mut Served) {
    aside::come_back(inner, &mut served.area);
    thread.served.end(served.outer);
}

/// What comes of the answer: the access is made again, or somebody else asked, or it is an error. Without locks.
pub fn returned(thread: &Arc<Thread>, served: Served, result: Result<[u64; 2], Error>) {
    trace::note(event::PAGED, served.missed.section.base, served.missed.offset / PAGE * PAGE);
    let domain = thread.domain();
    if result == Ok([0, answer::VALID]) {
        validate(thread, &served);
    }
    let is_there = release(&served);
    let failed = match result {
        Ok([0, answer::DONE | answer::VALID]) => {
            let goes_on = served.key.is_none() || thread.inner.lock().patience.answered(is_there);
            if goes_on { None } else { Some(why::NOT_VALID) }
        }
        Ok([NOT_MINE, _]) => {
            let missed = served.missed.clone();
            match ask(thread, &domain, missed, Some(served.who)) {
                Ok(()) => None,
                Err(denial) => Some(denial.detail),
            }
        }
        Ok(_) => Some(why::REFUSED),
        Err(Error::Dead) => Some(why::DEAD),
        Err(Error::TimedOut) => Some(why::TIMED_OUT),
        Err(_) => Some(why::FAULTED),
    };
    if failed.is_some() {
        served.tells(thread, IN_VAIN);
    }
    let Served { area, missed, .. } = served;
    aside::keep(thread, area);
    let Some(why) = failed else { return };
    if missed.call.is_some() {
        let inner = &mut *thread.inner.lock();
        let r = inner.area.registers_mut();
        r.rip = r.rip.wrapping_add(2);
        return answer(r, Err(Error::Absent));
    }
    fault::stop(thread, &domain, missed.address, missed.denial(cause::PAGER, why));
}

/// The pager says that the page is to be made valid: as if it had made the call. If it may not, the page stays as it is.
fn validate(thread: &Arc<Thread>, served: &Served) {
    let Some(text) = served.pager.text() else { return };
    let Ok(pager) = thread.domain_for(&mut thread.inner.lock(), &text) else { return };
    let Missed { section, offset, .. } = &served.missed;
    let Ok(mut state) = section.lock_for(&pager, Rights::CHANGE_ACL) else { return };
    if *offset < state.len {
        state.invalid.take(offset / PAGE, 1);
        state.shows_again(offset / PAGE * PAGE, PAGE);
    }
}

/// The page is in transit no more: who has waited looks anew. Whether it can be used now. Without locks.
pub fn release(served: &Served) -> bool {
    let Some(key) = served.key else { return true };
    let (is_there, waiters) = {
        let mut state = served.missed.section.state.lock();
        (state.misses(key.page).is_none(), state.paged.transit.answered(key))
    };
    sched::in_stretches(waiters, |(number, ticket)| {
        if let Some(thread) = machine().threads.find(number) {
            sched::wake_with(&thread, ticket, |_| {});
        }
    });
    is_there
}

/// Of a thread: areas that its next pagers run with, and how patient it still is.
pub type Areas = Vec<Area>;
pub type OwnPatience = Patience;

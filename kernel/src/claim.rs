//! The only way for the kernel to a program's memory: an address from a program is a claim, checked with that domain's
//! rights page by page and reached through the kernel's own mapping, never through the program's (pitfalls, H14). Its rights are
//! those of the list, and what is lent to it with a question as long as that is open.

pub mod passed;

use crate::domain::{Domain, Place};
use crate::pager;
use crate::post::loan;
use crate::processor::{self, here};
use crate::promise;
use crate::sched::{self, Step, Stretch};
use crate::section::{Section, StackOf, State};
use crate::task::Task;
use crate::view::{self, Change, Stale};
use abi::layout::{PAGE, WINDOW_END};
use abi::refusal::Object;
use abi::section::kind;
use abi::{Error, Rights};
use ::post::Question;
use ::view::Access;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use arch::Heap;
use arch::frames::Frame;
use quota::Resource;
use spin::MutexGuard;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What became of a page that was made present.
pub struct Present {
    /// To be dropped before the section's lock: a page with two holders counts as shared.
    pub frame: Arc<Frame>,
    /// To flush after the lock: other mappings of a page that was copied.
    pub stale: Stale,
}

/// Refuses the bookkeeping of a page where little is left of the kernel's heap. It may take more than an object, because refusing ends a program; and a server must not
/// fail at its own memory because its callers have used up the machine's.
#[inline]
pub fn spare_heap_for_page(state: &State) -> Result<(), Error> {
    if arch::heap_is_plenty() { Ok(()) } else { look_for_heap(state) }
}

#[cold]
#[inline(never)]
fn look_for_heap(state: &State) -> Result<(), Error> {
    let for_system = state.stack.is_some_and(|of| of.for_system) && arch::heap_has_room(Heap::SystemsPage, 0);
    if for_system { Ok(()) } else { promise::look_for_heap(&state.owner, Heap::Page, true) }
}

/// A stack is short, and who has used up his quota must still be able to run a callee that knows what to do: its pages are charged all the same. The system's
/// callees are not refused at all.
#[cold]
#[inline(never)]
fn charge_stack(owner: &Task, stack: Option<StackOf>, why: Error) -> Result<(), Error> {
    match stack {
        Some(of) if of.for_system || why == Error::MemoryQuota => owner.charge_beyond(1, of.for_system),
        _ => Err(why),
    }
}

/// Makes a page present, for a store also exclusive. The section's lock is held; rights have been checked.
pub fn present(state: &mut State, page: u64, write: bool) -> Result<Present, Error> {
    let mut stale = Stale::default();
    if write {
        state.paged.clean.take(page, 1);
    }
    let is_there = if write { state.pages.writable(page) } else { true };
    if is_there && let Some(frame) = state.pages.get(page) {
        return Ok(Present { frame: frame.clone(), stale });
    }
    // A clone's first store takes memory for its own list of pages, too.
    spare_heap_for_page(state)?;
    let State { pages, owner, charged, mapped, stack, .. } = state;
    let mut fresh = || {
        owner.charge(Resource::Frames, 1).or_else(|why| charge_stack(owner, *stack, why))?;
        *charged += 1;
        Frame::zeroed().map(Arc::new).ok_or_else(|| {
            *charged -= 1;
            owner.release(Resource::Frames, 1);
            Error::NoMemory
        })
    };
    // It was paid for when the clone was made.
    let copy = |old: &Arc<Frame>| {
        if !stack.is_some_and(|of| of.for_system) {
            promise::may_copy(owner)?;
        }
        Frame::copy_of(old).inspect(|_| processor::copied(PAGE)).map(Arc::new).ok_or(Error::NoMemory)
    };
    if !write {
        let frame = pages.ensure(page, fresh)?.clone();
        state.show_charged();
        return Ok(Present { frame, stale });
    }
    let wrote = pages.make_writable(page, |old| match old {
        None => fresh(),
        Some(old) => copy(old),
    })?;
    let frame = wrote.page.clone();
    let replaced = wrote.replaced;
    if let Some(replaced) = replaced {
        stale = view::change_first(mapped, page * PAGE, PAGE, Change::Unmap);
        stale.frames.push(replaced);
    }
    state.show_charged();
    Ok(Present { frame, stale })
}

/// A store has replaced a page by a copy that processors still read: nobody uses the copy before they have forgotten it. (Who stored
/// there could say so elsewhere, to somebody who would not see it.) Where many views have it they lose it in stretches, between which interrupts are let in.
pub fn settle(section: &Section, state: MutexGuard<State>, stale: Stale) {
    settle_by(section, state, stale, || here().away_from_user(sched::breathe));
}

/// The same with something else in between.
pub fn settle_by<'a>(section: &'a Section, mut state: MutexGuard<'a, State>, mut stale: Stale, rest: fn()) {
    state.replacing += 1;
    // Views that are not changed yet have them still.
    let frames = core::mem::take(&mut stale.frames);
    loop {
        drop(state);
        let others = stale.rest.take();
        stale.flush();
        if others.is_some() {
            rest();
        }
        state = section.state.lock();
        match others {
            Some(others) => stale = view::change_rest(&state.mapped, others),
            None => break,
        }
    }
    state.replacing -= 1;
    drop(state);
    drop(frames);
}

/// Checks one page's worth of a claim, at this address; the state's lock is held. `lent`: the question with which that is lent, perhaps.
///
/// What is lent is so only under this lock: whoever ends the question takes it afterwards, before its asker goes on (`post/loan.rs`). So what is done
/// there goes before that end, and whoever lets go of the lock checks again.
#[inline]
fn check(domain: &Domain, place: &Place, state: &State, rights: Rights, (address, lent): (u64, Option<Question>)) -> Result<(), Error> {
    let is_lent = |access| lent.is_some_and(|question| is_lent(domain, place, state, access, (address, question)));
    check_as(domain, place, place.offset, state, rights, is_lent)
}

/// The same by the list alone, for any page of the mapping.
#[inline]
pub fn check_at(domain: &Domain, place: &Place, offset: u64, state: &State, rights: Rights) -> Result<(), Error> {
    check_as(domain, place, offset, state, rights, |_| false)
}

#[inline]
fn check_as(domain: &Domain, place: &Place, offset: u64, state: &State, rights: Rights, is_lent: impl Fn(Access) -> bool) -> Result<(), Error> {
    if offset >= state.len || (place.section.is_dead() && place.section.is_text()) {
        return Err(Error::BadAddress);
    }
    let page = offset / PAGE;
    if place.section.kind() == kind::STACK && page == 1 {
        return Err(Error::BadAddress);
    }
    let access = if rights.contains(Rights::WRITE) { Access::Write } else { Access::Read };
    match ::view::decide(state.acl.rights(&domain.subject), place.section.kind(), access, place.window) {
        Err(missing) if !is_lent(access) => Err(refused(domain, place, access.named(missing))),
        _ if state.misses(page).is_some() => Err(Error::Absent),
        _ => Ok(()),
    }
}

/// Whether what the list refuses is lent to the thread that runs here, in this domain: just what a load or a store of its own would find (`fault.rs`).
#[cold]
fn is_lent(domain: &Domain, place: &Place, state: &State, access: Access, (address, question): (u64, Question)) -> bool {
    let lent = loan::rights(question, (&here().current(), domain), &place.section, state, address);
    let rights = state.acl.rights(&domain.subject) | lent;
    place.window.is_none() && ::view::decide(rights, place.section.kind(), access, None).is_ok()
}

/// The list has refused this, also with what is lent with the question `before`: the one to try next, if there is one. Among many waits it takes long to
/// find. Call without locks.
#[cold]
fn other_loan(domain: &Domain, address: u64, refused: Error, before: Option<Question>) -> Result<Option<Question>, Error> {
    let is_of_list = refused.refusal().is_some();
    let found = if is_of_list { loan::find(&here().current(), domain, address, before) } else { None };
    if found.is_none() { Err(refused) } else { Ok(found) }
}

/// What lies behind a window address is not the domain's to know: there, memory that it may not touch is just no memory.
#[cold]
fn refused(domain: &Domain, place: &Place, right: Rights) -> Error {
    match place.window {
        None => domain.subject.refused(Object::Section(place.section.base, right)),
        Some(_) => Error::BadAddress,
    }
}

/// Where somebody clones a section, or a page of it leaves many views, which takes as long as the section is large: that is `Busy`, for who holds a thread's lock (who
/// does that, and interrupts that come meanwhile, may want that; nor does he look for loans, but has found the question `lent` before);
const AT_ONCE: u8 = 0;
/// it is as if the page were absent: the call is made again, as it was made, and others have their turns meanwhile;
pub const AGAIN: u8 = 1;
/// it is waited for: by who does this for no call, or has changed something already.
const WAITS: u8 = 2;

/// Walks a claimed range page by page: `each(frame, offset in frame, offset in range, length)` runs under the section's
/// lock, so that a right that was taken away is not used after its taker has been told. Whoever copies says so.
pub fn walk<const HOW: u8>(domain: &Domain, address: u64, len: u64, rights: Rights, each: impl FnMut(&Frame, usize, usize, usize)) -> Result<(), Error> {
    walk_as::<HOW>(domain, address, len, rights, None, each)
}

/// Somebody does something with all of a section, which takes as long as that is large, and is waited for: interrupts are let in meanwhile. Call without locks.
#[cold]
pub fn wait_a_moment() {
    here().away_from_user(sched::breathe);
    arch::cpu::relax();
}

fn walk_as<const HOW: u8>(
    domain: &Domain,
    address: u64,
    len: u64,
    rights: Rights,
    mut lent: Option<Question>,
    mut each: impl FnMut(&Frame, usize, usize, usize),
) -> Result<(), Error> {
    address.checked_add(len).ok_or(Error::BadAddress)?;
    let mut done = 0;
    while done < len {
        let at = address + done;
        let part = (PAGE - at % PAGE).min(len - done);
        let place = domain.locate(at).ok_or(Error::BadAddress)?;
        let write = rights.contains(Rights::WRITE);
        // Of each page all loans are tried: that of the one before, and then one after the other.
        let mut tried = None;
        let stale = loop {
            let mut state = place.section.state.lock();
            if let Err(error) = check(domain, &place, &state, rights, (at, lent)) {
                drop(state);
                if error == Error::Absent {
                    pager::note(at, write);
                }
                if HOW == AT_ONCE {
                    return Err(error);
                }
                lent = other_loan(domain, at, error, tried)?;
                tried = lent;
                continue;
            }
            if state.sealing {
                // That takes as long as the section is large.
                return Err(Error::Busy);
            }
            if HOW == AT_ONCE && !state.is_there(place.offset / PAGE, write) {
                return Err(Error::Busy);
            }
            if state.must_wait(place.offset / PAGE, write) {
                drop(state);
                if HOW == AGAIN {
                    pager::note(at, write);
                    return Err(Error::Absent);
                }
                wait_a_moment();
                continue;
            }
            let page = present(&mut state, place.offset / PAGE, write)?;
            if page.stale.is_remembered() {
                drop(page.frame);
                settle(&place.section, state, page.stale);
                continue;
            }
            each(&page.frame, (at % PAGE) as usize, done as usize, part as usize);
            break page.stale;
        };
        stale.flush();
        done += part;
    }
    Ok(())
}

/// Copies bytes from a program's memory, for a call that has changed nothing yet.
pub fn read(domain: &Domain, address: u64, to: &mut [u8]) -> Result<(), Error> {
    read_as::<AGAIN>(domain, address, to)
}

/// The same for anybody else.
pub fn wait_and_read(domain: &Domain, address: u64, to: &mut [u8]) -> Result<(), Error> {
    read_as::<WAITS>(domain, address, to)
}

fn read_as<const HOW: u8>(domain: &Domain, address: u64, to: &mut [u8]) -> Result<(), Error> {
    let len = to.len() as u64;
    walk::<HOW>(domain, address, len, Rights::READ, |frame, offset, at, part| {
        frame.read(offset, &mut to[at..at + part]);
        processor::copied(part as u64);
    })
}

/// Copies bytes to a program's memory, for a call that writes the same when it is made again. (A failure may come after part of it.)
pub fn write(domain: &Domain, address: u64, from: &[u8]) -> Result<(), Error> {
    write_as::<AGAIN>(domain, address, from)
}

/// The same for anybody else.
pub fn wait_and_write(domain: &Domain, address: u64, from: &[u8]) -> Result<(), Error> {
    write_as::<WAITS>(domain, address, from)
}

/// The same for who holds a thread's lock.
///
/// # Errors
/// `Busy`: it is not [ready]. Let go of the lock, see to that, and try again.
pub fn write_locked(domain: &Domain, address: u64, from: &[u8]) -> Result<(), Error> {
    write_as::<AT_ONCE>(domain, address, from)
}

/// Sees to it that all of it is there to be written to, if nobody changes that.
pub fn ready(domain: &Domain, address: u64, len: u64) -> Result<(), Error> {
    walk::<WAITS>(domain, address, len, Rights::READ | Rights::WRITE, |_, _, _, _| ())
}

/// The same for a call that has changed nothing yet.
pub fn ready_or_again(domain: &Domain, address: u64, len: u64) -> Result<(), Error> {
    walk::<AGAIN>(domain, address, len, Rights::READ | Rights::WRITE, |_, _, _, _| ())
}

fn write_as<const HOW: u8>(domain: &Domain, address: u64, from: &[u8]) -> Result<(), Error> {
    let len = from.len() as u64;
    walk::<HOW>(domain, address, len, Rights::READ | Rights::WRITE, |frame, offset, at, part| {
        frame.write(offset, &from[at..at + part]);
        processor::copied(part as u64);
    })
}

/// Reads a record of the ABI.
pub fn read_record<T: FromBytes + IntoBytes>(domain: &Domain, address: u64) -> Result<T, Error> {
    let mut record = T::new_zeroed();
    read(domain, address, record.as_mut_bytes())?;
    Ok(record)
}

/// Writes a record of the ABI.
pub fn write_record<T: IntoBytes + Immutable>(domain: &Domain, address: u64, record: &T) -> Result<u64, Error> {
    write(domain, address, record.as_bytes())?;
    Ok(0)
}

/// Reads at most `most` bytes into the kernel.
pub fn read_bytes(domain: &Domain, address: u64, len: u64, most: u64) -> Result<Vec<u8>, Error> {
    if len > most {
        return Err(Error::TooBig);
    }
    let mut bytes = vec![0; len as usize];
    read(domain, address, &mut bytes)?;
    Ok(bytes)
}

/// Whether a domain may do all of `rights` in a whole range, which may consist of as many sections as a program likes: it is gone through from `from` on (from
/// the beginning) in stretches, between which it is left where this processor has something else to see to. Call without locks.
pub fn may(domain: &Domain, address: u64, len: u64, rights: Rights, from: Option<u64>) -> Step {
    let Some(end) = address.checked_add(len) else { return Step::Done(0) };
    let (mut at, mut stretch) = (from.unwrap_or(address), Stretch::default());
    while at < end {
        let Some((next, steps)) = may_at(domain, &[domain], at, rights, |_, _| true) else { return Step::Done(0) };
        at = next;
        if stretch.is_over_after(steps) {
            here().away_from_user(sched::breathe);
            if sched::is_due() && at < end {
                return Step::At(at);
            }
        }
    }
    Step::Done(1)
}

/// Whether all of them may at an address, as one of them sees it, and `says` so. To where that is said, and how many steps it was.
fn may_at(
    seen_by: &Domain,
    domains: &[&Domain],
    at: u64,
    rights: Rights,
    says: impl FnOnce(&Arc<Section>, &mut State) -> bool,
) -> Option<(u64, usize)> {
    let place = seen_by.locate(at)?;
    let mut state = place.section.state.lock();
    let dead = place.section.is_text() && place.section.is_dead();
    let window = place.window.unwrap_or(Rights::all());
    let held = |domain: &&Domain| (state.acl.rights(&domain.subject) & window).contains(rights);
    let possible = match place.section.kind() {
        kind::TEXT => !rights.contains(Rights::WRITE),
        _ => !rights.contains(Rights::EXECUTE),
    };
    if dead || place.offset >= state.len || !possible || !domains.iter().all(held) || !says(&place.section, &mut state) {
        return None;
    }
    // On to the end of the mapping or of the section, whichever comes first.
    let next = (place.at + place.len).min(at + (state.len - place.offset));
    Some((next, state.steps() * domains.len()))
}

/// Whether each of the domains may, all of it, and it is said of each section there, too. (What lies in a window is not passed: its personality may show something
/// else there at the next moment.)
fn may_each(domains: &[&Domain], address: u64, len: u64, rights: Rights, mut says: impl FnMut(&Arc<Section>, &mut State) -> bool) -> bool {
    let Some(end) = address.checked_add(len) else { return false };
    // Above the windows all see the same.
    let together = address >= WINDOW_END && !domains.iter().any(|domain| domain.in_window);
    let mut stretch = Stretch::default();
    let mut all_may = |seen_by: &Domain, domains: &[&Domain]| {
        let mut at = address;
        while at < end {
            let says = |section: &Arc<Section>, state: &mut State| !together || says(section, state);
            let Some((next, steps)) = may_at(seen_by, domains, at, rights, says) else { return false };
            at = next;
            if stretch.is_over_after(steps) {
                here().away_from_user(sched::breathe);
            }
        }
        true
    };
    if together {
        return domains.first().is_some_and(|first| all_may(first, domains));
    }
    domains.iter().all(|domain| all_may(domain, &[domain]))
}

/// Writes into a section on the kernel's own behalf, within one page.
///
/// # Errors
/// `Dead`: its task has ended meanwhile, and it with that. Those of [`present`].
pub fn fill(section: &Section, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    loop {
        let mut state = section.state.lock();
        if state.deleted || offset + bytes.len() as u64 > state.len {
            return Err(Error::Dead);
        }
        let Present { frame, stale } = present(&mut state, offset / PAGE, true)?;
        if stale.is_remembered() {
            drop(frame);
            settle(section, state, stale);
            continue;
        }
        processor::copied(bytes.len() as u64);
        frame.write((offset % PAGE) as usize, bytes);
        drop(frame);
        drop(state);
        stale.flush();
        return Ok(());
    }
}

/// An aligned 32-bit word of a program's memory.
pub struct Word {
    section: Arc<Section>,
    offset: u64,
    address: u64,
    /// The question with which it was lent when it was found, if it was.
    lent: Option<Question>,
}

impl Word {
    /// The same for everyone who means this word, and for nobody who means one that comes to lie there later.
    pub fn key(&self) -> (u64, u64) {
        (self.section.serial, self.offset)
    }

    /// Its value now.
    ///
    /// # Errors
    /// `Busy`: it is not [`Word::ready`]. Let go of the lock that was held, see to that, and try again.
    pub fn load(&self, domain: &Domain) -> Result<u32, Error> {
        let mut value = 0;
        walk_as::<AT_ONCE>(domain, self.address, 4, Rights::READ, self.lent, |frame, offset, _, _| value = frame.load(offset))?;
        Ok(value)
    }

    /// Sees to it that it is there to be read, if nobody changes that.
    pub fn ready(&self, domain: &Domain) -> Result<(), Error> {
        walk::<AGAIN>(domain, self.address, 4, Rights::READ, |_, _, _, _| ())
    }
}

pub fn word(domain: &Domain, address: u64, rights: Rights) -> Result<Word, Error> {
    if !address.is_multiple_of(4) {
        return Err(Error::BadAddress);
    }
    let mut lent = None;
    loop {
        let place = domain.locate(address).ok_or(Error::BadAddress)?;
        let checked = check(domain, &place, &place.section.state.lock(), rights, (address, lent));
        let Err(error) = checked else { return Ok(Word { section: place.section, offset: place.offset, address, lent }) };
        if error == Error::Absent {
            pager::note(address, rights.contains(Rights::WRITE));
        }
        lent = other_loan(domain, address, error, lent)?;
    }
}

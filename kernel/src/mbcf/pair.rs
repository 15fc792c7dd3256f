//! What all memory operations are made of: ranges of a program's memory that are checked as its own accesses are, the locks of one or two
//! sections, and bytes copied once, from page to page. Nothing here waits for anybody: what would have to is `Busy` or `Absent`.

use crate::claim::{self, Present};
use crate::domain::{Domain, Place};
use crate::pager;
use crate::processor::{copied, here};
use crate::section::{Section, State};
use crate::view::Stale;
use abi::layout::PAGE;
use abi::section::kind;
use abi::{Error, Rights};
use alloc::sync::Arc;
use spin::MutexGuard;

/// How often an operation begins anew because a page was being replaced.
pub const TRIES: u32 = 8;
/// How often one looks for a lock that is held.
const LOOKS: u32 = 5_000;

/// A range that a program names, within one mapping of one section.
pub struct Range {
    place: Place,
    len: u64,
}

impl Range {
    pub fn new(d: &Domain, address: u64, len: u64) -> Result<Range, Error> {
        let place = d.locate(address).ok_or(Error::BadAddress)?;
        if (place.at + place.len).checked_sub(address).is_none_or(|rest| rest < len) {
            return Err(Error::BadAddress);
        }
        // A device's memory is for instructions of the width that it wants.
        if matches!(place.section.kind(), kind::DEVICE | kind::PORTS | kind::POST) {
            return Err(Error::NotSupported);
        }
        Ok(Range { place, len })
    }

    pub fn section(&self) -> &Arc<Section> {
        &self.place.section
    }

    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// Whether the domain may do that with all of it, and could now.
    pub fn check(&self, d: &Domain, state: &State, rights: Rights) -> Result<(), Error> {
        let mut at = self.place.offset;
        loop {
            claim::check_at(d, &self.place, at, state, rights)?;
            at = (at / PAGE + 1) * PAGE;
            if at >= self.place.offset + self.len {
                break;
            }
        }
        is_still(state)
    }

    /// The same, for a call that is made again (`light.rs`).
    pub fn needs(&self, d: &Domain, state: &State, rights: Rights) -> Result<(), Error> {
        let place = &self.place;
        let write = rights.contains(Rights::WRITE);
        let address = |offset: u64| place.at + offset.saturating_sub(place.from);
        let missed = |error: &Error| note(*error, state, place.offset, self.len, write, address);
        self.check(d, state, rights).inspect_err(missed)
    }
}

/// What a call says that has missed a page of this range: it is made again when the page's pager was asked (`light.rs`).
#[cold]
fn note(error: Error, state: &State, offset: u64, len: u64, write: bool, address: impl Fn(u64) -> u64) {
    if error != Error::Absent {
        return;
    }
    let mut pages = offset / PAGE..=(offset + len.max(1) - 1) / PAGE;
    if let Some(page) = pages.find(|page| state.misses(*page).is_some()) {
        pager::note(address(page * PAGE), write);
    }
}

/// Nobody is changing the section's pages at large.
pub fn is_still(state: &State) -> Result<(), Error> {
    if state.sealing || state.cloning || state.replacing > 0 { Err(Error::Busy) } else { Ok(()) }
}

/// The locks of two sections, or of one that is both.
pub struct Both<'a> {
    a: MutexGuard<'a, State>,
    b: Option<MutexGuard<'a, State>>,
}

impl<'a> Both<'a> {
    /// Takes them, in whatever order others do: the second one is not waited for while the first is held.
    pub fn lock(a: &'a Arc<Section>, b: &'a Arc<Section>) -> Result<Both<'a>, Error> {
        if Arc::ptr_eq(a, b) {
            return Ok(Both { a: a.state.lock(), b: None });
        }
        for _ in 0..LOOKS {
            let first = a.state.lock();
            if let Some(second) = b.state.try_lock() {
                return Ok(Both { a: first, b: Some(second) });
            }
            drop(first);
            arch::cpu::relax();
        }
        Err(Error::Busy)
    }

    pub fn a(&mut self) -> &mut State {
        &mut self.a
    }

    pub fn b(&mut self) -> &mut State {
        self.b.as_deref_mut().unwrap_or(&mut self.a)
    }

    /// A page of `a` was replaced, and processors are to forget the old one.
    pub fn settle_a(self, a: &Section, stale: Stale) {
        drop(self.b);
        settle(a, self.a, stale);
    }

    /// The same for `b`.
    pub fn settle_b(self, b: &Section, stale: Stale) {
        let Both { a, b: second } = self;
        match second {
            Some(second) => {
                drop(a);
                settle(b, second, stale);
            }
            None => settle(b, a, stale),
        }
    }

    /// Copies from `a` to `b`, where all pages are prepared. Offsets are those in the sections.
    pub fn copy(&mut self, from: u64, to: u64, len: u64) -> Result<(), Error> {
        // Backwards where the beginning of what is read would be written first.
        let backwards = self.b.is_none() && from < to;
        let mut done = 0;
        while done < len {
            let (at, onto, part);
            if backwards {
                let (end, end_to) = (from + len - done, to + len - done);
                part = ((end - 1) % PAGE + 1).min((end_to - 1) % PAGE + 1).min(len - done);
                (at, onto) = (end - part, end_to - part);
            } else {
                (at, onto) = (from + done, to + done);
                part = (PAGE - at % PAGE).min(PAGE - onto % PAGE).min(len - done);
            }
            // In this order: a page that is held once more looks shared.
            let target = claim::present(self.b(), onto / PAGE, true)?;
            let source = claim::present(self.a(), at / PAGE, false)?;
            target.frame.copy_in((onto % PAGE) as usize, &source.frame, (at % PAGE) as usize, part as usize);
            copied(part);
            done += part;
        }
        Ok(())
    }
}

/// The section's other users forget a page that was replaced.
pub fn settle(section: &Section, state: MutexGuard<'_, State>, stale: Stale) {
    // Others wait for nobody who waits for them.
    here().away_from_user(|| claim::settle(section, state, stale));
}

/// The same for one who holds his thread's lock: no interrupts are let in, however many views there are.
pub fn settle_at_once(section: &Section, state: MutexGuard<'_, State>, stale: Stale) {
    here().away_from_user(|| claim::settle_by(section, state, stale, || ()));
}

/// Makes the pages of a range ready to be written by the kernel. `Some`: one was replaced, which is to be settled, and all to be begun anew.
pub fn prepare(state: &mut State, offset: u64, len: u64) -> Result<Option<Stale>, Error> {
    if len == 0 {
        return Ok(None);
    }
    if offset.checked_add(len).is_none_or(|end| end > state.len) {
        return Err(Error::BadAddress);
    }
    is_still(state)?;
    for page in offset / PAGE..=(offset + len - 1) / PAGE {
        if state.misses(page).is_some() {
            return Err(Error::Absent);
        }
        let Present { frame, stale } = claim::present(state, page, true)?;
        drop(frame);
        if !stale.is_settled() || stale.is_remembered() {
            return Ok(Some(stale));
        }
    }
    Ok(None)
}

/// The same, for a call that is made again (`light.rs`).
pub fn prepare_needed(section: &Section, state: &mut State, offset: u64, len: u64) -> Result<Option<Stale>, Error> {
    prepare(state, offset, len).inspect_err(|error| note(*error, state, offset, len, true, |at| section.base + at))
}

/// Bytes in a section that may be read there, for a call that is made again (`light.rs`): whether they can be now.
pub fn needs(section: &Section, state: &State, offset: u64, len: u64) -> Result<(), Error> {
    let mut pages = offset / PAGE..=(offset + len.max(1) - 1) / PAGE;
    if pages.all(|page| state.misses(page).is_none()) {
        return Ok(());
    }
    note(Error::Absent, state, offset, len, false, |at| section.base + at);
    Err(Error::Absent)
}

/// Writes bytes where the pages are prepared.
pub fn put(state: &mut State, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let part = ((PAGE - at % PAGE) as usize).min(bytes.len() - done);
        let page = claim::present(state, at / PAGE, true)?;
        page.frame.write((at % PAGE) as usize, &bytes[done..done + part]);
        done += part;
    }
    copied(bytes.len() as u64);
    Ok(())
}

/// Reads bytes, where the range was checked.
pub fn get(state: &mut State, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
    let mut done = 0;
    while done < bytes.len() {
        let at = offset + done as u64;
        let part = ((PAGE - at % PAGE) as usize).min(bytes.len() - done);
        let page = claim::present(state, at / PAGE, false)?;
        page.frame.read((at % PAGE) as usize, &mut bytes[done..done + part]);
        done += part;
    }
    Ok(())
}

/// Writes words within one page, one after the other.
pub fn put_words(state: &mut State, offset: u64, words: &[u64]) -> Result<(), Error> {
    let page = claim::present(state, offset / PAGE, true)?;
    let at = (offset % PAGE) as usize;
    words.iter().enumerate().for_each(|(i, word)| page.frame.store_long(at + 8 * i, *word));
    Ok(())
}

/// The word there.
pub fn get_word(state: &mut State, offset: u64) -> Result<u64, Error> {
    let page = claim::present(state, offset / PAGE, false)?;
    Ok(page.frame.load_long((offset % PAGE) as usize))
}

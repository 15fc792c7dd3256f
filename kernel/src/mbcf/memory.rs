//! Operations on plain memory (SSS-45): bytes and words.

use super::Done;
use super::pair::{Both, Range, TRIES, prepare, put, settle};
use crate::claim::{self, Present};
use crate::domain::Domain;
use abi::layout::PAGE;
use abi::mbcf::DATA_MAX;
use abi::{Error, Rights};
use core::sync::atomic::Ordering::SeqCst;

/// What is done to a word, undivided.
#[derive(Clone, Copy)]
pub enum Change {
    Store(u64),
    Swap(u64),
    Add(u64),
    Replace(u64, u64),
    Set(u64),
    Clear(u64),
}

/// Copies, with this domain's right to read there and to write here.
pub fn copy(d: &Domain, from: u64, to: u64, len: u64) -> Result<Done, Error> {
    if len == 0 {
        return Ok(Done::with(0));
    }
    let (source, target) = (Range::new(d, from, len)?, Range::new(d, to, len)?);
    for _ in 0..TRIES {
        let mut both = Both::lock(source.section(), target.section())?;
        source.check(d, both.a(), Rights::READ)?;
        target.check(d, both.b(), Rights::WRITE)?;
        if let Some(stale) = prepare(both.b(), target.offset(), len)? {
            both.settle_b(target.section(), stale);
            continue;
        }
        both.copy(source.offset(), target.offset(), len)?;
        return Ok(Done::with(0));
    }
    Err(Error::Busy)
}

pub fn fill(d: &Domain, to: u64, value: u8, len: u64) -> Result<Done, Error> {
    if len == 0 {
        return Ok(Done::with(0));
    }
    let target = Range::new(d, to, len)?;
    for _ in 0..TRIES {
        let mut state = target.section().state.lock();
        target.check(d, &state, Rights::WRITE)?;
        if let Some(stale) = prepare(&mut state, target.offset(), len)? {
            settle(target.section(), state, stale);
            continue;
        }
        put(&mut state, target.offset(), &[value; DATA_MAX as usize][..len as usize])?;
        return Ok(Done::with(0));
    }
    Err(Error::Busy)
}

fn word(d: &Domain, address: u64) -> Result<Range, Error> {
    if address.is_multiple_of(8) { Range::new(d, address, 8) } else { Err(Error::BadAddress) }
}

pub fn load(d: &Domain, address: u64) -> Result<Done, Error> {
    let range = word(d, address)?;
    let mut state = range.section().state.lock();
    range.check(d, &state, Rights::READ)?;
    super::pair::get_word(&mut state, range.offset()).map(Done::with)
}

/// What the check says of a word holds for all that is done to it: it lies on one page, and who may write there may read.
pub fn change(d: &Domain, address: u64, change: Change) -> Result<Done, Error> {
    let range = word(d, address)?;
    for _ in 0..TRIES {
        let mut state = range.section().state.lock();
        range.check(d, &state, Rights::WRITE)?;
        let Present { frame, stale } = claim::present(&mut state, range.offset() / PAGE, true)?;
        if !stale.is_settled() || stale.is_remembered() {
            drop(frame);
            settle(range.section(), state, stale);
            continue;
        }
        let word = frame.long((range.offset() % PAGE) as usize);
        let was = match change {
            Change::Store(value) => {
                word.store(value, SeqCst);
                0
            }
            Change::Swap(value) => word.swap(value, SeqCst),
            Change::Add(value) => word.fetch_add(value, SeqCst),
            Change::Replace(expected, value) => word.compare_exchange(expected, value, SeqCst, SeqCst).unwrap_or_else(|was| was),
            Change::Set(bits) => {
                word.fetch_or(bits, SeqCst);
                0
            }
            Change::Clear(bits) => {
                word.fetch_and(!bits, SeqCst);
                0
            }
        };
        return Ok(Done::with(was));
    }
    Err(Error::Busy)
}

//! Pages that are made invalid and valid again by light entry (SSS-41, 42): what is in them stays, and an access to one is a fault.

use super::{SLICE, Section};
use crate::domain::Domain;
use crate::machine::spare_heap;
use crate::processor::here;
use crate::view::{self, Change};
use abi::layout::{PAGE, pages_up};
use abi::section::kind;
use abi::{Error, Rights};
use quota::Resource;

/// `page_validate` and `page_invalidate`, of so many bytes from the beginning as one call may take.
///
/// # Errors
/// `BadAddress`: not a whole page, or not all of it within the section's length; `NotFound`; `NotSupported`: a device's, ports or a
/// post; a refusal without the right change-acl; `MemoryQuota`, `NoMemory`: for remembering it.
pub fn set(by: &Domain, address: u64, len: u64, valid: bool) -> Result<u64, Error> {
    let len = pages_up(len).filter(|len| *len > 0 && address.is_multiple_of(PAGE)).ok_or(Error::BadAddress)?;
    let section = Section::find(address).ok_or(Error::NotFound)?;
    let mut state = section.lock_for(by, Rights::CHANGE_ACL)?;
    if matches!(section.kind(), kind::DEVICE | kind::PORTS | kind::POST) {
        return Err(Error::NotSupported);
    }
    let offset = address - section.base;
    if state.len.checked_sub(offset).is_none_or(|rest| rest < len) {
        return Err(Error::BadAddress);
    }
    let len = len.min(SLICE);
    let (first, count) = (offset / PAGE, len / PAGE);
    let change = if valid {
        state.invalid.take(first, count);
        Change::Show
    } else {
        let pieces = state.invalid.pieces_for(first, count);
        if pieces > 0 {
            spare_heap()?;
            state.owner.charge(Resource::Frames, pieces)?;
        }
        state.invalid.put(first, count);
        Change::Hide
    };
    let stale = view::change(&mut state.mapped, offset, len, change);
    drop(state);
    here().away_from_user(|| stale.flush());
    Ok(len)
}

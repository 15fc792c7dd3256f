//! Copying to and from memory that is not Rust's, and that others may take away meanwhile: then it is an error (`rt::fault`). Everything goes through
//! one instruction, so that it does not matter who else writes there.

use rt::Error;
use rt::abi::layout::{SPACE_BASE, SPACE_END, WINDOW_END};

use crate::Section;

/// An address that may be written without harm to this program: in a window, or in a section without Rust objects.
#[derive(Clone, Copy)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) fn within(section: &Section, offset: u64) -> Place {
        Place(section.base() + offset)
    }
}

fn place_in_window(address: u64, len: u64) -> Result<Place, Error> {
    let inside = address.checked_add(len).is_some_and(|end| end <= WINDOW_END);
    if inside { Ok(Place(address)) } else { Err(Error::BadAddress) }
}

pub(crate) fn check_space(from: u64, len: u64) -> Result<(), Error> {
    let inside = from >= SPACE_BASE && from.checked_add(len).is_some_and(|end| end <= SPACE_END);
    if inside || len == 0 { Ok(()) } else { Err(Error::BadAddress) }
}

/// Reads from the window of the calling thread's task.
///
/// # Errors
/// `BadAddress` outside a window, or where nothing is (any more); `NoMemory`.
pub fn read_window(from: u64, to: &mut [u8]) -> Result<(), Error> {
    place_in_window(from, to.len() as u64)?;
    get(from, to)
}

/// Writes to the window of the calling thread's task.
///
/// # Errors
/// `BadAddress` outside a window, or where nothing is (any more); `NoMemory`.
pub fn write_window(to: u64, bytes: &[u8]) -> Result<(), Error> {
    put(place_in_window(to, bytes.len() as u64)?, bytes)
}

/// Copies `len` bytes from an address of the single space into the window.
///
/// # Errors
/// `BadAddress` outside either, or where nothing is (any more); `NoMemory`.
pub fn load_window(to: u64, from: u64, len: u64) -> Result<(), Error> {
    let to = place_in_window(to, len)?;
    check_space(from, len)?;
    copy(to, from, len)
}

/// Writes zeroes to the window.
///
/// # Errors
/// `BadAddress` outside a window, or where nothing is (any more); `NoMemory`.
pub fn zero_window(to: u64, len: u64) -> Result<(), Error> {
    fill(place_in_window(to, len)?, len)
}

/// Reads at an address of the single space.
///
/// # Errors
/// `BadAddress` outside of it, or where nothing is (any more).
pub fn read_space(from: u64, to: &mut [u8]) -> Result<(), Error> {
    check_space(from, to.len() as u64)?;
    get(from, to)
}

pub(crate) fn put(to: Place, bytes: &[u8]) -> Result<(), Error> {
    copy(to, bytes.as_ptr() as u64, bytes.len() as u64)
}

#[cfg(target_os = "musubi")]
fn get(from: u64, to: &mut [u8]) -> Result<(), Error> {
    // SAFETY: `to` may be written for its length. Loading has no effect.
    unsafe { rt::fault::copy(to.as_mut_ptr(), from as *const u8, to.len()) }
}

#[cfg(target_os = "musubi")]
pub(crate) fn copy(to: Place, from: u64, len: u64) -> Result<(), Error> {
    // SAFETY: a `Place` holds no Rust objects as far as its checked length goes. Loading has no effect.
    unsafe { rt::fault::copy(to.0 as *mut u8, from as *const u8, len as usize) }
}

#[cfg(target_os = "musubi")]
fn fill(to: Place, len: u64) -> Result<(), Error> {
    // SAFETY: a `Place` holds no Rust objects as far as its checked length goes.
    unsafe { rt::fault::clear(to.0 as *mut u8, len as usize) }
}

/// A host has neither windows nor the single space: the crate compiles there for the sake of tests above it.
#[cfg(not(target_os = "musubi"))]
mod absent {
    use super::Place;
    use rt::Error;

    pub(crate) fn get(_from: u64, to: &mut [u8]) -> Result<(), Error> {
        to.fill(0);
        Ok(())
    }

    pub(crate) fn copy(to: Place, _from: u64, _len: u64) -> Result<(), Error> {
        let _ = to.0;
        Ok(())
    }

    pub(crate) fn fill(_to: Place, _len: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[cfg(not(target_os = "musubi"))]
pub(crate) use absent::copy;
#[cfg(not(target_os = "musubi"))]
use absent::{fill, get};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_ends_where_the_single_space_begins() {
        assert!(place_in_window(WINDOW_END - 1, 1).is_ok());
        assert!(place_in_window(WINDOW_END - 1, 2).is_err());
        assert!(place_in_window(u64::MAX, 2).is_err());
        assert!(check_space(SPACE_BASE - 1, 1).is_err());
        assert!(check_space(SPACE_BASE, 1).is_ok());
        assert!(check_space(SPACE_END - 1, 2).is_err());
        assert!(check_space(u64::MAX, 2).is_err());
        assert!(check_space(0, 0).is_ok(), "an empty file has no address");
    }

    #[test]
    fn a_section_is_written_within_its_reserve() {
        let section = Section::played(SPACE_BASE, 8192);
        assert!(section.write(8000, &[0; 192]).is_ok());
        assert_eq!(section.write(8000, &[0; 193]), Err(Error::BadAddress));
        assert_eq!(section.write(u64::MAX, &[0]), Err(Error::BadAddress));
        assert_eq!(section.load(0, WINDOW_END - 1, 1), Err(Error::BadAddress), "not from a window");
    }
}

//! Memory that a server's heap holds back, so that a method that has begun comes to its end also when no more is to be had. Before one begins it
//! is looked whether all of that is still there; if not, and the heap gets no more, the method is refused with `NoMemory`: nothing was begun,
//! and nobody dies of it. The skeletons ask (`derive`), for gates, lines and posts alike. A method that gives memory back, or needs next to none, is begun
//! all the same (`#[when_short]`).

use abi::Error;
use core::sync::atomic::{AtomicBool, Ordering};

/// Some of what is held back was used.
pub(crate) static SHORT: AtomicBool = AtomicBool::new(false);

/// Before a method begins that is not `#[when_short]`.
///
/// # Errors
/// `NoMemory`: some of what is held back is not there, and not to be had.
#[inline(always)]
pub fn ready() -> Result<(), Error> {
    if SHORT.load(Ordering::Relaxed) { refill() } else { Ok(()) }
}

#[cfg(target_os = "musubi")]
pub(crate) use crate::heap::{keep, refill};

/// Elsewhere another system's heap is used.
#[cfg(not(target_os = "musubi"))]
pub(crate) fn keep() -> Result<(), Error> {
    Ok(())
}

#[cfg(not(target_os = "musubi"))]
fn refill() -> Result<(), Error> {
    Ok(())
}

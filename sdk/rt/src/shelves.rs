//! Small objects of a server's heap that were freed and are at hand: on several shelves, each with a lock that nobody waits for. A thread looks at the one that its stack's
//! place leads to, and at the next; where both are in use, or have nothing, it goes to the heap that all share. Who ends in the middle of it takes his shelf along, with what
//! lies there: nobody finds it free again, and nobody needs it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use lock_api::{Mutex, MutexGuard};
use shelf::{SIZE_MAX, STEP, Shelf, Size};

use crate::sync::{RawLock, me};

/// How many: for the processors of most machines.
const COUNT: usize = 8;
/// A thread looks at so many.
const LOOKS: usize = 2;

/// In a line of its own.
#[repr(align(64))]
struct One(Mutex<RawLock, Shelf>);

/// None, before they are set up.
#[derive(Debug)]
pub struct Shelves(AtomicPtr<[One; COUNT]>);

impl Shelves {
    pub const fn new() -> Shelves {
        Shelves(AtomicPtr::new(null_mut()))
    }

    /// From now on they are there, if there is memory for them.
    pub fn set_up(&self) {
        if self.all().is_some() {
            return;
        }
        let mut all = Vec::new();
        if all.try_reserve_exact(COUNT).is_err() {
            return;
        }
        all.extend((0..COUNT).map(|_| One(Mutex::new(Shelf::new()))));
        let Ok(all) = Box::<[One; COUNT]>::try_from(all.into_boxed_slice()) else { return };
        let all = Box::into_raw(all);
        if self.0.compare_exchange(null_mut(), all, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: it is from above, and nobody has seen it.
            drop(unsafe { Box::from_raw(all) });
        }
    }

    #[inline]
    fn all(&self) -> Option<&[One; COUNT]> {
        // SAFETY: none, or what `set_up` has left there, which stays.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// One that nobody uses now.
    #[inline]
    fn one(&self) -> Option<MutexGuard<'_, RawLock, Shelf>> {
        let all = self.all()?;
        let first = me() as usize;
        (0..LOOKS).find_map(|n| all[(first + n) % COUNT].0.try_lock())
    }

    /// An object of this size, if one is there.
    #[inline]
    pub fn take(&self, size: Size) -> Option<usize> {
        self.one()?.take(size)
    }

    /// Keeps an object of this size. Whether there was room.
    #[inline]
    pub fn put(&self, size: Size, object: usize) -> bool {
        self.one().is_some_and(|mut shelf| shelf.put(size, object))
    }

    /// Takes all that lies there, but for what is in use now.
    pub fn clear(&self, mut gives_back: impl FnMut(Size, usize)) {
        let sizes = || (1..=SIZE_MAX / STEP).filter_map(|steps| Size::of(steps * STEP, STEP));
        for one in self.all().into_iter().flatten() {
            let Some(mut shelf) = one.0.try_lock() else { continue };
            sizes().for_each(|size| {
                while let Some(object) = shelf.take(size) {
                    gives_back(size, object);
                }
            });
        }
    }
}

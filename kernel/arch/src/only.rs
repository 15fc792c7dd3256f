//! What only one processor touches. The kernel is neither interrupted nor moved elsewhere in what it does (architecture, section 7), so that needs no
//! lock: only a look at who asks, and whether it is in hand already.

use crate::percpu;
use core::cell::{Cell, UnsafeCell};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A value that belongs to one processor.
pub struct Only<T> {
    /// Whose it is.
    processor: usize,
    in_hand: Cell<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: nobody but its processor gets beyond `processor`, which does not change, and what that executes in the kernel is one thing after the other:
// what is taken in hand goes nowhere else (`InHand` is not `Send`). What is in it may have been made on another one, before that began.
unsafe impl<T: Send> Sync for Only<T> {}

/// What was taken in hand.
pub struct InHand<'a, T> {
    only: &'a Only<T>,
    /// For this processor.
    here: PhantomData<*mut T>,
}

impl<T> Only<T> {
    /// What belongs to this processor from now on.
    pub const fn new(processor: usize, value: T) -> Only<T> {
        Only { processor, in_hand: Cell::new(false), value: UnsafeCell::new(value) }
    }

    /// Takes it in hand.
    ///
    /// # Panics
    /// Another processor asks, or it is in hand.
    #[inline]
    pub fn hold(&self) -> InHand<'_, T> {
        assert!(
            self.processor == percpu::index() && !self.in_hand.replace(true),
            "of one processor, for one at a time"
        );
        InHand { only: self, here: PhantomData }
    }
}

impl<T> Deref for InHand<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is in hand, once.
        unsafe { &*self.only.value.get() }
    }
}

impl<T> DerefMut for InHand<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.only.value.get() }
    }
}

impl<T> Drop for InHand<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.only.in_hand.set(false);
    }
}

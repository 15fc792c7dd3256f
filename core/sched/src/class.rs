//! Classes of texts (SSS-61 to 65): in which mode a text is executed, and whether its threads are preempted there. A class goes with the
//! text, so a thread has that of the text that it is in.

use core::sync::atomic::{AtomicU64, Ordering};

/// How a text is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// In user mode, preempted.
    #[default]
    PUsr,
    /// In supervisor mode, preempted.
    PSys,
    /// In supervisor mode, not preempted.
    NSys,
}

impl Class {
    /// By its number in `abi`.
    #[must_use]
    pub fn of(number: u64) -> Option<Class> {
        [Class::PUsr, Class::PSys, Class::NSys].into_iter().find(|class| class.number() == number)
    }

    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    #[must_use]
    pub fn is_supervisor(self) -> bool {
        self != Class::PUsr
    }
}

/// The class of one text. It is said before anybody executes the text, since views are made by it; later NSys can be lost.
#[derive(Debug, Default)]
pub struct Placement(AtomicU64);

const CLASS: u64 = 3;
/// Somebody executes it, or has.
const IN_USE: u64 = 4;
/// It was NSys.
const LOST: u64 = 8;

/// A text that is in use stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse;

impl Placement {
    #[must_use]
    pub const fn new() -> Placement {
        Placement(AtomicU64::new(0))
    }

    /// # Errors
    /// [`InUse`].
    pub fn put(&self, class: Class) -> Result<(), InUse> {
        let put = |was: u64| (was & IN_USE == 0).then_some(class.number());
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, put).map(drop).map_err(|_| InUse)
    }

    /// Somebody is about to execute it: its class, whose mode does not change any more.
    pub fn take_up(&self) -> Class {
        Placement::class_in(self.0.fetch_or(IN_USE, Ordering::SeqCst))
    }

    #[must_use]
    pub fn class(&self) -> Class {
        Placement::class_in(self.0.load(Ordering::SeqCst))
    }

    /// The class by its number in `abi`, for who only passes it on.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::SeqCst) & CLASS
    }

    fn class_in(word: u64) -> Class {
        Class::of(word & CLASS).unwrap_or_default()
    }

    /// It is preempted from now on. Whether it was not before.
    pub fn lose(&self) -> bool {
        let lost =
            |was: u64| (Placement::class_in(was) == Class::NSys).then_some(was & !CLASS | Class::PSys.number() | LOST);
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lost).is_ok()
    }

    /// Whether it was NSys, and has run for too long.
    #[must_use]
    pub fn has_lost(&self) -> bool {
        self.0.load(Ordering::SeqCst) & LOST != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_classes() {
        for class in [Class::PUsr, Class::PSys, Class::NSys] {
            assert_eq!(Class::of(class.number()), Some(class));
        }
        assert_eq!([3, 4, u64::MAX].map(Class::of), [None; 3]);
        assert_eq!([Class::PUsr, Class::PSys, Class::NSys].map(Class::is_supervisor), [false, true, true]);
    }

    #[test]
    fn a_text_in_use_stays_where_it_is() {
        let text = Placement::new();
        assert_eq!((text.put(Class::NSys), text.put(Class::PSys), text.class()), (Ok(()), Ok(()), Class::PSys));
        assert_eq!((text.take_up(), text.take_up()), (Class::PSys, Class::PSys));
        assert_eq!((text.put(Class::PUsr), text.class()), (Err(InUse), Class::PSys));
    }

    #[test]
    fn what_is_lost_is_only_that_it_is_not_preempted() {
        let text = Placement::new();
        assert!(!text.lose());
        text.put(Class::NSys).unwrap();
        assert!(text.take_up() == Class::NSys && !text.has_lost());
        assert_eq!(text.number(), Class::NSys.number());
        assert!(text.lose() && !text.lose() && text.has_lost());
        assert_eq!(text.number(), Class::PSys.number());
        assert_eq!((text.class(), text.put(Class::NSys)), (Class::PSys, Err(InUse)));
    }
}

//! What persons' programs may have of everything: never all of it, so that a server or a driver can begin anew whatever they do (K1-41).

use crate::sync::{AtomicU32, Ordering};
use abi::Error;

/// How much of each is not for persons' programs, whatever they do (K1-41).
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserve {
    pub posts: u32,
    pub messages: u32,
    pub receivers: u32,
    pub accounts: u32,
}

/// For whom something is had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// May have all that there is.
    System,
    /// A person's program, which may not have the reserve.
    Person,
}

impl Whose {
    pub fn of(is_person: bool) -> Whose {
        if is_person { Whose::Person } else { Whose::System }
    }
}

/// What persons' programs have of something, and may have at most.
#[derive(Debug)]
pub(crate) struct Part {
    had: AtomicU32,
    most: u32,
}

impl Part {
    pub fn new(most: u32) -> Part {
        Part { had: AtomicU32::new(0), most }
    }

    /// One more.
    ///
    /// # Errors
    /// `NoMemory`: what is left is the system's.
    pub fn take(&self, whose: Whose) -> Result<(), Error> {
        let more = |had| (had < self.most).then_some(had + 1);
        match whose {
            Whose::System => Ok(()),
            Whose::Person => {
                let taken = self.had.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more);
                taken.map(drop).map_err(|_| Error::NoMemory)
            }
        }
    }

    /// One less. To be said when it can be had again.
    pub fn give(&self, whose: Whose) {
        if whose == Whose::Person {
            self.had.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

//! Names of services.

use derive::interface;
use rt::{Caller, Error};

/// Longest name in bytes.
pub const NAME_MAX: usize = 64;

#[interface]
pub trait Names {
    /// Makes `gate` known as `name`. The gate must be in a text of the task whose text is calling (user 0 may publish for
    /// others); a name that another living task has published is refused with `Exists`, unless that is a
    /// person's and the gate the system's.
    #[repeat]
    fn publish(&self, caller: &Caller, name: &str, gate: u64) -> Result<(), Error>;
    /// The entry address that a name stands for. `NotFound` if nobody published it, or whoever did has ended.
    #[repeat]
    #[when_short]
    fn lookup(&self, name: &str) -> Result<u64, Error>;
    /// Whether the name stands for its gate also while nobody answers there, since whoever does is being restarted where he stood
    /// (docs/decisions/0011). Nobody else may have the name then. Value: the task that has published it
    /// last. User 0 only.
    #[repeat]
    fn stand(&self, caller: &Caller, name: &str, stands: bool) -> Result<u64, Error>;
    /// Takes a name back.
    #[when_short]
    fn withdraw(&self, caller: &Caller, name: &str) -> Result<(), Error>;
    /// Writes the name with the number `index` (from 0, by alphabet) to `name`. Value: its length. `NotFound` at the end.
    #[repeat]
    #[when_short]
    fn list(&self, index: u64, name: &mut [u8]) -> Result<u64, Error>;
}

//! What `bench` calls: as little as can be called.

use derive::interface;

#[interface]
pub trait Measure {
    /// Nothing.
    fn null(&self);
    /// The time-stamp counter in the body of the method, twice in a row.
    fn ticks(&self) -> (u64, u64);
}

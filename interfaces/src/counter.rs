//! The smallest server.

use derive::interface;

#[interface]
pub trait Counter {
    /// Adds `n` and says the sum.
    fn add(&self, n: u64) -> u64;
    /// The sum so far.
    fn get(&self) -> u64;
    /// Divides the sum by `n`, and is not careful about 0: that call faults, and neither side dies of it.
    fn divide(&self, n: u64) -> u64;
}

//! What `bench` calls: as little as can be called, and the four patterns of the paper (CUBIX-25). Where data are passed,
//! their first and last byte are looked at, however long they are.

use derive::interface;
use rt::Error;

#[interface]
pub trait Measure {
    /// Nothing: NullProc.
    fn null(&self);
    /// Data without a result: ArgNoRtn.
    fn take(&self, data: &[u8]);
    /// Writes the result that `answer` will give, so that it is there beforehand.
    fn prepare(&self, result: &mut [u8]);
    /// Data and a result that was prepared: ArgRtn_NoCopy.
    fn answer(&self, data: &[u8], result: &mut [u8]);
    /// The result is a copy of the data: ArgRtn_Copy.
    fn copy(&self, data: &[u8], result: &mut [u8]) -> Result<(), Error>;
    /// Bytes that `copy` has copied so far.
    fn copied(&self) -> u64;
    /// Times that it has.
    fn copies(&self) -> u64;
    /// Takes back the right to call, from everybody.
    fn close(&self) -> Result<(), Error>;
    /// The gate of another such `null`, for callers who bring their stack.
    fn on_callers_stack(&self) -> u64;
}

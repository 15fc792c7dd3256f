//! The paper's case for calls instead of messages: a picture is changed where it lies.

use derive::interface;
use rt::Error;

#[interface]
pub trait ColourMap {
    /// Replaces every pixel `p` by `table[p]`.
    fn map(&self, pixels: &mut [u8], table: &[u8; 256]) -> Result<(), Error>;
    /// How many pixels have been mapped since the server started.
    fn mapped(&self) -> u64;
}

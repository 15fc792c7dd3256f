//! The permits that a thread has: so that a message costs a look at the access list only the first time, and after a change.

use crate::pool::{Permit, Pool};
use abi::{Error, Rights};

/// Permits that are kept, by post and text.
const KEPT: usize = 8;

/// A thread's permits: a cache of access lists, never more than these say (invariant 7).
#[derive(Clone, Debug, Default)]
pub struct Permits([(u64, Permit); KEPT]);

impl Permits {
    /// The permit of this thread, executing `text`, for a post. Where there is none that is good, `check` asks the access list.
    ///
    /// # Errors
    /// `NotFound`: nobody has the post; those of `check`.
    #[inline]
    pub fn get(
        &mut self,
        pool: &Pool,
        text: u64,
        post: u32,
        needed: Rights,
        check: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Permit, Error> {
        // A sender's and a receiver's permit for the same post are different ones.
        let kept = &mut self.0[(post * 2 + u32::from(needed == Rights::READ)) as usize % KEPT];
        if kept.0 == text && kept.1.post == post && kept.1.rights == needed.bits() && pool.is_good(&kept.1) {
            return Ok(kept.1);
        }
        let permit = pool.permit(post, needed, check)?;
        *kept = (text, permit);
        Ok(permit)
    }
}

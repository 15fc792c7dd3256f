//! What an answer is worth. A pager that says that the page is there, and it is not, is asked again; not for ever.

use abi::pager::TRIES;

/// Of one thread: answers in a row after which its page was not there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience(u32);

impl Patience {
    #[must_use]
    pub const fn new() -> Patience {
        Patience(0)
    }

    /// An answer has come, after which the page is there or is not. Whether to try again what needs it. (Another thread may have taken
    /// it away meanwhile, so once is no proof.)
    pub fn answered(&mut self, is_there: bool) -> bool {
        self.0 = if is_there { 0 } else { self.0 + 1 };
        let goes_on = self.0 < TRIES;
        if !goes_on {
            self.0 = 0;
        }
        goes_on
    }
}

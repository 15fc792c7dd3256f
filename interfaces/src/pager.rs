//! What a pager is called by (SSS-57 to 60): `rt::pager` makes its first gate that of a section or a task.

use derive::interface;
use rt::Error;

#[interface(called_up)]
pub trait Pager {
    /// A thread needs the page at `offset` of `section`, for `right` (bits of `Rights`), and it is absent or invalid (`miss`, of
    /// `rt::pager::miss`). This runs on that thread, which makes its access once more when the page is valid: by this pager, or by
    /// the kernel, if the answer (of `rt::pager::answer`) says so. `NotSupported`: it is somebody else's affair. Any other error is one
    /// of the access.
    #[when_short]
    fn fault(&self, section: u64, offset: u64, right: u64, miss: u64) -> Result<u64, Error>;
}

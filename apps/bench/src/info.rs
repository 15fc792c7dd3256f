//! What it costs that the kernel tells programs what it knows (SSS-76): calls and messages, for a machine whose kernel does, and for one whose kernel
//! does not.

use crate::report::Report;
use crate::{calls, ipc, pool};
use alloc::string::String;

pub fn run(report: &Report) -> Result<(), String> {
    calls::nulls(report)?;
    ipc::nulls(report)?;
    pool::single_rounds(report)
}

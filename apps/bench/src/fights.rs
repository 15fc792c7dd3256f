//! What processors fight over (K1-U8, U10): locks of the kernel that are asked for, and turns of loops in which one waits for another, where as many threads as there are
//! processors do the same at once: messages at one post, a service, files. Each case is one round between marks, in which that is counted from outside.

use crate::report::Report;
use crate::{files, many, service};
use alloc::string::String;

pub fn run(report: &Report) -> Result<(), String> {
    many::crowd(report)?;
    service::fight(report)?;
    files::fight(report)
}

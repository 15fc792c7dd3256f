//! Tasks: ending, watching and listing them.

use abi::calls::stub;
use abi::task::{Ended, Exit, Identity, Limits, TaskInfo, ThreadInfo};
use abi::{Error, info};

use crate::Trap;
use crate::post::Post;

/// Ends the task that owns the executing text.
pub fn exit(code: i32) -> ! {
    #[cfg(not(target_os = "musubi"))]
    std::process::exit(code);
    #[cfg(target_os = "musubi")]
    loop {
        let _ = stub::task_exit(&Trap, i64::from(code) as u64);
    }
}

/// Who is executing now.
#[must_use]
pub fn identity() -> Identity {
    let mut out = Identity::default();
    let _ = stub::identity(&Trap, core::ptr::from_mut(&mut out) as u64);
    out
}

/// The task of the calling thread.
#[must_use]
pub fn own() -> u64 {
    stub::get_taskid_light(&Trap).unwrap_or(0)
}

/// The same by the full entry, to be compared (SSS-43).
#[must_use]
pub fn own_by_full_entry() -> u64 {
    stub::get_taskid(&Trap).unwrap_or(0)
}

/// The executing thread and text, as errors name them.
#[cfg(target_os = "musubi")]
pub(crate) fn who() -> abi::refusal::Who {
    let me = identity();
    abi::refusal::Who { thread: me.thread, text: me.text }
}

/// A new task without threads.
///
/// # Errors
/// What the kernel answers.
pub fn create(limits: &Limits, user: u64, name: &[u8]) -> Result<u64, Error> {
    create_for(0, limits, user, name)
}

/// The same; what it uses counts for the task `payer`, too (0: the calling thread's). User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn create_for(payer: u64, limits: &Limits, user: u64, name: &[u8]) -> Result<u64, Error> {
    let name = &name[..name.len().min(abi::section::NAME_LEN)];
    let limits = core::ptr::from_ref(limits) as u64;
    stub::task_create(&Trap, limits, user, name.as_ptr() as u64, name.len() as u64, payer)
}

/// Starts a thread of `task` at `entry` in the text section `text`. Value: thread.
///
/// # Errors
/// What the kernel answers.
pub fn start(task: u64, text: u64, entry: u64, argument: u64, stack_len: u64) -> Result<u64, Error> {
    stub::task_start(&Trap, task, text, entry, argument, stack_len)
}

/// # Errors
/// What the kernel answers.
pub fn kill(task: u64) -> Result<(), Error> {
    stub::task_kill(&Trap, task).map(drop)
}

/// Waits until a task has ended. User 0 only: for others a server waits (`musubi::processes`).
///
/// # Errors
/// `TimedOut`, `NotFound`, or what the kernel answers.
pub fn wait(task: u64, timeout_ns: u64) -> Result<Exit, Error> {
    let mut out = Exit::default();
    stub::task_wait(&Trap, task, timeout_ns, core::ptr::from_mut(&mut out) as u64)?;
    Ok(out)
}

/// The first task with a number above `after` that has ended, and how. User 0 only.
///
/// # Errors
/// `NotFound` at the end; what the kernel answers.
pub fn ended(after: u64) -> Result<Ended, Error> {
    let mut out = Ended::default();
    stub::task_ended(&Trap, after, core::ptr::from_mut(&mut out) as u64)?;
    Ok(out)
}

/// Forgets a task that has ended. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn forget(task: u64) -> Result<(), Error> {
    stub::task_forget(&Trap, task).map(drop)
}

/// Has ends of tasks come to a post, as messages with this operation. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn ends_to(post: Post, op: u32) -> Result<(), Error> {
    stub::ends_post(&Trap, post.0, op.into()).map(drop)
}

/// Sets what a task may use from now on; 0: as before. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn limit(task: u64, to: &Limits) -> Result<(), Error> {
    stub::task_limit(&Trap, task, core::ptr::from_ref(to) as u64).map(drop)
}

/// What is known of a task; `None` if it is not there (any more).
#[must_use]
pub fn info(task: u64) -> Option<TaskInfo> {
    // The list goes on from a number: the first one above the number before is the task itself.
    let mut out = TaskInfo::default();
    let found = stub::task_list(&Trap, task.checked_sub(1)?, core::ptr::from_mut(&mut out) as u64);
    (found == Ok(task)).then_some(out)
}

/// All tasks, in the order of their numbers.
pub fn list() -> impl Iterator<Item = TaskInfo> {
    let mut after = 0;
    core::iter::from_fn(move || {
        let mut out = TaskInfo::default();
        after = stub::task_list(&Trap, after, core::ptr::from_mut(&mut out) as u64).ok()?;
        Some(out)
    })
}

/// All threads, in the order of their numbers.
pub fn threads() -> impl Iterator<Item = ThreadInfo> {
    let mut after = 0;
    core::iter::from_fn(move || {
        let mut out = ThreadInfo::default();
        after = stub::thread_list(&Trap, after, core::ptr::from_mut(&mut out) as u64).ok()?;
        Some(out)
    })
}

/// All processors.
pub fn processors() -> impl Iterator<Item = info::Processor> {
    let mut index = 0;
    core::iter::from_fn(move || {
        let mut out = info::Processor::default();
        let count = stub::processor_info(&Trap, index, core::ptr::from_mut(&mut out) as u64).ok()?;
        index += 1;
        (index <= count).then_some(out)
    })
}

/// The machine's memory.
///
/// # Errors
/// What the kernel answers.
pub fn memory() -> Result<info::Memory, Error> {
    let mut out = info::Memory::default();
    stub::memory_info(&Trap, core::ptr::from_mut(&mut out) as u64)?;
    Ok(out)
}

/// Switches the machine off. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn power_off(code: u64) -> Result<(), Error> {
    stub::power_off(&Trap, code).map(drop)
}

/// Appends to the kernel's log. User 0 only.
pub fn log(text: &str) {
    let _ = stub::log_write(&Trap, text.as_ptr() as u64, text.len() as u64);
}

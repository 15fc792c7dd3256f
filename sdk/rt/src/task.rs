//! Tasks: ending, watching and listing them.

use abi::calls::stub;
use abi::layout::PAGE;
use abi::task::{Ended, Exit, Identity, Limits, TaskInfo, ThreadInfo};
use abi::{Error, info};
use alloc::vec::Vec;

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

/// All processors, read where the kernel counts.
pub fn processors() -> impl Iterator<Item = info::Processor> {
    let all = crate::info::all().ok();
    let features = all.map_or(0, |all| all.head().features);
    let running: Vec<u64> = all.map(|all| all.running().collect()).unwrap_or_default();
    all.into_iter().flat_map(|all| all.processors()).map(move |(index, c)| info::Processor {
        index: index as u64,
        apic: c.apic,
        thread: running.get(index).copied().unwrap_or(0),
        entries: c.entries + c.crossings + c.passes + c.stays,
        switches: c.switches + c.passes,
        view_switches: c.views,
        faults: c.faults,
        interrupts: c.interrupts,
        shootdowns: c.shootdowns,
        idle: c.idle_ns,
        features,
        epc: c.epc + c.crossings / 2,
        tlb_flushes: c.tlb_flushes,
        copied_bytes: c.copied_bytes,
        copies: c.copies,
        events: c.events,
        left_flags: c.left_flags,
        barriers: c.barriers,
        messages: c.messages,
        operations: c.operations,
        stops: c.stops,
    })
}

/// The machine's memory, read where the kernel counts.
///
/// # Errors
/// As for [`crate::info::all`].
pub fn memory() -> Result<info::Memory, Error> {
    let all = crate::info::all()?;
    let m = all.machine();
    Ok(info::Memory {
        total: m.total * PAGE,
        free: m.free * PAGE,
        kernel_heap: m.heap,
        kernel_heap_used: all.processors().fold(0, |sum, (_, counts)| counts.heap_used.wrapping_add(sum)),
        views: m.views * PAGE,
        sections: m.sections,
        tasks: m.tasks,
        threads: m.threads,
        records: m.records * PAGE,
    })
}

/// From now on it is a message to `post`, with this operation, when less than `low` bytes of memory are free, and when more than `high` are
/// again; once at once. User 0 only.
///
/// # Errors
/// What the kernel answers.
pub fn memory_to(post: Post, op: u32, low: u64, high: u64) -> Result<(), Error> {
    stub::memory_post(&Trap, post.0, op.into(), low, high).map(drop)
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

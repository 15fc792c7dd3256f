//! Threads of the own task.

use abi::Error;
use abi::calls::stub;
use abi::frame::Frame;
use abi::task::ThreadInfo;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use crate::{Trap, local, sync};

type Body = Box<dyn FnOnce() + Send>;

/// A thread that was started.
#[derive(Debug)]
pub struct Thread {
    number: u64,
}

impl Thread {
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Kills the thread: it ends at whatever instruction of this program it is at, and in a callee when that returns (or has had its
    /// time). Locks that it holds are never let go, nor is what it owns: nothing of it is dropped. Safe is to kill a thread that holds no
    /// lock and is not in the heap (which has one): that computes, sleeps or is in a call. If it did hold one, the next thread that
    /// wants it ends the program, with a report, half a second later.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn kill(&self) -> Result<(), Error> {
        stub::thread_kill(&Trap, self.number).map(drop)
    }

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn join(self) -> Result<u64, Error> {
        stub::thread_join(&Trap, self.number, u64::MAX)
    }
}

/// Who executes this: different for threads of this program that are there at the same time, and never 0. Takes no call.
#[must_use]
pub fn me() -> u32 {
    sync::me()
}

/// The same made for choosing one of some places, as many as a power of two, by a remainder: so that threads that are there at the same time seldom
/// have one in common, however far from one another their stacks lie.
#[must_use]
#[inline]
pub fn spread() -> usize {
    // Multiples of the golden ratio (Knuth 6.4): of numbers in a row, or in steps, none lie close together; turned round, for a remainder.
    (sync::me().wrapping_mul(0x9e37_79b9) >> 16).reverse_bits() as usize >> 16
}

/// What is known of a thread; `None` if it is not there (any more).
#[must_use]
pub fn info(thread: u64) -> Option<ThreadInfo> {
    // The list goes on from a number: the first one above the number before is the thread itself.
    let mut out = ThreadInfo::default();
    let found = stub::thread_list(&Trap, thread.checked_sub(1)?, core::ptr::from_mut(&mut out) as u64);
    (found == Ok(thread)).then_some(out)
}

/// What another thread's registers are (`abi::frame::reason`): of the own task, or of one that counts for it. One that runs is stopped for a
/// moment.
///
/// # Errors
/// What the kernel answers; `Busy`: it was never found where it could be stopped.
pub fn registers(thread: u64) -> Result<Frame, Error> {
    const TRIES: u32 = 500;
    let mut frame = Frame::default();
    for _ in 0..TRIES {
        match stub::thread_registers(&Trap, thread, core::ptr::from_mut(&mut frame) as u64) {
            Err(Error::Busy) => crate::time::sleep_ns(1_000_000),
            told => return told.map(|_| frame),
        }
    }
    Err(Error::Busy)
}

/// Starts a thread that runs `body`. `stack_len` 0: the default.
///
/// # Errors
/// What the kernel answers.
pub fn spawn(body: impl FnOnce() + Send + 'static, stack_len: u64) -> Result<Thread, Error> {
    let body: Box<Body> = Box::new(Box::new(body));
    let argument = Box::into_raw(body);
    let started = stub::thread_create(&Trap, machine::first as *const () as u64, argument as u64, stack_len);
    if started.is_err() {
        // SAFETY: no thread was started that could have taken the box, so it is still ours.
        drop(unsafe { Box::from_raw(argument) });
    }
    started.map(|number| Thread { number })
}

/// Runs `body` on `count` threads at once, the calling one among them, each with its number from 0 on, and returns when all have ended
/// (0 counts as 1). Either all begin or none. What they share lies in statics or on the heap: nobody sees another thread's stack.
///
/// # Errors
/// What the kernel answers where not all could be started; `Killed`: one was ended in the middle.
pub fn together(count: usize, body: impl Fn(usize) + Send + Sync + 'static) -> Result<(), Error> {
    const WAIT: u32 = 0;
    const GO: u32 = 1;
    const LEAVE: u32 = 2;
    let shared = Arc::new((AtomicU32::new(WAIT), body));
    let begins = |number| {
        let shared = shared.clone();
        let begun = move || {
            let (gate, body) = &*shared;
            while gate.load(Ordering::Acquire) == WAIT {
                let _ = sync::wait(gate, WAIT, u64::MAX);
            }
            if gate.load(Ordering::Acquire) == GO {
                body(number);
            }
        };
        spawn(begun, 0)
    };
    let mut threads = Vec::with_capacity(count.saturating_sub(1));
    let started = (1..count).try_for_each(|number| begins(number).map(|one| threads.push(one)));
    let (gate, body) = &*shared;
    gate.store(if started.is_ok() { GO } else { LEAVE }, Ordering::Release);
    sync::wake(gate, u64::MAX);
    if started.is_ok() {
        body(0);
    }
    threads.into_iter().fold(started, |so_far, one| {
        let ended = match one.join() {
            Ok(0) => Ok(()),
            _ => Err(Error::Killed),
        };
        so_far.and(ended)
    })
}

/// Whether the thread that executes this has been killed. In a method that is the caller's thread: it ends as soon as the method returns,
/// nobody waits for the result, and there is a limited time to bring one's data in order (`abi::task::CALLEE_GRACE_NS`). Costs a load.
#[must_use]
pub fn is_killed() -> bool {
    #[cfg(target_os = "musubi")]
    {
        use abi::gate::{ATTENTION, attention::KILLED};
        // SAFETY: abi::gate: a word that every thread can read at this place; the kernel may change it at any moment.
        unsafe { (ATTENTION as *const u64).read_volatile() & KILLED != 0 }
    }
    #[cfg(not(target_os = "musubi"))]
    false
}

/// Gives the processor to whoever is ready.
pub fn yield_now() {
    let _ = stub::yield_now(&Trap);
    // Whoever is alone here comes straight back, and asks again as a rule: others of the core have it easier then. (An emulator that gives its
    // processors turns goes on with the next one.)
    core::hint::spin_loop();
}

/// Sleeps for ever: what the main thread of a server does, whose work is done on its callers' threads.
pub fn park() -> ! {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        let _ = crate::sync::wait(&NEVER, 0, u64::MAX);
    }
}

/// Ends the calling thread; in a callee, the call: its caller gets `Dead`.
pub fn exit(code: u64) -> ! {
    local::end();
    #[cfg(not(target_os = "musubi"))]
    std::process::exit(code as i32);
    #[cfg(target_os = "musubi")]
    loop {
        let _ = stub::thread_exit(&Trap, code);
    }
}

extern "C" fn run(argument: *mut Body) -> ! {
    // SAFETY: `spawn` gave this thread the box, and nobody else.
    let body = unsafe { Box::from_raw(argument) };
    body();
    exit(0)
}

#[cfg(target_os = "musubi")]
mod machine {
    /// First instructions of a thread, `rdi` = its argument.
    #[unsafe(naked)]
    pub extern "C" fn first() -> ! {
        core::arch::naked_asm!("xor ebp, ebp", "and rsp, -16", "call {run}", "ud2", run = sym super::run)
    }
}

#[cfg(not(target_os = "musubi"))]
mod machine {
    pub extern "C" fn first() -> ! {
        super::run(core::ptr::null_mut())
    }
}

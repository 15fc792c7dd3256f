//! Threads of the own task.

use abi::Error;
use abi::calls::stub;
use alloc::boxed::Box;
use core::sync::atomic::AtomicU32;

use crate::Trap;

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

    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn join(self) -> Result<u64, Error> {
        stub::thread_join(&Trap, self.number, u64::MAX)
    }
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

/// Gives the processor to whoever is ready.
pub fn yield_now() {
    let _ = stub::yield_now(&Trap);
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

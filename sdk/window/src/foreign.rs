//! Foreign threads: where they come in, and how they go on (`abi::foreign`).

use alloc::boxed::Box;
use rt::abi::calls::stub;
pub use rt::abi::frame::{Frame, Vectors, reason};
use rt::abi::gate::flag;
use rt::{Error, Trap};

use crate::Section;

/// How an upcall ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum After {
    /// The thread goes on with the registers of the frame.
    Return,
    /// The task ends with an exit code. Its thread never comes back here, so this is said when nothing is left on its
    /// stack that would have to be freed.
    End { task: u64, code: u64 },
}

/// What serves upcalls.
pub trait Personality: Sync {
    fn upcall(&self, frame: &mut Frame) -> After;
}

/// What a cookie points to.
struct Handler(&'static dyn Personality);

/// Exports a gate for upcalls, at which nobody comes in but the kernel: what it says is believed. Value: its address.
///
/// # Errors
/// What the kernel answers.
pub fn export(personality: &'static dyn Personality) -> Result<u64, Error> {
    // Never freed: a call may be under way for as long as the program lives.
    let cookie = core::ptr::from_ref(&*Box::leak(Box::new(Handler(personality)))) as u64;
    stub::gate_create(&Trap, machine::enter as *const () as u64, 1, cookie, flag::CALLED_UP)
}

/// Makes `gate` the personality of a task without threads; `text` is what all code in its window counts as.
///
/// # Errors
/// What the kernel answers.
pub fn set(task: u64, gate: u64, text: &Section) -> Result<(), Error> {
    stub::foreign_set(&Trap, task, gate, text.base()).map(drop)
}

/// Starts the thread of a task in its window.
///
/// # Errors
/// What the kernel answers.
pub fn start(task: u64, frame: &Frame) -> Result<(), Error> {
    stub::foreign_start(&Trap, task, core::ptr::from_ref(frame) as u64).map(drop)
}

/// The vector registers of the window code whose upcall the calling thread serves.
///
/// # Errors
/// What the kernel answers.
pub fn vectors() -> Result<Vectors, Error> {
    let mut vectors = Vectors::clean();
    stub::foreign_vectors(&Trap, core::ptr::from_mut(&mut vectors) as u64, 0)?;
    Ok(vectors)
}

/// Those with which it goes on.
///
/// # Errors
/// What the kernel answers.
pub fn set_vectors(vectors: &Vectors) -> Result<(), Error> {
    stub::foreign_vectors(&Trap, 0, core::ptr::from_ref(vectors) as u64).map(drop)
}

/// Serves an upcall: `frame` is what the kernel wrote, `handler` the cookie of the gate, which `export` made from a
/// reference that never ends and no foreign program can choose.
#[cfg_attr(not(target_os = "musubi"), allow(dead_code))]
extern "C" fn serve(frame: *const Frame, handler: &'static Handler) -> ! {
    // SAFETY: abi::foreign: the frame is on this thread's own stack for this text, above the stack pointer, and stays.
    let mut registers = unsafe { *frame };
    let answer = match handler.0.upcall(&mut registers) {
        After::Return => stub::foreign_return(&Trap, core::ptr::from_ref(&registers) as u64),
        After::End { task, code } => stub::task_end(&Trap, task, code),
    };
    // Neither comes back unless it is refused: registers that cannot be, or a task that is ending already.
    let _ = answer;
    let _ = rt::task::kill(registers.task);
    rt::thread::exit(0)
}

#[cfg(target_os = "musubi")]
mod machine {
    /// Where the kernel enters: `rdi` = address of the frame, `rbx` = the record, with the cookie. The stack is as after a call.
    #[unsafe(naked)]
    pub extern "C" fn enter() {
        core::arch::naked_asm!("xor ebp, ebp", "mov rsi, [rbx + {cookie}]", "jmp {serve}", cookie = const core::mem::offset_of!(rt::abi::gate::Record, cookie), serve = sym super::serve)
    }
}

#[cfg(not(target_os = "musubi"))]
mod machine {
    pub extern "C" fn enter() {}
}

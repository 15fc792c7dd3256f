//! Registers that a program may choose for a stopped thread (`abi::frame`), read from where only somebody else may read: by a text that
//! deals with its own fault, and by a personality.

use super::Scene;
use super::deputies::{gates_places, is_about_the_address};
use crate::memory::data;
use crate::report::Outcome;
use crate::same;
use crate::sections::role as run_role;
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::Error;
use musubi::abi::calls::stub;
use musubi::abi::frame::Frame;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{Exit, Limits, exit};
use musubi::rt::{Bound, Mutex, Trap, plain_call, probe, task};

/// The status of a program in which all was refused that should be.
const REFUSED: i32 = 55;
/// In the window.
const CODE: u64 = 0x40_0000;

static FORBIDDEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Runs the program that tries it.
pub fn from(how: &str) -> Outcome {
    let scene = Scene::set()?;
    let exit = run_role(&["attack", how, &format!("{:#x}", scene.victim.gate), &format!("{:#x}", scene.place)])?;
    same!((exit.kind, exit.code), (exit::EXITED, REFUSED as u64), "{how}: {exit:x?}");
    scene.end()
}

/// Somebody else's secret, where it is there for this thread, and the gate's places.
fn forbid(gate: u64, place: u64) {
    // So that its pages are there.
    GATE.store(gate, Ordering::SeqCst);
    let _ = Bound::bind(gate, 0).and_then(|bound| bound.call(0, [super::op::GET, 0, 0, 0, 0, 0]));
    *FORBIDDEN.lock() = gates_places().into_iter().chain([place, 8, u64::MAX - 8]).collect();
}

fn try_all(call: impl Fn(u64) -> Result<u64, Error>) {
    let forbidden = FORBIDDEN.lock().clone();
    let wrong = forbidden.into_iter().filter(|at| !call(*at).is_err_and(is_about_the_address));
    WRONG.fetch_add(wrong.count() as u64, Ordering::SeqCst);
}

/// A program that deals with a fault of its own.
pub fn fault_return(gate: u64, place: u64) -> i32 {
    forbid(gate, place);
    let _ = stub::fault_entry(&Trap, dealt as *const () as u64, 0);
    probe::read(8);
    3
}

extern "C" fn dealt(frame: &mut Frame) -> ! {
    try_all(|at| stub::fault_return(&Trap, at, 1));
    // With its own memory it goes on, and where it says.
    frame.rip = over as *const () as u64;
    frame.rsp = (frame.rsp - 256 & !15) - 8;
    let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, 1);
    task::exit(4)
}

extern "C" fn over() -> ! {
    task::exit(if WRONG.load(Ordering::SeqCst) == 0 { REFUSED } else { 5 })
}

static WINDOW: AtomicU64 = AtomicU64::new(0);
/// Whose secret it is.
static GATE: AtomicU64 = AtomicU64::new(0);

/// A personality, with a program that makes a call.
pub fn foreign_return(gate: u64, place: u64) -> i32 {
    forbid(gate, place);
    match personality() {
        Ok(exit) if exit.kind == exit::EXITED => exit.code as i32,
        Ok(_) => 6,
        Err(error) => error.word() as i32,
    }
}

fn personality() -> Result<Exit, Error> {
    let mut code = data(PAGE)?;
    // mov eax, 1; syscall; ud2
    code.bytes_mut()[..9].copy_from_slice(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b]);
    let base = code.base();
    code.seal().map_err(|_| Error::BadProgram)?;
    let task = task::create(&Limits::default(), task::identity().user, b"window")?;
    WINDOW.store(task, Ordering::SeqCst);
    let gate = stub::gate_create(&Trap, upcall as *const () as u64, 1, 0, musubi::abi::gate::flag::CALLED_UP)?;
    stub::foreign_set(&Trap, task, gate, base)?;
    let protection = musubi::Rights::READ | musubi::Rights::EXECUTE;
    stub::window_map(&Trap, task, CODE, base, 0, PAGE, u64::from(protection.bits()))?;
    try_all(|at| stub::foreign_start(&Trap, task, at));
    let frame = Frame { rip: CODE, ..Frame::default() };
    stub::foreign_start(&Trap, task, &raw const frame as u64)?;
    musubi::processes::collect(task, 20_000_000_000).map(|(_, exit)| exit)
}

extern "C" fn upcall(_: &mut Frame) -> ! {
    // This thread has been there, too.
    let _ = plain_call(GATE.load(Ordering::SeqCst), [super::op::GET, 0, 0, 0, 0, 0]);
    try_all(|at| stub::foreign_vectors(&Trap, at, 0));
    try_all(|at| stub::foreign_vectors(&Trap, 0, at));
    try_all(|at| stub::foreign_return(&Trap, at));
    let code = if WRONG.load(Ordering::SeqCst) == 0 { REFUSED } else { 7 };
    let _ = stub::task_end(&Trap, WINDOW.load(Ordering::SeqCst), code as u64);
    loop {
        musubi::rt::thread::yield_now();
    }
}

//! A Linux program has its personality call what it has named as a stream: the gate at which that is called up itself (pitfalls: H10, confused deputies).

use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::frame::{Frame, reason};
use musubi::abi::gate::GATE_STEP;
use musubi::abi::start::StreamRef;
use musubi::abi::task::exit;
use musubi::command::{Child, Command};
use musubi::files::{self, File};
use musubi::interfaces::pipes::PipesClient;
use musubi::rt::task;
use musubi::{Error, names};

/// Where a program lies, and in it its code and what it writes.
const AT: u64 = 0x40_0000;
const CODE: usize = 0x100;
const WRITTEN: usize = 0x800;
const LEN: usize = 0x1000;

/// `sched_yield`, for ever.
const VICTIM: &[u8] = &[0xb8, 24, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];
/// `write(1, what is written, 4)`, and what comes of it, negated, is its status.
const ATTACKER: &[u8] = &[
    0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0xbe, 0, 8, 0x40, 0, 0xba, 4, 0, 0, 0, 0x0f, 0x05, // write
    0x89, 0xc7, 0xf7, 0xdf, 0x83, 0xe7, 0x7f, 0xb8, 231, 0, 0, 0, 0x0f, 0x05, // exit_group
];
/// Of one that has written it all.
const WROTE: u64 = 0x7c;
const EPERM: u64 = 1;
/// What the victim would end with.
const DONE: u64 = 42;

/// The least that is a program.
fn program(code: &[u8], written: &[u8]) -> Vec<u8> {
    let mut image = alloc::vec![0; LEN];
    image[..16].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    let halves = |words: &[u16]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    // ET_EXEC for x86-64, version 1; entry, program headers; their size and number.
    put(16, &halves(&[2, 62, 1, 0]));
    put(24, &words(&[AT + CODE as u64, 64, 0]));
    put(52, &halves(&[64, 56, 1, 64, 0, 0]));
    // PT_LOAD, to be read and executed.
    put(64, &words(&[5 << 32 | 1, 0, AT, AT, LEN as u64, LEN as u64, LEN as u64]));
    put(CODE, code);
    put(WRITTEN, written);
    image
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

fn start(code: &[u8], written: &[u8], output: Option<StreamRef>) -> Result<Child, String> {
    let path = format!("persona{}", NUMBER.fetch_add(1, Ordering::SeqCst));
    let file = File::create(path.as_bytes()).map_err(doing("a file"))?;
    file.write_all(0, &program(code, written)).map_err(doing("writing it"))?;
    files::set_mode(path.as_bytes(), 0o755).map_err(doing("its mode"))?;
    let command = Command::new(path.as_bytes()).arg(b"persona");
    let command = output.into_iter().fold(command, |command, stream| command.stream(1, stream));
    let child = command.spawn().map_err(|e| format!("the program: {e}"));
    files::remove(path.as_bytes()).map_err(doing("removing it"))?;
    child
}

/// Its words that are not 0.
fn bytes_of(frame: &Frame) -> Vec<u8> {
    let mut bytes = alloc::vec![0; size_of::<Frame>()];
    let mut put = |at: usize, word: u64| bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(offset_of!(Frame, rax), frame.rax);
    put(offset_of!(Frame, rdi), frame.rdi);
    put(offset_of!(Frame, reason), frame.reason);
    put(offset_of!(Frame, task), frame.task);
    put(offset_of!(Frame, thread), frame.thread);
    bytes
}

pub fn calls_its_own() -> Outcome {
    let linux = names::lookup("linux").map_err(doing("linux"))?;
    // That such programs run, and say what came of it.
    let pipes = names::lookup("pipes").and_then(PipesClient::bind).map_err(doing("pipes"))?;
    let end = pipes.make().map_err(doing("a pipe"))? + 1;
    let pipe = StreamRef { gate: pipes.streams().map_err(doing("pipes"))?, id: end };
    let honest = start(ATTACKER, b"abc\n", Some(pipe))?.wait_for(20_000_000_000).map_err(doing("a program"))?;
    same!((honest.kind, honest.code), (exit::EXITED, WROTE), "one that writes to its stream");
    // Its gate for calls, and below it those of its guard and for upcalls.
    for below in 0..3 {
        let victim = start(VICTIM, &[], None)?;
        let thread = task::threads().find(|t| t.task == victim.task).ok_or("the victim has no thread")?.thread;
        let frame =
            Frame { rax: 231, rdi: DONE, reason: reason::SYSCALL, task: victim.task, thread, ..Frame::default() };
        let gate = linux - below * GATE_STEP;
        let stream = StreamRef { gate, id: AT + WRITTEN as u64 };
        let ended = start(ATTACKER, &bytes_of(&frame), Some(stream))?.wait_for(20_000_000_000);
        let ended = ended.map_err(|e| format!("the attacker, {below} below: {e}"))?;
        match victim.wait_for(300_000_000) {
            Err(Error::TimedOut) => {}
            other => return Err(format!("by the gate {below} below its calls: the victim has ended ({other:?})")),
        }
        victim.kill().map_err(doing("ending the victim"))?;
        holds!(
            ended.kind == exit::EXITED && ended.code != WROTE,
            "what came of the attacker ({below} below): {ended:?}"
        );
        // Not called, and ended by what it says, but refused.
        holds!(below < 2 || ended.code == EPERM, "what the attacker was told where upcalls come in: {}", ended.code);
    }
    Ok(())
}

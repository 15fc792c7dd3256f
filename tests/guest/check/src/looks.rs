//! Registers of other threads (SSS-71): who sees them, and that nobody sees those of a callee.

use crate::memory::{data, store};
use crate::peer::ways::WAYS;
use crate::peer::{Peer, op};
use crate::refusals::refused;
use crate::report::{Check, Outcome, doing};
use crate::sections::role;
use crate::{holds, same};
use alloc::format;
use core::arch::asm;
use musubi::abi::calls::stub;
use musubi::abi::frame::{Frame, reason};
use musubi::abi::layout::{FIRST_TEXT, PAGE};
use musubi::abi::refusal::Object;
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::abi::{AclEntry, Rights};
use musubi::command::Command;
use musubi::rt::{Trap, is_own_code, section, task, thread, time};
use musubi::{Error, debug};

pub const CHECKS: &[Check] = &[
    ("registers_of_who_runs_and_who_waits", own_threads),
    ("registers_of_a_callee_are_not_shown", in_a_callee),
    ("registers_are_not_everybodys", refusals),
    ("functions_have_names", names),
];

const MARK: u64 = 0x6d61_726b_0000;

/// Has marks in its registers, and goes round.
fn marked() {
    // SAFETY: an endless loop, whose thread is killed; nothing of it is used afterwards.
    unsafe {
        asm!(
            "lea r13, [r12 + 1]", "lea r14, [r12 + 2]", "lea r15, [r12 + 3]", "lea r8, [r12 + 8]",
            "2:", "pause", "jmp 2b",
            in("r12") MARK, options(noreturn)
        );
    }
}

fn look(thread: u64) -> Result<Frame, alloc::string::String> {
    let frame = thread::registers(thread).map_err(doing("looking"))?;
    same!((frame.thread, frame.task), (thread, musubi::start().task()), "whose they are");
    Ok(frame)
}

fn own_threads() -> Outcome {
    let runs = thread::spawn(marked, 0).map_err(doing("thread"))?;
    let sleeps = thread::spawn(|| time::sleep_ns(u64::MAX / 4), 0).map_err(doing("thread"))?;
    let waits = thread::spawn(|| thread::park(), 0).map_err(doing("thread"))?;
    time::sleep_ns(20_000_000);
    for round in 0..20 {
        let frame = look(runs.number())?;
        same!((frame.reason, frame.address), (reason::STOPPED, 0), "of who runs, {round}");
        let marks = [frame.r12, frame.r13, frame.r14, frame.r15, frame.r8];
        same!(marks, [0, 1, 2, 3, 8].map(|n| MARK + n), "its registers");
        holds!(is_own_code(frame.rip), "it runs at {:#x}", frame.rip);
        for waiter in [&sleeps, &waits] {
            let frame = look(waiter.number())?;
            same!(frame.address, 0, "in whose text it waits");
            holds!(is_own_code(frame.rip), "it waits at {:#x}", frame.rip);
            let stack = section::info(frame.rsp).map_err(doing("its stack"))?;
            holds!(stack.owner == musubi::start().task(), "whose its stack is");
        }
    }
    for one in [runs, sleeps, waits] {
        let number = one.number();
        one.kill().map_err(doing("kill"))?;
        same!(one.join(), Ok(Error::Killed.word()), "its end");
        same!(thread::registers(number).map(|f| f.rip), Err(Error::NotFound), "after its end");
    }
    Ok(())
}

/// A caller that its callee keeps: where it goes on is told, and nothing of the callee; also where the kernel has seen nothing of the call.
fn in_a_callee() -> Outcome {
    WAYS.iter().enumerate().try_for_each(|(by, way)| in_one(by).map_err(|why| format!("{way:?}: {why}")))
}

fn in_one(by: usize) -> Outcome {
    let peer = Peer::start()?;
    let flags = data(PAGE).map_err(doing("create"))?;
    let all = AclEntry { principal: principal::ANY, rights: (Rights::READ | Rights::WRITE).bits(), id: 0, text: 0 };
    section::grant(flags.base(), &all).map_err(doing("grant"))?;
    store(flags.base(), 0);
    let (by, gate, flag) = (format!("{by}"), format!("{:#x}", peer.gate), format!("{:#x}", flags.base()));
    let words = ["check", "as", "call-by", &by, &gate, &format!("{}", op::LOOP), &flag, "0"];
    let caller = Command::new(b"bin/check").args(words).spawn().map_err(doing("caller"))?;
    crate::memory::await_word(flags.base());
    let its = task::threads().find(|one| one.task == caller.task).ok_or("it has no thread")?;
    for _ in 0..20 {
        let frame = thread::registers(its.thread).map_err(doing("looking"))?;
        same!((frame.reason, frame.address), (reason::AWAY, peer.text), "where it is");
        let text = section::info(frame.rip).map_err(doing("where it goes on"))?;
        same!((text.owner, text.kind), (caller.task, kind::TEXT), "whose text it goes on in");
        let bare = Frame { rip: 0, rsp: 0, reason: 0, address: 0, task: 0, thread: 0, ..frame };
        same!(format!("{bare:?}"), format!("{:?}", Frame::default()), "what is told besides");
    }
    caller.kill().map_err(doing("kill"))?;
    caller.wait_for(20_000_000_000).map_err(doing("its end"))?;
    peer.end()
}

fn refusals() -> Outcome {
    let own = task::identity();
    let mut frame = Frame::default();
    let to = core::ptr::from_mut(&mut frame) as u64;
    same!(stub::thread_registers(&Trap, own.thread, to), Err(Error::BadArgument), "one's own");
    same!(stub::thread_registers(&Trap, 1 << 60, to), Err(Error::NotFound), "of one that never was");
    // The system's, and whose child this program is.
    let mine = task::list().find(|one| one.task == musubi::start().task()).ok_or("who am I")?;
    let system = task::list().filter(|one| one.user == 0).nth(1).ok_or("no server")?.task;
    for other in [system, mine.payer] {
        let its = task::threads().find(|one| one.task == other).ok_or("it has no thread")?.thread;
        refused(stub::thread_registers(&Trap, its, to), Object::Thread(its), "of another task's")?;
    }
    // A child may not look at who has started it.
    let words = ["look", &format!("{}", own.thread)];
    same!(role(&words)?.code, 1, "what a child is told");
    let waits = thread::spawn(|| thread::park(), 0).map_err(doing("thread"))?;
    time::sleep_ns(5_000_000);
    look(waits.number())?;
    let nowhere = stub::thread_registers(&Trap, waits.number(), 8);
    holds!(nowhere.is_err() && nowhere != Err(Error::Busy), "to where nothing can be written: {nowhere:?}");
    // Nor in the kernel's name where the asker may not: its own text, and another program's.
    for text in [own.text, FIRST_TEXT] {
        let told = stub::thread_registers(&Trap, waits.number(), text);
        refused(told, Object::Section(text, Rights::WRITE), "into a text")?;
    }
    waits.kill().map_err(doing("kill"))?;
    waits.join().map(drop).map_err(doing("join"))
}

/// What a [`debug::Place`] of a function of this program says.
fn names() -> Outcome {
    debug::load().map_err(doing("the table"))?;
    let shown = format!("{}", debug::Place(names as *const () as u64 + 1));
    holds!(shown.contains(" in check::looks::names+0x1"), "{shown}");
    // Of another program, by its name and length.
    let peer = Peer::start()?;
    let distance = names as *const () as u64 - task::identity().text;
    let shown = format!("{}", debug::Place(peer.text + distance));
    holds!(shown.contains(" in check::looks::names+0x0"), "{shown}");
    peer.end()
}

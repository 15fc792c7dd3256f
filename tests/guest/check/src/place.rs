//! Texts in supervisor mode (SSS-7, 61 to 68; docs/decisions/0018): what they may do there, that everything else is as in user mode,
//! and who may have a program there. The image names `check` in `etc/placement`, and nothing else.

use crate::info;
use crate::memory::{data, load, store};
use crate::peer::{Peer, op};
use crate::refusals::lacks;
use crate::report::{Check, Outcome, SEVERAL_PROCESSORS, doing, skipped};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::info::layout::Section;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{class, kind};
use musubi::abi::start::StreamRef;
use musubi::abi::task::{Exit, cause, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::processes::ProcessesClient;
use musubi::processes::group;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{Mutex, probe, section, task, thread, time};
use musubi::{Error, Rights, eprintln};

mod paging;

pub use paging::pages;

pub const CHECKS: &[Check] = &[
    ("who_may_be_placed", who_may),
    ("supervisor_mode_is_what_it_says", || run_role("placed", class::PSYS)),
    ("supervisor_mode_has_what_lists_give", by_lists),
    ("user_mode_is_what_it_says", user_mode),
    ("wild_texts_in_supervisor_mode_end", wild),
    ("a_loop_in_supervisor_mode_is_preempted", || run_role("placed-loop", class::PSYS)),
    ("a_group_needs_no_locks", a_group_needs_no_locks),
    ("a_groups_pager_needs_none", paging::a_groups_pager),
    ("a_run_without_preemption", a_run_without_preemption),
    ("over_its_limit_it_is_nsys_no_more", over_its_limit),
];

/// This program in a class, in another task.
fn start(role: &str, class: u64, group: u64) -> Result<Child, String> {
    let command = Command::new(b"bin/check").args(["check", "as", role]).placed(class, group);
    command.spawn().map_err(|refused| format!("{role}: {refused}"))
}

fn ended(role: &str, class: u64) -> Result<Exit, String> {
    start(role, class, 0)?.wait_for(60_000_000_000).map_err(doing(role))
}

fn run_role(role: &str, class: u64) -> Outcome {
    let how = ended(role, class)?;
    same!(
        (how.kind, how.code),
        (exit::EXITED, 0),
        "{role} (cause {} at {:#x}, address {:#x})",
        how.cause,
        how.ip,
        how.address
    );
    Ok(())
}

/// A person has what the image names, and hears why not of anything else, by a call and by a message. No program places a text by itself.
fn who_may() -> Outcome {
    let refused =
        |path: &[u8], class| Command::new(path).placed(class, 0).spawn().map(drop).map_err(|r| (r.error, r.reason));
    let processes = musubi::names::lookup("processes").map_err(doing("processes"))?;
    let by_post = ProcessesClient::bind_post(processes, 16 << 10).map_err(doing("bind_post"))?;
    for (path, name) in [(&b"bin/hello"[..], "hello"), (b"/bin/console", "console")] {
        for class in [class::PSYS, class::NSYS] {
            match refused(path, class) {
                Err((Error::Denied, why)) if why.contains(name) && why.contains("supervisor mode") => {}
                other => return Err(format!("{name} in class {class}: {other:?}")),
            }
            // By a message it is a thread of the system's that asks the loader.
            let request = Command::new(path).placed(class, 0).request();
            let asked = by_post.spawn(&request, group::SAME, &mut [0; 256]);
            same!(asked, Err(Error::Denied), "{name} in class {class}, by a message");
        }
    }
    holds!(matches!(refused(b"bin/check", 7), Err((Error::BadArgument, _))), "a class that there is not");
    let right = crate::placer::right()?;
    let own = section::place(musubi::start().text(), class::PSYS, 0);
    lacks(own, right, Rights::CALL, "a program places its own text")?;
    lacks(section::grant(right, &everybody(Rights::CALL)), right, Rights::CHANGE_ACL, "it gives itself the right")?;
    let silent = Command::new(b"bin/hello").placed(class::PUSR, 0).stream(1, StreamRef::default());
    let hello = silent.spawn().map_err(|r| format!("hello in user mode: {r}"))?;
    same!(hello.wait_for(60_000_000_000).map(|how| how.kind), Ok(exit::EXITED), "hello in user mode");
    by_post.unbind().map_err(doing("unbind"))
}

/// An address where the kernel sees the machine's memory.
const KERNELS: u64 = 0xffff_8000_0010_0000;

/// The code segment's privilege.
#[unsafe(naked)]
extern "C" fn mode() -> u64 {
    naked_asm!("xor eax, eax", "mov ax, cs", "and eax, 3", "ret")
}

#[unsafe(naked)]
extern "C" fn control() -> u64 {
    naked_asm!("mov rax, cr4", "ret")
}

/// A register of the machine's clock, whose seconds are digits.
#[unsafe(naked)]
extern "C" fn seconds() -> u64 {
    naked_asm!("xor eax, eax", "out 0x70, al", "in al, 0x71", "movzx eax, al", "ret")
}

/// Interrupts off, a call that comes back with them on, and the flags.
#[unsafe(naked)]
extern "C" fn deaf() -> u64 {
    naked_asm!("cli", "mov eax, 0x80", "syscall", "pushfq", "pop rax", "ret")
}

/// Goes on wherever this leads.
#[unsafe(naked)]
extern "C" fn jump(_: u64) {
    naked_asm!("jmp rdi")
}

/// A stack pointer that leads nowhere, and the next interrupt.
#[unsafe(naked)]
extern "C" fn stackless() {
    naked_asm!("mov rsp, 8", "2:", "pause", "jmp 2b")
}

/// Goes down its stack for ever.
#[unsafe(naked)]
extern "C" fn fall() {
    naked_asm!("2:", "push rax", "jmp 2b")
}

/// What a text in supervisor mode can do, and that everything works there.
pub fn role() -> i32 {
    match inside() {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            1
        }
    }
}

fn inside() -> Outcome {
    same!(mode(), 0, "the processor's mode");
    // OSFXSR, which the kernel has set.
    holds!(control() & 1 << 9 != 0, "CR4 is {:#x}", control());
    holds!(seconds() & 0xf <= 9, "the clock's seconds are {:#x}", seconds());
    let _ = probe::read(KERNELS);
    holds!(deaf() & 1 << 9 != 0, "interrupts are off after a call");
    let text = section::info(musubi::start().text()).map_err(doing("info"))?;
    same!(text.placed.class, class::PSYS, "the class of the text");
    let of_thread = task::threads().find(|one| one.task == task::own()).map(|one| one.class);
    same!(of_thread, Some(class::PSYS), "the class of the thread");
    same!(task::info(task::own()).map(|one| one.class), Some(class::PSYS), "the class of the task");
    // Calls of both entries, and of messages.
    same!(task::own(), task::own_by_full_entry(), "the task");
    let post = Post::any().map_err(doing("post"))?;
    let back = Post::any().map_err(doing("post"))?;
    let echo = move || {
        for _ in 0..100 {
            let sum = post.receive(FOR_EVER).map_or(0, |message| message.words[0] + 1);
            let _ = back.send(1, [sum; 6], None);
        }
    };
    let echo = thread::spawn(echo, 0).map_err(doing("thread"))?;
    for n in 0..100 {
        post.send(1, [n; 6], None).map_err(doing("send"))?;
        same!(back.receive(FOR_EVER).map(|message| message.words[5]), Ok(n + 1), "an answer");
    }
    echo.join().map_err(doing("join"))?;
    // Memory that comes by faults.
    let mut big: Vec<u64> = alloc::vec![0; 1 << 18];
    big.iter_mut().enumerate().for_each(|(i, word)| *word = i as u64);
    same!(big.iter().sum::<u64>(), (1 << 18) * ((1 << 18) - 1) / 2, "a sum");
    // Servers in user mode, by the kernel and by plain calls.
    let peer = Peer::start()?;
    for n in 0..100 {
        same!(peer.call(op::ADD, &[1]), Ok(3 * n + 1), "a bound call");
        same!(peer.plain(op::ADD, &[2]), Ok(3 * n + 3), "a plain call");
    }
    same!(peer.call(op::COPY_LOCKED, &[8, 1]), Err(Error::BadAddress), "a fault in the callee");
    // Threads, locks, sleep, floating point.
    let counter: &'static Mutex<u64> = alloc::boxed::Box::leak(alloc::boxed::Box::new(Mutex::new(0)));
    let body = move || {
        let mut x = 1.0f64;
        for n in 0..1000u32 {
            *counter.lock() += 1;
            x = x * 1.5 / 1.25 / 1.2;
            if n.is_multiple_of(100) {
                thread::yield_now();
            }
        }
        assert!((x - 1.0).abs() < 1e-6, "floating point: {x}");
    };
    let threads: Vec<_> = (0..4).filter_map(|_| thread::spawn(body, 0).ok()).collect();
    same!(threads.len(), 4, "threads");
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
    same!(*counter.lock(), 4000, "the counter");
    time::sleep_ns(2_000_000);
    // Its time is accounted as everybody's.
    let (begin, before) = (time::now_ns(), accounted()?);
    while time::now_ns() < begin + 20_000_000 {}
    let (took, passed) = (accounted()? - before, time::now_ns() - begin);
    holds!((10_000_000..=passed).contains(&took), "{took} ns are accounted of {passed} ns");
    same!(mode(), 0, "the processor's mode, in the end");
    Ok(())
}

/// What this task has run for so far, as the kernel says.
fn accounted() -> Result<u64, String> {
    task::info(task::own()).map(|one| one.time).ok_or(String::from("this task is not listed"))
}

static PRIVATE: AtomicU64 = AtomicU64::new(7);

/// SSS-66: of programs' memory a text in supervisor mode has what lists give it, and no more: no other thread's stack, not even of its own task, and
/// another task's data if that lets it.
fn by_lists() -> Outcome {
    let how = ended("others-stack", class::PSYS)?;
    same!((how.kind, how.cause), (exit::FAULT, cause::DENIED), "another thread's stack");
    let peeked = |at: u64| start_with("peek", class::PSYS, 0, [at, 0])?.wait_for(60_000_000_000).map_err(doing("peek"));
    let how = peeked(PRIVATE.as_ptr() as u64)?;
    same!((how.kind, how.cause), (exit::FAULT, cause::DENIED), "static data of another task");
    let page = shared()?;
    store(page, PRIVATE.load(Ordering::SeqCst));
    let how = peeked(page)?;
    same!((how.kind, how.code), (exit::EXITED, 7), "what another task shares");
    Ok(())
}

/// Looks at a variable on another thread's stack, and is not to come back.
fn others_stack() -> i32 {
    static AT: AtomicU64 = AtomicU64::new(0);
    let other = thread::spawn(
        || {
            let own = AtomicU64::new(1);
            AT.store(own.as_ptr() as u64, Ordering::SeqCst);
            thread::park();
        },
        0,
    );
    while other.is_ok() && AT.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let _ = probe::read(AT.load(Ordering::SeqCst));
    i32::from(mode() != 0)
}

/// In user mode the same instructions are refused, and the kernel's memory is nobody's.
fn user_mode() -> Outcome {
    for (role, causes) in [("control", [cause::INSTRUCTION; 2]), ("kernel-peek", [cause::NO_SECTION, cause::DENIED])] {
        let how = ended(role, class::PUSR)?;
        holds!(how.kind == exit::FAULT && causes.contains(&how.cause), "{role}: {how:x?}");
    }
    Ok(())
}

/// One that does wrong ends like any other program, wherever it has got to; the machine and its callers go on.
fn wild() -> Outcome {
    for role in ["null", "nowhere", "no-address", "fall", "stackless", "undefined"] {
        let child = start(role, class::PSYS, 0)?;
        if role == "stackless" {
            // Nothing is wrong with it but that it has no stack: the timer and the kernel need none of it.
            time::sleep_ns(30_000_000);
            child.kill().map_err(doing("kill"))?;
        }
        let how = child.wait_for(60_000_000_000).map_err(doing(role))?;
        holds!(how.kind == if role == "stackless" { exit::KILLED } else { exit::FAULT }, "{role}: {how:x?}");
        if role == "fall" {
            same!(how.cause, cause::STACK, "the end of a stack");
        }
    }
    Ok(())
}

/// The other thread of this task makes an end of it: it has a turn, though nobody gives way.
fn endless() -> i32 {
    static OVER: AtomicBool = AtomicBool::new(false);
    static ROUNDS: AtomicU64 = AtomicU64::new(0);
    let other = thread::spawn(
        || {
            time::sleep_ns(30_000_000);
            OVER.store(true, Ordering::SeqCst);
        },
        0,
    );
    if other.is_err() || mode() != 0 {
        return 1;
    }
    while !OVER.load(Ordering::Relaxed) {
        ROUNDS.fetch_add(1, Ordering::Relaxed);
    }
    0
}

/// A page that every program here may use.
fn shared() -> Result<u64, String> {
    let page = data(PAGE).map_err(doing("create"))?;
    section::grant(page.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    Ok(page.base())
}

const ROUNDS: u64 = 5_000;
/// So that all rounds of a thread take several quanta.
const PAUSE_NS: u64 = 10_000;

/// This program with words behind the role.
fn start_with(role: &str, class: u64, group: u64, words: [u64; 2]) -> Result<Child, String> {
    let [first, second] = words.map(|word| format!("{word:#x}"));
    let words = ["check", "as", role, first.as_str(), second.as_str()];
    Command::new(b"bin/check").args(words).placed(class, group).spawn().map_err(|refused| format!("{role}: {refused}"))
}

/// Two tasks with two threads each add to one number, as `*n = *n + 1`, each after `pause_ns` in the middle. How much is missing in the end.
fn lost(class: u64, group: u64, pause_ns: u64) -> Result<u64, String> {
    let page = shared()?;
    let both = [0; 2].map(|_| start_with("nsys-count", class, group, [page, pause_ns]));
    for child in both {
        let how = child?.wait_for(200_000_000_000).map_err(doing("wait"))?;
        same!((how.kind, how.code), (exit::EXITED, 0), "one that counts");
    }
    Ok(4 * ROUNDS - load(page))
}

/// SSS-63: one thread of a group runs at a time, on however many processors, and is not preempted.
fn a_group_needs_no_locks() -> Outcome {
    let pair = u64::from_le_bytes(*b"pair\0\0\0\0");
    same!(lost(class::NSYS, pair, GIVES_WAY | PAUSE_NS)?, 0, "additions that are lost in a group");
    // Without one threads are preempted between load and store, or run beside each other, so that the test can tell: on one processor, too, as
    // each takes several turns.
    holds!(lost(class::PSYS, 0, PAUSE_NS)? > 0, "nothing is lost without a group either");
    Ok(())
}

/// Beside a pause: who is not preempted gives way now and then.
const GIVES_WAY: u64 = 1 << 32;

pub fn count(at: u64, pause_ns: u64) -> i32 {
    let body = move || {
        for n in 0..ROUNDS {
            let value = load(at);
            let until = time::now_ns() + pause_ns % GIVES_WAY;
            while time::now_ns() < until {}
            store(at, value + 1);
            // Often: on a busy host this takes long.
            if pause_ns >= GIVES_WAY && n.is_multiple_of(16) {
                thread::yield_now();
            }
        }
    };
    let other = thread::spawn(body, 0);
    body();
    i32::from(other.and_then(|other| other.join()).is_err())
}

/// Somebody else counts whenever he has a processor. Of what he does while the other one runs for three quanta, that one sees nothing.
fn a_run_without_preemption() -> Outcome {
    if task::processors().count() > 1 {
        // There they run side by side.
        return skipped(SEVERAL_PROCESSORS);
    }
    let page = shared()?;
    let other = start_with("count-for-ever", class::PUSR, 0, [page, 0])?;
    let run = |class| -> Result<u64, String> {
        let how = start_with("long-run", class, 0, [page, 0])?.wait_for(200_000_000_000).map_err(doing("wait"))?;
        same!(how.kind, exit::EXITED, "a long run");
        Ok(how.code)
    };
    let (without, with) = (run(class::NSYS), run(class::PSYS));
    other.kill().map_err(doing("kill"))?;
    other.wait_for(60_000_000_000).map_err(doing("wait"))?;
    same!((without?, with?), (0, 1), "whether somebody else ran meanwhile: without preemption, with it");
    Ok(())
}

/// Whether the word has changed within three quanta without a switch point, at the second try: by then the program's pages are there.
pub fn long_run(at: u64) -> i32 {
    let mut changed = false;
    for _ in 0..2 {
        thread::yield_now();
        let (begin, before) = (time::now_ns(), load(at));
        while time::now_ns() < begin + 30_000_000 {}
        changed = load(at) != before;
    }
    i32::from(changed)
}

/// SSS-64: one that comes to no switch point is found out, and preempted from then on.
fn over_its_limit() -> Outcome {
    let child = start("endless", class::NSYS, 0)?;
    let text = || section::list().find(|one| one.kind == kind::TEXT && one.owner == child.task).map(|one| one.placed);
    let until = time::now_ns() + 20_000_000_000;
    while text().is_some_and(|placed| placed.lost == 0) && time::now_ns() < until {
        time::sleep_ns(10_000_000);
    }
    let placed = text().ok_or("it is gone")?;
    same!((placed.class, placed.lost), (class::PSYS, 1), "the class of a text that does not stop");
    holds!(placed.long_runs >= 1 && placed.longest_ns >= 40_000_000, "its runs: {placed:?}");
    same!(
        task::threads().find(|one| one.task == child.task).map(|one| one.class),
        Some(class::PSYS),
        "its thread's class"
    );
    // The same without a call.
    let task = info::all()?.tasks().find(|one| one.number == child.task).map(|one| one.class);
    same!(task, Some(class::PSYS), "its task's class in the info section");
    let of_child = |one: &Section| one.owner == child.task && one.kind & 0xff == kind::TEXT;
    let seen = || Ok::<u64, String>(info::own()?.sections().find(of_child).map_or(0, |one| one.placed));
    let mut shown = seen()?;
    // Its run is written down behind its class.
    while shown >> 16 & 0xffff == 0 && time::now_ns() < until {
        shown = seen()?;
    }
    same!((shown & 0xff, shown >> 8 & 0xff), (class::PSYS, 1), "its class, and that it has lost another one");
    holds!(shown >> 16 & 0xffff >= 1 && shown >> 32 >= 40_000, "its runs: {shown:#x}");
    child.kill().map_err(doing("kill"))?;
    same!(child.wait_for(60_000_000_000).map(|how| how.kind), Ok(exit::KILLED), "its end");
    Ok(())
}

/// What a task of this program does that has to end.
pub fn wild_role(role: &str) -> i32 {
    match role {
        "control" => drop(control()),
        "kernel-peek" => drop(probe::read(KERNELS)),
        "others-stack" => return others_stack(),
        "null" => drop(probe::read(8)),
        "nowhere" => jump(0xffff_c000_0000_0000),
        "no-address" => jump(0x1234_5678_0000_0000),
        "fall" => fall(),
        "stackless" => stackless(),
        "undefined" => probe::instruction(probe::Instruction::Undefined),
        "placed-loop" => return endless(),
        "endless" => loop {
            core::hint::spin_loop();
        },
        _ => return 2,
    }
    crate::roles::WENT_THROUGH
}

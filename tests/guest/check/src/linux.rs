//! Linux programs that start others and end in every way: nothing of them is left. (They need Debian's busybox in the machine.)

use crate::deaths::settled;
use crate::processes::END_NS;
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::abi::start::StreamRef;
use musubi::abi::task::{USER_SYSTEM, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::processes::{ProcessesClient, group, whom};
use musubi::interfaces::stream::StreamClient;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Answers, Gates, task, time};
use musubi::{Caller, names, processes};

pub const CHECKS: &[Check] = &[
    ("nothing_is_left_of_those_who_fork", nothing_is_left),
    ("a_group_ends_with_those_who_were_forked", a_group_ends),
    ("who_cannot_fork_is_told", who_cannot_fork),
    ("a_start_by_message_calls_nobody_as_the_system", calls_nobody),
    ("who_waits_for_input_leaves_streams_to_others", leaves_streams),
];

/// How often it is done between looking.
const TIMES: u64 = 40;

/// A shell with children that end by themselves, in a pipe, by a signal, and by nobody but a signal to all.
const SCRIPT: &str =
    "(exit 3); echo text | cat | wc -c > /dev/null; sleep 100 & sleep 100 & kill -9 $!; wait $!; kill %1; wait; exit 5";

fn busybox() -> Command {
    Command::new(b"bin/busybox").args([&b"busybox"[..], b"sh", b"-c"])
}

fn threads() -> u64 {
    task::info(task::identity().task).map_or(0, |info| info.used.threads)
}

fn nothing_is_left() -> Outcome {
    let before = threads();
    let once = || -> Outcome {
        let child = busybox().arg(SCRIPT.as_bytes()).spawn().map_err(|e| format!("busybox: {e}"))?;
        let how = child.wait_for(20_000_000_000).map_err(doing("wait"))?;
        same!((how.kind, how.code), (exit::EXITED, 5), "the shell");
        Ok(())
    };
    // What grows with use does.
    (0..10).try_for_each(|_| once())?;
    let used = |m: &Memory| m.total - m.free - m.kept();
    let counts = |m: &Memory| (m.sections, m.tasks, m.threads);
    let first = settled()?;
    (0..TIMES).try_for_each(|_| once())?;
    let until = time::now_ns() + 5_000_000_000;
    loop {
        let now = settled()?;
        let (heap, memory) = (used_heap(&first, &now), used(&now).saturating_sub(used(&first)));
        // A program that is kept has more than ten pages, six of them end each time.
        let is_back = counts(&now) == counts(&first) && memory < TIMES * PAGE && heap < TIMES * PAGE / 4;
        if is_back {
            break;
        }
        let lost = format!(
            "sections, tasks, threads {:?}, not {:?}; {memory} bytes, {heap} of the kernel's",
            counts(&now),
            counts(&first)
        );
        holds!(time::now_ns() < until, "{lost}");
    }
    gone(before)
}

fn used_heap(before: &Memory, after: &Memory) -> u64 {
    after.kernel_heap_used.saturating_sub(before.kernel_heap_used)
}

/// What children of whom this program pays for count for is given back, soon after their end.
fn gone(before: u64) -> Outcome {
    let until = time::now_ns() + 5_000_000_000;
    while threads() != before {
        holds!(time::now_ns() < until, "{} threads and tasks are paid for, not {before}", threads());
        time::sleep_ns(5_000_000);
    }
    Ok(())
}

fn a_group_ends() -> Outcome {
    let before = (threads(), task::list().count());
    for n in 0..20 {
        // The last one takes the place of its shell, so they are four.
        let command = busybox().arg(b"sleep 100 & (sleep 100 & sleep 100) & sleep 100").group(group::NEW);
        let child = command.spawn().map_err(|e| format!("{n}: {e}"))?;
        let until = time::now_ns() + 20_000_000_000;
        while task::list().filter(|one| one.payer != 0 && one.task >= child.task).count() < 4 {
            holds!(time::now_ns() < until, "{n}: they were not started");
            time::sleep_ns(2_000_000);
        }
        // The group has the number of the first.
        processes::kill(whom::GROUP | child.task).map_err(doing("kill"))?;
        let _ = child.wait_for(20_000_000_000);
        let until = time::now_ns() + 20_000_000_000;
        while task::list().count() > before.1 {
            let left: String = task::list()
                .filter(|one| one.payer != 0)
                .map(|one| {
                    format!(
                        " {} of {} ({} threads, {} sections, {} frames)",
                        one.task, one.payer, one.threads, one.used.sections, one.used.frames
                    )
                })
                .collect();
            holds!(time::now_ns() < until, "{n}: some have outlived their group:{left}");
            time::sleep_ns(2_000_000);
        }
    }
    gone(before.0)
}

/// One that may have so many threads, each task being one, has an error and goes on.
fn who_cannot_fork() -> Outcome {
    let limits = musubi::abi::task::Limits { threads: 3, ..Default::default() };
    let script = b"sleep 100 & sleep 100 & sleep 100 & sleep 100 & echo never";
    let child = busybox().arg(script).limits(limits).spawn().map_err(|e| format!("{e}"))?;
    let how = child.wait_for(20_000_000_000).map_err(doing("wait"))?;
    same!((how.kind, how.code), (exit::EXITED, 2), "a shell that cannot fork");
    let script = b"(exit 4); (exit 6)";
    let child = busybox().arg(script).spawn().map_err(|e| format!("{e}"))?;
    let how = child.wait_for(20_000_000_000).map_err(doing("wait"))?;
    same!((how.kind, how.code), (exit::EXITED, 6), "the next one");
    Ok(())
}

/// A service of any interface that knows who has called it.
struct Spy;

/// Calls by the system, and by others.
static CALLS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

impl Skeleton for Spy {
    const IDENTITY: u32 = 0;

    fn dispatch(&self, caller: &Caller, _: u64, _: &[u64; 6]) -> Values {
        CALLS[usize::from(caller.user != USER_SYSTEM)].fetch_add(1, Ordering::SeqCst);
        Values(0, 0)
    }
}

/// A start that is asked for by a message runs on a thread of the system's. What it names as its names and its streams is called on the
/// program's own thread or not at all: a person's gate, none, or a server's, where the same number is another method (waiting for hours, or
/// what only the system may have done).
fn calls_nobody() -> Outcome {
    let gates = Gates::export(Spy, 8).map_err(doing("gates"))?;
    gates.admit(&ANYBODY).map_err(doing("acl"))?;
    let client = names::lookup("processes").and_then(ProcessesClient::bind).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let mut reason = client.alloc(256).map_err(doing("room"))?;
    let known = |name| names::lookup(name).map_err(doing(name));
    let others = [("the clock's gate", known("clock")?), ("the supervisor's gate", known("servers")?)];
    for (what, gate) in [("a spy's gate", gates.address()), ("no gate", 8)].into_iter().chain(others) {
        let spied = StreamRef { gate, id: 0 };
        let command = (0..3).fold(busybox().arg(b"exit 6").names(gate), |command, n| command.stream(n, spied));
        let began = time::now_ns();
        let started = posts.spawn(&command.request(), group::SAME, &mut reason).and_then(|one| one.wait());
        let child = Child { task: started.map_err(|e| format!("with {what}: {e}"))? };
        same!(child.wait_for(END_NS).map(|exit| exit.code), Ok(6), "its end, with {what}");
        holds!(time::now_ns() - began < END_NS / 10, "with {what} it took {} ns", time::now_ns() - began);
        same!(CALLS[0].load(Ordering::SeqCst), 0, "calls by the system, with {what}");
    }
    holds!(CALLS[1].load(Ordering::SeqCst) > 0, "the program has not looked at its streams");
    gates.close().map_err(doing("close"))
}

/// Programs that wait for what nobody writes, more of them than have room in one binding; another one at the same server gets its input.
fn leaves_streams() -> Outcome {
    const WAITING: usize = 10;
    let pipes = names::lookup("pipes").and_then(PipesClient::bind).map_err(doing("pipes"))?;
    let gate = pipes.streams().map_err(doing("their gate"))?;
    let streams = StreamClient::bind_with_args(gate, 4096).map_err(doing("bind"))?;
    let reader = |command: Command| -> Result<(Child, u64), String> {
        let id = pipes.make().map_err(doing("make"))?;
        let child = command.stream(0, StreamRef { gate, id }).spawn();
        Ok((child.map_err(|e| format!("busybox: {e}"))?, id))
    };
    let cat = || Command::new(b"bin/busybox").args([&b"busybox"[..], b"cat"]);
    let waiting: Vec<_> = (0..WAITING).map(|_| reader(cat())).collect::<Result<_, _>>()?;
    time::sleep_ns(500_000_000);
    let (child, id) = reader(busybox().arg(b"read x; exit ${#x}"))?;
    streams.write(id + 1, b"seven..\n").map_err(doing("write"))?;
    let read = child.wait_for(END_NS).map(|exit| exit.code);
    // They come to the end of their input.
    for (child, id) in waiting {
        streams.close(id + 1).map_err(doing("close"))?;
        same!(child.wait_for(END_NS).map(|exit| exit.code), Ok(0), "the end of one that has waited");
        let _ = streams.close(id);
    }
    let _ = streams.close(id + 1).and_then(|()| streams.close(id));
    same!(read, Ok(7), "what the last one has read");
    Ok(())
}

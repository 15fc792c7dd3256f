//! Calls into another program: bound and plain, nested and recursive, refused, and ended in every way.

mod depth;
mod grades;
pub mod hears;
mod rebound;
mod stacks;

use crate::memory::{data, load, store};
use crate::peer::ways::{By, WAYS, Way, in_call_by};
use crate::peer::{Peer, op, own};
use crate::refusals::lacks;
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::gate::{GATE_STEP, GATES_MAX, flag, grade};
use musubi::abi::layout::PAGE;
use musubi::abi::task::{CALLEE_GRACE_NS, cause, exit};
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::{ANYBODY, Skeleton, Values};
use musubi::rt::{Bound, Gates, plain_call, section, task, thread, time};
use musubi::{Caller, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("plain_and_bound", plain_and_bound),
    ("who_is_calling", who_is_calling),
    ("no_scheduler_on_the_way", no_scheduler),
    ("nested", nested),
    ("recursion_ends", depth::recursion_ends),
    ("recursion_by_bindings_ends", depth::recursion_by_bindings_ends),
    ("bound_to_oneself", depth::bound_to_oneself),
    ("callee_faults", || callee(op::FAULT, &[Error::Faulted])),
    ("callee_finds_no_memory", finds_no_memory),
    ("callee_exits", || callee(op::EXIT, &[Error::Dead])),
    ("callee_ends_the_thread", || callee(op::THREAD_EXIT, &[Error::Dead])),
    ("callee_is_killed", || ended_in_call(op::SLEEP, |p| p.child.kill())),
    ("callee_loops_and_is_killed", || ended_in_call(op::LOOP, |p| p.child.kill())),
    ("callee_is_deleted", || ended_in_call(op::SLEEP, |p| p.call(op::OWN, &[own::DELETE_TEXT]).map(drop))),
    ("callee_loops_and_is_deleted", || ended_in_call(op::LOOP, |p| p.call(op::OWN, &[own::DELETE_TEXT]).map(drop))),
    ("death_in_the_middle_of_a_chain", death_in_a_chain),
    ("caller_is_killed_in_a_callee", caller_is_killed),
    ("stacks_are_apart", stacks::stacks_are_apart),
    ("callers_stack_is_a_hazard", stacks::callers_stack),
    ("what_a_callee_had_on_its_callers_stack_stays", stacks::callees_entry),
    ("what_plain_calls_keep_is_nobodys", stacks::kept_is_nobodys),
    ("callbacks_from_the_callers_stack", stacks::callbacks),
    ("rebound_in_a_call", rebound::in_a_call),
    ("return_address_does_not_divert", || stacks::divert(0)),
    ("return_address_on_the_callers_stack", || stacks::divert(flag::CALLER_STACK)),
    ("jump_into_the_middle", jump_into_the_middle),
    ("no_gate_there", no_gate_there),
    ("gate_taken_back", gate_taken_back),
    ("right_taken_back", right_taken_back),
    ("pointers_are_checked_first", pointers_are_checked_first),
    ("one_thread_passes_memory_to_many", crate::attacks::passed::one_thread_to_many),
    ("argument_section", argument_section),
    ("many_threads_one_server", many_threads),
    ("gates_are_limited", gates_are_limited),
    ("binding_takes_what_is_to_be_had", grades::binding_takes_what_is_to_be_had),
];

fn plain_and_bound() -> Outcome {
    let peer = Peer::start()?;
    for n in 1..1000 {
        same!(peer.call(op::ADD, &[1]), Ok(2 * n - 1), "bound call {n}");
        same!(peer.plain(op::ADD, &[1]), Ok(2 * n), "plain call {n}");
    }
    same!(peer.call(999, &[]), Err(Error::NoSuchCall), "an error of the server's");
    same!(peer.bound.call(1, [0; 6]), Err(Error::BadArgument), "a gate beyond the block");
    peer.end()
}

/// The thread stays the same; the text is the callee's.
fn who_is_calling() -> Outcome {
    let peer = Peer::start()?;
    let me = task::identity();
    same!(peer.pair(op::WHO), Ok([me.thread, peer.text]), "thread and text inside");
    let after = task::identity();
    same!((after.text, after.depth), (me.text, 0), "text and depth afterwards");
    same!(me.text, musubi::start().text(), "the own text");
    peer.end()
}

/// Calls switch no thread: what switches there are come from ticks and from others, far fewer than calls (CUBIX-27).
fn no_scheduler() -> Outcome {
    const CALLS: u64 = 20_000;
    let peer = Peer::start()?;
    peer.call(op::ADD, &[0]).map_err(doing("call"))?;
    let count = |of: fn(&musubi::abi::info::Processor) -> u64| task::processors().map(|p| of(&p)).sum::<u64>();
    let (switches, calls) = (count(|p| p.switches), count(|p| p.epc));
    for _ in 0..CALLS {
        peer.call(op::ADD, &[1]).map_err(doing("call"))?;
    }
    let (switches, calls) = (count(|p| p.switches) - switches, count(|p| p.epc) - calls);
    same!(peer.call(op::ADD, &[0]), Ok(CALLS), "the calls that the peer has seen");
    if peer.bound.binding().grade == grade::EPC_H {
        holds!(calls < CALLS / 20, "the kernel took part in {calls} calls");
    } else {
        holds!(calls >= CALLS, "{calls} calls were counted");
    }
    holds!(switches < CALLS / 20, "{switches} switches during {calls} calls");
    peer.end()
}

/// a calls b calls c, by plain and by bound calls.
fn nested() -> Outcome {
    let (a, b, c) = (Peer::start()?, Peer::start()?, Peer::start()?);
    same!(a.call(op::RELAY, &[b.gate, op::RELAY, c.gate, op::ADD, 7]), Ok(7), "plain calls");
    let b_to_c = b.call(op::BIND, &[c.gate]).map_err(doing("binding b to c"))?;
    let a_to_b = a.call(op::BIND, &[b.gate]).map_err(doing("binding a to b"))?;
    let sum = a.call(op::CALL_BOUND, &[a_to_b, op::CALL_BOUND, b_to_c, op::ADD, 7]);
    same!(sum, Ok(14), "bound calls");
    same!(c.call(op::ADD, &[0]), Ok(14), "the sum in c");
    // Back into the text that called: a has a frame above and one below b.
    same!(a.call(op::RELAY, &[b.gate, op::RELAY, a.gate, op::ADD, 3]), Ok(3), "a, b, a");
    for peer in [a, b, c] {
        peer.end()?;
    }
    Ok(())
}

/// The call ends with an error, and the thread goes on.
fn callee(what: u64, wanted: &[Error]) -> Outcome {
    let bound = Peer::start()?;
    let outcome = bound.call(what, &[5]);
    holds!(outcome.is_err_and(|e| wanted.contains(&e)), "a bound call: {outcome:?}");
    let plain = Peer::start()?;
    let outcome = plain.plain(what, &[5]);
    holds!(outcome.is_err_and(|e| wanted.contains(&e)), "a plain call: {outcome:?}");
    same!(task::identity().depth, 0, "depth afterwards");
    if what == op::EXIT {
        let exit = bound.child.wait().map_err(doing("wait"))?;
        same!((exit.kind, exit.code), (exit::EXITED, 5), "how the callee ended");
        same!(bound.call(op::ADD, &[1]), Err(Error::Dead), "a call to the dead one");
        return Ok(());
    }
    // A fault or an end of a thread on a caller's behalf is not the server's end.
    for n in 1..50 {
        same!(bound.call(op::ADD, &[1]), Ok(n), "a call afterwards");
        holds!(bound.call(what, &[5]).is_err(), "once more");
    }
    bound.end()?;
    plain.end()
}

/// The caller hears what was wanting, and not only that the call has ended; and the callee goes on.
fn finds_no_memory() -> Outcome {
    let peer = Peer::start_small()?;
    for n in 1..5 {
        same!(peer.call(op::HOARD, &[]), Err(Error::NoMemory), "a bound call");
        same!(peer.plain(op::HOARD, &[]), Err(Error::NoMemory), "a plain call");
        same!(peer.call(op::ADD, &[1]), Ok(n), "a call afterwards");
    }
    peer.end()
}

/// With callers inside that have come there in each way.
fn ended_in_call(what: u64, end: fn(&Peer) -> Result<(), Error>) -> Outcome {
    let peer = Peer::start()?;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut inside = Vec::new();
    for (flag, by) in (flags.base()..).step_by(8).zip(By::all(peer.gate)?) {
        let by = Arc::new(by);
        inside.push((in_call_by(&by, what, flag, 100_000_000_000)?, by));
    }
    // The one who asks may be inside, too, when it is gone.
    let _ = end(&peer);
    for ((thread, outcome), by) in inside {
        thread.join().map_err(doing("join"))?;
        same!(outcome.load(Ordering::SeqCst), Error::Dead.word(), "what the caller was told ({:?})", by.way);
        // (A plain call of nothing is a fault.)
        holds!(by.way == Way::Plain || by.call(op::ADD, &[1]).is_err(), "a call afterwards ({:?})", by.way);
    }
    same!(peer.call(op::ADD, &[1]), Err(Error::Dead), "a call afterwards");
    peer.child.wait_for(10_000_000_000).map_err(doing("the peer's end"))?;
    Ok(())
}

/// The middle of a chain dies while threads are at its end, where they compute or wait: who is at the end has its time, and no more.
/// Then the first gets an error; the last goes on.
fn death_in_a_chain() -> Outcome {
    let [a, b, c]: &'static [Peer; 3] = Box::leak(Box::new([Peer::start()?, Peer::start()?, Peer::start()?]));
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mut inside = Vec::new();
    for (n, (by, what)) in
        [(op::CALL_BOUND, op::LOOP), (op::RELAY, op::LOOP), (op::CALL_BOUND, op::SLEEP)].into_iter().enumerate()
    {
        let flag = flags.base() + 8 * n as u64;
        let outcome: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(99)));
        let body = move || {
            let to = if by == op::RELAY { c.gate } else { b.call(op::BIND, &[c.gate]).unwrap_or(9) };
            let result = match what {
                // For longer than anybody waits here; one word more than is passed on.
                op::SLEEP => b.call(by, &[to, what, flag, 100_000_000_000]),
                _ => a.call(op::RELAY, &[b.gate, by, to, what, flag]),
            };
            outcome.store(result.map_or_else(Error::word, |_| 0), Ordering::SeqCst);
        };
        inside.push((n, outcome, thread::spawn(body, 0).map_err(doing("thread"))?));
        crate::memory::await_word(flag);
    }
    let began = time::now_ns();
    b.child.kill().map_err(doing("killing b"))?;
    b.child.wait_for(10_000_000_000).map_err(doing("b's end"))?;
    for (n, outcome, _) in &inside {
        while outcome.load(Ordering::SeqCst) == 99 {
            holds!(time::now_ns() < began + 60_000_000_000, "call {n}: its caller was never told that b has ended");
            time::sleep_ns(10_000_000);
        }
        holds!(time::now_ns() - began >= CALLEE_GRACE_NS, "call {n}: c had no time to come back");
        same!(outcome.load(Ordering::SeqCst), Error::Dead.word(), "call {n}: what its caller was told");
    }
    for (.., thread) in inside {
        thread.join().map_err(doing("join"))?;
    }
    same!((a.call(op::ADD, &[1]), c.call(op::ADD, &[1])), (Ok(1), Ok(1)), "a and c afterwards");
    a.child.kill().map_err(doing("killing a"))?;
    c.child.kill().map_err(doing("killing c"))
}

/// A callee finishes what it is doing for a caller that is killed: its data are whole.
fn caller_is_killed() -> Outcome {
    let peer = Peer::start()?;
    let flags = data(PAGE).map_err(doing("create"))?;
    section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    for round in 1..6u64 {
        store(flags.base(), 0);
        let gate = format!("{:#x}", peer.gate);
        let flag = format!("{:#x}", flags.base());
        let by = format!("{}", round - 1);
        let words = ["check", "as", "call-by", &by, &gate, &format!("{}", op::UPDATE), &format!("{round}"), &flag];
        let caller = Command::new(b"bin/check").args(words).spawn().map_err(doing("caller"))?;
        crate::memory::await_word(flags.base());
        same!(peer.pair(op::PAIR), Ok([round, round - 1]), "the pair in the middle");
        caller.kill().map_err(doing("kill"))?;
        let exit = caller.wait_for(10_000_000_000).map_err(doing("the caller's end"))?;
        same!(exit.kind, exit::KILLED, "how the caller ended");
        same!(peer.pair(op::PAIR), Ok([round, round]), "the pair afterwards");
    }
    // A callee that never finishes has a bounded time.
    for by in 0..WAYS.len() {
        store(flags.base(), 0);
        let (gate, flag) = (format!("{:#x}", peer.gate), format!("{:#x}", flags.base()));
        let words = ["check", "as", "call-by", &format!("{by}"), &gate, &format!("{}", op::LOOP), &flag, "0"];
        let caller = Command::new(b"bin/check").args(words).spawn().map_err(doing("caller"))?;
        crate::memory::await_word(flags.base());
        caller.kill().map_err(doing("kill"))?;
        caller.wait_for(20_000_000_000).map_err(doing("the end of a caller in an endless callee"))?;
    }
    same!(peer.call(op::ADD, &[1]), Ok(1), "the callee afterwards");
    peer.end()
}

/// Texts are entered at gates. Anywhere else the fetch is denied, and the denial says what it was about.
fn jump_into_the_middle() -> Outcome {
    let peer = Peer::start()?;
    same!(peer.call(op::OWN, &[own::BY_KERNEL]), Ok(0), "no rights but that to call");
    for offset in [0, 0x40, 0x1001] {
        let at = peer.text + offset;
        let exit = role(&["jump", &format!("{at:#x}")])?;
        same!((exit.kind, exit.cause), (exit::FAULT, cause::DENIED), "a jump to {at:#x}");
        same!((exit.address, exit.section), (at, peer.text), "address and section");
        same!(exit.right, u64::from(Rights::EXECUTE.bits()), "the missing right");
        holds!(exit.thread != 0 && exit.text != 0 && exit.text != peer.text, "by {exit:x?}");
    }
    same!(peer.call(op::ADD, &[1]), Ok(1), "the peer afterwards");
    peer.end()
}

fn no_gate_there() -> Outcome {
    let peer = Peer::start()?;
    for at in [peer.no_gate(), peer.gate + GATE_STEP, peer.gate + 1, peer.gate + 8] {
        same!(Bound::bind(at, 0).err(), Some(Error::NotFound), "binding to {at:#x}");
        let exit = role(&["jump", &format!("{at:#x}")])?;
        same!((exit.kind, exit.cause), (exit::FAULT, cause::NO_GATE), "a jump to {at:#x}");
        same!(exit.section, peer.text, "the section that the fault names");
    }
    for at in [0, 8, peer.text, musubi::start().text(), 1 << 47, u64::MAX] {
        holds!(Bound::bind(at, 0).is_err(), "binding to {at:#x}");
    }
    // What the SDK itself does not try.
    for at in [0, 8, musubi::start().text(), 1 << 47, u64::MAX] {
        same!(plain_call(at, [0; 6]), Err(Error::BadAddress), "a plain call to {at:#x}");
    }
    peer.end()
}

fn gate_taken_back() -> Outcome {
    let peer = Peer::start()?;
    let extra = peer.call(op::ON_CALLERS_STACK, &[]).map_err(doing("gate"))?;
    let bound = Bound::bind(extra, 0).map_err(doing("bind"))?;
    same!(bound.call(0, [op::ADD, 1, 0, 0, 0, 0]).and_then(result_of), Ok(1), "a call before");
    same!(peer.call(op::OWN, &[own::CLOSE, extra]), Ok(0), "taking it back");
    same!(bound.call(0, [op::ADD, 1, 0, 0, 0, 0]), Err(Error::Dead), "a bound call after");
    same!(Bound::bind(extra, 0).err(), Some(Error::NotFound), "binding after");
    let exit = role(&["plain-call", &format!("{extra:#x}")])?;
    same!((exit.kind, exit.cause), (exit::FAULT, cause::NO_GATE), "how a program ends that calls it plainly");
    same!(peer.call(op::ADD, &[1]), Ok(2), "the other gate");
    peer.end()
}

/// Who loses the right is inside when it is lost: it comes back, and cannot go again, by either way.
fn right_taken_back() -> Outcome {
    let peer = Peer::start()?;
    same!(peer.call(op::ADD, &[1]), Ok(1), "a call before");
    same!(peer.call(op::OWN, &[own::SHUT]), Ok(0), "the call in which it is taken");
    lacks(peer.call(op::ADD, &[1]), peer.text, Rights::CALL, "the next bound call")?;
    lacks(Bound::bind(peer.gate, 0), peer.text, Rights::CALL, "binding again")?;
    let exit = role(&["plain-call", &format!("{:#x}", peer.gate)])?;
    same!((exit.kind, exit.cause), (exit::FAULT, cause::DENIED), "how a program ends that calls plainly");
    same!((exit.section, exit.right), (peer.text, u64::from(Rights::CALL.bits())), "section and right of the fault");
    same!(exit.address, peer.gate, "address of the fault");
    peer.end()
}

/// What is not the caller's to pass is refused before the body runs: the server counts pixels only in its body.
fn pointers_are_checked_first() -> Outcome {
    let server = Command::new(b"bin/colour-map").args(["colour-map", "checked"]).spawn().map_err(doing("server"))?;
    let gate = musubi::names::await_name("checked", 10_000_000_000).map_err(doing("server's name"))?;
    let client = ColourMapClient::bind(gate).map_err(doing("bind"))?;
    let table = client.alloc(256).map_err(doing("alloc"))?;
    let pixels = client.alloc(8192).map_err(doing("alloc"))?;
    let (t, p) = (table.address(), pixels.address());
    let args = *client.bound().binding();
    let heap = Box::new([0u8; 512]);
    let servers = section::info(gate).map_err(doing("info"))?.base;
    let servers_data = section::list().find(|i| i.owner == server.task && i.kind == 0).map_or(1, |i| i.base);
    let bad = [
        (heap.as_ptr() as u64, 256, t),
        (p, 256, heap.as_ptr() as u64),
        (servers, 256, t),
        (servers_data, 256, t),
        (p, 256, servers_data),
        (0, 256, t),
        (8, 256, t),
        (p, u64::MAX, t),
        (p, args.args_len + 1, t),
        (args.args + args.args_len - 8, 9, t),
        (args.args.wrapping_sub(1), 16, t),
        (u64::MAX - 15, 16, t),
        (u64::MAX - 15, 32, t),
        (0xffff_8000_0000_0000, 256, t),
        (1 << 63, 256, t),
        (p, 256, u64::MAX - 100),
        (p, 256, args.args + args.args_len - 255),
        // What is written may not be read as well.
        (t, 256, t),
        (t.wrapping_sub(8).max(args.args), 256, t),
    ];
    let before = client.mapped().map_err(doing("mapped"))?;
    for (pointer, len, other) in bad {
        let outcome = client.bound().call(0, [pointer, len, other, 256, 0, 0]).and_then(result_of);
        same!(outcome, Err(Error::Refused), "{pointer:#x} {len:#x} {other:#x}");
        same!(client.mapped(), Ok(before), "pixels mapped after {pointer:#x} {len:#x}");
    }
    let short = client.bound().call(0, [p, 256, t, 255, 0, 0]).and_then(result_of);
    same!((short, client.mapped()), (Err(Error::Refused), Ok(before)), "a table of another length");
    let good = client.bound().call(0, [p, 8192, t, 256, 0, 0]).and_then(result_of);
    same!((good, client.mapped()), (Ok(0), Ok(before + 8192)), "what is the caller's");
    // A plain call lends nothing, and works on what both may use.
    let shared = data(4 * PAGE).map_err(doing("create"))?;
    let plain = |a, b| plain_call(gate, [a, 256, b, 256, 0, 0]).and_then(result_of);
    same!(plain(shared.base(), shared.base() + 512), Err(Error::Refused), "plain, without a right for the server");
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    same!(plain(shared.base(), shared.base() + 512), Ok(0), "plain, with rights for both");
    drop((table, pixels));
    server.kill().map_err(doing("kill"))?;
    Ok(())
}

/// The section of a binding is for the two texts, and goes with the binding.
fn argument_section() -> Outcome {
    let (peer, other) = (Peer::start()?, Peer::start()?);
    let args = peer.bound.binding().args;
    store(args, 0x77);
    same!(peer.call(op::PEEK, &[args]), Ok(0x77), "the bound text");
    same!(other.call(op::PEEK, &[args]), Err(Error::Faulted), "another text");
    same!(peer.call(op::POKE, &[args + 8, 5]), Ok(0), "a store by the bound text");
    same!(load(args + 8), 5, "what it stored");
    let exit = role(&["peek", &format!("{args:#x}")])?;
    same!(exit.kind, exit::FAULT, "another task");
    let second = Bound::bind(peer.gate, 8192).map_err(doing("bind"))?;
    let its = second.binding().args;
    holds!(its != args, "two bindings share arguments");
    second.unbind().map_err(doing("unbind"))?;
    same!(section::info(its).err(), Some(Error::NotFound), "the section of an ended binding");
    same!(peer.call(op::PEEK, &[args]), Ok(0x77), "the other binding");
    other.end()?;
    peer.end()
}

const THREADS: u64 = 32;
const EACH: u64 = 10_000;

/// Many threads in one server at once, on all processors: the sum is exact.
fn many_threads() -> Outcome {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let failed: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let body = move || {
        for n in 0..EACH {
            let outcome = if n % 16 == 0 { peer.plain(op::ADD, &[1]) } else { peer.call(op::ADD, &[1]) };
            if outcome.is_err() {
                failed.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let all: Result<Vec<_>, _> = (0..THREADS).map(|_| thread::spawn(body, 0)).collect();
    for thread in all.map_err(doing("thread"))? {
        thread.join().map_err(doing("join"))?;
    }
    same!(failed.load(Ordering::SeqCst), 0, "calls that failed");
    same!(peer.call(op::ADD, &[0]), Ok(THREADS * EACH), "the sum");
    peer.child.kill().map_err(doing("kill"))
}

fn gates_are_limited() -> Outcome {
    struct Nobody;
    impl Skeleton for Nobody {
        fn dispatch(&self, _: &Caller, _: u64, w: &[u64; 6]) -> Values {
            Values(0, w[0])
        }
    }
    let mut blocks: Vec<Gates> = Vec::new();
    let why = loop {
        match Gates::export(Nobody, 16) {
            Ok(gates) => blocks.push(gates),
            Err(e) => break e,
        }
    };
    same!((blocks.len() as u64, why), (GATES_MAX / 16, Error::TooBig), "blocks of 16 gates");
    let mut addresses: Vec<u64> = blocks.iter().map(Gates::address).collect();
    addresses.sort_unstable();
    holds!(addresses.windows(2).all(|w| w[1] - w[0] == 16 * GATE_STEP), "blocks overlap");
    let last = blocks.pop().ok_or("no block")?;
    last.admit(&ANYBODY).map_err(doing("admit"))?;
    let bound = Bound::bind(last.address(), 0).map_err(doing("bind"))?;
    same!(bound.call(15, [3, 0, 0, 0, 0, 0]), Ok([0, 3]), "the last gate");
    same!(bound.call(16, [3, 0, 0, 0, 0, 0]), Err(Error::BadArgument), "one beyond");
    last.close().map_err(doing("close"))?;
    holds!(Gates::export(Nobody, 16).is_ok(), "no gates after some were taken back");
    for count in [0, GATES_MAX + 1, u64::MAX] {
        same!(Gates::export(Nobody, count).err(), Some(Error::BadArgument), "{count} gates");
    }
    Ok(())
}

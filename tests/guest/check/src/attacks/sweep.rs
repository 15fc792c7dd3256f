//! Calls that are stopped at each of their instructions (pitfalls: H3, H12). Many threads sleep for times that fit to nothing, and each
//! wake-up is an interrupt; with counted instructions one falls on any instruction as easily as on any other. A gate that went on
//! where it was stopped would do so with the key register that the kernel has set meanwhile, or cross twice; a kernel that kept
//! a register too few would lose it here.

use super::asm::spin_and_copy;
use crate::memory::{data, load, store};
use crate::peer::{Peer, op};
use crate::posts::{echo, post};
use crate::raw::kind;
use crate::registers::{Way, one_call, stage};
use crate::report::{Check, Outcome, doing};
use crate::sched::leak;
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::gate::GATE;
use musubi::abi::info::STOPS;
use musubi::abi::layout::PAGE;
use musubi::rt::post::FOR_EVER;
use musubi::rt::{probe, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("stopped_in_calls_by_the_gate", || registers(Way::Direct, kind::DUMP_AND_DONE)),
    ("stopped_in_calls_by_the_gate_and_back_by_the_kernel", || registers(Way::Direct, kind::DUMP_AND_SPOIL)),
    ("stopped_in_calls_by_the_kernel", || registers(Way::Bound, kind::DUMP_AND_SPOIL)),
    ("stopped_in_plain_calls", || registers(Way::Plain, kind::DUMP_AND_SPOIL)),
    ("stopped_in_calls_in_calls", nested),
    ("stopped_in_hand_overs", hand_overs),
    ("stopped_while_the_processor_is_passed_on", || crate::passing::stirred(3, |alternate| stirred(alternate))),
    ("stopped_with_ones_own_rights", own_rights),
];

/// Where counted instructions make it exact, in a machine in which nobody was stopped in the gate before.
pub const SWITCHED: &[Check] = &[("switched_at_each_instruction_of_the_gate", switched)];
pub const STOPPED: &[Check] = &[("stopped_at_each_instruction_of_the_gate", each_instruction)];

/// Where counted instructions make it exact.
pub const EXACT: &[Check] = &[
    ("late_at_each_instruction_of_the_way_back", super::late::late_on_the_way_back),
    ("late_all_through_the_scheduler", super::late::late_in_the_scheduler),
    ("late_all_through_a_server", super::late::late_in_a_server),
    ("counted_calls_in_calls", nested),
    ("counted_calls_by_the_kernel", || registers(Way::Bound, kind::DUMP_AND_SPOIL)),
    ("counted_plain_calls", || registers(Way::Plain, kind::DUMP_AND_SPOIL)),
    ("counted_hand_overs", hand_overs),
    ("counted_passing_on", || crate::passing::stirred(0, |alternate| stirred(alternate))),
    ("stopped_with_ones_own_rights_counted", own_rights),
    ("callers_hear_in_bounded_time", crate::calls::hears::in_bounded_time),
];

const SLEEPERS: u64 = 40;
/// Interrupts that a check waits for.
const ENOUGH: u64 = 4000;
/// Times that so many are tried before an instruction counts as one that nobody can be stopped at.
const ROUNDS_MAX: u64 = 60;

fn interrupts() -> u64 {
    task::processors().map(|p| p.interrupts).sum()
}

/// Threads that sleep and wake until this goes.
struct Sleepers {
    stop: &'static AtomicBool,
    threads: Vec<thread::Thread>,
}

impl Sleepers {
    fn start() -> Result<Sleepers, String> {
        let stop = leak(AtomicBool::new(false));
        let one = |n: u64| {
            let body = move || {
                let mut state = n + 1;
                while !stop.load(Ordering::Relaxed) {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2 * n + 1);
                    // Not so often that there is always one due: the shortest alarm is always as long.
                    time::sleep_ns(100_000 + n * 7_919 + (state >> 33) % 65_536);
                }
            };
            thread::spawn(body, 0)
        };
        let threads: Result<Vec<_>, Error> = (0..SLEEPERS).map(one).collect();
        Ok(Sleepers { stop, threads: threads.map_err(doing("thread"))? })
    }

    fn end(self) -> Outcome {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))
    }
}

/// Does `what` again and again, in batches between which others have a turn, until it was interrupted so often.
fn stirred(mut what: impl FnMut(u64) -> Outcome) -> Outcome {
    let sleepers = Sleepers::start()?;
    let (before, until) = (interrupts(), time::now_ns() + 300_000_000_000);
    let mut round = 0;
    let outcome = loop {
        let batch = (0..50).try_for_each(|_| {
            round += 1;
            // Another number of instructions each time: what is the same in each round falls on the same ones.
            for _ in 0..round * 7 % 61 {
                core::hint::spin_loop();
            }
            what(round)
        });
        thread::yield_now();
        let done = interrupts() - before >= ENOUGH;
        if batch.is_err() || done || time::now_ns() > until {
            break batch.and(if done { Ok(()) } else { Err(String::from("too few interrupts")) });
        }
    };
    sleepers.end()?;
    outcome.map_err(|why| format!("round {round}: {why}"))
}

/// Every register, from both sides of each call.
fn registers(way: Way, kind: u64) -> Outcome {
    let (peer, gate, bound, room) = stage(kind)?;
    if way == Way::Direct && !super::has_keys(&bound) {
        peer.end()?;
        return super::without_keys();
    }
    let who = task::identity();
    stirred(|_| one_call(way, &bound, gate, room, &who))?;
    peer.end()
}

/// Several threads at once, each in a program that calls another one.
fn nested() -> Outcome {
    let (outer, inner) = (leak(Peer::start()?), leak(Peer::start()?));
    let slot = outer.call(op::BIND, &[inner.gate]).map_err(doing("binding"))?;
    let (stop, made) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let add = move || {
        let outcome = outer.call(op::CALL_BOUND, &[slot, op::ADD, 1]);
        made.fetch_add(u64::from(outcome.is_ok()), Ordering::SeqCst);
        outcome
    };
    let other = move || {
        let mut sum = 0;
        while !stop.load(Ordering::SeqCst) {
            for _ in 0..20 {
                match add() {
                    Ok(now) if now > sum => sum = now,
                    _ => thread::exit(1),
                }
            }
            thread::yield_now();
        }
    };
    let others: Result<Vec<_>, Error> = (0..2).map(|_| thread::spawn(other, 0)).collect();
    let others = others.map_err(doing("thread"))?;
    let outcome = stirred(|_| add().map(drop).map_err(doing("call")));
    stop.store(true, Ordering::SeqCst);
    for one in others {
        same!(one.join(), Ok(0), "another thread");
    }
    outcome?;
    same!(inner.call(op::ADD, &[0]), Ok(made.load(Ordering::SeqCst)), "calls that were made, by their sum");
    for peer in [outer, inner] {
        peer.child.kill().map_err(doing("kill"))?;
    }
    Ok(())
}

/// Who is stopped behind a call goes on with his own rights, though the kernel has seen him in the callee last: that has made a call of it, and
/// he none until he tries.
fn own_rights() -> Outcome {
    let (scene, me) = (super::Scene::set()?, task::identity().thread);
    let room = data(PAGE).map_err(doing("create"))?.base();
    section::grant(room, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    store(room, 0);
    scene.victim.call(op::POKE, &[room, 0]).map_err(doing("a store"))?;
    // By the gate the kernel does not hear that he is back.
    if super::has_keys(&scene.victim.bound) {
        super::earn(&scene.victim)?;
    }
    stirred(|round| {
        let who = scene.victim.pair(op::WHO);
        let denied = spin_and_copy(room, scene.place, 8, 1 + round * 13 % 97);
        same!((denied, load(room)), (1, 0), "what is the victim's, behind a call");
        same!(who, Ok([me, scene.victim.text]), "who was there");
        Ok(())
    })?;
    scene.end()
}

/// A message there and its answer, with all words.
fn hand_overs() -> Outcome {
    let (there, back) = (post()?, post()?);
    let body = move || {
        let _ = echo(there, back);
        // Who still waits for an answer hears that there will be none.
        let _ = back.free(true);
    };
    let server = thread::spawn(body, 0).map_err(doing("thread"))?;
    stirred(|round| {
        let words: [u64; 6] = core::array::from_fn(|n| round * 7 + n as u64);
        let got = there.send_and_receive(1, words, back, FOR_EVER).map_err(doing("a round"))?;
        let mut wanted = words;
        wanted[0] += 1;
        same!((got.op, got.words), (1, wanted), "the answer");
        Ok(())
    })?;
    there.send(0, [0; 6], None).map_err(doing("the last one"))?;
    server.join().map_err(doing("join"))?;
    there.free(true).map_err(doing("freeing"))
}

fn stops() -> [u64; STOPS] {
    task::processors().fold([0; STOPS], |all, p| core::array::from_fn(|n| all[n] | p.stops[n]))
}

/// At how many places of the gate somebody was stopped, on the way there and on the way back, which begins in the second half of its code. Each
/// ends with an instruction that there is not (`in_trap`, `out_trap`); what comes behind, the way to the kernel, does not count.
fn stopped() -> [usize; 2] {
    let stops = stops();
    let is_seen = |at: u64| stops[at as usize / 64] >> (at % 64) & 1 != 0;
    [0, HALF].map(|from| {
        let byte = |at| probe::read(GATE + at);
        let end = (from..from + HALF).find(|at| [byte(*at), byte(at + 1)] == UD2).unwrap_or(from);
        (from..end).filter(|at| is_seen(*at)).count()
    })
}

/// The same of the way to the kernel, behind the way there, up to its last two instructions, which are the same for everybody.
fn stopped_before_the_kernel() -> usize {
    let stops = stops();
    let is_seen = |at: u64| stops[at as usize / 64] >> (at % 64) & 1 != 0;
    let pair = |at| [probe::read(GATE + at), probe::read(GATE + at + 1)];
    let from = (0..HALF).find(|at| pair(*at) == UD2).unwrap_or(HALF);
    let end = (from..HALF).find(|at| pair(*at) == PUSH_R10).unwrap_or(from);
    (from..end).filter(|at| is_seen(*at)).count()
}

const PUSH_R10: [u8; 2] = [0x41, 0x52];

/// Where the gate's way back begins.
const HALF: u64 = 0x100;
const UD2: [u8; 2] = [0x0f, 0x0b];

pub fn stopped_on_the_way_back() -> usize {
    stopped()[1]
}

/// Instructions between two labels of the gate's source.
pub fn instructions(from: &str, to: &str) -> usize {
    const SOURCE: &str = include_str!("../../../../../kernel/arch/src/gate.S");
    let label = |line: &str, name: &str| line.starts_with(&format!("{name}:"));
    let between = SOURCE.lines().skip_while(|line| !label(line, from)).take_while(|line| !label(line, to));
    between.filter(|line| line.starts_with("    ")).count()
}

/// The kernel marks where it has stopped a thread in the gate, and that is in the end everywhere.
fn each_instruction() -> Outcome {
    let (peer, gate, bound, room) = stage(kind::DUMP_AND_DONE)?;
    if !super::has_keys(&bound) {
        peer.end()?;
        return super::without_keys();
    }
    let who = task::identity();
    let all = [("in_open", "in_trap"), ("out_open", "out_trap")].map(|(from, to)| instructions(from, to));
    holds!(all.iter().all(|count| *count > 20), "the gate's source is not what was expected: {all:?}");
    for _ in 0..ROUNDS_MAX {
        stirred(|_| one_call(Way::Direct, &bound, gate, room, &who))?;
        if stopped().iter().zip(&all).all(|(seen, all)| seen >= all) {
            return on_the_way_to_the_kernel(peer);
        }
    }
    Err(format!("stopped at {:?} places of {all:?}: {:x?}", stopped(), stops()))
}

/// The gate is asked for calls that only the kernel makes.
fn on_the_way_to_the_kernel(peer: Peer) -> Outcome {
    let all = instructions("in_kernel", "in_end");
    holds!(all > 5, "the gate's source is not what was expected: {all}");
    same!(peer.call(op::OWN, &[crate::peer::own::BY_KERNEL]), Ok(0), "a text that nobody executes himself");
    let mut sum = 0;
    for _ in 0..ROUNDS_MAX {
        stirred(|_| {
            sum += 1;
            same!(peer.call(op::ADD, &[1]), Ok(sum), "a call");
            Ok(())
        })?;
        if stopped_before_the_kernel() >= all {
            return peer.end();
        }
    }
    Err(format!("stopped at {} places of {all}: {:x?}", stopped_before_the_kernel(), stops()))
}

/// A scheduler sits in the seat, so that who is stopped by somebody's wake-up is put aside for another program, and perhaps for another thread. Two
/// threads have the processor in turn, each in calls of another server: stopped at each of the gate's instructions in the end, each goes on with what is
/// its own.
fn switched() -> Outcome {
    let scenes = [leak(super::Scene::set()?), leak(super::Scene::set()?)];
    if !super::has_keys(&scenes[0].victim.bound) {
        scenes.iter().try_for_each(|scene| scene.victim.child.kill().map_err(doing("kill")))?;
        return super::without_keys();
    }
    scenes.iter().try_for_each(|scene| super::earn(&scene.victim))?;
    let all = [("in_open", "in_trap"), ("out_open", "out_trap")].map(|(from, to)| instructions(from, to));
    let chooser = crate::sched::client()?;
    chooser.choose("ageing").map_err(doing("ageing"))?;
    let counts = || task::processors().fold([0; 2], |all, p| [all[0] + p.switches, all[1] + p.interrupts]);
    let (before, places) = (counts(), stopped());
    let (stop, wrong) = (leak(AtomicBool::new(false)), leak(AtomicU64::new(0)));
    let calls = |scene: &'static super::Scene| {
        move || {
            // (Of another length each time: interrupts come after as many instructions.)
            let mut n = 0;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                (0..n % 7).for_each(|_| core::hint::spin_loop());
                if scene.victim.call(super::op::GET, &[]) != Ok(scene.secret) {
                    wrong.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    };
    let threads: Result<Vec<_>, Error> = scenes.iter().map(|scene| thread::spawn(calls(scene), 0)).collect();
    let threads = threads.map_err(doing("thread"))?;
    let sleepers = Sleepers::start()?;
    let until = time::now_ns() + 60_000_000_000;
    let is_over = || stopped().iter().zip(&all).all(|(seen, all)| seen >= all);
    while !is_over() && time::now_ns() < until {
        time::sleep_ns(50_000_000);
    }
    stop.store(true, Ordering::SeqCst);
    sleepers.end()?;
    threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
    let sits = task::processors().count() == musubi::rt::sched::seats().filter(|seat| seat.thread != 0).count();
    chooser.choose("none").map_err(doing("none"))?;
    same!(wrong.load(Ordering::SeqCst), 0, "wrong answers");
    let [switches, interrupts] = [0, 1].map(|n| counts()[n] - before[n]);
    let about = format!(
        "{:?} places of {all:?}, {places:?} before, in {interrupts} interrupts and {switches} switches",
        stopped()
    );
    holds!(is_over(), "{about}");
    // Each has woken somebody, so the scheduler was asked, and somebody named.
    holds!(sits && switches > interrupts, "nobody was switched: {about}");
    scenes.iter().try_for_each(|scene| {
        scene.holds("afterwards")?;
        scene.victim.child.kill().map_err(doing("kill"))
    })
}

//! Calls at random. Whatever a program asks of the kernel, the kernel goes on, and so do other programs.

use crate::memory::{data, load, word};
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::calls::{Kernel, TABLE};
use musubi::abi::gate::{CALL_BASE, slot};
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::command::Command;
use musubi::rt::{Section, Trap, section, task, thread};
use musubi::{Error, Rights, names};

pub mod messages;

pub const CHECKS: &[Check] = &[
    ("random_calls", random_calls),
    ("every_call_with_every_bad_argument", every_bad_argument),
    ("unknown_numbers", unknown_numbers),
    ("hostile_message_registers", messages::hostile_registers),
    ("everything_works_after", everything_works_after),
];

/// Calls to make in all.
const CALLS: u64 = 100_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn of(&mut self, list: &[u64]) -> u64 {
        let at = self.next() as usize % list.len();
        list[at]
    }
}

/// Calls that would end the fuzzer itself at once, or the wrong task.
fn is_left_out(name: &str) -> bool {
    matches!(name, "thread_exit" | "task_exit" | "task_kill" | "gate_return" | "foreign_return" | "section_give")
}

/// Where waiting calls have their time limit, which must be short.
fn limit_of_time(name: &str) -> Option<usize> {
    match name {
        "sleep" => Some(0),
        "thread_join" | "task_wait" => Some(1),
        "wait" | "call_scheduler" => Some(2),
        _ => None,
    }
}

/// A program that makes random calls: several threads, `count` calls each, counted at `counter`.
pub fn wild(seed: u64, count: u64, counter: u64) -> i32 {
    let mut threads = Vec::new();
    for n in 0..3 {
        threads.extend(thread::spawn(move || one(seed * 97 + n * 31 + 1, count, counter), 0));
    }
    one(seed * 89 + 7, count, counter);
    threads.into_iter().for_each(|t| {
        let _ = t.join();
    });
    0
}

fn one(seed: u64, count: u64, counter: u64) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let scratch = data(16 * PAGE).map_or(0, |s| s.base());
    let small = Section::create(PAGE, GRANULE, 0, 0).map_or(0, |s| s.base());
    let heap = alloc::boxed::Box::new([0u64; 64]);
    let gates = ["names", "files"].map(|name| names::lookup(name).unwrap_or(0));
    let who = task::identity();
    let places = [
        scratch,
        scratch + 8,
        scratch + PAGE - 4,
        scratch + 15 * PAGE,
        scratch + 16 * PAGE - 8,
        scratch + 16 * PAGE,
        small,
        small + GRANULE,
        heap.as_ptr() as u64,
        gates[0],
        gates[1],
    ];
    let numbers = [
        0,
        1,
        2,
        3,
        7,
        8,
        16,
        31,
        PAGE - 1,
        PAGE,
        PAGE + 1,
        GRANULE,
        1 << 30,
        64 << 30,
        1 << 46,
        1 << 47,
        (1 << 47) - 1,
        1 << 63,
        0xffff_8000_0000_0000,
        u64::MAX - 7,
        u64::MAX,
        who.task,
        who.thread,
        who.thread + 1,
        who.text,
    ];
    for _ in 0..count {
        let row = &TABLE[random.next() as usize % TABLE.len()];
        if is_left_out(row.name) {
            continue;
        }
        let mut words = [0; 6];
        for w in &mut words {
            *w = match random.next() % 16 {
                0 => random.next(),
                1 => random.next() % 256,
                2 => task::list().map(|t| t.task).nth(random.next() as usize % 8).unwrap_or(0),
                3 => section::list().map(|s| s.base).nth(random.next() as usize % 64).unwrap_or(0),
                4..=9 => random.of(&places),
                _ => random.of(&numbers),
            };
        }
        // The own text is what runs this.
        if row.name == "section_delete" && words[0] == who.text {
            continue;
        }
        if let Some(at) = limit_of_time(row.name) {
            words[at] = random.next() % 100_000;
        }
        let _ = Trap.enter(row.number, words);
        if random.next() % 64 == 0 {
            let _ = bound(CALL_BASE | random.next() % slot(8), random.next() % 8, words);
        }
        word(counter).fetch_add(1, Ordering::Relaxed);
    }
}

fn random_calls() -> Outcome {
    let counter = data(PAGE).map_err(doing("create"))?;
    section::grant(counter.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let watch = data(PAGE).map_err(doing("create"))?;
    crate::memory::store(watch.base(), 0x1234);
    let peer = Peer::start()?;
    let mut seed = 0u64;
    while load(counter.base()) < CALLS {
        seed += 1;
        holds!(seed < 500, "only {} calls by {seed} programs", load(counter.base()));
        let words = ["check", "as", "fuzz", &format!("{seed}"), "2000", &format!("{:#x}", counter.base())];
        let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("fuzzer"))?;
        match child.wait_for(10_000_000_000) {
            Ok(_) => {}
            // It may have made itself wait for ever; it must end when it is killed.
            Err(Error::TimedOut) => {
                child.kill().map_err(doing("killing the fuzzer"))?;
                child.wait_for(10_000_000_000).map_err(doing("the killed fuzzer's end"))?;
            }
            Err(e) => return Err(format!("wait: {e}")),
        }
        same!(load(watch.base()), 0x1234, "another program's word, after fuzzer {seed}");
        same!(peer.call(op::ADD, &[1]), Ok(seed), "another server, after fuzzer {seed}");
    }
    peer.end()
}

/// Every call, in each argument in turn everything that is always wrong, in a program of its own kind.
fn every_bad_argument() -> Outcome {
    let scratch = data(PAGE).map_err(doing("create"))?;
    let bad =
        [0, 1, 4095, 1 << 46, 1 << 47, 0x7fff_ffff_f000, 1 << 63, 0xffff_8000_0000_0000, u64::MAX - 4095, u64::MAX];
    let mut outcomes = 0u64;
    for row in TABLE.iter().filter(|row| !is_left_out(row.name) && row.name != "section_seal") {
        for at in 0..6 {
            for wrong in bad {
                let mut words = [scratch.base(); 6];
                words[at] = wrong;
                // What could delete or cut our own scratch section leaves it alone.
                if matches!(row.name, "section_delete" | "section_resize" | "thread_kill") && at != 0 {
                    continue;
                }
                if let Some(time) = limit_of_time(row.name) {
                    words[time] = 1000;
                }
                if let Err(e) = Trap.enter(row.number, words) {
                    holds!(e != Error::Denied, "{}: a refusal of the kernel's that says nothing", row.name);
                    outcomes += 1;
                }
            }
        }
    }
    holds!(outcomes > 1000, "only {outcomes} calls were refused");
    same!(section::info(scratch.base()).map_err(doing("info"))?.len, PAGE, "the length of the scratch section");
    Ok(())
}

fn unknown_numbers() -> Outcome {
    let known = |n: u64| TABLE.iter().any(|row| row.number == n);
    for n in (0..4096).chain([CALL_BASE - 1, 0xffff_ffff, 0x8000_0000]).filter(|n| !known(*n)) {
        same!(Trap.enter(n, [0; 6]), Err(Error::NoSuchCall), "call {n:#x}");
    }
    for n in [u64::MAX, CALL_BASE | 0xffff_ffff, CALL_BASE | 0x7fff, 1 << 63, CALL_BASE << 16] {
        let refused = bound(n, 0, [0; 6]);
        holds!(refused != 0, "the bound call {n:#x} went through");
    }
    Ok(())
}

/// A bound call by its number alone: `r10` says how it went.
fn bound(number: u64, index: u64, w: [u64; 6]) -> u64 {
    let status: u64;
    // SAFETY: abi::gate: a bound call keeps rsp only; the rest is saved or declared lost.
    unsafe {
        core::arch::asm!(
            "push rbx", "push rbp", "syscall", "pop rbp", "pop rbx",
            inlateout("rax") number => _, lateout("r10") status,
            inlateout("r14") index => _, inlateout("r12") w[2] => _, inlateout("r13") w[3] => _, lateout("r15") _,
            inlateout("rdi") w[0] => _, inlateout("rsi") w[1] => _, inlateout("r8") w[4] => _, inlateout("r9") w[5] => _,
            clobber_abi("C"),
        );
    }
    status
}

/// What a person does next: programs start, calls go through, memory is to be had.
fn everything_works_after() -> Outcome {
    let peer = Peer::start()?;
    same!(peer.call(op::ADD, &[5]), Ok(5), "a call");
    same!(peer.plain(op::ADD, &[5]), Ok(10), "a plain call");
    let mut section = data(64 * PAGE).map_err(doing("create"))?;
    section.bytes_mut().fill(1);
    section.delete().map_err(doing("delete"))?;
    peer.end()
}

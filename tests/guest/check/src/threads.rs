//! Threads: starting, ending, waiting, being interrupted.

mod list;

use crate::memory::data;
use crate::refusals::{lacks, refused};
use crate::report::{Check, Outcome, doing};
use crate::sections::role;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::info::feature;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::refusal::Object;
use musubi::abi::section::kind;
use musubi::abi::task::{exit, state};
use musubi::command::Command;
use musubi::rt::sync::{wait, wake};
use musubi::rt::{Condition, Mutex, Trap, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("join_gives_the_code", join_gives_the_code),
    ("join_waits_and_times_out", join_waits),
    ("join_refuses", join_refuses),
    ("the_list_names_all_threads", list::exact),
    ("kill_a_thread", kill_a_thread),
    ("sleep_takes_its_time", sleep_takes_its_time),
    ("sleep_of_nothing_gives_way", crate::alternate::alternate),
    ("wait_and_wake", wait_and_wake),
    ("wait_refuses", wait_refuses),
    ("wait_times_out", wait_times_out),
    ("no_wakeup_is_lost", no_wakeup_is_lost),
    ("mutex_excludes", mutex_excludes),
    ("preemption", preemption),
    ("general_registers_survive_preemption", general_registers),
    ("vectors_survive_preemption", vectors),
    ("floating_point_survives_preemption", floating_point),
    ("all_registers_survive_a_call_that_waits", || ten(|seed| crate::waiting::keeps(seed, 100_000))),
    ("task_ends_while_others_are_busy", ends_while_busy),
    ("killed_while_waiting", killed_while_waiting),
    ("timers_do_not_pile_up", timers_do_not_pile_up),
    ("a_wait_is_of_no_later_section", a_wait_is_of_no_later_section),
    ("clocks_go_forward", clocks),
    ("a_task_is_looked_at_while_its_views_grow", looked_at_while_it_grows),
];

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn join_gives_the_code() -> Outcome {
    for code in [0, 1, 255, 256, u64::MAX] {
        let started = thread::spawn(move || thread::exit(code), 0).map_err(doing("thread"))?;
        same!(started.join(), Ok(code), "the code");
    }
    // One that has ended long before it is asked for.
    let started = thread::spawn(|| thread::exit(9), 0).map_err(doing("thread"))?;
    let number = started.number();
    time::sleep_ns(20_000_000);
    same!(started.join(), Ok(9), "the code of one that has ended");
    same!(stub::thread_join(&Trap, number, 0), Err(Error::NotFound), "asking twice");
    Ok(())
}

fn join_waits() -> Outcome {
    let go = leak(AtomicBool::new(false));
    let body = move || {
        while !go.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        thread::exit(5)
    };
    let started = thread::spawn(body, 0).map_err(doing("thread"))?;
    same!(stub::thread_join(&Trap, started.number(), 0), Err(Error::TimedOut), "without waiting");
    same!(stub::thread_join(&Trap, started.number(), 5_000_000), Err(Error::TimedOut), "for 5 ms");
    go.store(true, Ordering::SeqCst);
    same!(started.join(), Ok(5), "for ever");
    Ok(())
}

fn join_refuses() -> Outcome {
    let own = task::identity().thread;
    same!(stub::thread_join(&Trap, own, 0), Err(Error::BadArgument), "itself");
    same!(stub::thread_join(&Trap, 1 << 60, 0), Err(Error::NotFound), "one that never was");
    let foreign = task::threads().find(|t| t.task != musubi::start().task()).ok_or("there is no other thread")?;
    let object = Object::Thread(foreign.thread);
    refused(stub::thread_join(&Trap, foreign.thread, 0), object, "another task's")?;
    refused(stub::thread_kill(&Trap, foreign.thread), object, "killing another task's")
}

fn kill_a_thread() -> Outcome {
    let looping = || loop {
        core::hint::spin_loop();
    };
    let bodies: [fn(); 3] = [looping, || thread::park(), || time::sleep_ns(u64::MAX / 4)];
    for (n, body) in bodies.into_iter().enumerate() {
        let started = thread::spawn(body, 0).map_err(doing("thread"))?;
        time::sleep_ns(3_000_000);
        started.kill().map_err(doing("kill"))?;
        same!(started.join(), Ok(Error::Killed.word()), "the code of killed thread {n}");
    }
    Ok(())
}

fn sleep_takes_its_time() -> Outcome {
    for ns in [0, 1, 100_000, 3_000_000, 30_000_000] {
        let began = time::now_ns();
        time::sleep_ns(ns);
        let took = time::now_ns() - began;
        holds!(took >= ns, "a sleep of {ns} ns took {took} ns");
        holds!(took < ns + 5_000_000_000, "a sleep of {ns} ns took {took} ns");
    }
    Ok(())
}

fn wait_and_wake() -> Outcome {
    let word = leak(AtomicU32::new(0));
    let woken = leak(AtomicU64::new(0));
    let body = move || {
        while word.load(Ordering::SeqCst) == 0 {
            let _ = wait(word, 0, u64::MAX);
        }
        woken.fetch_add(1, Ordering::SeqCst);
    };
    let started: Result<Vec<_>, _> = (0..5).map(|_| thread::spawn(body, 0)).collect();
    let started = started.map_err(doing("thread"))?;
    let waiting =
        |numbers: &[u64]| task::threads().filter(|t| numbers.contains(&t.thread) && t.state == state::WAITING).count();
    let numbers: Vec<u64> = started.iter().map(thread::Thread::number).collect();
    while waiting(&numbers) < 5 {
        thread::yield_now();
    }
    let at = word.as_ptr() as u64;
    same!(stub::wake(&Trap, at + 4, u64::MAX), Ok(0), "waking at another word");
    same!(stub::wake(&Trap, at, 0), Ok(0), "waking none");
    word.store(1, Ordering::SeqCst);
    same!(stub::wake(&Trap, at, 2), Ok(2), "waking two of five");
    time::sleep_ns(5_000_000);
    same!(woken.load(Ordering::SeqCst), 2, "who came back");
    same!(stub::wake(&Trap, at, u64::MAX), Ok(3), "waking the rest");
    for one in started {
        one.join().map_err(doing("join"))?;
    }
    same!(stub::wake(&Trap, at, u64::MAX), Ok(0), "waking nobody");
    Ok(())
}

fn wait_refuses() -> Outcome {
    let section = data(PAGE).map_err(doing("create"))?;
    let at = section.base();
    same!(stub::wait(&Trap, at, 1, 0), Err(Error::Changed), "another value");
    same!(stub::wait(&Trap, at, 0, 0), Err(Error::TimedOut), "without time");
    for bad in [at + 1, at + 2, at + PAGE, 0, 4, 1 << 47, 0xffff_8000_0000_0000, u64::MAX - 3] {
        same!(stub::wait(&Trap, bad, 0, 0), Err(Error::BadAddress), "waiting at {bad:#x}");
        same!(stub::wake(&Trap, bad, 1), Err(Error::BadAddress), "waking at {bad:#x}");
    }
    let own = musubi::start().text();
    lacks(stub::wake(&Trap, own, 1), own, Rights::WRITE, "waking at what cannot be written")
}

fn wait_times_out() -> Outcome {
    let word = AtomicU32::new(3);
    for ns in [1, 1000, 2_000_000, 20_000_000] {
        let began = time::now_ns();
        same!(wait(&word, 3, ns), Err(Error::TimedOut), "a wait of {ns} ns");
        let took = time::now_ns() - began;
        holds!(took >= ns, "a wait of {ns} ns took {took} ns");
    }
    Ok(())
}

/// Pairs hand a turn to each other by a word and `wake`; one that is lost hangs the check.
fn no_wakeup_is_lost() -> Outcome {
    const TURNS: u32 = 3000;
    let mut threads = Vec::new();
    for _ in 0..4 {
        let turn = leak(AtomicU32::new(0));
        for me in 0..2 {
            let body = move || {
                for n in 0..TURNS {
                    let mine = 2 * n + me;
                    loop {
                        let now = turn.load(Ordering::SeqCst);
                        if now == mine {
                            break;
                        }
                        let _ = wait(turn, now, u64::MAX);
                    }
                    turn.store(mine + 1, Ordering::SeqCst);
                    wake(turn, 1);
                }
            };
            threads.push((thread::spawn(body, 0).map_err(doing("thread"))?, turn));
        }
    }
    for (one, turn) in threads {
        one.join().map_err(doing("join"))?;
        let _ = turn;
    }
    Ok(())
}

fn mutex_excludes() -> Outcome {
    static SUM: Mutex<[u64; 2]> = Mutex::new([0; 2]);
    static CHANGED: Condition = Condition::new();
    let body = || {
        for _ in 0..5000 {
            let mut sum = SUM.lock();
            let seen = sum[0];
            core::hint::spin_loop();
            sum[0] = seen + 1;
        }
        SUM.lock()[1] += 1;
        CHANGED.notify_all();
    };
    for _ in 0..8 {
        thread::spawn(body, 0).map_err(doing("thread"))?;
    }
    let mut sum = SUM.lock();
    while sum[1] < 8 {
        CHANGED.wait(&mut sum, u64::MAX).map_err(doing("waiting"))?;
    }
    same!(sum[0], 40_000, "the sum under the lock");
    Ok(())
}

/// More endless threads than processors, and everybody gets on.
fn preemption() -> Outcome {
    let over = leak(AtomicBool::new(false));
    let counts: &'static [AtomicU64; 10] = leak([const { AtomicU64::new(0) }; 10]);
    let mut threads = Vec::new();
    for count in counts {
        let body = move || {
            while !over.load(Ordering::Relaxed) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        threads.push(thread::spawn(body, 0).map_err(doing("thread"))?);
    }
    let got_on = |since: &[u64]| counts.iter().zip(since).all(|(c, s)| c.load(Ordering::Relaxed) > *s);
    for _ in 0..3 {
        let since: Vec<u64> = counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
        while !got_on(&since) {
            core::hint::spin_loop();
        }
    }
    over.store(true, Ordering::Relaxed);
    for one in threads {
        one.join().map_err(doing("join"))?;
    }
    Ok(())
}

/// How long each of the computing threads goes on: several quanta.
const COMPUTE_NS: u64 = 150_000_000;

/// Runs ten threads that repeat `round(seed)` for a while; each says whether its registers were its own.
fn ten(round: fn(u64) -> bool) -> Outcome {
    let wrong = leak(AtomicU64::new(0));
    let mut threads = Vec::new();
    for seed in 1..=10u64 {
        let body = move || {
            let until = time::now_ns() + COMPUTE_NS;
            while time::now_ns() < until {
                if !round(seed.wrapping_mul(0x0101_0101_0101_0101)) {
                    wrong.fetch_add(1, Ordering::SeqCst);
                }
            }
        };
        threads.push(thread::spawn(body, 0).map_err(doing("thread"))?);
    }
    for one in threads {
        one.join().map_err(doing("join"))?;
    }
    same!(wrong.load(Ordering::SeqCst), 0, "rounds with registers of somebody else");
    Ok(())
}

fn general_registers() -> Outcome {
    ten(|seed| {
        let (mut bad, loops) = (0u64, 20_000u64);
        // SAFETY: registers only; all that are used are named.
        unsafe {
            core::arch::asm!(
                "mov r8, {s}", "mov r9, {s}", "mov r10, {s}", "mov r11, {s}", "mov r12, {s}", "mov r13, {s}",
                "mov r14, {s}", "mov r15, {s}",
                "2:",
                "cmp r8, {s}", "jne 3f", "cmp r9, {s}", "jne 3f", "cmp r10, {s}", "jne 3f", "cmp r11, {s}", "jne 3f",
                "cmp r12, {s}", "jne 3f", "cmp r13, {s}", "jne 3f", "cmp r14, {s}", "jne 3f", "cmp r15, {s}", "jne 3f",
                "dec {n}", "jnz 2b", "jmp 4f",
                "3:", "mov {bad:e}, 1",
                "4:",
                s = in(reg) seed, n = inout(reg) loops => _, bad = inout(reg) bad,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _, out("r12") _, out("r13") _, out("r14") _, out("r15") _,
                options(nostack),
            );
        }
        bad == 0
    })
}

/// All sixteen vector registers, in full width where there is AVX.
fn vectors() -> Outcome {
    if task::processors().all(|p| p.features & feature::AVX != 0) { ten(ymm) } else { ten(xmm) }
}

/// Fills the vector registers, waits in a loop, and compares them with what they were filled with.
fn ymm(seed: u64) -> bool {
    let mut found = [0u64; 64];
    // SAFETY: vector registers only, and stores to `found`.
    unsafe {
        core::arch::asm!(
            "vmovq xmm0, {s}",
            "vpunpcklqdq xmm0, xmm0, xmm0",
            "vinsertf128 ymm0, ymm0, xmm0, 1",
            "vmovaps ymm1, ymm0", "vmovaps ymm2, ymm0", "vmovaps ymm3, ymm0", "vmovaps ymm4, ymm0", "vmovaps ymm5, ymm0",
            "vmovaps ymm6, ymm0", "vmovaps ymm7, ymm0", "vmovaps ymm8, ymm0", "vmovaps ymm9, ymm0", "vmovaps ymm10, ymm0",
            "vmovaps ymm11, ymm0", "vmovaps ymm12, ymm0", "vmovaps ymm13, ymm0", "vmovaps ymm14, ymm0", "vmovaps ymm15, ymm0",
            "2:",
            "dec {n}",
            "jnz 2b",
            "vmovups [{p} + 0], ymm0", "vmovups [{p} + 32], ymm1", "vmovups [{p} + 64], ymm2", "vmovups [{p} + 96], ymm3", "vmovups [{p} + 128], ymm4",
            "vmovups [{p} + 160], ymm5", "vmovups [{p} + 192], ymm6", "vmovups [{p} + 224], ymm7", "vmovups [{p} + 256], ymm8", "vmovups [{p} + 288], ymm9",
            "vmovups [{p} + 320], ymm10", "vmovups [{p} + 352], ymm11", "vmovups [{p} + 384], ymm12", "vmovups [{p} + 416], ymm13", "vmovups [{p} + 448], ymm14",
            "vmovups [{p} + 480], ymm15",
            "vzeroupper",
            s = in(reg) seed, n = inout(reg) 20_000u64 => _, p = in(reg) found.as_mut_ptr(),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack),
        );
    }
    found.iter().all(|&word| word == seed)
}

fn xmm(seed: u64) -> bool {
    let mut found = [0u64; 32];
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "movq xmm0, {s}",
            "punpcklqdq xmm0, xmm0",
            "movaps xmm1, xmm0", "movaps xmm2, xmm0", "movaps xmm3, xmm0", "movaps xmm4, xmm0", "movaps xmm5, xmm0",
            "movaps xmm6, xmm0", "movaps xmm7, xmm0", "movaps xmm8, xmm0", "movaps xmm9, xmm0", "movaps xmm10, xmm0",
            "movaps xmm11, xmm0", "movaps xmm12, xmm0", "movaps xmm13, xmm0", "movaps xmm14, xmm0", "movaps xmm15, xmm0",
            "2:",
            "dec {n}",
            "jnz 2b",
            "movups [{p} + 0], xmm0", "movups [{p} + 16], xmm1", "movups [{p} + 32], xmm2", "movups [{p} + 48], xmm3", "movups [{p} + 64], xmm4",
            "movups [{p} + 80], xmm5", "movups [{p} + 96], xmm6", "movups [{p} + 112], xmm7", "movups [{p} + 128], xmm8", "movups [{p} + 144], xmm9",
            "movups [{p} + 160], xmm10", "movups [{p} + 176], xmm11", "movups [{p} + 192], xmm12", "movups [{p} + 208], xmm13", "movups [{p} + 224], xmm14",
            "movups [{p} + 240], xmm15",
            s = in(reg) seed, n = inout(reg) 20_000u64 => _, p = in(reg) found.as_mut_ptr(),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _,
            out("xmm5") _, out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _,
            out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _, out("xmm14") _,
            out("xmm15") _,
            options(nostack),
        );
    }
    found.iter().all(|&word| word == seed)
}

fn floating_point() -> Outcome {
    ten(|seed| {
        let sum = |from: u64| (from..from + 3000).map(|n| 1.0 / (n as f64)).sum::<f64>();
        let from = seed % 1000 + 1;
        let first = sum(core::hint::black_box(from));
        first.to_bits() == sum(core::hint::black_box(from)).to_bits()
    })
}

fn ends_while_busy() -> Outcome {
    for _ in 0..10 {
        let exit = role(&["exit-busy"])?;
        same!((exit.kind, exit.code), (exit::EXITED, 33), "how it ended");
    }
    Ok(())
}

/// Tasks that wait in every way end at once when they are killed.
fn killed_while_waiting() -> Outcome {
    for line in [&["sleep-long"][..], &["park"], &["read-nothing"], &["spin"]] {
        let words: Vec<&str> = ["check", "as"].iter().chain(line).copied().collect();
        let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("start"))?;
        time::sleep_ns(10_000_000);
        same!(child.wait_for(0).err(), Some(Error::TimedOut), "{line:?} before it is killed");
        child.kill().map_err(doing("kill"))?;
        let exit = child.wait_for(10_000_000_000).map_err(doing("wait"))?;
        same!(exit.kind, exit::KILLED, "how {line:?} ended");
        same!(child.kill(), Err(Error::NotFound), "killing it twice");
    }
    Ok(())
}

/// A wait that ended early leaves nothing behind until its time-out.
fn timers_do_not_pile_up() -> Outcome {
    let word = leak(AtomicU32::new(0));
    let over = leak(AtomicBool::new(false));
    let body = move || {
        while !over.load(Ordering::SeqCst) {
            let now = word.load(Ordering::SeqCst);
            let _ = wait(word, now, 3_600_000_000_000);
        }
    };
    let waiter = thread::spawn(body, 0).map_err(doing("thread"))?;
    let number = waiter.number();
    let heap = || task::memory().map(|m| m.kernel_heap_used).map_err(doing("memory"));
    let round = || {
        while !task::threads().any(|t| t.thread == number && t.state == state::WAITING) {
            thread::yield_now();
        }
        word.fetch_add(1, Ordering::SeqCst);
        wake(word, 1);
    };
    (0..200).for_each(|_| round());
    let before = heap()?;
    (0..4000).for_each(|_| round());
    let grown = heap()?.saturating_sub(before);
    over.store(true, Ordering::SeqCst);
    word.fetch_add(1, Ordering::SeqCst);
    wake(word, 1);
    waiter.join().map_err(doing("join"))?;
    holds!(grown < 64 << 10, "the kernel's heap grew by {grown} bytes in 4000 waits that are over");
    Ok(())
}

/// Who waits for a word of a section that is deleted waits for no word of the next one that comes to lie there.
fn a_wait_is_of_no_later_section() -> Outcome {
    let create =
        |at, room| section::Section::create_at(PAGE, PAGE, kind::DATA, 0, at, room).map_err(doing("a section"));
    // Whoever has room beside a section says where in it the others are to lie.
    let beside = create(0, GRANULE)?;
    let at = beside.base() + GRANULE;
    let section = create(at, 0)?;
    let waiter = thread::spawn(move || _ = stub::wait(&Trap, at, 0, u64::MAX), 0).map_err(doing("thread"))?;
    while !task::threads().any(|t| t.thread == waiter.number() && t.state == state::WAITING) {
        thread::yield_now();
    }
    section.delete().map_err(doing("delete"))?;
    let _next = create(at, 0)?;
    same!(stub::wake(&Trap, at, u64::MAX), Ok(0), "who waits for a word of the new section");
    waiter.kill().map_err(doing("kill"))?;
    same!(waiter.join(), Ok(Error::Killed.word()), "how the other one ended");
    Ok(())
}

fn clocks() -> Outcome {
    let (mut last, mut ticks) = (time::now_ns(), time::ticks());
    let unix = time::unix_ns();
    for _ in 0..2000 {
        let (now, t) = (time::now_ns(), time::ticks());
        holds!(now >= last && t >= ticks, "a clock went back: {last} {now} {ticks} {t}");
        (last, ticks) = (now, t);
        thread::yield_now();
    }
    holds!(time::unix_ns() > unix && unix > 1_600_000_000_000_000_000, "the calendar says {unix}");
    same!(stub::clock(&Trap, 2), Err(Error::BadArgument), "a third clock");
    Ok(())
}

/// What is known of a task is read while its threads fault pages in: neither waits for the other for ever.
fn looked_at_while_it_grows() -> Outcome {
    let done = leak(AtomicBool::new(false));
    let me = task::identity().task;
    let looking = thread::spawn(
        move || {
            let mut failed = 0;
            while !done.load(Ordering::SeqCst) {
                failed += u64::from(!task::list().any(|one| one.task == me));
            }
            thread::exit(failed)
        },
        0,
    );
    let looking = looking.map_err(doing("thread"))?;
    for _ in 0..150 {
        let section = data(64 * PAGE).map_err(doing("a section"))?;
        (0..64).for_each(|page| crate::memory::store(section.base() + page * PAGE, page));
        section.delete().map_err(doing("delete"))?;
    }
    done.store(true, Ordering::SeqCst);
    same!(looking.join(), Ok(0), "looks that failed");
    Ok(())
}

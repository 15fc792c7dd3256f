//! Programs that a check starts to see how they end, or to have a task with limits of its own.

use crate::memory::{CODE_42, store};
use crate::peer::op;
use crate::peer::ways::{By, WAYS};
use crate::{bad_scheds, faults, files, fuzz, itc, lines, locks, quota};
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::rt::{Bound, plain_call, probe, task, thread, time};
use musubi::{ended, stream};

/// The status of a role whose forbidden access went through.
pub const WENT_THROUGH: i32 = 99;

pub fn number(word: &str) -> u64 {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0),
        None => word.parse().unwrap_or(0),
    }
}

pub fn run(role: &str, words: &[&str]) -> i32 {
    let at = |i: usize| words.get(i).map_or(0, |w| number(w));
    match role {
        // The byte at an address.
        "peek" => i32::from(probe::read(at(0))),
        "poke" => {
            probe::write(at(0));
            WENT_THROUGH
        }
        "access" => bad_scheds::access(at(0), at(1), at(2), at(3), at(4)),
        // Jumps to an address where there is nothing to execute.
        "jump" => {
            probe::execute(at(0));
            WENT_THROUGH
        }
        "plain-call" => match plain_call(at(0), [op::ADD, 0, 0, 0, 0, 0]) {
            Ok(_) => WENT_THROUGH,
            Err(e) => e.word() as i32,
        },
        // Calls the peer at this gate with an op and two words, and says how it went.
        "call" => match Bound::bind(at(0), 0).and_then(|b| b.call(0, [at(1), at(2), at(3), 0, 0, 0])) {
            Ok(_) => 0,
            Err(e) => 100 + e.word() as i32,
        },
        // In a way of [`WAYS`], as threads call that have done so before.
        "call-by" => {
            let by = WAYS.get(at(0) as usize).map(|way| By::to(at(1), *way)).and_then(Result::ok);
            match by.filter(|by| by.prepare().is_ok()).map(|by| by.call(at(2), &[at(3), at(4)])) {
                Some(Ok(_)) => 0,
                Some(Err(e)) => 100 + e.word() as i32,
                None => 2,
            }
        }
        // The same, and the peer calls back.
        "call-back" => crate::grace::call_back(at(0), at(1), at(2), at(3)),
        // A call with 64 pages of arguments, of which it says where they are.
        "call-with-arguments" => match Bound::bind(at(0), 64 * PAGE).and_then(|b| {
            let args = b.binding().args;
            b.call(0, [at(1), at(2), at(3), args, 64 * PAGE, 0])
        }) {
            Ok(_) => 0,
            Err(e) => 100 + e.word() as i32,
        },
        // Looks at the registers of a thread; 1: it may not.
        "look" => match thread::registers(at(0)) {
            Ok(_) => WENT_THROUGH,
            Err(e) if e.refusal().is_some() => 1,
            Err(_) => 2,
        },
        "try" => crate::refusals::try_access(at(0), words.get(1).copied().unwrap_or(""), at(2)),
        "attack" => crate::attacks::role(words.first().copied().unwrap_or(""), |i| at(i + 1)),
        "killed-callers" => match crate::deaths::callers_are_killed(at(0), at(1), at(2)) {
            Ok(()) => 0,
            Err(why) => {
                musubi::eprintln!("{why}");
                1
            }
        },
        "ten-writers" => crate::programs::ten_writers(at(0), at(1)),
        "writer" => crate::programs::writer(at(0), at(1), at(2)),
        "late-writer" => {
            time::sleep_ns(2_000_000_000);
            crate::programs::writer(7, 1, 1)
        }
        "writing-threads" => crate::programs::writing_threads(at(0), at(1)),
        "writers-and-the-log" => crate::programs::writers_and_the_log(at(0), at(1), at(2)),
        "tell-the-log" => i32::from(crate::marks::knocks().map(|knocks| knocks.tell()) != Ok(Ok(()))),
        "half-line" => crate::programs::half_line(),
        "ask" => crate::programs::ask(),
        "hoard" => crate::parts::hoard(at(0), at(1), at(2), at(3)),
        "sleeps-late" => crate::parts::late::sleeps(at(0), at(1), at(2)),
        "receivers" => crate::posts::receivers(at(0), at(1)),
        "hog" => crate::crowd::hog(at(0)),
        "stubborn" => crate::crowd::stubborn(),
        "crowd" => crate::crowd::one(at(0), at(1)),
        "kills" => crate::supervision::role(at(0), words.get(1..).unwrap_or_default()),
        "raise" => crate::exceptions::role(at(0), at(1)),
        "light" => crate::light::role(at(0)),
        "mbcf" => crate::mbcf::role(words.first().copied().unwrap_or(""), words.get(1..).unwrap_or_default()),
        "validity" => crate::validity::role(),
        "invalid" => crate::validity::falls(at(0) != 0),
        "task-pager" => crate::pagers::role(at(0)),
        "makes-invalid" => crate::pagers::whose_role(at(0), at(1)),
        "asks-its-pager" => crate::pagers::asks(at(0)),
        "served" => crate::pagers::served_role(at(0), at(1)),
        "bad-pager" => crate::pagers::bad_role(at(0)),
        "ending-pager" => crate::pagers::ending_role(),
        "touches" => crate::memory::load(at(0)) as i32,
        "beyond-its-pager" => crate::pagers::beyond_role(at(0), at(1)),
        "dying-pager" => crate::pagers::dying_role(at(0), at(1), at(2)),
        "left-by-its-pager" => crate::pagers::left_role(at(0), at(1)),
        "last-thread" => crate::deaths::last_thread(at(0)),
        "post-echo" => crate::posts::role(at(0), at(1)),
        "post-answers" => crate::hand_over::role(at(0)),
        "hold-posts" => crate::posts::hold(at(0)),
        "post-holder" => crate::posts::loans::holder(at(0)),
        "post-without" => crate::posts::role_without(at(0)),
        "services" => crate::services::role(words.first().copied().unwrap_or(""), at(1), at(2)),
        "stranger" => crate::services::strangers::role(at(0), at(1)),
        "pipe-maker" => crate::services::pipes::maker(at(0)),
        "keeper" => crate::services::keeper(words.first().copied().unwrap_or("")),
        "status" => at(0) as i32,
        "clock-waits" => crate::clock::waits(at(0)),
        "clock-waits-far" => crate::clock::waits_far(),
        "clock-stranger" => crate::clock::stranger(at(0), at(1)),
        "breed" => crate::processes::breed(),
        "leave" => crate::processes::leave(words),
        "meddle" => crate::processes::meddle(at(0)),
        "count-threads" => crate::processes::count_threads(),
        // A program, for so many milliseconds: it may go on for ever.
        "within" => {
            let path = words.get(1).copied().unwrap_or_default();
            let Ok(child) = Command::new(path.as_bytes()).spawn() else { return 126 };
            let ended = child.wait_for(at(0) * 1_000_000).or_else(|_| {
                child.kill()?;
                child.wait_for(10_000_000_000)
            });
            ended.map_or(WENT_THROUGH, |exit| ended::status(&exit))
        }
        "kill-me" => {
            let _ = task::kill(task::identity().task);
            WENT_THROUGH
        }
        // Ends by the main thread while others are busy in every way that there is.
        "exit-busy" => {
            for n in 0..12 {
                let body = move || match n % 3 {
                    0 => thread::park(),
                    1 => loop {
                        core::hint::spin_loop();
                    },
                    _ => loop {
                        let _ = task::memory();
                    },
                };
                if thread::spawn(body, 0).is_err() {
                    return 1;
                }
            }
            task::exit(33)
        }
        "sleep-long" => {
            time::sleep_ns(u64::MAX / 4);
            WENT_THROUGH
        }
        "park" => thread::park(),
        // Another's gate, whose callee sleeps.
        "read-nothing" => crate::programs::read_nothing(),
        "spin" => loop {
            core::hint::spin_loop();
        },
        "arguments" => crate::programs::arguments(at(0)),
        "torn-lock" => locks::torn(),
        "torn-heap" => locks::torn_heap(),
        "files" => files::role(words.first().copied().unwrap_or("")),
        "poor" => faults::poor(at(0), at(1)),
        "ends" => crate::together::ends(),
        "exhaust" => crate::exhaustion::exhaust(words.first().copied().unwrap_or("")),
        "quota" => quota::limited(words.first().copied().unwrap_or("")),
        "itc" => itc::role(words.first().copied().unwrap_or(""), at(1), at(2)),
        "lines" => lines::role(words.first().copied().unwrap_or(""), at(1)),
        "fuzz" => fuzz::wild(at(0), at(1), at(2)),
        "fuzz-messages" => fuzz::messages::wild(at(0), at(1), at(2), at(3), at(4)),
        "bytes" => bytes(words.first().copied().unwrap_or(""), at(1) as usize),
        // `mov eax, 42; ret` in memory that is data, called through a plain function pointer.
        "run-data" => {
            let code: Vec<u8> = CODE_42.to_vec();
            crate::memory::call(code.as_ptr() as u64);
            WENT_THROUGH
        }
        "store" => {
            store(at(0), 1);
            WENT_THROUGH
        }
        "ticks" => {
            for _ in 0..20 {
                musubi::println!("{} {}", time::ticks(), time::now_ns());
                thread::yield_now();
            }
            0
        }
        // So many lines of growing and shrinking length, by turns on the output and the error stream.
        "by-turns" => {
            for n in 0..at(0) as usize {
                let line = alloc::format!("{n} {}\n", "x".repeat(n * 37 % 3000));
                let to = if n % 2 == 0 { stream::output() } else { stream::errors() };
                if to.write_all(line.as_bytes()).is_err() {
                    return 1;
                }
            }
            0
        }
        // A variable of the environment.
        "variable" => {
            let name = words.first().copied().unwrap_or("");
            let value = musubi::start().variable(name).unwrap_or(b"(none)");
            musubi::println!("{name}={}", value.escape_ascii());
            0
        }
        // Nanoseconds in a million ticks.
        "rate" => {
            let (began, begin) = moment();
            time::sleep_ns(20_000_000);
            let (ended, end) = moment();
            musubi::println!("{}", (end - begin) * 1_000_000 / (ended - began));
            0
        }
        "flooder" | "takes-all" | "takes-memory" | "gives-away" | "strangers-caller" | "other-user" => {
            crate::two_users::run(role, words)
        }
        "placed" => crate::place::role(),
        "places" => crate::placer::role(),
        "nsys-count" => crate::place::count(at(0), at(1)),
        "nsys-pager" => crate::place::pages(at(0)),
        "long-run" => crate::place::long_run(at(0)),
        "count-for-ever" => loop {
            store(at(0), crate::memory::load(at(0)) + 1);
        },
        _ => crate::place::wild_role(role),
    }
}

/// Ticks and nanoseconds at one moment, as near to each other as can be had.
fn moment() -> (u64, u64) {
    let once = |_| {
        let before = time::ticks();
        let ns = time::now_ns();
        (time::ticks() - before, before, ns)
    };
    let (_, ticks, ns) = (0..100).map(once).min().expect("there are some");
    (ticks, ns)
}

/// Every value of a byte, over and over, on a stream; on both, the second half goes to the errors, complemented.
fn bytes(to: &str, count: usize) -> i32 {
    let all: Vec<u8> = (0..count).map(|n| (n % 256) as u8 ^ (n / 256) as u8).collect();
    let complement: Vec<u8> = all.iter().map(|b| !b).collect();
    let out = if to == "err" { Ok(()) } else { stream::output().write_all(&all) };
    let err = if to == "out" { Ok(()) } else { stream::errors().write_all(&complement) };
    i32::from(out.is_err() || err.is_err())
}

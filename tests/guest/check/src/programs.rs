//! Starting programs: what they are given, what is left when they are over, and what happens when they are ended.

use crate::deaths::lose_nothing;
use crate::peer::Peer;
use crate::refusals::refused;
use crate::report::{Check, Outcome, doing};
use crate::sections::role;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::refusal::Object;
use musubi::abi::start::StreamRef;
use musubi::abi::task::{Limits, USER_SYSTEM, exit};
use musubi::command::Command;
use musubi::interfaces::pipes::PipesClient;
use musubi::rt::{task, time};
use musubi::stream::Stream;
use musubi::{Error, ended, eprintln, names};

pub const CHECKS: &[Check] = &[
    ("arguments_and_environment", arguments_and_environment),
    ("arguments_too_long", arguments_too_long),
    ("statuses", statuses),
    ("two_hundred_spawns", two_hundred_spawns),
    ("servers_keep_nothing_of_the_dead", servers_keep_nothing_of_the_dead),
    ("many_at_once", many_at_once),
    ("what_is_not_there", what_is_not_there),
    ("endless_loop_is_killed", endless_loop_is_killed),
    ("another_user", another_user),
    ("limits_are_given", limits_are_given),
];

/// The arguments and environment of kind `seed`: the maker and the program make the same.
fn given(seed: u64) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let count = [0, 1, 3, 100, 400][seed as usize % 5];
    let bytes = |n: u64| -> Vec<u8> {
        let len = n * 7 % 61;
        // Everything but NUL, which ends a string in other places.
        (0..len).map(|i| ((n * 31 + i * 17 + seed) % 255 + 1) as u8).collect()
    };
    let args = [b"check", &b"as"[..], b"arguments"].into_iter().map(<[u8]>::to_vec);
    let args = args.chain([format!("{seed}").into_bytes()]).chain((0..count).map(bytes));
    let env = (0..count / 2).map(|n| [format!("V{n}=").as_bytes(), &bytes(n + 5)].concat());
    (args.collect(), env.collect())
}

/// The program: whether it was given what it should have been. Value: its status.
pub fn arguments(seed: u64) -> i32 {
    let start = musubi::start();
    let found = (start.args().map(<[u8]>::to_vec).collect(), start.env().map(<[u8]>::to_vec).collect());
    let right = found == given(seed);
    if !right {
        eprintln!("arguments {seed}: {} arguments, {} of the environment", found.0.len(), found.1.len());
    }
    if right { 7 } else { 1 }
}

fn arguments_and_environment() -> Outcome {
    for seed in 0..5 {
        let (args, env) = given(seed);
        let child = Command::new(b"bin/check").args(args).env(env).spawn().map_err(doing("start"))?;
        let exit = child.wait().map_err(doing("wait"))?;
        same!((exit.kind, exit.code), (exit::EXITED, 7), "the program with arguments {seed}");
    }
    Ok(())
}

fn arguments_too_long() -> Outcome {
    let long = alloc::vec![b'x'; 100_000];
    let refused = Command::new(b"bin/check").arg(&long).spawn();
    same!(refused.err().map(|r| r.error), Some(Error::TooBig), "100 000 bytes of argument");
    let nearly = alloc::vec![b'x'; 40_000];
    let child = Command::new(b"bin/check").args([&b"check"[..], b"as", b"status", b"3", &nearly]).spawn();
    let exit = child.map_err(doing("40 000 bytes of argument"))?.wait().map_err(doing("wait"))?;
    same!(exit.code, 3, "its status");
    Ok(())
}

fn statuses() -> Outcome {
    for status in ["0", "1", "42", "255"] {
        let exit = role(&["status", status])?;
        same!((exit.kind, format!("{}", exit.code)), (exit::EXITED, String::from(status)), "status");
    }
    let exit = role(&["run-data"])?;
    same!(exit.kind, exit::FAULT, "a program that executes data");
    Ok(())
}

fn two_hundred_spawns() -> Outcome {
    let once = || -> Outcome {
        let exit = role(&["status", "5"])?;
        same!((exit.kind, exit.code), (exit::EXITED, 5), "the program");
        Ok(())
    };
    lose_nothing(200, once)
}

/// The system's servers: task, name, frames.
fn servers() -> Vec<(u64, String, u64)> {
    let all = task::list().filter(|t| t.user == USER_SYSTEM);
    all.map(|t| (t.task, musubi::ended::text(&t.name), t.used.frames)).collect()
}

/// Programs that publish a name and are ended: no server keeps anything of them.
fn servers_keep_nothing_of_the_dead() -> Outcome {
    for _ in 0..60 {
        Peer::start()?.end()?;
    }
    // Tables and stacks grow to their size once, when more is under way than ever before: not in both rounds.
    let mut grown = [const { Vec::new() }; 2];
    for grown in &mut grown {
        let before = servers();
        for n in 0..200 {
            Peer::start()?.end().map_err(|why| format!("peer {n}: {why}"))?;
        }
        let after = servers();
        same!(
            after.iter().map(|s| s.0).collect::<Vec<_>>(),
            before.iter().map(|s| s.0).collect::<Vec<_>>(),
            "the servers"
        );
        grown.extend(
            after.into_iter().zip(before).filter(|(after, before)| after.2 > before.2).map(|(after, _)| after.1),
        );
    }
    let [first, second] = grown;
    let keeps = second.iter().find(|name| first.contains(name));
    holds!(keeps.is_none(), "two times 200 programs have ended, and each time {keeps:?} had more frames than before");
    Ok(())
}

fn many_at_once() -> Outcome {
    let command = |n: u64| Command::new(b"bin/check").args(["check", "as", "status", &format!("{n}")]);
    let all: Result<Vec<_>, _> = (0..40).map(|n| command(n).spawn()).collect();
    for (n, child) in (0..).zip(all.map_err(doing("start"))?) {
        same!(child.wait().map_err(doing("wait"))?.code, n, "the status of program {n}");
    }
    Ok(())
}

fn what_is_not_there() -> Outcome {
    let no_paths = [
        (&b"bin/no-such"[..], Error::NotFound),
        (b"", Error::NotFound),
        (b"\xff\xfe", Error::NotFound),
        (b"/", Error::IsADirectory),
        (b"bin", Error::IsADirectory),
        (b"bin/check/x", Error::NotADirectory),
        (&[b'x'; 5000], Error::TooBig),
    ];
    for (path, wanted) in no_paths {
        let refused = Command::new(path).spawn();
        same!(refused.err().map(|r| r.error), Some(wanted), "a path of {} bytes", path.len());
    }
    Ok(())
}

fn endless_loop_is_killed() -> Outcome {
    let all: Result<Vec<_>, _> =
        (0..6).map(|_| Command::new(b"bin/check").args(["check", "as", "spin"]).spawn()).collect();
    let all = all.map_err(doing("start"))?;
    time::sleep_ns(30_000_000);
    for child in all {
        child.kill().map_err(doing("kill"))?;
        let exit = child.wait_for(10_000_000_000).map_err(doing("wait"))?;
        same!(exit.kind, exit::KILLED, "how it ended");
    }
    Ok(())
}

fn another_user() -> Outcome {
    let system = Command::new(b"bin/check").args(["check", "as", "status", "0"]).user(0).spawn();
    same!(system.err().map(|r| r.error), Some(Error::Denied), "as the system's user");
    let server = task::list().find(|t| t.user == 0).ok_or("no server")?;
    refused(task::kill(server.task), Object::Task(server.task), "killing a server")?;
    refused(task::wait(server.task, 0), Object::System, "waiting for a server")?;
    refused(task::power_off(0), Object::System, "switching the machine off")
}

fn limits_are_given() -> Outcome {
    // (Of the frames this program's own text takes a thousand.)
    let limits = Limits { frames: 4000, sections: 60, reserve: 8 << 30, threads: 9 };
    let child =
        Command::new(b"bin/check").args(["check", "as", "park"]).limits(limits).spawn().map_err(doing("start"))?;
    let listed = task::list().find(|t| t.task == child.task).ok_or("it is not listed")?;
    same!(listed.limits, limits, "limits");
    same!(listed.payer, musubi::start().task(), "who pays for it, too");
    same!(musubi::ended::text(&listed.name), "check", "name");
    child.kill().map_err(doing("kill"))?;
    let how = child.wait().map_err(doing("wait"))?;
    same!(how.kind, exit::KILLED, "how it has ended, which can live with them");
    Ok(())
}

/// Reads from a pipe that nobody writes to.
pub fn read_nothing() -> i32 {
    let read = || -> Result<usize, Error> {
        let pipes = PipesClient::bind(names::lookup("pipes")?)?;
        let stream = Stream(StreamRef { gate: pipes.streams()?, id: pipes.make()? });
        stream.read(&mut [0; 8])
    };
    i32::from(read().is_err())
}

/// Ten tasks that print so many lines each as fast as they can, each line in so many pieces (SSS-73). The host looks at them.
pub fn ten_writers(lines: u64, pieces: u64) -> i32 {
    let (lines, pieces) = (format!("{lines}"), format!("{pieces}"));
    let start =
        |n: u64| Command::new(b"bin/check").args(["check", "as", "writer", &format!("{n}"), &lines, &pieces]).spawn();
    let all: Vec<_> = (0..10).map(start).collect();
    let good =
        all.into_iter().filter_map(Result::ok).filter(|child| child.wait().is_ok_and(|how| ended::status(&how) == 0));
    i32::from(good.count() != 10)
}

/// The same, while the kernel writes so many lines to the same port.
pub fn writers_and_the_log(lines: u64, pieces: u64, of_the_log: u64) -> i32 {
    let says = musubi::rt::thread::spawn(
        move || {
            let said = crate::marks::knocks().map(|knocks| knocks.say(0, of_the_log).is_ok());
            musubi::rt::thread::exit(u64::from(said == Ok(true)));
        },
        0,
    );
    let status = ten_writers(lines, pieces);
    match says.and_then(musubi::rt::thread::Thread::join) {
        Ok(1) => status,
        _ => 2,
    }
}

/// The same by threads of one program.
pub fn writing_threads(lines: u64, pieces: u64) -> i32 {
    let body = move |number: usize| _ = writer(number as u64, lines, pieces);
    i32::from(musubi::rt::thread::together(4, body).is_err())
}

/// The number of the writer and of the line, as often as there are pieces.
pub fn writer(number: u64, lines: u64, pieces: u64) -> i32 {
    for line in 0..lines {
        for piece in 1..=pieces {
            let end = if piece == pieces { "\n" } else { "" };
            musubi::print!("<{number} {line} {}>{end}", "some more of it, so that there is something to be mixed");
            if piece < pieces {
                musubi::rt::thread::yield_now();
            }
        }
    }
    0
}

/// Ends in the middle of a line.
pub fn half_line() -> i32 {
    musubi::print!("half");
    0
}

/// Asks a person something.
pub fn ask() -> i32 {
    musubi::print!("name? ");
    let mut name = [0; 64];
    match musubi::stream::input().read(&mut name) {
        Ok(len) => {
            musubi::println!("hello {}", String::from_utf8_lossy(&name[..len]).trim_end());
            0
        }
        Err(_) => 1,
    }
}

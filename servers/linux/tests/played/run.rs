//! Running programs to their end, here and on the host.

use std::collections::HashMap;
use std::process::{Command, Stdio};

use abi::Rights;
use abi::frame::reason;
use abi::start::StreamRef;
use abi::task::Limits;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use personality::machine::Machine;
use personality::server::{Server, Spawn};
use window::foreign::{After, Personality};

use super::process::{STAND_IN, Task, frame_of, put_registers};
use super::{Played, Stream};

/// What a program printed, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub output: Vec<u8>,
    pub errors: Vec<u8>,
    pub code: u64,
}

/// Runs one program to its end.
pub fn run(server: &Server<Played>, arguments: &[&str], input: &[u8]) -> Outcome {
    let trace = std::env::var("TRACE").is_ok();
    let environment: &[&str] = if trace { &["PATH=/bin", "MUSUBI_STRACE=1"] } else { &["PATH=/bin"] };
    run_with(server, arguments, environment, input, |_| {})
}

pub fn run_with(
    server: &Server<Played>,
    arguments: &[&str],
    environment: &[&str],
    input: &[u8],
    prepare: impl FnOnce(&mut HashMap<u64, Stream>),
) -> Outcome {
    let machine = &server.machine;
    {
        let mut streams = machine.streams.lock().unwrap();
        streams.insert(0, Stream { bytes: input.to_vec(), ..Stream::default() });
        streams.insert(1, Stream::default());
        streams.insert(2, Stream::default());
        prepare(&mut streams);
    }
    let path = arguments[0].as_bytes();
    let file = machine.file(path);
    let all = |list: &[&str]| list.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>();
    let task = server
        .spawn(&Spawn {
            path,
            arguments: &all(arguments),
            environment: &all(environment),
            streams: [0, 1, 2].map(|id| StreamRef { gate: 1, id }),
            file: file.address,
            len: file.len,
            user: 0,
            limits: Limits::default(),
            payer: 0,
        })
        .unwrap_or_else(|refusal| panic!("{refusal}"));
    let code = follow(server, task);
    let mut streams = machine.streams.lock().unwrap();
    let mut take = |id| streams.remove(&id).map(|s: Stream| s.bytes).unwrap_or_default();
    Outcome { output: take(1), errors: take(2), code }
}

/// Serves a task's entries until it ends. Answers its exit code.
fn follow(server: &Server<Played>, number: u64) -> u64 {
    let (pid, start) = server.machine.task(number, |task| (task.pid(), task.start.take().unwrap())).unwrap();
    let mut registers = ptrace::getregs(pid).unwrap();
    let mut frame = start;
    loop {
        put_registers(&mut registers, &frame);
        ptrace::setregs(pid, registers).unwrap();
        ptrace::sysemu(pid, None).unwrap();
        let stopped = waitpid(pid, None).unwrap();
        registers = ptrace::getregs(pid).unwrap();
        frame = frame_of(&registers, number);
        match stopped {
            WaitStatus::PtraceSyscall(_) => frame.rax = registers.orig_rax,
            WaitStatus::Stopped(_, Signal::SIGSEGV) => {
                frame.reason = reason::FAULT;
                frame.right = u64::from(Rights::READ.bits());
            }
            WaitStatus::Stopped(_, signal) => {
                frame.reason = reason::EXCEPTION;
                frame.address = match signal {
                    Signal::SIGFPE => 0,
                    Signal::SIGTRAP => 3,
                    Signal::SIGILL => 6,
                    other => panic!("the program got {other}"),
                };
            }
            other => panic!("{other:?}"),
        }
        if let After::End { task, code } = server.upcall(&mut frame) {
            assert_eq!(task, number);
            server.machine.task_kill(task).unwrap();
            return code;
        }
    }
}

/// The same command on this host, in a directory with the same files.
pub fn on_host(directory: &std::path::Path, arguments: &[&str], input: &[u8]) -> Outcome {
    use std::io::Write;
    let mut child = Command::new("/bin/busybox")
        .args(&arguments[1..])
        .current_dir(directory)
        .env_clear()
        .env("PATH", "/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input may have ended before.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let code = std::os::unix::process::ExitStatusExt::signal(&output.status)
        .map_or_else(|| output.status.code().unwrap() as u64, |signal| 128 + signal as u64);
    Outcome { output: output.stdout, errors: output.stderr, code }
}

/// Whether this host can play the machine.
pub fn possible() -> bool {
    let there = std::path::Path::new(STAND_IN[0]).exists();
    if !there {
        eprintln!("skipped: no {}", STAND_IN[0]);
        return false;
    }
    let made = Task::start();
    if let Err(error) = &made {
        eprintln!("skipped: a process cannot be traced here: {error}");
    }
    made.is_ok()
}

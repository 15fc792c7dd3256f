//! Running programs to their end, here and on the host.

use std::collections::{HashMap, VecDeque};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use abi::Rights;
use abi::frame::{Frame, Vectors, reason};
use abi::start::StreamRef;
use abi::task::Limits;
use linux_raw_sys::general;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use personality::machine::{Clock, Machine};
use personality::server::{Served, Server, Spawn};
use window::foreign::After;

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

/// A task's thread.
struct Thread {
    task: u64,
    frame: Frame,
    /// Since when its call waits.
    waits: Option<u64>,
}

/// Serves a task's entries, and those of all that it starts, until the last one has ended: one after the other, so that a run is like the
/// next one. Answers the exit code of the first.
fn follow(server: &Server<Played>, first: u64) -> u64 {
    let machine = &server.machine;
    let (mut line, mut code) = (VecDeque::new(), None);
    let late = Instant::now() + Duration::from_secs(60);
    loop {
        for task in machine.started() {
            let frame = machine.task(task, |task| task.start.take().unwrap()).unwrap();
            line.push_back(Thread { task, frame, waits: None });
        }
        let Some(mut thread) = line.pop_front() else { return code.expect("the first one has ended") };
        let Ok(pid) = machine.task(thread.task, |task| task.pid()) else {
            // Another one has ended it.
            code = code.or((thread.task == first).then_some(137));
            continue;
        };
        let all_wait = line.iter().chain([&thread]).all(|thread| thread.waits.is_some());
        let since = match thread.waits {
            None => {
                enter(machine, pid, &mut thread);
                machine.clock(Clock::SinceBoot)
            }
            Some(since) => since,
        };
        assert!(Instant::now() < late, "{}", if all_wait { "everybody waits" } else { "somebody has too much to do" });
        thread.waits = match server.attempt(&mut thread.frame, since) {
            Served::Done(After::Return) => None,
            Served::Done(After::End { task, code: how }) => {
                assert_eq!(task, thread.task);
                code = code.or((task == first).then_some(how));
                let _ = machine.task_kill(task);
                continue;
            }
            Served::Wait(_) => Some(since),
        };
        if all_wait {
            std::thread::sleep(Duration::from_micros(200));
        }
        line.push_back(thread);
    }
}

/// Lets a thread run until it enters the kernel.
fn enter(machine: &Played, pid: Pid, thread: &mut Thread) {
    let mut registers = ptrace::getregs(pid).unwrap();
    put_registers(&mut registers, &thread.frame);
    ptrace::setregs(pid, registers).unwrap();
    ptrace::sysemu(pid, None).unwrap();
    let stopped = waitpid(pid, None).unwrap();
    registers = ptrace::getregs(pid).unwrap();
    let frame = &mut thread.frame;
    *frame = frame_of(&registers, thread.task);
    match stopped {
        WaitStatus::PtraceSyscall(_) => frame.rax = registers.orig_rax,
        WaitStatus::Stopped(_, signal) => {
            let code = ptrace::getsiginfo(pid).unwrap().si_code as u32;
            frame.reason = reason::EXCEPTION;
            frame.address = match (signal, code) {
                (Signal::SIGSEGV, general::SEGV_MAPERR | general::SEGV_ACCERR) => {
                    let (address, error) = machine.task(thread.task, |task| task.fault()).unwrap();
                    let right = match error & (2 | 16) {
                        0 => Rights::READ,
                        2 => Rights::WRITE,
                        _ => Rights::EXECUTE,
                    };
                    (frame.reason, frame.right) = (reason::FAULT, right.bits().into());
                    address
                }
                (Signal::SIGSEGV, _) => 13,
                (Signal::SIGFPE, general::FPE_INTDIV) => 0,
                (Signal::SIGFPE, _) if machine.vectors(thread.task).unwrap().0[Vectors::STATUS] & 0x3f != 0 => 16,
                (Signal::SIGFPE, _) => 19,
                (Signal::SIGTRAP, general::TRAP_TRACE) => 1,
                (Signal::SIGTRAP, _) => 3,
                (Signal::SIGILL, _) => 6,
                (other, code) => panic!("the program got {other} {code}"),
            };
        }
        other => panic!("{other:?}"),
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

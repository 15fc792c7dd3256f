//! A program that stands still while the test makes its system calls.

use std::os::unix::fs::FileExt;

use abi::Rights;
use abi::frame::Frame;
use abi::layout::WINDOW_END;
use abi::start::StreamRef;
use abi::task::Limits;
use personality::machine::{Clock, Machine};
use personality::server::{Served, Server, Spawn};
use window::foreign::After;

use super::{Played, Stream};

/// A program that is loaded but does not run: the test makes its system calls for it.
pub struct Puppet<'a> {
    pub server: &'a Server<Played>,
    pub task: u64,
    frame: Frame,
}

impl<'a> Puppet<'a> {
    /// Starts busybox, with gates for streams that are only there if the machine has them. Value: its task.
    pub fn start(server: &Server<Played>) -> u64 {
        let file = server.machine.file(b"busybox");
        server
            .spawn(&Spawn {
                path: b"busybox",
                arguments: &[b"busybox".to_vec()],
                environment: &[],
                streams: [0, 1, 2].map(|id| StreamRef { gate: 1, id }),
                file: file.address,
                len: file.len,
                user: 0,
                limits: Limits::default(),
                payer: 0,
            })
            .unwrap()
    }

    pub fn new(server: &'a Server<Played>) -> Puppet<'a> {
        {
            let mut streams = server.machine.streams.lock().unwrap();
            (0..3).for_each(|id| _ = streams.entry(id).or_default());
        }
        let task = Puppet::start(server);
        let mut puppet = Puppet::of(server, task);
        // With its first call its streams are looked at.
        puppet.call(linux_raw_sys::general::__NR_getpid.into(), &[]);
        puppet
    }

    /// A program that was started, such as a child.
    pub fn of(server: &'a Server<Played>, task: u64) -> Puppet<'a> {
        let frame = server.machine.task(task, |task| task.start.take().unwrap()).unwrap();
        Puppet { server, task, frame }
    }

    /// One call. `Err` with the exit code if it ended the program. What would wait for ever is interrupted.
    pub fn try_call(&mut self, number: u64, arguments: &[u64]) -> Result<i64, u64> {
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        let mut frame = Frame { rax: number, task: self.task, thread: self.task, ..self.frame };
        [frame.rdi, frame.rsi, frame.rdx, frame.r10, frame.r8, frame.r9] = six;
        let machine = &self.server.machine;
        let since = machine.clock(Clock::SinceBoot);
        loop {
            match self.server.attempt(&mut frame, since) {
                Served::Done(After::Return) => return Ok(frame.rax as i64),
                Served::Done(After::End { code, .. }) => return Err(code),
                Served::Wait(u64::MAX) => return Ok(-i64::from(linux_raw_sys::errno::EINTR)),
                Served::Wait(until) => machine.await_change(machine.changes(), until).unwrap(),
            }
        }
    }

    /// A fault where the program stands, with what the frame says of it. `Err` with the exit code if it ended the program; otherwise what it goes on with.
    pub fn fault(&mut self, told: Frame) -> Result<Frame, u64> {
        let Frame { reason, address, right, code, .. } = told;
        let mut frame = Frame { reason, address, right, code, task: self.task, thread: self.task, ..self.frame };
        match self.server.attempt(&mut frame, 0) {
            Served::Done(After::End { code, .. }) => Err(code),
            _ => Ok(frame),
        }
    }

    /// Registers with which it makes its next call, or has its next fault.
    pub fn frame(&mut self) -> &mut Frame {
        &mut self.frame
    }

    /// Whether a call waits, having done nothing.
    pub fn waits(&mut self, number: u64, arguments: [u64; 3]) -> bool {
        let [rdi, rsi, rdx] = arguments;
        let mut frame = Frame { rax: number, rdi, rsi, rdx, task: self.task, thread: self.task, ..self.frame };
        self.server.attempt(&mut frame, self.server.machine.clock(Clock::SinceBoot)) == Served::Wait(u64::MAX)
    }

    pub fn call(&mut self, number: u64, arguments: &[u64]) -> i64 {
        self.try_call(number, arguments).expect("it does not end the program")
    }

    pub fn peek(&self, address: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.server.machine.task(self.task, |task| task.memory.read_exact_at(&mut bytes, address).unwrap()).unwrap();
        bytes
    }

    pub fn poke(&self, address: u64, bytes: &[u8]) {
        self.server.machine.task(self.task, |task| task.memory.write_all_at(bytes, address).unwrap()).unwrap();
    }

    /// What the host says is mapped in the window: (start, end, rights).
    pub fn mapped(&self) -> Vec<(u64, u64, Rights)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.task)).unwrap();
        let mut ranges: Vec<(u64, u64, Rights)> = Vec::new();
        for line in maps.lines() {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let at = |s: &str| u64::from_str_radix(s, 16).unwrap();
            let mut rights = Rights::empty();
            rights.set(Rights::READ, rest.as_bytes()[0] == b'r');
            rights.set(Rights::WRITE, rest.as_bytes()[1] == b'w');
            rights.set(Rights::EXECUTE, rest.as_bytes()[2] == b'x');
            if at(start) < WINDOW_END {
                join(&mut ranges, (at(start), at(end), rights));
            }
        }
        ranges
    }

    /// What the personality has on record.
    pub fn recorded(&self) -> Vec<(u64, u64, Rights)> {
        let process = self.server.process(self.task).unwrap();
        let mut ranges = Vec::new();
        for (range, piece) in process.map.lock().iter().filter(|(_, piece)| !piece.rights.is_empty()) {
            join(&mut ranges, (range.start, range.end, piece.rights));
        }
        ranges
    }
}

fn join(ranges: &mut Vec<(u64, u64, Rights)>, next: (u64, u64, Rights)) {
    match ranges.last_mut() {
        Some(last) if last.1 == next.0 && last.2 == next.2 => last.1 = next.1,
        _ => ranges.push(next),
    }
}

impl Drop for Puppet<'_> {
    fn drop(&mut self) {
        let _ = self.server.machine.task_kill(self.task);
    }
}

//! A process of this host that is traced: its memory, its registers, and calls that it makes for the tracer.

use std::fs::File as HostFile;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use abi::Error;
use abi::frame::{Frame, reason};
use abi::layout::WINDOW_END;
use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// What stands in for every new process until its own program is mapped. Statically linked, so that little is in the way.
pub const STAND_IN: [&str; 3] = ["/bin/busybox", "sleep", "1000"];

pub struct Task {
    child: Child,
    pub memory: HostFile,
    /// Address of a `syscall` instruction that stays mapped: in the vDSO, far above any window.
    gate: u64,
    pub start: Option<Frame>,
}

impl Task {
    /// A process with an empty window.
    pub fn start() -> Result<Task, Error> {
        let child = Command::new(STAND_IN[0])
            .args(&STAND_IN[1..])
            // No restartable sequences: the host's kernel would write to memory that is about to go.
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .stdin(Stdio::null())
            .spawn()
            .map_err(|_| Error::NotFound)?;
        let pid = Pid::from_raw(child.id() as i32);
        let options = Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACESYSGOOD;
        ptrace::seize(pid, options).map_err(|_| Error::Denied)?;
        ptrace::interrupt(pid).unwrap();
        waitpid(pid, None).unwrap();
        let memory = HostFile::options().read(true).write(true).open(format!("/proc/{pid}/mem")).unwrap();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let vdso = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (start, end) = vdso.split(' ').next().unwrap().split_once('-').unwrap();
        let at = |s: &str| u64::from_str_radix(s, 16).unwrap();
        let mut code = vec![0; (at(end) - at(start)) as usize];
        memory.read_exact_at(&mut code, at(start)).unwrap();
        let gate = at(start) + code.windows(2).position(|two| two == [0x0f, 0x05]).unwrap() as u64;
        let task = Task { child, memory, gate, start: None };
        ok(task.host_call(nix::libc::SYS_munmap, [0x1_0000, WINDOW_END - 0x1_0000, 0, 0, 0, 0]))?;
        Ok(task)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Lets the process make a system call of the host.
    pub fn host_call(&self, number: i64, arguments: [u64; 6]) -> i64 {
        let before = ptrace::getregs(self.pid()).unwrap();
        let mut registers = before;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        (registers.rax, registers.orig_rax, registers.rip) = (number as u64, u64::MAX, self.gate);
        ptrace::setregs(self.pid(), registers).unwrap();
        let after = loop {
            // The first step may only leave the call that the process was stopped at.
            ptrace::step(self.pid(), None).unwrap();
            let stopped = waitpid(self.pid(), None).unwrap();
            assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{stopped:?}");
            let after = ptrace::getregs(self.pid()).unwrap();
            if after.rip != self.gate {
                break after;
            }
        };
        ptrace::setregs(self.pid(), before).unwrap();
        after.rax as i64
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ok(answer: i64) -> Result<(), Error> {
    if answer < 0 { Err(Error::BadArgument) } else { Ok(()) }
}

pub fn frame_of(r: &user_regs_struct, task: u64) -> Frame {
    Frame {
        rax: r.rax,
        rbx: r.rbx,
        rcx: r.rcx,
        rdx: r.rdx,
        rsi: r.rsi,
        rdi: r.rdi,
        rbp: r.rbp,
        rsp: r.rsp,
        r8: r.r8,
        r9: r.r9,
        r10: r.r10,
        r11: r.r11,
        r12: r.r12,
        r13: r.r13,
        r14: r.r14,
        r15: r.r15,
        rip: r.rip,
        rflags: r.eflags,
        fs_base: r.fs_base,
        gs_base: r.gs_base,
        reason: reason::SYSCALL,
        task,
        thread: task,
        ..Frame::default()
    }
}

pub fn put_registers(r: &mut user_regs_struct, f: &Frame) {
    (r.rax, r.rbx, r.rcx, r.rdx) = (f.rax, f.rbx, f.rcx, f.rdx);
    (r.rsi, r.rdi, r.rbp, r.rsp) = (f.rsi, f.rdi, f.rbp, f.rsp);
    (r.r8, r.r9, r.r10, r.r11) = (f.r8, f.r9, f.r10, f.r11);
    (r.r12, r.r13, r.r14, r.r15) = (f.r12, f.r13, f.r14, f.r15);
    (r.rip, r.eflags, r.fs_base, r.gs_base) = (f.rip, f.rflags, f.fs_base, f.gs_base);
    r.orig_rax = u64::MAX;
}

//! A process of this host that is traced: its memory, its registers, and calls that it makes for the tracer.

use std::fs::File as HostFile;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};

use abi::Error;
use abi::frame::{Frame, Vectors, reason};
use abi::layout::WINDOW_END;
use linux_raw_sys::general;
use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options, regset::NT_PRFPREG};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{NO_FD, PRIVATE, RW};

/// What stands in for every new process until its own program is mapped. Statically linked, so that little is in the way.
pub const STAND_IN: [&str; 3] = ["/bin/busybox", "sleep", "1000"];

const SEGV: Signal = Signal::SIGSEGV;
const ROOM: u64 = 64 << 10;

pub struct Task {
    child: Child,
    pub memory: HostFile,
    /// Address of a `syscall` instruction that stays mapped: in the vDSO, far above any window.
    gate: u64,
    /// Memory far above, too: where the host's kernel writes what it tells of a fault.
    room: u64,
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
        let mut task = Task { child, memory, gate, room: 0, start: None };
        ok(task.host_call(nix::libc::SYS_munmap, [0x1_0000, WINDOW_END - 0x1_0000, 0, 0, 0, 0]))?;
        task.room = task.host_call(nix::libc::SYS_mmap, [0, ROOM, RW, PRIVATE, NO_FD, 0]) as u64;
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let flags = general::SA_SIGINFO | general::SA_ONSTACK | general::SA_NODEFER | general::SA_RESTORER;
        task.memory.write_all_at(&words(&[task.room, 0, ROOM, gate, flags.into(), gate, 0]), task.room).unwrap();
        ok(task.host_call(nix::libc::SYS_sigaltstack, [task.room, 0, 0, 0, 0, 0]))?;
        ok(task.host_call(nix::libc::SYS_rt_sigaction, [SEGV as u64, task.room + 24, 0, 8, 0, 0]))?;
        Ok(task)
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Address and error code of the fault at which the process stands: what the host's kernel tells a handler, which does not begin.
    pub fn fault(&self) -> (u64, u64) {
        let (before, vectors) = (ptrace::getregs(self.pid()).unwrap(), self.vectors());
        ptrace::step(self.pid(), SEGV).unwrap();
        let stopped = waitpid(self.pid(), None).unwrap();
        assert!(matches!(stopped, WaitStatus::Stopped(_, Signal::SIGTRAP)), "{stopped:?}");
        let after = ptrace::getregs(self.pid()).unwrap();
        let word = |at: u64| {
            let mut bytes = [0; 8];
            self.memory.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        let told = (word(after.rsi + 16), word(after.rdx + 40 + 8 * 19));
        ptrace::setregs(self.pid(), before).unwrap();
        self.set_vectors(&vectors);
        told
    }

    /// Its vector registers, of those that FXSAVE has.
    pub fn vectors(&self) -> Vectors {
        let r = ptrace::getregset::<NT_PRFPREG>(self.pid()).unwrap();
        let mut vectors = Vectors::clean();
        let halves = [r.cwd, r.swd, r.ftw, r.fop].into_iter().flat_map(u16::to_le_bytes);
        let pointers = [r.rip, r.rdp].into_iter().flat_map(u64::to_le_bytes);
        let words = [r.mxcsr, r.mxcr_mask].into_iter().chain(r.st_space).chain(r.xmm_space).flat_map(u32::to_le_bytes);
        let bytes = halves.chain(pointers).chain(words);
        vectors.0.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        vectors
    }

    pub fn set_vectors(&self, vectors: &Vectors) {
        let mut r = ptrace::getregset::<NT_PRFPREG>(self.pid()).unwrap();
        let half = |at: usize| u16::from_le_bytes(std::array::from_fn(|i| vectors.0[at + i]));
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| vectors.0[at + i]));
        let pointer = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| vectors.0[at + i]));
        (r.cwd, r.swd, r.ftw, r.fop) = (half(0), half(2), half(4), half(6));
        (r.rip, r.rdp, r.mxcsr) = (pointer(8), pointer(16), word(24));
        r.st_space = std::array::from_fn(|i| word(32 + 4 * i));
        r.xmm_space = std::array::from_fn(|i| word(160 + 4 * i));
        ptrace::setregset::<NT_PRFPREG>(self.pid(), r).unwrap();
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

//! Faults of programs, and the handlers that these have for them.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use abi::Rights;
use abi::frame::{Frame, Vectors, reason};
use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;
use personality::machine::Machine;
use personality::server::Server;
use personality::signals::{Action, bit, frame};
use played::{Mode, NO_FD, PAGE, PRIVATE, Played, Puppet, RW, possible, run};

const HANDLER: u64 = 0x40_1000;
const RESTORER: u64 = 0x40_2000;

fn nr(number: u32) -> u64 {
    number.into()
}

fn server() -> Server<Played> {
    Server::new(Played::with_files())
}

impl Puppet<'_> {
    fn map(&mut self, len: u64, protection: u64) -> u64 {
        self.call(nr(__NR_mmap), &[0, len, protection, PRIVATE, NO_FD, 0]) as u64
    }

    fn handle(&mut self, scratch: u64, signal: u32, flags: u32, mask: u64) {
        let flags = u64::from(flags | SA_RESTORER | SA_SIGINFO);
        self.poke(scratch, &Action { handler: HANDLER, flags, restorer: RESTORER, mask }.store());
        assert_eq!(self.call(nr(__NR_rt_sigaction), &[signal.into(), scratch, 0, 8]), 0);
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.peek(at, 8).try_into().unwrap())
    }

    /// Signal, code and address of what a handler was told, and trap, error and `cr2`.
    fn told(&self, f: &Frame) -> ([u64; 3], [u64; 3]) {
        assert_eq!((f.rip, f.rsp % 16, self.word(f.rsp)), (HANDLER, 8, RESTORER));
        assert_eq!((f.rsi, f.rdx), (f.rsp + frame::INFO_AT, f.rsp + frame::CONTEXT_AT));
        assert_eq!(f.rdi, self.word(f.rsi));
        let at = |field: u64| self.word(f.rdx + 40 + 8 * field);
        ([f.rdi, self.word(f.rsi + 8), self.word(f.rsi + 16)], [at(20), at(19), at(22)])
    }
}

fn access(address: u64, right: Rights) -> Frame {
    Frame { reason: reason::FAULT, address, right: right.bits().into(), ..Frame::default() }
}

fn exception(vector: u64) -> Frame {
    Frame { reason: reason::EXCEPTION, address: vector, ..Frame::default() }
}

#[test]
fn a_handler_is_told_what_linux_tells_it() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let page = p.map(3 * PAGE, RW);
    p.call(nr(__NR_mprotect), &[page + PAGE, PAGE, PROT_READ.into()]);
    p.call(nr(__NR_mprotect), &[page + 2 * PAGE, PAGE, PROT_NONE.into()]);
    for signal in [SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP] {
        p.handle(page, signal, SA_NODEFER, 0);
    }
    let rip = p.frame().rip;
    let (segv, bus, high) = (u64::from(SIGSEGV), u64::from(SIGBUS), 1 << 60);
    let (maperr, accerr) = (u64::from(SEGV_MAPERR), u64::from(SEGV_ACCERR));
    for (told, [signal, code, address], of) in [
        (access(0, Rights::READ), [segv, maperr, 0], [14, 4, 0]),
        (access(8, Rights::WRITE), [segv, maperr, 8], [14, 6, 8]),
        (access(16, Rights::EXECUTE), [segv, maperr, 16], [14, 20, 16]),
        (access(page + PAGE + 5, Rights::WRITE), [segv, accerr, page + PAGE + 5], [14, 7, page + PAGE + 5]),
        (access(page + 2 * PAGE, Rights::READ), [segv, accerr, page + 2 * PAGE], [14, 5, page + 2 * PAGE]),
        (access(page + 9, Rights::EXECUTE), [segv, accerr, page + 9], [14, 21, page + 9]),
        (access(high, Rights::READ), [segv, maperr, high], [14, 5, high]),
        // It may, and there is no memory.
        (access(page, Rights::WRITE), [bus, BUS_ADRERR.into(), page], [14, 6, page]),
        (exception(0), [SIGFPE.into(), FPE_INTDIV.into(), rip], [0, 0, 0]),
        (exception(1), [SIGTRAP.into(), TRAP_TRACE.into(), rip], [1, 0, 0]),
        (exception(3), [SIGTRAP.into(), SI_KERNEL.into(), 0], [3, 0, 0]),
        (exception(6), [SIGILL.into(), ILL_ILLOPN.into(), rip], [6, 0, 0]),
        (exception(12), [bus, SI_KERNEL.into(), 0], [12, 0, 0]),
        (Frame { code: 0x1a, ..exception(13) }, [segv, SI_KERNEL.into(), 0], [13, 0x1a, 0]),
        (exception(17), [bus, BUS_ADRALN.into(), 0], [17, 0, 0]),
    ] {
        let f = p.fault(told).unwrap();
        assert_eq!(p.told(&f), ([signal, code, address], of), "{told:x?}");
    }
    // Which floating-point exception it was the registers say: the first that is not masked.
    for (vector, at, words, code) in [
        (16, Vectors::CONTROL, [0x037f & !4u16, 4 | 1], FPE_FLTDIV),
        (16, Vectors::CONTROL, [0x037f & !0x20, 0x21], FPE_FLTRES),
        (19, Vectors::MXCSR, [0x1f80 & !0x80 | 5, 0], FPE_FLTINV),
        (19, Vectors::MXCSR, [0x1f80 & !0x400 | 8, 0], FPE_FLTOVF),
        (19, Vectors::MXCSR, [0x1f80 & !0x800 | 0x10, 0], FPE_FLTUND),
    ] {
        let mut vectors = Vectors::clean();
        vectors.0[at..at + 2].copy_from_slice(&words[0].to_le_bytes());
        vectors.0[at + 2..at + 4].copy_from_slice(&words[1].to_le_bytes());
        server.machine.set_vectors(p.task, &vectors).unwrap();
        let f = p.fault(exception(vector)).unwrap();
        assert_eq!(p.told(&f), ([SIGFPE.into(), code.into(), rip], [vector, 0, 0]));
    }
}

#[test]
fn a_handler_returns_with_what_it_has_changed() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let page = p.map(PAGE, RW);
    p.handle(page, SIGSEGV, 0, bit(SIGUSR1.into()));
    let mut vectors = Vectors::clean();
    vectors.0[160..176].fill(7);
    server.machine.set_vectors(p.task, &vectors).unwrap();
    p.frame().rflags |= 0x501;
    (p.frame().rcx, p.frame().r11) = (5, 6);
    let before = *p.frame();
    let f = p.fault(access(0, Rights::READ)).unwrap();
    assert_eq!(f.rflags & 0x501, 1, "no steps, upwards");
    assert_eq!(server.machine.vectors(p.task).unwrap().0[160..176], [0; 16], "the handler's own");
    let task = p.task;
    let mask = || server.process(task).unwrap().signals.lock().mask;
    assert_eq!(mask(), bit(SIGSEGV.into()) | bit(SIGUSR1.into()));
    let registers = f.rdx + 40;
    assert_eq!(
        [p.word(registers + 8 * 14), p.word(registers + 8 * 3), p.word(registers + 8 * 17)],
        [5, 6, before.rflags]
    );
    // It steps over an instruction, and changes a register of each kind.
    p.poke(registers + 8 * 16, &(before.rip + 3).to_le_bytes());
    p.poke(registers + 8 * 13, &77u64.to_le_bytes());
    let saved = p.word(registers + 8 * 23);
    assert_eq!((saved % 64, p.peek(saved + 160, 16)), (0, vec![7; 16]));
    p.poke(saved + 160, &[8; 8]);
    *p.frame() = Frame { rsp: f.rsp + 8, ..f };
    let mut after = Frame { rax: nr(__NR_rt_sigreturn), reason: reason::SYSCALL, ..*p.frame() };
    let _ = server.attempt(&mut after, 0);
    let list = |f: &Frame| [f.rax, f.rcx, f.r11, f.rip, f.rsp, f.rflags];
    assert_eq!(list(&after), [77, 5, 6, before.rip + 3, before.rsp, before.rflags]);
    assert_eq!(mask(), 0);
    let vectors = server.machine.vectors(p.task).unwrap();
    assert_eq!(vectors.0[160..176], [[8; 8], [7; 8]].concat()[..]);
}

#[test]
fn who_has_no_handler_now_ends() {
    if !possible() {
        return;
    }
    let segv = 128 + u64::from(SIGSEGV);
    let ends = |prepare: &dyn Fn(&mut Puppet<'_>, u64), faults: &[Option<u64>]| {
        let server = server();
        let mut p = Puppet::new(&server);
        let page = p.map(PAGE, RW);
        prepare(&mut p, page);
        for how in faults {
            assert_eq!(p.fault(access(0, Rights::READ)).err(), *how);
        }
    };
    ends(&|_, _| {}, &[Some(segv)]);
    // Inside of the handler it is blocked, if it does not want it otherwise.
    ends(&|p, page| p.handle(page, SIGSEGV, 0, 0), &[None, Some(segv)]);
    ends(&|p, page| p.handle(page, SIGSEGV, SA_NODEFER, 0), &[None, None, None]);
    ends(&|p, page| p.handle(page, SIGSEGV, SA_RESETHAND | SA_NODEFER, 0), &[None, Some(segv)]);
    // Blocked, or ignored.
    let block = |p: &mut Puppet<'_>, page: u64| {
        p.handle(page, SIGSEGV, 0, 0);
        p.poke(page, &bit(SIGSEGV.into()).to_le_bytes());
        p.call(nr(__NR_rt_sigprocmask), &[SIG_BLOCK.into(), page, 0, 8]);
    };
    ends(&block, &[Some(segv)]);
    let ignore = |p: &mut Puppet<'_>, page: u64| {
        p.poke(page, &Action { handler: 1, ..Action::default() }.store());
        p.call(nr(__NR_rt_sigaction), &[SIGSEGV.into(), page, 0, 8]);
    };
    ends(&ignore, &[Some(segv)]);
    // No stack for it.
    let nowhere = |p: &mut Puppet<'_>, page: u64| {
        p.handle(page, SIGSEGV, 0, 0);
        p.frame().rsp = page + 100;
    };
    ends(&nowhere, &[Some(segv)]);
}

#[test]
fn the_other_stack() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let page = p.map(8 * PAGE, RW);
    let (stack, len) = (page + PAGE, 4 * PAGE);
    let words = |words: [u64; 3]| words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>();
    p.poke(page, &words([stack, 0, len]));
    assert_eq!(p.call(nr(__NR_sigaltstack), &[page, 0]), 0);
    p.handle(page + 64, SIGSEGV, SA_ONSTACK | SA_NODEFER, 0);
    // Its own is used up.
    p.frame().rsp = 0x1000;
    let f = p.fault(access(0xff8, Rights::WRITE)).unwrap();
    assert!((stack..stack + len).contains(&f.rsp));
    p.told(&f);
    // On it, it stays, and nobody takes it away.
    p.frame().rsp = f.rsp;
    assert_eq!(p.call(nr(__NR_sigaltstack), &[0, page]), 0);
    assert_eq!(p.peek(page, 24), words([stack, SS_ONSTACK.into(), len]));
    assert_eq!(p.call(nr(__NR_sigaltstack), &[page, 0]), -i64::from(EPERM));
    let next = p.fault(access(0, Rights::READ)).unwrap();
    assert!(next.rsp < f.rsp && next.rsp > stack);
    // Until it is full: what lies below is not written to.
    p.frame().rsp = stack + 1000;
    assert_eq!(p.fault(access(0, Rights::READ)).err(), Some(139));
}

/// A program that prints the same on this host.
#[test]
fn handlers_do_what_they_do_on_linux() {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/linux/faults.c");
    let program = std::env::temp_dir().join(format!("musubi-faults-{}", std::process::id()));
    let made = Command::new("cc").args(["-std=gnu11", "-O1", "-static", source, "-o"]).arg(&program).status();
    if !possible() || !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: nothing to compile it with");
        return;
    }
    let machine = Played::with_files();
    machine.put(b"faults", &std::fs::read(&program).unwrap(), Mode::Executable, 0);
    let server = Server::new(machine);
    for act in ACTS {
        let there = on_host(&program, act);
        let here = run(&server, &["faults", act], b"");
        let text = String::from_utf8_lossy(&here.output).into_owned();
        assert_eq!((text, here.code), there, "{act}: {}", String::from_utf8_lossy(&here.errors));
    }
    let _ = std::fs::remove_file(program);
}

const ACTS: [&str; 16] = [
    "mend",
    "step-over",
    "divide",
    "divide-vectors",
    "jump",
    "trap",
    "overflow",
    "nested",
    "no-stack",
    "blocked",
    "ignored",
    "in-handler",
    "once",
    "lost-stack",
    "bad-return",
    "exec",
];

fn on_host(program: &Path, act: &str) -> (String, u64) {
    let output = Command::new(program).arg(act).output().unwrap();
    let code =
        output.status.signal().map_or_else(|| output.status.code().unwrap() as u64, |signal| 128 + signal as u64);
    (String::from_utf8(output.stdout).unwrap(), code)
}

//! Every line of the table of calls (SSS-53): each is made as a program makes it, answers as it should, and goes where the table says.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::{FIONREAD, TIOCGWINSZ};
use linux_raw_sys::prctl::PR_GET_NAME;
use personality::calls::{TABLE, to};
use personality::server::Server;
use played::{HERE, NO_FD, PAGE, PRIVATE, Played, Puppet, RW, Stream, possible};
use std::collections::BTreeMap;
use std::mem::take;

/// Calls of Linux have smaller numbers than this.
const NUMBERS: u64 = 600;

/// What a call is expected to answer.
#[derive(Debug)]
enum Answer {
    Is(u64),
    /// Anything but 0 and an error.
    Some,
    Error(u32),
}
use Answer::{Error, Is, Some as Any};

/// What was seen of each call: whom it was passed on to, and whether it did what it was asked for.
#[derive(Default)]
struct Lines(BTreeMap<&'static str, (u8, bool)>);

impl Lines {
    fn number(name: &str) -> (u64, &'static str) {
        TABLE.iter().find(|row| row.name == name).map(|row| (row.number, row.name)).expect("it is in the table")
    }

    fn note(&mut self, p: &Puppet<'_>, name: &'static str, done: bool) {
        let line = self.0.entry(name).or_default();
        line.0 |= take(&mut *p.server.machine.passed.lock().unwrap());
        line.1 |= done;
    }

    fn call(&mut self, p: &mut Puppet<'_>, name: &str, arguments: &[u64], wanted: Answer) -> u64 {
        let (number, name) = Lines::number(name);
        *p.server.machine.passed.lock().unwrap() = 0;
        let answer = p.call(number, arguments);
        let good = match wanted {
            Is(value) => answer == value as i64,
            Any => answer > 0,
            Error(error) => answer == -i64::from(error),
        };
        assert!(good, "{name} {arguments:x?} answered {answer}, not {wanted:x?}");
        self.note(p, name, !matches!(wanted, Error(_)));
        answer as u64
    }

    /// One that ends the program.
    fn last(&mut self, server: &Server<Played>, name: &str, argument: u64, code: u64) {
        let (number, name) = Lines::number(name);
        let mut p = Puppet::new(server);
        *server.machine.passed.lock().unwrap() = 0;
        assert_eq!(p.try_call(number, &[argument]), Err(code), "{name}");
        self.note(&p, name, true);
    }
}

#[test]
fn each_does_what_the_table_says() {
    if !possible() {
        return;
    }
    let machine = Played::with_files();
    machine.streams.lock().unwrap().insert(1, Stream { terminal: true, ..Stream::default() });
    let server = Server::new(machine);
    let mut lines = Lines::default();
    let (p, l) = (&mut Puppet::new(&server), &mut lines);
    memory(l, p);
    let at = l.call(p, "MMAP", &[0, 8 * PAGE, RW, PRIVATE, NO_FD, 0], Any);
    files(l, p, at);
    descriptors(l, p, at);
    directories(l, p, at);
    signals(l, p, at);
    oneself(l, p, at);
    time_and_system(l, p, at);
    programs(l, p, at);
    for (name, code) in [("EXIT", 7), ("EXIT_GROUP", 8)] {
        l.last(&server, name, code, code);
    }
    // There is no handler to return from.
    l.last(&server, "RT_SIGRETURN", 0, 128 + u64::from(SIGSEGV));
    let mut wrong = Vec::new();
    for row in TABLE {
        let refused = row.to == to::REFUSED;
        match lines.0.get(row.name) {
            None => wrong.push(format!("{} was not tried", row.name)),
            Some((_, done)) if *done == refused => wrong.push(format!("{} is done: {done}", row.name)),
            Some((passed, _)) if !refused && *passed != row.to => {
                wrong.push(format!("{} is passed on to {passed}", row.name))
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "the table says otherwise:\n{}", wrong.join("\n"));
}

/// Who starts a program says what its streams are, and that may be any gate: on the starting thread none is called.
#[test]
fn a_start_calls_no_stream() {
    if !possible() {
        return;
    }
    let server = Server::new(Played::with_files());
    let task = Puppet::start(&server);
    let passed = || take(&mut *server.machine.passed.lock().unwrap());
    assert_eq!(passed() & to::STREAMS, 0, "by the start");
    Puppet::of(&server, task).call(Lines::number("GETPID").0, &[]);
    assert_eq!(passed() & to::STREAMS, to::STREAMS, "by the program");
}

/// All other numbers are refused, and counted.
#[test]
fn what_has_no_line_is_refused() {
    if !possible() {
        return;
    }
    let server = Server::new(Played::with_files());
    let mut p = Puppet::new(&server);
    *server.machine.passed.lock().unwrap() = 0;
    let others: Vec<u64> = (0..NUMBERS).filter(|number| TABLE.iter().all(|row| row.number != *number)).collect();
    assert_eq!(others.len() + TABLE.len(), NUMBERS as usize);
    for number in &others {
        assert_eq!(p.call(*number, &[0; 6]), -i64::from(ENOSYS), "call {number}");
    }
    assert_eq!(server.coverage.lock().lines().lines().count(), others.len());
    assert_eq!(*server.machine.passed.lock().unwrap(), 0);
}

fn memory(l: &mut Lines, p: &mut Puppet<'_>) {
    let at = l.call(p, "MMAP", &[0, 4 * PAGE, RW, PRIVATE, NO_FD, 0], Any);
    l.call(p, "MPROTECT", &[at, PAGE, PROT_READ.into()], Is(0));
    l.call(p, "MPROTECT", &[at, PAGE, RW], Is(0));
    l.call(p, "MADVISE", &[at, PAGE, MADV_DONTNEED.into()], Is(0));
    let at = l.call(p, "MREMAP", &[at, 4 * PAGE, 600 * PAGE, MREMAP_MAYMOVE.into()], Any);
    l.call(p, "MUNMAP", &[at, 600 * PAGE], Is(0));
    let end = l.call(p, "BRK", &[0], Any);
    l.call(p, "BRK", &[end + PAGE], Is(end + PAGE));
}

/// Puts words into memory.
fn words(p: &Puppet<'_>, at: u64, words: &[u64]) -> u64 {
    p.poke(at, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>());
    at
}

/// Puts a path there.
fn path(p: &Puppet<'_>, at: u64, path: &str) -> u64 {
    p.poke(at, format!("{path}\0").as_bytes());
    at
}

fn files(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    let (buffer, file) = (at + PAGE, path(p, at, "/data/file"));
    let fd = l.call(p, "OPEN", &[file, O_RDWR.into(), 0], Is(3));
    let mapped = l.call(p, "MMAP", &[0, PAGE, RW, MAP_PRIVATE.into(), fd, 0], Any);
    l.call(p, "MUNMAP", &[mapped, PAGE], Is(0));
    l.call(p, "READ", &[fd, buffer, 4], Is(4));
    assert_eq!(p.peek(buffer, 4), b"0123");
    l.call(p, "PREAD64", &[fd, buffer, 4, 2], Is(4));
    l.call(p, "LSEEK", &[fd, 1, SEEK_SET.into()], Is(1));
    l.call(p, "WRITE", &[fd, buffer, 2], Is(2));
    l.call(p, "PWRITE64", &[fd, buffer, 2, 6], Is(2));
    let two = words(p, at + 512, &[buffer, 2, buffer + 8, 3]);
    l.call(p, "READV", &[fd, two, 2], Is(5));
    l.call(p, "WRITEV", &[fd, two, 2], Is(5));
    // The streams that the program was given.
    p.server.machine.streams.lock().unwrap().get_mut(&0).unwrap().bytes = b"typed text".to_vec();
    l.call(p, "READ", &[0, buffer, 5], Is(5));
    l.call(p, "READV", &[0, two, 1], Is(2));
    l.call(p, "WRITE", &[1, buffer, 5], Is(5));
    l.call(p, "WRITEV", &[2, two, 2], Is(5));
    l.call(p, "LSEEK", &[fd, 0, SEEK_SET.into()], Is(0));
    l.call(p, "SENDFILE", &[1, fd, 0, 4], Is(4));
    l.call(p, "FSYNC", &[fd], Is(0));
    l.call(p, "FDATASYNC", &[fd], Is(0));
    l.call(p, "SYNC", &[], Is(0));
    l.call(p, "FADVISE64", &[fd, 0, 0, POSIX_FADV_NORMAL.into()], Is(0));
    l.call(p, "COPY_FILE_RANGE", &[fd, 0, fd, 0, 4, 0], Error(EXDEV));
    l.call(p, "FTRUNCATE", &[fd, 5], Is(0));
    // What is known of it.
    l.call(p, "STAT", &[file, buffer], Is(0));
    l.call(p, "LSTAT", &[file, buffer], Is(0));
    l.call(p, "FSTAT", &[fd, buffer], Is(0));
    l.call(p, "NEWFSTATAT", &[HERE, file, buffer, 0], Is(0));
    l.call(p, "STATX", &[HERE, file, 0, STATX_BASIC_STATS.into(), buffer], Is(0));
    assert_eq!(p.peek(buffer + 40, 8), 5u64.to_le_bytes(), "its length");
    l.call(p, "STATFS", &[file, buffer], Is(0));
    l.call(p, "FSTATFS", &[fd, buffer], Is(0));
    l.call(p, "ACCESS", &[file, R_OK.into()], Is(0));
    l.call(p, "FACCESSAT", &[HERE, file, R_OK.into()], Is(0));
    l.call(p, "FACCESSAT2", &[HERE, file, R_OK.into(), 0], Is(0));
    l.call(p, "CLOSE", &[fd], Is(0));
    let made = l.call(p, "CREAT", &[path(p, at, "/data/made"), 0o644], Is(3));
    l.call(p, "FCHMOD", &[made, 0o600], Is(0));
    l.call(p, "FCHOWN", &[made, NO_FD, NO_FD], Is(0));
    l.call(p, "CLOSE", &[made], Is(0));
    l.call(p, "CHMOD", &[at, 0o640], Is(0));
    l.call(p, "FCHMODAT", &[HERE, at, 0o644], Is(0));
    l.call(p, "CHOWN", &[at, NO_FD, NO_FD], Is(0));
    l.call(p, "FCHOWNAT", &[HERE, at, NO_FD, NO_FD, 0], Is(0));
    l.call(p, "UTIMENSAT", &[HERE, at, 0, 0], Is(0));
}

fn descriptors(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    let fds = at + PAGE;
    l.call(p, "PIPE", &[fds], Is(0));
    assert_eq!(p.peek(fds, 8), [3, 0, 0, 0, 4, 0, 0, 0]);
    l.call(p, "WRITE", &[4, at, 4], Is(4));
    // struct pollfd: number, what is asked, what is so.
    let asked = words(p, at + 512, &[3 | u64::from(POLLIN) << 32]);
    l.call(p, "POLL", &[asked, 1, 0], Is(1));
    l.call(p, "PPOLL", &[asked, 1, 0, 0, 8], Is(1));
    l.call(p, "PIPE2", &[fds, 0], Is(0));
    // In the place of files.
    let file = path(p, at + 700, "/data/file");
    for fd in 7..10 {
        l.call(p, "OPEN", &[file, O_RDONLY.into(), 0], Is(fd));
    }
    for (fd, len) in [(3, 4), (9, 5)] {
        l.call(p, "IOCTL", &[fd, FIONREAD.into(), at + 600], Is(0));
        assert_eq!(p.peek(at + 600, 4), [len, 0, 0, 0], "what can be read");
    }
    l.call(p, "IOCTL", &[1, TIOCGWINSZ.into(), at + 600], Is(0));
    l.call(p, "DUP", &[3], Is(10));
    l.call(p, "DUP2", &[3, 7], Is(7));
    l.call(p, "DUP3", &[3, 8, O_CLOEXEC.into()], Is(8));
    l.call(p, "FCNTL", &[8, F_GETFD.into(), 0], Is(FD_CLOEXEC.into()));
    l.call(p, "CLOSE_RANGE", &[3, 10, 0], Is(0));
    l.call(p, "READ", &[3, at, 1], Error(EBADF));
}

fn directories(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    let buffer = at + PAGE;
    let (one, two) = (at, at + 256);
    l.call(p, "MKDIR", &[path(p, one, "/d"), 0o755], Is(0));
    l.call(p, "CHDIR", &[one], Is(0));
    l.call(p, "GETCWD", &[buffer, 100], Is(3));
    assert_eq!(p.peek(buffer, 3), b"/d\0");
    l.call(p, "MKDIRAT", &[HERE, path(p, one, "e"), 0o755], Is(0));
    let fd = l.call(p, "OPENAT", &[HERE, one, O_DIRECTORY.into(), 0], Is(3));
    l.call(p, "GETDENTS64", &[fd, buffer, PAGE], Any);
    l.call(p, "FCHDIR", &[fd], Is(0));
    l.call(p, "GETCWD", &[buffer, 100], Is(5));
    l.call(p, "CLOSE", &[fd], Is(0));
    for (name, new) in [("RENAME", "/d/f"), ("RENAMEAT", "/d/g"), ("RENAMEAT2", "/d/h")] {
        let old = if name == "RENAME" { "/data/made".into() } else { String::from_utf8(p.peek(two, 4)).unwrap() };
        let (old, new) = (path(p, one, &old), path(p, two, new));
        let arguments = if name == "RENAME" { vec![old, new] } else { vec![HERE, old, HERE, new, 0] };
        l.call(p, name, &arguments, Is(0));
    }
    // A file has one name, and is none of another.
    path(p, one, "/d/new");
    l.call(p, "LINK", &[two, one], Error(EPERM));
    l.call(p, "LINKAT", &[HERE, two, HERE, one, 0], Error(EPERM));
    l.call(p, "SYMLINK", &[two, one], Error(EPERM));
    l.call(p, "SYMLINKAT", &[two, HERE, one], Error(EPERM));
    // The links that there are.
    for (name, arguments) in [("READLINK", vec![two, buffer, 9]), ("READLINKAT", vec![HERE, two, buffer, 9])] {
        l.call(p, name, &arguments, Error(EINVAL));
    }
    path(p, one, "/proc/self/exe");
    l.call(p, "READLINK", &[one, buffer, 100], Is(8));
    assert_eq!(p.peek(buffer, 8), b"/busybox");
    l.call(p, "READLINKAT", &[HERE, one, buffer, 100], Is(8));
    l.call(p, "UNLINK", &[two], Is(0));
    l.call(p, "RMDIR", &[path(p, one, "/d/e")], Is(0));
    l.call(p, "UNLINKAT", &[HERE, path(p, one, "/d"), AT_REMOVEDIR.into()], Is(0));
    l.call(p, "CHDIR", &[path(p, one, "/")], Is(0));
}

fn signals(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    // A handler, which is never called: the signal is blocked.
    let action = words(p, at, &[0x40_1000, 0, 0, 0]);
    let mask = words(p, at + 64, &[1 << (SIGUSR1 - 1)]);
    l.call(p, "RT_SIGACTION", &[SIGUSR1.into(), action, 0, 8], Is(0));
    l.call(p, "RT_SIGPROCMASK", &[SIG_BLOCK.into(), mask, 0, 8], Is(0));
    l.call(p, "KILL", &[p.task, SIGUSR1.into()], Is(0));
    l.call(p, "RT_SIGPENDING", &[at + 128, 8], Is(0));
    assert_eq!(p.peek(at + 128, 8), p.peek(mask, 8), "what waits");
    l.call(p, "TKILL", &[p.task, SIGUSR1.into()], Is(0));
    l.call(p, "TGKILL", &[p.task, p.task, SIGUSR1.into()], Is(0));
    for (name, arguments) in [("PAUSE", vec![]), ("RT_SIGSUSPEND", vec![mask, 8])] {
        let (number, name) = Lines::number(name);
        let three = [0, 1, 2].map(|n| arguments.get(n).copied().unwrap_or(0));
        assert!(p.waits(number, three), "{name}");
        l.note(p, name, true);
    }
    l.call(p, "SIGALTSTACK", &[0, at + 256], Is(0));
    assert_eq!(p.peek(at + 264, 4), SS_DISABLE.to_le_bytes());
}

fn oneself(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    let (own, buffer) = (p.task, at + PAGE);
    for name in ["GETPID", "GETTID"] {
        l.call(p, name, &[], Is(own));
    }
    l.call(p, "GETPPID", &[], Is(1));
    l.call(p, "SETSID", &[], Error(EPERM));
    for (name, arguments) in [("GETPGRP", vec![]), ("GETPGID", vec![0]), ("GETSID", vec![0])] {
        l.call(p, name, &arguments, Is(own));
    }
    for name in ["GETUID", "GETGID", "GETEUID", "GETEGID", "SETUID", "SETGID", "SCHED_YIELD", "GETGROUPS", "GETCPU"] {
        l.call(p, name, &[0; 2], Is(0));
    }
    for name in ["GETRESUID", "GETRESGID"] {
        l.call(p, name, &[buffer, buffer + 4, buffer + 8], Is(0));
    }
    l.call(p, "UMASK", &[0o27], Is(0o22));
    l.call(p, "GETRLIMIT", &[RLIMIT_NOFILE.into(), buffer], Is(0));
    l.call(p, "SETRLIMIT", &[RLIMIT_NOFILE.into(), buffer], Is(0));
    l.call(p, "PRLIMIT64", &[0, RLIMIT_STACK.into(), 0, buffer], Is(0));
    l.call(p, "PRCTL", &[PR_GET_NAME.into(), buffer], Is(0));
    assert_eq!(p.peek(buffer, 8), b"busybox\0");
    l.call(p, "ARCH_PRCTL", &[ARCH_SET_FS.into(), buffer], Is(0));
    l.call(p, "SCHED_GETAFFINITY", &[0, 8, buffer], Is(8));
    l.call(p, "SET_TID_ADDRESS", &[buffer], Is(own));
    l.call(p, "SET_ROBUST_LIST", &[buffer, 24], Is(0));
    l.call(p, "FUTEX", &[buffer, FUTEX_WAKE.into(), 1, 0], Is(0));
}

fn time_and_system(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    let buffer = at + PAGE;
    let short = words(p, at, &[0, 1000]);
    l.call(p, "NANOSLEEP", &[short, 0], Is(0));
    l.call(p, "CLOCK_NANOSLEEP", &[CLOCK_MONOTONIC.into(), 0, short, 0], Is(0));
    for (name, arguments) in [
        ("GETTIMEOFDAY", vec![buffer, 0]),
        ("GETRUSAGE", vec![0, buffer]),
        ("CLOCK_GETTIME", vec![CLOCK_REALTIME.into(), buffer]),
        ("CLOCK_GETRES", vec![CLOCK_REALTIME.into(), buffer]),
        ("UNAME", vec![buffer]),
        ("SYSINFO", vec![buffer]),
    ] {
        l.call(p, name, &arguments, Is(0));
    }
    l.call(p, "TIMES", &[buffer], Any);
    l.call(p, "TIME", &[0], Any);
    l.call(p, "GETRANDOM", &[buffer, 16, 0], Is(16));
    l.call(p, "RSEQ", &[buffer, 32, 0, 0], Error(ENOSYS));
}

fn programs(l: &mut Lines, p: &mut Puppet<'_>, at: u64) {
    l.call(p, "CLONE3", &[at, 88], Error(ENOSYS));
    for (name, arguments) in [("FORK", vec![]), ("VFORK", vec![]), ("CLONE", vec![SIGCHLD.into(), 0])] {
        let child = l.call(p, name, &arguments, Any);
        // A child may have a session of its own, or be brought into a group of its own.
        let mut own = Puppet::of(p.server, child);
        match name {
            "FORK" => drop(l.call(&mut own, "SETSID", &[], Is(child))),
            _ => drop(l.call(p, "SETPGID", &[child, child], Is(0))),
        }
        p.server.kill(child, SIGKILL.into()).unwrap();
        l.call(p, "WAIT4", &[child, at, 0, 0], Is(child));
        assert_eq!(p.peek(at, 4), SIGKILL.to_le_bytes(), "how it ended");
    }
    let program = path(p, at, "/busybox");
    let arguments = words(p, at + 64, &[program, 0]);
    *p.server.machine.passed.lock().unwrap() = 0;
    let (number, name) = Lines::number("EXECVE");
    assert!(p.try_call(number, &[program, arguments, 0]).is_ok());
    l.note(p, name, true);
}

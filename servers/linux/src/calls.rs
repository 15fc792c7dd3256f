//! The table of system calls: the only place where a call has a number. From it come the dispatch, the names for traces
//! and the list of what is covered. Calls of one family live in one file; a call that is not here answers `ENOSYS` and
//! is counted (`coverage.rs`). The tests compare numbers and names with `linux-raw-sys` and `syscalls`, and make each call (`tests/lines.rs`).

use crate::answer::Answer;
use crate::machine::Machine;
use crate::map::page_range;
use crate::process::Call;

pub mod directory;
pub mod exec;
pub mod file;
pub mod fork;
pub mod io;
pub mod memory;
pub mod process;
pub mod signal;
pub mod status;
pub mod system;
pub mod terminal;
pub mod time;

/// A register as an argument's type: C's conversion.
trait Argument {
    fn of(register: u64) -> Self;
}

macro_rules! arguments {
    ($($type:ty),*) => { $( impl Argument for $type {
        fn of(register: u64) -> $type {
            register as $type
        }
    } )* };
}

arguments!(u64, i64, u32, i32);

/// Calls that give something back, or end something, or need next to none: made also where this server has no memory.
const GIVE_BACK: [&str; 6] = ["CLOSE", "RT_SIGRETURN", "EXIT", "WAIT4", "KILL", "EXIT_GROUP"];

/// Whether a call with these arguments is one of those. What is unmapped in the middle makes two of one, and a heap that grows takes more.
pub fn gives_back<M: Machine>(call: &Call<'_, M>, number: u64, [first, second, ..]: [u64; 6]) -> bool {
    let map = || call.process.map.lock();
    match TABLE.iter().find(|row| row.number == number).map(|row| row.name) {
        Some("MUNMAP") => page_range(first, second).is_ok_and(|range| map().gives_back(&range)),
        Some("BRK") => first <= map().heap.end,
        name => name.is_some_and(|name| GIVE_BACK.contains(&name)),
    }
}

/// Whom a call may be passed on to; what is passed on to nobody is done here, with the kernel alone.
pub mod to {
    pub const FILES: u8 = 1;
    /// Of the console, of pipes, or of whoever else has given the program a stream.
    pub const STREAMS: u8 = 2;
    pub const PROCESSES: u8 = 4;
    /// It is refused with the error that programs expect where there is no such thing, whatever is asked for.
    pub const REFUSED: u8 = 8;
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub number: u64,
    pub name: &'static str,
    /// File that it is implemented in.
    pub family: &'static str,
    pub arguments: &'static [&'static str],
    /// Of [`to`].
    pub to: u8,
}

macro_rules! calls {
    ($( $family:ident { $( $name:ident = $number:literal => $function:ident ( $($argument:ident),* ) $(-> $($to:ident)|+)?; )* } )*) => {
        /// Does the call of a number; `None` if there is none.
        pub fn dispatch<M: Machine>(call: &mut Call<'_, M>, number: u64, registers: [u64; 6]) -> Option<Answer> {
            match number {
                $($( $number => {
                    #[allow(unused_mut, unused_variables)]
                    let mut next = registers.into_iter();
                    $( let $argument = Argument::of(next.next().unwrap_or(0)); )*
                    Some($family::$function(call, $($argument),*))
                } )*)*
                _ => None,
            }
        }

        /// All calls.
        pub const TABLE: &[Row] = &[ $($( Row {
            number: $number, name: stringify!($name), family: stringify!($family),
            arguments: &[$(stringify!($argument)),*], to: 0 $( $(| to::$to)+ )?,
        }, )*)* ];
    };
}

calls! {
    io {
        READ = 0 => read(fd, buffer, len) -> FILES | STREAMS;
        WRITE = 1 => write(fd, buffer, len) -> FILES | STREAMS;
        LSEEK = 8 => lseek(fd, offset, whence) -> FILES;
        PREAD64 = 17 => pread64(fd, buffer, len, offset) -> FILES;
        PWRITE64 = 18 => pwrite64(fd, buffer, len, offset) -> FILES;
        READV = 19 => readv(fd, buffers, count) -> FILES | STREAMS;
        WRITEV = 20 => writev(fd, buffers, count) -> FILES | STREAMS;
        SENDFILE = 40 => sendfile(to, from, offset, len) -> FILES | STREAMS;
        FSYNC = 74 => fsync(fd);
        FDATASYNC = 75 => fsync(fd);
        SYNC = 162 => sync();
        FADVISE64 = 221 => fadvise64(fd, offset, len, advice);
        COPY_FILE_RANGE = 326 => copy_file_range(from, from_offset, to, to_offset, len, flags) -> REFUSED;
    }
    file {
        OPEN = 2 => open(path, flags, mode) -> FILES;
        CLOSE = 3 => close(fd) -> FILES;
        PIPE = 22 => pipe(fds);
        DUP = 32 => dup(fd);
        DUP2 = 33 => dup2(from, to) -> FILES;
        FCNTL = 72 => fcntl(fd, command, argument);
        FTRUNCATE = 77 => ftruncate(fd, len) -> FILES;
        CREAT = 85 => creat(path, mode) -> FILES;
        OPENAT = 257 => openat(directory, path, flags, mode) -> FILES;
        DUP3 = 292 => dup3(from, to, flags) -> FILES;
        PIPE2 = 293 => pipe2(fds, flags);
        CLOSE_RANGE = 436 => close_range(first, last, flags) -> FILES;
    }
    status {
        STAT = 4 => stat(path, buffer) -> FILES;
        FSTAT = 5 => fstat(fd, buffer) -> FILES;
        LSTAT = 6 => lstat(path, buffer) -> FILES;
        ACCESS = 21 => access(path, mode) -> FILES;
        STATFS = 137 => statfs(path, buffer) -> FILES;
        FSTATFS = 138 => fstatfs(fd, buffer);
        NEWFSTATAT = 262 => newfstatat(directory, path, buffer, flags) -> FILES;
        FACCESSAT = 269 => faccessat(directory, path, mode) -> FILES;
        STATX = 332 => statx(directory, path, flags, mask, buffer) -> FILES;
        FACCESSAT2 = 439 => faccessat2(directory, path, mode, flags) -> FILES;
    }
    directory {
        GETCWD = 79 => getcwd(buffer, len);
        CHDIR = 80 => chdir(path) -> FILES;
        FCHDIR = 81 => fchdir(fd);
        RENAME = 82 => rename(from, to) -> FILES;
        MKDIR = 83 => mkdir(path, mode) -> FILES;
        RMDIR = 84 => rmdir(path) -> FILES;
        LINK = 86 => link(from, to) -> REFUSED;
        UNLINK = 87 => unlink(path) -> FILES;
        SYMLINK = 88 => symlink(target, path) -> REFUSED;
        READLINK = 89 => readlink(path, buffer, len) -> FILES;
        CHMOD = 90 => chmod(path, mode) -> FILES;
        FCHMOD = 91 => fchmod(fd, mode) -> FILES;
        CHOWN = 92 => chown(path, user, group) -> FILES;
        FCHOWN = 93 => fchown(fd, user, group) -> FILES;
        GETDENTS64 = 217 => getdents64(fd, buffer, len) -> FILES;
        MKDIRAT = 258 => mkdirat(directory, path, mode) -> FILES;
        FCHOWNAT = 260 => fchownat(directory, path, user, group, flags) -> FILES;
        UNLINKAT = 263 => unlinkat(directory, path, flags) -> FILES;
        RENAMEAT = 264 => renameat(from_directory, from, to_directory, to) -> FILES;
        LINKAT = 265 => linkat(from_directory, from, to_directory, to, flags) -> REFUSED;
        SYMLINKAT = 266 => symlinkat(target, directory, path) -> REFUSED;
        READLINKAT = 267 => readlinkat(directory, path, buffer, len) -> FILES;
        FCHMODAT = 268 => fchmodat(directory, path, mode) -> FILES;
        UTIMENSAT = 280 => utimensat(directory, path, times, flags) -> FILES;
        RENAMEAT2 = 316 => renameat2(from_directory, from, to_directory, to, flags) -> FILES;
    }
    terminal {
        POLL = 7 => poll(fds, count, timeout);
        IOCTL = 16 => ioctl(fd, request, argument) -> FILES | STREAMS;
        PPOLL = 271 => ppoll(fds, count, timeout, mask, mask_len);
    }
    memory {
        MMAP = 9 => mmap(address, len, protection, flags, fd, offset) -> FILES;
        MPROTECT = 10 => mprotect(address, len, protection);
        MUNMAP = 11 => munmap(address, len);
        BRK = 12 => brk(end);
        MREMAP = 25 => mremap(address, len, new_len, flags, new_address);
        MADVISE = 28 => madvise(address, len, advice);
    }
    signal {
        RT_SIGACTION = 13 => rt_sigaction(number, new, old, mask_len);
        RT_SIGPROCMASK = 14 => rt_sigprocmask(how, new, old, mask_len);
        RT_SIGRETURN = 15 => rt_sigreturn();
        PAUSE = 34 => pause();
        KILL = 62 => kill(target, number);
        RT_SIGPENDING = 127 => rt_sigpending(mask, mask_len);
        RT_SIGSUSPEND = 130 => rt_sigsuspend(mask, mask_len);
        SIGALTSTACK = 131 => sigaltstack(new, old);
        TKILL = 200 => tkill(thread, number);
        TGKILL = 234 => tgkill(target, thread, number);
    }
    process {
        SCHED_YIELD = 24 => sched_yield();
        GETPID = 39 => getpid();
        EXIT = 60 => exit(code);
        UMASK = 95 => umask(mask);
        GETRLIMIT = 97 => getrlimit(resource, limit);
        GETUID = 102 => getuid();
        GETGID = 104 => getuid();
        SETUID = 105 => setuid(user);
        SETGID = 106 => setuid(user);
        GETEUID = 107 => getuid();
        GETEGID = 108 => getuid();
        SETPGID = 109 => setpgid(process, group);
        GETPPID = 110 => getppid() -> PROCESSES;
        GETPGRP = 111 => getpgrp();
        SETSID = 112 => setsid();
        GETGROUPS = 115 => getgroups(count, list);
        GETRESUID = 118 => getresuid(real, effective, saved);
        GETRESGID = 120 => getresuid(real, effective, saved);
        GETPGID = 121 => getpgid(process);
        GETSID = 124 => getsid(process);
        PRCTL = 157 => prctl(option, argument);
        ARCH_PRCTL = 158 => arch_prctl(code, address);
        SETRLIMIT = 160 => setrlimit(resource, limit);
        GETTID = 186 => getpid();
        FUTEX = 202 => futex(word, operation, value, timeout);
        SCHED_GETAFFINITY = 204 => sched_getaffinity(process, len, mask);
        SET_TID_ADDRESS = 218 => set_tid_address(address);
        EXIT_GROUP = 231 => exit(code);
        SET_ROBUST_LIST = 273 => set_robust_list(head, len);
        PRLIMIT64 = 302 => prlimit64(process, resource, new, old);
        GETCPU = 309 => getcpu(processor, node);
    }
    fork {
        CLONE = 56 => clone(flags, stack, parent_number, own_number, thread_local) -> PROCESSES;
        FORK = 57 => fork() -> PROCESSES;
        VFORK = 58 => fork() -> PROCESSES;
        WAIT4 = 61 => wait4(target, status, options, usage);
        CLONE3 = 435 => clone3() -> REFUSED;
    }
    exec {
        EXECVE = 59 => execve(path, arguments, environment) -> FILES;
    }
    time {
        NANOSLEEP = 35 => nanosleep(request, remaining);
        GETTIMEOFDAY = 96 => gettimeofday(time, zone);
        GETRUSAGE = 98 => getrusage(who, usage);
        TIMES = 100 => times(buffer);
        TIME = 201 => time(time);
        CLOCK_GETTIME = 228 => clock_gettime(clock, time);
        CLOCK_GETRES = 229 => clock_getres(clock, resolution);
        CLOCK_NANOSLEEP = 230 => clock_nanosleep(clock, flags, request, remaining);
    }
    system {
        UNAME = 63 => uname(buffer);
        SYSINFO = 99 => sysinfo(buffer);
        GETRANDOM = 318 => getrandom(buffer, len, flags);
        RSEQ = 334 => rseq() -> REFUSED;
    }
}

/// The row of a call.
#[must_use]
pub fn row(number: u64) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.number == number)
}

/// The name of any call that Linux has.
#[must_use]
pub fn name(number: u64) -> &'static str {
    usize::try_from(number).ok().and_then(syscalls::Sysno::new).map_or("?", |call| call.name())
}

#[cfg(test)]
mod tests;

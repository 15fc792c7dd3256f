//! System calls one by one, made for a program that stands still on the machine that a host plays.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;
use personality::calls::TABLE;
use personality::server::Server;
use played::{HERE, NO_FD, PAGE, PRIVATE, Played, Puppet, RW, possible};

fn server() -> Server<Played> {
    Server::new(Played::with_files())
}

fn error(number: u32) -> i64 {
    -i64::from(number)
}

fn nr(number: u32) -> u64 {
    u64::from(number)
}

impl Puppet<'_> {
    fn map(&mut self, len: u64, protection: u64) -> u64 {
        let at = self.call(nr(__NR_mmap), &[0, len, protection, PRIVATE, NO_FD, 0]);
        assert!(at > 0, "{at}");
        at as u64
    }

    fn agree(&self) {
        assert_eq!(self.mapped(), self.recorded());
    }
}

#[test]
fn memory_comes_and_goes() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let sections = server.machine.sections();
    let at = p.map(5 * PAGE, RW);
    assert_eq!(p.peek(at, 3), [0; 3]);
    p.poke(at + PAGE, b"kept");
    assert_eq!(p.call(nr(__NR_munmap), &[at + 2 * PAGE, PAGE]), 0);
    p.agree();
    assert_eq!(server.machine.sections(), sections + 1, "part of it is still there");
    assert_eq!(p.peek(at + PAGE, 4), b"kept");
    assert_eq!(p.call(nr(__NR_munmap), &[at, 5 * PAGE]), 0);
    assert_eq!(server.machine.sections(), sections, "all of it is gone");

    // In the way of what is there, or not.
    let at = p.map(4 * PAGE, RW);
    let fixed = (MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS) as u64;
    assert_eq!(p.call(nr(__NR_mmap), &[at + PAGE, PAGE, PROT_READ.into(), fixed, NO_FD, 0]), (at + PAGE) as i64);
    let polite = (MAP_FIXED_NOREPLACE | MAP_PRIVATE | MAP_ANONYMOUS) as u64;
    assert_eq!(p.call(nr(__NR_mmap), &[at, PAGE, RW, polite, NO_FD, 0]), error(EEXIST));
    p.agree();
    assert_eq!(p.call(nr(__NR_munmap), &[at, 4 * PAGE]), 0);
    assert_eq!(server.machine.sections(), sections);
    for (arguments, answer) in [
        ([0, 0, RW, PRIVATE, NO_FD, 0], EINVAL),
        ([0, PAGE, RW, PRIVATE, NO_FD, 1], EINVAL),
        ([0, PAGE, RW, MAP_ANONYMOUS.into(), NO_FD, 0], EINVAL),
        ([0, u64::MAX, RW, PRIVATE, NO_FD, 0], ENOMEM),
        ([0, 1 << 46, RW, PRIVATE, NO_FD, 0], ENOMEM),
        ([1 << 46, PAGE, RW, fixed, NO_FD, 0], ENOMEM),
        ([0, PAGE, RW, fixed, NO_FD, 0], EPERM),
        ([0, PAGE, RW, MAP_PRIVATE.into(), NO_FD, 0], EBADF),
        ([0, PAGE, RW | 4, PRIVATE, NO_FD, 0], EACCES),
        ([0, PAGE, 4, PRIVATE, NO_FD, 0], EACCES),
        ([0, PAGE, RW, PRIVATE | MAP_HUGETLB as u64, NO_FD, 0], EINVAL),
    ] {
        assert_eq!(p.call(nr(__NR_mmap), &arguments), error(answer), "{arguments:x?}");
    }
    p.agree();
}

#[test]
fn protection_is_changed_page_by_page() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(4 * PAGE, RW);
    p.poke(at + PAGE, b"kept");
    assert_eq!(p.call(nr(__NR_mprotect), &[at + PAGE, PAGE, PROT_NONE.into()]), 0);
    p.agree();
    assert_eq!(p.call(nr(__NR_write), &[1, at + PAGE, 4]), error(EFAULT));
    assert_eq!(p.call(nr(__NR_mprotect), &[at + PAGE, 2 * PAGE, PROT_READ.into()]), 0);
    p.agree();
    assert_eq!(p.call(nr(__NR_write), &[1, at + PAGE, 4]), 4);
    assert_eq!(p.call(nr(__NR_getrandom), &[at + PAGE, 4, 0]), error(EFAULT));
    assert_eq!(p.call(nr(__NR_mprotect), &[at, 4 * PAGE, RW]), 0);
    assert_eq!(p.call(nr(__NR_getrandom), &[at + PAGE, 4, 0]), 4);
    assert_eq!(p.call(nr(__NR_mprotect), &[at, 5 * PAGE, RW]), error(ENOMEM));
    assert_eq!(p.call(nr(__NR_mprotect), &[at, PAGE, RW | 4]), error(EACCES));
    assert_eq!(p.call(nr(__NR_mprotect), &[0x40_1000, PAGE, RW]), error(EACCES), "code is never written");
    p.agree();
}

#[test]
fn the_heap_grows_and_shrinks() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let start = p.call(nr(__NR_brk), &[0]) as u64;
    let sections = server.machine.sections();
    for end in [start + 100, start + 10 * PAGE, start + 10 * PAGE + 1, start + 300 * PAGE] {
        assert_eq!(p.call(nr(__NR_brk), &[end]) as u64, end);
        p.agree();
    }
    assert_eq!(server.machine.sections(), sections + 1);
    p.poke(start + 5 * PAGE, b"gone");
    p.poke(start, b"kept");
    assert_eq!(p.call(nr(__NR_brk), &[start + 2 * PAGE]) as u64, start + 2 * PAGE);
    p.agree();
    assert_eq!(p.call(nr(__NR_brk), &[start + 6 * PAGE]) as u64, start + 6 * PAGE);
    assert_eq!(p.peek(start + 5 * PAGE, 4), [0; 4]);
    assert_eq!(p.peek(start, 4), b"kept");
    for bad in [start - 1, u64::MAX, start + (2 << 30)] {
        assert_eq!(p.call(nr(__NR_brk), &[bad]) as u64, start + 6 * PAGE);
    }
    assert_eq!(p.call(nr(__NR_brk), &[start]) as u64, start);
    assert_eq!(server.machine.sections(), sections);
    // Something else is in the way.
    let fixed = (MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS) as u64;
    p.call(nr(__NR_mmap), &[start + 4 * PAGE, PAGE, RW, fixed, NO_FD, 0]);
    assert_eq!(p.call(nr(__NR_brk), &[start + 4 * PAGE]) as u64, start + 4 * PAGE);
    assert_eq!(p.call(nr(__NR_brk), &[start + 5 * PAGE]) as u64, start + 4 * PAGE);
    p.agree();
}

#[test]
fn mappings_are_moved_with_what_is_in_them() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let above = p.map(PAGE, RW);
    let at = p.map(2 * PAGE, RW);
    assert_eq!(at + 2 * PAGE, above, "it has to move");
    p.poke(at + PAGE, b"kept");
    let sections = server.machine.sections();
    assert_eq!(p.call(nr(__NR_mremap), &[at, 2 * PAGE, 3 * PAGE, 0]), error(ENOMEM));
    let mut at = p.call(nr(__NR_mremap), &[at, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE.into()]) as u64;
    let mut len = 3 * PAGE;
    for pages in [4, 600, 1000, 40_000] {
        at = p.call(nr(__NR_mremap), &[at, len, pages * PAGE, MREMAP_MAYMOVE.into()]) as u64;
        len = pages * PAGE;
        assert_eq!(p.peek(at + PAGE, 4), b"kept");
        assert_eq!(p.peek(at + len - 4, 4), [0; 4]);
        p.agree();
        assert_eq!(server.machine.sections(), sections);
    }
    assert_eq!(p.call(nr(__NR_mremap), &[at, len, 2 * PAGE, 0]) as u64, at);
    p.agree();
    assert_eq!(p.call(nr(__NR_mremap), &[at, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE.into()]), error(EFAULT));
    assert_eq!(p.call(nr(__NR_mremap), &[at + 1, PAGE, PAGE, 0]), error(EINVAL));
    assert_eq!(p.call(nr(__NR_mremap), &[at, PAGE, 0, 0]), error(EINVAL));
}

#[test]
fn files_are_read_and_mapped() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(PAGE, RW);
    p.poke(at, b"/data/file\0");
    let open = |p: &mut Puppet<'_>, flags: u32| p.call(nr(__NR_openat), &[HERE, at, flags.into(), 0]);
    assert_eq!(open(&mut p, O_RDONLY | O_DIRECTORY), error(ENOTDIR));
    assert_eq!(open(&mut p, O_RDONLY | O_CREAT | O_EXCL), error(EEXIST));
    let fd = open(&mut p, O_RDONLY | O_CREAT) as u64;
    assert_eq!(fd, 3);
    assert_eq!(p.call(nr(__NR_read), &[fd, at, 4]), 4);
    assert_eq!(p.peek(at, 4), b"0123");
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 100, 7]), 3);
    assert_eq!(p.peek(at, 3), b"789");
    assert_eq!(p.call(nr(__NR_lseek), &[fd, (-2i64) as u64, SEEK_END.into()]), 8);
    assert_eq!(p.call(nr(__NR_read), &[fd, at, 100]), 2);
    assert_eq!(p.call(nr(__NR_read), &[fd, at, 100]), 0);
    assert_eq!(p.call(nr(__NR_lseek), &[fd, (-1i64) as u64, SEEK_SET.into()]), error(EINVAL));
    assert_eq!(p.call(nr(__NR_write), &[fd, at, 1]), error(EBADF));
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 1, u64::MAX]), error(EINVAL));
    // More than there is to read needs no more memory than there is to read.
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at + PAGE - 10, u64::MAX, 0]), 10);

    let mapped = p.call(nr(__NR_mmap), &[0, PAGE, RW, MAP_PRIVATE.into(), fd, 0]) as u64;
    assert_eq!(p.peek(mapped, 12), b"0123456789\0\0");
    p.poke(mapped, b"mine");
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 4, 0]), 4);
    assert_eq!(p.peek(at, 4), b"0123");
    assert_eq!(p.call(nr(__NR_mmap), &[0, PAGE, RW, MAP_SHARED.into(), fd, 0]), error(EACCES));
    assert!(p.call(nr(__NR_mmap), &[0, PAGE, 1, MAP_SHARED.into(), fd, 0]) > 0);
    p.agree();

    p.poke(at, b"/data/new\0");
    assert_eq!(open(&mut p, O_RDONLY), error(ENOENT));
    p.poke(at, b"/dev/new\0");
    assert_eq!(open(&mut p, O_WRONLY | O_CREAT), error(EROFS));
    p.poke(at, b"/none/new\0");
    assert_eq!(open(&mut p, O_WRONLY | O_CREAT), error(ENOENT));
    assert_eq!(p.call(nr(__NR_close), &[fd]), 0);
    assert_eq!(p.call(nr(__NR_close), &[fd]), error(EBADF));
}

#[test]
fn files_are_made_written_and_removed() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(PAGE, RW);
    let text = at + 1024;
    p.poke(text, b"hello world");
    let open = |p: &mut Puppet<'_>, path: &[u8], flags: u32| {
        p.poke(at, &[path, b"\0"].concat());
        p.call(nr(__NR_openat), &[HERE, at, flags.into(), 0o644])
    };
    let path = |p: &mut Puppet<'_>, number, path: &[u8]| {
        p.poke(at, &[path, b"\0"].concat());
        p.call(nr(number), &[at, 0o755])
    };
    let rename = |p: &mut Puppet<'_>, from: &[u8], to: &[u8]| {
        p.poke(at, &[from, b"\0"].concat());
        p.poke(at + 256, &[to, b"\0"].concat());
        p.call(nr(__NR_rename), &[at, at + 256])
    };
    assert_eq!(path(&mut p, __NR_mkdir, b"d"), 0);
    assert_eq!(path(&mut p, __NR_mkdir, b"d"), error(EEXIST));
    assert_eq!(path(&mut p, __NR_mkdir, b"/dev/d"), error(EROFS));
    assert_eq!(open(&mut p, b"d", O_WRONLY), error(EISDIR));
    assert_eq!(open(&mut p, b"d/f/", O_WRONLY | O_CREAT), error(EISDIR));
    let fd = open(&mut p, b"d/f", O_RDWR | O_CREAT | O_EXCL) as u64;
    assert_eq!(open(&mut p, b"d/f", O_RDWR | O_CREAT | O_EXCL), error(EEXIST));
    assert_eq!(p.call(nr(__NR_fchmod), &[fd, 0o600]), 0);
    assert_eq!(p.call(nr(__NR_fchown), &[fd, u64::from(u32::MAX), 0]), 0);
    assert_eq!(p.call(nr(__NR_fchown), &[fd, 77, 0]), error(EPERM));
    assert_eq!(p.call(nr(__NR_write), &[fd, text, 5]), 5);
    assert_eq!(p.call(nr(__NR_pwrite64), &[fd, text + 6, 5, 6]), 5);
    assert_eq!(p.call(nr(__NR_lseek), &[fd, 0, SEEK_CUR.into()]), 5);
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 100, 0]), 11);
    assert_eq!(p.peek(at, 11), b"hello\0world");
    assert_eq!(p.call(nr(__NR_ftruncate), &[fd, 3]), 0);
    assert_eq!(p.call(nr(__NR_ftruncate), &[fd, u64::MAX]), error(EINVAL));
    let end = open(&mut p, b"d/f", O_WRONLY | O_APPEND) as u64;
    assert_eq!(p.call(nr(__NR_read), &[end, at, 1]), error(EBADF));
    assert_eq!(p.call(nr(__NR_write), &[end, text, 2]), 2);
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 100, 0]), 5);
    assert_eq!(p.peek(at, 5), b"helhe");
    assert_eq!(path(&mut p, __NR_rmdir, b"d"), error(ENOTEMPTY));
    assert_eq!(path(&mut p, __NR_unlink, b"d"), error(EISDIR));
    assert_eq!(rename(&mut p, b"d", b"d/x"), error(EINVAL));
    assert_eq!(rename(&mut p, b"d/f", b"g"), 0);
    assert_eq!(path(&mut p, __NR_rmdir, b"d/"), 0);
    assert_eq!(path(&mut p, __NR_unlink, b"g"), 0);
    // What is open stays.
    assert_eq!(p.call(nr(__NR_pread64), &[fd, at, 100, 0]), 5);
    // Modes and owners are known by the name, which nothing has now.
    assert_eq!(p.call(nr(__NR_fchmod), &[fd, 0o600]), error(ENOENT));
    assert_eq!(p.call(nr(__NR_fchmod), &[99, 0o600]), error(EBADF));
    // A file that came with the image is written elsewhere.
    let other = open(&mut p, b"data/file", O_RDWR) as u64;
    assert_eq!(p.call(nr(__NR_pwrite64), &[other, text, 2, 8]), 2);
    assert_eq!(p.call(nr(__NR_pread64), &[other, at, 100, 0]), 10);
    assert_eq!(p.peek(at, 10), b"01234567he");
    let doubled = p.call(nr(__NR_dup), &[other]) as u64;
    assert_eq!(server.machine.open_files(), 3);
    assert_eq!(p.call(nr(__NR_close), &[other]), 0);
    assert_eq!(server.machine.open_files(), 3);
    assert_eq!(p.call(nr(__NR_dup2), &[0, doubled]), doubled as i64);
    assert_eq!(p.call(nr(__NR_close_range), &[fd, fd + 100, 0]), 0);
    assert_eq!(server.machine.open_files(), 0);
    // And what is still open when the program ends.
    open(&mut p, b"data/file", O_RDONLY);
    open(&mut p, b"data/file", O_RDONLY);
    assert_eq!(server.machine.open_files(), 2);
    let task = server.all()[0];
    server.kill(task, 9).unwrap();
    assert_eq!(server.machine.open_files(), 0);
}

#[test]
fn strings_end_where_memory_ends() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(2 * PAGE, RW);
    p.call(nr(__NR_munmap), &[at + PAGE, PAGE]);
    let end = at + PAGE;
    p.poke(end - 6, b"/data\0");
    assert_eq!(p.call(nr(__NR_chdir), &[end - 6]), 0);
    p.poke(end - 5, b"/data");
    assert_eq!(p.call(nr(__NR_chdir), &[end - 5]), error(EFAULT));
    p.poke(at, &[b'x'; 4096]);
    let long = p.map(2 * PAGE, RW);
    p.poke(long, &[b'x'; 8192]);
    assert_eq!(p.call(nr(__NR_chdir), &[long]), error(ENAMETOOLONG));
    assert_eq!(p.call(nr(__NR_getcwd), &[at, 5]), error(ERANGE));
    assert_eq!(p.call(nr(__NR_getcwd), &[at, 6]), 6);
    assert_eq!(p.peek(at, 6), b"/data\0");
}

#[test]
fn a_pipe_of_ones_own() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(32 * PAGE, RW);
    assert_eq!(p.call(nr(__NR_pipe2), &[at, 0]), 0);
    assert_eq!(p.peek(at, 8), [3, 0, 0, 0, 4, 0, 0, 0]);
    p.poke(at, b"text");
    assert_eq!(p.call(nr(__NR_write), &[4, at, 4]), 4);
    assert_eq!(p.call(nr(__NR_write), &[3, at, 4]), error(EBADF));
    assert_eq!(p.call(nr(__NR_read), &[3, at + 8, 100]), 4);
    assert_eq!(p.peek(at + 8, 4), b"text");
    assert!(p.waits(nr(__NR_read), [3, at, 1]));
    assert_eq!(p.call(nr(__NR_write), &[4, at, 15 * PAGE + 100]), (15 * PAGE + 100) as i64);
    assert!(p.waits(nr(__NR_write), [4, at, PAGE]), "a few bytes are written together or not at all");
    assert_eq!(p.call(nr(__NR_write), &[4, at, 32 * PAGE]), (PAGE - 100) as i64);
    assert!(p.waits(nr(__NR_write), [4, at, 1]));
    assert_eq!(p.call(nr(__NR_fcntl), &[4, F_SETFL.into(), O_NONBLOCK.into()]), 0);
    assert_eq!(p.call(nr(__NR_write), &[4, at, 1]), error(EAGAIN));
    assert_eq!(p.call(nr(__NR_close), &[4]), 0);
    assert_eq!(p.call(nr(__NR_read), &[3, at, 32 * PAGE]), 64 << 10);
    assert_eq!(p.call(nr(__NR_read), &[3, at, 1]), 0);
    // With nobody to read, a write ends the program as on Linux.
    assert_eq!(p.call(nr(__NR_pipe2), &[at, 0]), 0);
    assert_eq!(p.call(nr(__NR_close), &[4]), 0);
    assert_eq!(p.try_call(nr(__NR_write), &[5, at, 1]), Err(128 + 13));
}

#[test]
fn output_that_nobody_reads_ends_the_program() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let at = p.map(PAGE, RW);
    server.machine.streams.lock().unwrap().get_mut(&1).unwrap().closed = true;
    // Ignored, it is an error; otherwise the end.
    let mut ignore = [0; 32];
    ignore[0] = 1;
    p.poke(at, &ignore);
    assert_eq!(p.call(nr(__NR_rt_sigaction), &[13, at, 0, 8]), 0);
    assert_eq!(p.call(nr(__NR_write), &[1, at, 1]), error(EPIPE));
    p.poke(at, &[0; 32]);
    assert_eq!(p.call(nr(__NR_rt_sigaction), &[13, at, 0, 8]), 0);
    assert_eq!(p.try_call(nr(__NR_write), &[1, at, 1]), Err(141));
}

#[test]
fn what_is_not_there_is_counted() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    assert_eq!(p.call(9999, &[]), error(ENOSYS));
    assert_eq!(p.call(nr(__NR_socket), &[1, 1, 0]), error(ENOSYS));
    assert_eq!(p.call(nr(__NR_socket), &[1, 1, 0]), error(ENOSYS));
    let threads = u64::from(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD);
    assert_eq!(p.call(nr(__NR_clone), &[threads]), error(ENOSYS));
    assert_eq!(p.call(nr(__NR_clone), &[threads]), error(ENOSYS));
    let lines = server.coverage.lock().lines();
    assert!(lines.contains("2  call 41   socket  (last: busybox)"), "{lines}");
    assert!(lines.contains("1  call 9999 ?  (last: busybox)"), "{lines}");
    assert!(lines.contains(&format!("2  clone of a thread, flags {threads:#x}")), "{lines}");
    let said = server.machine.streams.lock().unwrap().remove(&2).unwrap().bytes;
    assert_eq!(said, b"musubi: Linux threads are not there yet\n", "once");
}

/// Every call, with addresses and numbers that programs should not use: an answer, and nothing else is disturbed.
#[test]
fn nothing_that_a_program_passes_breaks_the_server() {
    if !possible() {
        return;
    }
    let server = server();
    let mut p = Puppet::new(&server);
    let good = p.map(16 * PAGE, RW);
    let read_only = p.map(PAGE, PROT_READ.into());
    let hole = p.map(3 * PAGE, RW);
    p.call(nr(__NR_munmap), &[hole + PAGE, PAGE]);
    let values = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        100,
        4095,
        4096,
        65536,
        good,
        good + 1,
        good + 16 * PAGE - 4,
        read_only,
        hole + PAGE - 4,
        hole + PAGE,
        0x40_1000,
        (1 << 46) - 8,
        1 << 46,
        (1 << 46) + (4 << 20),
        1 << 47,
        i64::MAX as u64,
        1 << 63,
        u64::MAX - 4095,
        u64::MAX - 7,
        u64::MAX,
        HERE,
    ];
    // These end the program, stand still for ever, or start another one.
    let left_out =
        ["EXIT", "EXIT_GROUP", "FUTEX", "POLL", "PPOLL", "NANOSLEEP", "CLOCK_NANOSLEEP", "RT_SIGRETURN", "MUNMAP"];
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        values[(state >> 33) as usize % values.len()]
    };
    for row in TABLE.iter().filter(|row| !left_out.contains(&row.name)) {
        // A child is a process of this host, with a copy of everything.
        let times = if row.family == "fork" { 6 } else { 60 };
        for _ in 0..times {
            let arguments = [draw(), draw(), draw(), draw(), draw(), draw()];
            // What would end this program, take its memory away or fill the disk of this host.
            let fixed = row.name == "MMAP" && (arguments[3] & u64::from(MAP_FIXED) != 0 || arguments[1] > 1 << 20);
            let raises = matches!(row.name, "KILL" | "TKILL" | "TGKILL");
            let large =
                matches!(row.name, "MREMAP" | "GETRANDOM") && arguments.iter().any(|&a| a > 1 << 20 && a < 1 << 40);
            if fixed || raises || large {
                continue;
            }
            match p.try_call(row.number, &arguments) {
                Ok(child) if child > 0 && row.family == "fork" => server.kill(child as u64, 9).unwrap(),
                Ok(answer) => assert!(answer > -4096, "{} {arguments:x?}", row.name),
                Err(code) => panic!("{} {arguments:x?} ended it with {code}", row.name),
            }
        }
        p.agree();
    }
}

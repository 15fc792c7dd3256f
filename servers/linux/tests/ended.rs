//! What programs leave behind: those that are ended in the middle of a call, and images that nobody needs any more.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use std::sync::atomic::Ordering;

use linux_raw_sys::errno::EINTR;
use linux_raw_sys::general::*;
use musubi::interfaces::files::how;
use personality::answer::End;
use personality::machine::Machine;
use personality::server::Server;
use played::{NO_FD, PRIVATE, Played, Puppet, RW, possible, run};

/// A call's number, as calls are made with.
fn nr(number: u32) -> u64 {
    number.into()
}

fn memory(p: &mut Puppet<'_>, len: u64) -> u64 {
    p.call(nr(__NR_mmap), &[0, len, RW, PRIVATE, NO_FD, 0]) as u64
}

fn open(p: &mut Puppet<'_>, at: u64, path: &[u8], flags: u32) -> u64 {
    p.poke(at, path);
    p.call(nr(__NR_open), &[at, flags.into(), 0o644]) as u64
}

#[test]
fn nothing_is_kept_for_who_never_comes_back() {
    if !possible() {
        return;
    }
    let server = Server::new(Played::with_files());
    let mut p = Puppet::new(&server);
    let at = memory(&mut p, 4096);
    open(&mut p, at, b"/data/file\0", O_RDONLY);
    p.call(nr(__NR_pipe), &[at]);
    // As a thread that was ended inside of another server: it lets go of nothing.
    let record = server.process(p.task).unwrap();
    assert!(server.machine.open_files() == 1 && record.map.lock().iter().next().is_some());
    server.end(p.task, End::by(SIGKILL.into()));
    assert!(server.machine.open_files() == 0 && record.map.lock().iter().next().is_none());
    assert!(record.descriptors.lock().get(1).is_err() && server.process(p.task).is_none());
}

#[test]
fn whoever_is_killed_leaves_with_what_is_done() {
    if !possible() {
        return;
    }
    const LEN: u64 = 3 << 20;
    let server = Server::new(Played::with_files());
    let mut p = Puppet::new(&server);
    let at = memory(&mut p, LEN);
    let zero = open(&mut p, at, b"/dev/zero\0", O_RDONLY);
    let file = open(&mut p, at, b"/data/long\0", O_RDWR | O_CREAT);
    p.poke(at, &vec![7; LEN as usize]);
    assert_eq!(p.call(nr(__NR_write), &[file, at, LEN]), LEN as i64);
    assert_eq!(p.call(nr(__NR_lseek), &[file, 0, 0]), 0);
    server.machine.killed.store(true, Ordering::Relaxed);
    let step = i64::from(1 << 20);
    assert_eq!(p.call(nr(__NR_read), &[file, at, LEN]), step);
    assert_eq!(p.call(nr(__NR_lseek), &[file, 0, SEEK_CUR.into()]), step);
    for (number, fd) in [(__NR_read, zero), (__NR_write, file)] {
        assert_eq!(p.call(nr(number), &[fd, at, LEN]), -i64::from(EINTR));
    }
    assert_eq!(p.call(nr(__NR_lseek), &[file, 0, SEEK_CUR.into()]), step, "nothing was moved");
    server.machine.killed.store(false, Ordering::Relaxed);
    assert_eq!(p.call(nr(__NR_read), &[file, at, 2 * LEN]), 2 * step, "to the end");
    assert_eq!(p.call(nr(__NR_read), &[file, at, LEN]), 0);
}

#[test]
fn what_was_written_is_read_and_let_go() {
    if !possible() {
        return;
    }
    let server = Server::new(Played::with_files());
    let (file, _) = server.machine.file_open(b"/tmp/busybox", how::WRITE | how::CREATE | how::mode(0o755)).unwrap();
    server.machine.file_write(file.number(), 0, &std::fs::read("/bin/busybox").unwrap()).unwrap();
    for _ in 0..2 {
        assert_eq!(run(&server, &["/tmp/busybox", "echo", "here"], b"").output, b"here\n");
        assert_eq!(server.machine.sections(), 0);
    }
    run(&server, &["busybox", "true"], b"");
    assert!(server.machine.sections() > 0, "what stays as it is is kept");
}

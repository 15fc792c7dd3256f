//! Programs that are ended in the middle of a call.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod played;

use linux_raw_sys::general::*;
use personality::answer::End;
use personality::server::Server;
use played::{NO_FD, PRIVATE, Played, Puppet, RW, possible};

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

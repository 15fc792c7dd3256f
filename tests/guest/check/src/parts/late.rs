//! Who ends by parts begins nothing any more.

use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::same;
use crate::sections::everybody;
use alloc::boxed::Box;
use alloc::format;
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::interfaces::signal::{Signalled, signalled_serve};
use musubi::rt::mbcf::{SignalSetup, Signals, condition, start, store as stored};
use musubi::rt::post::Post;
use musubi::rt::{section, task, time};
use musubi::{Error, Rights};

/// So much that it goes by several parts.
const MEMORY: u64 = 8 << 20;
const PATIENCE_NS: u64 = 20_000_000_000;
/// Where the word is that the signal's program changes, behind the structure and what is stored with it.
const WORD: u64 = PAGE;

struct Late(u64);

impl Signalled for Late {
    fn signal(&self, _: u64, _: u64) -> Result<(), Error> {
        store(self.0, 1);
        Ok(())
    }
}

/// Its text is somebody else's by the time that it is killed, and does not end with it; it sleeps, and a signal's program is due when it wakes.
pub fn sleeps(at: u64, post: u64, parent: u64) -> i32 {
    let Ok(gates) = signalled_serve(&*Box::leak(Box::new(Late(at + WORD)))) else { return 1 };
    let setup = SignalSetup {
        thread: task::identity().thread,
        entry: gates.address(),
        start: start::DESTINATION,
        store: stored::MEMORY,
        condition: condition::REFUSE,
        most: 1,
        buffer: at + 64,
        buffer_len: 128,
        ..SignalSetup::default()
    };
    if Signals::init(at, &setup).is_err() || super::filled(MEMORY).is_err() {
        return 2;
    }
    if section::give(task::identity().text, parent).is_err() || Post(post).send(0, [0; 6], None).is_err() {
        return 3;
    }
    time::sleep_ns(PATIENCE_NS);
    4
}

pub fn begins_nothing() -> Outcome {
    let shared = data(2 * PAGE).map_err(doing("create"))?;
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE | Rights::CHANGE_ACL))
        .map_err(doing("grant"))?;
    let post = Post::any().map_err(doing("post"))?;
    post.allow(&everybody(Rights::CALL)).map_err(doing("its list"))?;
    let words = [shared.base(), post.0, task::identity().task].map(|word| format!("{word:#x}"));
    let child = Command::new(b"bin/check")
        .args(["check", "as", "sleeps-late"].into_iter().chain(words.iter().map(|word| &**word)))
        .spawn()
        .map_err(doing("a program"))?;
    post.receive(PATIENCE_NS).map_err(doing("its word"))?;
    // It is asleep soon.
    time::sleep_ns(50_000_000);
    Signals::at(shared.base()).send(b"late", 0).map_err(doing("signal"))?;
    child.kill().map_err(doing("kill"))?;
    let end = child.wait().map_err(doing("its end"))?;
    same!(end.kind, exit::KILLED, "how it has ended");
    same!(load(shared.base() + WORD), 0, "what a signal's program has done of one that was killed");
    post.free(true).map_err(doing("free"))?;
    shared.delete().map_err(doing("delete"))
}

//! The longest thing that the file server does under a file's lock: a file that outgrows its room is copied.

use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::files::{self, File};
use musubi::interfaces::files::how;
use musubi::rt::thread;

/// Longest length that is copied when it is exceeded (`servers/files/src/content.rs`).
const ROOM: u64 = 16 << 20;
/// Threads that are ready besides: a killed one's second is over before it has had its turn.
const BUSY: usize = 24;

/// Whoever has a file copied is killed in the middle of it. The copy is made all the same: a server's lock that is held for ever
/// would be the end of everybody's files.
pub fn killed_while_it_is_copied() -> Outcome {
    let witness = super::make(b"/tmp/witness", b"hello")?;
    drop(witness);
    let part = alloc::vec![7u8; 64 << 10];
    let path = b"/tmp/copied";
    let file = File::create(path).map_err(doing("create"))?;
    for at in (0..ROOM).step_by(part.len()) {
        file.write_all(at, &part).map_err(doing("fill"))?;
    }
    kill_in(file)?;
    // Whether it came to the write or not, the file is whole and can be written.
    let (file, info) = File::open(path, how::READ | how::WRITE).map_err(doing("open"))?;
    holds!([ROOM, ROOM + 1].contains(&info.len), "it is {} bytes long", info.len);
    file.write_all(ROOM, b"y").map_err(doing("write afterwards"))?;
    let mut last = [0; 2];
    same!(file.read(ROOM - 1, &mut last), Ok(2), "its last bytes");
    same!(last, [7, b'y'], "its last bytes");
    same!(files::find(b"/tmp/witness").map(|info| info.len), Ok(5), "another file");
    drop(file);
    files::remove(path).map_err(doing("remove"))?;
    files::remove(b"/tmp/witness").map_err(doing("remove"))
}

/// A thread writes behind the file's end, and is killed when it has begun. Many others are ready.
fn kill_in(file: File) -> Outcome {
    let file: &'static File = Box::leak(Box::new(file));
    let begun: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let writes = move || {
        begun.store(1, Ordering::SeqCst);
        let _ = file.write(ROOM, b"x");
        thread::park();
    };
    let writer = thread::spawn(writes, 0).map_err(doing("thread"))?;
    let spins = move || {
        while !over.load(Ordering::Relaxed) {
            core::hint::spin_loop();
        }
    };
    let busy: Vec<_> = (0..BUSY).map_while(|_| thread::spawn(spins, 0).ok()).collect();
    while begun.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    writer.kill().map_err(doing("kill"))?;
    let _ = writer.join();
    over.store(true, Ordering::SeqCst);
    for one in busy {
        one.join().map_err(doing("join"))?;
    }
    Ok(())
}

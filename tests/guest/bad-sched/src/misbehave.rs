//! Ways in which a high level goes wrong.

use musubi::rt::{probe, task, thread};

/// What `mode` says; comes back from nothing but a fault that was not one.
pub fn misbehave(mode: &str) {
    match mode {
        "fault" => drop(probe::read(0x1000)),
        "end" => task::exit(3),
        "sleep" => thread::park(),
        _ => loop {
            core::hint::spin_loop();
        },
    }
}

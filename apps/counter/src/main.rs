#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::interfaces::counter::{Counter, counter_serve_by};
use musubi::rt::Gates;
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::thread;
use musubi::{Error, Start, eprintln};

musubi::program!(run);

struct Sum(AtomicU64);

static SUM: Sum = Sum(AtomicU64::new(0));

fn run(start: &Start) -> i32 {
    let name = start.words().next().unwrap_or("counter");
    match offer().and_then(|gates| musubi::names::publish(name, &gates)) {
        Ok(()) => thread::park(),
        Err(e) => {
            eprintln!("counter: {name}: {e}");
            1
        }
    }
}

/// For calls (by gates), messages (by a post) and eight callers' ITC (by lines): the same methods.
fn offer() -> Result<Gates, Error> {
    counter_serve_by(&SUM, Ways::default().lines(8).post(Post::any()?))
}

impl Counter for Sum {
    fn add(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::Relaxed).wrapping_add(n)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn divide(&self, n: u64) -> u64 {
        if n == 0 {
            // Rust would panic before the processor notices; the point is what the system does.
            musubi::rt::probe::instruction(musubi::rt::probe::Instruction::Divide);
        }
        self.get().checked_div(n).unwrap_or(0)
    }
}

#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use core::sync::atomic::{AtomicU64, Ordering};
use musubi::interfaces::colour_map::{ColourMap, colour_map_serve_by};
use musubi::rt::{serve::Ways, thread};
use musubi::{Error, Start, eprintln};

musubi::program!(run);

struct Mapper(AtomicU64);

/// Callers that a thread of this program may serve at a time, where they want that.
const LINES: usize = 8;

static MAPPER: Mapper = Mapper(AtomicU64::new(0));

fn run(start: &Start) -> i32 {
    let name = start.words().next().unwrap_or("colour-map");
    match colour_map_serve_by(&MAPPER, Ways::default().lines(LINES))
        .and_then(|gates| musubi::names::publish(name, &gates))
    {
        Ok(()) => thread::park(),
        Err(e) => {
            eprintln!("colour-map: {name}: {e}");
            1
        }
    }
}

impl ColourMap for Mapper {
    fn map(&self, pixels: &mut [u8], table: &[u8; 256]) -> Result<(), Error> {
        for pixel in pixels.iter_mut() {
            *pixel = table[usize::from(*pixel)];
        }
        self.0.fetch_add(pixels.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn mapped(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

//! A high level that ends or faults after a while, above the usual fast level.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use musubi::Start;
use musubi::rt::{probe, time};

musubi::program!(run);

fn run(start: &Start) -> i32 {
    time::sleep_ns(300_000_000);
    if start.words().next() == Some("fault") {
        probe::read(0x1000);
    }
    3
}

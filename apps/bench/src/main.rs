#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod cases;
mod report;
mod samples;

use alloc::vec::Vec;
use musubi::interfaces::measure::{Measure, measure_serve};
use musubi::rt::{thread, time};
use musubi::{Start, eprintln};
use report::Report;

musubi::program!(run);

struct Server;

impl Measure for Server {
    fn null(&self) {}

    fn ticks(&self) -> (u64, u64) {
        (time::ticks(), time::ticks())
    }
}

fn run(start: &Start) -> i32 {
    let mut words: Vec<&str> = start.words().collect();
    match words.as_slice() {
        // What `spawn` starts: says when it began by its exit status.
        ["stamp"] => return (time::ticks() & cases::STAMP_MASK) as i32,
        ["serve", name] => return serve(name),
        _ => {}
    }
    let json = words.iter().position(|w| *w == "--json").map(|at| words.remove(at)).is_some();
    let unknown = words.iter().find(|w| !cases::NAMES.contains(w));
    if let Some(word) = unknown {
        eprintln!("bench: {word}: no such case; there are {}", cases::NAMES.join(", "));
        return 2;
    }
    let wanted = |name: &&&str| words.is_empty() || words.contains(*name);
    let mut report = Report::new(json);
    let mut status = 0;
    for name in cases::NAMES.iter().filter(wanted) {
        if let Err(why) = cases::run(name, &mut report) {
            eprintln!("bench: {name}: {why}");
            status = 1;
        }
    }
    report.finish();
    status
}

fn serve(name: &str) -> i32 {
    match measure_serve(&Server).and_then(|gates| musubi::names::publish(name, &gates)) {
        Ok(()) => thread::park(),
        Err(_) => 1,
    }
}

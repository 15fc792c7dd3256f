#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod alone;
mod apart;
mod apps;
mod asked;
mod at_once;
mod backs;
mod bars;
mod beside;
mod calls;
mod clock;
mod crowds;
mod entry;
mod fights;
mod files;
mod foreign;
mod handlers;
mod holes;
mod info;
mod ipc;
mod jobs;
mod keys;
mod lap;
mod lending;
mod loans;
mod many;
mod memory;
mod pager;
mod placement;
mod pool;
mod rendezvous;
mod report;
mod rounds;
mod samples;
mod sched;
mod server;
mod service;
mod short;
mod side_by_side;
mod sizes;
mod spawn;
mod stand;
mod system;
mod talks;
mod thousands;
mod told;
mod turns;
mod two;
mod vectors;
mod views;
mod worst;

use alloc::string::String;
use alloc::vec::Vec;
use musubi::{Start, eprintln};
use report::Report;

musubi::program!(run);

/// A benchmark: its name, and what runs its cases. A new one is a line here, and one in `host/measure/src/benches.rs`.
type Bench = (&'static str, fn(&Report) -> Result<(), String>);
const BENCHES: [Bench; 20] = [
    ("apps", apps::run),
    ("calls", calls::run),
    ("entry", entry::run),
    ("fights", fights::run),
    ("files", files::run),
    ("handlers", handlers::run),
    ("ipc", ipc::run),
    ("info", info::run),
    ("jobs", jobs::run),
    ("keys", keys::run),
    ("memory", memory::run),
    ("messages", pool::in_short),
    ("pager", pager::run),
    ("placement", placement::run),
    ("pool", pool::run),
    ("service", service::side_by_side),
    ("sizes", sizes::run),
    ("spawn", spawn::run),
    ("sched", sched::run),
    ("turns", turns::run),
];

fn run(start: &Start) -> i32 {
    let mut words: Vec<&str> = start.words().collect();
    match words.as_slice() {
        ["stamp"] => return spawn::stamp(),
        ["serve", name] => return server::serve(name),
        ["view", seen, base, len] => return memory::view([seen, base, len]),
        ["hoard", seen, len] => return turns::hoard([seen, len]),
        ["crowd", seen] => return turns::crowd(seen),
        ["fat", post] => return handlers::fat(post),
        ["bound"] => return apart::bound(),
        [entry::IN_CLASS, class, flags @ ..] => return entry::in_class(class, flags),
        ["vector", number] => return vectors::ask_for(number),
        ["listed"] => return handlers::listed(),
        ["holder", post] => return loans::holder(post),
        ["during", name, times, program @ ..] => return talks::during(name, times, program),
        ["side-by-side"] => return side_by_side::run(),
        ["partner", way, posts @ ..] => return pool::partner(way, posts),
        _ => {}
    }
    let mut flag = |flag: &str| words.iter().position(|w| *w == flag).map(|at| words.remove(at)).is_some();
    let (json, wall) = (flag("--json"), flag("--wall"));
    let names: Vec<&str> = BENCHES.iter().map(|bench| bench.0).collect();
    if let Some(word) = words.iter().find(|word| !names.contains(word)) {
        eprintln!("bench: {word}: no such benchmark; there are {}", names.join(", "));
        return 2;
    }
    let mut status = 0;
    for (name, run) in BENCHES.iter().filter(|bench| words.is_empty() || words.contains(&bench.0)) {
        let report = Report::new(name, json, wall);
        if let Err(why) = run(&report) {
            eprintln!("bench: {name}: {why}");
            status = 1;
        }
    }
    status
}

#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod ends;
mod records;
mod seen;
mod service;
mod table;
mod waiting;

use musubi::interfaces::processes::processes_serve_by;
use musubi::ledger::Ledger;
use musubi::rt::serve::Ways;
use musubi::rt::{gate::ANYBODY, thread};
use musubi::servers;
use musubi::{Error, Start};
use service::SERVICE;

musubi::program!(run);

fn run(_: &Start) -> i32 {
    match begin() {
        Ok(()) => thread::park(),
        Err(error) => error.word() as i32,
    }
}

fn begin() -> Result<(), Error> {
    let ledger = SERVICE.ledger.get_or_try(Ledger::of_this_server)?;
    SERVICE.remember(ledger)?;
    let ends = *SERVICE.ends.get_or_try(ends::post)?;
    thread::spawn(move || SERVICE.hear(ends), 0)?;
    let post = servers::post()?;
    let gates = processes_serve_by(&SERVICE, Ways::default().post(post))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish("processes", &gates)
}

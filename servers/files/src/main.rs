#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod content;
mod pack;
mod service;

use alloc::boxed::Box;
use musubi::interfaces::files::files_serve_by;
use musubi::interfaces::stream::stream_serve_by;
use musubi::rt::serve::Ways;
use musubi::{Error, Start, servers};
use service::Service;

musubi::program!(run);

/// Callers that may have a line at a time.
const LINES: usize = 8;
/// How long a program that has ended may keep files open.
const SWEEP_NS: u64 = 500_000_000;

fn run(_: &Start) -> i32 {
    let service: &'static Service = Box::leak(Box::new(Service::new()));
    if let Err(error) = begin(service) {
        musubi::rt::task::log(&alloc::format!("files: {error}\n"));
        return 1;
    }
    loop {
        service.accounts.serve(|| service.anything_open().then_some(SWEEP_NS));
        service.sweep();
    }
}

fn begin(service: &'static Service) -> Result<(), Error> {
    pack::install(&service.files)?;
    let streams = stream_serve_by(service, Ways::default().post(servers::stream_post()?))?;
    streams.admit(&musubi::rt::gate::ANYBODY)?;
    service.set_streams(streams.address());
    let gates = files_serve_by(service, Ways::default().lines(LINES).post(servers::post()?))?;
    musubi::names::publish("files", &gates)
}

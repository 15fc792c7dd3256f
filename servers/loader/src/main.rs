#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod service;
mod texts;

use alloc::format;
use alloc::string::String;
use core::convert::Infallible;
use instance::manifest::Manifest;
use instance::placement;
use musubi::interfaces::first::FirstClient;
use musubi::interfaces::loader::{FILES, LINUX, PLACED, loader_serve_by};
use musubi::rt::serve::Ways;
use musubi::rt::{Answers, Once, gate::ANYBODY, section, task};
use musubi::servers::number;
use musubi::{Error, Start, servers};
use service::Service;

musubi::program!(run);

static MANIFEST: Once<Manifest> = Once::new();
static SERVICE: Once<Service> = Once::new();

fn run(start: &Start) -> i32 {
    match begin(start) {
        Ok(never) => match never {},
        Err(why) => {
            task::log(&format!("loader: {why}\n"));
            1
        }
    }
}

/// Says what was being done when it went wrong.
fn doing(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

fn begin(start: &Start) -> Result<Infallible, String> {
    let first = musubi::names::lookup("first")
        .and_then(|at| FirstClient::bind_with_args(at, 0))
        .map_err(doing("the first task"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let first = first.by_post(&answers).map_err(doing("the first task"))?;
    let at = first.manifest().and_then(|one| one.wait()).map_err(doing("the manifest"))?;
    let bytes = section::info(at).ok().and_then(|info| section::view(at, info.len)).ok_or("there is no manifest")?;
    let manifest = MANIFEST.get_or_try(|| Manifest::read(bytes).ok_or("the manifest is damaged"))?;
    let service = SERVICE.get_or_try(|| Ok::<_, String>(Service::new(manifest)))?;
    let ask = |number: usize| first.original(number as u64)?.wait();
    if let Some(member) = manifest.find(placement::FILE).filter(|member| member.section != 0) {
        ask(member.number).map_err(doing("etc/placement"))?;
        service.placements.read(member.bytes().unwrap_or_default())?;
    }
    as_before(start, service).map_err(doing("what the one before knew"))?;
    let post = servers::post().map_err(doing("a post"))?;
    let gates = loader_serve_by(service, Ways::default().post(post)).map_err(doing("gates"))?;
    gates.admit(&ANYBODY).map_err(doing("acl"))?;
    musubi::names::publish("loader", &gates).map_err(doing("its name"))?;
    service.texts.ask(ask)
}

/// What init had said to the one before.
fn as_before(start: &Start, service: &Service) -> Result<(), Error> {
    if let Some(gate) = number(FILES) {
        service.find_by(gate)?;
    }
    service.run_linux_by(number(LINUX).unwrap_or(0));
    for (name, class, group) in start.env().filter_map(placed) {
        service.placements.put(name, class, group)?;
    }
    Ok(())
}

/// What a variable says of a program, if it says that.
fn placed(variable: &[u8]) -> Option<(&[u8], u64, u64)> {
    let said = variable.strip_prefix(PLACED.as_bytes())?;
    let end = said.iter().position(|byte| *byte == b'=')?;
    let (class, group) = core::str::from_utf8(&said[end + 1..]).ok()?.split_once(' ')?;
    Some((&said[..end], class.parse().ok()?, group.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::placed;

    #[test]
    fn where_programs_are_placed_is_in_the_environment() {
        assert_eq!(placed(b"PLACED_sched-fast=2 12345"), Some((&b"sched-fast"[..], 2, 12345)));
        assert_eq!([&b"FILES=7"[..], b"PLACED_x=2", b"PLACED_x", b"PLACED_x=a b"].map(placed), [None; 4]);
    }
}

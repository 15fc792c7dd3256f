#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod devices;
mod image;
mod instance;
mod manifest;
mod pack;
mod placement;
mod service;

use alloc::format;
use alloc::vec::Vec;
use manifest::Manifest;
use musubi::Start;
use musubi::interfaces::devices::devices_serve_by;
use musubi::interfaces::loader::loader_serve_by;
use musubi::interfaces::pack::pack_serve_by;
use musubi::interfaces::request::Request;
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::{self, Gates, Once, gate::ANYBODY, task, thread};

musubi::program!(run);

static MANIFEST: Once<Manifest> = Once::new();
static PACK: Once<pack::PackTable> = Once::new();
static DEVICES: Once<devices::DeviceTable> = Once::new();
static SERVICE: Once<service::Service> = Once::new();

/// The file of the image that names the scheduler which the machine begins with.
const SCHEDULER: &[u8] = b"etc/scheduler";

/// The one that names programs which may be executed in supervisor mode.
const PLACEMENT: &[u8] = b"etc/placement";

fn run(start: &Start) -> i32 {
    match begin(start) {
        Ok(()) => thread::park(),
        Err(why) => {
            task::log(&format!("loader: {why}\n"));
            1
        }
    }
}

fn begin(start: &Start) -> Result<(), alloc::string::String> {
    let text = |what: &'static str| move |e: rt::Error| format!("{what}: {e}");
    let bytes = start.manifest().ok_or("there is no boot manifest")?;
    let manifest = MANIFEST.get_or_try(|| Manifest::read(bytes).ok_or("the boot manifest is damaged"))?;
    let never = |_: rt::Error| alloc::string::String::new();
    let table = PACK.get_or_try(|| Ok(pack::PackTable::new(manifest, start.text()))).map_err(never)?;
    let devices = DEVICES.get_or_try(|| Ok(devices::DeviceTable::new(manifest, start.text()))).map_err(never)?;
    let service = SERVICE.get_or_try(|| Ok(service::Service::new(table))).map_err(never)?;

    let by_post = || Post::any().map(|post| Ways::default().post(post)).map_err(text("a post"));
    let loader = loader_serve_by(service, by_post()?).map_err(text("gates"))?;
    // The file server asks for one file after the other, and nobody else may.
    let pack = pack_serve_by(table, by_post()?.receivers(1)).map_err(text("gates"))?;
    let devices = devices_serve_by(devices, by_post()?).map_err(text("gates"))?;
    [&loader, &pack, &devices].into_iter().try_for_each(|gates| gates.admit(&ANYBODY)).map_err(text("acl"))?;

    if let Some(lines) = table.find(PLACEMENT) {
        service.placements.read(lines.bytes)?;
    }
    let mut init = init_request(manifest, &loader, &pack, &devices);
    if let Some(name) = table.find(SCHEDULER) {
        init.env.push([b"SCHED=", name.bytes.trim_ascii()].concat());
    }
    service.start(&init, rt::abi::task::USER_SYSTEM).map(drop).map_err(|e| format!("bin/init: {e}"))
}

/// What init is started with: the command line of `./musubi exec` as arguments, and the gates of this program, which
/// nobody can look up before there are names.
fn init_request(manifest: &Manifest, loader: &Gates, pack: &Gates, devices: &Gates) -> Request {
    let mut args = Vec::from([b"init".to_vec()]);
    args.extend(manifest.exec.iter().map(|word| word.to_vec()));
    let gate = |name: &str, gates: &Gates| format!("{name}={}", gates.address()).into_bytes();
    let mut env = Vec::from([gate("LOADER", loader), gate("PACK", pack), gate("DEVICES", devices)]);
    if !manifest.exec.is_empty() {
        env.push(b"EXEC=1".to_vec());
    }
    Request { path: b"bin/init".to_vec(), args, env, user: rt::abi::task::USER_SYSTEM, ..Request::default() }
}

#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod devices;
mod pack;
mod service;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use devices::DeviceTable;
use instance::manifest::Manifest;
use instance::placement;
use musubi::Start;
use musubi::abi::task::USER_SYSTEM;
use musubi::ended::{describe, section_name, status};
use musubi::interfaces::devices::devices_serve_by;
use musubi::interfaces::first::first_serve_by;
use musubi::interfaces::pack::pack_serve_by;
use musubi::interfaces::request::Request;
use musubi::rt::post::Post;
use musubi::rt::serve::Ways;
use musubi::rt::{self, Gates, Once, gate::ANYBODY, task, thread};
use pack::PackTable;
use service::Service;

musubi::program!(run);

static MANIFEST: Once<Manifest> = Once::new();
static PACK: Once<PackTable> = Once::new();
static DEVICES: Once<DeviceTable> = Once::new();
static SERVICE: Once<Service> = Once::new();

/// The file of the image that names the scheduler which the machine begins with.
const SCHEDULER: &[u8] = b"etc/scheduler";

fn run(start: &Start) -> i32 {
    match begin(start) {
        Ok(init) => outlive(init),
        Err(why) => {
            task::log(&format!("first: {why}\n"));
            1
        }
    }
}

/// Without init no server is restarted, and nobody switches the machine off: then it ends, and says so.
fn outlive(init: u64) -> ! {
    match task::wait(init, u64::MAX) {
        Ok(exit) => {
            // First without any memory, which may be what was missing.
            task::log("first: init has ended, and the machine with it\n");
            task::log(&format!("first: init: {} (status {})\n", describe(&exit, section_name), status(&exit)));
            let _ = task::power_off(1);
        }
        Err(error) => task::log(&format!("first: init: {error}\n")),
    }
    thread::park()
}

/// Value: init's task.
fn begin(start: &Start) -> Result<u64, String> {
    let text = |what: &'static str| move |e: rt::Error| format!("{what}: {e}");
    let bytes = start.manifest().ok_or("there is no boot manifest")?;
    let manifest = MANIFEST.get_or_try(|| Manifest::read(bytes).ok_or("the boot manifest is damaged"))?;
    let never = |_: rt::Error| String::new();
    let table = PACK.get_or_try(|| Ok(PackTable::new(manifest, start.text()))).map_err(never)?;
    let devices = DEVICES.get_or_try(|| Ok(DeviceTable::new(manifest, start.text()))).map_err(never)?;
    let at = bytes.as_ptr() as u64;
    let service = SERVICE.get_or_try(|| Ok(Service::new(manifest, at))).map_err(never)?;

    let by_post = || Post::any().map(|post| Ways::default().post(post)).map_err(text("a post"));
    // The loader asks for one program after the other, the file server for one file, and nobody else may.
    let first = first_serve_by(service, by_post()?.receivers(1)).map_err(text("gates"))?;
    let pack = pack_serve_by(table, by_post()?.receivers(1)).map_err(text("gates"))?;
    let devices = devices_serve_by(devices, by_post()?).map_err(text("gates"))?;
    [&first, &pack, &devices].into_iter().try_for_each(|gates| gates.admit(&ANYBODY)).map_err(text("acl"))?;

    if let Some(lines) = manifest.find(placement::FILE).and_then(|member| member.bytes()) {
        service.placements.read(lines)?;
    }
    let mut init = init_request(manifest, &first, &pack, &devices);
    if let Some(name) = manifest.find(SCHEDULER).and_then(|member| member.bytes()) {
        init.env.push([b"SCHED=", name.trim_ascii()].concat());
    }
    service.start(&init).map_err(|refusal| match refusal.reason.as_str() {
        "" => format!("bin/init: {}", refusal.error),
        reason => format!("bin/init: {reason}"),
    })
}

/// What init is started with: the command line of `./musubi exec` as arguments, and the gates of this program, which
/// nobody can look up before there are names.
fn init_request(manifest: &Manifest, first: &Gates, pack: &Gates, devices: &Gates) -> Request {
    let mut args = Vec::from([b"init".to_vec()]);
    args.extend(manifest.exec.iter().map(|word| word.to_vec()));
    let gate = |name: &str, gates: &Gates| format!("{name}={}", gates.address()).into_bytes();
    let mut env = Vec::from([gate("FIRST", first), gate("PACK", pack), gate("DEVICES", devices)]);
    if !manifest.exec.is_empty() {
        env.push(b"EXEC=1".to_vec());
    }
    Request { path: b"bin/init".to_vec(), args, env, user: USER_SYSTEM, ..Request::default() }
}

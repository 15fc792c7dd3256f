#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod tries;

use alloc::boxed::Box;
use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::boot::{DeviceRecord, device};
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::rt::gate::ANYBODY;
use musubi::rt::post::Post;
use musubi::rt::section::Ports;
use musubi::rt::{task, thread};
use musubi::{Error, Start};
use own_driver::{Knocks, NAME, knocks_serve};
use zerocopy::FromBytes;

musubi::program!(run);

// Ports of the controller, counted from 0x60.
const DATA: u64 = 0;
const COMMAND: u64 = 4;
const FULL: u64 = 1;

/// Operation of the message that an interrupt is.
const KNOCKED: u32 = 7;

static MESSAGES: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

struct Service(Ports);

fn run(_: &Start) -> i32 {
    match begin() {
        Ok((ports, post)) => listen(ports, post),
        Err(e) => e.word() as i32,
    }
}

fn begin() -> Result<(Ports, Post), Error> {
    let devices = DevicesClient::bind_with_args(musubi::names::lookup("devices")?, 4096)?;
    let mut record = [0; RECORD];
    devices.claim(device::PS2, 0, &mut record)?;
    let record = DeviceRecord::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
    let (ports, post) = (Ports(record.section), Post::any()?);
    ports.interrupt_to(Some(post), KNOCKED)?;
    let gates = knocks_serve(Box::leak(Box::new(Service(ports))))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish(NAME, &gates)?;
    Ok((ports, post))
}

/// Nothing looks by itself: what is not told is not heard.
fn listen(ports: Ports, post: Post) -> i32 {
    loop {
        while ports.read(COMMAND, 1).is_ok_and(|status| status & FULL != 0) {
            let _ = ports.read(DATA, 1);
            BYTES.fetch_add(1, Ordering::SeqCst);
        }
        match post.receive(u64::MAX) {
            Ok(message) if message.op == KNOCKED => MESSAGES.fetch_add(1, Ordering::SeqCst),
            Ok(_) => return Error::BadArgument.word() as i32,
            Err(error) => return error.word() as i32,
        };
    }
}

impl Knocks for Service {
    fn read(&self) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    fn knock(&self) -> Result<(), Error> {
        self.0.write(COMMAND, 1, 0xd2)?;
        self.0.write(DATA, 1, 0xfa)
    }

    fn heard(&self) -> (u64, u64) {
        (MESSAGES.load(Ordering::SeqCst), BYTES.load(Ordering::SeqCst))
    }

    fn ports(&self) -> Result<(), Error> {
        tries::ports(self.0)
    }

    fn tell(&self) -> Result<(), Error> {
        tries::tell()
    }

    fn say(&self, first: u64, count: u64) -> Result<(), Error> {
        for line in first..first + count {
            task::log(&format!(
                "own-driver says line {line}, and some more of it, so that there is something to be torn"
            ));
            thread::yield_now();
        }
        Ok(())
    }
}

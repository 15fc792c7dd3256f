#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod devices;
mod host;
mod input;
mod lines;
mod output;
mod screen;
mod serial;

use devices::Devices;
use host::ToHost;
use input::Input;
use musubi::abi::boot::device;
use musubi::interfaces::console::{Console, console_serve_by};
use musubi::interfaces::keyboard::KeyboardService;
use musubi::interfaces::stream::{Stream, stream_serve_by};
use musubi::rt::serve::Ways;
use musubi::rt::{Once, fault, thread, time};
use musubi::{Caller, Error, Start, servers};
use output::Output;

musubi::program!(run);

/// Most bytes read by one call.
const PART: usize = 64 << 10;

struct Service {
    output: Output,
    input: Input,
    streams: Once<u64>,
}

static SERVICE: Once<Service> = Once::new();

fn run(_: &Start) -> i32 {
    match begin() {
        Ok(()) => thread::park(),
        Err(e) => e.word() as i32,
    }
}

fn begin() -> Result<(), Error> {
    let devices = Devices::find()?;
    let output = match devices.ports(device::EXEC_OUTPUT) {
        Ok(console) => Output::exec(ToHost::new(console, devices.shared())),
        Err(_) => Output::terminal(devices.ports(device::SERIAL).ok(), devices.screen()),
    };
    let keyboard = if output.is_exec() { None } else { musubi::names::lookup("keyboard").ok() };
    let service = SERVICE
        .get_or_try(|| Ok::<_, Error>(Service { input: Input::new(output.is_exec()), output, streams: Once::new() }))?;
    if let Some(serial) = service.output.serial() {
        thread::spawn(move || serial::listen(serial, |byte| service.input.arrive(byte, &service.output)), 0)?;
    }
    if let Some(gate) = keyboard {
        thread::spawn(move || read_keys(&KeyboardService::new_with_args(gate, 4096), service), 0)?;
    }
    let streams = stream_serve_by(service, Ways::default().post(servers::stream_post()?))?;
    service.streams.get_or_try(|| Ok::<_, Error>(streams.address()))?;
    let ways = Ways::default().post(servers::post()?);
    musubi::names::publish("console", &console_serve_by(service, ways)?)
}

/// How often it is looked whether somebody has started a driver again that was stopped.
const LOOK_NS: u64 = 500_000_000;

/// For ever, whichever driver is there.
fn read_keys(keyboard: &KeyboardService, service: &Service) {
    let mut part = [0; 64];
    loop {
        match keyboard.read(&mut part) {
            Ok(n) => part[..(n as usize).min(64)].iter().for_each(|byte| service.input.arrive(*byte, &service.output)),
            Err(_) => time::sleep_ns(LOOK_NS),
        }
    }
}

impl Stream for Service {
    fn write(&self, caller: &Caller, id: u64, bytes: &[u8]) -> Result<u64, Error> {
        if id != 1 && id != 2 {
            return Err(Error::NotSupported);
        }
        // Copied before a lock is taken: the caller's memory may go away at any moment.
        let part = fault::copy_in(&bytes[..bytes.len().min(self.output.most())])?;
        self.output.write(caller, id, &part)?;
        Ok(part.len() as u64)
    }

    fn read(&self, caller: &Caller, id: u64, buffer: &mut [u8]) -> Result<u64, Error> {
        if id != 0 {
            return Err(Error::NotSupported);
        }
        let bytes = self.input.read(caller, buffer.len().min(PART))?;
        fault::copy_out(buffer, &bytes)?;
        Ok(bytes.len() as u64)
    }

    fn close(&self, _caller: &Caller, _id: u64) -> Result<(), Error> {
        Ok(())
    }

    fn is_console(&self, id: u64) -> bool {
        id < 3 && !self.output.is_exec()
    }
}

impl Console for Service {
    fn is_controlled_by(&self, caller: &Caller, task: u64) -> Result<(), Error> {
        self.input.is_controlled_by(caller, task)
    }

    fn set_mode(&self, caller: &Caller, mode: u64) -> Result<(), Error> {
        self.input.set_mode(caller, mode)
    }

    fn foreground(&self, caller: &Caller, whom: u64) -> Result<(), Error> {
        self.input.foreground(caller, whom)
    }

    fn size(&self) -> (u64, u64) {
        self.output.size()
    }

    fn streams(&self) -> u64 {
        self.streams.get().copied().unwrap_or(0)
    }
}

#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod codes;
mod controller;
mod probe;

use alloc::vec::Vec;
use codes::Decoder;
use controller::{ACKNOWLEDGED, Controller};
use musubi::abi::boot::{DeviceRecord, device};
use musubi::abi::sched::PRIORITY_LOWEST;
use musubi::abi::task::USER_SYSTEM;
use musubi::driver::{Bytes, Driver};
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::interfaces::keyboard::{Keyboard, keyboard_serve_by, way};
use musubi::rt::gate::ANYBODY;
use musubi::rt::section::Ports;
use musubi::rt::serve::{Ways, away};
use musubi::rt::{Condition, Mutex, fault, sched, section, task, thread, time};
use musubi::{Caller, Error, Start, servers};
use probe::Probe;
use zerocopy::FromBytes;

musubi::program!(run);

/// Scan codes that are taken out of the controller and not looked at yet.
const CODES: usize = 64;
/// Bytes that nobody has read yet: what is typed beyond them is lost, the oldest stay.
const TYPED: usize = 4096;
/// Longest wait until the controller is empty, in ns: its driver looks more often than that.
const SETTLE_NS: u64 = 5_000_000_000;
/// Of the thread, where a scheduler sits: people wait for it.
const LEVEL: u64 = PRIORITY_LOWEST / 8;

/// Written by the first part, read by the second.
static COME: Bytes<CODES> = Bytes::new();
static PROBE: Probe = Probe::new();

struct Service {
    controller: Controller,
    driver: &'static Driver,
    typed: Mutex<Vec<u8>>,
    arrived: Condition,
    /// The text that reads.
    reader: Mutex<u64>,
}

fn run(_: &Start) -> i32 {
    match begin() {
        Ok(service) => service.live(),
        Err(e) => e.word() as i32,
    }
}

fn begin() -> Result<&'static Service, Error> {
    let devices = DevicesClient::bind_with_args(musubi::names::lookup("devices")?, 4096)?;
    let mut record = [0; RECORD];
    devices.claim(device::PS2, 0, &mut record)?;
    let record = DeviceRecord::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
    let controller = Controller(Ports(record.section));
    // A machine without a keyboard answers nothing: then there is no driver.
    controller.begin()?;
    let driver = Driver::begin(controller.0, move || first(controller))?;
    let (typed, reader) = (Mutex::new(Vec::with_capacity(TYPED)), Mutex::new(0));
    let service = Service { controller, driver, typed, arrived: Condition::new(), reader };
    let service: &'static Service = alloc::boxed::Box::leak(alloc::boxed::Box::new(service));
    let gates = keyboard_serve_by(service, Ways::default().post(servers::post()?))?;
    gates.admit(&ANYBODY)?;
    musubi::names::publish("keyboard", &gates)?;
    Ok(service)
}

/// What is done at once: the controller is emptied, so that the next key finds it so.
fn first(controller: Controller) -> bool {
    PROBE.came();
    while COME.has_room()
        && let Some(code) = controller.take()
    {
        if code != ACKNOWLEDGED {
            COME.put(code);
        }
    }
    !COME.is_empty()
}

impl Service {
    /// Waits until the byte of the last probe is taken: the controller merges two, and causes one interrupt for both.
    fn settle(&self) -> Result<(), Error> {
        let until = time::now_ns() + SETTLE_NS;
        while self.controller.is_full() {
            if time::now_ns() > until {
                return Err(Error::Busy);
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// The rest: bytes are made of the codes.
    fn live(&self) -> ! {
        let mut decoder = Decoder::default();
        let me = task::identity().thread;
        let mut seated = 0;
        self.driver.run(|| {
            // Each scheduler has to be asked anew.
            let sits = sched::seats().next().map_or(0, |seat| seat.thread);
            if core::mem::replace(&mut seated, sits) != sits {
                let _ = sched::set_priority(me, LEVEL);
            }
            let mut come = false;
            while let Some(code) = COME.take() {
                let new = decoder.code(code);
                let mut typed = self.typed.lock();
                if typed.len() + new.len() <= TYPED {
                    typed.extend(new);
                }
                come = true;
            }
            if come {
                self.arrived.notify_all();
            }
        })
    }
}

impl Keyboard for Service {
    fn read(&self, caller: &Caller, buffer: &mut [u8]) -> Result<u64, Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        {
            let mut reader = self.reader.lock();
            let lives = *reader != 0 && section::info(*reader).is_ok_and(|info| info.base == *reader);
            if lives && *reader != caller.text {
                return Err(Error::Busy);
            }
            *reader = caller.text;
        }
        let away = away(caller)?;
        let part: Vec<u8> = {
            let mut typed = self.typed.lock();
            while typed.is_empty() {
                match self.arrived.wait(&mut typed, away.patience_ns()) {
                    Err(Error::TimedOut) => away.goes_on()?,
                    waited => waited?,
                }
            }
            let len = typed.len().min(buffer.len());
            typed.drain(..len).collect()
        };
        fault::copy_out(buffer, &part)?;
        Ok(part.len() as u64)
    }

    fn listen(&self, _: &Caller, how: u64) -> Result<(), Error> {
        match how {
            way::CALL => self.driver.hear(true),
            way::THREAD => self.driver.hear(false),
            _ => Err(Error::BadArgument),
        }
    }

    fn probe(&self, caller: &Caller) -> Result<u64, Error> {
        let _away = away(caller)?;
        let turn = PROBE.turn()?;
        self.settle()?;
        self.controller.echo_next()?;
        turn.run(|| self.controller.write(ACKNOWLEDGED))
    }

    fn write_time(&self, caller: &Caller) -> Result<u64, Error> {
        let _away = away(caller)?;
        let _turn = PROBE.turn()?;
        self.settle()?;
        // A command that causes nothing until its byte follows.
        let began = time::ticks();
        self.controller.echo_next()?;
        let ticks = time::ticks() - began;
        self.controller.write(ACKNOWLEDGED)?;
        Ok(ticks)
    }

    fn handled(&self) -> (u64, u64) {
        self.driver.counts()
    }
}

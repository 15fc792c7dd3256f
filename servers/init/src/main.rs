#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod power;
mod system;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::boot::{DeviceRecord, device};
use musubi::abi::start::StreamRef;
use musubi::abi::task::{Exit, Limits, USER_PERSON, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::interfaces::loader::LoaderClient;
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::power::power_serve;
use musubi::interfaces::ready::{Ready, VARIABLE, ready_serve};
use musubi::rt::section::Ports;
use musubi::rt::{Condition, Mutex, gate::ANYBODY, task, thread, time};
use musubi::{Caller, Error, Start};
use power::Switch;
use zerocopy::FromBytes;

musubi::program!(run);

/// How long a server may take until it is ready.
const PATIENCE_NS: u64 = 20_000_000_000;

static SWITCH: Switch = Switch::new();
static NAMES_GATE: NamesGate = NamesGate { gate: Mutex::new(0), changed: Condition::new() };

/// Where the name service is, as soon as it has said so.
struct NamesGate {
    gate: Mutex<u64>,
    changed: Condition,
}

impl Ready for NamesGate {
    fn ready(&self, _caller: &Caller, gate: u64) -> Result<(), Error> {
        let mut known = self.gate.lock();
        // The first one is the server that was just started: nobody else runs yet.
        if *known != 0 {
            return Err(Error::Exists);
        }
        *known = gate;
        self.changed.notify_all();
        Ok(())
    }
}

struct System {
    loader: LoaderClient,
    names: NamesClient,
    names_gate: u64,
    devices: u64,
}

fn run(start: &Start) -> i32 {
    let started = System::begin(start).and_then(|system| system.run(start));
    if let Err(why) = started {
        task::log(&format!("init: {why}\n"));
    }
    // Without init there is no system.
    let _ = task::power_off(1);
    1
}

/// Says what was being done when it went wrong.
fn doing(what: &str) -> impl Fn(Error) -> String {
    move |e| format!("{what}: {e}")
}

fn gate(start: &Start, name: &str) -> Result<u64, String> {
    let value = start.variable(name).and_then(|v| core::str::from_utf8(v).ok()?.parse().ok());
    value.ok_or_else(|| format!("no {name} in the environment"))
}

impl System {
    fn begin(start: &Start) -> Result<System, String> {
        let loader = LoaderClient::bind(gate(start, "LOADER")?).map_err(doing("loader"))?;
        let ready = ready_serve(&NAMES_GATE).map_err(doing("gates"))?;
        ready.admit(&ANYBODY).map_err(doing("acl"))?;
        let variable = format!("{VARIABLE}={}", ready.address()).into_bytes();
        Command::new(system::NAMES.as_bytes())
            .env(Vec::from([variable]))
            .spawn_by(&loader)
            .map_err(|e| format!("{}: {e}", system::NAMES))?;
        let names_gate = {
            let mut known = NAMES_GATE.gate.lock();
            while *known == 0 {
                NAMES_GATE.changed.wait(&mut known, PATIENCE_NS).map_err(doing("waiting for names"))?;
            }
            *known
        };
        let names = NamesClient::bind_with_args(names_gate, 4096).map_err(doing("names"))?;
        let devices = gate(start, "DEVICES")?;
        for (name, gate) in [("loader", gate(start, "LOADER")?), ("files", gate(start, "FILES")?), ("devices", devices)]
        {
            names.publish(name, gate).map_err(doing(name))?;
        }
        let power = power_serve(&SWITCH).map_err(doing("gates"))?;
        names.publish("power", power.address()).map_err(doing("power"))?;
        Ok(System { loader, names, names_gate, devices })
    }

    fn run(&self, start: &Start) -> Result<(), String> {
        for server in &system::SERVERS {
            match self.start_server(server) {
                Err(why) if !server.optional => return Err(format!("{}: {why}", server.path)),
                Err(why) if !why.is_empty() => task::log(&format!("init: {}: {why}\n", server.path)),
                _ => {}
            }
        }
        let is_exec = start.variable("EXEC").is_some();
        let status = if is_exec { self.status_port().ok() } else { None };
        let watch = move || {
            let code = SWITCH.wait();
            finish(status, 0, code);
        };
        thread::spawn(watch, 0).map_err(doing("thread"))?;
        let console = self.names.lookup("console").and_then(ConsoleClient::bind).map_err(doing("console"))?;
        let streams = console.streams().map_err(doing("console"))?;
        if is_exec {
            let words: Vec<&[u8]> = start.args().skip(1).collect();
            match self.exec(streams, &words) {
                Ok(code) => finish(status, code, 0),
                Err(why) => {
                    // No outcome: the host then shows the log, and with it the reason.
                    task::log(&format!("init: {why}\n"));
                    finish(None, 0, 0);
                }
            }
        }
        loop {
            let began = time::now_ns();
            let ended = self.shell(streams, &[]).map(Child::wait);
            match ended {
                Ok(Ok(ended)) if ended.kind != exit::EXITED => task::log("init: the shell died; here is another\n"),
                Ok(_) => {}
                Err(why) => return Err(why),
            }
            // A shell that cannot live must not keep the machine busy.
            if time::now_ns() - began < 1_000_000_000 {
                time::sleep_ns(300_000_000);
            }
        }
    }

    /// Starts a server and waits until it has published its name.
    fn start_server(&self, server: &system::Server) -> Result<(), String> {
        let command = Command::new(server.path.as_bytes()).env(Vec::new()).names(self.names_gate);
        let child = match command.spawn_by(&self.loader) {
            Err(refused) if refused.error == Error::NotFound && server.optional => return Ok(()),
            other => other.map_err(|e| format!("{e}"))?,
        };
        let until = time::now_ns() + PATIENCE_NS;
        while self.names.lookup(server.name).is_err() {
            match child.wait_for(1_000_000) {
                Err(Error::TimedOut) if time::now_ns() < until => {}
                Err(e) => return Err(format!("{e}")),
                Ok(ended) => return Err(describe(&ended)),
            }
        }
        Ok(())
    }

    fn shell(&self, streams: u64, args: &[&[u8]]) -> Result<Child, String> {
        let mut command = Command::new(system::SHELL.as_bytes())
            .env(system::ENVIRONMENT.iter().map(|v| v.as_bytes().to_vec()).collect())
            .user(USER_PERSON)
            .limits(limits_of_a_person().map_err(doing("memory"))?)
            .names(self.names_gate);
        for id in 0..3 {
            command = command.stream(id, StreamRef { gate: streams, id: id as u64 });
        }
        let all = core::iter::once(&b"shell"[..]).chain(args.iter().copied());
        command.args(all).spawn_by(&self.loader).map_err(|e| format!("{}: {e}", system::SHELL))
    }

    /// Runs the command line of `./musubi exec`: one word is a line for the shell, several are the words of one command.
    /// Value: its exit status.
    fn exec(&self, streams: u64, words: &[&[u8]]) -> Result<i32, String> {
        let mut args: Vec<&[u8]> = Vec::from([if words.len() == 1 { &b"-c"[..] } else { &b"-w"[..] }]);
        args.extend(words);
        let ended = self.shell(streams, &args)?.wait().map_err(doing("shell"))?;
        if ended.kind != exit::EXITED {
            task::log(&format!("init: shell: {}\n", describe(&ended)));
        }
        Ok(musubi::ended::status(&ended))
    }

    fn status_port(&self) -> Result<Ports, Error> {
        let devices = DevicesClient::bind_with_args(self.devices, 4096)?;
        let mut record = [0; RECORD];
        devices.claim(device::EXEC_STATUS, 0, &mut record)?;
        DeviceRecord::read_from_bytes(&record).map(|r| Ports(r.section)).map_err(|_| Error::BadArgument)
    }
}

fn describe(ended: &Exit) -> String {
    match ended.kind {
        exit::EXITED => format!("ended with status {}", ended.code),
        _ => musubi::ended::describe(ended, musubi::ended::section_name),
    }
}

/// Tells the host how the command ended, if it waits for that, and switches the machine off.
fn finish(status: Option<Ports>, code: i32, power_code: u64) -> ! {
    if let Some(port) = status {
        let _ = port.write_bytes(0, format!("exit {code}\n").as_bytes());
    }
    let _ = task::power_off(power_code);
    thread::park()
}

/// What a person's shell and everything started from it may use together: the rest is the system's own.
fn limits_of_a_person() -> Result<Limits, Error> {
    let memory = task::memory()?;
    Ok(Limits { frames: memory.total / 4096 / 8 * 7, sections: 16384, reserve: 5 << 38, threads: 4096 })
}

#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod directory;
mod ledger;
mod policy;
mod power;
mod programs;
mod supervisor;
mod system;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use ledger::Book;
use musubi::abi::boot::{DeviceRecord, device};
use musubi::abi::start::StreamRef;
use musubi::abi::task::{Exit, Limits, USER_PERSON, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::devices::{DevicesClient, RECORD};
use musubi::interfaces::first::FirstClient;
use musubi::interfaces::ledger::ledger_serve_by;
use musubi::interfaces::power::power_serve_by;
use musubi::interfaces::ready::ready_serve_by;
use musubi::interfaces::sched::SchedClient;
use musubi::interfaces::servers::servers_serve_by;
use musubi::rt::post::Post;
use musubi::rt::section::Ports;
use musubi::rt::serve::Ways;
use musubi::rt::{Once, gate::ANYBODY, task, thread, time};
use musubi::{Error, Start};
use power::Switch;
use supervisor::{Supervisor, end_of, place_of};
use zerocopy::FromBytes;

musubi::program!(run);

static SWITCH: Switch = Switch::new();
static BOOK: Book = Book::new();
static SUPERVISOR: Supervisor = Supervisor::new(&BOOK);
static FIRST: Once<FirstClient> = Once::new();

struct System {
    first: &'static FirstClient,
    devices: u64,
    /// What the shell is given to read and to write; none without a console.
    streams: Option<u64>,
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
        let at = gate(start, "FIRST")?;
        let first = FIRST.get_or_try(|| FirstClient::bind(at)).map_err(doing("the first task"))?;
        let by_post = || Post::any().map(|post| Ways::default().post(post)).map_err(doing("a post"));
        // What one server says is heard in the order in which it was said.
        let ready = ready_serve_by(&BOOK, by_post()?.receivers(1)).map_err(doing("gates"))?;
        let ledger = ledger_serve_by(&BOOK, by_post()?.receivers(1)).map_err(doing("gates"))?;
        // The machine is switched off once: nobody waits behind another one.
        let power = power_serve_by(&SWITCH, by_post()?.receivers(1)).map_err(doing("gates"))?;
        let servers = servers_serve_by(&SUPERVISOR, by_post()?).map_err(doing("gates"))?;
        [&ready, &ledger, &power, &servers]
            .into_iter()
            .try_for_each(|gates| gates.admit(&ANYBODY))
            .map_err(doing("acl"))?;
        thread::spawn(|| SUPERVISOR.end_them(), 0).map_err(doing("thread"))?;
        let devices = gate(start, "DEVICES")?;
        let mut has_console = false;
        for server in &system::SERVERS {
            let is_there = SUPERVISOR
                .begin(server, first, [ready.address(), ledger.address()])
                .map_err(|why| format!("{}: {why}", server.path))?;
            has_console |= is_there && server.name == system::CONSOLE;
            if server.name == system::NAMES {
                let own = [("power", &power), ("servers", &servers), ("ready", &ready), ("ledger", &ledger)];
                let own = own.map(|(name, gates)| (name, gates.address()));
                let firsts = [("first", at), ("pack", gate(start, "PACK")?), ("devices", devices)];
                for (name, gate) in own.into_iter().chain(firsts) {
                    SUPERVISOR.directory.publish(name, gate).map_err(doing(name))?;
                }
            }
        }
        SUPERVISOR.await_all()?;
        let streams = || SUPERVISOR.directory.lookup(system::CONSOLE).and_then(ConsoleClient::bind)?.streams();
        let streams = has_console.then(streams).transpose().map_err(doing(system::CONSOLE))?;
        Ok(System { first, devices, streams })
    }

    fn run(&self, start: &Start) -> Result<(), String> {
        let is_exec = start.variable("EXEC").is_some();
        let status = if is_exec { self.status_port().ok() } else { None };
        let watch = move || {
            let code = SWITCH.wait();
            finish(status, 0, code);
        };
        thread::spawn(watch, 0).map_err(doing("thread"))?;
        if let Some(name) = start.variable("SCHED")
            && let Err(why) = choose_scheduler(name)
        {
            task::log(&format!("init: scheduler {}: {why}\n", String::from_utf8_lossy(name)));
            if is_exec {
                finish(None, 0, 0);
            }
        }
        if is_exec {
            let words: Vec<&[u8]> = start.args().skip(1).collect();
            match self.exec(&words) {
                Ok(code) => finish(status, code, 0),
                Err(why) => {
                    // No outcome: the host then shows the log, and with it the reason.
                    task::log(&format!("init: {why}\n"));
                    finish(None, 0, 0);
                }
            }
        }
        if self.streams.is_none() {
            task::log("init: without console there is no shell");
            thread::park();
        }
        loop {
            let began = time::now_ns();
            let ended = self.shell(&[]).map(|child| end_of(child, u64::MAX));
            match ended {
                Ok(Ok(ended)) if ended.kind != exit::EXITED => task::log("init: the shell died; here is another\n"),
                Ok(_) => {}
                // Somebody may have taken all memory, for a while.
                Err(why) => task::log(&format!("init: no shell: {why}\n")),
            }
            end_what_is_left();
            // A shell that cannot live must not keep the machine busy.
            if time::now_ns() - began < 1_000_000_000 {
                time::sleep_ns(300_000_000);
            }
        }
    }

    fn shell(&self, args: &[&[u8]]) -> Result<Child, String> {
        let mut command = Command::new(system::SHELL.as_bytes())
            .env(
                system::ENVIRONMENT
                    .iter()
                    .map(|v| v.as_bytes().to_vec())
                    .chain(SUPERVISOR.directory.variables())
                    .collect(),
            )
            .user(USER_PERSON)
            .limits(limits_of_a_person().map_err(doing("memory"))?)
            .names(SUPERVISOR.directory.gate());
        for id in 0..3 {
            let stream = self.streams.map(|gate| StreamRef { gate, id: id as u64 });
            command = command.stream(id, stream.unwrap_or_default());
        }
        let all = core::iter::once(&b"shell"[..]).chain(args.iter().copied());
        // By the first task, as the servers: a machine without the loader has a shell.
        let place = place_of(self.first, system::SHELL).map_err(doing(system::SHELL))?.text;
        let shell = command.args(all).spawn_at(self.first, place).map_err(|e| format!("{}: {e}", system::SHELL))?;
        SUPERVISOR.console_is_for(shell.task);
        Ok(shell)
    }

    /// Runs the command line of `./musubi exec`: one word is a line for the shell, several are the words of one command.
    /// Value: its exit status.
    fn exec(&self, words: &[&[u8]]) -> Result<i32, String> {
        let mut args: Vec<&[u8]> = Vec::from([if words.len() == 1 { &b"-c"[..] } else { &b"-w"[..] }]);
        args.extend(words);
        let ended = end_of(self.shell(&args)?, u64::MAX).map_err(doing("shell"))?;
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

/// From now on this one decides; the shell is not started before.
fn choose_scheduler(name: &[u8]) -> Result<(), Error> {
    let name = core::str::from_utf8(name).map_err(|_| Error::BadArgument)?;
    let gate = SUPERVISOR.directory.lookup("sched")?;
    SchedClient::bind_with_args(gate, 4096)?.choose(name)
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

/// Ends the person's programs that a shell has left behind, however many they start meanwhile: the next shell may use as much as that one, and would come on top of
/// what they have.
fn end_what_is_left() {
    let of_person = || task::list().filter(|one| one.user == USER_PERSON);
    while of_person().next().is_some() {
        of_person().for_each(|one| _ = task::kill(one.task));
        time::sleep_ns(10_000_000);
    }
}

/// What a person's shell and everything started from it may use together: the rest is the system's own, and the files'.
fn limits_of_a_person() -> Result<Limits, Error> {
    let memory = task::memory()?;
    Ok(Limits { frames: memory.total / 4096 / 8 * 5, sections: 65536, reserve: 1 << 40, threads: 4096 })
}

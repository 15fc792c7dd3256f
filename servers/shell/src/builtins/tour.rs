//! What is different here, in one minute and without a question.

use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::start::StreamRef;
use musubi::command::{Child, Command};
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::interfaces::counter::CounterClient;
use musubi::rt::{section, time};
use musubi::{ended, names};

const PATIENCE_NS: u64 = 5_000_000_000;

pub fn tour(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut tour = Tour { io, started: Vec::new() };
    let outcome = tour.walk();
    let started = core::mem::take(&mut tour.started);
    for child in started {
        let _ = child.kill().and_then(|()| child.wait());
    }
    match outcome {
        Ok(()) => 0,
        Err(why) => {
            io.complain("tour", format_args!("{why}"));
            1
        }
    }
}

struct Tour<'a> {
    io: &'a mut Io,
    /// Ended when the tour is over.
    started: Vec<Child>,
}

impl Tour<'_> {
    fn title(&mut self, number: usize, title: &str) {
        say!(self.io, "\n{number}. {title}");
    }

    /// Starts a server of our own, under a name of our own, and waits for it.
    fn serve(&mut self, program: &str) -> Result<u64, String> {
        let name = format!("tour-{program}-{}", musubi::start().task());
        let command = Command::new(format!("bin/{program}").as_bytes()).arg(name.as_bytes());
        let child = command.spawn().map_err(|e| format!("bin/{program}: {e}"))?;
        self.started.push(child);
        names::await_name(&name, PATIENCE_NS).map_err(|e| format!("{name}: {e}"))
    }

    fn walk(&mut self) -> Result<(), String> {
        self.address()?;
        let counter = self.call()?;
        self.picture()?;
        self.denied()?;
        self.death(&counter)?;
        say!(self.io, "\nThat was all. Look round: `sections`, `ps`, `names`, `help`.");
        Ok(())
    }

    fn address(&mut self) -> Result<(), String> {
        self.title(1, "One address space for everything");
        let own = musubi::start().info().map_or(0, |i| i.text);
        let file = musubi::files::find(b"bin/shell").map_err(|e| format!("bin/shell: {e}"))?;
        let bytes = musubi::files::open(b"bin/shell").map_err(|e| format!("bin/shell: {e}"))?;
        say!(self.io, "   This shell executes at {own:#x}. No other program has anything else there.");
        say!(
            self.io,
            "   The file bin/shell is at {:#x}. To read it is to load from there: its first bytes are {}.",
            file.section,
            bytes[..4.min(bytes.len())].escape_ascii()
        );
        Ok(())
    }

    fn call(&mut self) -> Result<CounterClient, String> {
        self.title(2, "A call into another program");
        let gate = self.serve("counter")?;
        let text = section::info(gate).map_err(|e| format!("counter: {e}"))?;
        say!(
            self.io,
            "   `counter` is another task ({}), its code at {:#x}. It exports gates from {gate:#x} on.",
            text.owner,
            text.base
        );
        let bad = |e: Error| format!("counter: {e}");
        let bound = CounterClient::bind(gate).map_err(bad)?;
        bound.add(40).map_err(bad)?;
        let (sum, ticks) = timed(|| bound.add(2));
        say!(
            self.io,
            "   Bound call: add(40), add(2) gives {}. Our own thread went there and back: {ticks} ticks.",
            sum.map_err(bad)?
        );
        let plain = CounterClient::plain(gate);
        let (sum, ticks) = timed(|| plain.add(100));
        say!(
            self.io,
            "   Plain call, just the instruction `call` to its address: add(100) gives {}, {ticks} ticks.",
            sum.map_err(bad)?
        );
        Ok(bound)
    }

    fn picture(&mut self) -> Result<(), String> {
        self.title(3, "Memory passed by its address");
        let gate = self.serve("colour-map")?;
        let bad = |e: Error| format!("colour-map: {e}");
        let client = ColourMapClient::bind(gate).map_err(bad)?;
        let mut picture = client.alloc(8192).map_err(bad)?;
        picture.fill(3);
        let mut table = [0; 256];
        table.iter_mut().zip(0..).for_each(|(t, i): (&mut u8, u8)| *t = 255 - i);
        let address = picture.address();
        client.map(&mut picture, &table).map_err(bad)?;
        say!(
            self.io,
            "   8192 pixels at {address:#x} were 3; `colour-map` changed them where they lie: now {}.",
            picture[8191]
        );
        drop(picture);
        let _ = client.unbind();
        Ok(())
    }

    fn denied(&mut self) -> Result<(), String> {
        self.title(4, "No right, no access");
        // What it prints itself is left out.
        let command = Command::new(b"bin/denied").arg(b"write").stream(1, StreamRef::default());
        let child = command.spawn().map_err(|e| format!("bin/denied: {e}"))?;
        let exit = child.wait().map_err(|e| format!("bin/denied: {e}"))?;
        say!(self.io, "   A program tried to write where it must not. How it ended (status {}):", ended::status(&exit));
        say!(self.io, "   {}", ended::describe(&exit, ended::section_name));
        Ok(())
    }

    fn death(&mut self, counter: &CounterClient) -> Result<(), String> {
        self.title(5, "A fault, or a dead server, is an error and not an end");
        match counter.divide(0) {
            Err(e) => say!(self.io, "   counter.divide(0) faulted in the server, on our thread. We got: {e}."),
            Ok(value) => return Err(format!("a division by zero gave {value}")),
        }
        let sum = counter.get().map_err(|e| format!("counter: {e}"))?;
        say!(self.io, "   Only that call ended. The server still knows its sum: {sum}.");
        let server = self.started.first().ok_or("no counter was started")?;
        let task = server.task;
        server.kill().and_then(|()| server.wait()).map_err(|e| format!("counter: {e}"))?;
        match counter.get() {
            Err(e) => say!(self.io, "   Now task {task} was killed. Calling it: {e}. This shell goes on."),
            Ok(value) => return Err(format!("a dead server said {value}")),
        }
        Ok(())
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, u64) {
    let began = time::ticks();
    let value = what();
    (value, time::ticks() - began)
}

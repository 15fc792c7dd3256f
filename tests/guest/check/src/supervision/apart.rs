//! A fault in one part of the system changes nothing in the memory of the others (K1-38).

use super::{gate, have, server};
use crate::report::{Outcome, doing};
use crate::services::every_server_by_both_ways;
use crate::{holds, same};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use musubi::abi::layout::PAGE;
use musubi::command::{Child, Command};
use musubi::files::File;
use musubi::interfaces::Interface;
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::counter::CounterClient;
use musubi::interfaces::files::FilesClient;
use musubi::interfaces::keyboard::KeyboardService;
use musubi::interfaces::linux::{LinuxClient, LinuxService};
use musubi::interfaces::loader::LoaderClient;
use musubi::interfaces::memory::MemoryService;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::bound::result_of;
use musubi::rt::{Bound, section};
use musubi::servers::{self, acts as act};
use musubi::{Error, Rights, names, processes};

const PARTS: [&str; 6] = ["console", "files", "loader", "memory", "linux", "keyboard"];
const TEXT: &[u8] = b"what was there before";

/// What is kept by servers, and by a program: so much of their memory as they tell.
struct Kept {
    file: File,
    pipe: u64,
    streams: StreamClient,
    counter: (Child, CounterClient),
}

impl Kept {
    fn new() -> Result<Kept, String> {
        let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("pipes"))?;
        let streams = pipes.streams().and_then(StreamClient::bind).map_err(doing("streams"))?;
        let pipe = pipes.make().map_err(doing("a pipe"))?;
        streams.write(pipe + 1, TEXT).map_err(doing("writing into it"))?;
        let name = format!("apart-{}", musubi::start().task());
        let child = Command::new(b"bin/counter").arg(name.as_bytes()).spawn().map_err(doing("counter"))?;
        let at = names::await_name(&name, 20_000_000_000).map_err(doing("its name"))?;
        let counter = CounterClient::bind(at).map_err(doing("counter"))?;
        counter.add(42).map_err(doing("adding"))?;
        Ok(Kept { file: Kept::file()?, pipe, streams, counter: (child, counter) })
    }

    fn file() -> Result<File, String> {
        let file = File::create(b"/tmp/apart").map_err(doing("create"))?;
        file.write_all(0, TEXT).map(|()| file).map_err(doing("write"))
    }

    /// By who keeps it.
    fn look(&self) -> Result<BTreeMap<&'static str, String>, String> {
        let mut kept = BTreeMap::new();
        let mut put = |name, what: Result<String, Error>| match what {
            Ok(what) => Ok(drop(kept.insert(name, what))),
            Err(error) => Err(format!("what {name} keeps: {error}")),
        };
        let mut text = [0; TEXT.len()];
        put("files", self.file.read(0, &mut text).map(|n| format!("{}", text[..n].escape_ascii())))?;
        // What is taken out goes back.
        let piped = self.streams.read(self.pipe, &mut text);
        let back = piped.and_then(|n| self.streams.write(self.pipe + 1, &text[..n as usize]));
        put("pipes", back.map(|n| format!("{}", text[..n as usize].escape_ascii())))?;
        put("counter", self.counter.1.add(0).map(|n| format!("{n}")))?;
        put("names", names::list().map(|all| all.join(" ")))?;
        put("processes", processes::status(self.counter.0.task).map(|info| format!("{info:?}")))?;
        put("memory", MemoryService::new(gate("memory")?).pager(0).map(|pager| format!("{pager:?}")))?;
        put("linux", LinuxService::new(gate("linux")?).unknown(0).map(|call| format!("{call:?}")))?;
        // How often its own thread looks is a matter of time.
        put("keyboard", KeyboardService::new(gate("keyboard")?).handled().map(|(calls, _)| format!("{calls}")))?;
        Ok(kept)
    }
}

/// Tasks of the servers, by name.
fn tasks() -> Result<BTreeMap<String, u64>, String> {
    let all = servers::list().map_err(doing("servers"))?;
    Ok(all.into_iter().map(|one| (one.name, one.info.task)).collect())
}

/// Has a server work on memory that goes away below it: it takes a page fault, in its own text. It goes on, and the caller is told.
fn page_fault(at: u64, interface: &Interface, method: &str, words: impl Fn(u64) -> [u64; 6]) -> Outcome {
    let index = interface.methods.iter().position(|one| one.name == method).ok_or("no such method")?;
    let bound = Bound::bind(at, PAGE).map_err(doing("bind"))?;
    let lent = bound.binding().args;
    holds!(section::may(lent, PAGE, Rights::READ, section::Who::Own), "nothing is lent");
    section::invalidate(lent, PAGE).map_err(doing("invalidate"))?;
    let told = bound.call(index as u64, words(lent)).and_then(result_of);
    holds!(matches!(told, Err(Error::Faulted | Error::BadAddress | Error::Absent)), "{method} told {told:?}");
    bound.unbind().map_err(doing("unbind"))
}

/// A fault in the middle of a request, in those that work on memory that they are passed.
pub fn fault_in(part: &str) -> Outcome {
    match part {
        "console" => {
            let streams = ConsoleClient::bind(gate(part)?)
                .and_then(|console| {
                    let streams = console.streams();
                    console.unbind().and(streams)
                })
                .map_err(doing(part))?;
            page_fault(streams, &StreamClient::INTERFACE, "write", |lent| [1, lent, 8, 0, 0, 0])
        }
        "files" => page_fault(gate(part)?, &FilesClient::INTERFACE, "remove", |lent| [lent, 8, 0, 0, 0, 0]),
        "loader" => page_fault(gate(part)?, &LoaderClient::INTERFACE, "spawn", |lent| [lent, 64, lent + 64, 64, 0, 0]),
        "linux" => page_fault(gate(part)?, &LinuxClient::INTERFACE, "spawn", |lent| [lent, 64, 0, 0, lent + 64, 64]),
        _ => Ok(()),
    }
}

/// Those that are passed memory fault there; then each ends, as from a fault that it does not survive.
pub fn a_fault_in_one() -> Outcome {
    let mut kept = Kept::new()?;
    for part in PARTS {
        let (before, others) = (kept.look()?, tasks()?);
        fault_in(part)?;
        same!(tasks()?, others, "the servers after a page fault in {part}");
        same!(kept.look()?, before, "what is kept after it");
        have(part, act::KILL)?;
        same!(server(part)?.why, "killed", "why {part} has ended");
        if part == "files" {
            same!(kept.file.read(0, &mut [0; 1]), Err(Error::NotFound), "its own file");
            kept.file = Kept::file()?;
        }
        let (mut after, mut now) = (kept.look()?, tasks()?);
        let own = now.insert(part.into(), others[part]);
        holds!(own != Some(others[part]), "{part} is the same task");
        same!(now, others, "the other servers after {part}");
        let mut before = before;
        for all in [&mut before, &mut after] {
            all.remove(part);
        }
        same!(after, before, "what the others keep after {part}");
        every_server_by_both_ways()?;
    }
    let (child, _) = kept.counter;
    child.kill().map_err(doing("kill"))?;
    child.wait().map(drop).map_err(doing("wait"))
}

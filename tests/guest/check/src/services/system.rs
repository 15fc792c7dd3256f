//! The system's own servers.

use super::{answers, result_of};
use crate::peer::{Peer, op};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::abi::start::StreamRef;
use musubi::command::Command;
use musubi::files::{self, File};
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::devices::DevicesClient;
use musubi::interfaces::files::FilesClient;
use musubi::interfaces::first::{FirstClient, PLACE};
use musubi::interfaces::keyboard::KeyboardClient;
use musubi::interfaces::ledger::LedgerClient;
use musubi::interfaces::linux::{LinuxClient, LinuxService};
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::pack::{PackClient, RECORD};
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::power::PowerClient;
use musubi::interfaces::processes::ProcessesClient;
use musubi::interfaces::ready::ReadyClient;
use musubi::interfaces::sched::SchedClient;
use musubi::interfaces::servers::ServersClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::later::{Answer, Later};
use musubi::rt::{Answers, Bound, section, task, time};
use musubi::stream::Stream;
use musubi::{Error, Rights, interfaces, names};

/// One question to each server of the system, by its gate and by its post (K1-5, 9).
pub fn every_server_by_both_ways() -> Outcome {
    let answers = answers()?;
    let gate = |name| names::lookup(name).map_err(doing(name));
    let console = ConsoleClient::bind(gate("console")?).map_err(doing("bind"))?;
    let posts = console.by_post(&answers).map_err(doing("console"))?;
    same!(posts.size().map_err(doing("sending"))?.wait(), console.size(), "the console's size");
    let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("bind"))?;
    let posts = pipes.by_post(&answers).map_err(doing("pipes"))?;
    same!(posts.streams().map_err(doing("sending"))?.wait(), pipes.streams(), "the gates of pipes");
    let linux = LinuxClient::bind(gate("linux")?).map_err(doing("bind"))?;
    let posts = linux.by_post(&answers).map_err(doing("linux"))?;
    same!(
        posts.unknown(u64::MAX).map_err(doing("sending"))?.wait(),
        linux.unknown(u64::MAX),
        "a call that nobody has made"
    );
    let servers = ServersClient::bind(gate("servers")?).map_err(doing("bind"))?;
    let posts = servers.by_post(&answers).map_err(doing("servers"))?;
    same!(posts.wait(gate("pipes")?, u64::MAX).map_err(doing("sending"))?.wait(), Ok(()), "a server that is there");
    same!(posts.wait(1, u64::MAX).map_err(doing("sending"))?.wait(), Err(Error::NotFound), "one that is not");
    let sched = SchedClient::bind(gate("sched")?).map_err(doing("bind"))?;
    let posts = sched.by_post(&answers).map_err(doing("sched"))?;
    same!(
        posts.processors(u64::MAX).map_err(doing("sending"))?.wait(),
        sched.processors(u64::MAX),
        "a job that is not there"
    );
    let keyboard = KeyboardClient::bind(gate("keyboard")?).map_err(doing("bind"))?;
    let posts = keyboard.by_post(&answers).map_err(doing("keyboard"))?;
    same!(
        posts.listen(u64::MAX).map_err(doing("sending"))?.wait(),
        keyboard.listen(u64::MAX),
        "a way that is not there"
    );
    let devices = DevicesClient::bind(gate("devices")?).map_err(doing("bind"))?;
    let posts = devices.by_post(&answers).map_err(doing("devices"))?;
    same!(
        posts.route(u64::MAX, u64::MAX).map_err(doing("sending"))?.wait(),
        devices.route(u64::MAX, u64::MAX),
        "an interrupt that is not there"
    );
    same!(
        posts.trace(u64::MAX).map_err(doing("sending"))?.wait(),
        Err(Error::BadArgument),
        "what no trace is asked for"
    );
    let power = PowerClient::bind(gate("power")?).map_err(doing("bind"))?;
    let methods = PowerClient::INTERFACE.methods.len() as u64;
    // (The machine is not to be switched off.)
    let posts = Later::by_post(power.bound(), &answers, methods, PowerClient::IDENTITY).map_err(doing("power"))?;
    let none = posts.begin(false, methods, [0; 6], []).map_err(doing("sending"))?.wait().and_then(result_of);
    same!(none, Err(Error::BadArgument), "a method of the switch that is not there");
    pointers_by_both_ways(&answers)?;
    what_is_for_the_system_alone(&answers)
}

/// What is pointed to, to be read and to be written, slices and arrays: by the post it is lent with each message, and the list of the argument section never says
/// that the server's threads may use it.
fn pointers_by_both_ways(answers: &Answers) -> Outcome {
    let gate = |name| names::lookup(name).map_err(doing(name));
    let list = |bound: &Bound| section::acl(bound.binding().args).map_err(doing("the argument section's list"));
    let names = NamesClient::bind(musubi::start().names()).map_err(doing("bind"))?;
    let files = FilesClient::bind(gate("files")?).map_err(doing("bind"))?;
    let processes = ProcessesClient::bind(gate("processes")?).map_err(doing("bind"))?;
    let servers = ServersClient::bind(gate("servers")?).map_err(doing("bind"))?;
    let sched = SchedClient::bind(gate("sched")?).map_err(doing("bind"))?;
    let pipes = PipesClient::bind(gate("pipes")?).map_err(doing("bind"))?;
    let stream = pipes.streams().and_then(StreamClient::bind).map_err(doing("streams"))?;
    let bounds = [names.bound(), files.bound(), processes.bound(), servers.bound(), sched.bound(), stream.bound()];
    let before = bounds.map(list).into_iter().collect::<Result<Vec<_>, String>>()?;

    let posts = names.by_post(answers).map_err(doing("names"))?;
    same!(posts.lookup("files").and_then(|one| one.wait()), names.lookup("files"), "a name");
    let posts = files.by_post(answers).map_err(doing("files"))?;
    let (mut record, mut own) =
        (files.alloc(interfaces::files::RECORD).map_err(doing("room"))?, [0; interfaces::files::RECORD]);
    same!(posts.look(b"/bin", array(&mut record)?).and_then(|one| one.wait()), Ok(()), "a directory");
    same!(files.look(b"/bin", &mut own), Ok(()), "a directory, by the gate");
    same!(record[..], own[..], "what is told of it");
    let posts = processes.by_post(answers).map_err(doing("processes"))?;
    let me = task::identity().task;
    let mut record = processes.alloc(interfaces::processes::RECORD).map_err(doing("room"))?;
    let by_gate = processes.status(me, &mut [0; interfaces::processes::RECORD]);
    same!(posts.status(me, array(&mut record)?).and_then(|one| one.wait()), by_gate, "this program");
    let posts = servers.by_post(answers).map_err(doing("servers"))?;
    let mut record = servers.alloc(interfaces::servers::RECORD).map_err(doing("room"))?;
    let (mut text, mut own) =
        (servers.alloc(interfaces::servers::TEXT_MAX).map_err(doing("room"))?, [0; interfaces::servers::TEXT_MAX]);
    let by_gate = servers.status(0, &mut [0; interfaces::servers::RECORD], &mut own);
    let by_post = posts.status(0, array(&mut record)?, &mut text).and_then(|one| one.wait());
    holds!(by_post.is_ok() && by_post == by_gate, "the first server: {by_post:?}, by the gate {by_gate:?}");
    same!(text[..], own[..], "what is told of it");
    let posts = sched.by_post(answers).map_err(doing("sched"))?;
    let (mut line, mut own) = (sched.alloc(128).map_err(doing("room"))?, [0; 128]);
    let (by_post, by_gate) = (posts.line(0, 0, &mut line).and_then(|one| one.wait()), sched.line(0, 0, &mut own));
    same!((by_post, &line[..]), (by_gate, &own[..]), "a line of the scheduler's");
    let posts = stream.by_post(answers).map_err(doing("pipes"))?;
    let pipe = pipes.make().map_err(doing("a pipe"))?;
    let mut part = stream.alloc(8).map_err(doing("room"))?;
    same!(posts.write(pipe + 1, b"by post").and_then(|one| one.wait()), Ok(7), "writing");
    same!(posts.read(pipe, &mut part).and_then(|one| one.wait()), Ok(7), "reading");
    same!(&part[..7], b"by post", "what was read");
    [pipe, pipe + 1].into_iter().try_for_each(|end| stream.close(end)).map_err(doing("closing"))?;

    let bounds = [names.bound(), files.bound(), processes.bound(), servers.bound(), sched.bound(), stream.bound()];
    let after = bounds.map(list).into_iter().collect::<Result<Vec<_>, String>>()?;
    same!(after, before, "the lists of the argument sections");
    let asks = NamesClient::bind_post(musubi::start().names(), PAGE).map_err(doing("bind_post"))?;
    let (unasked, mut name) = (list(asks.bound())?, asks.alloc(64).map_err(doing("room"))?);
    same!(asks.lookup("files"), names.lookup("files"), "a name, as a question");
    holds!(asks.list(0, &mut name).is_ok() && name[0] != 0, "what is written for a question");
    same!(list(asks.bound())?, unasked, "the list of an argument section from which questions lend");
    drop(name);
    asks.unbind().map_err(doing("unbind"))?;
    // Who says so shares it with the server's threads, as long as the binding lasts.
    let posts = names.by_post_shared(answers).map_err(doing("names"))?;
    same!(posts.lookup("files").and_then(|one| one.wait()), names.lookup("files"), "a name, from what is shared");
    same!(list(names.bound())?.len(), before[0].len() + 1, "the list of an argument section that is shared");
    Ok(())
}

/// What the system's own servers ask each other is refused to a person's program, whichever way it asks.
fn what_is_for_the_system_alone(answers: &Answers) -> Outcome {
    let gate = |name| names::lookup(name).map_err(doing(name));
    let pack = PackClient::bind(gate("pack")?).map_err(doing("bind"))?;
    let posts = pack.by_post(answers).map_err(doing("pack"))?;
    let (mut record, mut name) = (pack.alloc(RECORD).map_err(doing("room"))?, pack.alloc(64).map_err(doing("room"))?);
    same!(pack.take(0, array(&mut record)?, &mut name), Err(Error::Denied), "a file of the image, by the gate");
    let taken = posts.take(0, array(&mut record)?, &mut name).and_then(|one| one.wait());
    same!(taken, Err(Error::Denied), "a file of the image, by the post");
    what_is_for_who_starts_them(answers)?;
    let ready = ReadyClient::bind(gate("ready")?).map_err(doing("bind"))?;
    let posts = ready.by_post(answers).map_err(doing("ready"))?;
    same!(ready.ready(1), Err(Error::Denied), "who is no server is not ready, by the gate");
    same!(posts.ready(1).and_then(|one| one.wait()), Err(Error::Denied), "who is no server is not ready, by the post");
    let ledger = LedgerClient::bind(gate("ledger")?).map_err(doing("bind"))?;
    let posts = ledger.by_post(answers).map_err(doing("ledger"))?;
    let mut entry = ledger.alloc(64).map_err(doing("room"))?;
    let by_gate = [ledger.keep(1, "a", b"b"), ledger.forget(1, "a"), ledger.next("", &mut entry).map(drop)];
    same!(by_gate, [Err(Error::Denied); 3], "who is no server has no ledger, by the gate");
    let by_post = [
        posts.keep(1, "a", b"b").and_then(|one| one.wait()),
        posts.forget(1, "a").and_then(|one| one.wait()),
        posts.next("", &mut entry).and_then(|one| one.wait()).map(drop),
    ];
    same!(by_post, [Err(Error::Denied); 3], "who is no server has no ledger, by the post");
    Ok(())
}

/// What everything stands on.
fn what_is_for_who_starts_them(answers: &Answers) -> Outcome {
    let first = names::lookup("first").and_then(FirstClient::bind).map_err(doing("first"))?;
    let posts = first.by_post(answers).map_err(doing("first"))?;
    let request = Command::new(b"bin/pipes").request();
    let pipes = section::info(names::lookup("pipes").map_err(doing("pipes"))?).map_err(doing("its text"))?.base;
    let mut place = first.alloc(PLACE).map_err(doing("room"))?;
    let by_gate = [
        first.place(b"bin/pipes", array(&mut place)?),
        first.spawn_at(pipes, &request, &mut []).map(drop),
        first.manifest().map(drop),
        first.original(0).map(drop),
    ];
    same!(by_gate, [Err(Error::Denied); 4], "what the first task is there for, by the gate");
    let by_post = [
        posts.place(b"bin/pipes", array(&mut place)?).and_then(|one| one.wait()),
        posts.spawn_at(pipes, &request, &mut []).and_then(|one| one.wait()).map(drop),
        posts.manifest().and_then(|one| one.wait()).map(drop),
        posts.original(0).and_then(|one| one.wait()).map(drop),
    ];
    same!(by_post, [Err(Error::Denied); 4], "what the first task is there for, by the post");
    Ok(())
}

/// What is to be written, of the length that a method wants.
fn array<const N: usize>(bytes: &mut [u8]) -> Result<&mut [u8; N], String> {
    bytes.first_chunk_mut().ok_or_else(|| String::from("there is no room"))
}

/// Streams by their servers' posts: who waits there for something keeps nobody else from being served, and what he waits for can come by
/// the same post; no program has all the room for waiting.
pub fn streams_by_their_posts() -> Outcome {
    // More than there are receivers, and as many as one task may have wait.
    const READERS: usize = 8;
    let answers = answers()?;
    let pipes = PipesClient::bind(names::lookup("pipes").map_err(doing("pipes"))?).map_err(doing("bind"))?;
    let stream = pipes.streams().and_then(StreamClient::bind).map_err(doing("streams"))?;
    let posts = stream.by_post(&answers).map_err(doing("by_post"))?;
    for round in 0..3u8 {
        let pipe = pipes.make().map_err(doing("a pipe"))?;
        // What is to be written later lies in memory that the binding lends.
        let parts: Result<Vec<_>, Error> = (0..READERS + 1).map(|_| stream.alloc(4)).collect();
        let mut parts = parts.map_err(doing("memory"))?;
        let reads: Result<Vec<_>, Error> = parts.iter_mut().map(|part| posts.read(pipe, part)).collect();
        let mut reads = reads.map_err(doing("sending"))?;
        // One of them is too many for one task: whichever was looked at last.
        let refused = loop {
            if let Some(at) = reads.iter_mut().position(Answer::is_ready) {
                break at;
            }
            time::sleep_ns(1_000_000);
        };
        same!(reads.remove(refused).wait(), Err(Error::Busy), "one more of this task's, round {round}");
        same!(posts.is_console(pipe).map_err(doing("sending"))?.wait(), Ok(false), "another request meanwhile");
        for n in 0..READERS as u8 {
            let sent = [round, n, 7, 8];
            same!(posts.write(pipe + 1, &sent).map_err(doing("sending"))?.wait(), Ok(4), "what was written");
        }
        for one in reads {
            same!(one.wait(), Ok(4), "what a reader has got");
        }
        parts.remove(refused);
        let mut came: Vec<u8> = parts.iter().map(|part| part[1]).collect();
        came.sort_unstable();
        same!(came, (0..READERS as u8).collect::<Vec<_>>(), "what was read in round {round}");
        for id in [pipe, pipe + 1] {
            same!(posts.close(id).map_err(doing("sending"))?.wait(), Ok(()), "closing");
        }
    }
    // A console that has nothing to say.
    let console = ConsoleClient::bind(names::lookup("console").map_err(doing("console"))?).map_err(doing("bind"))?;
    let stream = console.streams().and_then(StreamClient::bind).map_err(doing("streams"))?;
    let posts = stream.by_post(&answers).map_err(doing("by_post"))?;
    let mut part = stream.alloc(4).map_err(doing("memory"))?;
    same!(posts.read(0, &mut part).map_err(doing("sending"))?.wait(), Ok(0), "the end of what is typed");
    same!(posts.read(1, &mut part).map_err(doing("sending"))?.wait(), Err(Error::NotSupported), "of the output");
    Ok(())
}

/// The personality reads more than its callers may, and knows a file by where it begins: what it runs for somebody is what that one may
/// read, whatever length he says.
pub fn a_file_that_may_not_be_read() -> Outcome {
    const PATH: &[u8] = b"/tmp/not-to-be-read";
    let file = File::create(PATH).map_err(doing("create"))?;
    file.write_all(0, b"\x7fELF, but no more of it").map_err(doing("write"))?;
    drop(file);
    let linux = LinuxService::new_with_args(names::lookup("linux").map_err(doing("linux"))?, 4096);
    let request = Command::new(PATH).args(["it"]).request();
    let run = |at: u64, len: u64| linux.spawn(&request, at, len, &mut [0; 64]);
    let info = files::find(PATH).map_err(doing("find"))?;
    same!(run(info.section, info.len), Err(Error::BadProgram), "one that may be read");
    files::set_mode(PATH, 0).map_err(doing("set_mode"))?;
    holds!(!section::may(info.section, 1, Rights::READ, section::Who::Own), "it may be read");
    for len in [info.len, 1, 0, 1 << 63, 1 << 63 | 1, u64::MAX] {
        same!(run(info.section, len), Err(Error::Denied), "one that may not be read, of {len} bytes");
    }
    same!(run(0, 0), Err(Error::BadProgram), "an empty file");
    files::remove(PATH).map_err(doing("remove"))
}

/// Where an answer cannot be written the server hears of an error, and its call does not end in the middle: it would leave what it has in hand.
pub fn answers_that_cannot_be_written() -> Outcome {
    let gate = |name| names::lookup(name).map_err(doing(name));
    let names = NamesClient::bind_with_args(musubi::start().names(), 2 * PAGE).map_err(doing("names"))?;
    let sched = SchedClient::bind_with_args(gate("sched")?, 2 * PAGE).map_err(doing("sched"))?;
    for (what, client) in [("a name", names.bound()), ("a line", sched.bound())] {
        let mut line = client.alloc(64).map_err(doing("room"))?;
        // The page is there.
        line[0] = 1;
        let page = line.as_ptr() as u64 / PAGE * PAGE;
        section::invalidate(page, PAGE).map_err(doing("invalidate"))?;
        let told = if what == "a name" { names.list(0, &mut line) } else { sched.line(0, 0, &mut line) };
        section::validate(page, PAGE).map_err(doing("validate"))?;
        same!(told, Err(Error::BadAddress), "{what} for a page that is invalid");
        let told = if what == "a name" { names.list(0, &mut line) } else { sched.line(0, 0, &mut line) };
        holds!(told.is_ok_and(|len| len > 0), "{what} for one that is valid: {told:?}");
    }
    Ok(())
}

/// A program that meets streams of ever new gates, as the personality does, keeps bindings to some of them only.
pub fn streams_of_many_gates() -> Outcome {
    const GATES: u64 = 120;
    let peer = Peer::start()?;
    let sections = || task::info(task::identity().task).map_or(0, |info| info.used.sections);
    let before = sections();
    for _ in 0..GATES {
        let gate = peer.call(op::RAW, &[0, 0]).map_err(doing("a gate"))?;
        same!(Stream(StreamRef { gate, id: 0 }).is_console(), false, "what has no such method");
    }
    holds!(sections() < before + GATES - 40, "{} sections more for {GATES} gates", sections() - before);
    peer.end()
}

//! The skeletons of the system's own servers, with anything in front of them: by the post messages of other interfaces, of no method and
//! with words that are no arguments; by the gates words that are none; by both memory that may be read and written, of any contents. What is no
//! argument is answered with an error, and nobody ends.

use super::floods::Random;
use super::{END_NS, answers, raw};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::interfaces::Interface;
use musubi::interfaces::clock::ClockClient;
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::devices::DevicesClient;
use musubi::interfaces::files::FilesClient;
use musubi::interfaces::first::FirstClient;
use musubi::interfaces::keyboard::KeyboardClient;
use musubi::interfaces::ledger::LedgerClient;
use musubi::interfaces::linux::LinuxClient;
use musubi::interfaces::loader::LoaderClient;
use musubi::interfaces::memory::MemoryClient;
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::pack::PackClient;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::power::PowerClient;
use musubi::interfaces::processes::ProcessesClient;
use musubi::interfaces::ready::ReadyClient;
use musubi::interfaces::request::Request;
use musubi::interfaces::sched::SchedClient;
use musubi::interfaces::servers::ServersClient;
use musubi::interfaces::stream::StreamClient;
use musubi::rt::bound::result_of;
use musubi::rt::gate::Returns;
use musubi::rt::later::Later;
use musubi::rt::post::Post;
use musubi::rt::serve::opener;
use musubi::rt::{Bound, request};
use musubi::{Error, names, servers};

/// A server's interface, what it is known by in messages, and methods whose words mean something whatever they are: they would wait.
type Served = (&'static str, Interface, u32, &'static [&'static str]);

const ALL: [Served; 21] = [
    ("names", NamesClient::INTERFACE, NamesClient::IDENTITY, &[]),
    ("files", FilesClient::INTERFACE, FilesClient::IDENTITY, &[]),
    ("files/streams", StreamClient::INTERFACE, StreamClient::IDENTITY, &[]),
    ("processes", ProcessesClient::INTERFACE, ProcessesClient::IDENTITY, &[]),
    ("clock", ClockClient::INTERFACE, ClockClient::IDENTITY, &["wait-until"]),
    ("memory", MemoryClient::INTERFACE, MemoryClient::IDENTITY, &["want"]),
    ("keyboard", KeyboardClient::INTERFACE, KeyboardClient::IDENTITY, &[]),
    ("console", ConsoleClient::INTERFACE, ConsoleClient::IDENTITY, &["foreground"]),
    ("console/streams", StreamClient::INTERFACE, StreamClient::IDENTITY, &[]),
    ("pipes", PipesClient::INTERFACE, PipesClient::IDENTITY, &["make"]),
    ("pipes/streams", StreamClient::INTERFACE, StreamClient::IDENTITY, &[]),
    ("linux", LinuxClient::INTERFACE, LinuxClient::IDENTITY, &[]),
    ("sched", SchedClient::INTERFACE, SchedClient::IDENTITY, &[]),
    ("servers", ServersClient::INTERFACE, ServersClient::IDENTITY, &[]),
    ("ready", ReadyClient::INTERFACE, ReadyClient::IDENTITY, &[]),
    ("ledger", LedgerClient::INTERFACE, LedgerClient::IDENTITY, &[]),
    ("loader", LoaderClient::INTERFACE, LoaderClient::IDENTITY, &[]),
    ("first", FirstClient::INTERFACE, FirstClient::IDENTITY, &[]),
    ("pack", PackClient::INTERFACE, PackClient::IDENTITY, &[]),
    ("devices", DevicesClient::INTERFACE, DevicesClient::IDENTITY, &[]),
    ("power", PowerClient::INTERFACE, PowerClient::IDENTITY, &["off"]),
];

/// For each of them, in each way.
const COUNT: u64 = 400;

fn gate_of(name: &str) -> Result<u64, String> {
    let streams = |found: Result<u64, Error>| found.map_err(doing(name));
    let at = |name: &str| names::lookup(name).map_err(doing(name));
    match name {
        "names" => Ok(musubi::start().names()),
        "files/streams" => streams(FilesClient::bind(at("files")?).and_then(|one| one.streams())),
        "console/streams" => streams(ConsoleClient::bind(at("console")?).and_then(|one| one.streams())),
        "pipes/streams" => streams(PipesClient::bind(at("pipes")?).and_then(|one| one.streams())),
        name => at(name),
    }
}

/// By another program, which leaves nothing. The same servers are there afterwards, and answer.
pub fn every_skeleton_refuses() -> Outcome {
    let tasks = || -> Result<Vec<(String, u64)>, String> {
        let all = servers::list().map_err(doing("servers"))?;
        Ok(all.into_iter().map(|one| (one.name, one.info.task)).collect())
    };
    let before = tasks()?;
    for seed in 1..=3 {
        let words = ["check", "as", "services", "wild", "0", &format!("{seed}")];
        let child = Command::new(b"bin/check").args(words).spawn().map_err(doing("start"))?;
        let exit = child.wait_for(5 * END_NS).map_err(doing("its end"))?;
        same!(exit.code, 0, "how it ended with seed {seed} (see the error stream)");
        same!(tasks()?, before, "the servers after seed {seed}");
    }
    super::system::every_server_by_both_ways()
}

/// The program.
pub fn wild(seed: u64) -> i32 {
    let mut random = Random::new(seed);
    for served in &ALL {
        if let Err(why) = gate_of(served.0).and_then(|gate| one(served, gate, &mut random)) {
            musubi::eprintln!("{}: {why}", served.0);
            return 1;
        }
    }
    0
}

/// Words that are no arguments: addresses of what is not lent, and numbers of nobody.
fn words(random: &mut Random) -> [u64; 6] {
    let local = 0u64;
    let places = [
        8,
        musubi::start().text(),
        musubi::start().names(),
        core::ptr::from_ref(&local) as u64,
        0xffff_8000_0000_0000,
        u64::MAX - 7,
        (1 << 47) - 8,
    ];
    [(); 6].map(|()| match random.next() % 3 {
        0 => places[random.next() as usize % places.len()],
        1 => random.next() | 1 << 63,
        // Not `whom::GROUP` and a number that may be one's own group's.
        _ => 1 << 40 | random.next() >> 24,
    })
}

fn one(served: &Served, gate: u64, random: &mut Random) -> Outcome {
    let (_, interface, identity, spared) = served;
    let methods = interface.methods.len() as u64;
    let bound = Bound::bind(gate, 0).map_err(doing("bind"))?;
    let is_spared = |method: u64| spared.contains(&interface.methods[method as usize].name);
    let has_pointer = |method: u64| interface.methods[method as usize].arguments.iter().any(|one| one.1.contains('&'));
    for _ in 0..COUNT {
        let method = random.next() % methods;
        if is_spared(method) {
            continue;
        }
        let words = words(random);
        let what = interface.methods[method as usize].name;
        let outcome = bound.call(method, words);
        if has_pointer(method) {
            same!(outcome.and_then(result_of), Err(Error::Refused), "{what} by the gate, with {words:x?}");
        } else if interface.methods[method as usize].returns == Returns::Pair {
            same!(outcome.map(drop), Ok(()), "{what} by the gate, with {words:x?}");
        } else {
            // Whatever it says to such words, it says it itself.
            let is_lost = matches!(outcome, Err(Error::Faulted | Error::Dead));
            holds!(!is_lost, "{what} by the gate, with {words:x?}: {outcome:?}");
        }
    }
    contents(served, gate, random)?;
    // Behind the methods there is one that opens other ways.
    let post = bound.call(methods, [opener::POST, u64::from(*identity), 0, 0, 0, 0]).and_then(result_of);
    let post = Post(post.map_err(doing("its post"))?);
    for _ in 0..COUNT {
        message((interface, *identity, &is_spared, &has_pointer), post, random)?;
    }
    bound.unbind().map_err(doing("unbind"))
}

/// Bytes that are passed at once, and of what of it an argument begins in.
const ROOM: usize = 2048;
const BEGINS: u64 = 1024;

/// Arguments that lie in memory which the server may use, as long as they say that they are, and what is in them is anybody's guess.
fn contents((name, interface, identity, _): &Served, gate: u64, random: &mut Random) -> Outcome {
    // What is written to the console is seen, and who reads there waits for a person: there nothing is written, or what was not passed.
    let is_seen = *name == "console/streams";
    let bound = Bound::bind(gate, PAGE).map_err(doing("bind"))?;
    let (answers, methods) = (answers()?, interface.methods.len() as u64);
    let posts = Later::by_post_shared(&bound, &answers, methods, *identity).map_err(doing("by_post_shared"))?;
    for n in 0..2 * COUNT {
        let method = random.next() % methods;
        let known = &interface.methods[method as usize];
        if !known.arguments.iter().any(|one| one.1.contains('&')) || is_seen && known.name != "write" {
            continue;
        }
        let mut place = bound.alloc(ROOM).map_err(doing("room for arguments"))?;
        fill(&mut place, random);
        let at = place.as_ptr() as u64;
        let mut all = Vec::new();
        for (_, ty) in known.arguments {
            let begin = if random.next() % 2 == 0 { 0 } else { random.next() % BEGINS };
            match (ty.contains('&'), ty.contains(';')) {
                (false, _) => all.push(if random.next() % 2 == 0 { random.next() % 64 } else { random.next() }),
                (true, true) => all.extend([at + begin, length(ty, random)]),
                (true, false) if is_seen => {
                    let lengths = [0, 1 << 40, u64::MAX - random.next() % PAGE];
                    all.extend([at + begin, lengths[random.next() as usize % lengths.len()]]);
                }
                // As long as what a program is started with, for once.
                (true, false) if begin == 0 && random.next() % 2 == 0 => all.extend([at, request().len() as u64]),
                (true, false) => {
                    let most = if random.next() % 2 == 0 { 16 } else { ROOM as u64 - begin };
                    all.extend([at + begin, random.next() % most]);
                }
            }
        }
        let words = core::array::from_fn(|n| all.get(n).copied().unwrap_or(0));
        let (way, outcome) = match n % 2 {
            0 => ("gate", bound.call(method, words)),
            _ => ("post", posts.begin(false, method, words, []).and_then(|one| one.wait())),
        };
        let outcome = outcome.and_then(result_of);
        let is_lost = matches!(outcome, Err(Error::Dead | Error::Faulted));
        holds!(!is_lost, "{} by the {way} of {words:x?}: {outcome:?}", known.name);
    }
    same!(answers.strangers(), 0, "{name}: other messages");
    bound.unbind().map_err(doing("unbind"))
}

/// Of an array (`&[u8; 64]`), and for once another one.
fn length(ty: &str, random: &mut Random) -> u64 {
    let digits = |c: char| !c.is_ascii_digit();
    match ty.rsplit(';').next().and_then(|last| last.trim_matches(digits).parse().ok()) {
        Some(len) if random.next() % 8 > 0 => len,
        // By the name of a constant: at random it is seldom right.
        _ => [16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 128, 256, random.next() % 512][random.next() as usize % 13],
    }
}

/// What a program is started with that is not there.
fn request() -> Vec<u8> {
    let args = [&b"a"[..], b"", b"b c"].map(<[u8]>::to_vec).into();
    Request { path: b"bin/nothing-of-this-name".to_vec(), args, ..Request::default() }.encode()
}

/// Contents that somebody thought of: bytes, paths, text that is none, and what programs are started with, spoilt.
fn fill(place: &mut [u8], random: &mut Random) {
    let paths = b"/./../tmp//\0a~ \xff";
    let encoded = request();
    match random.next() % 4 {
        0 => place.fill_with(|| random.next() as u8),
        1 => place.fill_with(|| paths[random.next() as usize % paths.len()]),
        2 => place.fill(random.next() as u8),
        _ => {
            // Wherever an argument begins, one lies not far behind.
            place.fill_with({
                let mut bytes = encoded.iter().cycle();
                move || *bytes.next().unwrap_or(&0)
            });
            for _ in 0..random.next() % 8 {
                place[random.next() as usize % ROOM] = random.next() as u8;
            }
        }
    }
}

type Known<'a> = (&'a Interface, u32, &'a dyn Fn(u64) -> bool, &'a dyn Fn(u64) -> bool);

fn message((interface, identity, is_spared, has_pointer): Known, post: Post, random: &mut Random) -> Outcome {
    let (tag, methods) = (1 + random.next() as u32 % 1000, interface.methods.len() as u64);
    let words = words(random);
    let ask = |identity, method| {
        let op = request::head(identity, tag, method);
        match raw(post, op, words) {
            Ok((head, answer)) if head == op => request::values_of([answer[0], answer[1], answer[2]]),
            Ok((head, _)) => {
                musubi::eprintln!("{head:#x} is the answer to {op:#x}");
                Err(Error::Changed)
            }
            Err(error) => Err(error),
        }
    };
    match random.next() % 3 {
        0 => {
            let other = (identity + 1 + random.next() as u32 % 500) % request::IDENTITIES;
            let other = if other == identity { other ^ 1 } else { other };
            same!(ask(other, random.next() % 256), Err(Error::Refused), "of interface {other}");
        }
        1 => {
            let method = methods + random.next() % (256 - methods);
            same!(ask(identity, method), Err(Error::BadArgument), "method {method}");
        }
        _ => {
            let method = random.next() % methods;
            let what = interface.methods[method as usize].name;
            if has_pointer(method) {
                same!(ask(identity, method).and_then(result_of), Err(Error::Refused), "{what}, with {words:x?}");
            } else if !is_spared(method) {
                // Whatever it says, it does.
                let outcome = ask(identity, method);
                holds!(
                    !matches!(outcome, Err(Error::Dead | Error::Faulted | Error::Changed)),
                    "{what}, with {words:x?}: {outcome:?}"
                );
            }
        }
    }
    Ok(())
}

//! Operations on files by one thread and by several at once, each on files of its own; and beside them on what all share. Counted is what
//! all processors execute, by the operations of all: it does not grow where nobody pays for anybody. And how long it takes until the last one
//! is done, with whatever they wait for: by one that counts beside them where processors take turns, else by the clock.

use crate::at_once::at_once;
use crate::many::moments;
use crate::report::{Case, Report};
use crate::rounds::Rounds;
use crate::stand::{self, Stand};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use musubi::files::{self, File};
use musubi::interfaces::files::how;
use musubi::rt::{section, task, time};
use musubi::{Error, names};

/// Operations of each thread, and such before it is measured.
const OPERATIONS: u64 = 400;
const WARM: u64 = 50;
const CLIENTS: [u64; 3] = [1, 2, 4];
const BYTES: usize = 4096;
/// Bytes of a thread's file.
const LEN: u64 = 64 << 10;
const ROOT: &str = "/tmp/bench";
/// By the clock what else the host does only slows a run down: the fastest of so many counts.
const RUNS: usize = 6;
/// Where somebody else came between: so often it is measured at most.
const TRIES: usize = 8;

/// Of each of very many threads.
const OPERATIONS_OF_FIGHT: u64 = 50;
const WARM_OF_FIGHT: u64 = 5;

/// One of the threads, with what is its own.
struct Client {
    directory: String,
    file: File,
    /// Where the file lies.
    place: &'static [u8],
    shared: File,
}

type Operation = fn(&Client, u64) -> Result<(), Error>;
const CASES: [(&str, usize, Operation); 7] = [
    ("make-and-remove", 0, |client, n| make_and_remove(&client.directory, n)),
    ("open-and-close", 0, |client, _| File::open(format!("{}/file", client.directory).as_bytes(), how::READ).map(drop)),
    ("write", BYTES, |client, n| client.file.write(offset(n), &[n as u8; BYTES]).map(drop)),
    ("read", BYTES, |client, n| client.file.read(offset(n), &mut [0; BYTES]).map(drop)),
    ("load", BYTES, load),
    ("make-and-remove-in-one-directory", 0, |_, n| make_and_remove(ROOT, n)),
    ("write-to-one-file", BYTES, |client, n| client.shared.write(offset(n), &[n as u8; BYTES]).map(drop)),
];

/// Those that are compared by the clock, on files of their own.
const OWN: [&str; 4] = ["make-and-remove", "open-and-close", "write", "read"];
/// Operations of each thread that take longer than what a clock is wrong by.
const LONG: u64 = 10_000;

/// What is soon done is done more often: where processors take turns, one turn of somebody who waits is then little beside it.
fn operations(case: &str) -> u64 {
    if case == "load" { 16 * OPERATIONS } else { OPERATIONS }
}

fn offset(n: u64) -> u64 {
    n * BYTES as u64 % LEN
}

/// Under a name that no other thread uses.
fn make_and_remove(directory: &str, n: u64) -> Result<(), Error> {
    let path = format!("{directory}/{}-{n}", musubi::rt::task::identity().thread);
    drop(File::create(path.as_bytes())?);
    files::remove(path.as_bytes())
}

/// What `read` does, without a call.
fn load(client: &Client, n: u64) -> Result<(), Error> {
    let at = offset(n) as usize;
    let mut bytes = [0; BYTES];
    bytes.copy_from_slice(&client.place[at..at + BYTES]);
    black_box(bytes);
    Ok(())
}

pub fn run(report: &Report) -> Result<(), String> {
    within(|| measure(report))
}

/// How many thousandths of one thread's work so many do, each with files of its own, by the clock: so often each operation.
pub fn side_by_side(threads: u64, times: usize, mut tell: impl FnMut(&str, u64)) -> Result<(), String> {
    within(|| {
        let clients = clients(threads)?;
        for (case, _, operation) in CASES.into_iter().filter(|case| OWN.contains(&case.0)) {
            let run = |count: u64| together(&clients[..count as usize], LONG, None, operation).map(|took| took.ticks);
            for _ in 0..times {
                let (alone, all) = (run(1)?, run(threads)?);
                tell(case, 1000 * alone * threads / all.max(1));
            }
        }
        Ok(())
    })
}

/// A thread for each processor, each with a file of its own, and then in one directory and at one file: each operation of all as one round between marks.
pub fn fight(report: &Report) -> Result<(), String> {
    within(|| {
        let clients = clients(task::processors().count() as u64)?;
        for (case, bytes, operation) in CASES.into_iter().filter(|case| case.0 != "load") {
            let times = |count: u64| move |number: usize| (0..count).try_for_each(|n| operation(&clients[number], n));
            let round = at_once(clients.len(), times(WARM_OF_FIGHT), times(OPERATIONS_OF_FIGHT), moments())?;
            let (case, way) = (format!("{case}-all"), way(clients.len() as u64));
            let operations = OPERATIONS_OF_FIGHT * clients.len() as u64;
            report.at_a_stretch(Case { case: &case, way: &way, bytes }, operations, &Rounds::once(round));
        }
        Ok(())
    })
}

fn within(measure: impl FnOnce() -> Result<(), Error>) -> Result<(), String> {
    names::lookup("files").map_err(|e| format!("files: {e}"))?;
    let outcome = measure();
    for path in files::tree(ROOT.as_bytes()).iter().rev() {
        let path = [ROOT.as_bytes(), b"/", path].concat();
        let _ = files::remove(&path).or_else(|_| files::remove_directory(&path));
    }
    let _ = files::remove_directory(ROOT.as_bytes());
    outcome.map_err(|e| format!("{e}"))
}

fn measure(report: &Report) -> Result<(), Error> {
    let most = CLIENTS.into_iter().max().unwrap_or(1);
    let clients = clients(most)?;
    let counted = time::ticks_are_instructions();
    let runs = if counted { 1 } else { RUNS };
    for (case, bytes, operation) in CASES {
        for count in CLIENTS {
            let operations = operations(case);
            let run =
                |count: u64| Took::of(&clients[..count as usize], None, (operations, operation)).map(|took| took.ticks);
            let (mut alone, mut all) = (run(1)?, run(count)?);
            for _ in 1..runs {
                alone = alone.min(run(1)?);
                all = all.min(run(count)?);
            }
            let way = way(count);
            let case = Case { case, way: &way, bytes };
            report.per_operation(case, all, count * operations);
            if count > 1 {
                report.count(case, "permille", 1000 * alone * count / all.max(1));
            }
        }
    }
    if !counted || (stand::places(task::processors().count()) as u64) < most {
        return Ok(());
    }
    // Who prints wakes others, so not before all is known.
    let mut known = Vec::new();
    for (case, bytes, operation) in CASES {
        for count in CLIENTS.into_iter().filter(|count| *count > 1) {
            known.push((case, bytes, count, beside_one(&clients[..count as usize], (operations(case), operation))?));
        }
    }
    for (case, bytes, count, gained) in known {
        report.count(Case { case, way: &way(count), bytes }, "permille-side-by-side", gained);
    }
    Ok(())
}

/// How many thousandths of what one does all of them do, as if their processors ran at once.
fn beside_one(clients: &'static [Client], what: (u64, Operation)) -> Result<u64, Error> {
    for _ in 0..TRIES {
        let stand = Stand::start()?;
        let run = |count: usize| Took::of(&clients[..count], Some(stand), what).map(|took| took.beats);
        let took = run(1).and_then(|alone| Ok((alone, run(clients.len())?)));
        let is_kept = stand.is_kept();
        stand.stop()?;
        let (alone, all) = took?;
        if is_kept {
            return Ok(1000 * alone * clients.len() as u64 / all.max(1));
        }
    }
    Err(Error::Busy)
}

fn clients(count: u64) -> Result<&'static [Client], Error> {
    files::make_directory(ROOT.as_bytes(), 0o755)?;
    let clients: Result<Vec<Client>, Error> = (0..count).map(Client::new).collect();
    Ok(Vec::leak(clients?))
}

fn way(threads: u64) -> String {
    format!("{threads}-thread{}", if threads == 1 { "" } else { "s" })
}

/// What a run took.
#[derive(Clone, Copy)]
struct Took {
    /// Instructions of all processors; where they run at once, time.
    ticks: u64,
    /// Of the one that counts beside them.
    beats: u64,
}

impl Took {
    /// Starting threads and waiting for their ends is no operation.
    fn of(
        clients: &'static [Client],
        stand: Option<&Stand>,
        (operations, operation): (u64, Operation),
    ) -> Result<Took, Error> {
        let run = |operations| together(clients, operations, stand, operation);
        Ok(run(operations)?.less(run(0)?))
    }

    fn less(self, other: Took) -> Took {
        let less = |one: u64, other: u64| one.saturating_sub(other);
        Took { ticks: less(self.ticks, other.ticks), beats: less(self.beats, other.beats) }
    }
}

impl Client {
    fn new(number: u64) -> Result<Client, Error> {
        let directory = format!("{ROOT}/{number}");
        files::make_directory(directory.as_bytes(), 0o755)?;
        let file = File::create(format!("{directory}/file").as_bytes())?;
        file.write_all(0, &alloc::vec![number as u8; LEN as usize])?;
        let info = file.status()?;
        let place = section::view(info.section, info.len).ok_or(Error::NotFound)?;
        Ok(Client { directory, file, place, shared: File::create(format!("{ROOT}/shared").as_bytes())? })
    }
}

/// Until every client has done so many operations on a thread of its own.
fn together(
    clients: &'static [Client],
    operations: u64,
    stand: Option<&Stand>,
    operation: Operation,
) -> Result<Took, Error> {
    let times = move |count: u64| move |number: usize| (0..count).try_for_each(|n| operation(&clients[number], n));
    let read = || Took { ticks: time::ticks(), beats: stand.map_or(0, Stand::beats) };
    let [before, after] = match stand {
        Some(stand) => {
            stand.run(clients.len(), times(WARM), read)?;
            stand.run(clients.len(), times(operations), read)?
        }
        None => at_once(clients.len(), times(WARM), times(operations), read)?,
    };
    Ok(after.less(before))
}

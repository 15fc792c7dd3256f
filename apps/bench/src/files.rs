//! Operations on files by one thread and by several at once, each on files of its own; and beside them on what all share. Counted is what
//! all processors execute, by the operations of all: it does not grow where nobody waits for anybody.

use crate::report::{Case, Report};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use musubi::files::{self, File};
use musubi::interfaces::files::how;
use musubi::rt::{section, sync, thread, time};
use musubi::{Error, names};

/// Operations of each thread, and such before it is measured.
const OPERATIONS: u64 = 1000;
const WARM: u64 = 50;
const CLIENTS: [u64; 3] = [1, 2, 4];
const BYTES: usize = 4096;
/// Bytes of a thread's file.
const LEN: u64 = 64 << 10;
const ROOT: &str = "/tmp/bench";

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
    names::lookup("files").map_err(|e| format!("files: {e}"))?;
    let outcome = measure(report);
    for path in files::tree(ROOT.as_bytes()).iter().rev() {
        let path = [ROOT.as_bytes(), b"/", path].concat();
        let _ = files::remove(&path).or_else(|_| files::remove_directory(&path));
    }
    let _ = files::remove_directory(ROOT.as_bytes());
    outcome.map_err(|e| format!("{e}"))
}

fn measure(report: &Report) -> Result<(), Error> {
    files::make_directory(ROOT.as_bytes(), 0o755)?;
    let most = CLIENTS.into_iter().max().unwrap_or(1);
    let clients: Result<Vec<Client>, Error> = (0..most).map(Client::new).collect();
    let clients: &'static [Client] = Vec::leak(clients?);
    for (case, bytes, operation) in CASES {
        let mut alone = 0;
        for count in CLIENTS {
            let clients = &clients[..count as usize];
            // Starting threads and waiting for their ends is no operation.
            let ticks = together(clients, OPERATIONS, operation)?.saturating_sub(together(clients, 0, operation)?);
            let way = format!("{count}-thread{}", if count == 1 { "" } else { "s" });
            report.per_operation(Case { case, way: &way, bytes }, ticks, count * OPERATIONS);
            if count == 1 {
                alone = ticks;
            } else {
                let gained = 1000 * alone * count / ticks.max(1);
                report.count(Case { case, way: &way, bytes }, "permille", gained);
                // Each does as much as every other one: where processors take turns, this is what they would gain side by side.
                report.count(Case { case, way: &way, bytes }, "permille-by-share", gained * count);
            }
        }
    }
    Ok(())
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

/// Ticks until every client has done so many operations on a thread of its own.
fn together(clients: &'static [Client], operations: u64, operation: Operation) -> Result<u64, Error> {
    struct Run {
        ready: AtomicU32,
        go: AtomicU32,
        failed: AtomicU64,
    }
    let run: &'static Run =
        Box::leak(Box::new(Run { ready: AtomicU32::new(0), go: AtomicU32::new(0), failed: AtomicU64::new(0) }));
    let work = move |client: &'static Client| {
        let mut outcome = (0..WARM).try_for_each(|n| operation(client, n));
        run.ready.fetch_add(1, Ordering::SeqCst);
        while run.go.load(Ordering::SeqCst) == 0 {
            let _ = sync::wait(&run.go, 0, u64::MAX);
        }
        outcome = outcome.and_then(|()| (0..operations).try_for_each(|n| operation(client, n)));
        if let Err(error) = outcome {
            run.failed.store(error.word(), Ordering::SeqCst);
        }
    };
    let threads: Result<Vec<_>, Error> = clients.iter().map(|client| thread::spawn(move || work(client), 0)).collect();
    let threads = threads?;
    while run.ready.load(Ordering::SeqCst) < clients.len() as u32 {
        time::sleep_ns(1_000_000);
    }
    let began = time::ticks();
    run.go.store(1, Ordering::SeqCst);
    sync::wake(&run.go, u64::MAX);
    threads.into_iter().try_for_each(|one| one.join().map(drop))?;
    let ticks = time::ticks() - began;
    match run.failed.load(Ordering::SeqCst) {
        0 => Ok(ticks),
        word => Err(Error::from_word(word).unwrap_or(Error::Faulted)),
    }
}

//! The system's own servers, asked by several clients at once (K1-4), each for something else and by a binding of its own: what they do in the time of
//! one, as if all processors ran at once ([`crate::stand`]). What they share is the server.

use crate::service::beside_one;
use crate::stand::Stand;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::interfaces::names::NamesClient;
use musubi::interfaces::pipes::PipesClient;
use musubi::interfaces::processes::{ProcessesClient, RECORD};
use musubi::interfaces::stream::StreamClient;
use musubi::rt::Mutex;
use musubi::rt::lend::Loan;
use musubi::{Error, names, processes};

const CLIENTS: [usize; 2] = [2, 4];
/// Of each client, and such before it is measured.
const TIMES: u64 = 4_000;
const WARM: u64 = 50;
const NAME: &str = "files";
/// Bytes through a pipe at a time.
const PART: usize = 64;

/// What lies in its argument sections is passed as it is: nothing of a client's is another one's.
struct Client {
    names: &'static NamesClient,
    name: Loan<'static>,
    processes: &'static ProcessesClient,
    /// Whom it asks for.
    task: u64,
    record: Mutex<Loan<'static>>,
    streams: &'static StreamClient,
    pipe: u64,
    part: Mutex<Loan<'static>>,
}

type Operation = fn(&Client) -> Result<(), Error>;
const CASES: [(&str, Operation); 3] = [("lookup", lookup), ("status", status), ("pipe", pipe)];

fn lookup(client: &Client) -> Result<(), Error> {
    client.names.lookup(core::str::from_utf8(&client.name).map_err(|_| Error::BadArgument)?).map(drop)
}

fn status(client: &Client) -> Result<(), Error> {
    let record = &mut **client.record.lock();
    client.processes.status(client.task, record.try_into().map_err(|_| Error::TooBig)?)
}

fn pipe(client: &Client) -> Result<(), Error> {
    let part = &mut *client.part.lock();
    client.streams.write(client.pipe + 1, part)?;
    match client.streams.read(client.pipe, part)? {
        len if len == PART as u64 => Ok(()),
        _ => Err(Error::Changed),
    }
}

impl Client {
    fn new(task: u64) -> Result<Client, Error> {
        // (A program that measures ends soon: what its clients have is not given back before.)
        let (names, processes) = (NamesClient::bind(musubi::start().names())?, names::lookup("processes")?);
        let names: &'static NamesClient = Box::leak(Box::new(names));
        let processes: &'static ProcessesClient = Box::leak(Box::new(ProcessesClient::bind(processes)?));
        let pipes = PipesClient::bind(names::lookup("pipes")?)?;
        let streams: &'static StreamClient = Box::leak(Box::new(StreamClient::bind(pipes.streams()?)?));
        let mut name = names.alloc(NAME.len())?;
        name.copy_from_slice(NAME.as_bytes());
        let (record, part) = (Mutex::new(processes.alloc(RECORD)?), Mutex::new(streams.alloc(PART)?));
        Ok(Client { names, name, processes, task, record, streams, pipe: pipes.make()?, part })
    }
}

/// A case, so many clients, and how many thousandths of what one does they do.
pub type Gained = (&'static str, usize, u64);

/// Of as many clients as there are places for.
pub fn gained(places: usize) -> Result<Vec<Gained>, String> {
    let failed = |e: Error| format!("clients of the system's servers: {e}");
    // Each asks for another process, if there are so many.
    let all = processes::list().map_err(failed)?;
    let most = CLIENTS.into_iter().filter(|clients| *clients <= places).max().unwrap_or(0);
    let clients: Result<Vec<Client>, Error> = all.iter().cycle().take(most).map(|one| Client::new(one.task)).collect();
    let clients: &'static [Client] = Vec::leak(clients.map_err(failed)?);
    let mut known = Vec::new();
    for (case, operation) in CASES {
        for count in CLIENTS.into_iter().filter(|count| *count <= clients.len()) {
            let took = |stand: &'static Stand, count: usize| {
                let times =
                    move |times: u64| move |number: usize| (0..times).try_for_each(|_| operation(&clients[number]));
                stand.run(count, times(WARM), || ())?;
                stand.run(count, times(TIMES), || stand.beats()).map(|[before, after]| after - before)
            };
            let gained = beside_one(count, took).map_err(|why| format!("{case} by {count} clients: {why}"))?;
            // So many have done so many times as much.
            known.push((case, count, gained * count as u64));
        }
    }
    Ok(known)
}

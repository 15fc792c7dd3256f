//! Watches the servers, and starts those that end again where they stood (docs/decisions/0011). Each has a thread of this program's,
//! which does nothing else.

mod asked;

use crate::directory::Directory;
use crate::ledger::Book;
use crate::policy::{Policy, Verdict};
use crate::programs::Programs;
use crate::system::{CONSOLE, FILES, LINUX, LOADER, NAMES, Server};
use crate::{describe, doing};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::task::{Exit, Limits, USER_SYSTEM, exit};
use musubi::command::{Child, Command};
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::first::{FirstClient, PLACE, Place};
use musubi::interfaces::ledger;
use musubi::interfaces::ready;
use musubi::interfaces::servers::{act, state};
use musubi::rt::post::Post;
use musubi::rt::{Condition, Mutex, task, thread, time};
use musubi::{AclEntry, Error, Rights, servers};
use zerocopy::{FromBytes, FromZeros};

/// How long a server may take until it is ready.
const PATIENCE_NS: u64 = 20_000_000_000;
/// How often it is looked whether it is.
const LOOK_NS: u64 = 1_000_000;

pub struct Supervisor {
    /// Nothing of these is done with the lock in hand.
    all: Mutex<Vec<Record>>,
    changed: Condition,
    /// Programs that are no servers, and the class and group that they are to have; how many were said, and how many the loader knows, or the next one.
    orders: Mutex<Vec<(&'static str, u64, u64)>>,
    ordered: AtomicU64,
    carried_out: AtomicU64,
    /// The task of the shell that the console is for; whoever tells it that has this, so that it hears the latest last.
    shell: Mutex<u64>,
    programs: Programs,
    pub directory: Directory,
    book: &'static Book,
}

/// One server.
struct Record {
    server: &'static Server,
    place: Place,
    state: u64,
    since: u64,
    task: u64,
    /// How often it has been ready.
    starts: u64,
    /// Why it has ended last.
    why: String,
    /// One of [`act`]: what somebody has had it ended for.
    asked: Option<u64>,
    /// A task that is to be ended.
    kill: u64,
    /// Somebody wants it started now.
    hurry: bool,
    stopped: bool,
    /// The class that it is started in, and its group there; none: as the image says.
    placed: Option<(u64, u64)>,
}

impl Record {
    fn is_up(&self) -> bool {
        matches!(self.state, state::STARTING | state::RUNNING)
    }

    fn is_down(&self) -> bool {
        matches!(self.state, state::STOPPED | state::GIVEN_UP)
    }

    /// Has it ended for a reason. Value: whether there is something to end.
    fn end(&mut self, what: u64) {
        self.asked = Some(what);
        self.kill = self.task;
    }
}

impl Supervisor {
    pub const fn new(book: &'static Book) -> Supervisor {
        Supervisor {
            all: Mutex::new(Vec::new()),
            changed: Condition::new(),
            orders: Mutex::new(Vec::new()),
            ordered: AtomicU64::new(0),
            carried_out: AtomicU64::new(0),
            shell: Mutex::new(0),
            programs: Programs::new(),
            directory: Directory::new(),
            book,
        }
    }

    /// Starts a server for the first time and sees to it from then on. `gates`: of `ready` and `ledger`. Value: whether the machine has it.
    pub fn begin(
        &'static self,
        server: &'static Server,
        first: &'static FirstClient,
        gates: [u64; 2],
    ) -> Result<bool, String> {
        let place = match place_of(first, server.path) {
            Err(Error::NotFound) => {
                task::log(&format!("init: without {}: {}", server.name, server.lost));
                return Ok(false);
            }
            other => other.map_err(doing("a place"))?,
        };
        let post = post_for(&place).map_err(doing("a post"))?;
        let streams = server.streams.then(|| post_for(&place)).transpose().map_err(doing("a post"))?;
        if server.ledger {
            self.book.is_for(place.text);
        }
        if server.name == NAMES || self.directory.names().is_none() {
            self.book.hears(place.text);
        }
        let index = {
            let mut all = self.all.lock();
            all.push(Record {
                server,
                place,
                state: state::STARTING,
                since: time::now_ns(),
                task: 0,
                starts: 0,
                why: String::new(),
                asked: None,
                kill: 0,
                hurry: false,
                stopped: false,
                placed: None,
            });
            all.len() - 1
        };
        let tender = Tender { supervisor: self, server, index, place, post, streams, first, gates };
        // Without names each program has to be told, when it is started, where those before it stand.
        if server.alongside && self.directory.names().is_some() {
            return thread::spawn(move || tender.live(tender.start()), 0).map(|_| true).map_err(doing("thread"));
        }
        let first = tender.start();
        if let Err(why) = &first {
            if server.needed {
                return Err(why.clone());
            }
            task::log(&format!("init: {}: {why}\n", server.path));
        }
        thread::spawn(move || tender.live(first), 0).map_err(doing("thread"))?;
        Ok(true)
    }

    /// Waits until those are there, too, that were started alongside.
    pub fn await_all(&self) -> Result<(), String> {
        let mut all = self.all.lock();
        while let Some(one) = all.iter().find(|one| one.server.alongside && one.state != state::RUNNING) {
            if one.is_down() {
                return Err(format!("{}: {}", one.server.path, one.why));
            }
            let _ = self.changed.wait(&mut all, u64::MAX);
        }
        Ok(())
    }

    /// Ends what somebody wants ended, and has the loader place what is no server: those who ask do so on their own threads, which may not.
    pub fn end_them(&self) -> ! {
        loop {
            let (orders, kill) = {
                let mut all = self.all.lock();
                loop {
                    // Whoever wants something says so with the lock in hand.
                    let orders = core::mem::take(&mut *self.orders.lock());
                    let kill = all.iter_mut().map(|one| core::mem::take(&mut one.kill)).find(|task| *task != 0);
                    if kill.is_some() || !orders.is_empty() {
                        break (orders, kill);
                    }
                    let _ = self.changed.wait(&mut all, u64::MAX);
                }
            };
            if let Some(task) = kill {
                let _ = task::kill(task);
            }
            for order in orders {
                self.programs.are_placed(order);
                let _all = self.all.lock();
                self.carried_out.fetch_add(1, Ordering::SeqCst);
                self.changed.notify_all();
            }
        }
    }

    /// A shell has been started. The console is told, and the next console will be.
    pub fn console_is_for(&self, shell: u64) {
        *self.shell.lock() = shell;
        self.tell_console();
    }

    /// Without a console there is nobody to be told.
    fn tell_console(&self) {
        let latest = self.shell.lock();
        let shell = *latest;
        let told = self.directory.lookup(CONSOLE).and_then(|gate| ConsoleClient::bind_with_args(gate, 0));
        if let (Ok(console), true) = (told, shell != 0) {
            let _ = console.is_controlled_by(shell);
            let _ = console.unbind();
        }
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Record)) {
        change(&mut self.all.lock()[index]);
        self.changed.notify_all();
    }

    fn enter(&self, index: usize, state: u64) {
        self.change(index, |one| (one.state, one.since) = (state, time::now_ns()));
    }
}

/// Where instances of a program of the image stand, one after the other.
pub fn place_of(first: &FirstClient, path: &str) -> Result<Place, Error> {
    let mut place = [0; PLACE];
    first.place(path.as_bytes(), &mut place)?;
    Ok(Place::read_from_bytes(&place).unwrap_or_else(|_| Place::new_zeroed()))
}

/// A post that is this program's: who stands at the place receives there, one after the other.
fn post_for(place: &Place) -> Result<Post, Error> {
    let post = Post::any()?;
    let entry = |principal, id, text, rights: Rights| AclEntry { principal, id, text, rights: rights.bits() };
    post.allow(&entry(principal::ANY, 0, ANY_TEXT, Rights::CALL))?;
    post.allow(&entry(principal::USER, USER_SYSTEM, place.original, Rights::READ))?;
    Ok(post)
}

/// What one server's thread knows.
struct Tender {
    supervisor: &'static Supervisor,
    server: &'static Server,
    index: usize,
    place: Place,
    post: Post,
    /// The one for its streams.
    streams: Option<Post>,
    first: &'static FirstClient,
    gates: [u64; 2],
}

/// A server that is there, and since when.
type Started = Result<(Child, u64), String>;

impl Tender {
    fn live(&self, first: Started) -> ! {
        let mut policy = Policy::default();
        let mut started = first;
        // One that cannot be started at all is not tried for long when the machine starts.
        let mut hopeless = started.is_err();
        loop {
            let (why, lived) = match started {
                Ok((child, since)) => (said(&end_of(child, u64::MAX)), Some(time::now_ns().saturating_sub(since))),
                Err(why) => (why, None),
            };
            let asked = {
                let mut all = self.supervisor.all.lock();
                let one = &mut all[self.index];
                (one.task, one.kill) = (0, 0);
                one.asked.take()
            };
            let reason = match asked {
                Some(act::RESTART) => String::from("restarted"),
                Some(act::STOP) => String::from("stopped"),
                _ => why,
            };
            self.supervisor.change(self.index, |one| one.why.clone_from(&reason));
            match asked {
                Some(act::RESTART) => policy.forgive(),
                Some(act::STOP) => {
                    self.rest(state::STOPPED);
                    policy.forgive();
                }
                _ => match policy.died(self.server.needed, lived) {
                    Verdict::After(ns) if !hopeless => {
                        self.log(&format!("{reason}; here is another"));
                        self.pause(ns);
                    }
                    _ => {
                        if !hopeless {
                            self.log(&format!("{reason}; it never becomes ready, and is given up"));
                        }
                        self.rest(state::GIVEN_UP);
                        policy.forgive();
                    }
                },
            }
            hopeless = false;
            started = self.start();
        }
    }

    fn log(&self, what: &str) {
        task::log(&format!("init: {}: {what}\n", self.server.name));
    }

    /// Waits for so long, or until somebody is in a hurry. Whoever stops it meanwhile finds it stopped.
    fn pause(&self, ns: u64) {
        if ns == 0 {
            return;
        }
        self.supervisor.enter(self.index, state::WAITING);
        let until = time::now_ns() + ns;
        let mut all = self.supervisor.all.lock();
        loop {
            let one = &mut all[self.index];
            if one.stopped {
                break;
            }
            let left = until.saturating_sub(time::now_ns());
            if core::mem::take(&mut one.hurry) || left == 0 {
                return;
            }
            let _ = self.supervisor.changed.wait(&mut all, left);
        }
        drop(all);
        self.rest(state::STOPPED);
    }

    /// Nobody is there until somebody wants it.
    fn rest(&self, state: u64) {
        // From now on its name is found by nobody.
        if self.server.name != NAMES
            && let Some(names) = self.supervisor.directory.names()
        {
            let _ = names.stand(self.server.name, false);
        }
        if self.server.name == LINUX {
            self.supervisor.programs.of_linux_by(0);
        }
        self.refuses_questions(true);
        self.supervisor.enter(self.index, state);
        let mut all = self.supervisor.all.lock();
        loop {
            let one = &mut all[self.index];
            if core::mem::take(&mut one.stopped) {
                // Who wanted it before that has been overruled.
                (one.hurry, one.state) = (false, state);
                self.supervisor.changed.notify_all();
            }
            if core::mem::take(&mut one.hurry) {
                break;
            }
            let _ = self.supervisor.changed.wait(&mut all, u64::MAX);
        }
        let one = &mut all[self.index];
        // What was asked for meanwhile was asked of one that is no more.
        (one.asked, one.stopped) = (None, false);
        drop(all);
        self.refuses_questions(false);
    }

    /// Who waits for an answer and nothing else cannot look whether anybody will be there.
    fn refuses_questions(&self, refuses: bool) {
        for post in [Some(self.post), self.streams].into_iter().flatten() {
            if let Err(e) = post.refuse_questions(refuses) {
                self.log(&format!("questions at its post: {e}"));
            }
        }
    }

    /// Starts it where it stands, and waits until it is ready.
    fn start(&self) -> Started {
        self.supervisor.change(self.index, |one| {
            (one.state, one.since, one.hurry) = (state::STARTING, time::now_ns(), false);
        });
        let variable = |name: &str, value: u64| format!("{name}={value}").into_bytes();
        let mut env = Vec::new();
        env.push(variable(servers::POST, self.post.0));
        env.extend(self.streams.map(|post| variable(servers::STREAM_POST, post.0)));
        let mut command = Command::new(self.server.path.as_bytes());
        if self.server.ledger {
            env.push(variable(ledger::VARIABLE, self.gates[1]));
            env.push(variable(ledger::NUMBER, self.supervisor.book.begins(self.place.text)));
        }
        let directory = &self.supervisor.directory;
        if self.server.name == NAMES || directory.names().is_none() {
            env.push(variable(ready::VARIABLE, self.gates[0]));
            env.extend(directory.variables());
        } else {
            command = command.names(directory.gate());
        }
        if self.server.name == FILES {
            command = command.limits(limits_of_files().map_err(doing("memory"))?);
        }
        if self.server.name == LOADER {
            env.extend(self.supervisor.programs.variables());
            command = command.limits(LIMITS_OF_LOADER);
        }
        if let Some((class, exclusion)) = self.supervisor.all.lock()[self.index].placed {
            command = command.placed(class, exclusion);
        }
        let child = command.env(env).spawn_at(self.first, self.place.text).map_err(|e| format!("{e}"))?;
        self.supervisor.change(self.index, |one| {
            one.task = child.task;
            if one.asked.is_some() {
                one.kill = child.task;
            }
        });
        if let Err(why) = self.await_ready(child) {
            // One that does not become ready is none. (It may have ended by itself meanwhile: its end is taken all the same, unless it was.)
            let _ = task::kill(child.task);
            let _ = end_of(child, u64::MAX);
            return Err(why);
        }
        let now = time::now_ns();
        self.supervisor.change(self.index, |one| {
            one.starts += 1;
            (one.state, one.since) = (state::RUNNING, now);
        });
        Ok((child, now))
    }

    fn await_ready(&self, child: Child) -> Result<(), String> {
        let until = time::now_ns() + PATIENCE_NS;
        loop {
            match self.is_ready(child.task) {
                Ok(()) => return Ok(()),
                Err(Error::TimedOut | Error::NotFound) => {}
                Err(e) => return Err(format!("{e}")),
            }
            match end_of(child, LOOK_NS) {
                Err(Error::TimedOut) if time::now_ns() < until => {}
                Err(e) => return Err(format!("{e}")),
                ended => return Err(said(&ended)),
            }
        }
    }

    fn is_ready(&self, task: u64) -> Result<(), Error> {
        let Supervisor { directory, book, .. } = self.supervisor;
        match directory.names().filter(|_| self.server.name != NAMES) {
            // Of the one before the name stands, too.
            Some(names) if names.stand(self.server.name, true)? != task => return Err(Error::NotFound),
            Some(_) => {}
            None => {
                let gate = book.await_ready(self.place.text, task, LOOK_NS)?;
                if self.server.name == NAMES {
                    return directory.names_are_at(gate);
                }
                directory.publish(self.server.name, gate)?;
            }
        }
        if self.server.name == FILES {
            self.supervisor.programs.are_found_by(directory.lookup(FILES)?);
        }
        if self.server.name == CONSOLE {
            self.supervisor.tell_console();
        }
        if self.server.name == LINUX && directory.names().is_some() {
            self.supervisor.programs.of_linux_by(directory.lookup(LINUX)?);
        }
        if self.server.name == LOADER {
            self.supervisor.programs.are_started_by(directory.lookup(LOADER)?);
        }
        Ok(())
    }
}

/// Waits at most so long for the end of what this program has started, which nobody else asks for.
pub fn end_of(child: Child, timeout_ns: u64) -> Result<Exit, Error> {
    let exit = task::wait(child.task, timeout_ns)?;
    task::forget(child.task)?;
    Ok(exit)
}

/// How a server has ended.
fn said(ended: &Result<Exit, Error>) -> String {
    match ended {
        Ok(ended) if ended.kind == exit::KILLED => String::from("killed"),
        Ok(ended) => describe(ended),
        Err(e) => format!("{e}"),
    }
}

/// As much as there is: nobody gets more from it than it may have itself.
const LIMITS_OF_LOADER: Limits = Limits { frames: 0, sections: u64::MAX, reserve: u64::MAX, threads: u64::MAX };

/// What a person's files may use together; the file server makes the account.
fn limits_of_files() -> Result<Limits, Error> {
    let memory = task::memory()?;
    // The server's own receivers are among the threads: for files and for streams one each on each processor.
    let threads = 64 + 2 * task::processors().count() as u64;
    Ok(Limits { frames: memory.total / 4096 / 4, sections: 32768, reserve: 1 << 38, threads })
}

//! The machine below, on Musubi: kernel calls through `sdk/window`, and the services of other servers.

use abi::frame::{Frame, Vectors};
use abi::start::StreamRef;
use abi::task::Limits;
use abi::{Error, Rights};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::files;
use musubi::interfaces::console::ConsoleClient;
use musubi::interfaces::files::{FIXED, FileInfo};
use musubi::interfaces::processes::group;
use musubi::processes;
use musubi::stream::Stream;
use rt::{Condition, Mutex};
use window::foreign::Personality;
use window::{Section, foreign, memory};

use crate::descriptors::{Name, OpenFile};
use crate::machine::{Clock, Machine, MemoryState, TaskState};
use crate::map::Granted;
use crate::server::Server;
use crate::tree::{Entry, File, Mode, Node};

/// What is said of a terminal that does not know its size.
const SIZE: (u16, u16) = (80, 25);

/// This machine.
#[derive(Debug, Default)]
pub struct Musubi {
    /// Where programs' threads come in.
    gate: AtomicU64,
    /// How often something has changed that calls wait for.
    changes: Mutex<u64>,
    changed: Condition,
}

/// Makes the server, and the gate through which programs come in.
///
/// # Errors
/// What the kernel answers.
pub fn begin() -> Result<&'static Server<Musubi>, Error> {
    let server: &'static Server<Musubi> =
        alloc::boxed::Box::leak(alloc::boxed::Box::new(Server::new(Musubi::default())));
    let gate = foreign::export(server as &dyn Personality)?;
    server.machine.gate.store(gate, Ordering::Release);
    Ok(server)
}

fn entry(info: &FileInfo) -> Entry {
    let node = if files::is_directory(info) {
        Node::Directory
    } else {
        Node::File(File { address: info.section, len: info.len, fixed: info.mode & FIXED != 0 })
    };
    let mode = Mode { bits: info.mode as u32 & 0o777, owner: info.owner, mtime: info.mtime };
    Entry { inode: info.number, node, mode }
}

/// Files that nobody has open any more, and that could not be closed: the thread that was to had no room for calling the file server, or is another
/// person's (who looks for programs that have ended lets go of what they had).
static UNCLOSED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
static LEFT: Condition = Condition::new();
/// How long it takes until one is tried again.
const AGAIN_NS: u64 = 50_000_000;

fn has_no_room(why: Error) -> bool {
    why.is_quota() || why == Error::NoMemory
}

fn close(open: u64) {
    if files::File::from_number(open).close().is_err_and(|why| has_no_room(why) || why == Error::Denied) {
        leave(open);
    }
}

fn leave(open: u64) {
    UNCLOSED.lock().push(open);
    LEFT.notify_one();
}

/// Closes what could not be closed, on a thread of this server's own, which may do that for everybody.
pub fn close_what_is_left() -> ! {
    loop {
        let open = {
            let mut left = UNCLOSED.lock();
            loop {
                match left.pop() {
                    Some(open) => break open,
                    None => _ = LEFT.wait(&mut left, u64::MAX),
                }
            }
        };
        if files::File::from_number(open).close().is_err_and(has_no_room) {
            leave(open);
            rt::time::sleep_ns(AGAIN_NS);
        }
    }
}

/// Does something with a file that stays open.
fn borrowed<T>(open: u64, what: impl FnOnce(&files::File) -> T) -> T {
    let file = files::File::from_number(open);
    let done = what(&file);
    file.into_number();
    done
}

/// Too many mappings are `ENOMEM` on Linux, where no length is too great.
fn full(error: Error) -> Error {
    if error == Error::TooBig { Error::NoMemory } else { error }
}

impl Machine for Musubi {
    fn task_create(&self, payer: u64, user: u64, limits: &Limits, name: &[u8]) -> Result<u64, Error> {
        // A program that takes all that it may must leave enough for its personality to tell it so.
        let frames = match limits.frames {
            0 => self.memory().free / abi::layout::PAGE / 4 * 3,
            asked => asked,
        };
        rt::task::create_for(payer, &Limits { frames, ..*limits }, user, name)
    }

    fn task_kill(&self, task: u64) -> Result<(), Error> {
        rt::task::kill(task)
    }

    fn task_drop(&self, task: u64) {
        let _ = rt::abi::calls::stub::task_end(&rt::Trap, task, 0);
    }

    fn task_state(&self, task: u64) -> Option<TaskState> {
        let info = rt::task::info(task)?;
        let memory = info.used.frames.saturating_mul(abi::layout::PAGE);
        Some(TaskState { time_ns: info.time, memory })
    }

    fn parent(&self, task: u64) -> u64 {
        let parent = processes::status(task).map(|info| info.parent);
        parent.ok().filter(|parent| rt::task::info(*parent).is_some()).unwrap_or(1)
    }

    fn task_adopt(&self, task: u64) -> Result<(), Error> {
        // Where it is already: who has started this program may not have come back from that. (Without that server the child is a
        // program all the same.)
        let own = processes::join(rt::task::identity().task, group::SAME);
        match own.and_then(|own| processes::join(task, own)) {
            // Its group is being ended, which this thread may hear of later.
            Err(Error::Killed) => Err(Error::Killed),
            _ if rt::thread::is_killed() => Err(Error::Killed),
            _ => Ok(()),
        }
    }

    fn foreign_set(&self, task: u64, text: &Section) -> Result<(), Error> {
        foreign::set(task, self.gate.load(Ordering::Acquire), text)
    }

    fn foreign_start(&self, task: u64, frame: &Frame) -> Result<(), Error> {
        foreign::start(task, frame)
    }

    fn section_create(&self, len: u64, reserve: u64) -> Result<Section, Error> {
        Section::create(len, reserve)
    }

    fn section_clone(&self, original: &Section) -> Result<Section, Error> {
        Section::clone_of(original)
    }

    fn snapshot(&self, file: u64, _len: u64) -> Result<Section, Error> {
        Section::snapshot(file)
    }

    fn section_seal(&self, section: &Section) -> Result<(), Error> {
        section.seal()
    }

    fn section_resize(&self, section: &Section, len: u64) -> Result<(), Error> {
        section.resize(len)
    }

    fn section_delete(&self, section: &Section) {
        // It may have ended with its task already.
        let _ = section.delete();
    }

    fn section_name(&self, section: &Section, name: &[u8]) {
        // A name is for people; without one the section works as well.
        let _ = section.name(name);
    }

    fn section_owner(&self, section: &Section) -> Option<u64> {
        rt::section::owner(section.base()).ok()
    }

    fn section_allow(&self, section: &Section, task: u64, text: u64, rights: Rights) -> Result<(), Error> {
        section.allow(task, text, rights)
    }

    fn section_give(&self, section: &Section, task: u64) -> Result<(), Error> {
        section.give(task)
    }

    fn section_write(&self, section: &Section, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        section.write(offset, bytes)
    }

    fn section_load(&self, section: &Section, offset: u64, from: u64, len: u64) -> Result<(), Error> {
        section.load(offset, from, len)
    }

    fn window_map(
        &self,
        task: u64,
        at: u64,
        section: &Section,
        offset: u64,
        len: u64,
        rights: Rights,
    ) -> Result<(), Error> {
        window::map(task, at, section, offset, len, rights).map_err(full)
    }

    fn window_unmap(&self, task: u64, address: u64, len: u64) -> Result<(), Error> {
        window::unmap(task, address, len).map_err(full)
    }

    fn window_protect(&self, task: u64, address: u64, len: u64, rights: Rights) -> Result<(), Error> {
        window::protect(task, address, len, rights).map_err(full)
    }

    fn window_read(&self, _task: u64, from: Granted, to: &mut [u8]) -> Result<(), Error> {
        memory::read_window(from.address(), to)
    }

    fn window_write(&self, _task: u64, to: Granted, bytes: &[u8]) -> Result<(), Error> {
        memory::write_window(to.address(), bytes)
    }

    fn window_load(&self, _task: u64, to: Granted, from: u64) -> Result<(), Error> {
        memory::load_window(to.address(), from, to.len())
    }

    fn window_zero(&self, _task: u64, to: Granted) -> Result<(), Error> {
        memory::zero_window(to.address(), to.len())
    }

    fn vectors(&self, _task: u64) -> Result<Vectors, Error> {
        foreign::vectors()
    }

    fn set_vectors(&self, _task: u64, vectors: &Vectors) -> Result<(), Error> {
        foreign::set_vectors(vectors)
    }

    fn view(&self, from: u64, len: u64) -> Option<&'static [u8]> {
        rt::section::view(from, len)
    }

    fn copied(&self, from: u64, to: &mut [u8]) -> bool {
        rt::section::view(from, to.len() as u64).is_some_and(|from| rt::fault::copy_out(to, from).is_ok())
    }

    fn file_look(&self, path: &[u8]) -> Result<Entry, Error> {
        files::find(path).map(|info| entry(&info))
    }

    fn file_look_for(&self, user: u64, path: &[u8]) -> Result<Entry, Error> {
        files::find_for(user, path).map(|info| entry(&info))
    }

    fn file_open(&self, path: &[u8], how: u64) -> Result<(OpenFile, Entry), Error> {
        files::File::open(path, how).map(|(file, info)| (OpenFile::new(file.into_number(), close), entry(&info)))
    }

    fn file_status(&self, open: u64) -> Result<Entry, Error> {
        borrowed(open, |file| file.status()).map(|info| entry(&info))
    }

    fn file_write(&self, open: u64, at: u64, bytes: &[u8]) -> Result<u64, Error> {
        borrowed(open, |file| file.write(at, bytes)).map(|n| n as u64)
    }

    fn file_resize(&self, open: u64, len: u64) -> Result<(), Error> {
        borrowed(open, |file| file.resize(len))
    }

    fn file_list(&self, path: &[u8]) -> Result<Vec<Name>, Error> {
        let name = |found: files::Name| {
            let node = if found.is_directory { Node::Directory } else { Node::File(File::default()) };
            Name { name: found.name, entry: Entry::own(found.number, node) }
        };
        Ok(files::list(path)?.into_iter().map(name).collect())
    }

    fn file_remove(&self, path: &[u8]) -> Result<(), Error> {
        files::remove(path)
    }

    fn file_rename(&self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        files::rename(from, to)
    }

    fn file_set_mode(&self, path: &[u8], bits: u32) -> Result<(), Error> {
        files::set_mode(path, bits.into())
    }

    fn file_set_time(&self, path: &[u8], mtime: i64) -> Result<(), Error> {
        files::set_time(path, mtime)
    }

    fn directory_make(&self, path: &[u8], bits: u32) -> Result<(), Error> {
        files::make_directory(path, bits.into())
    }

    fn directory_remove(&self, path: &[u8]) -> Result<(), Error> {
        files::remove_directory(path)
    }

    fn stream_read(&self, stream: StreamRef, to: &mut [u8]) -> Result<usize, Error> {
        Stream(stream).read(to)
    }

    fn stream_write(&self, stream: StreamRef, bytes: &[u8]) -> Result<usize, Error> {
        Stream(stream).write_all(bytes).map(|()| bytes.len())
    }

    fn stream_terminal(&self, stream: StreamRef) -> Option<(u16, u16)> {
        Stream(stream).is_console().then(|| console_size().unwrap_or(SIZE))
    }

    fn is_killed(&self) -> bool {
        rt::thread::is_killed()
    }

    fn is_short(&self) -> bool {
        rt::spare::ready().is_err()
    }

    fn changes(&self) -> u64 {
        *self.changes.lock()
    }

    fn change(&self) {
        *self.changes.lock() += 1;
        self.changed.notify_all();
    }

    fn await_change(&self, seen: u64, until: u64) -> Result<(), Error> {
        let mut changes = self.changes.lock();
        while *changes == seen {
            let left = match until {
                u64::MAX => u64::MAX,
                until => until.saturating_sub(rt::time::now_ns()),
            };
            match self.changed.wait(&mut changes, left) {
                Err(Error::TimedOut) => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn clock(&self, clock: Clock) -> u64 {
        match clock {
            Clock::SinceBoot => rt::time::now_ns(),
            Clock::Since1970 => rt::time::unix_ns(),
        }
    }

    fn yield_now(&self) {
        rt::thread::yield_now();
    }

    fn processors(&self) -> usize {
        rt::task::processors().count()
    }

    fn memory(&self) -> MemoryState {
        let memory = rt::task::memory().unwrap_or_default();
        MemoryState { total: memory.total, free: memory.free, tasks: memory.tasks }
    }

    fn random(&self, to: &mut [u8]) {
        rt::random::fill(to);
    }
}

fn console_size() -> Option<(u16, u16)> {
    let console = ConsoleClient::bind_with_args(musubi::names::lookup("console").ok()?, 0).ok()?;
    let size = console.size();
    // Asked for rarely enough not to keep the binding.
    let _ = console.unbind();
    let (columns, rows) = size.ok()?;
    Some((u16::try_from(columns).ok()?, u16::try_from(rows).ok()?))
}

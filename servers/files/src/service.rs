//! The interface, on callers' threads.

use crate::account::Accounts;
use crate::content::{Content, Owner};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::files::{
    self, DIRECTORY, END, ENTRY, FIXED, FileInfo, OPEN_ALL, OPEN_MAX, PART_MAX, RECORD, how,
};
use musubi::interfaces::stream::Stream;
use musubi::rt::sync::MutexGuard;
use musubi::rt::{Mutex, fault, random, section, task, thread, time};
use musubi::{Caller, Error};
use tree::{By, Kind, Locks, NAME_MAX, Node, Opens, PATH_MAX, Status, Tree, bits};
use zerocopy::IntoBytes;

/// Most bytes of a list.
const LIST_MAX: usize = 64 << 10;
/// How often what somebody else has just removed, made or cut is tried again.
const TRIES: usize = 16;

/// The locks of threads that share this text.
pub struct Plain;

impl Locks for Plain {
    type Lock<T> = Mutex<T>;
    type Guard<'a, T: 'a> = MutexGuard<'a, T>;

    fn new<T>(_: u64, value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
        lock.lock()
    }

    type Count = AtomicU64;

    fn count(count: &AtomicU64) -> u64 {
        count.load(Ordering::Acquire)
    }

    fn count_on(count: &AtomicU64) {
        count.fetch_add(1, Ordering::Release);
    }

    fn here() -> usize {
        thread::spread()
    }
}

type File = Arc<Node<Plain, Content>>;
pub type Files = Tree<Plain, Content>;

/// A file that somebody has open.
struct Opened {
    file: File,
    how: u64,
    /// Who pays for what is written; known before any lock is taken.
    account: u64,
    /// Of the stream.
    position: Mutex<u64>,
}

impl Opened {
    fn new(file: File, how: u64, account: u64) -> Result<Opened, Error> {
        file.content(|content, _| content.opened())?;
        Ok(Opened { file, how, account, position: Mutex::new(0) })
    }

    fn needs(&self, how: u64) -> Result<(), Error> {
        if self.how & how == how { Ok(()) } else { Err(Error::Denied) }
    }

    /// Does something to the file that its owner pays for.
    fn change<T>(&self, change: impl FnOnce(&mut Content, &Owner) -> Result<T, Error>) -> Result<T, Error> {
        self.needs(how::WRITE)?;
        let (user, account) = (self.file.owner, self.account);
        self.file.write(now(), |content, mode| change(content, &Owner { user, account, mode }))?
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<u64, Error> {
        let bytes = &bytes[..bytes.len().min(PART_MAX)];
        self.change(|content, owner| {
            let at = if at == END { content.len() } else { at };
            content.write(owner, at, bytes)
        })
    }

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<u64, Error> {
        self.needs(how::READ)?;
        let most = buffer.len().min(PART_MAX) as u64;
        let mut error = Error::BadAddress;
        for _ in 0..TRIES {
            let (base, len) = self.file.content(|content, _| (content.base(), content.len()))?;
            let n = len.saturating_sub(at).min(most);
            if n == 0 {
                return Ok(0);
            }
            // Without the file's lock. Where it was cut meanwhile, the copy fails, and this is tried again.
            match section::view(base + at, n).ok_or(Error::Changed).and_then(|from| fault::copy_out(buffer, from)) {
                Ok(()) => return Ok(n),
                Err(why) => error = why,
            }
        }
        Err(error)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = self.file.content(|content, _| content.closed());
    }
}

pub struct Service {
    pub files: Files,
    pub accounts: Accounts,
    opens: Opens<Plain, Opened>,
    streams: AtomicU64,
}

/// Seconds since 1970.
pub fn now() -> i64 {
    (time::unix_ns() / 1_000_000_000) as i64
}

/// A number that nobody guesses: whose program has opened something may close it for all whom it serves.
fn number() -> u64 {
    let mut bytes = [0; 8];
    random::fill(&mut bytes);
    u64::from_le_bytes(bytes) >> 2
}

/// Who opens and closes something.
fn by(caller: &Caller) -> Result<By, Error> {
    let owner = section::owner(caller.text)?;
    // Of others than the system's what is open counts for the program that has opened it, and goes with it: else it could have any number, or use up what the
    // tasks may have whose threads call it.
    let is_systems = owner == caller.task || task::info(owner).is_some_and(|info| info.user == USER_SYSTEM);
    Ok(By { task: if is_systems { caller.task } else { owner }, program: owner })
}

/// A path of the caller's, copied: its other threads could change it between check and use.
fn path(path: &[u8]) -> Result<Vec<u8>, Error> {
    if path.len() > PATH_MAX { Err(Error::TooBig) } else { fault::copy_in(path) }
}

fn info(file: &File) -> FileInfo {
    let Status { number, kind, owner, mode, mtime } = file.status();
    let place = file.content(|content, _| (content.base(), content.len(), content.is_fixed()));
    let (section, len, fixed) = place.unwrap_or((0, 0, false));
    let flag = |set, flag| if set { flag } else { 0 };
    let mode = u64::from(mode) | flag(kind == Kind::Directory, DIRECTORY) | flag(fixed, FIXED);
    FileInfo { section, len, mtime, number, owner, mode }
}

fn put(record: &mut [u8; RECORD], file: &File) -> Result<(), Error> {
    fault::copy_out(record, info(file).as_bytes())
}

impl Service {
    pub fn new() -> Service {
        Service {
            files: Tree::new(now()),
            accounts: Accounts::new(),
            // Whoever knows a number of the server before knows none of this one's.
            opens: Opens::new(OPEN_MAX, OPEN_ALL, number),
            streams: AtomicU64::new(0),
        }
    }

    pub fn set_streams(&self, gate: u64) {
        self.streams.store(gate, Ordering::Release);
    }

    pub fn anything_open(&self) -> bool {
        !self.opens.programs().is_empty()
    }

    /// Closes what those have open that have ended. Value: how many files.
    pub fn sweep(&self) -> usize {
        let ended = |task: &u64| task::info(*task).is_none_or(|info| info.threads == 0);
        self.opens.programs().into_iter().filter(ended).map(|task| self.opens.close_all(task)).sum()
    }

    /// Does something that takes room: once more, if there is none and those that have ended still have some.
    fn with_room<T>(&self, mut what: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        match what() {
            Err(error) if error.is_quota() && self.sweep() > 0 => what(),
            other => other,
        }
    }

    fn open_file(&self, user: u64, path: &[u8], asked: u64) -> Result<File, Error> {
        let has = |bit| asked & bit != 0;
        for _ in 0..TRIES {
            let file = match self.files.find(user, path) {
                Ok(_) if has(how::CREATE) && has(how::NEW) => return Err(Error::Exists),
                Ok(file) => file,
                Err(Error::NotFound) if has(how::CREATE) => {
                    let mode = (asked >> 32) as u16;
                    match self.with_room(|| self.files.create(user, path, Kind::File, mode, now())) {
                        Err(Error::Exists) => continue,
                        made => return made,
                    }
                }
                Err(error) => return Err(error),
            };
            if file.kind == Kind::Directory {
                return Err(Error::IsADirectory);
            }
            let wanted = if has(how::READ) { bits::READ } else { 0 } | if has(how::WRITE) { bits::WRITE } else { 0 };
            file.check(user, wanted)?;
            return Ok(file);
        }
        Err(Error::Busy)
    }
}

impl files::Files for Service {
    fn open(&self, caller: &Caller, at: &[u8], asked: u64, record: &mut [u8; RECORD]) -> Result<u64, Error> {
        let has = |bit| asked & bit != 0;
        let known = asked & !(how::ALL | how::mode(0o777)) == 0;
        let useful = has(how::READ | how::WRITE) && (has(how::WRITE) || !has(how::EMPTY | how::APPEND));
        if !known || !useful {
            return Err(Error::BadArgument);
        }
        let file = self.open_file(caller.user, &path(at)?, asked)?;
        let account = if has(how::WRITE) { self.accounts.of(file.owner)? } else { 0 };
        let by = by(caller)?;
        let number = self.with_room(|| self.opens.add(by, caller.user, Opened::new(file.clone(), asked, account)?))?;
        self.accounts.stir();
        let empty = || match has(how::EMPTY) {
            true => self.opens.get(number, caller.user)?.what.change(|content, owner| content.resize(owner, 0)),
            false => Ok(()),
        };
        // What is refused is not open.
        empty().and_then(|()| put(record, &file)).inspect_err(|_| drop(self.opens.close(number, by, caller.user)))?;
        Ok(number)
    }

    fn close(&self, caller: &Caller, open: u64) -> Result<(), Error> {
        self.opens.close(open, by(caller)?, caller.user).map(drop)
    }

    fn read(&self, caller: &Caller, open: u64, at: u64, buffer: &mut [u8]) -> Result<u64, Error> {
        self.opens.get(open, caller.user)?.what.read(at, buffer)
    }

    fn write(&self, caller: &Caller, open: u64, at: u64, bytes: &[u8]) -> Result<u64, Error> {
        let open = self.opens.get(open, caller.user)?;
        self.with_room(|| open.what.write(at, bytes))
    }

    fn resize(&self, caller: &Caller, open: u64, len: u64) -> Result<(), Error> {
        let open = self.opens.get(open, caller.user)?;
        self.with_room(|| open.what.change(|content, owner| content.resize(owner, len)))
    }

    fn status(&self, caller: &Caller, open: u64, record: &mut [u8; RECORD]) -> Result<(), Error> {
        put(record, &self.opens.get(open, caller.user)?.what.file)
    }

    fn look(&self, caller: &Caller, at: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error> {
        put(record, &self.files.find(caller.user, &path(at)?)?)
    }

    fn look_for(&self, caller: &Caller, user: u64, at: &[u8], record: &mut [u8; RECORD]) -> Result<(), Error> {
        if caller.user != USER_SYSTEM && caller.user != user {
            return Err(Error::Denied);
        }
        put(record, &self.files.find(user, &path(at)?)?)
    }

    fn list(&self, caller: &Caller, at: &[u8], after: &[u8], entries: &mut [u8]) -> Result<u64, Error> {
        if after.len() > NAME_MAX {
            return Err(Error::TooBig);
        }
        let after = fault::copy_in(after)?;
        let directory = self.files.find(caller.user, &path(at)?)?;
        let room = entries.len().min(LIST_MAX);
        let (mut out, mut full) = (Vec::new(), false);
        directory.list(caller.user, &after, |name, node| {
            full = out.len() + ENTRY + name.len() > room;
            if !full {
                out.extend_from_slice(&node.number.to_le_bytes());
                out.push(u8::from(node.kind == Kind::Directory));
                out.push(name.len() as u8);
                out.extend_from_slice(name);
            }
            !full
        })?;
        if full && out.is_empty() {
            return Err(Error::TooBig);
        }
        fault::copy_out(entries, &out)?;
        Ok(out.len() as u64)
    }

    fn make_directory(&self, caller: &Caller, at: &[u8], mode: u64) -> Result<(), Error> {
        let path = path(at)?;
        self.with_room(|| self.files.create(caller.user, &path, Kind::Directory, mode as u16, now())).map(drop)
    }

    fn remove(&self, caller: &Caller, at: &[u8]) -> Result<(), Error> {
        self.files.remove(caller.user, &path(at)?, Kind::File, now())
    }

    fn remove_directory(&self, caller: &Caller, at: &[u8]) -> Result<(), Error> {
        self.files.remove(caller.user, &path(at)?, Kind::Directory, now())
    }

    fn rename(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Error> {
        self.files.rename(caller.user, &path(from)?, &path(to)?, now())
    }

    fn set_mode(&self, caller: &Caller, at: &[u8], mode: u64) -> Result<(), Error> {
        let file = self.files.find(caller.user, &path(at)?)?;
        let account = self.accounts.of(file.owner)?;
        file.set_mode(caller.user, mode as u16, |content, mode| {
            content.share(&Owner { user: file.owner, account, mode })
        })
    }

    fn set_time(&self, caller: &Caller, at: &[u8], mtime: i64) -> Result<(), Error> {
        self.files.find(caller.user, &path(at)?)?.set_time(caller.user, mtime)
    }

    fn streams(&self) -> u64 {
        self.streams.load(Ordering::Acquire)
    }

    fn used(&self, caller: &Caller) -> Result<u64, Error> {
        task::info(self.accounts.of(caller.user)?).map(|info| info.used.frames).ok_or(Error::NotFound)
    }
}

impl Stream for Service {
    fn write(&self, caller: &Caller, id: u64, bytes: &[u8]) -> Result<u64, Error> {
        let open = self.opens.get(id, caller.user)?;
        if open.what.how & how::APPEND != 0 {
            return self.with_room(|| open.what.write(END, bytes));
        }
        let mut position = open.what.position.lock();
        let n = self.with_room(|| open.what.write(*position, bytes))?;
        *position += n;
        Ok(n)
    }

    fn read(&self, caller: &Caller, id: u64, buffer: &mut [u8]) -> Result<u64, Error> {
        let open = self.opens.get(id, caller.user)?;
        let mut position = open.what.position.lock();
        let n = open.what.read(*position, buffer)?;
        *position += n;
        Ok(n)
    }

    fn close(&self, caller: &Caller, id: u64) -> Result<(), Error> {
        self.opens.close(id, by(caller)?, caller.user).map(drop)
    }

    fn is_console(&self, _id: u64) -> bool {
        false
    }
}

const _: () = assert!(files::PATH_MAX == PATH_MAX && files::NAME_MAX == NAME_MAX);

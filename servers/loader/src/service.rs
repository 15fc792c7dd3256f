//! The service `loader`: from a request to a running task.

use crate::image::{self, Kind, Original, Originals, Refusal};
use crate::instance::{self, Room};
use crate::pack::{Member, PackTable};
use crate::placement::{Known, Placements};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::abi::gate::record::{BY_LINE, BY_POST};
use musubi::abi::section::flag;
use musubi::abi::task::{Limits, USER_NOBODY, USER_SYSTEM};
use musubi::interfaces::files::{DIRECTORY, FileInfo, FilesService, RECORD};
use musubi::interfaces::linux::LinuxService;
use musubi::interfaces::loader::{Loader, PLACE, Place};
use musubi::interfaces::request::{LEN_MAX, Request};
use musubi::rt::serve::away;
use musubi::rt::{Mutex, Once, Section, fault, guard, section, task};
use musubi::{Caller, Error};
use zerocopy::{FromBytes, IntoBytes};

pub struct Service {
    pack: &'static PackTable,
    originals: Originals,
    /// Where programs are found, as soon as somebody has said so.
    files: Once<FilesService>,
    /// Where servers stand that are started again and again, by the base of their texts.
    places: Mutex<Vec<Arc<Stand>>>,
    /// Who runs Linux programs, while anybody does. It is not looked up where a request says: starts are asked for on threads of the
    /// system's, too, and those would call a method of whatever server's gate that is.
    linux: Mutex<Option<Arc<LinuxService>>>,
    pub placements: Placements,
}

/// A place, and what is started there.
struct Stand {
    room: Room,
    member: Member,
    original: Original,
}

/// A copy of a file as it was when it was taken: others may be writing it.
struct Snapshot(Section);

/// The task that has what is laid out for a start: the caller's, which stays as long as its thread is in here; for a start on another one's behalf, who may be ended
/// meanwhile, one of the system's that never begins. By then others may have the address of what was his.
struct Keeper(u64);

impl Keeper {
    fn of(payer: u64) -> Result<Keeper, Error> {
        match payer {
            0 => Ok(Keeper(task::own())),
            _ => task::create_for(payer, &Limits::default(), USER_SYSTEM, b"laid out").map(Keeper),
        }
    }

    fn is_caller(&self) -> bool {
        self.0 == task::own()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_caller() {
            let _ = task::kill(self.0);
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let _ = section::delete(self.0.base());
    }
}

impl Service {
    pub fn new(pack: &'static PackTable) -> Service {
        Service {
            pack,
            originals: Originals::default(),
            files: Once::new(),
            places: Mutex::default(),
            linux: Mutex::new(None),
            placements: Placements::default(),
        }
    }

    /// Starts a program on a thread of `user`, who may ask for it.
    pub fn start_for(&self, request: &Request, user: u64) -> Result<u64, Refusal> {
        let Some(files) = self.files.get() else {
            return self.start_member(request, self.pack.find(&request.path).ok_or(Error::NotFound)?);
        };
        let mut record = [0; RECORD];
        // As whom it is for, whoever's thread this is.
        files.look_for(request.user, &request.path, &mut record)?;
        let info = FileInfo::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
        if user != request.user && !may_run(&info, request.user) {
            return Err(Error::Denied.into());
        }
        match self.pack.at(info.section) {
            Some(member) => self.start_member(request, member),
            None => self.start_file(request, &info),
        }
    }

    /// A program that came with the image, and does not change.
    fn start_member(&self, request: &Request, member: Member) -> Result<u64, Refusal> {
        match self.originals.of(member.number, base_name(member.name), member.bytes)? {
            Kind::Native(original) => {
                // A request that names a user is on his behalf, whoever's thread brings it.
                let class = self.placements.of(request, known(&member), request.user)?;
                instance::start(&original, request, base_name(&request.path), class, None)
            }
            Kind::Linux => self.start_linux(request, member.bytes.as_ptr() as u64, member.bytes.len() as u64),
        }
    }

    /// Keeps a place for a program that came with the image; the same one for the same program.
    fn place_for(&self, path: &[u8]) -> Result<Place, Error> {
        let member = self.pack.find(path).ok_or(Error::NotFound)?;
        let made = self.originals.of(member.number, base_name(member.name), member.bytes);
        let Kind::Native(original) = made.map_err(|refusal| refusal.error)? else {
            return Err(Error::NotSupported);
        };
        let mut places = self.places.lock();
        let known = places.iter().find(|stand| stand.member.number == member.number).cloned();
        let stand = match known {
            Some(stand) => stand,
            None => {
                let room = Room::for_instances(&original)?;
                let stand = Arc::new(Stand { room, member, original });
                places.push(stand.clone());
                stand
            }
        };
        let Stand { room, original, .. } = &*stand;
        Ok(Place { text: room.text, end: room.text + original.reserve, original: original.text })
    }

    fn start_at(&self, place: u64, request: &Request) -> Result<u64, Refusal> {
        let stand = self.places.lock().iter().find(|stand| stand.room.text == place).cloned().ok_or(Error::NotFound)?;
        let class = self.placements.of(request, known(&stand.member), USER_SYSTEM)?;
        instance::start(&stand.original, request, base_name(stand.member.name), class, Some(&stand.room))
    }

    /// A program that somebody has written.
    fn start_file(&self, request: &Request, info: &FileInfo) -> Result<u64, Refusal> {
        if info.mode & DIRECTORY != 0 {
            return Err(Error::IsADirectory.into());
        }
        if info.mode & 0o111 == 0 {
            return Err(Refusal { error: Error::Denied, reason: "the file may not be executed".into() });
        }
        if info.len == 0 {
            return Err(Error::BadProgram.into());
        }
        // Only who may read the file gets that far: this runs on his thread, or on one of the system's, which may read what everybody may.
        // What a person has written is read and laid out in his memory, not in the system's: a file may say that it is as long as it likes. And it goes with him,
        // wherever this call ends.
        let keeper = Keeper::of(request.payer)?;
        let snapshot = Snapshot(Section::clone_of(info.section, flag::ANY_PRINCIPAL, 0, 0)?);
        section::give(snapshot.0.base(), keeper.0)?;
        let bytes = section::view(snapshot.0.base(), info.len).ok_or(Error::Changed)?;
        let name = base_name(&request.path);
        // A page of it may find no memory.
        match guard::run(|| image::read(name, bytes, Some(keeper.0)))?? {
            Kind::Native(original) => {
                // What it is called says nothing: anybody may call a file as he likes.
                let class = self.placements.of(request, Known { name: b"", is_put: true }, request.user);
                let started = class.and_then(|class| instance::start(&original, request, name, class, None));
                // Its instance has pages of its own; nothing else is ever made of this one, which goes with a keeper.
                if keeper.is_caller() {
                    let _ = section::delete(original.text);
                }
                started
            }
            Kind::Linux => {
                // That server takes its own.
                drop((snapshot, keeper));
                self.start_linux(request, info.section, info.len)
            }
        }
    }

    /// The same, for the first program that this one starts by itself.
    pub fn start(&self, request: &Request, user: u64) -> Result<u64, String> {
        self.start_for(request, user).map_err(|r| match r.reason.as_str() {
            "" => format!("{}", r.error),
            reason => String::from(reason),
        })
    }

    fn start_linux(&self, request: &Request, section: u64, len: u64) -> Result<u64, Refusal> {
        let none = || Refusal { error: Error::NotSupported, reason: "no service runs Linux programs".into() };
        let linux = self.linux.lock().clone().ok_or_else(none)?;
        let mut reason = [0; 256];
        linux.spawn(&request.try_encode()?, section, len, &mut reason).map_err(|error| {
            let len = reason.iter().position(|&b| b == 0).unwrap_or(reason.len());
            Refusal { error, reason: String::from_utf8_lossy(&reason[..len]).into_owned() }
        })
    }
}

/// Whether a person may run a file, where somebody else's thread reads it.
fn may_run(info: &FileInfo, user: u64) -> bool {
    let wanted = if info.owner == user { 0o500 } else { 0o005 };
    user == USER_SYSTEM || info.mode & wanted == wanted
}

/// A member as placements know it: by its own name, wherever somebody has moved its file.
fn known(member: &Member) -> Known<'static> {
    Known { name: base_name(member.name), is_put: member.is_put }
}

/// What people call the program of a path.
fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

impl Loader for Service {
    fn use_files(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        // It is restarted where it stood: nobody needs to say it again.
        let files = self.files.get_or_try(|| Ok::<_, Error>(FilesService::new(gate).always()))?;
        if files.service().gate() == gate { Ok(()) } else { Err(Error::Exists) }
    }

    fn use_linux(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let mut linux = self.linux.lock();
        let is_known = linux.as_ref().is_some_and(|known| known.service().gate() == gate);
        // It is restarted where it stood, too. What was bound before goes with its last user, without the lock.
        let _before = match gate {
            0 => linux.take(),
            _ if is_known => None,
            _ => linux.replace(Arc::new(LinuxService::new(gate).always())),
        };
        drop(linux);
        Ok(())
    }

    fn place(&self, caller: &Caller, path: &[u8], place: &mut [u8; PLACE]) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        let found = self.place_for(&fault::copy_in(path)?)?;
        fault::copy_out(place, found.as_bytes())
    }

    fn spawn_at(&self, caller: &Caller, place: u64, request: &[u8], reason: &mut [u8]) -> Result<u64, Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        spawn_as(caller, request, reason, |request| self.start_at(place, request))
    }

    fn place_as(&self, caller: &Caller, name: &str, class: u64, exclusion: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        self.placements.put(&fault::copy_in(name.as_bytes())?, class, exclusion)
    }

    fn spawn(&self, caller: &Caller, request: &[u8], reason: &mut [u8]) -> Result<u64, Error> {
        // A message is served on a thread of this program's: what its sender may have started, the file's mode says.
        let user = if is_by_message(caller) { USER_SYSTEM } else { caller.user };
        spawn_as(caller, request, reason, |request| {
            // The file server or the personality may not be there for seconds.
            let _away = away(caller)?;
            self.start_for(request, user)
        })
    }
}

/// Whether it runs on a thread of this program's.
fn is_by_message(caller: &Caller) -> bool {
    caller.flags & (BY_POST | BY_LINE) != 0
}

/// Who may start a program as this user, at the cost of that task.
fn may_ask(caller: &Caller, request: &Request) -> Result<(), Refusal> {
    let user = caller.user;
    // Who speaks for nobody has nobody to pay for him once his call is over.
    if user == USER_NOBODY {
        return Err(Error::Denied.into());
    }
    if (request.user != user || request.payer != 0) && user != USER_SYSTEM {
        let reason = format!("user {user} cannot start a program as user {}", request.user);
        return Err(Refusal { error: Error::Denied, reason });
    }
    Ok(())
}

/// Starts what an encoded request says, in some way.
fn spawn_as(
    caller: &Caller,
    request: &[u8],
    reason: &mut [u8],
    start: impl FnOnce(&Request) -> Result<u64, Refusal>,
) -> Result<u64, Error> {
    if request.len() > LEN_MAX {
        return Err(Error::TooBig);
    }
    // A copy: the caller's other threads could change it between check and use.
    let mut request = Request::decode(&fault::copy_in(request)?)?;
    let started = may_ask(caller, &request).and_then(|()| {
        // Nobody would pay for what a message has started here.
        if is_by_message(caller) && request.payer == 0 {
            request.payer = caller.task;
        }
        start(&request)
    });
    started.map_err(|refusal| {
        let line = refusal.reason.as_bytes();
        let len = line.len().min(reason.len().saturating_sub(1));
        match fault::copy_out(reason, &[&line[..len], &[0u8][..]].concat()) {
            Ok(()) => refusal.error,
            Err(gone) => gone,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use musubi::abi::gate::Record;

    #[test]
    fn who_may_run_what() {
        let file = |owner, mode| FileInfo { owner, mode, ..FileInfo::default() };
        assert!(may_run(&file(0, 0o555), 1) && may_run(&file(1, 0o500), 1) && may_run(&file(1, 0), USER_SYSTEM));
        assert!(!may_run(&file(0, 0o550), 1) && !may_run(&file(1, 0o055), 1) && !may_run(&file(1, 0o444), 1));
    }

    #[test]
    fn who_may_ask_for_what() {
        let asks = |of: u64, flags: u32, user: u64, payer: u64| {
            let caller = Caller(Record { user: of, task: 7, flags, ..Record::default() });
            let request = Request { user, payer, ..Request::default() };
            let mut paid = None;
            let start = |request: &Request| Ok(*paid.insert(request.payer));
            (spawn_as(&caller, &request.encode(), &mut [0; 64], start), paid)
        };
        for flags in [0, BY_POST] {
            assert_eq!(asks(1, flags, 0, 0), (Err(Error::Denied), None), "as the system");
            assert_eq!(asks(1, flags, 1, 3), (Err(Error::Denied), None), "at another one's cost");
            assert_eq!(asks(USER_SYSTEM, flags, 1, 3), (Ok(3), Some(3)));
        }
        assert_eq!([0, BY_POST, BY_LINE].map(|flags| asks(1, flags, 1, 0).0), [Ok(0), Ok(7), Ok(7)]);
    }

    #[test]
    fn a_program_is_called_by_the_last_part_of_its_path() {
        assert_eq!(base_name(b"bin/hello"), b"hello");
        assert_eq!(base_name(b"hello"), b"hello");
    }
}

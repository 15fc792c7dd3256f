//! The service `loader`: from a request to a running task.

use crate::texts::Texts;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use elf_plan::{Native, Program};
use instance::asked::{self, is_by_message};
use instance::image::{self, Kind, Original, Refusal};
use instance::making;
use instance::manifest::Manifest;
use instance::pack::{Member, base_name};
use instance::placement::{Known, Placements};
use musubi::abi::section::flag;
use musubi::abi::task::{Limits, USER_SYSTEM};
use musubi::interfaces::files::{DIRECTORY, FileInfo, FilesService, RECORD};
use musubi::interfaces::linux::LinuxService;
use musubi::interfaces::loader::Loader;
use musubi::interfaces::request::Request;
use musubi::rt::serve::away;
use musubi::rt::{Mutex, Once, Section, fault, guard, section, task};
use musubi::{Caller, Error};
use zerocopy::FromBytes;

pub struct Service {
    manifest: &'static Manifest,
    pub texts: Texts,
    /// Programs of the image that were started before, by the number of their files.
    originals: Mutex<Vec<(usize, Original)>>,
    /// Where programs are found, as soon as somebody has said so.
    files: Once<FilesService>,
    /// Who runs Linux programs, while anybody does. It is not looked up where a request says: starts are asked for on threads of the
    /// system's, too, and those would call a method of whatever server's gate that is.
    linux: Mutex<Option<Arc<LinuxService>>>,
    pub placements: Placements,
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
    pub fn new(manifest: &'static Manifest) -> Service {
        Service {
            manifest,
            texts: Texts::default(),
            originals: Mutex::default(),
            files: Once::new(),
            linux: Mutex::new(None),
            placements: Placements::default(),
        }
    }

    /// Starts a program on a thread of `user`, who may ask for it.
    fn start_for(&self, request: &Request, user: u64) -> Result<u64, Refusal> {
        let Some(files) = self.files.get() else {
            return self.start_member(request, self.manifest.find(&request.path).ok_or(Error::NotFound)?);
        };
        let mut record = [0; RECORD];
        // As whom it is for, whoever's thread this is.
        files.look_for(request.user, &request.path, &mut record)?;
        let info = FileInfo::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
        if user != request.user && !may_run(&info, request.user) {
            return Err(Error::Denied.into());
        }
        if !may_be_run_as(&info, request.user) {
            return Err(Refusal { error: Error::Denied, reason: "as the system only its own files are run".into() });
        }
        match self.manifest.at(info.section) {
            Some(member) => self.start_member(request, member),
            None => self.start_file(request, &info),
        }
    }

    /// A program that came with the image, and does not change.
    fn start_member(&self, request: &Request, member: Member) -> Result<u64, Refusal> {
        match self.member(member)? {
            Kind::Native(original) => {
                // A request that names a user is on his behalf, whoever's thread brings it.
                let class = self.placements.of(request, member.known(), request.user)?;
                making::start(&original, request, base_name(&request.path), class, None)
            }
            Kind::Linux => self.start_linux(request, member.section, member.len),
        }
    }

    /// What a member is: its text is the first task's, and what is to be made of it is read here.
    fn member(&self, member: Member) -> Result<Kind, Refusal> {
        let find = |known: &[(usize, Original)]| known.iter().find(|o| o.0 == member.number).map(|o| o.1.clone());
        let known = find(&self.originals.lock());
        if let Some(known) = known {
            return Ok(Kind::Native(known));
        }
        let text = if member.section == 0 { 0 } else { self.texts.of(member.number)? };
        let plan: Native<'static> = match image::plan(member.bytes().ok_or(Error::NotFound)?)? {
            Program::Native(plan) => plan,
            Program::Linux(_) => return Ok(Kind::Linux),
        };
        let original = Original { text, reserve: section::info(text)?.reserve, plan };
        let mut known = self.originals.lock();
        if find(&known).is_none() && known.try_reserve(1).is_ok() {
            known.push((member.number, original.clone()));
        }
        Ok(Kind::Native(original))
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
                let started = class.and_then(|class| making::start(&original, request, name, class, None));
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

    fn start_linux(&self, request: &Request, section: u64, len: u64) -> Result<u64, Refusal> {
        let none = || Refusal { error: Error::NotSupported, reason: "no service runs Linux programs".into() };
        let linux = self.linux.lock().clone().ok_or_else(none)?;
        let mut reason = [0; 256];
        linux.spawn(&request.try_encode()?, section, len, &mut reason).map_err(|error| {
            let len = reason.iter().position(|&b| b == 0).unwrap_or(reason.len());
            Refusal { error, reason: String::from_utf8_lossy(&reason[..len]).into_owned() }
        })
    }

    /// From now on programs are found there. It is restarted where it stood: nobody needs to say it again.
    pub fn find_by(&self, gate: u64) -> Result<(), Error> {
        let files = self.files.get_or_try(|| Ok::<_, Error>(FilesService::new(gate).always()))?;
        if files.service().gate() == gate { Ok(()) } else { Err(Error::Exists) }
    }

    /// From now on that one runs Linux programs; 0: nobody.
    pub fn run_linux_by(&self, gate: u64) {
        let mut linux = self.linux.lock();
        let is_known = linux.as_ref().is_some_and(|known| known.service().gate() == gate);
        // It is restarted where it stood, too. What was bound before goes with its last user, without the lock.
        let _before = match gate {
            0 => linux.take(),
            _ if is_known => None,
            _ => linux.replace(Arc::new(LinuxService::new(gate).always())),
        };
        drop(linux);
    }
}

/// Whether a person may run a file, where somebody else's thread reads it.
fn may_run(info: &FileInfo, user: u64) -> bool {
    let wanted = if info.owner == user { 0o500 } else { 0o005 };
    user == USER_SYSTEM || info.mode & wanted == wanted
}

/// Whether a program may have a user's rights: the system's only one that nobody else can rewrite.
fn may_be_run_as(info: &FileInfo, user: u64) -> bool {
    user != USER_SYSTEM || info.owner == USER_SYSTEM
}

impl Loader for Service {
    fn use_files(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        if caller.user == USER_SYSTEM { self.find_by(gate) } else { Err(Error::Denied) }
    }

    fn use_linux(&self, caller: &Caller, gate: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        self.run_linux_by(gate);
        Ok(())
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
        asked::start(caller, request, reason, |request| {
            // The file server or the personality may not be there for seconds.
            let _away = away(caller)?;
            self.start_for(request, user)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_run_what() {
        let file = |owner, mode| FileInfo { owner, mode, ..FileInfo::default() };
        assert!(may_run(&file(0, 0o555), 1) && may_run(&file(1, 0o500), 1) && may_run(&file(1, 0), USER_SYSTEM));
        assert!(may_be_run_as(&file(0, 0o555), USER_SYSTEM) && may_be_run_as(&file(1, 0o755), 1));
        assert!(!may_be_run_as(&file(1, 0o755), USER_SYSTEM), "who may write it would be the system");
        assert!(!may_run(&file(0, 0o550), 1) && !may_run(&file(1, 0o055), 1) && !may_run(&file(1, 0o444), 1));
    }
}

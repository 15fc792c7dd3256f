//! The service `first`: places, and what the loader needs. All of it is for the system, so nobody else takes a lock of this program's.

use alloc::sync::Arc;
use alloc::vec::Vec;
use instance::asked;
use instance::image::{Kind, Original, Originals, Refusal};
use instance::making::{self, Room};
use instance::manifest::Manifest;
use instance::pack::{Member, base_name};
use instance::placement::{self, Placements};
use musubi::abi::rights::principal;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::first::{First, PLACE, Place};
use musubi::interfaces::request::Request;
use musubi::rt::{Mutex, fault, section};
use musubi::{AclEntry, Caller, Error, Rights};
use zerocopy::IntoBytes;

/// The program of the image that starts all others. It may have what it needs for that, where it stands.
const LOADER: &[u8] = b"loader";

pub struct Service {
    manifest: &'static Manifest,
    /// Where that lies.
    at: u64,
    originals: Originals,
    /// Where servers stand that are started again and again, by the base of their texts.
    places: Mutex<Vec<Arc<Stand>>>,
    pub placements: Placements,
}

/// A place, and what is started there.
struct Stand {
    room: Room,
    member: Member,
    original: Original,
}

impl Service {
    pub fn new(manifest: &'static Manifest, at: u64) -> Service {
        let (originals, places, placements) = (Originals::default(), Mutex::default(), Placements::default());
        Service { manifest, at, originals, places, placements }
    }

    fn original_of(&self, member: Member) -> Result<Kind, Refusal> {
        self.originals.of(member.number, base_name(member.name), member.bytes().ok_or(Error::NotFound)?)
    }

    /// Starts a program of the image anywhere.
    pub fn start(&self, request: &Request) -> Result<u64, Refusal> {
        let member = self.manifest.find(&request.path).ok_or(Error::NotFound)?;
        let Kind::Native(original) = self.original_of(member)? else { return Err(Error::NotSupported.into()) };
        let class = self.placements.of(request, member.known(), USER_SYSTEM)?;
        making::start(&original, request, base_name(member.name), class, None)
    }

    /// Keeps a place for a program that came with the image; the same one for the same program.
    fn place_for(&self, path: &[u8]) -> Result<Place, Error> {
        let member = self.manifest.find(path).ok_or(Error::NotFound)?;
        let Kind::Native(original) = self.original_of(member).map_err(|refusal| refusal.error)? else {
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

    fn at(&self, place: u64) -> Option<Arc<Stand>> {
        self.places.lock().iter().find(|stand| stand.room.text == place).cloned()
    }

    fn start_at(&self, place: u64, request: &Request) -> Result<u64, Refusal> {
        let stand = self.at(place).ok_or(Error::NotFound)?;
        let class = self.placements.of(request, stand.member.known(), USER_SYSTEM)?;
        making::start(&stand.original, request, base_name(stand.member.name), class, Some(&stand.room))
    }

    /// Whether it is the loader itself that asks, on a thread of its own.
    fn is_loader(&self, caller: &Caller) -> bool {
        caller.user == USER_SYSTEM
            && self.at(caller.text).is_some_and(|stand| base_name(stand.member.name) == LOADER)
            && section::owner(caller.text) == Ok(caller.task)
    }
}

/// What the loader may do, on whatever thread: it works on its callers'.
fn let_loader(base: u64, caller: &Caller, rights: Rights) -> Result<(), Error> {
    section::grant(base, &AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: caller.text })
}

impl First for Service {
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
        asked::start(caller, request, reason, |request| self.start_at(place, request))
    }

    fn manifest(&self, caller: &Caller) -> Result<u64, Error> {
        if !self.is_loader(caller) {
            return Err(Error::Denied);
        }
        placement::give(caller.text)?;
        let_loader(self.at, caller, Rights::READ)?;
        Ok(self.at)
    }

    fn original(&self, caller: &Caller, index: u64) -> Result<u64, Error> {
        if !self.is_loader(caller) {
            return Err(Error::Denied);
        }
        let number = usize::try_from(index).map_err(|_| Error::NotFound)?;
        let member = self.manifest.member(number).filter(|member| member.section != 0).ok_or(Error::NotFound)?;
        let_loader(member.section, caller, Rights::READ)?;
        match self.original_of(member) {
            Ok(Kind::Native(original)) => {
                // With the right to change it: clones of what one may only read do not count as it.
                let_loader(original.text, caller, Rights::READ | Rights::CHANGE_ACL)?;
                Ok(original.text)
            }
            Ok(Kind::Linux) => Ok(0),
            // Whoever asks reads the file himself, and says why it is none.
            Err(Refusal { error: Error::BadProgram, .. }) => Ok(0),
            Err(refusal) => Err(refusal.error),
        }
    }
}

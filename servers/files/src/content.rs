//! What a file consists of: a section that everybody may read who may read the file. Called under the file's lock.

use alloc::vec::Vec;
use musubi::abi::layout::{GRANULE, PAGE, pages_up};
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{flag, kind};
use musubi::interfaces::files::LEN_MAX;
use musubi::rt::{Section, fault, section};
use musubi::{AclEntry, Error, Rights};

/// A file's section has room for one of these lengths; a file that becomes longer moves to another one. Nothing longer than the second is
/// ever copied under a file's lock: whoever is killed meanwhile must come to the end of it (decision 10).
const ROOM: [u64; 3] = [GRANULE, 16 << 20, LEN_MAX];
/// Bytes copied at a time: what is known to have been written when a quota ends.
const PART: usize = 64 << 10;

/// Whose a file is, and what follows from that for its section.
#[derive(Clone, Copy)]
pub struct Owner {
    pub user: u64,
    /// Task that pays; 0: this program.
    pub account: u64,
    pub mode: u16,
}

#[derive(Default)]
enum Place {
    #[default]
    Nothing,
    /// A file of the boot pack: whoever writes it gets a copy.
    Pack(u64),
    Own {
        section: Section,
        reserve: u64,
    },
}

#[derive(Default)]
pub struct Content {
    place: Place,
    len: u64,
    /// Where the file lay before it became longer, for those who had it open then.
    former: Vec<u64>,
    /// How often it is open.
    open: usize,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.delete_former();
        if let Place::Own { section, .. } = &self.place {
            let _ = section::delete(section.base());
        }
    }
}

impl Content {
    pub fn set_pack(&mut self, base: u64, len: u64) {
        (self.place, self.len) = if len == 0 { (Place::Nothing, 0) } else { (Place::Pack(base), len) };
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// Where the bytes are, 0 if there is no such place.
    pub fn base(&self) -> u64 {
        match &self.place {
            Place::Nothing => 0,
            Place::Pack(base) => *base,
            Place::Own { section, .. } => section.base(),
        }
    }

    /// Whether nothing will ever change there.
    pub fn is_fixed(&self) -> bool {
        matches!(self.place, Place::Pack(_))
    }

    pub fn opened(&mut self) {
        self.open += 1;
    }

    pub fn closed(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.delete_former();
        }
    }

    fn delete_former(&mut self) {
        for base in self.former.drain(..) {
            let _ = section::delete(base);
        }
    }

    /// Lets those read who may, and no others.
    pub fn share(&self, owner: &Owner) -> Result<(), Error> {
        let Place::Own { section, .. } = &self.place else { return Ok(()) };
        for base in self.former.iter().copied().chain([section.base()]) {
            share(base, owner, owner.mode)?;
        }
        Ok(())
    }

    /// Writes at an offset. Value: how many bytes.
    pub fn write(&mut self, owner: &Owner, at: u64, bytes: &[u8]) -> Result<u64, Error> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= LEN_MAX).ok_or(Error::TooBig)?;
        self.make_room(owner, end)?;
        let Place::Own { section, .. } = &mut self.place else { return Err(Error::NotSupported) };
        let mut done = 0;
        let mut outcome = Ok(());
        for part in bytes.chunks(PART) {
            let from = at as usize + done;
            outcome = fault::copy_out(&mut section.bytes_mut()[from..from + part.len()], part);
            if outcome.is_err() {
                // The caller's memory, or our own, for which nobody wants to pay?
                outcome = Err(fault::copy_in(part).map_or_else(|error| error, |_| Error::Quota));
                break;
            }
            done += part.len();
        }
        if done > 0 {
            self.len = self.len.max(at + done as u64);
        }
        if outcome.is_err() {
            // A part may have been copied in part.
            let _ = self.cut(self.len).and_then(|()| self.clear_behind(self.len));
        }
        if done > 0 { Ok(done as u64) } else { outcome.map(|()| 0) }
    }

    /// Changes the length.
    pub fn resize(&mut self, owner: &Owner, len: u64) -> Result<(), Error> {
        if len > LEN_MAX {
            return Err(Error::TooBig);
        }
        if len == 0 && matches!(self.place, Place::Pack(_)) {
            self.place = Place::Nothing;
        }
        match len {
            _ if len == self.len => {}
            0 if matches!(self.place, Place::Nothing) => {}
            _ => self.make_room(owner, len.max(self.len))?,
        }
        if len < self.len && self.clear_behind(len).is_err() {
            // At the end of the quota. What goes anyway makes room.
            self.len = pages_up(len).ok_or(Error::TooBig)?.min(self.len);
            self.cut(self.len)?;
            self.clear_behind(len)?;
        }
        self.len = len;
        self.cut(len)
    }

    /// Gives back the pages that lie behind `len`.
    fn cut(&mut self, len: u64) -> Result<(), Error> {
        let Place::Own { section, .. } = &mut self.place else { return Ok(()) };
        let whole = pages_up(len).ok_or(Error::TooBig)?;
        if whole < section.len() { section.resize(whole) } else { Ok(()) }
    }

    /// Has the rest of the page in which `len` lies be zero, for when the file grows again. A page that was never written is paid for when it is read, too, by an
    /// owner who may be at the end of his quota.
    fn clear_behind(&mut self, len: u64) -> Result<(), Error> {
        let Place::Own { section, .. } = &mut self.place else { return Ok(()) };
        let whole = pages_up(len).ok_or(Error::TooBig)?.min(section.len());
        let rest = &mut section.bytes_mut()[len.min(whole) as usize..whole as usize];
        let mut found = [0; PAGE as usize];
        let found = &mut found[..rest.len()];
        fault::copy_out(found, rest).map_err(|_| Error::Quota)?;
        if found.iter().any(|byte| *byte != 0) {
            fault::copy_out(rest, &[0; PAGE as usize]).map_err(|_| Error::Quota)?;
        }
        Ok(())
    }

    /// Makes the section the file's own, and long enough.
    fn make_room(&mut self, owner: &Owner, len: u64) -> Result<(), Error> {
        let roomy = matches!(&self.place, Place::Own { reserve, .. } if len <= *reserve);
        if !roomy {
            self.go_elsewhere(owner, len)?;
        }
        let Place::Own { section, .. } = &mut self.place else { return Err(Error::NotSupported) };
        let whole = pages_up(len).ok_or(Error::TooBig)?;
        if whole > section.len() { section.resize(whole) } else { Ok(()) }
    }

    /// Another section, with room for `len` bytes and more, and what is in the file copied there.
    fn go_elsewhere(&mut self, owner: &Owner, len: u64) -> Result<(), Error> {
        let reserve = ROOM.into_iter().find(|room| len <= *room).ok_or(Error::TooBig)?;
        let mut new = create(owner, self.len, reserve)?;
        if self.len > 0 {
            let copied = section::view(self.base(), self.len)
                .ok_or(Error::NotFound)
                .and_then(|old| fault::copy_out(new.bytes_mut(), old).map_err(|_| Error::Quota));
            if let Err(error) = copied {
                let _ = new.delete();
                return Err(error);
            }
        }
        let old = core::mem::replace(&mut self.place, Place::Own { section: new, reserve });
        if let Place::Own { section, .. } = old {
            // Whoever has it open may be reading there, the one who writes, too: many threads use one open file.
            if self.open > 0 {
                self.former.push(section.base());
            } else {
                let _ = section.delete();
            }
        }
        Ok(())
    }
}

/// A section that the owner's account pays for.
fn create(owner: &Owner, len: u64, reserve: u64) -> Result<Section, Error> {
    let made = Section::create(len, reserve, kind::DATA, flag::ANY_PRINCIPAL)?;
    let _ = section::name(made.base(), b"file");
    // Before anything is in it, so that all of it is charged there.
    let given = if owner.account == 0 { Ok(()) } else { section::give(made.base(), owner.account) };
    match given.and_then(|()| share(made.base(), owner, owner.mode)) {
        Ok(()) => Ok(made),
        Err(error) => {
            let _ = made.delete();
            Err(error)
        }
    }
}

fn share(base: u64, owner: &Owner, mode: u16) -> Result<(), Error> {
    let entries = [(principal::USER, owner.user, mode & 0o400 != 0), (principal::ANY, 0, mode & 0o004 != 0)];
    for (principal, id, may) in entries {
        let rights = if may { Rights::READ.bits() } else { 0 };
        let set = section::grant(base, &AclEntry { principal, rights, id, text: ANY_TEXT });
        // An entry that is not there need not be taken away.
        if may {
            set?;
        }
    }
    Ok(())
}

//! Sections: making them, saying who may use them, looking at them.

use abi::calls::stub;
use abi::gate::PASSED_FOR_WRITING;
use abi::refusal::Object;
use abi::section::{NAME_LEN, SectionInfo, SectionPages, kind};
use abi::{AclEntry, Error, Rights, layout};
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::Trap;
use crate::ports;
use crate::post::Post;

/// A section that this program made and may write. It stays when this value goes: see [`Section::delete`].
#[derive(Debug)]
pub struct Section {
    base: u64,
    len: u64,
}

/// Tries, and the pause between two of them, ns.
const CLONE_TRIES: u32 = 10_000;
const CLONE_PAUSE_NS: u64 = 100_000;

/// A copy-on-write clone of the section at `base`, whose ACL is the clone's maker's affair. Value: its base. While somebody else clones the
/// same section it waits.
///
/// # Errors
/// `Killed`, `Dead`, or what the kernel answers.
pub fn clone_at(base: u64, flags: u64, at: u64, room: u64) -> Result<u64, Error> {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    let mut tries = 0;
    loop {
        match stub::section_clone(&Trap, base, flags, at, room) {
            Err(Error::Busy) if tries < CLONE_TRIES => tries += 1,
            outcome => return outcome,
        }
        if let Err(error @ (Error::Killed | Error::Dead)) = crate::sync::wait(&NEVER, 0, CLONE_PAUSE_NS) {
            return Err(error);
        }
    }
}

impl Section {
    /// A new section of `len` bytes that may grow to `reserve`; `kind` and `flags` as in `abi::section`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn create(len: u64, reserve: u64, kind: u64, flags: u64) -> Result<Section, Error> {
        Section::create_at(len, reserve, kind, flags, 0, 0)
    }

    /// The same at a place inside the room beside an own section, or with room beside it.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn create_at(len: u64, reserve: u64, kind: u64, flags: u64, at: u64, room: u64) -> Result<Section, Error> {
        let len = layout::pages_up(len).ok_or(Error::TooBig)?;
        let base = stub::section_create(&Trap, len, reserve.max(len), kind, flags, at, room)?;
        Ok(Section { base, len })
    }

    /// A copy-on-write clone of the section at `base`.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn clone_of(base: u64, flags: u64, at: u64, room: u64) -> Result<Section, Error> {
        let base = clone_at(base, flags, at, room)?;
        Ok(Section { base, len: info(base)?.len })
    }

    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no section is empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the section is this program's own, `len` bytes long, and zero or written by it.
        unsafe { core::slice::from_raw_parts(self.base as *const u8, self.len as usize) }
    }

    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; the exclusive borrow of the only handle makes the slice exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.base as *mut u8, self.len as usize) }
    }

    /// # Errors
    /// `TooBig` above what was reserved, or what the kernel answers.
    pub fn resize(&mut self, len: u64) -> Result<(), Error> {
        let len = layout::pages_up(len).ok_or(Error::TooBig)?;
        stub::section_resize(&Trap, self.base, len)?;
        self.len = len;
        Ok(())
    }

    /// Makes it a text section; nobody can write it any more. Value: its base.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn seal(self) -> Result<u64, Error> {
        stub::section_seal(&Trap, self.base)?;
        Ok(self.base)
    }

    /// # Errors
    /// What the kernel answers.
    pub fn delete(self) -> Result<(), Error> {
        delete(self.base)
    }
}

/// # Errors
/// What the kernel answers.
pub fn delete(base: u64) -> Result<(), Error> {
    stub::section_delete(&Trap, base).map(drop)
}

/// Makes pages invalid (SSS-41): from now on nobody can use them, and what is in them stays. The range is whole pages of one section
/// whose access list this program may change.
///
/// # Errors
/// What the kernel answers; the pages before the one where it refused are invalid then.
pub fn invalidate(address: u64, len: u64) -> Result<(), Error> {
    by_parts(address, len, |at, len| stub::page_invalidate(&Trap, at, len))
}

/// The opposite (SSS-42).
///
/// # Errors
/// As for [`invalidate`].
pub fn validate(address: u64, len: u64) -> Result<(), Error> {
    by_parts(address, len, |at, len| stub::page_validate(&Trap, at, len))
}

/// Has real pages at once (SSS-37): frames of zeroes where there were none, so that no access to them faults. The range is whole pages of one
/// section of data whose access list this program may change.
///
/// # Errors
/// What the kernel answers; the pages before the one where it refused are there then.
pub fn alloc(address: u64, len: u64) -> Result<(), Error> {
    alloc_as(address, len, 0)
}

/// The same with attributes (SSS-38): `abi::section::real`. None of the pages may be there already, unless they are such large pages.
///
/// # Errors
/// What the kernel answers; the pages before the one where it refused are there then.
pub fn alloc_as(address: u64, len: u64, attributes: u64) -> Result<(), Error> {
    by_parts(address, len, |at, len| stub::page_alloc(&Trap, at, len, attributes))
}

/// Gives their frames back at once; the pages read as zeroes from now on.
///
/// # Errors
/// What the kernel answers; the pages before the one where it refused are given back then.
pub fn free(address: u64, len: u64) -> Result<(), Error> {
    by_parts(address, len, |at, len| stub::page_free(&Trap, at, len))
}

/// One call does a part, from the beginning.
#[inline]
fn by_parts(mut address: u64, mut len: u64, call: impl Fn(u64, u64) -> Result<u64, Error>) -> Result<(), Error> {
    loop {
        let done = call(address, len)?;
        if done >= len {
            return Ok(());
        }
        (address, len) = (address + done, len - done);
    }
}

/// Gives a section, and its charge, to another task.
///
/// # Errors
/// What the kernel answers.
pub fn give(base: u64, task: u64) -> Result<(), Error> {
    stub::section_give(&Trap, base, task).map(drop)
}

/// Sets one entry of a section's ACL, or removes it if it has no rights.
///
/// # Errors
/// A refusal without the right change-acl, or what the kernel answers.
pub fn grant(base: u64, entry: &AclEntry) -> Result<(), Error> {
    stub::acl_set(&Trap, base, ptr::from_ref(entry) as u64).map(drop)
}

/// From its first thread or call on, a text is executed in this class (`abi::section::class`); NSys with the texts of `group` (0: by
/// itself). For who may call the section `abi::info::layout::Machine::placing`, and change the text's list.
///
/// # Errors
/// `Busy`: somebody has executed it.
pub fn place(text: u64, class: u64, group: u64) -> Result<(), Error> {
    stub::text_place(&Trap, text, class, group).map(drop)
}

/// Names a section for people.
///
/// # Errors
/// What the kernel answers.
pub fn name(base: u64, name: &[u8]) -> Result<(), Error> {
    let name = &name[..name.len().min(NAME_LEN)];
    stub::section_name(&Trap, base, name.as_ptr() as u64, name.len() as u64).map(drop)
}

/// What is known of the section that contains `address`.
///
/// # Errors
/// `NotFound`, or what the kernel answers.
pub fn info(address: u64) -> Result<SectionInfo, Error> {
    let mut out = SectionInfo::default();
    stub::section_info(&Trap, address, ptr::from_mut(&mut out) as u64)?;
    Ok(out)
}

/// What the pages of the section with just this base are: counted by as many calls as it is long. (Of what changes meanwhile as it was, or as it is.)
///
/// # Errors
/// `NotFound`, or what the kernel answers.
pub fn pages(base: u64) -> Result<SectionPages, Error> {
    let (mut out, mut from) = (SectionPages::default(), 0);
    loop {
        let next = stub::section_pages(&Trap, base, from, ptr::from_mut(&mut out) as u64)?;
        // (Its end may have come nearer.)
        if next <= from {
            return Ok(out);
        }
        from = next;
    }
}

/// The task that owns the section with just this base.
///
/// # Errors
/// `NotFound`.
pub fn owner(base: u64) -> Result<u64, Error> {
    owner_of(base, 0)
}

/// The same, if at least `len` bytes are reserved for it: so many addresses from there on are nobody else's.
///
/// # Errors
/// `NotFound`.
pub fn owner_of(base: u64, len: u64) -> Result<u64, Error> {
    stub::section_owner(&Trap, base, len)
}

/// This text uses the section of `owner`'s that begins at `base` by address on this thread, until it holds another one here: should that be
/// what somebody has lent with a binding, and he unbinds, its addresses are nobody else's so long.
///
/// # Errors
/// `NotFound`: it is not there, not lent to this text by a binding of `owner`'s, or less than `len` bytes are reserved for it; `Refused`: the thread
/// is a caller's, and need not. Then the thread holds none.
pub fn hold(base: u64, len: u64, owner: u64) -> Result<(), Error> {
    stub::section_hold(&Trap, base, len, owner).map(drop)
}

/// This text holds none on this thread.
pub fn hold_none() {
    let _ = stub::section_hold(&Trap, 0, 0, 0);
}

/// All sections, in the order of their addresses.
pub fn list() -> impl Iterator<Item = SectionInfo> {
    let mut after = 0;
    core::iter::from_fn(move || {
        let mut out = SectionInfo::default();
        after = stub::section_list(&Trap, after, ptr::from_mut(&mut out) as u64).ok()?;
        Some(out)
    })
}

/// The ACL of a section.
///
/// # Errors
/// A refusal without any right on it, or what the kernel answers.
pub fn acl(base: u64) -> Result<Vec<AclEntry>, Error> {
    let mut entries = Vec::new();
    let mut count = 16;
    while count > entries.len() {
        entries.resize(count, AclEntry { principal: 0, rights: 0, id: 0, text: 0 });
        count = stub::acl_read(&Trap, base, entries.as_mut_ptr() as u64, entries.len() as u64)? as usize;
        if count <= entries.len() {
            entries.truncate(count);
            break;
        }
    }
    Ok(entries)
}

/// Who a question about rights is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The executing domain.
    Own = 0,
    /// The domain that called it.
    Caller = 1,
}

/// Whether `who` may do `rights` to all of `[address, address + len)`.
#[must_use]
pub fn may(address: u64, len: u64, rights: Rights, who: Who) -> bool {
    stub::may(&Trap, address, len, u64::from(rights.bits()), who as u64) == Ok(1)
}

/// Whether this program and whoever has called it may both read (with `written`: and write) all of `[address, address + len)`; if so, and what is
/// there ends meanwhile, its addresses are nobody else's until the call is over. What a method is passed in its arguments has been looked at;
/// this is for what it finds there itself, and for plain words (pitfalls, H10).
#[must_use]
pub fn passed(address: u64, len: u64, written: bool) -> bool {
    let asked = len | if written { PASSED_FOR_WRITING } else { 0 };
    len & PASSED_FOR_WRITING == 0 && stub::may_pass(&Trap, address, asked, 0, 0, 0, 0) == Ok(1)
}

/// Why this program may not do `rights` at `address`: for want of a right, or because nothing there can be.
#[must_use]
pub fn why_not(address: u64, rights: Rights) -> Error {
    let there = match info(address) {
        Ok(there) => there,
        Err(error) => return error,
    };
    let missing = rights - Rights::from_bits_truncate(there.rights as u32);
    if missing.is_empty() {
        return Error::BadAddress;
    }
    Error::no_right(Object::Section(there.base, missing), crate::task::identity().thread)
}

/// Memory of somebody else's section that this program may read: a file, for example. Whoever may write it may do so
/// while it is being read here: copy before you decide on it.
#[must_use]
pub fn view(address: u64, len: u64) -> Option<&'static [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    if address == 0 || isize::try_from(len).is_err() || !may(address, len, Rights::READ, Who::Own) {
        return None;
    }
    // SAFETY: the kernel says that this domain may read all of it now; should that end, the access faults and the
    // program ends. Bytes have no invalid values.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, len as usize) })
}

/// A device's memory.
#[derive(Debug)]
pub struct Device {
    base: u64,
    len: u64,
}

impl Device {
    /// # Errors
    /// `NotSupported` if the section is not a device's memory, a refusal if this program may not write it.
    pub fn open(base: u64) -> Result<Device, Error> {
        let info = info(base)?;
        if info.kind != kind::DEVICE {
            return Err(Error::NotSupported);
        }
        if !may(info.base, info.len, Rights::READ | Rights::WRITE, Who::Own) {
            return Err(why_not(info.base, Rights::READ | Rights::WRITE));
        }
        Ok(Device { base: info.base, len: info.len })
    }

    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no section is empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Writes bytes at an offset; what does not fit is left out.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let room = self.len.saturating_sub(offset).min(bytes.len() as u64);
        // SAFETY: the range lies in the device's memory, which holds no Rust object.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), (self.base + offset.min(self.len)) as *mut u8, room as usize)
        }
    }

    /// The byte at an offset, as it is now; 0 where there is none.
    #[must_use]
    pub fn read(&self, offset: u64) -> u8 {
        if offset >= self.len {
            return 0;
        }
        // SAFETY: the address lies in the device's memory, which holds no Rust object; the device may change it.
        unsafe { ptr::read_volatile((self.base + offset) as *const u8) }
    }
}

/// A device's I/O ports, with its interrupt.
#[derive(Clone, Copy, Debug)]
pub struct Ports(pub u64);

impl Ports {
    /// # Errors
    /// What the kernel answers.
    pub fn read(self, port: u64, width: u64) -> Result<u64, Error> {
        match ports::read(self.0, port, width) {
            Some(value) => Ok(value),
            None => stub::port_read(&Trap, self.0, port, width),
        }
    }

    /// # Errors
    /// What the kernel answers.
    pub fn write(self, port: u64, width: u64, value: u64) -> Result<(), Error> {
        match ports::write(self.0, port, width, value) {
            Some(()) => Ok(()),
            None => stub::port_write(&Trap, self.0, port, width, value).map(drop),
        }
    }

    /// Writes all bytes to one byte-wide port.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn write_bytes(self, port: u64, bytes: &[u8]) -> Result<(), Error> {
        if ports::write_bytes(self.0, port, bytes).is_some() {
            return Ok(());
        }
        self.write_shared(port, bytes)
    }

    /// The same by the kernel, also in supervisor mode: to the serial port, which its log shares.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn write_shared(self, port: u64, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let part = &bytes[..bytes.len().min(64 << 10)];
            let n = stub::port_write_bytes(&Trap, self.0, port, part.as_ptr() as u64, part.len() as u64)?;
            bytes = &bytes[(n as usize).min(part.len())..];
            if n == 0 {
                crate::thread::yield_now();
            }
        }
        Ok(())
    }

    /// From now on the device's interrupt is a message to this post (`None`: no more), with this operation.
    ///
    /// # Errors
    /// `Busy` while another program that lives has it; `NotSupported` if there is none; or what the kernel answers.
    pub fn interrupt_to(self, post: Option<Post>, op: u32) -> Result<(), Error> {
        stub::irq_post(&Trap, self.0, post.map_or(0, |post| post.0), op.into()).map(drop)
    }

    /// From now on the scheduler of this processor calls `gate` (0: none) when the device's interrupt comes.
    ///
    /// # Errors
    /// `Busy` if another program handles it; `NotSupported` if there is none; or what the kernel answers.
    pub fn bind_interrupt(self, gate: u64) -> Result<(), Error> {
        stub::irq_bind(&Trap, self.0, gate).map(drop)
    }
}

//! What the program was started with.

use abi::boot::Manifest;
use abi::start::{START_MAGIC, StartInfo, Str, StreamRef};
use core::sync::atomic::{AtomicPtr, Ordering};

static INFO: AtomicPtr<StartInfo> = AtomicPtr::new(core::ptr::null_mut());

/// # Safety
/// `info` points to a start record that stays readable and unchanged for as long as the program runs.
#[cfg_attr(not(target_os = "musubi"), allow(dead_code))]
pub(crate) unsafe fn set(info: *const StartInfo) {
    INFO.store(info.cast_mut(), Ordering::Release);
}

/// Arguments, environment, streams and identity of this program.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    info: Option<&'static StartInfo>,
}

/// The start record of this program.
#[must_use]
pub fn start() -> Start {
    let info = INFO.load(Ordering::Acquire);
    // SAFETY: `set` stores only records that stay valid; null becomes `None`.
    let info = unsafe { info.as_ref() };
    Start { info: info.filter(|i| i.magic == START_MAGIC) }
}

impl Start {
    /// The record itself; `None` where nobody made one (on the host).
    #[must_use]
    pub fn info(&self) -> Option<&'static StartInfo> {
        self.info
    }

    fn word(&self, get: fn(&StartInfo) -> u64) -> u64 {
        self.info.map_or(0, get)
    }

    /// The own task.
    #[must_use]
    pub fn task(&self) -> u64 {
        self.word(|i| i.task)
    }

    #[must_use]
    pub fn user(&self) -> u64 {
        self.word(|i| i.user)
    }

    /// Base of the own text section.
    #[must_use]
    pub fn text(&self) -> u64 {
        self.word(|i| i.text)
    }

    /// Entry address of the name service, 0 if there is none.
    #[must_use]
    pub fn names(&self) -> u64 {
        self.word(|i| i.names)
    }

    /// 0: input, 1: output, 2: errors.
    #[must_use]
    pub fn stream(&self, number: usize) -> StreamRef {
        self.info.and_then(|i| i.streams.get(number).copied()).unwrap_or_default()
    }

    /// The arguments as they were given, the program's name first.
    pub fn args(&self) -> impl Iterator<Item = &'static [u8]> + use<> {
        self.strings(0, self.word(|i| i.argc))
    }

    /// The arguments that are UTF-8, the program's name left out. Programs that take file names use [`Start::args`].
    pub fn words(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.args().skip(1).filter_map(|a| core::str::from_utf8(a).ok())
    }

    /// The environment: `NAME=value`.
    pub fn env(&self) -> impl Iterator<Item = &'static [u8]> + use<> {
        self.strings(self.word(|i| i.argc), self.word(|i| i.envc))
    }

    /// The value of an environment variable.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&'static [u8]> {
        self.env().find_map(|e| e.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    }

    /// The boot manifest with all that follows it: only the first program has one.
    #[must_use]
    pub fn manifest(&self) -> Option<&'static [u8]> {
        let at = self.info?.manifest as *const Manifest;
        if at.is_null() {
            return None;
        }
        // SAFETY: abi::start: the kernel hands the first program a readable manifest and names its length in it.
        Some(unsafe { core::slice::from_raw_parts(at.cast(), (*at).len as usize) })
    }

    fn strings(&self, first: u64, count: u64) -> impl Iterator<Item = &'static [u8]> + use<> {
        let info = self.info;
        (first..first.saturating_add(count)).map_while(move |i| {
            let info = info?;
            let table = info.args_offset as usize;
            let record = bytes(info, table.checked_add(i as usize * size_of::<Str>())?, size_of::<Str>())?;
            let word = |at: usize| record[at..at + 8].try_into().ok().map(u64::from_le_bytes);
            bytes(info, word(0)? as usize, word(8)? as usize)
        })
    }
}

/// A part of the start record, checked against its length.
fn bytes(info: &'static StartInfo, offset: usize, len: usize) -> Option<&'static [u8]> {
    let end = offset.checked_add(len)?;
    if end > info.len as usize {
        return None;
    }
    // SAFETY: the record is readable for `info.len` bytes from its start (abi::start).
    Some(unsafe { core::slice::from_raw_parts(core::ptr::from_ref(info).cast::<u8>().add(offset), len) })
}

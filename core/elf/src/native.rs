//! Programs for Musubi.

use crate::Refusal;
use crate::dynamic::{self, Relocations};
use crate::image::{Image, Load};
use abi::layout::{GRANULE, PAGE, RESERVE_MAX, pages_up};
use elf::abi as record;

/// What to load of a native program. Addresses count from where its text goes, which is a multiple of 2 MiB.
#[derive(Clone, Debug)]
pub struct Native<'a> {
    /// The text's bytes. They go to the beginning.
    pub text: &'a [u8],
    /// Length of the text section in bytes, whole pages; beyond `text` it is zeroes.
    pub text_len: u64,
    /// The data's bytes, to be relocated. Empty if there is no data segment.
    pub data: &'a [u8],
    /// Where the data go, a multiple of 2 MiB and at least a page beyond the text. 0 if there is no data segment.
    pub data_offset: u64,
    /// Length of the data in bytes; beyond `data` they are zeroes.
    pub data_len: u64,
    /// Where the first thread begins; within the text.
    pub entry: u64,
    relocations: Relocations<'a>,
}

impl Native<'_> {
    /// What must be relocated: at this offset in the data (all eight bytes are within `data`) goes the sum of the
    /// text's address and the addend.
    pub fn relocations(&self) -> impl Iterator<Item = (u64, i64)> {
        self.relocations.iter().map(|(target, addend)| (target - self.data_offset, addend))
    }
}

pub(crate) fn read<'a>(image: &Image<'a>) -> Result<Native<'a>, Refusal> {
    if image.header.osabi != record::ELFOSABI_NONE {
        return Err(Refusal::WrongSystem);
    }
    if image.header.e_type != record::ET_DYN {
        return Err(Refusal::FixedAddress);
    }
    if image.interpreter()?.is_some() {
        return Err(Refusal::Interpreter);
    }
    if image.segments.iter().any(|segment| segment.p_type == record::PT_TLS) {
        return Err(Refusal::ThreadLocal);
    }
    let loads = image.loads()?;
    let (text, data) = match &loads[..] {
        [text] => (text, None),
        [text, data] => (text, Some(data)),
        [_, _, more, ..] => return Err(Refusal::Unexpected(more.number)),
        [] => return Err(Refusal::NothingToLoad),
    };
    let text_len = text_len(text)?;
    if let Some(data) = data {
        check_data(data, text_len)?;
    }
    let entry = image.header.e_entry;
    if !text.contains(entry) {
        return Err(Refusal::BadEntry);
    }
    Ok(Native {
        text: text.bytes,
        text_len,
        data: data.map_or(&[], |data| data.bytes),
        data_offset: data.map_or(0, |data| data.vaddr),
        data_len: data.map_or(0, |data| data.memsz),
        entry,
        relocations: dynamic::relocations(image, &loads, data)?,
    })
}

fn text_len(text: &Load<'_>) -> Result<u64, Refusal> {
    if text.vaddr != 0 || !text.read || !text.execute {
        return Err(Refusal::Unexpected(text.number));
    }
    if text.align > GRANULE {
        return Err(Refusal::BadAlignment(text.number));
    }
    // With the page for gates it must fit a section.
    pages_up(text.memsz).filter(|len| len + PAGE <= RESERVE_MAX).ok_or(Refusal::TooLong(text.number))
}

fn check_data(data: &Load<'_>, text_len: u64) -> Result<(), Refusal> {
    if !data.read || !data.write {
        return Err(Refusal::Unexpected(data.number));
    }
    if !data.vaddr.is_multiple_of(GRANULE) || data.align > GRANULE {
        return Err(Refusal::BadAlignment(data.number));
    }
    // The text reserves all that lies before the data.
    if data.vaddr > RESERVE_MAX {
        return Err(Refusal::BadAddress(data.number));
    }
    if data.vaddr < text_len + PAGE {
        return Err(Refusal::NoRoomForGates);
    }
    Ok(())
}

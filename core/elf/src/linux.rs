//! Programs for Linux.

use crate::Refusal;
use crate::image::{Image, Load};
use abi::layout::{PAGE, WINDOW_END};
use alloc::vec::Vec;
use elf::abi as record;
use elf::file::Class;
use elf::parse::ParseAt;
use elf::segment::ProgramHeader;

/// Where a position-independent program is put, unless it wants a greater alignment: two thirds up the window, as
/// Linux does with its own.
pub const PIE_BASE: u64 = (WINDOW_END / 3 * 2) & !(ALIGN_MAX - 1);

/// The greatest alignment that a program may want.
const ALIGN_MAX: u64 = 1 << 30;
/// Below this nothing is mapped, so that null pointers with an offset fault.
const LOWEST: u64 = 64 << 10;

/// What to load of a Linux program into a window. If it is position independent, all addresses count from where it is
/// put.
#[derive(Clone, Debug)]
pub struct Linux<'a> {
    /// In the order of their addresses; no two share a page.
    pub segments: Vec<Segment<'a>>,
    /// Where the first thread begins; within an executable segment.
    pub entry: u64,
    /// Address of the table of segments in memory (for the program's auxiliary vector), 0 if it is not loaded.
    pub phdr_vaddr: u64,
    /// Number of its records.
    pub phnum: u64,
    /// Where to put a position-independent program; 0 for one at fixed addresses. All of it fits below the window's end.
    pub base_hint: u64,
    /// Position independent.
    pub is_pie: bool,
    /// It asks for a stack that can be executed, which it cannot have.
    pub stack_executable: bool,
    /// Path of the program that is to link it (with shared libraries) and is loaded beside it.
    pub interpreter: Option<&'a [u8]>,
}

/// One segment. Neither its address nor its length need be multiples of the page size; the rest of its last page is
/// zeroes, and so is what lies before it in its first one.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// First address.
    pub vaddr: u64,
    /// Length in bytes.
    pub memsz: u64,
    /// Its first bytes, not longer than `memsz`; the others are zeroes.
    pub file: &'a [u8],
    /// It can be read.
    pub read: bool,
    /// It can be written. Never together with `execute`.
    pub write: bool,
    /// It can be executed.
    pub execute: bool,
}

pub(crate) fn read<'a>(image: &Image<'a>) -> Result<Linux<'a>, Refusal> {
    let is_pie = image.header.e_type == record::ET_DYN;
    let loads = image.loads()?;
    let lowest = if is_pie { 0 } else { LOWEST };
    let highest = if is_pie { WINDOW_END - PIE_BASE } else { WINDOW_END };
    let mut end_before = lowest;
    for (at, load) in loads.iter().enumerate() {
        check_alignment(load)?;
        if load.vaddr < lowest || page_end(load) > highest {
            return Err(Refusal::BadAddress(load.number));
        }
        // Segments stand in the order of their addresses (the ELF specification says so), so neighbours tell all.
        if at > 0 && load.vaddr / PAGE * PAGE < end_before {
            return Err(Refusal::Overlap(load.number));
        }
        end_before = page_end(load);
    }
    let entry = image.header.e_entry;
    if !loads.iter().any(|load| load.execute && load.contains(entry)) {
        return Err(Refusal::BadEntry);
    }
    Ok(Linux {
        entry,
        interpreter: image.interpreter()?,
        phdr_vaddr: phdr_vaddr(image, &loads).unwrap_or(0),
        phnum: image.segments.len() as u64,
        // PIE_BASE is a multiple of the greatest alignment.
        base_hint: if is_pie { PIE_BASE } else { 0 },
        is_pie,
        stack_executable: image
            .segments
            .iter()
            .any(|segment| segment.p_type == record::PT_GNU_STACK && segment.p_flags & record::PF_X != 0),
        segments: loads.iter().map(segment).collect(),
    })
}

/// The end of the last page that a segment touches. (`Load` leaves room for it below the end of 64 bits.)
fn page_end(load: &Load<'_>) -> u64 {
    load.end().next_multiple_of(PAGE)
}

fn check_alignment(load: &Load<'_>) -> Result<(), Refusal> {
    // Linux maps the file's pages, so address and offset must agree within a page; linkers promise it for `align`.
    let fits = load.vaddr % PAGE == load.offset % PAGE || load.bytes.is_empty();
    if fits && load.align <= ALIGN_MAX { Ok(()) } else { Err(Refusal::BadAlignment(load.number)) }
}

/// Where the program finds its own table of segments: in the segment whose bytes contain it.
fn phdr_vaddr(image: &Image<'_>, loads: &[Load<'_>]) -> Option<u64> {
    let len = (image.segments.len() * ProgramHeader::size_for(Class::ELF64)) as u64;
    loads.iter().find_map(|load| {
        let start = image.header.e_phoff.checked_sub(load.offset)?;
        (start.checked_add(len)? <= load.bytes.len() as u64).then_some(load.vaddr + start)
    })
}

fn segment<'a>(load: &Load<'a>) -> Segment<'a> {
    Segment {
        vaddr: load.vaddr,
        memsz: load.memsz,
        file: load.bytes,
        read: load.read,
        write: load.write,
        execute: load.execute,
    }
}

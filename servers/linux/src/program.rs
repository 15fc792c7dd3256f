//! Reads the headers of a Linux program and says what goes where, or why it is refused. Nothing of the file is believed
//! before it is checked here: the rest of the personality works on the checked [`Program`].

use abi::Rights;
use abi::layout::{PAGE, WINDOW_END};
use alloc::vec::Vec;
use core::fmt;
use elf::abi as kind;
use elf::endian::LittleEndian;
use elf::file::{Class, FileHeader, parse_ident};
use elf::segment::{ProgramHeader, SegmentTable};

use crate::map::LOWEST;

/// The headers must lie within this much of the file's beginning.
pub const HEAD_LEN: u64 = 64 << 10;
/// Most segments that a program may have, and most bytes that they may take together.
const SEGMENTS_MAX: usize = 64;
const MEMORY_MAX: u64 = 16 << 30;
/// Greatest alignment that is honoured.
const ALIGN_MAX: u64 = 1 << 30;
const PHDR_LEN: u64 = size_of::<elf::segment::Elf64_Phdr>() as u64;
const EHDR_LEN: usize = size_of::<elf::file::Elf64_Ehdr>();

/// One segment to load: whole pages at a page address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// As the file says; a program that may go anywhere is moved.
    pub address: u64,
    /// Bytes of memory, a multiple of the page size.
    pub len: u64,
    /// What of it comes from the file; the rest is zero.
    pub file_offset: u64,
    pub file_len: u64,
    pub rights: Rights,
}

/// A part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

/// Whether the addresses in the file are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    Fixed,
    /// Anywhere at a multiple of this.
    Anywhere(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub position: Position,
    pub entry: u64,
    /// In ascending order; one at least may be executed.
    pub segments: Vec<Segment>,
    /// Where the program headers are in memory (0: nowhere), and how many.
    pub headers: u64,
    pub header_count: u64,
    /// Path of the dynamic linker that the program asks for.
    pub interpreter: Option<Extent>,
}

impl Program {
    /// First byte and end of all segments together.
    #[must_use]
    pub fn extent(&self) -> core::ops::Range<u64> {
        let start = self.segments.first().map_or(0, |s| s.address);
        start..self.segments.last().map_or(start, |s| s.address + s.len)
    }
}

/// Why a file is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    NotElf,
    NotX86_64,
    NotAProgram,
    HeadersOutside,
    TooManySegments,
    NothingToLoad,
    NothingToExecute,
    SegmentOutsideFile,
    SegmentOutsideWindow,
    SegmentsOverlap,
    SegmentUnaligned,
    WritableCode,
    TooBig,
    EntryNotExecutable,
    BadInterpreter,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Defect::NotElf => "not an ELF file",
            Defect::NotX86_64 => "not for a 64-bit x86 processor",
            Defect::NotAProgram => "an ELF file, but not a program",
            Defect::HeadersOutside => "the program headers are not where the file says",
            Defect::TooManySegments => "too many segments",
            Defect::NothingToLoad => "nothing to load",
            Defect::NothingToExecute => "no executable segment",
            Defect::SegmentOutsideFile => "a segment goes beyond the end of the file",
            Defect::SegmentOutsideWindow => "a segment lies outside the window",
            Defect::SegmentsOverlap => "segments overlap or are out of order",
            Defect::SegmentUnaligned => "a segment's address and file offset do not agree within the page",
            Defect::WritableCode => "a segment is writable and executable",
            Defect::TooBig => "the segments take too much memory",
            Defect::EntryNotExecutable => "the entry point is not in executable memory",
            Defect::BadInterpreter => "the path of the dynamic linker is damaged",
        })
    }
}

/// Reads the headers in `head`, the first bytes ([`HEAD_LEN`] or all) of a file of `file_len` bytes.
///
/// # Errors
/// The first defect found.
pub fn parse(head: &[u8], file_len: u64) -> Result<Program, Defect> {
    let header = header(head)?;
    let position = match header.e_type {
        kind::ET_EXEC => Position::Fixed,
        kind::ET_DYN => Position::Anywhere(PAGE),
        _ => return Err(Defect::NotAProgram),
    };
    let count = u64::from(header.e_phnum);
    let table = header.e_phoff.checked_add(count * PHDR_LEN).filter(|&end| end <= head.len() as u64);
    let Some(table_end) = table.filter(|_| u64::from(header.e_phentsize) == PHDR_LEN) else {
        return Err(Defect::HeadersOutside);
    };
    let table = &head[header.e_phoff as usize..table_end as usize];
    let headers: SegmentTable<'_, _> = SegmentTable::new(LittleEndian, Class::ELF64, table);

    let mut program =
        Program { position, entry: header.e_entry, segments: Vec::new(), headers: 0, header_count: count, interpreter: None };
    let mut total = 0;
    for ph in headers.iter() {
        match ph.p_type {
            kind::PT_LOAD if ph.p_memsz > 0 => {
                let segment = segment(&ph, file_len)?;
                total += segment.len;
                if program.segments.last().is_some_and(|last| last.address + last.len > segment.address) {
                    return Err(Defect::SegmentsOverlap);
                }
                if program.segments.len() == SEGMENTS_MAX {
                    return Err(Defect::TooManySegments);
                }
                if total > MEMORY_MAX {
                    return Err(Defect::TooBig);
                }
                program.segments.push(segment);
                if let Position::Anywhere(align) = &mut program.position {
                    let wanted = ph.p_align.clamp(PAGE, ALIGN_MAX);
                    *align = (*align).max(if wanted.is_power_of_two() { wanted } else { PAGE });
                }
            }
            kind::PT_INTERP => {
                let inside = ph.p_offset.checked_add(ph.p_filesz).is_some_and(|end| end <= file_len);
                if !inside || !(2..=crate::tree::PATH_MAX as u64).contains(&ph.p_filesz) || program.interpreter.is_some() {
                    return Err(Defect::BadInterpreter);
                }
                program.interpreter = Some(Extent { offset: ph.p_offset, len: ph.p_filesz });
            }
            _ => {}
        }
    }
    if program.segments.is_empty() {
        return Err(Defect::NothingToLoad);
    }
    if !program.segments.iter().any(|s| s.rights.contains(Rights::EXECUTE)) {
        return Err(Defect::NothingToExecute);
    }
    let at_entry = program.segments.iter().find(|s| (s.address..s.address + s.len).contains(&program.entry));
    if !at_entry.is_some_and(|s| s.rights.contains(Rights::EXECUTE)) {
        return Err(Defect::EntryNotExecutable);
    }
    if position == Position::Fixed && program.extent().start < LOWEST {
        return Err(Defect::SegmentOutsideWindow);
    }
    program.headers = place_of(&program.segments, header.e_phoff, count * PHDR_LEN);
    Ok(program)
}

fn header(head: &[u8]) -> Result<FileHeader<LittleEndian>, Defect> {
    if head.len() < EHDR_LEN {
        return Err(Defect::NotElf);
    }
    let (ident, tail) = head[..EHDR_LEN].split_at(kind::EI_NIDENT);
    let ident = parse_ident::<LittleEndian>(ident).map_err(|e| match e {
        elf::ParseError::BadMagic(_) => Defect::NotElf,
        _ => Defect::NotX86_64,
    })?;
    if ident.1 != Class::ELF64 {
        return Err(Defect::NotX86_64);
    }
    let header = FileHeader::parse_tail(ident, tail).map_err(|_| Defect::NotElf)?;
    if header.e_machine != kind::EM_X86_64 {
        return Err(Defect::NotX86_64);
    }
    Ok(header)
}

/// A segment in whole pages. What lies before its first byte in the page comes from the file, too, as on Linux.
fn segment(ph: &ProgramHeader, file_len: u64) -> Result<Segment, Defect> {
    let within = ph.p_vaddr % PAGE;
    if ph.p_offset % PAGE != within {
        return Err(Defect::SegmentUnaligned);
    }
    let file_end = ph.p_offset.checked_add(ph.p_filesz);
    if ph.p_filesz > ph.p_memsz || file_end.is_none_or(|end| end > file_len) {
        return Err(Defect::SegmentOutsideFile);
    }
    let end = ph.p_vaddr.checked_add(ph.p_memsz).and_then(abi::layout::pages_up);
    let Some(end) = end.filter(|&end| end <= WINDOW_END) else { return Err(Defect::SegmentOutsideWindow) };
    let mut rights = Rights::empty();
    rights.set(Rights::READ, ph.p_flags & (kind::PF_R | kind::PF_W) != 0);
    rights.set(Rights::WRITE, ph.p_flags & kind::PF_W != 0);
    rights.set(Rights::EXECUTE, ph.p_flags & kind::PF_X != 0);
    if rights.contains(Rights::WRITE | Rights::EXECUTE) {
        return Err(Defect::WritableCode);
    }
    let address = ph.p_vaddr - within;
    // A segment without bytes in the file takes none before them either.
    let file_len = if ph.p_filesz == 0 { 0 } else { ph.p_filesz + within };
    Ok(Segment { address, len: end - address, file_offset: ph.p_offset - within, file_len, rights })
}

/// Address in memory of `[offset, offset + len)` of the file, 0 if no segment holds it.
fn place_of(segments: &[Segment], offset: u64, len: u64) -> u64 {
    let holds = |s: &&Segment| s.file_offset <= offset && offset + len <= s.file_offset + s.file_len;
    segments.iter().find(holds).map_or(0, |s| s.address + (offset - s.file_offset))
}

#[cfg(test)]
mod tests;

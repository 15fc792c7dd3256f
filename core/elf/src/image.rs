//! What both kinds of program have in common: headers, and segments whose bytes are in the file.

use crate::{PT_MUSUBI, Refusal};
use abi::layout::{PAGE, RESERVE_MAX};
use alloc::vec::Vec;
use elf::abi as record;
use elf::endian::LittleEndian;
use elf::file::{Class, ELF64_EHDR_TAILSIZE, FileHeader, parse_ident};
use elf::note::{Note, NoteIterator};
use elf::parse::{ParseAt, ParseError};
use elf::segment::{ProgramHeader, SegmentTable};

/// More segments than any program needs; it bounds the work.
const SEGMENTS_MAX: u16 = 128;

/// So long are all segments of notes that are read, together.
const NOTE_MAX: u64 = 64 << 10;

/// The longest path of an interpreter.
const PATH_MAX: usize = 4096;

/// A file whose headers make sense.
pub(crate) struct Image<'a> {
    pub(crate) file: &'a [u8],
    pub(crate) header: FileHeader<LittleEndian>,
    /// All of them: a segment's number is its index.
    pub(crate) segments: Vec<ProgramHeader>,
}

/// A segment that is to be loaded: its bytes are in the file, are not longer than its memory, and it is never both
/// writable and executable. Its last address does not wrap round.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) number: usize,
    pub(crate) bytes: &'a [u8],
    pub(crate) vaddr: u64,
    pub(crate) memsz: u64,
    pub(crate) offset: u64,
    pub(crate) align: u64,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) execute: bool,
}

impl Load<'_> {
    pub(crate) fn end(&self) -> u64 {
        self.vaddr + self.memsz
    }

    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.vaddr..self.end()).contains(&address)
    }
}

impl<'a> Image<'a> {
    /// Reads the headers. Those of sections (in the sense of ELF) are not needed for running and are left alone.
    pub(crate) fn read(file: &'a [u8]) -> Result<Image<'a>, Refusal> {
        let ident = file.get(..record::EI_NIDENT).ok_or(match file.starts_with(&record::ELFMAGIC) {
            true => Refusal::CutOff,
            false => Refusal::NotElf,
        })?;
        let ident = parse_ident::<LittleEndian>(ident).map_err(|error| match error {
            ParseError::UnsupportedElfClass(_) | ParseError::UnsupportedElfEndianness(_) => Refusal::WrongMachine,
            _ => Refusal::NotElf,
        })?;
        if ident.1 != Class::ELF64 {
            return Err(Refusal::WrongMachine);
        }
        let tail = file.get(record::EI_NIDENT..record::EI_NIDENT + ELF64_EHDR_TAILSIZE).ok_or(Refusal::CutOff)?;
        let header = FileHeader::parse_tail(ident, tail).map_err(|_| Refusal::CutOff)?;
        if header.e_machine != record::EM_X86_64 {
            return Err(Refusal::WrongMachine);
        }
        if header.osabi != record::ELFOSABI_NONE && header.osabi != record::ELFOSABI_LINUX {
            return Err(Refusal::WrongSystem);
        }
        if header.e_type != record::ET_EXEC && header.e_type != record::ET_DYN {
            return Err(Refusal::NotAProgram);
        }
        let segments = segments(file, &header)?;
        Ok(Image { file, header, segments })
    }

    /// Whether a program header marks a native program.
    pub(crate) fn is_marked(&self) -> bool {
        self.segments.iter().any(|segment| segment.p_type == PT_MUSUBI)
    }

    /// The version in the note that marks a native program; `None` if there is no such note.
    pub(crate) fn musubi_version(&self) -> Result<Option<u32>, Refusal> {
        let mut left = NOTE_MAX;
        for (number, segment) in self.segments.iter().enumerate() {
            // What is longer, or lies behind so many, is not looked through, and is none of ours.
            if segment.p_type != record::PT_NOTE || segment.p_filesz > left {
                continue;
            }
            left -= segment.p_filesz;
            let bytes = self.bytes(segment).ok_or(Refusal::BeyondFile(number))?;
            let align = if segment.p_align == 8 { 8 } else { 4 };
            for note in NoteIterator::new(LittleEndian, Class::ELF64, align, bytes) {
                if let Note::Unknown(note) = note
                    && note.n_type == 1
                    && note.name.strip_suffix(b"\0").unwrap_or(note.name) == b"Musubi"
                {
                    let version = note.desc.first_chunk().ok_or(Refusal::BadHeaders)?;
                    return Ok(Some(u32::from_le_bytes(*version)));
                }
            }
        }
        Ok(None)
    }

    /// The segments to be loaded. Empty ones are none.
    pub(crate) fn loads(&self) -> Result<Vec<Load<'a>>, Refusal> {
        let to_load = |segment: &ProgramHeader| segment.p_type == record::PT_LOAD && segment.p_memsz > 0;
        let numbered = self.segments.iter().enumerate().filter(|(_, segment)| to_load(segment));
        let loads = numbered.map(|(number, segment)| self.load(number, segment)).collect::<Result<Vec<_>, _>>()?;
        if loads.is_empty() { Err(Refusal::NothingToLoad) } else { Ok(loads) }
    }

    fn load(&self, number: usize, segment: &ProgramHeader) -> Result<Load<'a>, Refusal> {
        let bytes = self.bytes(segment).ok_or(Refusal::BeyondFile(number))?;
        let has = |flag| segment.p_flags & flag != 0;
        if segment.p_filesz > segment.p_memsz {
            return Err(Refusal::ShorterInMemory(number));
        }
        if segment.p_memsz > RESERVE_MAX {
            return Err(Refusal::TooLong(number));
        }
        if segment.p_vaddr.checked_add(segment.p_memsz + PAGE).is_none() {
            return Err(Refusal::BadAddress(number));
        }
        if segment.p_align > 1 && !segment.p_align.is_power_of_two() {
            return Err(Refusal::BadAlignment(number));
        }
        if has(record::PF_W) && has(record::PF_X) {
            return Err(Refusal::WriteAndExecute(number));
        }
        Ok(Load {
            number,
            bytes,
            vaddr: segment.p_vaddr,
            memsz: segment.p_memsz,
            offset: segment.p_offset,
            align: segment.p_align.max(1),
            read: has(record::PF_R),
            write: has(record::PF_W),
            execute: has(record::PF_X),
        })
    }

    /// Path of the interpreter that the file names, without the zero at its end.
    pub(crate) fn interpreter(&self) -> Result<Option<&'a [u8]>, Refusal> {
        let Some(segment) = self.segments.iter().find(|segment| segment.p_type == record::PT_INTERP) else {
            return Ok(None);
        };
        let path = self.bytes(segment).and_then(|path| path.strip_suffix(b"\0"));
        match path.filter(|path| !path.is_empty() && path.len() < PATH_MAX && !path.contains(&0)) {
            Some(path) => Ok(Some(path)),
            None => Err(Refusal::BadInterpreter),
        }
    }

    /// A segment's bytes in the file.
    pub(crate) fn bytes(&self, segment: &ProgramHeader) -> Option<&'a [u8]> {
        let start = usize::try_from(segment.p_offset).ok()?;
        let len = usize::try_from(segment.p_filesz).ok()?;
        self.file.get(start..start.checked_add(len)?)
    }
}

fn segments(file: &[u8], header: &FileHeader<LittleEndian>) -> Result<Vec<ProgramHeader>, Refusal> {
    if header.e_phnum == 0 {
        return Err(Refusal::NothingToLoad);
    }
    if header.e_phnum > SEGMENTS_MAX {
        return Err(Refusal::TooManySegments);
    }
    let size = ProgramHeader::size_for(Class::ELF64);
    if usize::from(header.e_phentsize) != size {
        return Err(Refusal::BadHeaders);
    }
    let start = usize::try_from(header.e_phoff).map_err(|_| Refusal::CutOff)?;
    let end = start.checked_add(size * usize::from(header.e_phnum)).ok_or(Refusal::CutOff)?;
    let table = file.get(start..end).ok_or(Refusal::CutOff)?;
    Ok(SegmentTable::new(LittleEndian, Class::ELF64, table).iter().collect())
}

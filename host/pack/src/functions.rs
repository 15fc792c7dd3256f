//! What the table of functions (core/symbols) says of a program.

use crate::symbols::functions;
use anyhow::{Context, Result};
use elf::ElfBytes;
use elf::abi::{PF_X, PT_LOAD};
use elf::endian::LittleEndian;
use symbols::{Program, sum};

/// Of a program file of this name. Functions are counted from the beginning of its text on, which is loaded at 0 in the file's terms.
pub fn of(name: &str, file: &[u8]) -> Result<Program> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("not an ELF file")?;
    let mut segments = elf.segments().context("no program headers")?.iter();
    let text = segments.find(|s| s.p_type == PT_LOAD && s.p_flags & PF_X != 0).context("no code")?;
    // As it is in the machine: without what speaks of sections of the file.
    let loaded = crate::strip::loaded(file)?;
    let text = loaded
        .get(text.p_offset as usize..)
        .and_then(|from| from.get(..text.p_filesz as usize))
        .context("the code lies outside the file")?;
    let inside = |(at, name): (u64, String)| {
        u32::try_from(at).ok().filter(|at| (*at as usize) < text.len()).map(|at| (at, name))
    };
    let functions = functions(&elf)?.into_iter().filter_map(inside).collect();
    Ok(Program { name: name.into(), text_len: text.len() as u32, sum: sum(text), functions })
}

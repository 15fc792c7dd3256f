//! Lays out the first program: it is started by the kernel, before there is a program that loads programs.

use abi::layout::{FIRST_TEXT, GRANULE, PAGE};
use anyhow::{Context, Result, bail, ensure};
use elf::ElfBytes;
use elf::abi::{DT_RELA, DT_RELAENT, DT_RELASZ, EM_X86_64, ET_DYN, PF_W, PF_X, PT_LOAD, R_X86_64_RELATIVE};
use elf::endian::LittleEndian;
use elf::segment::ProgramHeader;

/// A program split into what the kernel makes sections of.
pub struct First {
    /// Code and constants, whole pages, to be read and executed at [`FIRST_TEXT`].
    pub text: Vec<u8>,
    /// The part of the data that the file holds, relocated.
    pub data: Vec<u8>,
    /// Address of the data.
    pub data_addr: u64,
    /// Length of the data in memory; what goes beyond `data` is zeroes.
    pub data_len: u64,
    /// Address of the first instruction.
    pub entry: u64,
}

/// Bytes of one `Elf64_Rela`.
const RELA_LEN: u64 = 24;

/// Splits a position-independent ELF program into text and data, relocated as if its text were at [`FIRST_TEXT`].
pub fn lay_out(file: &[u8]) -> Result<First> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("not an ELF file")?;
    ensure!(elf.ehdr.e_machine == EM_X86_64 && elf.ehdr.e_type == ET_DYN, "not a position-independent x86-64 program");
    let loads: Vec<ProgramHeader> =
        elf.segments().context("no program headers")?.iter().filter(|s| s.p_type == PT_LOAD && s.p_memsz > 0).collect();
    let (text_seg, data_seg) = match loads.as_slice() {
        [text] => (text, None),
        [text, data] => (text, Some(data)),
        _ => bail!("{} segments to load, not text and data", loads.len()),
    };
    ensure!(text_seg.p_vaddr == 0 && text_seg.p_flags & (PF_X | PF_W) == PF_X, "text is not read-execute at 0");
    ensure!(text_seg.p_filesz == text_seg.p_memsz, "text has zeroes that are not in the file");
    let mut text = elf.segment_data(text_seg).context("text lies outside the file")?.to_vec();
    let text_len = text.len() as u64;
    text.resize(text.len().next_multiple_of(PAGE as usize), 0);
    ensure!(elf.ehdr.e_entry < text_len, "the entry lies outside the text");

    let mut first = First { text, data: Vec::new(), data_addr: 0, data_len: 0, entry: FIRST_TEXT + elf.ehdr.e_entry };
    if let Some(seg) = data_seg {
        ensure!(seg.p_flags & (PF_X | PF_W) == PF_W, "data is not read-write");
        ensure!(seg.p_vaddr % GRANULE == 0, "data does not begin at a multiple of 2 MiB");
        ensure!(seg.p_vaddr >= first.text.len() as u64, "data overlaps text");
        first.data = elf.segment_data(seg).context("data lies outside the file")?.to_vec();
        first.data_addr = FIRST_TEXT + seg.p_vaddr;
        first.data_len = seg.p_memsz;
    }
    relocate(&elf, file, &mut first)?;
    Ok(first)
}

fn relocate(elf: &ElfBytes<LittleEndian>, file: &[u8], first: &mut First) -> Result<()> {
    let (mut table, mut size, mut entry_len) = (None, 0, RELA_LEN);
    if let Some(dynamic) = elf.dynamic().context("bad dynamic table")? {
        for item in dynamic {
            match item.d_tag {
                DT_RELA => table = Some(item.d_ptr()),
                DT_RELASZ => size = item.d_val(),
                DT_RELAENT => entry_len = item.d_val(),
                _ => {}
            }
        }
    }
    let Some(table) = table.filter(|_| size > 0) else {
        return Ok(());
    };
    ensure!(entry_len == RELA_LEN && size % RELA_LEN == 0, "relocations of an unknown size");
    let bytes = bytes_at(elf, file, table, size).context("the relocations lie outside the file")?;
    for rela in bytes.chunks_exact(RELA_LEN as usize) {
        let word = |i: usize| u64::from_le_bytes(rela[i * 8..][..8].try_into().expect("8 of 24 bytes"));
        let (place, info, addend) = (word(0), word(1), word(2));
        ensure!(info == u64::from(R_X86_64_RELATIVE), "relocation of kind {info:#x} at {place:#x}, not RELATIVE");
        let data_start = first.data_addr.wrapping_sub(FIRST_TEXT);
        let target = place
            .checked_sub(data_start)
            .filter(|_| first.data_addr != 0)
            .and_then(|at| first.data.get_mut(at as usize..)?.get_mut(..8))
            .with_context(|| format!("relocation at {place:#x}, outside the data"))?;
        target.copy_from_slice(&FIRST_TEXT.wrapping_add(addend).to_le_bytes());
    }
    Ok(())
}

/// The bytes of the file that would be loaded at `addr`.
fn bytes_at<'f>(elf: &ElfBytes<LittleEndian>, file: &'f [u8], addr: u64, len: u64) -> Option<&'f [u8]> {
    let end = addr.checked_add(len)?;
    let seg = elf.segments()?.iter().find(|s| {
        s.p_type == PT_LOAD && s.p_vaddr <= addr && s.p_vaddr.checked_add(s.p_filesz).is_some_and(|e| end <= e)
    })?;
    let from = usize::try_from(seg.p_offset.checked_add(addr - seg.p_vaddr)?).ok()?;
    file.get(from..from.checked_add(usize::try_from(len).ok()?)?)
}

#[cfg(test)]
mod tests;

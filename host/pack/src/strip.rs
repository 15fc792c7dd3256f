//! What of a program goes into the machine: what is loaded. Debugging information, most of a file, stays on the host.

use anyhow::{Context, Result, ensure};
use elf::ElfBytes;
use elf::abi::PT_LOAD;
use elf::endian::LittleEndian;

/// Fields of the ELF header that speak of sections, which lie behind what is loaded: `e_shoff`, `e_shnum` and
/// `e_shstrndx`.
const SECTION_FIELDS: [std::ops::Range<usize>; 2] = [40..48, 60..64];

/// The file up to the end of what is loaded.
pub fn loaded(file: &[u8]) -> Result<Vec<u8>> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("not an ELF file")?;
    let segments = elf.segments().context("no program headers")?;
    let ends = segments.iter().filter(|s| s.p_type == PT_LOAD).map(|s| s.p_offset.saturating_add(s.p_filesz));
    // The program headers themselves need not be loaded.
    let headers = elf.ehdr.e_phoff.saturating_add(u64::from(elf.ehdr.e_phnum) * u64::from(elf.ehdr.e_phentsize));
    let end = ends.max().context("nothing to load")?.max(headers);
    ensure!(end <= file.len() as u64, "a segment lies outside the file");
    let mut kept = file[..end as usize].to_vec();
    for field in SECTION_FIELDS {
        kept[field].fill(0);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_stays_as_it_was() {
        let mut me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let kept = loaded(&me).unwrap();
        assert!(kept.len() < me.len());
        // The header is part of what is loaded, and its fields about sections change.
        SECTION_FIELDS.into_iter().for_each(|field| me[field].fill(0));
        let (before, after) = (
            ElfBytes::<LittleEndian>::minimal_parse(&me).unwrap(),
            ElfBytes::<LittleEndian>::minimal_parse(&kept).unwrap(),
        );
        assert_eq!(after.ehdr.e_shnum, 0);
        let loads = |elf: &ElfBytes<LittleEndian>| {
            let segments = elf.segments().unwrap().iter().filter(|s| s.p_type == PT_LOAD);
            segments.map(|s| (s.p_vaddr, elf.segment_data(&s).unwrap().to_vec())).collect::<Vec<_>>()
        };
        assert!(loads(&before) == loads(&after));
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(loaded(b"#!/bin/sh\n").is_err());
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(loaded(&me[..me.len() / 4]).is_err());
    }
}

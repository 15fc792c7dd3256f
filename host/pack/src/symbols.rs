//! The table by which the kernel names the addresses of a backtrace.
//!
//! `u64 count`, then `count` × (`u64 address, u32 name_offset, u32 name_len`) sorted by address, then the names;
//! offsets count from the first name. Only functions, with their Rust names spelled out here so that the kernel
//! carries no demangler.

use anyhow::{Context, Result};
use elf::ElfBytes;
use elf::abi::STT_FUNC;
use elf::endian::LittleEndian;

/// The table for an ELF file; empty if the file was stripped.
pub fn table(file: &[u8]) -> Result<Vec<u8>> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("the kernel is not an ELF file")?;
    Ok(encode(functions(&elf)?))
}

/// Where functions begin, and what they are called.
pub(crate) fn functions(elf: &ElfBytes<'_, LittleEndian>) -> Result<Vec<(u64, String)>> {
    let mut functions = Vec::new();
    if let Some((symbols, names)) = elf.symbol_table().context("the symbol table is bad")? {
        for symbol in symbols.iter().filter(|s| s.st_symtype() == STT_FUNC && s.st_shndx != 0) {
            let name = names.get(symbol.st_name as usize).context("a symbol's name lies outside the file")?;
            functions.push((symbol.st_value, format!("{:#}", rustc_demangle::demangle(name))));
        }
    }
    Ok(functions)
}

fn encode(mut functions: Vec<(u64, String)>) -> Vec<u8> {
    functions.sort();
    functions.dedup_by_key(|(address, _)| *address);
    let mut table = (functions.len() as u64).to_le_bytes().to_vec();
    let mut names = Vec::new();
    for (address, name) in &functions {
        table.extend_from_slice(&address.to_le_bytes());
        table.extend_from_slice(&(names.len() as u32).to_le_bytes());
        table.extend_from_slice(&(name.len() as u32).to_le_bytes());
        names.extend_from_slice(name.as_bytes());
    }
    table.extend_from_slice(&names);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_point_at_their_names() {
        let table = encode(vec![(0x30, "third".into()), (0x10, "first".into()), (0x10, "same place".into())]);
        assert_eq!(table[..8], 2u64.to_le_bytes());
        let names = 8 + 2 * 16;
        let entry = |i: usize| {
            let at = 8 + i * 16;
            let address = u64::from_le_bytes(table[at..at + 8].try_into().unwrap());
            let offset = u32::from_le_bytes(table[at + 8..at + 12].try_into().unwrap()) as usize;
            let len = u32::from_le_bytes(table[at + 12..at + 16].try_into().unwrap()) as usize;
            (address, std::str::from_utf8(&table[names + offset..][..len]).unwrap())
        };
        assert_eq!(entry(0), (0x10, "first"));
        assert_eq!(entry(1), (0x30, "third"));
    }

    #[test]
    fn a_real_file_has_demangled_names() {
        // This test program itself is an ELF file with symbols.
        let me = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let table = String::from_utf8_lossy(&table(&me).unwrap()).into_owned();
        assert!(table.contains("a_real_file_has_demangled_names"));
        assert!(!table.contains("_ZN"));
    }
}

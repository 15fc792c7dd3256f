//! Kernels of which one instruction has been taken out. The kernel's symbols `rule_NAME` say where in its file the
//! instruction is, and how long (`kernel/arch/src/gate.S`).

use anyhow::{Context, Result, ensure};
use elf::ElfBytes;
use elf::abi::PT_LOAD;
use elf::endian::LittleEndian;
use std::collections::BTreeMap;
use std::ops::Range;

const PREFIX: &str = "rule_";
/// An instruction of one byte that does nothing.
const NOP: u8 = 0x90;

/// The file of a kernel, and where its rules are.
pub struct Whole {
    file: Vec<u8>,
    rules: BTreeMap<String, Range<usize>>,
}

impl Whole {
    pub fn read(file: Vec<u8>) -> Result<Self> {
        let rules = marked(&file, PREFIX)?;
        Ok(Self { file, rules })
    }

    /// Names of its rules.
    pub fn rules(&self) -> impl Iterator<Item = &str> {
        self.rules.keys().map(String::as_str)
    }

    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// A kernel without one of its rules, and with other bytes in its place.
    pub fn without(&self, rule: &str, instead: &[u8]) -> Result<Vec<u8>> {
        let place = self.rules.get(rule).with_context(|| format!("the gate has no rule {rule}"))?;
        ensure!(instead.len() <= place.len(), "what is there instead of {rule} is longer");
        let mut file = self.file.clone();
        file[place.clone()].fill(NOP);
        file[place.start..][..instead.len()].copy_from_slice(instead);
        Ok(file)
    }
}

/// Where a file has the bytes that symbols with this prefix stand for, by the rest of their names.
fn marked(file: &[u8], prefix: &str) -> Result<BTreeMap<String, Range<usize>>> {
    let elf = ElfBytes::<LittleEndian>::minimal_parse(file).context("not an ELF file")?;
    let segments = elf.segments().context("no program headers")?;
    let (symbols, names) = elf.symbol_table()?.context("it has no symbols")?;
    let mut found = BTreeMap::new();
    for symbol in symbols {
        let Some(name) = names.get(symbol.st_name as usize)?.strip_prefix(prefix) else { continue };
        let (from, len) = (symbol.st_value, symbol.st_size);
        let holds = |s: &elf::segment::ProgramHeader| {
            s.p_type == PT_LOAD && s.p_vaddr <= from && from + len <= s.p_vaddr + s.p_filesz
        };
        let segment = segments.iter().find(holds).with_context(|| format!("{name} is not loaded"))?;
        let at = (segment.p_offset + from - segment.p_vaddr) as usize;
        ensure!(len > 0, "{name} has no length");
        ensure!(found.insert(name.to_string(), at..at + len as usize).is_none(), "there are two of {name}");
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn myself() -> Vec<u8> {
        std::fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn bytes_are_found_by_a_symbol_and_taken_out() {
        // This test program itself is an ELF file with symbols: of `_start`, its entry, among others.
        let me = myself();
        let found = marked(&me, "_sta").unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["rt"]);
        let start = found["rt"].clone();
        let mutant = Whole { file: me.clone(), rules: found }.without("rt", b"").unwrap();
        assert!(
            mutant[start.clone()].iter().all(|byte| *byte == NOP) && me[start.clone()].iter().any(|byte| *byte != NOP)
        );
        assert!(mutant[..start.start] == me[..start.start] && mutant[start.end..] == me[start.end..]);
    }

    #[test]
    fn what_is_not_there_is_not_taken_out() {
        assert!(Whole { file: myself(), rules: BTreeMap::new() }.without("rt", b"").is_err());
        assert!(marked(b"#!/bin/sh\n", PREFIX).is_err());
    }
}

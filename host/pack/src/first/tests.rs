//! Programs made by hand, byte by byte, so that every field can be wrong.

use super::*;

/// What a small program is made of; `Default` gives a good one.
struct Program {
    e_type: u16,
    entry: u64,
    data_addr: u64,
    data_flags: u32,
    rela: Vec<(u64, u64, u64)>,
}

impl Default for Program {
    fn default() -> Self {
        let relative = u64::from(R_X86_64_RELATIVE);
        Self {
            e_type: ET_DYN,
            entry: 0x1010,
            data_addr: GRANULE,
            data_flags: 6,
            rela: vec![(GRANULE + 8, relative, 0x1010), (GRANULE + 16, relative, GRANULE + 0x2000)],
        }
    }
}

const TEXT_LEN: u64 = 0x1100;
const DATA_LEN: u64 = 0x40;
const RELA_AT: u64 = 0x1000 - 0x200;
const DYNAMIC_AT: u64 = 0x1000 - 0x100;

impl Program {
    fn bytes(&self) -> Vec<u8> {
        let mut f = vec![0; (TEXT_LEN + DATA_LEN) as usize];
        let mut put = |at: u64, bytes: &[u8]| f[at as usize..][..bytes.len()].copy_from_slice(bytes);
        put(0, b"\x7fELF\x02\x01\x01");
        put(16, &self.e_type.to_le_bytes());
        put(18, &EM_X86_64.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(24, &self.entry.to_le_bytes());
        put(32, &64u64.to_le_bytes());
        put(52, &64u16.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &3u16.to_le_bytes());
        put(58, &64u16.to_le_bytes());
        let dynamic_len = 4 * 16;
        let segments = [
            (PT_LOAD, 5u32, 0, 0, TEXT_LEN, TEXT_LEN),
            (PT_LOAD, self.data_flags, TEXT_LEN, self.data_addr, DATA_LEN, DATA_LEN + 0x3000),
            (elf::abi::PT_DYNAMIC, 4, DYNAMIC_AT, DYNAMIC_AT, dynamic_len, dynamic_len),
        ];
        for (i, (kind, flags, offset, vaddr, filesz, memsz)) in segments.into_iter().enumerate() {
            let at = 64 + 56 * i as u64;
            put(at, &kind.to_le_bytes());
            put(at + 4, &flags.to_le_bytes());
            for (j, word) in [offset, vaddr, vaddr, filesz, memsz, 4096].into_iter().enumerate() {
                put(at + 8 + 8 * j as u64, &u64::to_le_bytes(word));
            }
        }
        let dynamic = [(DT_RELA, RELA_AT), (DT_RELASZ, self.rela.len() as u64 * RELA_LEN), (DT_RELAENT, RELA_LEN)];
        for (i, (tag, value)) in dynamic.into_iter().enumerate() {
            put(DYNAMIC_AT + 16 * i as u64, &tag.to_le_bytes());
            put(DYNAMIC_AT + 16 * i as u64 + 8, &value.to_le_bytes());
        }
        for (i, (place, info, addend)) in self.rela.iter().enumerate() {
            for (j, word) in [place, info, addend].into_iter().enumerate() {
                put(RELA_AT + RELA_LEN * i as u64 + 8 * j as u64, &word.to_le_bytes());
            }
        }
        f
    }

    fn refused(&self) -> String {
        format!("{:#}", lay_out(&self.bytes()).err().expect("must be refused"))
    }
}

#[test]
fn text_and_data_are_split_and_relocated() {
    let first = lay_out(&Program::default().bytes()).unwrap();
    assert_eq!(first.text.len() as u64, 2 * PAGE);
    assert_eq!(&first.text[..4], b"\x7fELF");
    assert_eq!(first.entry, FIRST_TEXT + 0x1010);
    assert_eq!(first.data_addr, FIRST_TEXT + GRANULE);
    assert_eq!(first.data_len, DATA_LEN + 0x3000);
    let word = |i: usize| u64::from_le_bytes(first.data[i * 8..][..8].try_into().unwrap());
    assert_eq!((word(0), word(1), word(2), word(3)), (0, FIRST_TEXT + 0x1010, FIRST_TEXT + GRANULE + 0x2000, 0));
}

#[test]
fn a_program_that_is_not_laid_out_as_ours_is_refused() {
    assert!(lay_out(b"#!/bin/sh\n").is_err());
    assert!(Program { e_type: 2, ..Program::default() }.refused().contains("position-independent"));
    assert!(Program { entry: TEXT_LEN, ..Program::default() }.refused().contains("entry"));
    assert!(Program { data_addr: GRANULE + 4096, ..Program::default() }.refused().contains("2 MiB"));
    assert!(Program { data_addr: 0, ..Program::default() }.refused().contains("overlaps"));
    assert!(Program { data_flags: 7, ..Program::default() }.refused().contains("read-write"));
}

#[test]
fn relocations_that_are_not_ours_are_refused() {
    let with = |rela| Program { rela: vec![rela], ..Program::default() };
    assert!(with((GRANULE, 6, 0)).refused().contains("kind 0x6"));
    assert!(with((0x1000, 8, 0)).refused().contains("outside the data"));
    assert!(with((GRANULE + DATA_LEN - 4, 8, 0)).refused().contains("outside the data"));
    assert!(with((u64::MAX, 8, 0)).refused().contains("outside the data"));
}

#[test]
fn a_truncated_file_is_refused_not_a_panic() {
    let whole = Program::default().bytes();
    for len in 0..whole.len() {
        assert!(lay_out(&whole[..len]).is_err(), "{len} bytes were accepted");
    }
}

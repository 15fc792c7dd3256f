//! Making the table, on the host.

use crate::{HEAD, INDEX, MAGIC, NAME_MAX, PROGRAM_NAME, PROGRAMS, RECORD, STEP};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// What the table is to say of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    pub name: String,
    pub text_len: u32,
    /// [`crate::sum`] of its text.
    pub sum: u64,
    /// Where functions begin, from the beginning of the text on, and what they are called.
    pub functions: Vec<(u32, String)>,
}

/// The beginning of a name, as much of it as is kept.
fn kept(name: &str) -> &str {
    &name[..name.floor_char_boundary(NAME_MAX)]
}

/// A number in as few bytes as it needs, the lowest seven bits first.
fn number(out: &mut Vec<u8>, mut value: u32) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[must_use]
pub fn table(programs: &[Program]) -> Vec<u8> {
    let names: BTreeSet<&str> = programs.iter().flat_map(|p| &p.functions).map(|(_, name)| kept(name)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let mut out = alloc::vec![0; HEAD + programs.len() * RECORD];
    out[..8].copy_from_slice(&MAGIC);
    out[PROGRAMS..PROGRAMS + 4].copy_from_slice(&(programs.len() as u32).to_le_bytes());
    for (program, at) in programs.iter().zip((HEAD..).step_by(RECORD)) {
        let mut functions: Vec<(u32, &str)> = program.functions.iter().map(|(at, name)| (*at, kept(name))).collect();
        functions.sort_unstable();
        functions.dedup_by_key(|(at, _)| *at);
        let list = out.len() as u32;
        let mut before = 0;
        for (address, name) in &functions {
            number(&mut out, address - before);
            number(&mut out, names.partition_point(|other| other < name) as u32);
            before = *address;
        }
        let name = &program.name.as_bytes()[..program.name.len().min(PROGRAM_NAME)];
        let record = &mut out[at..at + RECORD];
        record[..name.len()].copy_from_slice(name);
        record[32..40].copy_from_slice(&program.sum.to_le_bytes());
        for (word, to) in [program.text_len, list, functions.len() as u32].iter().zip((40..).step_by(4)) {
            record[to..to + 4].copy_from_slice(&word.to_le_bytes());
        }
    }
    let index = out.len() as u32;
    out[INDEX..INDEX + 4].copy_from_slice(&index.to_le_bytes());
    let mut spelled = Vec::new();
    let first = index + 4 * names.len().div_ceil(STEP) as u32;
    let mut before = "";
    for (i, name) in names.iter().enumerate() {
        if i % STEP == 0 {
            out.extend_from_slice(&(first + spelled.len() as u32).to_le_bytes());
            before = "";
        }
        let shared = before.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        spelled.extend([shared as u8, (name.len() - shared) as u8]);
        spelled.extend_from_slice(&name.as_bytes()[shared..]);
        before = name;
    }
    out.extend(spelled);
    out
}

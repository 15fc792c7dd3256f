//! What programs asked for and did not get: calls that are not implemented, and details of implemented calls that are
//! not. Nothing is refused without being counted here; `linux-unknown` in the shell lists it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;

/// Kinds of refusal that are kept apart. What comes after is counted together.
const ENTRIES_MAX: usize = 512;

/// What was refused: a call (its number), or a detail of one, such as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Call(u64),
    Detail(&'static str, u64),
    /// All that did not find room.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub count: u64,
    /// Name of the last program that asked.
    pub program: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<What, Count>,
}

impl Coverage {
    pub fn record(&mut self, what: What, program: &[u8]) {
        let full = self.counts.len() >= ENTRIES_MAX && !self.counts.contains_key(&what);
        let entry = self.counts.entry(if full { What::Other } else { what });
        let count = entry.or_insert(Count { count: 0, program: Vec::new() });
        count.count += 1;
        count.program.clear();
        count.program.extend_from_slice(program);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&What, &Count)> {
        self.counts.iter()
    }

    /// One line for each refusal: count, number or value, name, last program.
    #[must_use]
    pub fn lines(&self) -> String {
        let mut out = String::new();
        for (what, count) in &self.counts {
            // A program calls itself as it likes, and others read this.
            let program = count.program.escape_ascii();
            // Writing to a string does not fail.
            let _ = match what {
                What::Call(number) => {
                    writeln!(
                        out,
                        "{:>8}  call {number:<4} {}  (last: {program})",
                        count.count,
                        crate::calls::name(*number)
                    )
                }
                What::Detail(name, value) => writeln!(out, "{:>8}  {name} {value:#x}  (last: {program})", count.count),
                What::Other => writeln!(out, "{:>8}  others  (last: {program})", count.count),
            };
        }
        out
    }
}

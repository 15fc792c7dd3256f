//! The oracle: what everybody may do and what is in memory, as plain tables. No caches, no sharing, no page tables.

use crate::Access;
use abi::section::kind;
use abi::{AclEntry, Rights};
use std::collections::BTreeMap;

/// A thread as the oracle knows it: what the kinds of principal compare with.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    pub thread: u64,
    pub task: u64,
    pub user: u64,
}

/// How an access ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It happened; the value that was there.
    Done(u64),
    /// These rights are missing.
    Denied(Rights),
    /// Nothing is there.
    Nothing,
}

pub struct Section {
    pub kind: u64,
    pub original: u64,
    /// One word for each page.
    pub words: Vec<u64>,
    pub entries: Vec<AclEntry>,
}

#[derive(Default)]
pub struct Table {
    pub sections: BTreeMap<u64, Section>,
}

impl Table {
    /// The base of the section that is the `number`th (counted round), if there are any.
    pub fn nth(&self, number: usize, wanted: impl Fn(&Section) -> bool) -> Option<u64> {
        let all: Vec<u64> =
            self.sections.iter().filter(|(_, section)| wanted(section)).map(|(base, _)| *base).collect();
        (!all.is_empty()).then(|| all[number % all.len()])
    }

    fn entry_allows(&self, entry: &AclEntry, who: Thread, text: u64) -> bool {
        let original = self.sections[&text].original;
        let principal = match entry.principal {
            0 => true,
            1 => entry.id == who.thread,
            2 => entry.id == who.task,
            3 => entry.id == who.user,
            4 => entry.id == 1,
            _ => unreachable!(),
        };
        principal && (entry.text == 0 || entry.text == text || entry.text == original)
    }

    /// The table of allowed accesses, looked up.
    fn missing(&self, base: u64, access: Access, who: Thread, text: u64) -> Rights {
        let section = &self.sections[&base];
        let may = |right: Rights| {
            let given = |entry: &AclEntry| entry.rights & right.bits() != 0 && self.entry_allows(entry, who, text);
            let possible = match section.kind {
                kind::TEXT => right != Rights::WRITE,
                kind::PORTS => false,
                _ => right != Rights::EXECUTE,
            };
            possible && section.entries.iter().any(given)
        };
        let needed: &[Rights] = match access {
            Access::Read => &[Rights::READ],
            Access::Write => &[Rights::READ, Rights::WRITE],
            Access::Execute => &[Rights::READ, Rights::EXECUTE],
        };
        needed.iter().filter(|right| !may(**right)).fold(Rights::empty(), |all, right| all | *right)
    }

    /// What an access must come to; a store that is allowed is done.
    pub fn access(&mut self, base: u64, page: u64, access: Access, value: u64, who: Thread, text: u64) -> Outcome {
        let Some(section) = self.sections.get(&base) else { return Outcome::Nothing };
        if page >= section.words.len() as u64 {
            return Outcome::Nothing;
        }
        let missing = self.missing(base, access, who, text);
        if !missing.is_empty() {
            return Outcome::Denied(missing);
        }
        let word = &mut self.sections.get_mut(&base).unwrap().words[page as usize];
        let before = *word;
        if access == Access::Write {
            *word = value;
        }
        Outcome::Done(before)
    }

    /// The same as `acl_set`, which the machine has accepted.
    pub fn set(&mut self, base: u64, entry: AclEntry) {
        let entries = &mut self.sections.get_mut(&base).unwrap().entries;
        entries.retain(|old| (old.principal, old.id, old.text) != (entry.principal, entry.id, entry.text));
        if entry.rights != 0 {
            entries.push(entry);
        }
    }
}

//! What is left of an ACL for the data accesses of one task, in normal form.

use abi::rights::{ANY_TEXT, principal};
use abi::{AclEntry, Rights};
use acl::Subject;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An ACL as far as the domains of one view can tell it from another. Two classes are equal exactly if they give the
/// same rights to each of them, whatever threads and texts there will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// First, so that comparing mostly ends here.
    digest: u64,
    /// Principals are "any" and threads. Sorted by [`cell`], no cell twice, no right that another entry gives anyway.
    entries: Arc<[AclEntry]>,
}

/// Entries that are sooner looked through than searched.
const FEW: usize = 12;

/// What an entry is about, whatever it allows.
fn cell(entry: &AclEntry) -> (u32, u64, u64) {
    (entry.principal, entry.id, entry.text)
}

/// One round of a mixing function: different for different words, and the same on every start.
fn mix(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}

impl Class {
    /// The class of a section with these entries in the view of the task that `task` belongs to (its thread and its text do
    /// not matter). `own`: the page is mapped for that thread alone, as its stack is; then an entry of the thread is as
    /// good as one of "any", those of other threads do not count, and the class says nothing about them.
    pub fn of(entries: &[AclEntry], task: &Subject, own: Option<u64>) -> Class {
        let ours = entries.iter().filter_map(|entry| {
            let (principal, id) = match (entry.principal, own) {
                // Of all tasks, since an entry does not say whose thread it names.
                (principal::THREAD, None) => (principal::THREAD, entry.id),
                (principal::THREAD, Some(own)) => (entry.id == own).then_some((principal::ANY, 0))?,
                _ => task.is_named(entry).then_some((principal::ANY, 0))?,
            };
            let rights = entry.rights & (Rights::READ | Rights::WRITE).bits();
            (rights != 0).then_some(AclEntry { principal, rights, id, text: entry.text })
        });
        let mut all: Vec<AclEntry> = ours.collect();
        // Lists of one kind are sorted.
        if !all.is_sorted_by_key(cell) {
            all.sort_unstable_by_key(cell);
        }
        all.dedup_by(|next, kept| {
            let same = cell(next) == cell(kept);
            kept.rights |= if same { next.rights } else { 0 };
            same
        });
        let needed = without_covered(&all);
        let digest = needed.iter().fold(0, |state, entry| {
            let words = [u64::from(entry.principal) << 32 | u64::from(entry.rights), entry.id, entry.text];
            words.into_iter().fold(state, mix)
        });
        Class { digest, entries: needed.into() }
    }

    /// Which of reading and writing `subject`, a domain of the view, may do.
    pub fn rights(&self, subject: &Subject) -> Rights {
        if self.entries.len() <= FEW {
            return subject.rights(&self.entries);
        }
        // Whenever a key changes hands, this is asked of each class for each domain of each thread.
        let whose = [(principal::ANY, 0), (principal::THREAD, subject.thread)];
        let texts = [ANY_TEXT, subject.text, subject.original];
        let cells = whose.into_iter().flat_map(|(kind, id)| texts.map(|text| (kind, id, text)));
        let found = cells.filter_map(|wanted| self.entries.binary_search_by_key(&wanted, cell).ok());
        found.fold(Rights::empty(), |all, at| all | Rights::from_bits_truncate(self.entries[at].rights))
    }

    /// Whether some domain may write. If none may, no page table entry of the class is ever writable.
    pub fn writable(&self) -> bool {
        self.entries.iter().any(|entry| entry.rights & Rights::WRITE.bits() != 0)
    }

    /// Whether every domain may read and none may write.
    pub fn is_public(&self) -> bool {
        let all = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
        *self.entries == [all]
    }

    /// Whether an entry is about this text.
    pub fn names(&self, text: u64) -> bool {
        self.named().any(|named| named == text)
    }

    /// The texts that entries are about, some perhaps twice; or any.
    pub fn named(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().map(|entry| entry.text)
    }

    /// What stands for the class where it is only counted.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// One bit for each text that is named, not always another one.
    pub(crate) fn texts(&self) -> u64 {
        self.entries.iter().fold(0, |bits, entry| bits | text_bit(entry.text))
    }
}

/// The bit of a text in [`Class::texts`].
pub(crate) fn text_bit(text: u64) -> u64 {
    1 << (mix(0, text) % 64)
}

/// The entries with the rights that no wider one gives too, if any are left: once through all, since a list may be long and this is done when a page is touched.
fn without_covered(all: &[AclEntry]) -> Vec<AclEntry> {
    // Those of "any" come first, and of each principal's the one in all texts.
    let (any, _) = all.split_at(all.partition_point(|entry| entry.principal == principal::ANY));
    let in_text = |text: u64| any.binary_search_by_key(&text, |entry| entry.text).map_or(0, |at| any[at].rights);
    let widest = in_text(ANY_TEXT);
    let mut in_all_texts = (principal::ANY, 0, 0);
    let needed = all.iter().filter_map(|entry| {
        let (kind, id, text) = cell(entry);
        let given = match (kind, text) {
            (principal::ANY, ANY_TEXT) => 0,
            (principal::ANY, _) => widest,
            _ => {
                let its = if in_all_texts.0 == kind && in_all_texts.1 == id { in_all_texts.2 } else { 0 };
                if text == ANY_TEXT {
                    in_all_texts = (kind, id, entry.rights);
                }
                widest | its | if any.is_empty() || text == ANY_TEXT { 0 } else { in_text(text) }
            }
        };
        let rights = entry.rights & !given;
        (rights != 0).then_some(AclEntry { rights, ..*entry })
    });
    needed.collect()
}

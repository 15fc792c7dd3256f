#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod seen;

pub use seen::Seen;

use abi::refusal::Object;
use abi::rights::{ACL_MAX, ANY_TEXT, principal};
use abi::{AclEntry, Error, Rights};
use alloc::vec::Vec;
use seen::Changes;

/// Who acts: the identity that goes with every access, call and message (architecture, section 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The machine that the thread belongs to.
    pub node: u64,
    /// The user of its task.
    pub user: u64,
    /// Its task.
    pub task: u64,
    /// The thread itself.
    pub thread: u64,
    /// The text section that it is executing.
    pub text: u64,
    /// The text that `text` is a clone of, or `text` itself.
    pub original: u64,
}

impl Subject {
    /// Whether this subject is the principal of an entry, in whatever text.
    #[inline]
    pub fn is_named(&self, entry: &AclEntry) -> bool {
        match entry.principal {
            principal::ANY => true,
            principal::THREAD => entry.id == self.thread,
            principal::TASK => entry.id == self.task,
            principal::USER => entry.id == self.user,
            principal::NODE => entry.id == self.node,
            _ => false,
        }
    }

    /// Whether an entry is about this subject: its principal and its text must both match.
    #[inline]
    pub fn matches(&self, entry: &AclEntry) -> bool {
        self.is_named(entry) && (entry.text == ANY_TEXT || entry.text == self.text || entry.text == self.original)
    }

    /// What `entries` allow this subject: the union of those that match it.
    pub fn rights(&self, entries: &[AclEntry]) -> Rights {
        // A scan, because it is the definition itself and lists are short; ACL_MAX bounds them.
        let matching = entries.iter().filter(|entry| self.matches(entry));
        matching.fold(Rights::empty(), |all, entry| all | Rights::from_bits_truncate(entry.rights))
    }

    /// What of `needed` none of `entries` allows this subject.
    #[inline]
    #[must_use]
    pub fn lacks(&self, entries: &[AclEntry], needed: Rights) -> Rights {
        let mut missing = needed;
        for entry in entries {
            // Most entries do not give it: whom they are about need not be asked.
            let given = missing & Rights::from_bits_truncate(entry.rights);
            if !given.is_empty() && self.matches(entry) {
                missing -= given;
                if missing.is_empty() {
                    break;
                }
            }
        }
        missing
    }

    /// The error of a call of this subject about `object`, which it has no right to.
    #[cold]
    #[inline(never)]
    #[must_use]
    pub const fn refused(&self, object: Object) -> Error {
        Error::no_right(object, self.thread)
    }
}

/// What a change of an ACL did to the rights that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// Nothing.
    Same,
    /// Somebody may have more rights than before, nobody has less: caches stay correct, a miss asks again.
    Grew,
    /// Somebody may have lost a right: what was cached from this ACL must be invalidated.
    Shrank,
}

/// A change that was checked. Only [`Acl::check_set`] makes one.
#[derive(Debug)]
#[must_use]
pub struct Plan {
    entry: AclEntry,
}

/// The access control list of one section.
#[derive(Clone, Debug, Default)]
pub struct Acl {
    /// Sorted by [`key`], no key twice, no entry without rights, at most [`ACL_MAX`].
    entries: Vec<AclEntry>,
    /// Who was last found to have which rights, since the list changed; see [`Acl::check_again`].
    last: Option<(Subject, Rights)>,
    /// Of what may have changed it, or what else its section is.
    changes: Changes,
    /// How many are taking rights away that may still be used: the list is as it is to be, but not everybody has forgotten.
    taking: u32,
}

/// What they allow is the same.
impl PartialEq for Acl {
    fn eq(&self, other: &Acl) -> bool {
        self.entries == other.entries
    }
}

impl Eq for Acl {}

/// What an entry is found by when it is set again.
fn key(entry: &AclEntry) -> (u32, u64, u64) {
    (entry.principal, entry.id, entry.text)
}

impl Acl {
    /// A list without entries: nobody has any right.
    pub const fn new() -> Acl {
        Acl { entries: Vec::new(), last: None, changes: Changes::new(), taking: 0 }
    }

    /// A list of one entry, which the caller knows to be valid. (An invalid one gives no rights.)
    pub fn with(entry: AclEntry) -> Acl {
        let mut acl = Acl::new();
        let set = acl.set(&entry);
        debug_assert!(set.is_ok(), "{entry:?}: {set:?}");
        acl
    }

    /// What `subject` may do: the union of the entries that match it.
    pub fn rights(&self, subject: &Subject) -> Rights {
        subject.rights(&self.entries)
    }

    /// Refuses a subject that lacks any of `needed` on the section at `base`, whose list this is.
    ///
    /// # Errors
    /// A refusal, with what is missing.
    #[inline]
    pub fn check(&self, base: u64, subject: &Subject, needed: Rights) -> Result<(), Error> {
        let missing = subject.lacks(&self.entries, needed);
        if missing.is_empty() { Ok(()) } else { Err(subject.refused(Object::Section(base, missing))) }
    }

    /// The same, for what is asked again and again by the same subject: it is remembered as long as the list stays.
    ///
    /// # Errors
    /// As for [`Acl::check`].
    #[inline(always)]
    pub fn check_again(&mut self, base: u64, subject: &Subject, needed: Rights) -> Result<(), Error> {
        // A thread has one task, user and node for ever. At a text's address another one may lie later, of another original.
        let is_last = |(last, rights): &(Subject, Rights)| {
            last.thread == subject.thread
                && last.text == subject.text
                && last.original == subject.original
                && *rights == needed
        };
        if self.last.as_ref().is_some_and(is_last) {
            return Ok(());
        }
        self.check(base, subject, needed)?;
        self.last = Some((*subject, needed));
        Ok(())
    }

    /// Another number whenever it may have changed: what was asked of it before holds as long as this is the same.
    #[must_use]
    #[inline(always)]
    pub fn changes(&self) -> u64 {
        self.changes.count()
    }

    /// Its section has another length, or is to go: what was asked before does not hold any more.
    pub fn changed(&mut self) {
        self.changes.bump();
    }

    /// What it says now, for who asks later whether it still does.
    pub fn seen(&mut self) -> Seen {
        self.changes.seen()
    }

    /// Refuses a subject that has none of `enough`, each of which would do; `named` is the one to ask for.
    ///
    /// # Errors
    /// A refusal, with `named` as what is missing.
    pub fn check_any(&self, base: u64, subject: &Subject, enough: Rights, named: Rights) -> Result<(), Error> {
        let has = self.rights(subject).intersects(enough);
        if has { Ok(()) } else { Err(subject.refused(Object::Section(base, named))) }
    }

    /// Whether `entry` could be set (with no rights: removed).
    ///
    /// # Errors
    /// `BadArgument`: a kind of principal or a right that does not exist, or a number with the principal "any".
    /// `TooBig`: the list is full.
    pub fn check_set(&self, entry: &AclEntry) -> Result<Plan, Error> {
        let id_fits = match entry.principal {
            principal::ANY => entry.id == 0,
            principal::THREAD | principal::TASK | principal::USER | principal::NODE => true,
            _ => false,
        };
        if !id_fits || Rights::from_bits(entry.rights).is_none() {
            return Err(Error::BadArgument);
        }
        if entry.rights != 0 && self.entries.len() >= ACL_MAX && self.position(entry).is_err() {
            return Err(Error::TooBig);
        }
        Ok(Plan { entry: *entry })
    }

    /// Does what was checked, on the list that it was checked on and that has not changed since.
    pub fn apply(&mut self, plan: Plan) -> Change {
        self.last = None;
        self.changes.bump();
        let entry = plan.entry;
        let position = self.position(&entry);
        let before = position.map_or(0, |at| self.entries[at].rights);
        match position {
            Ok(at) if entry.rights == 0 => drop(self.entries.remove(at)),
            Ok(at) => self.entries[at] = entry,
            Err(_) if entry.rights == 0 => {}
            Err(at) => self.entries.insert(at, entry),
        }
        if before & !entry.rights != 0 {
            Change::Shrank
        } else if before != entry.rights {
            Change::Grew
        } else {
            Change::Same
        }
    }

    /// What follows from a change for whoever has made it. While somebody takes rights away that may still be used, those of them that the entry
    /// lacks, too, are no less to be forgotten because they stand in no list any more.
    #[must_use]
    pub fn follows(&self, change: Change, entry: &AclEntry) -> Change {
        let has_all = Rights::from_bits_truncate(entry.rights).is_all();
        if self.taking > 0 && !has_all { Change::Shrank } else { change }
    }

    /// Rights are being taken away, until [`taken`](Self::taken).
    pub fn takes(&mut self) {
        self.taking += 1;
    }

    /// Nobody can use what was taken away any more.
    pub fn taken(&mut self) {
        self.taking -= 1;
    }

    /// What the entry with the same principal, number and text gives.
    #[must_use]
    pub fn given(&self, like: &AclEntry) -> u32 {
        self.position(like).map_or(0, |at| self.entries[at].rights)
    }

    /// Checks and applies.
    ///
    /// # Errors
    /// Those of [`check_set`](Self::check_set); nothing has changed then.
    pub fn set(&mut self, entry: &AclEntry) -> Result<Change, Error> {
        let plan = self.check_set(entry)?;
        Ok(self.apply(plan))
    }

    /// Drops the entries that name a text which is no more, before another one may lie at its address.
    pub fn forget_text(&mut self, text: u64) -> Change {
        self.last = None;
        self.changes.bump();
        let before = self.entries.len();
        self.entries.retain(|entry| entry.text != text);
        if self.entries.len() == before { Change::Same } else { Change::Shrank }
    }

    /// Its section is gone: nobody has a right any more. What it kept its entries in, for the caller to free.
    pub fn end(&mut self) -> Vec<AclEntry> {
        self.last = None;
        self.changes.bump();
        core::mem::take(&mut self.entries)
    }

    /// For so many entries it keeps memory: a list that has become short keeps what it had.
    pub fn room(&self) -> usize {
        self.entries.capacity()
    }

    /// All entries, in a fixed order.
    pub fn entries(&self) -> &[AclEntry] {
        &self.entries
    }

    /// Where the entry with the same principal, number and text is, or would be inserted.
    fn position(&self, entry: &AclEntry) -> Result<usize, usize> {
        self.entries.binary_search_by_key(&key(entry), key)
    }
}

#[cfg(test)]
mod tests;

//! What is told of a section, and what is not: it may be secret.

use super::{Section, State, large};
use crate::info::user::Places;
use crate::info::{name_words, word};
use crate::claim;
use crate::domain::Domain;
use crate::promise;
use ::info::tells;
use crate::view;
use abi::layout::PAGE;
use abi::section::{NAME_LEN, SectionInfo, SectionPages, flag};
use abi::{Error, Rights};
use core::sync::atomic::Ordering;
use pages::Survey;
use zerocopy::IntoBytes;

/// Of a long section so many times 512 pages are counted by a call.
const CHUNKS_AT_ONCE: usize = 4;
/// Entries of a list.
const ENTRIES_A_STEP: usize = 128;

impl State {
    /// How many steps of a [`Stretch`](sched::Stretch) it is to look up somebody's rights here: lists are as long as their owners want.
    pub fn steps(&self) -> usize {
        1 + self.acl.entries().len() / ENTRIES_A_STEP
    }

    /// Programs read what it is now. Of what is seldom changed; nothing is done for accesses.
    pub fn show(&self, section: &Section) {
        let slot = &self.shown.section;
        let name = name_words(&self.name);
        slot.write(|record| ::info::fields(record, word!(Section, name), &name));
        let flags = if section.is_secret() { flag::SECRET } else { 0 };
        let pager = self.paged.pager.as_ref();
        let words = [
            section.kind() | (self.acl.entries().len() as u64) << 8 | flags << 32,
            section.place.word(),
            self.unclear_at.unwrap_or(0),
            self.len,
            self.charged,
            pager.and_then(|pager| pager.text()).map_or(0, |text| text.base),
            pager.map_or(0, |pager| pager.level),
        ];
        words.into_iter().enumerate().for_each(|(at, value)| slot.set(word!(Section, kind) + at, value));
    }

    /// The same of how many pages its owner pays for.
    #[inline]
    pub fn show_frames(&self) {
        self.shown.section.set(word!(Section, charged), self.charged);
    }

    /// And what lists of these take is charged to him.
    #[inline]
    pub fn show_charged(&mut self) {
        self.show_frames();
        if self.pages.bytes() != self.listed.1 {
            self.count_lists();
        }
    }

    /// What its lists take of the kernel's heap is charged to its owner: to be said where one has become longer, or shorter.
    #[cold]
    #[inline(never)]
    pub fn count_lists(&mut self) {
        let stack = if self.stack.is_some() { promise::STACK } else { 0 };
        let gates = if self.has_gates { promise::GATES } else { 0 };
        let marks = (self.invalid.pieces() + self.paged.clean.pieces()) * promise::MARKS + self.whose.pieces() * promise::WHOSE;
        let entries = (self.acl.room() as u64).saturating_sub(promise::FIRST_ENTRIES) * promise::ENTRY;
        // (What clones have in common each of them may have by itself with the next page.)
        let pages = self.pages.bytes_of_lists().saturating_sub(promise::FIRST_PAGES);
        let calls = self.passers.beyond_first() as u64 * promise::CALL;
        let mut now = stack + gates + marks + entries + self.structures.frames() * promise::FRAME + pages + calls;
        if self.deleted {
            // It has been given back, or will be: nobody does that once more.
            now = now.min(self.listed.0);
        }
        if now != self.listed.0 {
            self.owner.counts_list(self.listed.0, now);
        }
        self.listed = (now, self.pages.bytes());
    }

    /// The same of its pager, which was asked once more.
    #[inline(always)]
    pub fn show_asked(&self, by: u64) {
        self.shown.section.count(word!(Section, asked), by);
    }

    /// It has another one, which was not asked yet.
    pub fn show_not_asked(&self) {
        self.shown.section.set(word!(Section, asked), 0);
    }

    /// Whether a program with these rights is told more of it than that there is one.
    fn is_told(&self, domain: &Domain, rights: Rights) -> bool {
        !rights.is_empty() || tells(self.owner.user, domain.speaks_for)
    }

    /// It is somebody else's: perhaps another user reads of it now.
    pub(super) fn moved(&mut self, section: &Section) {
        let (owner, name) = (self.owner.clone(), name_words(&self.name));
        if owner.user == self.shown.user {
            let owner = [owner.number];
            self.shown.section.write(|record| ::info::fields(record, word!(Section, owner), &owner));
            self.shown.post.iter().for_each(|post| post.write(|record| ::info::fields(record, word!(Post, owner), &owner)));
        } else {
            self.shown = Places::new(section.base, section.reserve, self.shown.post.is_some(), &owner, &name);
            self.show(section);
        }
    }
}

impl Section {
    /// What a program is told of it: of another user's that it has no right to no more than that there is one (docs/decisions/0017).
    pub fn info_for(&self, domain: &Domain) -> SectionInfo {
        let state = self.state.lock();
        let rights = state.acl.rights(&domain.subject);
        let info = self.info(&state, rights);
        if state.is_told(domain, rights) {
            return info;
        }
        let SectionInfo { base, len, reserve, kind, owner, original, gates, gate_count, .. } = info;
        SectionInfo { base, len, reserve, kind, owner, original, gates, gate_count, ..SectionInfo::default() }
    }

    /// The same while all are listed: another user's are not among them.
    pub fn info_in_list(&self, domain: &Domain) -> Option<SectionInfo> {
        let state = self.state.lock();
        let rights = state.acl.rights(&domain.subject);
        state.is_told(domain, rights).then(|| self.info(&state, rights))
    }

    fn info(&self, state: &State, rights: Rights) -> SectionInfo {
        let gates = if self.is_text() { (self.base + self.reserve - PAGE, abi::gate::GATES_MAX) } else { (0, 0) };
        SectionInfo {
            base: self.base,
            len: state.len,
            reserve: self.reserve,
            kind: self.kind(),
            owner: state.owner.number,
            original: self.original(),
            resident: state.pages.resident(),
            entries: state.acl.entries().len() as u64,
            rights: u64::from(rights.bits()),
            gates: gates.0,
            gate_count: gates.1,
            name: state.name,
            flags: if self.is_secret() { flag::SECRET } else { 0 },
            unclear: state.unclear_at.unwrap_or(0),
            invalid: state.invalid.count(),
            pager: state.paged.pager.as_ref().and_then(|pager| pager.text()).map_or(0, |text| text.base),
            placed: self.place.info(),
            ports: self.ports.map_or(0, |ports| u64::from(ports.first) | u64::from(ports.count) << 16),
            level: state.paged.pager.as_ref().map_or(0, |pager| pager.level),
        }
    }

    /// `section_pages`: what its pages from `from` on are is added to the record at `out`, for so many as one call counts. Value: where the next one goes on.
    pub fn count_pages(&self, domain: &Domain, from: u64, out: u64) -> Result<u64, Error> {
        // First: nothing is added to half of a record, the other half of which its pager has to bring.
        claim::ready_or_again(domain, out, size_of::<SectionPages>() as u64)?;
        let mut told: SectionPages = claim::read_record(domain, out)?;
        let (more, next) = self.survey(domain, from);
        let SectionPages { resident, shared, large, pieces } = &mut told;
        // (What they are added to is the program's word.)
        for (sum, more) in [(resident, more.resident), (shared, more.shared), (large, more.in_rows), (pieces, more.pieces)] {
            *sum = sum.wrapping_add(more);
        }
        // (Half of it may be written.)
        claim::wait_and_write(domain, out, told.as_bytes())?;
        Ok(next)
    }

    /// Who is not told how many there are is told nothing of them here.
    fn survey(&self, domain: &Domain, from: u64) -> (Survey, u64) {
        let state = self.state.lock();
        let end = state.len / PAGE;
        if from >= end || !state.is_told(domain, state.acl.rights(&domain.subject)) {
            return (Survey::default(), end);
        }
        let (more, next) = state.pages.survey(from, CHUNKS_AT_ONCE, large::place);
        (more, next.map_or(end, |next| next.min(end)))
    }

    /// Names the section for people.
    pub fn set_name(&self, by: &Domain, name: [u8; NAME_LEN]) -> Result<(), Error> {
        let mut state = self.lock_for(by, Rights::CHANGE_ACL)?;
        state.name = name;
        state.show(self);
        Ok(())
    }

    pub fn is_secret(&self) -> bool {
        self.secret.load(Ordering::Acquire)
    }

    /// From now on it is; whoever has used it already does so anew.
    pub fn make_secret(&self) {
        self.secret.store(true, Ordering::Release);
        self.state.lock().show(self);
        view::leave_all(self);
    }
}

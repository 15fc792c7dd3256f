//! A machine made of the real parts (directory, ACLs, pages, page tables, `decide`, `Invalidate`) put together as a
//! kernel does it, with processors that remember every translation until they are told to forget it, across switches.

use super::table::{Outcome, Thread};
use crate::{Access, Invalidate, decide, while_shared};
use abi::AclEntry;
use abi::layout::{GRANULE, PAGE, SLICE_LEN, slice_base};
use abi::section::kind;
use acl::{Acl, Change, Subject};
use pages::PageMap;
use paging::{Gone, Prot, TableMem, Tables};
use space::{Directory, Extent, Slice};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A duty that the machine neglects, to show that the tests notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Neglect {
    Nothing,
    /// Nobody forgets what a revoked right allowed.
    Revocation,
    /// Only the first processor forgets anything.
    OtherProcessors,
    /// The tables are changed, but what processors remember is not.
    Translations,
    /// Mappings stay writable when a section is cloned.
    ProtectionOfClones,
    /// Who had the page mapped before it was copied keeps the old one.
    CopiedPages,
    /// What was cut off stays mapped.
    CutPages,
    /// A deleted section stays mapped.
    DeletedSections,
    /// A sealed section stays writable where it was.
    Sealing,
    /// Shared pages are mapped as the ACL says.
    Sharing,
}

/// A frame of memory, which is free as soon as the last owner is gone, and then the first to be used again.
pub struct Frame {
    number: u64,
    free: Rc<RefCell<Vec<u64>>>,
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.number);
    }
}

/// One word for each frame, and which are free.
#[derive(Default)]
struct Memory {
    words: RefCell<Vec<u64>>,
    free: Rc<RefCell<Vec<u64>>>,
}

impl Memory {
    #[expect(clippy::arc_with_non_send_sync, reason = "`Page` is for `Arc`; one host thread runs the whole machine")]
    fn frame(&self, word: u64) -> Arc<Frame> {
        let mut words = self.words.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            words.push(0);
            words.len() as u64 - 1
        });
        words[number as usize] = word;
        Arc::new(Frame { number, free: self.free.clone() })
    }

    fn word(&self, frame: &Frame) -> u64 {
        self.words.borrow()[frame.number as usize]
    }
}

/// Memory for page tables: each with its entries that are not 0.
#[derive(Default)]
struct TableMemory {
    tables: BTreeMap<u64, BTreeMap<usize, u64>>,
    made: u64,
}

impl TableMem for TableMemory {
    fn alloc(&mut self) -> Option<u64> {
        self.made += PAGE;
        self.tables.insert(self.made, BTreeMap::new());
        Some(self.made)
    }

    fn free(&mut self, table: u64) {
        self.tables.remove(&table).expect("a table is freed once");
    }

    fn read(&self, table: u64, index: usize) -> u64 {
        self.tables[&table].get(&index).copied().unwrap_or(0)
    }

    fn write(&mut self, table: u64, index: usize, entry: u64) {
        let entries = self.tables.get_mut(&table).expect("a table that is written exists");
        if entry == 0 {
            entries.remove(&index)
        } else {
            entries.insert(index, entry)
        };
    }
}

struct Section {
    kind: u64,
    original: u64,
    extent: Extent,
    acl: Acl,
    pages: PageMap<Arc<Frame>>,
}

#[derive(Default)]
struct Processor {
    /// The thread and the text that it is executing.
    domain: Option<(Thread, u64)>,
    /// (root, page) -> (frame, protection)
    remembers: BTreeMap<(u64, u64), (u64, Prot)>,
}

pub struct Machine {
    memory: Memory,
    table_memory: TableMemory,
    slice: Slice,
    directory: Directory<u64>,
    sections: BTreeMap<u64, Section>,
    /// By domain: (thread, text).
    views: BTreeMap<(u64, u64), Tables>,
    processors: Vec<Processor>,
    neglect: Neglect,
}

fn allows(prot: Prot, access: Access) -> bool {
    match access {
        Access::Read => true,
        Access::Write => prot.write,
        Access::Execute => prot.execute,
    }
}

impl Machine {
    pub fn new(processors: usize, neglect: Neglect) -> Machine {
        let (base, len) = (slice_base(1), SLICE_LEN);
        Machine {
            memory: Memory::default(),
            table_memory: TableMemory::default(),
            // A few granules, so that addresses come round.
            slice: Slice::new(base, 7 * GRANULE),
            directory: Directory::new(base, len),
            sections: BTreeMap::new(),
            views: BTreeMap::new(),
            processors: (0..processors).map(|_| Processor::default()).collect(),
            neglect,
        }
    }

    /// `None` if there is no room.
    pub fn create(&mut self, kind: u64, len_pages: u64, entry: AclEntry) -> Option<u64> {
        let extent = self.slice.take(GRANULE)?;
        self.enter(extent, kind, extent.base, Acl::with(entry), PageMap::new(len_pages))
    }

    pub fn clone_section(&mut self, base: u64, entry: AclEntry) -> Option<u64> {
        let extent = self.slice.take(GRANULE)?;
        let source = self.sections.get_mut(&base).expect("who clones has it");
        let original = if source.kind == kind::TEXT { source.original } else { extent.base };
        let (kind, pages, from) = (source.kind, source.pages.clone_shared(), source.extent);
        if self.neglect != Neglect::ProtectionOfClones {
            let tables = self.views.values_mut();
            let protect = |view: &mut Tables| view.write_protect(&mut self.table_memory, from.base, from.len);
            // All of them, whatever the first one says.
            if tables.map(protect).fold(false, |any, touched| any | touched.is_any()) {
                self.forget(&Invalidate { base: from.base, len: from.len });
            }
        }
        self.enter(extent, kind, original, Acl::with(entry), pages)
    }

    fn enter(&mut self, extent: Extent, kind: u64, original: u64, acl: Acl, pages: PageMap<Arc<Frame>>) -> Option<u64> {
        self.directory.insert(extent.base, extent.len, extent.base).expect("the slice gave it out");
        self.sections.insert(extent.base, Section { kind, original, extent, acl, pages });
        Some(extent.base)
    }

    pub fn delete(&mut self, base: u64) {
        let section = self.sections.remove(&base).expect("it exists");
        let Extent { base, len } = section.extent;
        self.directory.remove(base, len);
        if self.neglect != Neglect::DeletedSections {
            self.invalidate(Invalidate { base, len });
        }
        // Nobody executes it any more, and its views go.
        for processor in &mut self.processors {
            processor.domain = processor.domain.filter(|(_, text)| *text != base);
        }
        let views = self.views.extract_if(.., |(_, text), _| *text == base);
        for (_, view) in views.collect::<Vec<_>>() {
            for processor in &mut self.processors {
                processor.remembers.retain(|(root, _), _| *root != view.root());
            }
            view.free_lower(&mut self.table_memory);
        }
        drop(section.pages);
        self.slice.give(section.extent);
    }

    pub fn resize(&mut self, base: u64, len_pages: u64) {
        let section = self.sections.get_mut(&base).expect("it exists");
        let before = section.pages.len_pages();
        let cut = section.pages.resize(len_pages);
        if len_pages < before && self.neglect != Neglect::CutPages {
            self.invalidate(Invalidate { base: base + len_pages * PAGE, len: (before - len_pages) * PAGE });
        }
        drop(cut);
    }

    pub fn seal(&mut self, base: u64) {
        let section = self.sections.get_mut(&base).expect("it exists");
        section.kind = kind::TEXT;
        let Extent { base, len } = section.extent;
        if self.neglect != Neglect::Sealing {
            self.invalidate(Invalidate { base, len });
        }
    }

    pub fn set(&mut self, base: u64, entry: &AclEntry) -> Change {
        let section = self.sections.get_mut(&base).expect("it exists");
        let change = section.acl.set(entry).expect("valid entries");
        let extent = section.extent;
        if let Some(invalidate) = Invalidate::after(change, extent.base, extent.len)
            && self.neglect != Neglect::Revocation
        {
            self.invalidate(invalidate);
        }
        change
    }

    /// The thread runs on this processor now, in this text. A thread runs on one processor only.
    pub fn switch(&mut self, processor: usize, thread: Thread, text: u64) {
        for other in &mut self.processors {
            other.domain = other.domain.filter(|(running, _)| running.thread != thread.thread);
        }
        self.processors[processor].domain = Some((thread, text));
    }

    pub fn domain(&self, processor: usize) -> Option<(Thread, u64)> {
        self.processors[processor].domain
    }

    /// What the domain that runs on this processor comes to when it accesses a page.
    pub fn access(&mut self, processor: usize, address: u64, access: Access, value: u64) -> Outcome {
        let (thread, text) = self.processors[processor].domain.expect("somebody runs there");
        let root = self.view(thread.thread, text);
        let page = address & !(PAGE - 1);
        // As hardware: what is remembered, or else the tables; if neither allows it the kernel, and once more.
        let remembered = self.processors[processor].remembers.get(&(root, page)).copied();
        let mut found = remembered.filter(|(_, prot)| allows(*prot, access));
        if found.is_none() {
            found = self.translate(root, page).filter(|(_, prot)| allows(*prot, access));
        }
        if found.is_none() {
            match self.fault(thread, text, address, access) {
                Ok(()) => found = self.translate(root, page),
                Err(outcome) => return outcome,
            }
        }
        let (frame, prot) = found.expect("the kernel has mapped it");
        assert!(allows(prot, access), "the same access does not fault twice");
        self.processors[processor].remembers.insert((root, page), (frame, prot));
        let word = &mut self.memory.words.borrow_mut()[(frame / PAGE) as usize];
        let before = *word;
        if access == Access::Write {
            *word = value;
        }
        Outcome::Done(before)
    }

    /// Every translation that a processor could use: (thread, text, address, protection).
    pub fn usable(&self) -> Vec<(u64, u64, u64, Prot)> {
        let mut all = Vec::new();
        for ((thread, text), view) in &self.views {
            let pages = self.sections.values().flat_map(|section| {
                (0..section.extent.len / PAGE).take(8).map(|page| section.extent.base + page * PAGE)
            });
            let mapped = pages.filter_map(|page| Some((page, view.translate(&self.table_memory, page)?.1)));
            all.extend(mapped.map(|(page, prot)| (*thread, *text, page, prot)));
            for processor in &self.processors {
                let remembered = processor.remembers.iter().filter(|((root, _), _)| *root == view.root());
                all.extend(remembered.map(|((_, page), (_, prot))| (*thread, *text, *page, *prot)));
            }
        }
        all
    }

    fn fault(&mut self, thread: Thread, text: u64, address: u64, access: Access) -> Result<(), Outcome> {
        let base = self.directory.find(address).ok_or(Outcome::Nothing)?;
        let original = self.sections[&text].original;
        let section = self.sections.get_mut(&base).expect("the directory knows only what exists");
        let page = (address - base) / PAGE;
        if page >= section.pages.len_pages() {
            return Err(Outcome::Nothing);
        }
        let Thread { thread, task, user } = thread;
        let rights = section.acl.rights(&Subject { node: 1, user, task, thread, text, original });
        let prot = decide(rights, section.kind, access, None).map_err(Outcome::Denied)?;
        let memory = &self.memory;
        let mut replaced = None;
        if access == Access::Write {
            let copy = |old: Option<&Arc<Frame>>| Ok::<_, ()>(memory.frame(old.map_or(0, |old| memory.word(old))));
            replaced = section.pages.make_writable(page, copy).expect("there is memory").replaced;
        } else {
            section.pages.ensure(page, || Ok::<_, ()>(memory.frame(0))).expect("there is memory");
        }
        let exclusive = section.pages.writable(page) || self.neglect == Neglect::Sharing;
        let frame = section.pages.get(page).expect("it is resident now").number * PAGE;
        if let Some(old) = replaced {
            if self.neglect != Neglect::CopiedPages {
                self.invalidate(Invalidate { base: base + page * PAGE, len: PAGE });
            }
            drop(old);
        }
        let root = self.view(thread, text);
        let view = self.views.get_mut(&(thread, text)).expect("it was made above");
        let prot = while_shared(prot, exclusive);
        let mapped = view.map(&mut self.table_memory, base + page * PAGE, frame, prot).expect("there is memory");
        if mapped == paging::Mapped::Replaced {
            for processor in &mut self.processors {
                processor.remembers.remove(&(root, base + page * PAGE));
            }
        }
        Ok(())
    }

    fn view(&mut self, thread: u64, text: u64) -> u64 {
        let memory = &mut self.table_memory;
        self.views.entry((thread, text)).or_insert_with(|| Tables::new(memory).expect("there is memory")).root()
    }

    fn translate(&self, root: u64, page: u64) -> Option<(u64, Prot)> {
        Tables::from_root(root).translate(&self.table_memory, page)
    }

    /// The only place where the duty is done: tables, then processors, then what they might have been walking.
    fn invalidate(&mut self, invalidate: Invalidate) {
        let mut gone = Gone::default();
        for view in self.views.values_mut() {
            gone.join(view.unmap(&mut self.table_memory, invalidate.base, invalidate.len).tables);
        }
        self.forget(&invalidate);
        let mut steps = usize::MAX;
        gone.free(&mut self.table_memory, &mut steps);
    }

    fn forget(&mut self, invalidate: &Invalidate) {
        let how_many = match self.neglect {
            Neglect::Translations => 0,
            Neglect::OtherProcessors => 1,
            _ => self.processors.len(),
        };
        for processor in &mut self.processors[..how_many] {
            processor.remembers.retain(|(_, page), _| !invalidate.covers(*page));
        }
    }

    /// Nothing is left behind when everything is deleted.
    pub fn end(mut self) {
        for base in self.sections.keys().copied().collect::<Vec<_>>() {
            self.delete(base);
        }
        assert!(self.views.is_empty() && self.table_memory.tables.is_empty());
        assert_eq!(self.memory.free.borrow().len(), self.memory.words.borrow().len(), "a frame is lost");
        assert_eq!(self.directory.after(0), None);
    }
}

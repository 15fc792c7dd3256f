//! A machine of sections that share pages copy-on-write, devices, and processors that remember every translation until
//! they are told to forget it; put together as a kernel does it. Each section holds a use of its own of each of its
//! frames that it writes (data) or executes (text), from the first access on.

use crate::clearance::{Clearance, Refusal, State};
use crate::summary::{Summary, borders, scan};
use crate::{PAGE, Rules};
use pages::PageMap;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, LazyLock};

/// A duty that the machine neglects, to show that the tests notice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Neglect {
    Nothing,
    /// A section becomes text while processors remember that it can be written.
    FlushOfSealed,
    /// A text is deleted while processors remember that it can be executed.
    FlushOfDeleted,
    /// A section is cloned while processors remember that it can be written.
    FlushOfCloned,
    /// A section that is cloned goes on counting as a writer.
    EndOfClonedWriters,
    /// Who had a page that was copied goes on counting as its writer.
    EndOfCopiedWriters,
    /// The kernel writes without asking who executes.
    KernelWriters,
    /// A device writes and does not say so.
    Devices,
    /// Pages are scanned before nobody can write them any more.
    OrderOfScan,
    /// Neighbours are not looked at together.
    Borders,
}

impl Neglect {
    pub const ALL: [Neglect; 9] = [
        Neglect::FlushOfSealed,
        Neglect::FlushOfDeleted,
        Neglect::FlushOfCloned,
        Neglect::EndOfClonedWriters,
        Neglect::EndOfCopiedWriters,
        Neglect::KernelWriters,
        Neglect::Devices,
        Neglect::OrderOfScan,
        Neglect::Borders,
    ];
}

#[derive(Clone, Copy, Debug)]
pub enum Access {
    Store(usize),
    Execute,
}

/// Pages of a section.
pub const PAGES: usize = 2;

/// Contents that a page may have: nothing, the first part of WRPKRU at its end, the rest of it at its beginning, all of it.
pub const CONTENTS: usize = 4;

fn bytes(content: usize) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    match content {
        1 => page[PAGE - 2..].copy_from_slice(&[0x0f, 0x01]),
        2 => page[0] = 0xef,
        3 => page[100..103].copy_from_slice(&[0x0f, 0x01, 0xef]),
        _ => {}
    }
    page
}

/// What is to be known of the contents.
struct Known {
    summaries: [Summary; CONTENTS],
    /// Whether a page with one may be executed before a page with the other, by their bytes.
    may: [[bool; CONTENTS]; CONTENTS],
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let pages: [[u8; PAGE]; CONTENTS] = std::array::from_fn(bytes);
    let forbidden = |bytes: &[u8]| bytes.windows(3).any(|bytes| bytes == [0x0f, 0x01, 0xef]);
    let may = |left: usize, right: usize| !forbidden([pages[left], pages[right]].as_flattened());
    Known {
        summaries: pages.map(|page| scan(&page, Rules::for_xcr0(0b111).expect("x87, SSE and AVX are known"))),
        may: std::array::from_fn(|left| std::array::from_fn(|right| may(left, right))),
    }
});

struct Memory {
    contents: RefCell<Vec<usize>>,
    states: RefCell<Vec<Clearance>>,
    /// A frame was given back that somebody used.
    freed_in_use: Cell<bool>,
}

pub struct Frame {
    number: usize,
    memory: Rc<Memory>,
}

impl Frame {
    fn state(&self) -> State {
        self.memory.states.borrow()[self.number].state()
    }

    fn content(&self) -> usize {
        self.memory.contents.borrow()[self.number]
    }

    fn turn(&self, transition: impl FnOnce(Clearance) -> Result<Clearance, Refusal>) -> Result<(), Refusal> {
        let state = &mut self.memory.states.borrow_mut()[self.number];
        *state = transition(*state)?;
        Ok(())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if self.state() != State::Plain {
            self.memory.freed_in_use.set(true);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Data,
    /// On its way from data to text: who stores must wait.
    Sealing,
    Text {
        clear: bool,
    },
}

struct Section {
    kind: Kind,
    pages: PageMap<Arc<Frame>>,
    /// Pages whose frames this section counts as a user of.
    uses: BTreeSet<usize>,
    /// What was found too early.
    early: Vec<Summary>,
}

#[derive(Clone, Copy)]
struct Translation {
    frame: usize,
    write: bool,
}

type Translations = BTreeMap<(u64, usize), Translation>;

pub struct Machine {
    neglect: Neglect,
    memory: Rc<Memory>,
    sections: Vec<(u64, Section)>,
    made: u64,
    table: Translations,
    processors: [Translations; 2],
    devices: Vec<Arc<Frame>>,
}

fn broken<T>(what: &str, section: u64, why: impl std::fmt::Debug) -> Result<T, String> {
    Err(format!("{what} of section {section}: {why:?}"))
}

impl Machine {
    pub fn new(neglect: Neglect) -> Machine {
        let memory =
            Memory { contents: RefCell::default(), states: RefCell::default(), freed_in_use: Cell::new(false) };
        Machine {
            neglect,
            memory: Rc::new(memory),
            sections: Vec::new(),
            made: 0,
            table: Translations::new(),
            processors: Default::default(),
            devices: Vec::new(),
        }
    }

    fn neglects(&self, duty: Neglect) -> bool {
        self.neglect == duty
    }

    #[expect(clippy::arc_with_non_send_sync, reason = "`Page` is for `Arc`; one host thread runs the whole machine")]
    fn frame(&self, content: usize) -> Arc<Frame> {
        self.memory.states.borrow_mut().push(Clearance::PLAIN);
        let mut contents = self.memory.contents.borrow_mut();
        contents.push(content);
        Arc::new(Frame { number: contents.len() - 1, memory: self.memory.clone() })
    }

    fn nth(&self, number: usize) -> Option<usize> {
        (!self.sections.is_empty()).then(|| number % self.sections.len())
    }

    /// Removes a section's translations and, unless that is neglected, waits for all processors.
    fn forget(&mut self, id: u64, flush: bool) {
        self.table.retain(|(section, _), _| *section != id);
        if flush {
            for processor in &mut self.processors {
                processor.retain(|(section, _), _| *section != id);
            }
        }
    }

    pub fn create(&mut self) {
        if self.sections.len() < 4 {
            self.add(Kind::Data, PageMap::new(PAGES as u64));
        }
    }

    fn add(&mut self, kind: Kind, pages: PageMap<Arc<Frame>>) {
        self.made += 1;
        self.sections.push((self.made, Section { kind, pages, uses: BTreeSet::new(), early: Vec::new() }));
    }

    /// A page that this section alone has, and writes.
    fn present(&mut self, at: usize, page: usize) -> Result<usize, String> {
        let (fresh, keeps) = (self.frame(0), self.neglects(Neglect::EndOfCopiedWriters));
        let (id, section) = &mut self.sections[at];
        let id = *id;
        let copy = |old: Option<&Arc<Frame>>| {
            let content = old.map_or(0, |old| old.content());
            fresh.memory.contents.borrow_mut()[fresh.number] = content;
            Ok::<_, String>(fresh.clone())
        };
        let wrote = section.pages.make_writable(page as u64, copy)?;
        let (number, replaced) = (wrote.page.number, wrote.replaced);
        drop(fresh);
        if let Some(old) = replaced {
            self.forget(id, true);
            let section = &mut self.sections[at].1;
            if section.uses.remove(&page) && !keeps {
                old.turn(Clearance::end_write).or_else(|why| broken("the end of writing", id, why))?;
            }
        }
        let section = &mut self.sections[at].1;
        if section.uses.insert(page) {
            let frame = section.pages.get(page as u64).ok_or("no page")?;
            frame.turn(Clearance::begin_write).or_else(|why| broken("a store to data", id, why))?;
        }
        Ok(number)
    }

    pub fn access(&mut self, processor: usize, section: usize, page: usize, access: Access) -> Result<(), String> {
        let Some(at) = self.nth(section) else { return Ok(()) };
        let key = (self.sections[at].0, page);
        let write = matches!(access, Access::Store(_));
        let fits = |known: &&Translation| known.write == write;
        let known = self.processors[processor].get(&key).or_else(|| self.table.get(&key)).filter(fits).copied();
        let translation = match (known, access, self.sections[at].1.kind) {
            (Some(known), ..) => known,
            (None, Access::Store(_), Kind::Data) => Translation { frame: self.present(at, page)?, write },
            (None, Access::Execute, Kind::Text { clear: true }) => {
                Translation { frame: self.executable(at, page)?, write }
            }
            _ => return Ok(()),
        };
        self.table.insert(key, translation);
        self.processors[processor].insert(key, translation);
        if let Access::Store(content) = access {
            self.memory.contents.borrow_mut()[translation.frame] = content;
        }
        Ok(())
    }

    /// A page of clear text, which counts as executed.
    fn executable(&mut self, at: usize, page: usize) -> Result<usize, String> {
        let fresh = self.frame(0);
        let (id, section) = &mut self.sections[at];
        let frame = section.pages.ensure(page as u64, || Ok::<_, String>(fresh))?;
        if section.uses.insert(page) {
            frame.turn(Clearance::begin_execute).or_else(|why| broken("the execution", *id, why))?;
        }
        if !matches!(frame.state(), State::Executable { scan: Some(_), .. }) {
            let found = KNOWN.summaries[frame.content()];
            frame.turn(|state| state.scanned(found)).or_else(|why| broken("the scan", *id, why))?;
        }
        Ok(frame.number)
    }

    /// A copy from elsewhere, by the kernel.
    pub fn kernel_write(&mut self, section: usize, page: usize, content: usize) -> Result<(), String> {
        let Some(at) = self.nth(section) else { return Ok(()) };
        let number = match self.sections[at].1.kind {
            Kind::Data => self.present(at, page)?,
            _ if self.neglects(Neglect::KernelWriters) => match self.sections[at].1.pages.get(page as u64) {
                Some(frame) => frame.number,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        self.memory.contents.borrow_mut()[number] = content;
        Ok(())
    }

    pub fn clone_section(&mut self, section: usize, as_data: bool) -> Result<(), String> {
        let Some(at) = self.nth(section).filter(|_| self.sections.len() < 4) else { return Ok(()) };
        let id = self.sections[at].0;
        let kind = match self.sections[at].1.kind {
            Kind::Sealing => return Ok(()),
            Kind::Text { .. } if as_data => Kind::Data,
            kind => kind,
        };
        if self.sections[at].1.kind == Kind::Data {
            self.forget(id, !self.neglects(Neglect::FlushOfCloned));
            if !self.neglects(Neglect::EndOfClonedWriters) {
                self.end_uses(at)?;
            }
        }
        let pages = self.sections[at].1.pages.clone_shared();
        self.add(kind, pages);
        Ok(())
    }

    fn end_uses(&mut self, at: usize) -> Result<(), String> {
        let (id, section) = &mut self.sections[at];
        let text = matches!(section.kind, Kind::Text { .. });
        for page in std::mem::take(&mut section.uses) {
            let frame = section.pages.get(page as u64).ok_or("no page")?;
            let end = if text { Clearance::end_execute } else { Clearance::end_write };
            frame.turn(end).or_else(|why| broken("an end", *id, why))?;
        }
        Ok(())
    }

    /// From now on nobody stores to it.
    pub fn begin_seal(&mut self, section: usize) {
        let Some(at) = self.nth(section).filter(|at| self.sections[*at].1.kind == Kind::Data) else { return };
        self.forget(self.sections[at].0, !self.neglects(Neglect::FlushOfSealed));
        let early = self.neglects(Neglect::OrderOfScan);
        let section = &mut self.sections[at].1;
        section.kind = Kind::Sealing;
        if early {
            let summary = |page| section.pages.get(page).map(|frame| KNOWN.summaries[frame.content()]);
            section.early = (0..PAGES as u64).map(|page| summary(page).unwrap_or(Summary::ZEROES)).collect();
        }
    }

    /// It becomes text, unless somebody still writes it.
    pub fn end_seal(&mut self, section: usize) -> Result<(), String> {
        let Some(at) = self.nth(section).filter(|at| self.sections[*at].1.kind == Kind::Sealing) else { return Ok(()) };
        self.end_uses(at)?;
        let (ignores_borders, devices) = (self.neglects(Neglect::Borders), &self.devices);
        let (id, section) = &mut self.sections[at];
        let mut summaries = [Summary::ZEROES; PAGES];
        for (page, summary) in summaries.iter_mut().enumerate() {
            let Some(frame) = section.pages.get(page as u64) else { continue };
            if let Err(why) = frame.turn(Clearance::begin_execute) {
                if !devices.iter().any(|device| device.number == frame.number) {
                    return broken("the sealing, though no device writes,", *id, why);
                }
                // All or nothing: it stays data.
                for page in std::mem::take(&mut section.uses) {
                    let frame = section.pages.get(page as u64).ok_or("no page")?;
                    frame.turn(Clearance::end_execute).or_else(|why| broken("an undoing", *id, why))?;
                }
                section.kind = Kind::Data;
                return Ok(());
            }
            section.uses.insert(page);
            *summary = section.early.get(page).copied().unwrap_or(KNOWN.summaries[frame.content()]);
            let found = match frame.state() {
                State::Executable { scan: Some(before), .. } => before,
                _ => *summary,
            };
            frame.turn(|state| state.scanned(found)).or_else(|why| broken("the scan", *id, why))?;
        }
        let inside = summaries.iter().all(|summary| summary.is_clear());
        let across = ignores_borders || !summaries.windows(2).any(|pair| borders(pair[0], pair[1]));
        section.early.clear();
        section.kind = Kind::Text { clear: inside && across };
        let contents: Vec<usize> =
            (0..PAGES as u64).map(|page| section.pages.get(page).map_or(0, |frame| frame.content())).collect();
        let clear = contents.windows(2).all(|pair| KNOWN.may[pair[0]][pair[1]]);
        if clear && !(inside && across) { broken("the refusal of clear text", *id, contents) } else { Ok(()) }
    }

    pub fn delete(&mut self, section: usize) -> Result<(), String> {
        let Some(at) = self.nth(section) else { return Ok(()) };
        self.forget(self.sections[at].0, !self.neglects(Neglect::FlushOfDeleted));
        self.end_uses(at)?;
        self.sections.remove(at);
        Ok(())
    }

    /// A device begins to write a page of data on its own.
    pub fn begin_device(&mut self, section: usize, page: usize) -> Result<(), String> {
        let Some(at) = self.nth(section).filter(|at| self.sections[*at].1.kind == Kind::Data) else { return Ok(()) };
        if self.devices.len() == 2 {
            return Ok(());
        }
        self.present(at, page)?;
        let frame = self.sections[at].1.pages.get(page as u64).ok_or("no page")?.clone();
        if !self.neglects(Neglect::Devices) {
            frame.turn(Clearance::begin_write).or_else(|why| broken("a device's page", 0, why))?;
        }
        self.devices.push(frame);
        Ok(())
    }

    pub fn device_write(&mut self, device: usize, content: usize) {
        if let Some(frame) = self.devices.get(device) {
            self.memory.contents.borrow_mut()[frame.number] = content;
        }
    }

    pub fn end_device(&mut self, device: usize) -> Result<(), String> {
        if device < self.devices.len() {
            let frame = self.devices.remove(device);
            if !self.neglects(Neglect::Devices) {
                frame.turn(Clearance::end_write).or_else(|why| broken("a device's end", 0, why))?;
            }
        }
        Ok(())
    }

    /// What any processor could do now: execute nothing that can be written, and nothing forbidden.
    pub fn check(&self) -> Result<(), String> {
        let all = || self.processors.iter().chain([&self.table]).flatten();
        let written: BTreeSet<usize> = all().filter(|(_, known)| known.write).map(|(_, known)| known.frame).collect();
        let executed: BTreeSet<(u64, usize, usize)> =
            all().filter(|(_, known)| !known.write).map(|(&(id, page), known)| (id, page, known.frame)).collect();
        let content = |frame: usize| self.memory.contents.borrow()[frame];
        for &(id, page, frame) in &executed {
            if written.contains(&frame) || self.devices.iter().any(|device| device.number == frame) {
                return broken("write and execute", id, page);
            }
            let behind = executed.iter().filter(|other| (other.0, other.1) == (id, page + 1)).map(|other| other.2);
            // Behind the last page there is none, which is as good as zeroes.
            if behind.map(content).chain([0]).any(|behind| !KNOWN.may[content(frame)][behind]) {
                return broken("a forbidden instruction", id, page);
            }
        }
        if self.memory.freed_in_use.get() { broken("a frame that was freed in use", 0, ()) } else { Ok(()) }
    }

    /// All goes; whatever is left would be a use that nobody ends.
    pub fn end(mut self) -> Result<(), String> {
        while !self.sections.is_empty() {
            self.delete(0)?;
        }
        while !self.devices.is_empty() {
            self.end_device(0)?;
        }
        self.check()
    }
}

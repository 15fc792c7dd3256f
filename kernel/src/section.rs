//! Sections: the unit of naming, protection and memory (CUBIX-7, 8). Glue between `core/space`, `core/acl`,
//! `core/pages` and the views that show them.

mod access;
mod copy;
mod end;
mod give;
pub mod large;
pub mod real;
mod known;
pub mod passers;
pub mod supply;
pub mod valid;

use passers::Passers;

use crate::claim;
use crate::domain::Domain;
use crate::gate::Binding;
use crate::info::user::Places;
use crate::keyed::TaskView;
use crate::machine::{Hold, Kept, is_kept, machine, spare_heap_for};
use crate::pager::Paged;
use crate::place::Place;
use crate::sched::{self, Progress};
use crate::task::Task;
use crate::text::{Caller, Looked};
use crate::view::{self, Change, Mapping, Shown, Stale};
use crate::wait;
use abi::layout::{GRANULE, PAGE, RESERVE_MAX, pages_up};
use abi::section::{NAME_LEN, kind};
use abi::task::USER_SYSTEM;
use abi::{AclEntry, Error, Rights};
use ::acl::Acl;
use ::gate::{Callers, GateTable};
use ::mbcf::registry::Registry;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::frames::Frame;
use arch::shown::MACHINE;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use pages::{Cut, Marks, PageMap, Whose};
use quota::Resource;
use spin::{Mutex, MutexGuard, Once};

/// What is freed of a section with interrupts off: 512 pages (architecture, section 14, bounded calls).
const SLICE: u64 = 512 * PAGE;

/// I/O ports behind a section of kind ports.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub first: u16,
    pub count: u16,
    /// ISA interrupt of the device.
    pub interrupt: Option<u8>,
}

/// Whose stack a section is.
#[derive(Clone, Copy)]
pub struct StackOf {
    pub thread: u64,
    /// A program of the system runs on it for somebody else.
    pub for_system: bool,
}

/// What the section's lock protects.
pub struct State {
    pub len: u64,
    pub owner: Arc<Task>,
    pub acl: Acl,
    pub pages: PageMap<Arc<Frame>>,
    /// Pages that are not to be used, resident or not.
    pub invalid: Marks,
    /// Which task has made each of them so, of those that have a pager.
    pub whose: Whose,
    /// Who is asked for pages that are not there.
    pub paged: Paged,
    /// What of it memory operations know as queues and signals.
    pub structures: Registry,
    pub mapped: Vec<Mapping>,
    /// Where it was last mapped, and with which key.
    pub last: Cell<(Shown, u8)>,
    /// Frames charged to the owner.
    pub charged: u64,
    /// What lists of it take of the kernel's heap, as that is charged to him; and with how much for those of its pages.
    pub listed: (u64, u64),
    /// Texts: so many of its frames are those of one of the first task's that it is a clone of.
    pub shared: u64,
    /// Memory in a row that is not in it yet, though charged.
    making: Option<Box<large::Making>>,
    pub stack: Option<StackOf>,
    /// In the middle of being cloned: stores wait (pitfalls, R5).
    pub cloning: bool,
    /// Texts: it has had gates.
    pub has_gates: bool,
    /// Pages that were replaced by copies, and that processors may still remember: nobody uses what came in their place.
    pub replacing: u32,
    /// On its way to being a text: every access waits.
    pub sealing: bool,
    /// By which thread it was begun to be looked through for that, and how far, while others have their turns.
    pub looked: Option<(u64, Looked)>,
    /// Texts: the page with the first instruction that could write the key register.
    pub unclear_at: Option<u64>,
    /// What is passed by pointer with calls by this binding.
    pub lent_by: Option<Arc<Binding>>,
    /// Threads of the called program that use it by address, other than in a call ([`lent::hold`](crate::gate::lent::hold)).
    pub holders: usize,
    /// Calls with which addresses in it were passed, other than by a binding, and how often was looked since whether one is under way.
    pub passers: Passers,
    /// Somebody deletes it, a part at a time: it becomes no longer any more.
    pub ending: bool,
    /// Leaves the directory, and is without pages for ever after.
    pub deleted: bool,
    /// What the thread has to do besides that does the rest of this one's end.
    pub next: Option<Arc<Section>>,
    pub name: [u8; NAME_LEN],
    /// What programs read of it.
    shown: Places,
}

/// What is left to be done when a section has become shorter.
#[derive(Default)]
struct Shorter {
    stale: Stale,
    cut: Cut<Arc<Frame>>,
}

impl Shorter {
    /// Every processor has forgotten the pages, and they are freed. Lets go of the section's lock; call without others.
    fn flush(self, section: &Section, state: MutexGuard<State>) {
        let Shorter { stale, cut } = self;
        if stale.rest.is_some() {
            claim::settle(section, state, stale);
        } else {
            drop(state);
            stale.flush();
        }
        drop(cut);
    }
}

impl State {
    /// The section begins to go. Of several that delete it one is told whose it is, and does the rest: nothing changes that any more.
    fn delete(&mut self) -> Option<Arc<Task>> {
        if core::mem::replace(&mut self.deleted, true) {
            return None;
        }
        self.acl.changed();
        self.owner.used();
        Some(self.owner.clone())
    }

    /// On the way to this length it is cut to that one at a stretch: what lies between is 512 pages, and what never was there.
    fn cut_to(&self, len: u64) -> u64 {
        let filled = self.pages.end().max(self.invalid.end()).max(self.paged.clean.end()) * PAGE;
        len.max(filled.min(self.len).saturating_sub(1) / SLICE * SLICE)
    }
}

pub struct Section {
    pub base: u64,
    /// As `base`, but of no other section ever.
    pub serial: u64,
    pub reserve: u64,
    pub(crate) hold: Arc<Hold>,
    charged_reserve: u64,
    pub(crate) kind: AtomicU64,
    pub(crate) original: AtomicU64,
    kept_original: Once<Kept>,
    pub state: Mutex<State>,
    /// Texts: what they export, and what they are bound to.
    pub gates: Mutex<GateTable>,
    pub bindings: Mutex<Vec<Option<Arc<Binding>>>>,
    /// Texts: sections whose ACL has named this one.
    pub(crate) named_by: Mutex<BTreeSet<u64>>,
    pub(crate) dead: AtomicBool,
    /// Texts: everybody who had to hear of its end has.
    pub(crate) over: AtomicBool,
    /// Nobody finds it any more, though its address is not free yet.
    going: AtomicBool,
    /// Texts: no instruction in it can write the key register.
    pub(crate) clear: AtomicBool,
    /// Texts: threads that have checked a binding to this one, and the record that says so. What may make that wrong: changes of the
    /// ACL, of the gates, death.
    pub(crate) callers: Callers<Caller>,
    /// Texts: the views in which a class has a key that is named after this one.
    pub(crate) keyed_in: Mutex<Vec<Weak<TaskView>>>,
    pub ports: Option<Ports>,
    /// What it shows the kernel writes by itself: no page of it is ever another section's, and it is never a text (pitfalls, H6).
    pub live: bool,
    /// It is in no view that programs share (pitfalls, H17).
    pub(crate) secret: AtomicBool,
    /// Texts: where threads go on that do what they must not (0: nowhere), and what else it wants to hear of (`fault/own.rs`).
    pub fault_entry: AtomicU64,
    /// Posts: it is in the pool.
    pub post: AtomicBool,
    /// Texts: where it is executed, and how (place.rs).
    pub place: Place,
}

/// What a new section is to be.
pub struct New {
    pub len: u64,
    pub reserve: u64,
    pub kind: u64,
    pub at: u64,
    pub room: u64,
    pub owner: Arc<Task>,
    pub entry: AclEntry,
    pub ports: Option<Ports>,
    /// The kernel writes to its pages otherwise than through it.
    pub live: bool,
}

impl Section {
    /// Makes a section and puts it into the directory. Checks, then charges, then makes.
    pub fn create(new: New) -> Result<Arc<Section>, Error> {
        let len = pages_up(new.len).ok_or(Error::TooBig)?;
        let reserve = new.reserve.max(len).max(1).checked_next_multiple_of(GRANULE).ok_or(Error::TooBig)?;
        let room = new.room.checked_next_multiple_of(GRANULE).ok_or(Error::TooBig)?;
        if reserve > RESERVE_MAX || room > RESERVE_MAX {
            return Err(Error::TooBig);
        }
        spare_heap_for(&new.owner)?;
        let is_post = new.kind == kind::POST;
        let beside = (new.at != 0 && !is_post).then(|| Hold::beside(&new.owner, new.at, reserve)).transpose()?;
        // Sections in one range each pay for the whole range: any of them alone keeps it.
        let charged_reserve = beside.as_ref().map_or(reserve + room, |hold| hold.extent.len);
        new.owner.charge(Resource::Sections, 1)?;
        let undo_section = || new.owner.release(Resource::Sections, 1);
        new.owner.charge(Resource::Reserve, charged_reserve).inspect_err(|_| undo_section())?;
        let undo = || {
            new.owner.release(Resource::Reserve, charged_reserve);
            undo_section();
        };
        let beside = beside.or_else(|| is_post.then(|| Hold::post(new.at)));
        let place = beside.or_else(|| Hold::take(reserve + room, new.kind == kind::STACK, new.owner.user == USER_SYSTEM)).ok_or(Error::NoMemory);
        let hold = place.inspect_err(|_| undo())?;
        let base = if new.at == 0 { hold.extent.base } else { new.at };
        new.owner.about.makes_room(Some(&new.owner));
        let section = Arc::new(Section {
            base,
            serial: wait::serial(),
            reserve,
            hold,
            charged_reserve,
            kind: AtomicU64::new(new.kind),
            original: AtomicU64::new(base),
            kept_original: Once::new(),
            state: Mutex::new(State {
                len,
                owner: new.owner.clone(),
                acl: Acl::with(new.entry),
                pages: PageMap::new(len / PAGE),
                invalid: Marks::new(),
                whose: Whose::new(),
                paged: Paged::default(),
                structures: Registry::new(),
                mapped: Vec::new(),
                last: Cell::default(),
                charged: 0,
                listed: (0, 0),
                shared: 0,
                making: None,
                stack: (new.kind == kind::STACK).then_some(StackOf { thread: new.entry.id, for_system: false }),
                cloning: false,
                has_gates: false,
                replacing: 0,
                sealing: false,
                looked: None,
                ending: false,
                unclear_at: None,
                lent_by: None,
                holders: 0,
                passers: Passers::default(),
                deleted: false,
                next: None,
                name: [0; NAME_LEN],
                shown: Places::new(base, reserve, is_post, &new.owner, &[0; 4]),
            }),
            gates: Mutex::new(GateTable::new(base + reserve - PAGE)),
            bindings: Mutex::default(),
            named_by: Mutex::default(),
            dead: AtomicBool::new(false),
            over: AtomicBool::new(false),
            going: AtomicBool::new(false),
            clear: AtomicBool::new(false),
            callers: Callers::default(),
            keyed_in: Mutex::default(),
            ports: new.ports,
            live: new.live,
            secret: AtomicBool::new(false),
            fault_entry: AtomicU64::new(0),
            post: AtomicBool::new(new.kind == kind::POST),
            place: Place::default(),
        });
        {
            // Nobody deletes it, or gives it away, before it is known where it counts.
            let mut state = section.state.lock();
            state.show(&section);
            if machine().sections.insert(base, reserve, section.clone()).is_err() {
                undo();
                return Err(Error::Exists);
            }
            if new.kind == kind::STACK {
                state.count_lists();
            }
            section.hold.begins();
            new.owner.sections.lock().insert(base);
        }
        MACHINE.sections.fetch_add(1, Ordering::Relaxed);
        if new.at != 0 && !is_post && is_kept(base) {
            // It was not when the room was looked for.
            section.delete();
            return Err(Error::Exists);
        }
        if !section.note_name(&new.entry) || new.owner.is_finished() {
            // The text or the task ended meanwhile and may not have seen this section.
            section.delete();
            return Err(Error::Dead);
        }
        Ok(section)
    }

    pub fn find(address: u64) -> Option<Arc<Section>> {
        machine().sections.find(address).filter(|section| !section.is_going())
    }

    /// Nobody finds it any more: its addresses are not free yet, that is all.
    pub fn is_going(&self) -> bool {
        self.going.load(Ordering::Acquire)
    }

    /// It is the argument section of this binding from now on, and goes with it. Whether nothing else has become of it before.
    pub fn is_lent_by(&self, binding: &Arc<Binding>) -> bool {
        let mut state = self.state.lock();
        let is_as_made = !state.deleted && !state.sealing && self.kind() == kind::DATA;
        if is_as_made {
            state.lent_by = Some(binding.clone());
        }
        is_as_made
    }

    /// The section whose name is exactly this.
    pub fn named(base: u64) -> Result<Arc<Section>, Error> {
        Section::find(base).filter(|s| s.base == base).ok_or(Error::NotFound)
    }

    pub fn kind(&self) -> u64 {
        self.kind.load(Ordering::Acquire)
    }

    pub fn is_text(&self) -> bool {
        self.kind() == kind::TEXT
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Whether nobody is still to hear of its end, if it is a text.
    pub fn is_over(&self) -> bool {
        !self.is_text() || self.over.load(Ordering::SeqCst)
    }

    pub fn owner(&self) -> Arc<Task> {
        self.state.lock().owner.clone()
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.base..self.base + self.reserve).contains(&address)
    }

    /// Makes the section shorter or longer within its reserve; shorter by parts, between which others have their turns.
    pub fn resize(&self, by: &Domain, len: u64) -> Result<Progress, Error> {
        let Some(mut state) = self.lock_for_length(by, len)? else { return Ok(Progress::More) };
        let len = pages_up(len).ok_or(Error::TooBig)?;
        let most = if self.is_text() { self.reserve - PAGE } else { self.reserve };
        if len > most {
            return Err(Error::TooBig);
        }
        if matches!(self.kind(), kind::DEVICE | kind::PORTS | kind::POST) {
            return Err(Error::NotSupported);
        }
        let mut before = state.len;
        if state.pages.copies(len / PAGE, before.saturating_sub(len) / PAGE) {
            claim::spare_heap_for_page(&state)?;
        }
        loop {
            if self.is_dead() {
                return Err(Error::NotFound);
            }
            // (What is ending only becomes shorter, whoever is at that.)
            let is_against = if state.ending { len > state.len } else { state.sealing || state.len != before };
            if is_against {
                // It is being looked through for what it holds. Or somebody else changes the length, too; without this the two could keep each other here for ever.
                return Err(Error::Busy);
            }
            // Only the last part may end in the middle of what a clone has in common (`copies`).
            before = state.cut_to(len);
            let shorter = self.set_len_some(&mut state, &mut before);
            shorter.flush(self, state);
            if before == len {
                return Ok(Progress::Done);
            }
            sched::breathe();
            if sched::is_due() {
                return Ok(Progress::More);
            }
            // The right may have been taken away meanwhile.
            state = self.lock_for(by, Rights::CHANGE_ACL)?;
        }
    }

    /// Sets the length; pages beyond it leave all views, and are freed when what is returned is flushed.
    fn set_len(&self, state: &mut State, len: u64) -> Shorter {
        let mut stale = Stale::default();
        if len < state.len {
            stale = view::change_first(&mut state.mapped, len, state.len - len, Change::Unmap);
            state.give_up_making();
        }
        let cut = state.pages.resize(len / PAGE);
        let freed = cut.len().min(state.charged);
        state.charged -= freed;
        let shared = state.shared.saturating_sub(freed);
        state.owner.counts_shared(state.shared, shared);
        state.shared = shared;
        let pieces = state.invalid.cut(len / PAGE) + state.paged.clean.cut(len / PAGE) + state.whose.cut(len / PAGE);
        state.owner.release(Resource::Frames, freed + pieces);
        state.count_lists();
        state.len = len;
        state.acl.changed();
        state.show(self);
        Shorter { stale, cut }
    }
}

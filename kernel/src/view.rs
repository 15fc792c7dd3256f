//! Views: page tables as caches of ACLs, one per domain, filled on demand, emptied when an ACL or a page changes.
//! The only file that knows what a view is made of; keys will come in here.

mod mapped;
mod table;

pub use mapped::{
    Change, FEW, FEW_TABLES, Rest, at_once, change, change_all, change_first, change_part, change_rest, disown, hide, leave_all, make_room, show, take_out,
};
use mapped::{reserve, tidy};

use crate::domain::Domain;
use crate::machine::{machine, spare_heap_at_all_for, stacks_base};
use crate::processor::{self, Processor, Scope};
use crate::promise;
use crate::sched;
use crate::task::Task;
use abi::Error;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::Heap;
use arch::frames::Frame;
use arch::gate::Gate;
use arch::shown::MACHINE;
use arch::tables::{Out, Retired, ViewTables};
use core::sync::atomic::{AtomicU64, Ordering, fence};
use paging::{MapError, Prot};
use quota::Resource;
use spin::Mutex;
use ::view::{Owed, Place, Places};

pub struct View {
    /// No other one has it, ever.
    number: u64,
    tables: Mutex<ViewTables>,
    root: u64,
    /// Processors that have loaded one of these have loaded this view: its own root, or those of threads that borrow its
    /// tables.
    roots: Mutex<Vec<u64>>,
    /// What is not a stack is mapped there, for all threads of the task.
    lower: Option<Arc<View>>,
    /// Who pays for the tables.
    task: Arc<Task>,
    charged: AtomicU64,
    /// Of these, tables beyond its quota, and how many that may be: see [`View::map`].
    beyond: AtomicU64,
    beyond_max: u64,
    /// How often tables were taken out of it, and how often they were freed after that.
    emptied: AtomicU64,
    freed: AtomicU64,
    /// Up to here it has its tables even when memory is used up.
    least: u64,
    /// Section mappings that this view is registered in (section, address, offset, length), and the protection keys that
    /// pages of each may have, a bit for each.
    known: Mutex<Places>,
    /// Counts how often the view was emptied because it knew too much; registrations of before are void.
    epoch: AtomicU64,
    owed: Owed,
}

/// Most tables of a view beyond its task's quota, for each processor that may be executing in it: more than any instruction needs at
/// once. (Two pages of code, of each of two operands and of the stack, with three tables each, are 24.)
const BEYOND_EACH: u64 = 32;

/// Places that are emptied with interrupts off.
const PLACES_AT_ONCE: usize = 4;

/// Steps of freeing tables with interrupts off: so many tables, or entries that are looked at for one.
const STEPS_AT_ONCE: usize = 2048;

/// Tables of a view that goes with interrupts off.
const TABLES_AT_ONCE: u64 = 8;

/// Most registrations of one view.
const KNOWN_MAX: usize = 4096;
/// The same when the kernel's heap, which they are kept in, is nearly used up.
const KNOWN_FEW: usize = 32;

/// In which view a page of a section was last mapped where the section is by itself, and with which key. As long as this is the same, the view is
/// registered with the section and with the key, and the key is that of the section's class.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Shown {
    view: u64,
    epoch: u64,
    /// Changes of the section's list, and of the keys.
    pub list: u64,
    pub keys: u64,
}

/// Where a view maps part of a section: what invalidation walks.
pub struct Mapping {
    view: Weak<View>,
    epoch: u64,
    /// `[at, at + len)` shows the section from `offset` on.
    at: u64,
    offset: u64,
    len: u64,
}

impl Mapping {
    /// Whether the view still lives and still counts this registration.
    fn counts(&self) -> bool {
        self.view.strong_count() > 0
            && self.view.upgrade().is_some_and(|view| view.epoch.load(Ordering::SeqCst) == self.epoch)
    }

    /// The part of `[offset, offset + len)` of the section that is shown, if any is: the view, if it lives, and whether it still counts this
    /// registration; where, and how much.
    #[inline(always)]
    #[expect(clippy::type_complexity, reason = "taken apart at once")]
    fn part(&self, offset: u64, len: u64) -> Option<(Option<(Arc<View>, bool)>, u64, u64)> {
        let (from, to) = (offset.max(self.offset), (offset + len).min(self.offset + self.len));
        if from >= to {
            return None;
        }
        let view = self.view.upgrade().map(|view| {
            let counts = view.epoch.load(Ordering::SeqCst) == self.epoch;
            (view, counts)
        });
        Some((view, self.at + (from - self.offset), to - from))
    }

    /// The view, if it is one that the domain runs in, counts this registration, and has the section at `base` where it is by itself. Whose view
    /// it is need not be held: it stays as long as the domain.
    #[inline(always)]
    pub fn own<'a>(&self, domain: &'a Domain, base: u64) -> Option<&'a Arc<View>> {
        let (whole, this) = (domain.view(), self.view.as_ptr());
        let view = match &whole.lower {
            Some(lower) if Arc::as_ptr(lower) == this => lower,
            _ if Arc::as_ptr(whole) == this => whole,
            _ => return None,
        };
        let counts = view.epoch.load(Ordering::SeqCst) == self.epoch;
        (counts && self.at == base && self.offset == 0).then_some(view)
    }

    /// Whether what was taken out of the view is still to be forgotten: who changes the section has to wait for that.
    fn is_owed(&self) -> bool {
        self.view.upgrade().is_some_and(|view| view.owed.taken(false))
    }
}

/// What processors must forget before a change counts as done. Frames and tables in it are freed after that.
#[derive(Default)]
#[must_use = "flush it after dropping the section's lock"]
pub struct Stale {
    processors: u64,
    scope: Scope,
    taken: Vec<Taken>,
    pub frames: Vec<Arc<Frame>>,
    /// Views that are still to be changed, where there are many ([`change_first`]): whoever has this settles it (`claim.rs`).
    pub rest: Option<Rest>,
}

/// What was taken out of a view, until processors have forgotten it.
struct Taken {
    view: Arc<View>,
    tables: Retired,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.view.owed.forgotten();
        if !self.tables.is_empty() {
            self.view.returned(self.tables.free(&mut { usize::MAX }));
            self.view.freed.fetch_add(1, Ordering::Release);
        }
    }
}

impl Taken {
    /// Processors have forgotten it: its tables are freed, however many they are; so many steps are left until interrupts are let in. Call without locks.
    fn settle(mut self, steps: &mut usize) {
        if self.tables.is_empty() {
            return;
        }
        let (view, mut tables) = (self.view.clone(), core::mem::take(&mut self.tables));
        drop(self);
        loop {
            view.returned(tables.free(steps));
            if tables.is_empty() {
                view.freed.fetch_add(1, Ordering::Release);
                return;
            }
            sched::breathe();
            *steps = STEPS_AT_ONCE;
        }
    }
}

impl Stale {
    /// Whether any processor may remember what is gone, or any view has it still.
    pub fn is_remembered(&self) -> bool {
        self.processors != 0 || self.rest.is_some()
    }

    /// Whether nothing is left to be done: what was taken out is forgotten.
    pub fn is_settled(&self) -> bool {
        !self.is_remembered() && self.taken.is_empty()
    }

    /// Waits until every processor has forgotten, then frees. Call without locks.
    ///
    /// # Panics
    /// There are views that have it still: a bug in the kernel.
    pub fn flush(self) {
        assert!(self.rest.is_none(), "views that are still to be changed are forgotten");
        processor::make_forget(self.processors, self.scope);
        let mut steps = STEPS_AT_ONCE;
        self.taken.into_iter().for_each(|taken| taken.settle(&mut steps));
    }

    pub fn join(&mut self, other: Stale) {
        if self.processors == 0 {
            self.scope = other.scope;
        } else if other.processors != 0 && other.scope != self.scope {
            self.scope = Scope::All;
        }
        self.processors |= other.processors;
        self.taken.extend(other.taken);
        self.frames.extend(other.frames);
        debug_assert!(self.rest.is_none() || other.rest.is_none());
        self.rest = self.rest.take().or(other.rest);
    }
}

impl View {
    pub fn new(task: &Arc<Task>) -> Result<Arc<View>, Error> {
        View::with(task, ViewTables::new, 1, None)
    }

    /// Of one thread in a text that is placed in supervisor mode.
    pub fn for_supervisor(task: &Arc<Task>) -> Result<Arc<View>, Error> {
        View::with(task, ViewTables::for_supervisor, 1, None)
    }

    /// Tables that the threads of a task borrow.
    pub fn to_lend(task: &Arc<Task>) -> Result<Arc<View>, Error> {
        let make = || ViewTables::new().and_then(|mut tables| tables.prepare_to_lend().map(|()| tables));
        View::with(task, make, 1 + arch::tables::LENT, None)
    }

    /// A thread's view of its task's: its own stacks, and what `lower` maps.
    pub fn of_thread(task: &Arc<Task>, lower: &Arc<View>) -> Result<Arc<View>, Error> {
        let make = || {
            let mut tables = ViewTables::new()?;
            tables.borrow(&lower.tables.lock());
            Some(tables)
        };
        let view = View::with(task, make, 1, Some(lower.clone()))?;
        lower.roots.lock().push(view.root);
        Ok(view)
    }

    /// The view that holds what is at an address.
    pub fn part(self: &Arc<View>, address: u64) -> &Arc<View> {
        match &self.lower {
            Some(lower) if address < stacks_base(machine().node) => lower,
            _ => self,
        }
    }

    fn with(task: &Arc<Task>, make: impl FnOnce() -> Option<ViewTables>, frames: u64, lower: Option<Arc<View>>) -> Result<Arc<View>, Error> {
        spare_heap_at_all_for(task)?;
        let executing = if frames > 1 { machine().processors.len() as u64 } else { 1 };
        task.charge(Resource::Frames, frames)?;
        let Some(tables) = make() else {
            task.release(Resource::Frames, frames);
            return Err(Error::NoMemory);
        };
        MACHINE.views.fetch_add(frames, Ordering::Relaxed);
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Ok(Arc::new(View {
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            root: tables.root(),
            roots: Mutex::new(alloc::vec![tables.root()]),
            lower,
            tables: Mutex::new(tables),
            task: task.clone(),
            charged: AtomicU64::new(frames),
            beyond: AtomicU64::new(0),
            beyond_max: BEYOND_EACH * executing,
            least: frames + BEYOND_EACH * executing,
            known: Mutex::new(Places::new()),
            epoch: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            owed: Owed::new(),
        }))
    }

    /// Maps one page of `size` bytes. The section's lock is held by the caller, which has decided `prot`. A view is a cache: when no table is to be
    /// had, it forgets everything, so that its own tables are free, and the access is to be tried again (`Some`: to flush before). So it is
    /// when a table is where a large page is to be: what that maps is forgotten.
    /// What it needs at the least is not refused: who has used up his quota runs slowly, but he and his callees do run.
    pub fn map(self: &Arc<View>, address: u64, frame: &Frame, size: u64, prot: Prot) -> Result<Option<Stale>, (Stale, abi::Error)> {
        let mut made = 0;
        let mut table = || {
            let frame = self.table()?;
            made += 1;
            Some(frame)
        };
        let freed = self.freed.load(Ordering::Acquire);
        let mapped = self.tables.lock().map(address, frame, size, prot, &mut table);
        match mapped {
            Ok(()) => Ok(None),
            Err(MapError::InTheWay) => Ok(Some(self.forget(address, size))),
            Err(MapError::NoMemory) => {
                let stale = self.forget(0, abi::layout::SPACE_END);
                // With no others than were made for this page there is nothing more to be had; but others may be about to free what they have
                // taken out, or have done so meanwhile.
                let own = stale.taken.iter().filter(|taken| !taken.tables.is_empty()).count() as u64;
                let is_freed = || self.emptied.load(Ordering::Acquire) != freed + own;
                if stale.taken.iter().any(|taken| taken.tables.are_more_than(made)) || is_freed() { Ok(Some(stale)) } else { Err((stale, Error::NoMemory)) }
            }
            Err(_) => Err((Stale::default(), Error::BadAddress)),
        }
    }

    /// Whether it has a place of a section that it knows, or may come to know it: who cannot be given room for that in the kernel's heap has nothing mapped there.
    /// `is_short`: there is none.
    #[inline]
    pub fn may_register(&self, is_short: bool, section: u64, (at, offset, len): (u64, u64, u64)) -> bool {
        !is_short || self.known.lock().is_known(&[section, at, offset, len])
    }

    /// Registers this view in a section's list, once per place: a page of it is about to be mapped with `key`. A view that
    /// knows too many places is emptied first. To be called where it [may](View::may_register).
    pub fn register(self: &Arc<View>, mapped: &mut Vec<Mapping>, section: u64, place: (u64, u64, u64), key: u8) -> Stale {
        let (at, offset, len) = place;
        let mut known = self.known.lock();
        let mut stale = Stale::default();
        let is_short = || !arch::heap_is_plenty() && promise::look_for_heap(&self.task, Heap::Page, false).is_err();
        let is_full = known.len() >= KNOWN_MAX || known.len() >= KNOWN_FEW && is_short();
        if is_full && !known.is_known(&[section, at, offset, len]) {
            // Emptied before it stops counting: who changes a section meanwhile finds nothing left to take away.
            stale = self.forget(0, abi::layout::SPACE_END);
            known.clear();
            self.epoch.fetch_add(1, Ordering::SeqCst);
        }
        if known.enter([section, at, offset, len], key) {
            tidy(mapped);
            reserve(mapped);
            let epoch = self.epoch.load(Ordering::SeqCst);
            mapped.push(Mapping { view: Arc::downgrade(self), epoch, at, offset, len });
        }
        stale
    }

    /// What is to be remembered when a page was mapped here.
    #[inline]
    pub fn shown(&self, list: u64, keys: u64) -> Shown {
        Shown { view: self.number, epoch: self.epoch.load(Ordering::SeqCst), list, keys }
    }

    /// Maps a page, under the section's lock, where the view is registered for it and there is a table. Whether it did.
    #[inline(always)]
    pub fn enter(&self, address: u64, frame: &Frame, prot: Prot) -> bool {
        self.tables.lock().enter(address, frame, prot)
    }

    /// What a processor loads. Whoever owns the view keeps it while it may be loaded.
    #[inline]
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Shows the gate of the thread whose view this is. In a view that is not shared runs who may write the key register, and
    /// the kernel believes what stands in the gate's state.
    pub fn show_gate(&self, gate: &Gate) {
        self.tables.lock().show_gate(gate, self.lower.is_some());
    }

    /// Removes what the view holds of a range of addresses.
    pub fn forget(self: &Arc<View>, at: u64, len: u64) -> Stale {
        let (any, must_forget, tables) = {
            let mut of_view = self.tables.lock();
            // Whoever has taken out something else, somewhere else, has left it to us, too.
            let was_owed = self.owed.taken(false);
            let Out { any, more, tables } = of_view.unmap(at, len, || self.table());
            let scope = scope(more, at, len);
            if any && !was_owed && tables.is_empty() && processor::here().forget_alone(|| self.users(), scope) {
                // Before the lock: whoever comes second finds nothing that still works.
                return Stale::default();
            }
            self.emptied.fetch_add(u64::from(!tables.is_empty()), Ordering::Release);
            let any = any || !tables.is_empty();
            (any, self.owed.taken(any), tables)
        };
        let processors = if must_forget { self.users() } else { 0 };
        let taken = if any { [Taken { view: self.clone(), tables }].into() } else { Vec::new() };
        Stale { processors, taken, ..Stale::default() }
    }

    /// It is of no use any more: what it has many of goes now, in stretches, and the rest with it. Call without locks.
    pub fn retire(self: &Arc<View>) {
        let tables = self.charged.load(Ordering::Relaxed);
        if tables > TABLES_AT_ONCE {
            self.forget(0, abi::layout::SPACE_END).flush();
        }
    }

    /// Stores to a range of addresses fault from now on.
    fn write_protect(self: &Arc<View>, at: u64, len: u64) -> Stale {
        let (any, must_forget) = {
            let mut tables = self.tables.lock();
            let any = tables.write_protect(at, len, || self.table()).is_any();
            (any, self.owed.taken(any))
        };
        let processors = if must_forget { self.users() } else { 0 };
        let taken = if any { [Taken { view: self.clone(), tables: Retired::default() }].into() } else { Vec::new() };
        Stale { processors, taken, ..Stale::default() }
    }

    /// Pages in a range of addresses fault from now on, until they are shown. `None`: no processor remembers any of them.
    #[inline(always)]
    pub(crate) fn hide(self: &Arc<View>, me: &Processor, at: u64, len: u64) -> Option<Box<Stale>> {
        self.close::<false>(me, at, len)
    }

    /// The same for good, if `OUT`: they are taken out.
    #[inline(always)]
    fn close<const OUT: bool>(self: &Arc<View>, me: &Processor, at: u64, len: u64) -> Option<Box<Stale>> {
        let mut tables = self.tables.lock();
        // Whoever has taken out something else, somewhere else, has left it to us, too.
        let was_owed = self.owed.is_any();
        let table = || self.table();
        let touched = if OUT { tables.take_out(at, len, table) } else { tables.hide(at, len, table) };
        let any = touched.is_any();
        // Where there is no other processor nobody is asked what he has loaded: to forget a page too many does no harm.
        if !was_owed && (!any || me.forget_alone(|| self.users(), scope(touched.more, at, len))) {
            // Before the lock: whoever comes second finds nothing that still works.
            return None;
        }
        let must_forget = self.owed.taken(any);
        drop(tables);
        if must_forget { Some(self.hidden(any, scope(was_owed || touched.more, at, len))) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn hidden(self: &Arc<View>, any: bool, scope: Scope) -> Box<Stale> {
        let taken = if any { [Taken { view: self.clone(), tables: Retired::default() }].into() } else { Vec::new() };
        Box::new(Stale { processors: self.users(), scope, taken, ..Stale::default() })
    }

    /// What was hidden is as it was.
    #[inline(always)]
    pub(crate) fn show(&self, at: u64, len: u64) {
        self.tables.lock().show(at, len);
    }

    /// The keys that pages may have, a bit each.
    pub fn keys(&self) -> u16 {
        self.known.lock().keys()
    }

    /// Removes the pages that have this key, which no other page gets meanwhile: of so many places as are looked at in a stretch, behind `last`. The
    /// last of them, if there were any.
    pub fn forget_key(self: &Arc<View>, key: u8, last: Option<Place>) -> (Stale, Option<Place>) {
        let mut stale = Stale::default();
        // Under its lock: who empties the view meanwhile has forgotten them when it is let go.
        let mut known = self.known.lock();
        let taken = known.take_key(key, last, PLACES_AT_ONCE);
        for [_, at, _, len] in &taken {
            stale.join(self.forget(*at, *len));
        }
        (stale, taken.last().copied())
    }

    /// Processors that may remember what the tables said before they were changed just now. One that loads the root later
    /// reads what they say now: the fence puts our stores to the tables before our look at who has it loaded.
    pub fn users(&self) -> u64 {
        fence(Ordering::SeqCst);
        let roots = self.roots.lock();
        processor::with_root(|root| roots.contains(&root))
    }
}

/// What is to be forgotten when a range was touched; `more`: and more.
#[inline(always)]
fn scope(more: bool, at: u64, len: u64) -> Scope {
    if more { Scope::All } else { Scope::Pages { at, len } }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(lower) = &self.lower {
            lower.roots.lock().retain(|root| *root != self.root);
        }
        self.returned(self.charged.load(Ordering::Relaxed));
    }
}

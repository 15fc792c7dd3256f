//! What the kernel knows and lets programs read, with no call (SSS-1, 12, 76; docs/decisions/0017): the info section for everybody, and one
//! for each user. Counters are where they are counted; what objects have in records is stored there besides.

pub mod user;

pub use user::{User, of};

use crate::line;
use crate::post;
use crate::machine::machine;
use crate::seat;
use crate::section::{New, Section};
use crate::task::Task;
use abi::info::layout::{EVERYBODY, Head, MAGIC, VERSION, size, table};
use abi::info::layout::{Interrupt, PostCounts, Seat, Table as Place, Task as TaskRecord, Thread as ThreadRecord, User as UserRecord};
use abi::layout::PAGE;
use abi::rights::{ANY_TEXT, principal};
use abi::section::kind;
use abi::{AclEntry, Rights};
use ::info::Table;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::frames::Frame;
use arch::shown::Page;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use spin::Once;

/// Words of a record.
pub const fn words<T>() -> usize {
    size::<T>() as usize / 8
}

/// The word of a record that a field is.
macro_rules! word {
    ($record:ident, $field:ident) => {
        core::mem::offset_of!(abi::info::layout::$record, $field) / 8
    };
}
pub(crate) use word;

/// Objects of these have a record as long as there is one left.
const TASKS: usize = 1024;
const THREADS: usize = 4096;

/// A place in the tables for everybody.
pub type TaskSlot = ::info::Slot<{ words::<TaskRecord>() }>;
pub type ThreadSlot = ::info::Slot<{ words::<ThreadRecord>() }>;

/// A section in the making: its pages in their order, the second of which is its head.
struct Draft {
    frames: Vec<Frame>,
    head: &'static Page,
}

/// A page that nobody looks into: for records that have no place.
static NOWHERE: Page = Page::new();
/// A page of nothing.
static NOTHING: Page = Page::new();

impl Draft {
    /// `None`: there is no memory.
    fn new(user: u64, first: Frame) -> Option<Draft> {
        let head = Page::lasting()?;
        let (origin, rate) = arch::time::rate();
        let mut draft = Draft { frames: Vec::new(), head };
        draft.frames.extend([first, head.frame()]);
        let words = [MAGIC, VERSION, 0, machine().node, user, arch::cpu::features(), machine().boot_time, origin, rate, table::COUNT as u64];
        ::info::fields(&head.0, 0, &words);
        Some(draft)
    }

    fn place(&self, table: usize) -> &'static [AtomicU64] {
        place(self.head, table)
    }

    /// A table whose records others keep: they are all there.
    fn fixed(&mut self, table: usize, size: u64, room: u64, frames: impl IntoIterator<Item = Frame>) {
        let offset = self.frames.len() as u64 * PAGE;
        ::info::fields(self.place(table), 0, &[offset, size, room, room]);
        self.frames.extend(frames);
    }

    /// A new table of `room` records, or of fewer where memory is short.
    fn table<const N: usize>(&mut self, table: usize, room: usize) -> &'static Table<N> {
        let pages: Vec<&'static Page> = (0..room * N / 512).map_while(|_| Page::lasting()).collect();
        let made = Table::new(pages.iter().map(|page| &page.0).collect(), self.place(table), nowhere());
        let offset = self.frames.len() as u64 * PAGE;
        ::info::fields(self.place(table), 0, &[offset, N as u64 * 8, made.room() as u64]);
        self.frames.extend(pages.into_iter().map(Page::frame));
        Box::leak(Box::new(made))
    }

    /// The section, which `entry` may read.
    fn show(self, owner: &Arc<Task>, entry: AclEntry, name: &[u8]) -> Option<Arc<Section>> {
        let len = self.frames.len() as u64 * PAGE;
        self.head.0[offset_of!(Head, len) / 8].store(len, Ordering::Relaxed);
        let new = New { len, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner: owner.clone(), entry, ports: None, live: true };
        let section = Section::create(new).ok()?;
        let mut state = section.state.lock();
        state.name[..name.len()].copy_from_slice(name);
        for (page, frame) in self.frames.into_iter().enumerate() {
            state.pages.supply(page as u64, Arc::new(frame));
        }
        state.show(&section);
        drop(state);
        Some(section)
    }
}

/// The words of a table's head.
fn place(head: &'static Page, table: usize) -> &'static [AtomicU64] {
    let at = (offset_of!(Head, table) + table * size_of::<Place>()) / 8;
    &head.0[at..at + size_of::<Place>() / 8]
}

fn nowhere<const N: usize>() -> &'static [AtomicU64; N] {
    NOWHERE.0.first_chunk().expect("a record is no longer than a page")
}

/// The tables for everybody.
struct Public {
    tasks: &'static Table<{ words::<TaskRecord>() }>,
    threads: &'static Table<{ words::<ThreadRecord>() }>,
    users: &'static Table<{ words::<UserRecord>() }>,
    running: &'static Page,
    head: &'static Page,
    draft: spin::Mutex<Option<Draft>>,
    /// Its base, and who owns it.
    shown: Once<(u64, Arc<Task>)>,
}

static PUBLIC: Once<Public> = Once::new();

fn public() -> &'static Public {
    PUBLIC.get().expect("tables are made before what is in them")
}

/// Makes the tables. Boot only, before the first task.
pub fn set_up() {
    let running = Page::lasting().expect("memory for the page of who runs");
    let mut draft = Draft::new(EVERYBODY, running.frame()).expect("memory for the info section");
    let processors = machine().processors.len() as u64;
    draft.fixed(table::PROCESSORS, PAGE, processors, machine().processors.iter().map(|p| p.counters.page()));
    draft.fixed(table::MACHINE, PAGE, 1, [arch::shown::MACHINE.page()]);
    draft.fixed(table::INTERRUPTS, size::<Interrupt>(), line::count(), [line::SHOWN.frame()]);
    draft.fixed(table::SEATS, size::<Seat>(), processors, [seat::SHOWN.frame()]);
    let counts = post::COUNTS.get().expect("posts are made first");
    let room = counts.len() as u64 * (PAGE / size::<PostCounts>());
    draft.fixed(table::POST_COUNTS, size::<PostCounts>(), room, counts.iter().map(|page| page.frame()));
    let tasks = draft.table(table::TASKS, TASKS);
    let threads = draft.table(table::THREADS, THREADS);
    let users = draft.table(table::USERS, 64);
    let head = draft.head;
    PUBLIC.call_once(|| Public { tasks, threads, users, running, head, draft: spin::Mutex::new(Some(draft)), shown: Once::new() });
    seat::show_all();
}

/// Shows the section for everybody, and the system's own. Boot only, once there is a task to own them.
pub fn show(owner: &Arc<Task>) {
    let public = public();
    let draft = public.draft.lock().take().expect("it is shown once");
    let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
    let section = draft.show(owner, entry, b"info").expect("room for the info section");
    public.shown.call_once(|| (section.base, owner.clone()));
    owner.about.show();
}

/// Base of the section for everybody.
pub fn section() -> Option<u64> {
    public().shown.get().map(|(base, _)| *base)
}

/// The words of who runs where ([`abi::info::RUNNING_STEP`]).
#[inline]
pub fn running() -> &'static Page {
    public().running
}

/// The record of a new task, for everybody. Persons' names are theirs.
pub fn task(number: u64, payer: u64, user: u64, name: &[u64; 4]) -> TaskSlot {
    let name = if user == abi::task::USER_SYSTEM { *name } else { [0; 4] };
    public().tasks.claim(|record| ::info::fields(record, word!(Task, number), &[number, payer, user, name[0], name[1], name[2], name[3]]))
}

/// The record of a new thread, for everybody.
pub fn thread(number: u64, task: u64) -> ThreadSlot {
    public().threads.claim(|record| ::info::fields(record, word!(Thread, number), &[number, task]))
}

/// A name as words.
pub fn name_words(name: &[u8; abi::section::NAME_LEN]) -> [u64; 4] {
    core::array::from_fn(|at| u64::from_le_bytes(core::array::from_fn(|byte| name[at * 8 + byte])))
}

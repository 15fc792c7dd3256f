//! What the kernel knows and lets programs read, with no call (SSS-1, 12, 76; docs/decisions/0017): the info section for everybody, and one
//! for each user. Counters are where they are counted; what objects have in records is stored there besides.

pub mod user;

pub use user::{User, of};

use crate::line;
use crate::post;
use crate::machine::machine;
use crate::seat;
use crate::section::{New, Section, State};
use crate::task::Task;
use crate::thread::Thread;
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
use arch::shown::{MACHINE, Page};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use quota::Resource;
use spin::{Mutex, Once};

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

/// Objects of these have a record each, for which there is a page when it is needed: no more of them fit into the kernel's heap, or as many as all users
/// together may have.
const TASKS: u64 = 1 << 14;
const THREADS: u64 = 1 << 16;
const USERS: usize = 64;

/// As many, or what the heap has room for where each takes so much of it at the least.
fn most<T>(limit: u64) -> usize {
    (arch::heap_size() / size_of::<T>() as u64).min(limit) as usize
}

/// A place in the tables for everybody.
pub type TaskSlot = ::info::Slot<{ words::<TaskRecord>() }>;
pub type ThreadSlot = ::info::Slot<{ words::<ThreadRecord>() }>;

/// A section in the making.
struct Draft {
    /// Its pages, the second of which is its head; and which one each is.
    frames: Vec<(u64, Frame)>,
    /// How many there may be: of tables most come later.
    pages: u64,
    head: &'static Page,
}

/// A section that programs read, as long as it is in the making, and then. One at a time has the draft's lock, and puts pages there.
struct Book {
    draft: Mutex<Option<Draft>>,
    section: Once<Arc<Section>>,
}

/// A table that becomes longer page by page, and at which page of its section it begins.
struct Growing<const N: usize> {
    table: &'static Table<N>,
    first: u64,
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
        let frames = Vec::from([(0, first), (1, head.frame())]);
        let draft = Draft { pages: frames.len() as u64, frames, head };
        let words = [MAGIC, VERSION, 0, machine().node, user, arch::cpu::features(), machine().boot_time, origin, rate, table::COUNT as u64];
        ::info::fields(&head.0, 0, &words);
        Some(draft)
    }

    fn place(&self, table: usize) -> &'static [AtomicU64] {
        place(self.head, table)
    }

    /// A table whose records others keep: they are all there.
    fn fixed(&mut self, table: usize, size: u64, room: u64, frames: impl IntoIterator<Item = Frame>) {
        ::info::fields(self.place(table), 0, &[self.pages * PAGE, size, room, room]);
        for frame in frames {
            self.frames.push((self.pages, frame));
            self.pages += 1;
        }
    }

    /// A new table of at most so many records, with the first pages of it.
    fn table<const N: usize>(&mut self, table: usize, most: usize) -> Growing<N> {
        let made: &'static Table<N> = Box::leak(Box::new(Table::new(most, self.place(table), nowhere())));
        let made = Growing { table: made, first: self.pages };
        ::info::fields(self.place(table), 0, &[self.pages * PAGE, N as u64 * 8, made.table.room() as u64]);
        self.pages += made.table.pages() as u64;
        made.grows(&|| true, &mut |page, frame| self.frames.push((page, frame)));
        made
    }

    /// The section, which `entry` may read.
    fn show(self, owner: &Arc<Task>, entry: AclEntry, name: &[u8]) -> Option<Arc<Section>> {
        let len = self.pages * PAGE;
        self.head.0[offset_of!(Head, len) / 8].store(len, Ordering::Relaxed);
        let new = New { len, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner: owner.clone(), entry, ports: None, live: true };
        let section = Section::create(new).ok()?;
        let mut state = section.state.lock();
        state.name[..name.len()].copy_from_slice(name);
        // Who reads where no table has come to yet makes no page there: it is invalid.
        let marks = state.invalid.pieces_for(0, self.pages);
        if owner.charge(Resource::Frames, marks).is_err() {
            drop(state);
            section.delete();
            return None;
        }
        state.invalid.put(0, self.pages);
        self.frames.into_iter().for_each(|(page, frame)| puts(&mut state, page, frame));
        state.count_lists();
        state.show(&section);
        drop(state);
        Some(section)
    }
}

/// A page of a section from now on.
fn puts(state: &mut State, page: u64, frame: Frame) {
    let marks = state.invalid.pieces();
    state.pages.supply(page, Arc::new(frame));
    state.invalid.take(page, 1);
    state.owner.release(Resource::Frames, marks - state.invalid.pieces());
}

impl Book {
    fn new(draft: Option<Draft>) -> Book {
        Book { draft: Mutex::new(draft), section: Once::new() }
    }

    /// Lets tables become longer, with what puts their pages where programs read them. Not while the section is just being made.
    fn grows(&self, tables: impl FnOnce(&mut dyn FnMut(u64, Frame))) {
        let mut draft = self.draft.lock();
        match (&mut *draft, self.section.get()) {
            (Some(draft), _) => tables(&mut |page, frame| draft.frames.push((page, frame))),
            (None, Some(section)) => tables(&mut |page, frame| {
                let mut state = section.state.lock();
                puts(&mut state, page, frame);
                state.count_lists();
            }),
            (None, None) => {}
        }
    }
}

impl<const N: usize> Growing<N> {
    fn claim(&self, fill: impl FnOnce(&[AtomicU64])) -> ::info::Slot<N> {
        self.table.claim(fill)
    }

    /// Whether who comes may find no place.
    #[inline]
    fn is_short(&self) -> bool {
        self.table.wants().is_some()
    }

    /// Has the pages that it wants, as far as there `may` be any, each of them `put` where programs read it. How many.
    fn grows(&self, may: &dyn Fn() -> bool, put: &mut dyn FnMut(u64, Frame)) -> u64 {
        let mut made = 0;
        while let Some(next) = self.table.wants().filter(|_| may()) {
            let Some(page) = Page::lasting() else { break };
            put(self.first + next as u64, page.frame());
            self.table.grows(&page.0);
            made += 1;
        }
        MACHINE.records.fetch_add(made, Ordering::Relaxed);
        made
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
    tasks: Growing<{ words::<TaskRecord>() }>,
    threads: Growing<{ words::<ThreadRecord>() }>,
    users: Growing<{ words::<UserRecord>() }>,
    running: &'static Page,
    head: &'static Page,
    book: Book,
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
    let tasks = draft.table(table::TASKS, most::<Task>(TASKS));
    let threads = draft.table(table::THREADS, most::<Thread>(THREADS));
    let users = draft.table(table::USERS, USERS);
    let head = draft.head;
    PUBLIC.call_once(|| Public { tasks, threads, users, running, head, book: Book::new(Some(draft)), shown: Once::new() });
    seat::show_all();
}

/// Shows the section for everybody, and the system's own. Boot only, once there is a task to own them.
pub fn show(owner: &Arc<Task>) {
    let public = public();
    let draft = public.book.draft.lock().take().expect("it is shown once");
    let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
    let section = draft.show(owner, entry, b"info").expect("room for the info section");
    public.shown.call_once(|| (section.base, owner.clone()));
    public.book.section.call_once(|| section);
    owner.about.show();
}

/// Room for the records of a task and of a thread in the section for everybody, before they are made. Call without locks.
#[inline]
pub fn makes_room() {
    let public = public();
    if public.tasks.is_short() || public.threads.is_short() {
        public.grows();
    }
}

impl Public {
    /// (What it is about takes much more.)
    #[cold]
    #[inline(never)]
    fn grows(&self) {
        self.book.grows(|put| {
            self.tasks.grows(&|| true, put);
            self.threads.grows(&|| true, put);
        });
    }
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

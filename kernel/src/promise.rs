//! What each user was promised of memory and of the kernel's heap (K1-U12, `core/parts`): whatever others take, his programs find so much. More they may have of what is owed
//! to nobody. What he has is what the ledgers of those of his tasks say that nobody pays for: nothing else is counted, and it is looked at only where little is left.

use crate::section::Section;
use crate::task::Task;
use crate::thread::Thread;
use abi::Error;
use abi::task::USER_SYSTEM;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::Heap;
use arch::frames::{self, Run, Why};
use arch::shown::MACHINE;
use core::mem::replace;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use parts::{Cut, Users};
use quota::{Weight, Weights};
use spin::{Mutex, Once};

/// Users that are promised something at a time.
const USERS_MAX: u32 = 16;
const FRAMES: usize = 0;
/// Bytes of the kernel's heap.
const HEAP: usize = 1;
const KINDS: usize = 2;
/// Of the frames that are free at boot one in so many is for promises.
const FRAMES_PART: u64 = 10;
/// A user is promised half of what nobody was before him, and so much at least, as long as there is.
const CUT: Cut<KINDS> = Cut { part: 2, least: [64, 64 << 10] };

/// What objects take of the heap, with what comes to each one when it is made: a few entries of a list, places where it is mapped, its place in tables, the first calls with which addresses in it were passed. A thread has what one
/// call needs at a time, and two for what interrupts it; a task its views.
const WEIGHTS: Weights = Weights {
    section: Weight { least: size_of::<Section>() as u64, most: 2272 },
    thread: Weight { least: size_of::<Task>() as u64, most: 11 << 10 },
    frame: Weight { least: 0, most: 32 },
};
/// As programs read it: `abi::info::layout::Promised`.
pub const TOLD: [u64; 6] = {
    let Weights { section, thread, frame } = WEIGHTS;
    [section.least, section.most, thread.least, thread.most, frame.least, frame.most]
};
const _: () = assert!(size_of::<Section>() <= 1216 && size_of::<Thread>() <= 2112 && size_of::<Task>() <= size_of::<Thread>());
/// Of a task that nobody pays for, and which no ledger counts.
const ROOT: Weight = Weight { least: 0, most: WEIGHTS.thread.most };
/// And of lists, which are charged as they are, but for what each section has of pages and of entries: of a stack, for the domain that has it and its view,
pub const STACK: u64 = 4 << 10;
/// of an entry in an access list, and in the list of the text that it names,
pub const ENTRY: u64 = 96;
/// of a text that has gates,
pub const GATES: u64 = 16 << 10;
/// of a piece that says which pages are invalid, or clean,
pub const MARKS: u64 = 128;
/// of one that says by whom they were made so,
pub const WHOSE: u64 = 640;
/// of what is paid for with a frame otherwise: structures, codes of threads that have ended,
pub const FRAME: u64 = 4 << 10;
/// of a binding, which knows its text for as long as it is there,
pub const BINDING: u64 = 256 + size_of::<Section>() as u64;
/// of a record of a thread, and in the list of the text that it leads to,
pub const RECORD: u64 = 160;
/// of a mapping in a window,
pub const ALIAS: u64 = 160;
/// of a call with which a section was passed, beyond the first.
pub const CALL: u64 = 96;
/// What is counted with each section: bytes of lists of its pages, and entries.
pub const FIRST_PAGES: u64 = 256;
pub const FIRST_ENTRIES: u64 = 4;
/// No object takes more when it is made, with what comes with it.
const ROOM: u64 = 32 << 10;

/// With so many frames free anybody may have one, whatever was promised.
static PLENTY: AtomicU64 = AtomicU64::new(0);
/// Processors that look at the same time may each take so many before the others see it.
pub const AT_ONCE: u64 = 64;

struct Promised {
    users: Users<KINDS>,
    /// Tasks of persons' that nobody pays for, as long as they or others that they pay for are there, by their users' numbers.
    roots: Mutex<Vec<(u32, Arc<Task>)>>,
}

static PROMISED: Once<Promised> = Once::new();

/// Of a task.
#[derive(Default)]
pub struct Promise {
    /// It counts as one of its root's.
    counts: AtomicBool,
    /// Of a root: its user's number, 0: it has none; and how many tasks are there for which it pays, itself included.
    number: AtomicU32,
    tasks: AtomicU32,
}

/// What a user has.
#[derive(Clone, Copy, Default)]
struct Had {
    frames: u64,
    heap: Weight,
}

type All = [Had; USERS_MAX as usize + 1];

/// (What there is fits: the heap is no longer than 1 GiB.)
fn word(amount: u64) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

/// From now on users are promised something. Boot only.
pub fn set_up() {
    let free = frames::free();
    let amounts = [word(free / FRAMES_PART), word(arch::heap_for_promises())];
    PROMISED.call_once(|| Promised { users: Users::new(USERS_MAX, amounts, amounts, CUT), roots: Mutex::default() });
    PLENTY.store(frames::reserve() + u64::from(amounts[FRAMES]) + AT_ONCE, Ordering::Relaxed);
    shows();
}

/// Programs read how much is owed now.
fn shows() {
    if let Some(promised) = PROMISED.get() {
        let all = promised.had();
        [FRAMES, HEAP].into_iter().for_each(|kind| _ = promised.owed(kind, &all));
    }
}

/// What a user was promised: frames, and bytes of the heap.
pub fn promised_to(user: u64) -> [u32; KINDS] {
    PROMISED.get().map_or([0; KINDS], |promised| promised.users.of(user).map(|(most, _)| most))
}

/// A task begins, of which nobody knows yet. The first one of a user is promised his part.
pub fn begins(task: &Arc<Task>) {
    let root = task.root();
    let Some(promised) = bound(root) else { return };
    let counts = if !ptr::eq(root, &**task) {
        // Behind the last one's end nobody is left whose promise it could be.
        let more = |tasks: u32| (tasks > 0).then_some(tasks + 1);
        root.promise.tasks.fetch_update(Ordering::AcqRel, Ordering::Relaxed, more).is_ok()
    } else if let Ok(number) = promised.users.open(task.user) {
        root.promise.number.store(number, Ordering::Release);
        root.promise.tasks.store(1, Ordering::Release);
        promised.roots.lock().push((number, task.clone()));
        task.about.shows_promised();
        shows();
        true
    } else {
        // There are as many users as may be.
        false
    };
    task.promise.counts.store(counts, Ordering::Release);
}

/// A task's end is told: nothing of it is in use. With the last one that a root pays for that has nothing, whoever still knows of it.
pub fn ends(task: &Task) {
    let root = task.root();
    if !task.promise.counts.swap(false, Ordering::AcqRel) || root.promise.tasks.fetch_sub(1, Ordering::AcqRel) != 1 {
        return;
    }
    let Some(promised) = PROMISED.get() else { return };
    let gone = {
        let mut roots = promised.roots.lock();
        let at = roots.iter().position(|(_, one)| ptr::eq(&**one, root));
        at.map(|at| roots.swap_remove(at))
    };
    promised.users.close(root.promise.number.swap(0, Ordering::AcqRel));
    root.about.shows_promised();
    shows();
    // Not with the lock, nor before whoever asks here has no more to do with it.
    drop(gone);
}

impl Promised {
    /// What all users have.
    fn had(&self) -> All {
        let (mut all, mut told) = (All::default(), [false; USERS_MAX as usize + 1]);
        for (number, root) in self.roots.lock().iter() {
            let one = &mut all[*number as usize];
            let (frames, heap) = root.weight(&WEIGHTS);
            // What programs read of a user is had once, however many programs he has. (Who came while memory was short has none of it.)
            let shown = match root.about.frames() {
                0 => 0,
                frames => u64::from(!replace(&mut told[*number as usize], true)) * frames,
            };
            one.frames += frames + shown;
            one.heap = one.heap + heap + ROOT;
        }
        all
    }

    fn owed(&self, kind: usize, all: &All) -> u64 {
        let had = |number: u32| match kind {
            FRAMES => all[number as usize].frames,
            _ => all[number as usize].heap.least,
        };
        let owed = self.users.owed(kind, |number| word(had(number))).into();
        let shown = if kind == FRAMES { &MACHINE.owed } else { &MACHINE.owed_heap };
        shown.store(owed, Ordering::Relaxed);
        owed
    }

    /// Bytes of the heap that other users were promised and may still come for: who has no more than he was promised leaves these, too, as what was charged may
    /// have been given back before the heap has it again.
    fn owed_to_others(&self, number: u32, all: &All) -> u64 {
        let had = |one: u32| if one == number { u32::MAX } else { word(all[one as usize].heap.most) };
        self.users.owed(HEAP, had).into()
    }

    /// Frames that who has some charged leaves when he takes them: what the system keeps, and all that is owed unless he has no more than he was promised.
    /// `more` are to be charged to him.
    fn to_be_left(&self, root: &Task, more: u64) -> u64 {
        let (number, mut all) = (root.promise.number.load(Ordering::Acquire), self.had());
        all[number as usize].frames += more;
        let is_his = self.users.is_promised(number, FRAMES, word(all[number as usize].frames));
        frames::reserve() + if is_his { 0 } else { self.beside(&all) }
    }

    /// The same beside the system's.
    fn beside(&self, all: &All) -> u64 {
        self.owed(FRAMES, all) + AT_ONCE
    }
}

/// The promises, for those whom they bind: not for the system.
fn bound(root: &Task) -> Option<&'static Promised> {
    PROMISED.get().filter(|_| root.user != USER_SYSTEM)
}

/// Whether there are so many frames that anybody may have some more, whatever was promised.
#[inline(always)]
pub fn are_frames_plenty(frames: u64) -> bool {
    frames::free() >= PLENTY.load(Ordering::Relaxed) + frames
}

/// Looks whether a task may have frames that were charged to it, and some that are to be, where they are not plenty: within its user's promise, or beside all that
/// is owed. `from`: it is another task's so far that pays for them.
///
/// # Errors
/// `NoMemory`.
#[cold]
#[inline(never)]
pub fn look_for_frames(task: &Task, charged: u64, more: u64, from: Option<&Task>) -> Result<(), Error> {
    let frames = charged + more;
    let root = task.root();
    let is_same = |from: &Task| from.root().user == root.user;
    let Some(promised) = bound(root).filter(|_| frames > 0 && !from.is_some_and(is_same)) else { return Ok(()) };
    if frames::free() >= promised.to_be_left(root, more) + frames { Ok(()) } else { Err(Error::NoMemory) }
}

/// The same of a frame that was charged before, but shared: what is owed to others, who count it as had, is not there for that.
///
/// # Errors
/// `NoMemory`.
pub fn may_copy(task: &Task) -> Result<(), Error> {
    if are_frames_plenty(1) { Ok(()) } else { look_for_copy(task) }
}

#[cold]
#[inline(never)]
fn look_for_copy(task: &Task) -> Result<(), Error> {
    let Some(promised) = bound(task.root()) else { return Ok(()) };
    if frames::to_spare() > promised.beside(&promised.had()) { Ok(()) } else { Err(Error::NoMemory) }
}

/// Whether the next [`AT_ONCE`] frames of many that were charged to a task are there still: others may have taken theirs since that was looked at.
#[inline(always)]
pub fn are_there_still(task: &Task) -> bool {
    are_frames_plenty(AT_ONCE) || look_for_frames(task, AT_ONCE, 0, None).is_ok()
}

/// Frames in a row that were charged to a task. Whether they are there still is looked at in one step with taking them: they may be a great part of what is free.
///
/// # Errors
/// As of [`Run::take`].
pub fn take_run(task: &Task, count: u64, align: u64) -> Result<Run, Why> {
    match Run::take(count, align, PLENTY.load(Ordering::Relaxed)) {
        Err(Why::TooFew) => {
            let root = task.root();
            Run::take(count, align, bound(root).map_or(0, |promised| promised.to_be_left(root, 0)))
        }
        other => other,
    }
}

/// Looks whether there is something of the kernel's heap for a task, where that is not plenty. `is_counted`: its ledger counts it, so it may be what its user
/// was promised.
///
/// # Errors
/// `NoMemory`.
#[cold]
#[inline(never)]
pub fn look_for_heap(task: &Task, what: Heap, is_counted: bool) -> Result<(), Error> {
    let root = task.root();
    let has_room = match bound(root) {
        None => arch::heap_has_room(if what == Heap::Page { Heap::SystemsPage } else { Heap::SystemsObject }, 0),
        Some(promised) => {
            let (number, all) = (root.promise.number.load(Ordering::Acquire), promised.had());
            let had = all[number as usize].heap.most.saturating_add(ROOM);
            let is_his = is_counted && promised.users.is_promised(number, HEAP, word(had));
            is_his && arch::heap_has_room(Heap::Promised, promised.owed_to_others(number, &all)) || arch::heap_has_room(what, promised.owed(HEAP, &all))
        }
    };
    if has_room { Ok(()) } else { Err(Error::NoMemory) }
}

/// Looks whether a section with lists of so many bytes and so many frames may become another user's task's, where little of the heap is left: who has had it is owed
/// as much once more, so that has to be there beside all that is owed, as of what is made. (The system is owed nothing.)
///
/// # Errors
/// `NoMemory`.
pub fn look_for_given(to: &Task, from: &Task, lists: u64, frames: u64) -> Result<(), Error> {
    if arch::heap_is_plenty() || from.root().user == to.root().user {
        return Ok(());
    }
    let Some(promised) = bound(from.root()) else { return Ok(()) };
    let bytes = WEIGHTS.section.most + lists + frames * WEIGHTS.frame.most;
    let owed = promised.owed(HEAP, &promised.had()) + bytes;
    if arch::heap_has_room(Heap::Object, owed) { Ok(()) } else { Err(Error::NoMemory) }
}

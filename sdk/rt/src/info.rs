//! What the kernel knows, read where it writes it (SSS-1, 12, 76): after the first look nothing here calls the kernel. What is whose is
//! in `docs/decisions/0017`, how it lies in `abi::info::layout`.

use abi::calls::stub;
use abi::info::layout::{
    Counts, HEAD, Head, Interrupt, Keys, MAGIC, Machine, OwnTask, OwnThread, Post, PostCounts, Promised, Seat, Section,
    Table, Task, Thread, User, VERSION, table,
};
use abi::info::{RUNNING_MAX, RUNNING_STEP};
use abi::layout::PAGE;
use abi::task::{USER_SYSTEM, state};
use abi::{Error, Rights};
use alloc::vec::Vec;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use zerocopy::{FromBytes, IntoBytes};

use crate::sync::Once;
use crate::{Trap, section};

/// One of the kernel's sections.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    words: &'static [AtomicU64],
}

static EVERYBODY: Once<Info> = Once::new();

/// The section for everybody.
///
/// # Errors
/// What the kernel answers; `NotSupported`: its layout is of another version.
pub fn all() -> Result<Info, Error> {
    EVERYBODY
        .get_or_try(|| {
            let base = stub::running(&Trap)?;
            if !section::may(base, 2 * PAGE, Rights::READ, section::Who::Own) {
                return Err(section::why_not(base, Rights::READ));
            }
            Info::at(base)
        })
        .copied()
}

/// The sections about users that a program of `user` may read: its own; the system's programs, all. (Who takes another user's faults.)
pub fn of_users(user: u64) -> Vec<Info> {
    let users = all().map(|info| info.users().collect::<Vec<_>>()).unwrap_or_default();
    let open = users.into_iter().filter(|one| user == USER_SYSTEM || one.user == user);
    open.filter_map(|one| Info::at(one.section).ok()).collect()
}

macro_rules! tables {
    ($($(#[doc = $doc:literal])+ $name:ident $table:ident $record:ty, $key:ident;)*) => { $(
        $(#[doc = $doc])+
        pub fn $name(&self) -> impl Iterator<Item = $record> + use<> {
            const N: usize = size_of::<$record>() / 8;
            let records = self.records(table::$table).filter_map(::info::read::<N>);
            let records = records.filter_map(|words| <$record>::read_from_bytes(words.as_bytes()).ok());
            records.filter(|one| one.$key != 0)
        }
    )* };
}

impl Info {
    /// The one at this address, which this program may read.
    fn at(base: u64) -> Result<Info, Error> {
        let words = |len: u64| {
            // SAFETY: the kernel says that the section is there and may be read; it is never taken away, and whatever is there is a
            // valid word. Only loads are made of it.
            unsafe { core::slice::from_raw_parts(base as *const AtomicU64, (len / 8) as usize) }
        };
        let head = Info { words: words(2 * PAGE) }.head();
        if head.magic != MAGIC || head.version != VERSION {
            return Err(Error::NotSupported);
        }
        Ok(Info { words: words(head.len) })
    }

    /// Its head, with what is live there.
    pub fn head(&self) -> Head {
        let words: [u64; size_of::<Head>() / 8] = self.load((HEAD / 8) as usize);
        Head::read_from_bytes(words.as_bytes()).unwrap_or_default()
    }

    fn load<const N: usize>(&self, at: usize) -> [u64; N] {
        core::array::from_fn(|word| self.words.get(at + word).map_or(0, |word| word.load(Ordering::Relaxed)))
    }

    /// Where a table is.
    pub fn table(&self, which: usize) -> Table {
        let at = HEAD as usize + offset_of!(Head, table) + which * size_of::<Table>();
        let words: [u64; size_of::<Table>() / 8] = self.load(at / 8);
        Table::read_from_bytes(words.as_bytes()).unwrap_or_default()
    }

    /// The words of each record of a table that was ever used.
    pub fn records(&self, which: usize) -> impl Iterator<Item = &'static [AtomicU64]> + use<> {
        let (table, words) = (self.table(which), self.words);
        let size = (table.size / 8) as usize;
        let used = if table.offset == 0 { 0 } else { table.used.min(table.room) as usize };
        (0..used).filter_map(move |at| words.get((table.offset / 8) as usize + at * size..)?.get(..size))
    }

    tables! {
        /// Lines of interrupts that somebody has asked for.
        interrupts INTERRUPTS Interrupt, number;
        /// Tasks that have not ended.
        tasks TASKS Task, number;
        /// Threads.
        threads THREADS Thread, number;
        /// Users with a section of their own.
        users USERS User, section;
        /// A user's tasks.
        own_tasks OWN_TASKS OwnTask, number;
        /// Threads of those.
        own_threads OWN_THREADS OwnThread, number;
        /// Sections that they own.
        sections SECTIONS Section, base;
        /// Posts that they own.
        posts POSTS Post, number;
        /// Which classes of sections have which protection keys in a task's view.
        keys KEYS Keys, task;
    }

    /// What each processor that works has done, by its number.
    pub fn processors(&self) -> impl Iterator<Item = (usize, Counts)> + use<> {
        let counts = self.records(table::PROCESSORS).map(|record| {
            let words: [u64; size_of::<Counts>() / 8] =
                core::array::from_fn(|word| record.get(word).map_or(0, |word| word.load(Ordering::Relaxed)));
            Counts::read_from_bytes(words.as_bytes()).unwrap_or_default()
        });
        counts.enumerate().filter(|(_, counts)| counts.online != 0)
    }

    /// Seats, of all processors.
    pub fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        const N: usize = size_of::<Seat>() / 8;
        let seats = self.records(table::SEATS).filter_map(::info::read::<N>);
        seats.filter_map(|words| Seat::read_from_bytes(words.as_bytes()).ok())
    }

    /// What has come to the post of this number. (Of the section for everybody.)
    pub fn post_counts(&self, post: u64) -> PostCounts {
        let words: [u64; size_of::<PostCounts>() / 8] = self.of_post(post, 0);
        PostCounts::read_from_bytes(words.as_bytes()).unwrap_or_default()
    }

    /// How many messages wait there.
    pub fn messages(&self, post: u64) -> u64 {
        let [waiting] = self.of_post(post, offset_of!(PostCounts, waiting) / 8);
        waiting
    }

    /// Words of its record from this one on; zeroes where there is no such post.
    fn of_post<const N: usize>(&self, post: u64, first: usize) -> [u64; N] {
        let table = self.table(table::POST_COUNTS);
        if post >= table.room {
            return [0; N];
        }
        self.load(((table.offset + post * table.size) / 8) as usize + first)
    }

    /// The machine.
    pub fn machine(&self) -> Machine {
        let words: [u64; size_of::<Machine>() / 8] = self.load((self.table(table::MACHINE).offset / 8) as usize);
        Machine::read_from_bytes(words.as_bytes()).unwrap_or_default()
    }

    /// What this section's user was promised. (Of his section.)
    pub fn promised(&self) -> Promised {
        const N: usize = size_of::<Promised>() / 8;
        let words = self.records(table::PROMISED).next().and_then(::info::read::<N>);
        words.and_then(|words| Promised::read_from_bytes(words.as_bytes()).ok()).unwrap_or_default()
    }

    /// What he has of it. `all`: the section for everybody. (Of his section.)
    pub fn had(&self, all: &Info) -> Had {
        let (each, own) = (self.promised(), self.own_tasks().collect::<Vec<_>>());
        let paid = all.tasks().filter(|one| own.iter().any(|payer| payer.number == one.payer));
        let paid: Vec<u64> = paid.map(|one| one.number).collect();
        // What is paid for is counted with its payer.
        let shown = if own.is_empty() { 0 } else { each.shown };
        let none = Had { frames: shown, ..Had::default() };
        own.iter().filter(|one| !paid.contains(&one.number)).fold(none, |had, one| {
            let [frames, sections, _, threads] = one.used;
            let frames = frames.saturating_sub(one.shared);
            let heap = |at: usize| each.section[at] * sections + each.thread[at] * threads + each.frame[at] * frames;
            // What nobody pays for is counted nowhere itself.
            let most = heap(1) + one.lists + each.thread[1];
            Had { frames: had.frames + frames, least: had.least + heap(0), most: had.most + most }
        })
    }

    /// The thread that runs on each processor, 0: none. (Of the section for everybody.)
    pub fn running(&self) -> impl Iterator<Item = u64> + use<> {
        let words = self.words;
        (0..RUNNING_MAX as usize)
            .filter_map(move |at| Some(words.get(at * RUNNING_STEP as usize / 8)?.load(Ordering::Acquire)))
    }

    /// Nanoseconds since boot, by this processor's counter.
    pub fn now(&self) -> u64 {
        let head = self.head();
        ((u128::from(ticks().wrapping_sub(head.origin)) * u128::from(head.ns_per_tick)) >> 32) as u64
    }

    /// All threads as they are now, in the order of their numbers.
    pub fn threads_now(&self) -> Vec<ThreadNow> {
        let mut all: Vec<ThreadNow> =
            self.records(table::THREADS).filter_map(|record| self.thread_now(record)).collect();
        all.sort_unstable_by_key(|one| one.thread);
        all
    }

    /// A thread between two looks at who runs that say the same, or as it was seen last if there are none such. Its processor says that it runs
    /// before its record does, and that it does not after that: so what is said to run by the record alone waits by the short way.
    fn thread_now(&self, record: &[AtomicU64]) -> Option<ThreadNow> {
        const TRIES: usize = 16;
        const N: usize = size_of::<Thread>() / 8;
        let mut seen = None;
        for _ in 0..TRIES {
            let thread = |words: [u64; N]| Thread::read_from_bytes(words.as_bytes()).ok();
            let number = ::info::read(record).and_then(thread).map(|thread| thread.number).filter(|one| *one != 0)?;
            let runs = || self.running().position(|one| one == number);
            let before = runs();
            let (first, now) = (::info::read(record).and_then(thread)?, self.now());
            let again = ::info::read(record).and_then(thread)?;
            let steady = before == runs() && first.number == number && again.number == number;
            // It is taken up, or let go of.
            let moves = before.is_some() && first.since == 0;
            seen = Some(ThreadNow::of(&first, before, now));
            if steady && !moves && (first.since, first.time, first.state) == (again.since, again.time, again.state) {
                break;
            }
            core::hint::spin_loop();
        }
        seen
    }
}

/// The processor's counter of ticks.
#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: programs may read it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// What a user has of what he was promised: frames, and bytes of the kernel's heap at the least and at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Had {
    pub frames: u64,
    pub least: u64,
    pub most: u64,
}

/// A thread, with what follows from who runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadNow {
    pub thread: u64,
    pub task: u64,
    /// `task::state`.
    pub state: u64,
    pub processor: u64,
    /// It waits, and that is written down: so is at which posts ([`OwnThread::waits_at`]).
    pub settled: bool,
    /// Nanoseconds that it has run until now.
    pub time: u64,
    pub faults: u64,
}

impl ThreadNow {
    fn of(thread: &Thread, at: Option<usize>, now: u64) -> ThreadNow {
        let (written, processor) = (thread.state & 0xff, thread.state >> 8);
        let state = match (at, written) {
            (Some(_), _) => state::RUNNING,
            // Laid aside by the short way of a message, which the kernel proper writes down later.
            (None, state::RUNNING) => state::WAITING,
            (None, written) => written,
        };
        let besides = if at.is_some() && thread.since != 0 { now.saturating_sub(thread.since) } else { 0 };
        ThreadNow {
            thread: thread.number,
            task: thread.task,
            state,
            processor: at.map_or(processor, |at| at as u64),
            settled: at.is_none() && written == state::WAITING,
            time: thread.time + besides,
            faults: thread.faults,
        }
    }
}

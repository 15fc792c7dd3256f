//! How the info sections are laid out (SSS-1, 12, 76; docs/decisions/0017): pages that the kernel writes and programs read, with no
//! call. One is for everybody; each user's programs have one more, about what is theirs. Both begin with a [`Head`].
//!
//! A record's first word is its sequence (`core/info`): odd while its fixed words are being written, and another number for each
//! object that has the place. The fixed words of a record are always of one moment; each live word is right by itself, and
//! belongs to the object that the fixed ones name.

use crate::section::NAME_LEN;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const MAGIC: u64 = u64::from_le_bytes(*b"musuinfo");
/// Of the whole layout. It counts up when a word gets another meaning or place.
pub const VERSION: u64 = 3;
/// Where the head lies. In the section for everybody the page before it says who runs where ([`super::RUNNING_STEP`]).
pub const HEAD: u64 = crate::layout::PAGE;
/// In place of a user: everybody.
pub const EVERYBODY: u64 = u64::MAX;

/// What a table holds.
pub mod table {
    /// In the section for everybody. A page for each processor, the machine, lines of interrupts, seats, tasks, threads; and users,
    /// with the section of each.
    pub const PROCESSORS: usize = 0;
    pub const MACHINE: usize = 1;
    pub const INTERRUPTS: usize = 2;
    pub const SEATS: usize = 3;
    pub const TASKS: usize = 4;
    pub const THREADS: usize = 5;
    pub const USERS: usize = 6;
    /// In a user's.
    pub const OWN_TASKS: usize = 7;
    pub const OWN_THREADS: usize = 8;
    pub const SECTIONS: usize = 9;
    pub const POSTS: usize = 10;
    /// In the section for everybody: what has come to each post, by its number. Whose it is is not said.
    pub const POST_COUNTS: usize = 11;
    /// In a user's: the protection keys of each task's view. No room for any on a machine without keys.
    pub const KEYS: usize = 12;
    /// In a user's: what he was promised. One record.
    pub const PROMISED: usize = 13;
    pub const COUNT: usize = 14;
}

/// Where a table's records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Table {
    /// From the beginning of the section, in bytes; 0: the table is not in this one.
    pub offset: u64,
    /// Bytes of a record. Later versions may make it longer.
    pub size: u64,
    /// Records that there may be: pages come as they are needed, and what lies where none has come to is invalid.
    pub room: u64,
    /// Live. No record behind so many was ever used.
    pub used: u64,
    /// Live. Objects that there are and that had no room.
    pub left_out: u64,
    pub unused: [u64; 3],
}

/// Nothing in it changes but what is live in its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Head {
    pub magic: u64,
    pub version: u64,
    /// Bytes of the section.
    pub len: u64,
    pub node: u64,
    /// Whose it is; [`EVERYBODY`].
    pub user: u64,
    /// Bits of [`super::feature`].
    pub features: u64,
    /// Seconds since 1970 at boot.
    pub boot_time: u64,
    /// Nanoseconds since boot are `(tsc - origin) * ns_per_tick >> 32`.
    pub origin: u64,
    pub ns_per_tick: u64,
    pub tables: u64,
    pub unused: [u64; 6],
    pub table: [Table; table::COUNT],
}

/// What a processor has done since boot. It alone writes, each word is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// Entries by the full entry; by the short way of bound calls and returns; switches that the short way has made; light calls,
    /// and calls with messages there after which their thread went on. Together: all entries from user mode.
    pub entries: u64,
    pub crossings: u64,
    pub passes: u64,
    pub stays: u64,
    /// Page-table roots loaded, and key registers written, by the kernel.
    pub views: u64,
    pub keys: u64,
    /// Switches that the kernel proper has made.
    pub switches: u64,
    pub faults: u64,
    pub interrupts: u64,
    pub shootdowns: u64,
    pub idle_ns: u64,
    /// Calls into other programs that the kernel proper has made.
    pub epc: u64,
    pub tlb_flushes: u64,
    pub copied_bytes: u64,
    pub copies: u64,
    pub events: u64,
    pub left_flags: u64,
    pub barriers: u64,
    pub stops: [u64; super::STOPS],
    /// 1: it idles.
    pub idle: u64,
    pub apic: u64,
    /// 1: it works.
    pub online: u64,
    /// Bytes of the kernel's heap that were had here, less those given back here. Of all processors together, modulo 2^64: those in use.
    pub heap_used: u64,
    /// Messages that were taken to a receiver or into the pool, those of interrupts each time that one comes; and memory operations that were not refused (SSS-44).
    pub messages: u64,
    pub operations: u64,
}

/// The machine. Each word is live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Machine {
    /// Frames of memory.
    pub total: u64,
    pub free: u64,
    /// Frames that only what is needed may still have.
    pub reserve: u64,
    /// Bytes of the kernel's heap. (How many are in use processors count: [`Counts::heap_used`].)
    pub heap: u64,
    /// Frames that hold page tables of views.
    pub views: u64,
    pub sections: u64,
    pub tasks: u64,
    pub threads: u64,
    /// Base of the trace's section ([`crate::trace`]), which not everybody may read; 0: nobody has switched it on since boot.
    pub trace: u64,
    /// Base of a section with nothing in it: who may call that may place texts (`text_place`), as its list says.
    pub placing: u64,
    /// Frames, and bytes of the kernel's heap, that users were promised and have not taken, and that are promised to who comes: nobody else may have them. As of
    /// when a program last came or went that nobody pays for, or it was looked at, which is with each charge where it decides.
    pub owed: u64,
    pub owed_heap: u64,
    /// Frames that hold tables of the info sections: as many as for the most objects that there were at once.
    pub records: u64,
}

/// A line of interrupts; live from `came` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Interrupt {
    pub sequence: u64,
    /// As people know it, plus one; 0: nobody has asked for this line.
    pub number: u64,
    pub vector: u64,
    /// The device's section, and the text that its messages are for (0: none).
    pub section: u64,
    pub text: u64,
    /// One of [`super::way`].
    pub way: u64,
    /// Where it comes to; `u64::MAX`: nowhere yet. Where somebody wants it; `u64::MAX`: nowhere in particular.
    pub processor: u64,
    pub pinned: u64,
    pub came: u64,
    pub idle: u64,
    pub missed: u64,
    pub longest_ns: u64,
    /// The task whose the text is; fixed.
    pub task: u64,
    /// Since when its message waits, received by nobody or by a thread that has not run since, in ns since boot; 0: none does. The longest
    /// that one has, in ns.
    pub marked: u64,
    pub longest_mark_ns: u64,
    /// The processor that the last one came to; live.
    pub last: u64,
}

/// A processor's seat; live are `asked`, `named`, `none`, `lost` and `missed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Seat {
    pub sequence: u64,
    pub seat: crate::sched::SeatInfo,
    pub unused: [u64; 2],
}

/// A task, for everybody; live from `time` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Task {
    pub sequence: u64,
    /// 0: the place is free.
    pub number: u64,
    /// The task that what this one uses counts for, too; 0: none.
    pub payer: u64,
    pub user: u64,
    /// The system's tasks have their name here; persons' only in their own section.
    pub name: [u8; NAME_LEN],
    /// Nanoseconds of processor time, as of the last switch or tick.
    pub time: u64,
    pub threads: u64,
    /// One of [`life`].
    pub life: u64,
    /// 1 when it runs Linux programs in a window.
    pub foreign: u64,
    /// Of the text that its last thread was started in (`section::class`).
    pub class: u64,
    pub unused: [u64; 3],
}

/// What becomes of a task.
pub mod life {
    pub const MADE: u64 = 0;
    pub const STARTED: u64 = 1;
    pub const ENDING: u64 = 2;
}

/// A thread, for everybody; live from `state` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Thread {
    pub sequence: u64,
    pub number: u64,
    pub task: u64,
    /// `task::state`, and the processor that it runs on, ran on last or is ready for, from bit 8 on: what the kernel proper has written
    /// down. Who runs by the short way of a message is among those who run ([`super::RUNNING_STEP`]), and this says what was before.
    pub state: u64,
    /// Nanoseconds that it has run, as of the last switch or tick, and since when it has run besides; 0: it does not.
    pub time: u64,
    pub since: u64,
    pub faults: u64,
    pub unused: u64,
}

/// A user with an info section of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct User {
    pub sequence: u64,
    pub user: u64,
    /// Who may read it: that user, and the system.
    pub section: u64,
    pub unused: [u64; 5],
}

/// A task, for its user; live from `used` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OwnTask {
    pub sequence: u64,
    pub number: u64,
    pub name: [u8; NAME_LEN],
    /// Frames, sections, bytes of addresses, threads: as in `task::Limits`.
    pub used: [u64; 4],
    pub limits: [u64; 4],
    /// Text of the pager of its threads; 0: none.
    pub pager: u64,
    /// As in [`Section::asked`].
    pub asked: u64,
    /// Of a task that nobody pays for, with those that it pays for: its frames that are somebody else's, too, who keeps them; and bytes of the kernel's
    /// heap that lists of its objects take at the most.
    pub shared: u64,
    pub lists: u64,
    pub unused: [u64; 14],
}

/// A thread, for its task's user; live from `text` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OwnThread {
    pub sequence: u64,
    pub number: u64,
    /// The text that it was in when it last gave a processor up, how deep in calls, and that text's class (`section::class`).
    pub text: u64,
    pub depth: u64,
    pub class: u64,
    /// The text that it was started in.
    pub own_text: u64,
    /// If it waits: at which posts, [`POST_BITS`] for the number of each; 0: at none. As in [`Thread::state`], what the kernel proper
    /// has written down.
    pub posts: [u64; 2],
}

/// See [`OwnThread::posts`].
pub const POST_BITS: u32 = 16;
const _: () =
    assert!(crate::post::POSTS_MAX <= 1 << POST_BITS && crate::post::SEVERAL_MAX <= 2 * (64 / POST_BITS as u64));

impl OwnThread {
    /// The numbers of the posts at which it waits.
    pub fn waits_at(&self) -> impl Iterator<Item = u64> + use<> {
        let all = self.posts.map(|word| {
            core::array::from_fn::<u64, 4, _>(|at| word >> (at as u32 * POST_BITS) & ((1 << POST_BITS) - 1))
        });
        all.into_iter().flatten().filter(|number| *number != 0)
    }
}

/// A section, for its owner's user; live from `len` on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Section {
    pub sequence: u64,
    /// 0: the place is free.
    pub base: u64,
    pub reserve: u64,
    /// Task.
    pub owner: u64,
    pub name: [u8; NAME_LEN],
    /// `section::kind`, entries of its ACL from bit 8 on, `section::flag` from bit 32 on.
    pub kind: u64,
    /// Texts, of `section::SectionInfo::placed`: the class, from bit 8 on whether it has lost another one, from bit 16 on its long runs (at most 65 535)
    /// and from bit 32 on the longest, in us; and the page at which they are unclear.
    pub placed: u64,
    pub unclear: u64,
    /// Bytes.
    pub len: u64,
    /// Pages in memory that its owner pays for.
    pub charged: u64,
    /// Text of its pager, 0: none; and the pager's level.
    pub pager: u64,
    pub level: u64,
    /// Faults that this pager was asked about, and from bit [`IN_VAIN`] on those of them that became errors of the access.
    pub asked: u64,
}

/// See [`Section::asked`].
pub const IN_VAIN: u32 = 40;

/// What has come to a post since somebody has had it, by its number, for everybody; nothing of a post that nobody has. Each word is live. (Answers to
/// questions come to no post.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PostCounts {
    /// Messages that wait to be received, and the most that ever have at once.
    pub waiting: u64,
    pub most: u64,
    /// Messages that went to a thread that waited for them, and such as nobody waited for. (An interrupt that comes while its message waits is none.)
    pub handed: u64,
    pub queued: u64,
    /// Calls that could not send any more, or not all, because so much of the sender's waited already (`MessageQuota`).
    pub refused: u64,
    pub unused: [u64; 3],
}

impl PostCounts {
    pub fn sent(&self) -> u64 {
        self.handed.wrapping_add(self.queued)
    }

    /// (Words that were read one after the other may be of different moments.)
    pub fn received(&self) -> u64 {
        self.sent().saturating_sub(self.waiting)
    }
}

/// A post, for its owner's user. What has come there is in [`table::POST_COUNTS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Post {
    pub sequence: u64,
    /// 0: the place is free.
    pub number: u64,
    /// The post's address, and the task that owns it.
    pub base: u64,
    pub owner: u64,
    pub unused: [u64; 4],
}

/// What a user was promised (`docs/decisions/0009`, `0020`), and has; all are 0 but for the six of weights as long as he has nothing, and for the
/// system, which is promised nothing. What he has of memory and of the heap follows from his tasks' records: of frames those in [`OwnTask::used`] without
/// [`OwnTask::shared`], and [`Promised::shown`], of the heap what is said below for each object, and [`OwnTask::lists`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Promised {
    pub sequence: u64,
    /// Frames, and bytes of the kernel's heap. He may have more, as long as nobody else was promised it.
    pub frames: u64,
    pub heap: u64,
    /// Posts, messages that wait in queues, records of threads that have waited for messages, accounts of tasks that have sent such. He has no more.
    pub pool: [u64; 4],
    /// What he has of those: of messages as of when one of the others last changed.
    pub pool_had: [u64; 4],
    /// What a section, a thread (a task counts as one) and a frame take of the heap, in bytes, at the least and at the most.
    pub section: [u64; 2],
    pub thread: [u64; 2],
    pub frame: [u64; 2],
    /// Frames of this section that count as had by him: all but the first few.
    pub shown: u64,
    pub unused: [u64; 14],
}

/// Keys that classes of sections can have. The processor's first two have a purpose of their own.
pub const CLASS_KEYS: usize = 14;

/// The keys of a task's view, for its user; live from `misses` on. They hold for all its threads, on whatever processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Keys {
    pub sequence: u64,
    /// 0: the place is free.
    pub task: u64,
    /// As in [`crate::task::KeyUse`].
    pub misses: u64,
    pub given: u64,
    pub evicted: u64,
    pub looks: u64,
    /// By the number of the key, from the third on.
    pub key: [Key; CLASS_KEYS],
    pub unused: [u64; 2],
}

/// A key, and the class of sections that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Key {
    /// The first text that the class's list names; 0: it is for all texts.
    pub text: u64,
    /// Entries of that list, as far as this task is concerned; 0: nobody has the key.
    pub entries: u64,
    /// Calls without the kernel into the texts of the list, as of when keys were last looked through because one was wanted. (Loads and
    /// stores nobody counts.)
    pub uses: u64,
    /// What is left of these, of which older ones count less. Whose is least loses its key.
    pub heat: u64,
}

/// Bytes of a record, a power of two.
pub const fn size<T>() -> u64 {
    let size = size_of::<T>() as u64;
    assert!(size.is_power_of_two() && size >= 64 && size <= crate::layout::PAGE);
    size
}

const _: () = assert!(size_of::<Head>() as u64 <= crate::layout::PAGE);
const _: [u64; 12] = [
    size::<Interrupt>(),
    size::<Seat>(),
    size::<Task>(),
    size::<Thread>(),
    size::<User>(),
    size::<OwnTask>(),
    size::<OwnThread>(),
    size::<Section>(),
    size::<PostCounts>(),
    size::<Post>(),
    size::<Keys>(),
    size::<Promised>(),
];

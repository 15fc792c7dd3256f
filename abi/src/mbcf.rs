//! Memory operations (SSS-44 to 49, 80 to 121; docs/decisions/0019): commands that name an address, whoever's section it lies in, and the
//! structures that queues and signals have in memory.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that one operation carries at the most.
pub const DATA_MAX: u64 = 1024;
/// Structures lie at multiples of this.
pub const STRUCTURE_ALIGN: u64 = 64;
/// Senders that a queue remembers to have stopped; of more, records are cancelled only.
pub const STOPPED_MAX: usize = 8;
/// Signals of one structure that may be under way at the most.
pub const NEST_MAX: u64 = 16;

/// What an operation is asked for besides, as bits.
pub mod option {
    /// Its outcome is written to the report (SSS-46).
    pub const STATUS: u64 = 1;
    /// If it fails, why is written to the report (SSS-47).
    pub const ERROR: u64 = 2;
    /// It is waited for by barriers. (On the own node nothing is ever under way.)
    pub const BARRIER: u64 = 4;
    pub const ALL: u64 = 7;
}

/// Outcomes; also the value of the operations on queues and signals.
pub mod status {
    /// It was done; of a record: registered.
    pub const DONE: u64 = 1;
    /// Of a record or signal: cancelled whole.
    pub const CANCELLED: u64 = 2;
    /// Cancelled, and the sender's queue has stopped: `packet` is to be sent again by `mbcf_fifoe_retry`.
    pub const STOPPED: u64 = 3;
    /// It was refused.
    pub const FAILED: u64 = 4;
}

/// Where an operation's outcome is written, if asked for. Lies at a multiple of its length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Report {
    /// One of [`status`]; written last.
    pub status: u64,
    /// The word of the error; 0: none.
    pub error: u64,
    /// Of an ordered queue: the packet at which it has stopped.
    pub packet: u64,
    pub reserved: u64,
}

/// Who issued an operation, as the kernel knows it: the beginning of a record where the receiver wants it (SSS-117).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Sender {
    pub node: u64,
    pub user: u64,
    pub task: u64,
    pub thread: u64,
    pub text: u64,
}

/// In the upper half of the flags of structures.
pub mod magic {
    pub const FIFO: u64 = 0x4649_464f << 32;
    pub const SIGNAL: u64 = 0x5347_4e4c << 32;
}

/// Of a queue.
pub mod fifo_flag {
    /// A sender to the ordered queue has stopped.
    pub const STOPPED: u64 = 1;
    /// Every record begins with a [`Sender`](super::Sender).
    pub const SENDER: u64 = 2;
}

/// A queue as it is seen in memory (SSS-83); a picture that the kernel draws and never looks at. There are records if `read` is not `write`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FifoWords {
    pub start: u64,
    pub end: u64,
    pub read: u64,
    pub flags: u64,
    /// Changed last.
    pub write: u64,
}

/// Start types (SSS-112 to 114).
pub mod start {
    pub const SCHEDULER: u64 = 1;
    pub const DESTINATION: u64 = 2;
    pub const SOURCE: u64 = 3;
}

/// Where data go (SSS-116).
pub mod store {
    pub const MEMORY: u64 = 1;
    pub const QUEUE: u64 = 2;
}

/// Start conditions (SSS-119 to 121).
pub mod condition {
    pub const REFUSE: u64 = 1;
    pub const STORE_ONLY: u64 = 2;
    pub const START_ANYWAY: u64 = 3;
}

/// Of a signal.
pub mod signal_flag {
    /// Data begin with a [`Sender`](super::Sender).
    pub const SENDER: u64 = 2;
}

/// What `signal_init` is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalSetup {
    /// The thread that runs what is started, one of the own task that was started in the executing text.
    pub thread: u64,
    /// A gate of the executing text; 0 where the sender names one.
    pub entry: u64,
    pub start: u64,
    pub store: u64,
    pub condition: u64,
    /// How many may be under way where they start anyway, 1 to [`NEST_MAX`].
    pub most: u64,
    /// The buffer, or the structure of the queue (its length is 0 here), in the section of the structure.
    pub buffer: u64,
    pub buffer_len: u64,
    pub flags: u64,
}

/// A signal's structure as it is seen in memory (SSS-109).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SignalWords {
    /// Start type, store type from bit 8 on, condition from bit 16 on.
    pub kinds: u64,
    pub entry: u64,
    pub buffer: u64,
    pub buffer_end: u64,
    pub thread: u64,
    /// Programs that run or are to start.
    pub under_way: u64,
    pub flags: u64,
}

//! What the kernel tells about the machine.

pub mod layout;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Processor {
    pub index: u64,
    pub apic: u64,
    /// Thread that runs there, 0: idle.
    pub thread: u64,
    /// Counters since boot. Entries from user mode: calls, faults and interrupts.
    pub entries: u64,
    pub switches: u64,
    /// Page-table roots loaded because another view is to be used.
    pub view_switches: u64,
    pub faults: u64,
    pub interrupts: u64,
    pub shootdowns: u64,
    /// Nanoseconds spent idle.
    pub idle: u64,
    /// Bits of [`feature`].
    pub features: u64,
    pub epc: u64,
    /// Times that translations were forgotten otherwise than by a change of view.
    pub tlb_flushes: u64,
    /// Bytes copied by the kernel from a program's memory, to it, from one page to another, or of a message that it keeps until it is received.
    pub copied_bytes: u64,
    /// Times that it did so; what lies in several pages may be copied in as many parts.
    pub copies: u64,
    /// Events that schedulers outside the kernel were told.
    pub events: u64,
    /// Processor flags with which the timer's interrupt has found the kernel, of those that a program may set and that mean something
    /// there (AC, DF, TF, NT): none, unless a way in leaves them.
    pub left_flags: u64,
    /// Times that a program that has touched a secret section was entered or left, so that branch predictors are forgotten: on processors
    /// with [`feature::IBPB`].
    pub barriers: u64,
    /// Messages that were taken to a receiver or into the pool; memory operations that were not refused.
    pub messages: u64,
    pub operations: u64,
    /// Where in the gate threads were stopped and brought to where they could go on: a bit for each byte of its code.
    pub stops: [u64; STOPS],
}

/// Words of [`Processor::stops`].
pub const STOPS: usize = 8;

/// The section that `running` names holds a word for each processor, this far apart: the number of the thread that runs there;
/// 0: none. The kernel keeps it, everybody may read it.
pub const RUNNING_STEP: u64 = 64;
/// So far behind it: the number of the thread on whose turn that one runs. They differ when a message has handed the processor over: the
/// receiver runs on the sender's turn until it waits.
pub const RUNNING_TURN: u64 = 8;
/// Processors that there is room for. Behind them is the number of threads that were watched and have ended, since boot.
pub const RUNNING_MAX: u64 = crate::layout::PAGE / RUNNING_STEP - 1;
pub const RUNNING_ENDS: u64 = RUNNING_MAX * RUNNING_STEP;

/// Features found at boot (and not hidden).
pub mod feature {
    pub const SMEP: u64 = 1;
    pub const SMAP: u64 = 2;
    pub const PKU: u64 = 4;
    pub const X2APIC: u64 = 8;
    pub const PCID: u64 = 16;
    pub const FSGSBASE: u64 = 32;
    pub const AVX: u64 = 64;
    pub const UMIP: u64 = 128;
    /// `rdtscp` gives the number of the processor in `ecx`.
    pub const RDTSCP: u64 = 256;
    /// What branch predictors have learnt can be forgotten.
    pub const IBPB: u64 = 512;
    /// Pages of 1 GiB.
    pub const PAGES_1G: u64 = 1024;
}

/// Bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
    pub kernel_heap: u64,
    pub kernel_heap_used: u64,
    /// Frames that hold page tables of views, in bytes.
    pub views: u64,
    pub sections: u64,
    pub tasks: u64,
    pub threads: u64,
    /// Pages of the info sections' tables, in bytes.
    pub records: u64,
}

impl Memory {
    /// What the kernel has for what it keeps of others, and does not give back when that is less: its heap, and the tables of the info sections.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.kernel_heap + self.records
    }
}

/// How an interrupt reaches its driver.
pub mod way {
    /// Nobody wants to know.
    pub const NONE: u64 = 0;
    /// As a message to a post.
    pub const POST: u64 = 1;
    /// The scheduler calls the driver.
    pub const CALL: u64 = 2;
}

/// What is known of a line of interrupts.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Interrupt {
    /// Its number, as people know it; `u64::MAX`: nobody has asked for this line.
    pub number: u64,
    pub vector: u64,
    /// The device's section, and the text that its messages are for (0: none).
    pub section: u64,
    pub text: u64,
    /// One of [`way`].
    pub way: u64,
    /// Where it comes to; `u64::MAX`: nowhere yet.
    pub processor: u64,
    /// Where somebody wants it; `u64::MAX`: nowhere in particular.
    pub pinned: u64,
    /// Times that it came; to an idle processor; to a busy one though another was idle.
    pub came: u64,
    pub idle: u64,
    pub missed: u64,
    /// Longest time that the kernel has spent on one, in ns, from its entry on.
    pub longest_ns: u64,
    /// Since when its message waits for a thread to run that has received it, in ns since boot (0: none waits), and the longest time that
    /// one has waited.
    pub marked: u64,
    pub longest_mark_ns: u64,
    /// The processor that the last one came to.
    pub last: u64,
}

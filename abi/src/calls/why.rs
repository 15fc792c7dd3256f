//! Why a call takes the full entry though a light one would cost less (SSS-39): what is called often and cannot wait is light, and of each
//! other one this says what keeps it from that, or that it would gain nothing.

use super::{Entry, Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It may wait, give the processor away, or never come back: that takes a whole context.
    Waits,
    /// Whom it has woken, started or ended may be who is to run next, or not to run: on the way out that is looked at, as a full entry does. One that is
    /// frequent mostly has (`system::s38_trace::rare_calls_are_rare`).
    Looks,
    /// It goes on with, or tells, more registers than a procedure keeps.
    Registers,
    /// It has a short way of its own, nearer than the light entry (docs/decisions/0007, 0009, 0016).
    Short,
    /// It takes as long as what it is about is large, with interrupts let in between: beside that the way in is nothing, as the same test holds of one that is
    /// frequent.
    Long,
    /// Once for a program, a thread, a section, a gate, a post or a device, not for each use (`system::s38_trace` counts).
    Rare,
    /// To be compared with the same by the light entry (SSS-M2).
    Compared,
}

impl Why {
    pub const ALL: [Why; 7] = [Why::Waits, Why::Looks, Why::Registers, Why::Short, Why::Long, Why::Rare, Why::Compared];

    /// For the page of all calls.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Why::Waits => "may wait, give the processor away, or never come back",
            Why::Looks => "whom it has woken, started or ended is looked at on the way out, which a full entry does",
            Why::Registers => "goes on with, or tells, more registers than a procedure keeps",
            Why::Short => "has a short way of its own, nearer than the light entry",
            Why::Long => "takes as long as what it is about is large, with interrupts let in between",
            Why::Rare => {
                "is made once for a program, a thread, a section, a gate, a post or a device, not for each use"
            }
            Why::Compared => "is there to be compared with the same by the light entry",
        }
    }
}

impl Row {
    /// Why it takes the full entry. `None`: it does not; or nobody has said why, which a test finds.
    #[must_use]
    pub const fn why_full(&self) -> Option<Why> {
        if !matches!(self.entry, Entry::Full) {
            return None;
        }
        match self.number {
            // Ends, joins, waits, sleeps; fast schedulers' requests; power_off.
            0x01 | 0x02 | 0x04 | 0x06..=0x08 | 0x0f | 0x13 | 0x55 => Some(Why::Waits),
            // thread_create, thread_kill, wake, task_start, task_kill, task_end, scheduler_set, foreign_start, clock_alarm, post_free.
            0x03 | 0x05 | 0x09 | 0x0d | 0x0e | 0x12 | 0x14 | 0x1c | 0x44 | 0x61 => Some(Why::Looks),
            // thread_registers, fault_return, foreign_return, foreign_vectors.
            0x1f | 0x36 | 0x45 | 0x46 => Some(Why::Registers),
            // thread_next, gate_return, single messages.
            0x15 | 0x34 | 0x62 | 0x64..=0x66 => Some(Why::Short),
            // Of sections: delete, resize, clone, seal, list, access lists, pages counted; bindings taken back; windows; many bytes, many messages;
            // loans taken back.
            0x21..=0x24 | 0x27 | 0x28 | 0x2c | 0x31 | 0x33 | 0x40..=0x42 | 0x52 | 0x54 | 0x63 | 0x67 => Some(Why::Long),
            0x1d => Some(Why::Compared),
            // identity; tasks made, told, limited and forgotten; posts and gates bound to sources of messages; sections made, named, given,
            // told of, their lists read, their pagers; gates made and bound; entries for faults and other systems' calls; traces; interrupts.
            0x0b
            | 0x0c
            | 0x10
            | 0x11
            | 0x17..=0x1b
            | 0x1e
            | 0x20
            | 0x25
            | 0x26
            | 0x29..=0x2b
            | 0x30
            | 0x32
            | 0x35
            | 0x37
            | 0x38 => Some(Why::Rare),
            0x43 | 0x53 | 0x58..=0x5a | 0x60 => Some(Why::Rare),
            _ => None,
        }
    }
}

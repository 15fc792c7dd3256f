//! Pagers as programs see them (architecture, section 14; SSS-57 to 60; `docs/decisions/0016`).
//!
//! A pager is a gate of a program that is called on the thread that has a fault, with four words: the section's base, the offset of the
//! address in it, the right that the access needs (bits of `Rights`), and one of [`miss`]. It makes the page valid (`page_validate`,
//! `page_supply`), or has the kernel do it, and answers 0 and one of [`answer`]; the instruction is then repeated. [`NOT_MINE`] sends the fault
//! to the next in order: the task's pager, the section's. Any other answer is an error of the access, as is an answer of 0 without a valid
//! page, [`TRIES`] times in a row.

/// Of `section_pager` and `task_pager`.
pub mod flag {
    /// The kernel makes the page valid before it calls the pager (SSS-60): a page that was not there is one of zeroes.
    pub const VALID_BEFORE: u64 = 1;
    /// All of them.
    pub const ALL: u64 = VALID_BEFORE;
}

/// The value that a pager answers beside 0.
pub mod answer {
    /// It has done what there was to do.
    pub const DONE: u64 = 0;
    /// The kernel is to make the page valid, as `page_validate` by the pager would: one entry of the kernel less.
    pub const VALID: u64 = 1;
}

/// Of `page_supply`.
pub mod supply {
    /// The page stays where it is, too: both are copies, and share its memory until one of them is stored to.
    pub const COPY: u64 = 1;
    /// The page is clean until something is stored there.
    pub const CLEAN: u64 = 2;
    /// All of them.
    pub const ALL: u64 = COPY | CLEAN;
}

/// What a page was that `page_take` was asked for.
pub mod page {
    /// There was nothing to take.
    pub const ABSENT: u64 = 0;
    /// Supplied as clean, and not stored to since.
    pub const CLEAN: u64 = 1;
    pub const DIRTY: u64 = 2;
}

/// The highest level of a section with a pager. A pager may have faults on sections of lower levels only; those without a pager have
/// level 0.
pub const LEVEL_MAX: u64 = 7;
/// That of a task's pager: above all sections.
pub const LEVEL_TASK: u64 = LEVEL_MAX + 1;

/// Answers of 0 in a row without a valid page, then it is an error.
pub const TRIES: u32 = 8;

/// How long a pager may take, ns of monotonic time, at the least; between this and twice this it is taken off the thread. If it has called somebody
/// by then who has not come back, that one has `task::CALLEE_GRACE_NS` first.
pub const TIME_NS: u64 = 5_000_000_000;

/// The answer of a pager that the page is not its affair: `Error::NotSupported`.
pub const NOT_MINE: u64 = crate::Error::NotSupported.word();

/// Why a page cannot be used.
pub mod miss {
    /// There is nothing behind it.
    pub const ABSENT: u64 = 1;
    /// It was made invalid (`page_invalidate`).
    pub const INVALID: u64 = 2;
}

/// What became of a fault that a pager was to deal with: `task::Exit::code` beside `task::cause::PAGER`.
pub mod why {
    /// The pager's program has ended, before or while it was asked.
    pub const DEAD: u64 = 1;
    /// It is a stranger to a callee, which does not wait for one (or the text decides for a processor).
    pub const STRANGER: u64 = 2;
    /// A pager has had a fault on a section whose level is not below its own.
    pub const LEVEL: u64 = 3;
    /// Whoever was asked has said that it is not his.
    pub const DECLINED: u64 = 4;
    /// It has answered with an error.
    pub const REFUSED: u64 = 5;
    /// It has had a fault itself.
    pub const FAULTED: u64 = 6;
    /// It has taken too long.
    pub const TIMED_OUT: u64 = 7;
    /// It has said that the page is there, and it was not, [`TRIES`](super::TRIES) times in a row.
    pub const NOT_VALID: u64 = 8;
    /// The thread is too deep in calls, or there is no memory for one more.
    pub const NO_ROOM: u64 = 9;

    /// For people.
    #[must_use]
    pub const fn text(why: u64) -> &'static str {
        match why {
            DEAD => "its pager has ended",
            STRANGER => "its pager is a stranger here",
            LEVEL => "a pager needs a page of a pager that is not below it",
            DECLINED => "its pager does not know it",
            REFUSED => "its pager has refused it",
            FAULTED => "its pager has faulted",
            TIMED_OUT => "its pager has taken too long",
            NOT_VALID => "its pager has not made it valid",
            NO_ROOM => "there is no room to call its pager",
            _ => "its pager has failed",
        }
    }
}

//! The address space (architecture, section 2). These numbers never move.

/// Bytes in a page, the unit of protection (CUBIX-7).
pub const PAGE: u64 = 4096;
/// Sections begin at multiples of this (2 MiB), so that no two sections share a page-table page.
pub const GRANULE: u64 = 2 << 20;
/// The window: private to a task. `[0, WINDOW_END)`.
pub const WINDOW_END: u64 = 1 << 46;
/// The single space: 32 slices, one per node (CUBIX-1, CUBIX-2).
pub const SPACE_BASE: u64 = 1 << 46;
pub const SPACE_END: u64 = 1 << 47;
/// Length of a node's slice, 2 TiB.
pub const SLICE_LEN: u64 = 1 << 41;
/// Node of a machine that has not been named. Slice 0 stays empty.
pub const UNNAMED_NODE: u64 = 1;
/// Greatest length that one section may reserve.
pub const RESERVE_MAX: u64 = 64 << 30;
/// The first program's text, the first section of the node's slice; the host tool relocates it for this address.
pub const FIRST_TEXT: u64 = slice_base(UNNAMED_NODE);
/// The last part of a slice holds stacks only: one page-table slot, which each thread has for itself.
pub const STACKS_LEN: u64 = 512 << 30;
/// Of a slice's addresses in front of posts and stacks, those that everybody's sections lie at. What is left, one in sixteen, is the system's, in one piece: or
/// persons' sections among its own would leave holes that are too short for it.
pub const COMMON_LEN: u64 = (SLICE_LEN - STACKS_LEN - crate::post::POSTS_LEN) / 16 * 15 / GRANULE * GRANULE;

/// Base address of a node's slice.
pub const fn slice_base(node: u64) -> u64 {
    SPACE_BASE + node * SLICE_LEN
}

/// `len` rounded up to whole pages; `None` if it does not fit 64 bits.
pub const fn pages_up(len: u64) -> Option<u64> {
    match len.checked_add(PAGE - 1) {
        Some(n) => Some(n / PAGE * PAGE),
        None => None,
    }
}

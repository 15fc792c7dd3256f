//! What a native program finds when it starts: `rdi` points to a [`StartInfo`] in a section that it may read.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const START_MAGIC: u64 = 0x3152_5453_5542_5355; // "USBUSTR1"

/// One open stream: the gate of a server that offers the interface `stream`, and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StreamRef {
    /// Entry address of the server's block of gates; 0: closed.
    pub gate: u64,
    pub id: u64,
}

/// A string: offset from the start of the `StartInfo`, and length in bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Str {
    pub offset: u64,
    pub len: u64,
}

#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StartInfo {
    pub magic: u64,
    /// Length of this record with all that follows it.
    pub len: u64,
    pub task: u64,
    pub user: u64,
    /// The instance's text and data sections.
    pub text: u64,
    pub data: u64,
    /// Entry address of the name service (0 for the first programs).
    pub names: u64,
    /// 0: input, 1: output, 2: errors.
    pub streams: [StreamRef; 3],
    /// `argc` [`Str`] at `args_offset`, then `envc` [`Str`] (`NAME=value`).
    pub argc: u64,
    pub envc: u64,
    pub args_offset: u64,
    /// For the first program: the boot [`Manifest`](crate::boot::Manifest); otherwise 0.
    pub manifest: u64,
}

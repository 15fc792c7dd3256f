//! What the host tool packs and the kernel unpacks: the boot pack, and the record that the first program gets.
//!
//! The pack is one file handed to the boot loader as its only module. It begins with a [`PackHeader`], followed by
//! `count` [`PackEntry`] records, then the members, each at an offset that is a multiple of the page size, so that
//! the kernel makes a section of every member without copying (a file is an address you load from).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// First eight bytes of a boot pack.
pub const PACK_MAGIC: [u8; 8] = *b"MUSUBIP1";
/// Longest name of a member, in bytes.
pub const NAME_LEN: usize = 200;

/// Longest command line of an `exec`, each word with [`EXEC_WORD`] bytes more.
pub const EXEC_MAX: usize = 40 << 10;
/// What a word takes beyond its own bytes.
pub const EXEC_WORD: usize = 9;

/// The servers of an image, by the names of their programs and of their services. It may be made without any of them.
pub const SERVERS: [&str; 11] =
    ["names", "loader", "files", "processes", "clock", "memory", "keyboard", "console", "pipes", "linux", "sched"];

/// What a member is.
pub mod kind {
    /// A file that programs can look up by its name: programs, `--put` files, `system.toml`.
    pub const FILE: u32 = 0;
    /// The first program's text, laid out for its load address (`ENTRY_*` in [`super::PackHeader`]).
    pub const FIRST_TEXT: u32 = 1;
    /// The first program's data, relocated by the host tool.
    pub const FIRST_DATA: u32 = 2;
    /// The command line that `./musubi exec` runs, NUL-separated words.
    pub const EXEC: u32 = 3;
    /// The kernel's own symbol table: (u32 offset from the image base, u32 name offset)*, see `host/pack`.
    pub const SYMBOLS: u32 = 4;
}

/// Flags of [`PackEntry`].
pub mod flag {
    /// The file may be executed (mode x on the host).
    pub const EXECUTABLE: u32 = 1;
    /// Put in by the user with `--put`.
    pub const PUT: u32 = 2;
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PackHeader {
    /// [`PACK_MAGIC`].
    pub magic: [u8; 8],
    /// Number of [`PackEntry`] records that follow.
    pub count: u64,
    /// Length of the whole pack in bytes, a multiple of the page size.
    pub len: u64,
    /// Address that the first program's text was relocated for: always [`crate::layout::FIRST_TEXT`].
    pub first_text: u64,
    /// Address of the first program's data, a fixed distance after its text.
    pub first_data: u64,
    /// Length in memory of the first program's data (its file length plus zeroes), bytes.
    pub first_data_len: u64,
    /// Address of the first program's first instruction.
    pub first_entry: u64,
    /// Build id of the kernel and programs: the first eight bytes of a hash over them.
    pub build_id: u64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct PackEntry {
    /// Offset of the member from the start of the pack, a multiple of the page size.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// One of [`kind`].
    pub kind: u32,
    /// Union of [`flag`].
    pub flags: u32,
    /// Modification time on the host, seconds since 1970.
    pub mtime: i64,
    /// Bytes used in `name`.
    pub name_len: u64,
    /// Name (UTF-8 or not: any bytes but NUL).
    pub name: [u8; NAME_LEN],
}

/// What the kernel tells the first program: lies at the start of a read-only section whose address is in `rdi`.
/// After it: `files` [`FileRecord`], then `devices` [`DeviceRecord`], then the names, then the exec words.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Manifest {
    /// Length of the manifest in bytes.
    pub len: u64,
    pub files: u64,
    pub devices: u64,
    /// Offset from the start of the manifest of the exec words (NUL-terminated each), and their length; 0 if none.
    pub exec_offset: u64,
    pub exec_len: u64,
    /// Seconds since 1970 at boot, from the machine's clock.
    pub boot_time: u64,
    pub build_id: u64,
}

/// One file of the boot pack, as a section.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FileRecord {
    /// Base address of the section that holds the file (0 for an empty file).
    pub section: u64,
    pub len: u64,
    /// Offset of the name from the start of the manifest, and its length.
    pub name_offset: u64,
    pub name_len: u64,
    pub mtime: i64,
    /// Union of [`flag`].
    pub flags: u64,
}

/// Kinds of [`DeviceRecord`].
pub mod device {
    /// 16550 at I/O ports, with an interrupt.
    pub const SERIAL: u64 = 1;
    /// PS/2 controller (ports 0x60 and 0x64) with the keyboard's interrupt.
    pub const PS2: u64 = 2;
    /// Linear framebuffer: `a` = width, `b` = height in pixels, `c` = bytes a line, `d` = bits a pixel.
    pub const FRAMEBUFFER: u64 = 3;
    /// QEMU debug console of `./musubi exec` for what is printed, see [`super::output`].
    pub const EXEC_OUTPUT: u64 = 4;
    /// Memory that the machine of an `exec` shares with the host, [`super::output::MEMORY`] bytes.
    pub const EXEC_MEMORY: u64 = 5;
    /// The debug console for the outcome: one line, `exit N`, see `docs/book/exec.md`.
    pub const EXEC_STATUS: u64 = 6;
}

/// How what is printed in an `exec` gets to the host: as parts, in the order in which they were printed. A part is
/// [`HEAD`](output::HEAD) bytes on the console: its stream (1: output, 2: errors), with [`IN_MEMORY`](output::IN_MEMORY)
/// or without, and its length, low byte first. Then the bytes follow; those of a part in memory lie in the next slot of
/// the shared memory, round and round.
pub mod output {
    /// Bytes before a part.
    pub const HEAD: usize = 3;
    /// The bytes lie in the shared memory.
    pub const IN_MEMORY: u8 = 0x80;
    /// In the place of a stream, with no bytes: the console has begun, and counts its slots from 0. It may be another one than before.
    pub const BEGIN: u8 = 3;
    /// Length of the shared memory.
    pub const MEMORY: usize = 1 << 20;
    /// Offset of the one byte that the host writes: how many slots it has read, modulo 256.
    pub const READ: usize = 0;
    /// Offset of another one: how many beginnings it has read, modulo 256. Slots are used from then on only.
    pub const BEGUN: usize = 1;
    /// Offset of the first slot.
    pub const FIRST: usize = 4096;
    /// Length of a slot: the longest part.
    pub const SLOT: usize = 16 << 10;
    pub const SLOTS: usize = (MEMORY - FIRST) / SLOT;

    /// Where the slot of the `n`th part in memory begins, counted from 0.
    #[must_use]
    pub const fn slot(n: u64) -> usize {
        FIRST + (n % SLOTS as u64) as usize * SLOT
    }

    const _: () = assert!(SLOTS < 256 && SLOT <= u16::MAX as usize);
}

/// A device given to the first program as a section of kind device (memory) or ports.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceRecord {
    /// One of [`device`].
    pub kind: u64,
    pub section: u64,
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
}

//! Makes ELF files for the tests.

/// A segment's row in the table: type, flags, offset, address, length in the file and in memory, alignment.
pub type Row = (u32, u32, u64, u64, u64, u64, u64);

pub const LOAD: u32 = 1;
pub const DYNAMIC: u32 = 2;
pub const INTERP: u32 = 3;
pub const NOTE: u32 = 4;
pub const TLS: u32 = 7;
pub const MUSUBI: u32 = crate::PT_MUSUBI;
pub const STACK: u32 = 0x6474_e551;

pub const R: u32 = 4;
pub const RW: u32 = 6;
pub const RX: u32 = 5;
pub const RWX: u32 = 7;

pub const EXEC: u16 = 2;
pub const DYN: u16 = 3;

const MIB2: u64 = 2 << 20;

/// A file before it is written.
#[derive(Clone)]
pub struct File {
    pub kind: u16,
    pub osabi: u8,
    pub entry: u64,
    pub rows: Vec<Row>,
    /// What stands where, beyond the headers.
    pub parts: Vec<(usize, Vec<u8>)>,
    pub len: usize,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn note(version: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [7u32, 4, 1] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(b"Musubi\0\0");
    bytes.extend(version.to_le_bytes());
    bytes
}

pub fn relocation(target: u64, kind: u64, addend: i64) -> Vec<u8> {
    words(&[target, kind, addend as u64])
}

pub fn dynamic(entries: &[(u64, u64)]) -> Vec<u8> {
    entries.iter().flat_map(|&(tag, value)| words(&[tag, value])).collect()
}

/// Where things are in the file that [`native`] makes.
pub const NOTE_AT: usize = 0x200;
pub const RELA_AT: usize = 0x300;
pub const DYNAMIC_AT: usize = 0x1000;

/// A small native program: headers, note and two relocations in the text; the dynamic table in the data.
pub fn native() -> File {
    let data = MIB2;
    let rela = [relocation(data + 0x100, 8, 0x480), relocation(data + 0x1f8, 8, -1)].concat();
    File {
        kind: DYN,
        osabi: 0,
        entry: 0x480,
        rows: vec![
            (LOAD, RX, 0, 0, 0x500, 0x500, 0x1000),
            (LOAD, RW, DYNAMIC_AT as u64, data, 0x200, 0x3000, 0x1000),
            (DYNAMIC, RW, DYNAMIC_AT as u64, data, 0x80, 0x80, 8),
            (NOTE, R, NOTE_AT as u64, NOTE_AT as u64, 24, 24, 4),
            (MUSUBI, R, NOTE_AT as u64, NOTE_AT as u64, 24, 24, 4),
        ],
        parts: vec![
            (NOTE_AT, note(1)),
            (RELA_AT, rela),
            (DYNAMIC_AT, dynamic(&[(7, RELA_AT as u64), (8, 48), (9, 24), (0, 0), (1, 1)])),
        ],
        len: 0x1200,
    }
}

/// A small Linux program at fixed addresses.
pub fn linux() -> File {
    File {
        kind: EXEC,
        osabi: 3,
        entry: 0x40_0200,
        rows: vec![
            (LOAD, R, 0, 0x3f_f000, 0x200, 0x200, 0x1000),
            (LOAD, RX, 0x200, 0x40_0200, 0x300, 0x300, 0x1000),
            (LOAD, RW, 0x500, 0x60_1500, 0x100, 0x2000, 0x1000),
            (STACK, RW, 0, 0, 0, 0, 16),
        ],
        parts: vec![],
        len: 0x800,
    }
}

impl File {
    pub fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0x90; self.len];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1, self.osabi, 0, 0, 0, 0, 0, 0, 0, 0]);
        put(16, &self.kind.to_le_bytes());
        put(18, &62u16.to_le_bytes());
        put(20, &1u32.to_le_bytes());
        put(24, &words(&[self.entry, 64, 0]));
        put(48, &0u32.to_le_bytes());
        for (i, half) in [64, 56, self.rows.len() as u16, 64, 0, 0].iter().enumerate() {
            put(52 + 2 * i, &half.to_le_bytes());
        }
        for (i, &(kind, flags, offset, vaddr, filesz, memsz, align)) in self.rows.iter().enumerate() {
            let at = 64 + 56 * i;
            put(at, &kind.to_le_bytes());
            put(at + 4, &flags.to_le_bytes());
            put(at + 8, &words(&[offset, vaddr, vaddr, filesz, memsz, align]));
        }
        for (at, bytes) in &self.parts {
            put(*at, bytes);
        }
        file
    }
}

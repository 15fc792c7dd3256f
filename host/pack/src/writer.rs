//! The layout of the pack: header, entries, then the members, each at a page.

use abi::boot::{EXEC_MAX, EXEC_WORD, NAME_LEN, PACK_MAGIC, PackEntry, PackHeader, flag, kind};
use abi::layout::{FIRST_TEXT, PAGE};
use anyhow::{Result, ensure};
use std::io::Write;
use zerocopy::IntoBytes;

use crate::first::First;

/// One member of the pack.
pub struct Member {
    pub name: Vec<u8>,
    pub data: Vec<u8>,
    pub kind: u32,
    pub flags: u32,
    /// Modification time on the host, seconds since 1970.
    pub mtime: i64,
}

/// Collects members, then writes them out as one pack.
#[derive(Default)]
pub struct Builder {
    members: Vec<Member>,
    first: Option<Laid>,
    build_id: u64,
}

/// Where the first program lies in memory.
struct Laid {
    data: u64,
    data_len: u64,
    entry: u64,
}

impl Builder {
    pub fn new(build_id: u64) -> Self {
        Self { build_id, ..Self::default() }
    }

    /// The program that the kernel starts.
    pub fn first(&mut self, program: First) {
        self.first = Some(Laid { data: program.data_addr, data_len: program.data_len, entry: program.entry });
        self.push(kind::FIRST_TEXT, "first text", program.text);
        self.push(kind::FIRST_DATA, "first data", program.data);
    }

    /// A file that programs find by its name. A file put in by the user takes the place of one of ours.
    pub fn file(&mut self, name: &[u8], data: Vec<u8>, flags: u32, mtime: i64) -> Result<()> {
        let shown = String::from_utf8_lossy(name);
        ensure!(!name.is_empty(), "a file in the guest needs a name");
        ensure!(name.len() <= NAME_LEN, "the guest's name {shown} is longer than {NAME_LEN} bytes");
        ensure!(!name.contains(&0), "the guest's name {shown:?} has a NUL in it");
        if let Some(old) = self.members.iter().position(|m| m.kind == kind::FILE && m.name == name) {
            let put = |flags: u32| flags & flag::PUT != 0;
            ensure!(put(flags) && !put(self.members[old].flags), "two files are to be put at {shown}");
            self.members.remove(old);
        }
        self.members.push(Member { name: name.to_vec(), data, kind: kind::FILE, flags, mtime });
        Ok(())
    }

    /// The words that the guest's shell runs, then powers off.
    pub fn exec<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<()> {
        let mut data = Vec::new();
        let len: usize = words.iter().map(|word| word.as_ref().len() + EXEC_WORD).sum();
        ensure!(
            len <= EXEC_MAX,
            "the command line is too long: {len} bytes (with {EXEC_WORD} for each word) where {EXEC_MAX} are the most; \
             --put can bring a file of any length"
        );
        for word in words {
            ensure!(!word.as_ref().contains(&0), "a word of the command line has a NUL in it");
            data.extend_from_slice(word.as_ref());
            data.push(0);
        }
        self.push(kind::EXEC, "exec", data);
        Ok(())
    }

    /// The kernel's symbols (see [`crate::symbols`]).
    pub fn symbols(&mut self, table: Vec<u8>) {
        self.push(kind::SYMBOLS, "symbols", table);
    }

    fn push(&mut self, kind: u32, name: &str, data: Vec<u8>) {
        self.members.push(Member { name: name.as_bytes().to_vec(), data, kind, flags: 0, mtime: 0 });
    }

    /// Writes the pack and returns its length.
    pub fn write(&self, out: &mut impl Write) -> Result<u64> {
        let head = size_of::<PackHeader>() + self.members.len() * size_of::<PackEntry>();
        let mut at = page_up(head as u64);
        let mut entries = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let mut name = [0; NAME_LEN];
            name[..member.name.len()].copy_from_slice(&member.name);
            entries.push(PackEntry {
                offset: at,
                len: member.data.len() as u64,
                kind: member.kind,
                flags: member.flags,
                mtime: member.mtime,
                name_len: member.name.len() as u64,
                name,
            });
            at += page_up(member.data.len() as u64);
        }
        let header = PackHeader {
            magic: PACK_MAGIC,
            count: entries.len() as u64,
            len: at,
            first_text: FIRST_TEXT,
            first_data: self.first.as_ref().map_or(0, |f| f.data),
            first_data_len: self.first.as_ref().map_or(0, |f| f.data_len),
            first_entry: self.first.as_ref().map_or(0, |f| f.entry),
            build_id: self.build_id,
        };
        out.write_all(header.as_bytes())?;
        out.write_all(entries.as_bytes())?;
        pad(out, head as u64)?;
        for member in &self.members {
            out.write_all(&member.data)?;
            pad(out, member.data.len() as u64)?;
        }
        Ok(at)
    }
}

fn page_up(len: u64) -> u64 {
    abi::layout::pages_up(len).expect("members are in memory, so their lengths are far from the end of 64 bits")
}

/// Zeroes after `len` bytes up to the next page.
fn pad(out: &mut impl Write, len: u64) -> Result<()> {
    let zeroes = [0; PAGE as usize];
    Ok(out.write_all(&zeroes[..(page_up(len) - len) as usize])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    fn parse(pack: &[u8]) -> (PackHeader, Vec<PackEntry>) {
        let (header, rest) = PackHeader::read_from_prefix(pack).unwrap();
        let mut rest = rest;
        let mut entries = Vec::new();
        for _ in 0..header.count {
            let (entry, tail) = PackEntry::read_from_prefix(rest).unwrap();
            entries.push(entry);
            rest = tail;
        }
        (header, entries)
    }

    #[test]
    fn members_begin_at_pages_and_read_back() {
        let mut builder = Builder::new(7);
        builder.file(b"bin/echo", vec![1; 5000], flag::EXECUTABLE, 11).unwrap();
        builder.file(b"empty", vec![], flag::PUT, 12).unwrap();
        builder.exec(&["echo", "two words", ""]).unwrap();
        let mut pack = Vec::new();
        let len = builder.write(&mut pack).unwrap();
        let (header, entries) = parse(&pack);
        assert_eq!(header.magic, PACK_MAGIC);
        assert_eq!((header.count, header.len, header.build_id), (3, len, 7));
        assert_eq!(pack.len() as u64, len);
        assert!(entries.iter().all(|e| e.offset % PAGE == 0 && e.offset + e.len <= len));
        let data = |i: usize| &pack[entries[i].offset as usize..][..entries[i].len as usize];
        assert_eq!(data(0), &[1; 5000][..]);
        assert_eq!(&entries[0].name[..entries[0].name_len as usize], b"bin/echo");
        assert_eq!((entries[0].flags, entries[0].mtime), (flag::EXECUTABLE, 11));
        assert_eq!(entries[1].len, 0);
        assert_eq!(data(2), b"echo\0two words\0\0");
        assert_eq!(entries[2].kind, kind::EXEC);
    }

    #[test]
    fn a_put_file_replaces_ours_but_not_another_put_file() {
        let mut builder = Builder::new(0);
        builder.file(b"bin/echo", vec![1], flag::EXECUTABLE, 0).unwrap();
        builder.file(b"bin/echo", vec![2], flag::PUT, 0).unwrap();
        assert!(builder.file(b"bin/echo", vec![3], flag::PUT, 0).is_err());
        let mut pack = Vec::new();
        builder.write(&mut pack).unwrap();
        let (header, entries) = parse(&pack);
        assert_eq!(header.count, 1);
        assert_eq!(pack[entries[0].offset as usize], 2);
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        let mut builder = Builder::new(0);
        assert!(builder.file(&[b'x'; NAME_LEN], vec![], flag::PUT, 0).is_ok());
        assert!(builder.file(&[b'x'; NAME_LEN + 1], vec![], flag::PUT, 0).is_err());
        assert!(builder.file(b"", vec![], flag::PUT, 0).is_err());
        assert!(builder.file(b"a\0b", vec![], flag::PUT, 0).is_err());
        assert!(builder.exec(&["a\0b"]).is_err());
    }

    #[test]
    fn a_command_line_has_a_limit() {
        let word = |len: usize| vec![b'x'; len - EXEC_WORD];
        assert!(Builder::new(0).exec(&[word(EXEC_MAX)]).is_ok());
        let said = Builder::new(0).exec(&[word(EXEC_MAX + 1)]).unwrap_err().to_string();
        assert!(said.contains("40961 bytes") && said.contains("40960 are the most"), "{said}");
        assert!(Builder::new(0).exec(&vec![b""; EXEC_MAX / EXEC_WORD]).is_ok());
        assert!(Builder::new(0).exec(&vec![b""; EXEC_MAX / EXEC_WORD + 1]).is_err());
    }
}

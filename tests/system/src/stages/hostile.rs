//! Program files that are damaged on purpose: each is refused with its reason, and the shell goes on.

use crate::case::File;
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use machine::Options;
use std::time::Duration;

/// Name, damage, part of the reason.
type Damage = (&'static str, fn(&mut Elf), &'static str);

const DAMAGES: &[Damage] = &[
    ("file_of_one_byte", |elf| elf.0.truncate(1), "not an ELF file"),
    ("file_cut_in_the_header", |elf| elf.0.truncate(40), "ends within its headers"),
    ("file_cut_in_the_segments", |elf| elf.cut_data(), "beyond the end of the file"),
    ("not_elf", |elf| elf.0[0] = 0x7e, "not an ELF file"),
    ("for_32_bits", |elf| elf.0[4] = 1, "another machine"),
    ("big_endian", |elf| elf.0[5] = 2, "another machine"),
    ("wrong_machine", |elf| elf.put(18, 2, 183), "another machine"),
    ("wrong_system", |elf| elf.0[7] = 9, "another operating system"),
    ("object_file", |elf| elf.put(16, 2, 1), "not a program"),
    ("core_dump", |elf| elf.put(16, 2, 4), "not a program"),
    ("fixed_address", |elf| elf.put(16, 2, 2), "position independent"),
    ("no_segments", |elf| elf.put(56, 2, 0), ""),
    ("too_many_segments", |elf| elf.put(56, 2, 0xffff), ""),
    ("segments_of_wrong_size", |elf| elf.put(54, 2, 10), ""),
    ("segments_beyond_the_file", |elf| elf.put(32, 8, 1 << 40), ""),
    ("note_overwritten", |elf| elf.put(elf.of(NOTE, 0, OFFSET) as usize, 8, 0), "mark"),
    ("note_renamed", |elf| elf.put(elf.of(NOTE, 0, OFFSET) as usize + 12, 1, 0x6d), "mark"),
    ("note_of_another_kind", |elf| elf.put(elf.of(NOTE, 0, OFFSET) as usize + 8, 4, 2), "mark"),
    ("note_of_another_version", |elf| elf.put(elf.of(NOTE, 0, OFFSET) as usize + 20, 4, 7), "version 7"),
    ("no_note", |elf| elf.set(NOTE, 0, 0, 4, 0), "mark"),
    ("note_elsewhere", |elf| elf.set(NOTE, 0, OFFSET, 8, 0), "mark"),
    ("no_mark", |elf| elf.set(MARK, 0, 0, 4, 0), "mark"),
    ("segments_wrap_round", |elf| elf.put(32, 8, u64::MAX - 7), ""),
    ("writable_text", |elf| elf.set(LOAD, 0, FLAGS, 4, 7), "writable and executable"),
    ("executable_data", |elf| elf.set(LOAD, 1, FLAGS, 4, 7), "writable and executable"),
    ("text_not_executable", |elf| elf.set(LOAD, 0, FLAGS, 4, 4), ""),
    ("data_not_writable", |elf| elf.set(LOAD, 1, FLAGS, 4, 4), ""),
    ("overlapping", |elf| elf.set(LOAD, 1, VADDR, 8, 0), ""),
    ("no_room_for_gates", |elf| elf.set(LOAD, 0, MEMSZ, 8, 2 << 20), "gates"),
    ("data_too_far", |elf| elf.set(LOAD, 1, VADDR, 8, 1 << 45), ""),
    ("data_wraps_round", |elf| elf.set(LOAD, 1, VADDR, 8, !0x1f_ffff), ""),
    ("data_not_aligned", |elf| elf.set(LOAD, 1, VADDR, 8, (2 << 20) + 1), ""),
    ("alignment_of_three", |elf| elf.set(LOAD, 1, 48, 8, 3), "alignment"),
    ("huge_data", |elf| elf.set(LOAD, 1, MEMSZ, 8, 1 << 50), ""),
    ("data_of_all_addresses", |elf| elf.set(LOAD, 1, MEMSZ, 8, u64::MAX), ""),
    ("huge_text", |elf| elf.set(LOAD, 0, MEMSZ, 8, 1 << 50), ""),
    ("longer_in_the_file", |elf| elf.set(LOAD, 1, MEMSZ, 8, 1), "longer in the file"),
    ("bytes_beyond_the_file", |elf| elf.set(LOAD, 0, FILESZ, 8, 1 << 40), ""),
    ("offset_wraps_round", |elf| elf.set(LOAD, 0, OFFSET, 8, u64::MAX - 4095), ""),
    ("entry_outside", |elf| elf.put(24, 8, 1 << 40), "nothing is executable"),
    ("entry_wraps_round", |elf| elf.put(24, 8, u64::MAX), "nothing is executable"),
    ("entry_in_the_data", |elf| elf.put(24, 8, elf.of(LOAD, 1, VADDR)), "nothing is executable"),
    ("interpreter", |elf| elf.set(DYNAMIC, 0, 0, 4, 3), "interpreter"),
    ("thread_local_storage", |elf| elf.set(DYNAMIC, 0, 0, 4, 7), "thread-local"),
    ("three_segments", |elf| elf.set(DYNAMIC, 0, 0, 4, 1), "segment 3"),
    ("dynamic_elsewhere", |elf| elf.set(DYNAMIC, 0, OFFSET, 8, 1 << 40), ""),
    ("dynamic_too_long", |elf| elf.set(DYNAMIC, 0, FILESZ, 8, 1 << 40), ""),
    ("relocations_elsewhere", |elf| elf.set_dynamic(7, 1 << 40), ""),
    ("relocations_too_long", |elf| elf.set_dynamic(8, 1 << 40), ""),
    ("relocation_size", |elf| elf.set_dynamic(9, 1), ""),
    ("relocation_of_the_text", |elf| elf.relocate(0, 0), "relocation 0 lies outside the data"),
    ("relocation_outside", |elf| elf.relocate(0, u64::MAX - 3), "relocation 0 lies outside the data"),
    ("relocation_of_another_kind", |elf| elf.relocate(8, 1), "a relocation of kind 1"),
];

const LOAD: u64 = 1;
const DYNAMIC: u64 = 2;
const NOTE: u64 = 4;
const MARK: u64 = 0x6d75_7375;
/// Fields of a program header.
const FLAGS: usize = 4;
const OFFSET: usize = 8;
const VADDR: usize = 16;
const FILESZ: usize = 32;
const MEMSZ: usize = 40;

struct Elf(Vec<u8>);

impl Elf {
    fn get(&self, at: usize, len: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&self.0[at..at + len]);
        u64::from_le_bytes(bytes)
    }

    fn put(&mut self, at: usize, len: usize, value: u64) {
        self.0[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
    }

    /// Where the `nth` program header of a kind is.
    fn header(&self, kind: u64, nth: usize) -> usize {
        let (first, count) = (self.get(32, 8) as usize, self.get(56, 2) as usize);
        let headers = (0..count).map(|n| first + n * 56).filter(|&at| self.get(at, 4) == kind);
        headers.skip(nth).next().expect("a program of ours has this segment")
    }

    fn of(&self, kind: u64, nth: usize, field: usize) -> u64 {
        self.get(self.header(kind, nth) + field, 8)
    }

    fn set(&mut self, kind: u64, nth: usize, field: usize, len: usize, value: u64) {
        let at = self.header(kind, nth) + field;
        self.put(at, len, value);
    }

    /// The last byte of the data is not in the file.
    fn cut_data(&mut self) {
        let end = self.of(LOAD, 1, OFFSET) + self.of(LOAD, 1, FILESZ);
        self.0.truncate(end as usize - 1);
    }

    /// Where an entry of the dynamic table has its value.
    fn dynamic(&self, tag: u64) -> usize {
        let first = self.of(DYNAMIC, 0, OFFSET) as usize;
        (0..64).map(|n| first + n * 16).find(|&at| self.get(at, 8) == tag).expect("our programs have relocations") + 8
    }

    fn set_dynamic(&mut self, tag: u64, value: u64) {
        let at = self.dynamic(tag);
        self.put(at, 8, value);
    }

    /// Changes a field of the first relocation. The table lies in the text, whose addresses are offsets in the file.
    fn relocate(&mut self, field: usize, value: u64) {
        let table = self.get(self.dynamic(7), 8) + self.of(LOAD, 0, OFFSET);
        let len = if field == 8 { 4 } else { 8 };
        self.put(table as usize + field, len, value);
    }
}

pub fn names() -> Vec<&'static str> {
    DAMAGES.iter().map(|damage| damage.0).chain(["undamaged_file_runs"]).collect()
}

fn file(name: &'static str, data: Vec<u8>) -> File {
    File::Made { guest: name, data, executable: true }
}

/// All damaged files in one machine, and the good one at the end.
pub fn refused(lab: &Lab, options: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    let good = lab.program("hello")?;
    let mut files = vec![file("good", good.clone())];
    for (name, damage, _) in DAMAGES {
        let mut elf = Elf(good.clone());
        damage(&mut elf);
        files.push(file(name, elf.0));
    }
    let folder = lab.folder(&files)?;
    let line: String = DAMAGES.iter().map(|(name, ..)| format!("./{name}; echo {name} $?; ")).collect();
    let line = format!("{line}./good x; echo good $?");
    let finished = lab.exec(options, &folder, &[line.into_bytes()], Duration::from_secs(120))?;
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    let status = |name: &str| out.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let mut found: Vec<Found> = Vec::new();
    for (name, _, reason) in DAMAGES {
        let start = format!("./{name}: cannot be run: ");
        let given = err.lines().find_map(|line| line.strip_prefix(&start));
        let good = status(name) == Some("126") && given.is_some_and(|given| given.len() > 8 && given.contains(reason));
        let why = || Failure::Failed(format!("status {:?}, reason {given:?}, not {reason:?}", status(name)));
        found.push((name, if good { Ok(()) } else { Err(why()) }));
    }
    let runs = status("good") == Some("0") && out.contains("argument 1: x");
    let why = || Failure::Failed(format!("{:?}\n{out}\n{}", finished.outcome, finished.tail(40)));
    found.push(("undamaged_file_runs", if runs { Ok(()) } else { Err(why()) }));
    Ok(found)
}

/// Files with bytes of the headers changed at random: whatever becomes of them (some find out themselves: 101), the machine goes on.
pub fn random(lab: &Lab, options: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    const FILES: usize = 60;
    let good = lab.program("hello")?;
    let mut seed = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) as usize
    };
    let mut files = vec![file("good", good.clone())];
    let mut line = String::new();
    for n in 0..FILES {
        let mut bytes = good.clone();
        for _ in 0..1 + next() % 3 {
            // The headers, without the entry address: a program that begins anywhere may go on for ever.
            let at = next() % 400;
            if !(24..32).contains(&at) {
                bytes[at] = next() as u8;
            }
        }
        let name: &'static str = Box::leak(format!("damaged{n}").into_boxed_str());
        files.push(file(name, bytes));
        // What is executed in the wrong place may go on for ever.
        line.push_str(&format!("check as within 1000 ./{name}; echo ended $?; "));
    }
    let folder = lab.folder(&files)?;
    let line = format!("{line}./good x; echo good $?");
    let finished = lab.exec(options, &folder, &[line.into_bytes()], Duration::from_secs(120))?;
    let out = String::from_utf8_lossy(&finished.out);
    let ended: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("ended ")).collect();
    let good = ended.len() == FILES
        && ended.iter().all(|status| ["0", "101", "126", "137", "139"].contains(status))
        && ended.contains(&"126")
        && out.ends_with("good 0\n");
    let why = || Failure::Failed(format!("{ended:?} {:?}\n{}", finished.outcome, finished.tail(60)));
    Ok(vec![("randomly_damaged_files", if good { Ok(()) } else { Err(why()) })])
}

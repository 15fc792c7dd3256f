//! Page tables on an emulated machine: each operation by itself.

mod history;
mod machine;

use super::*;
use machine::*;

const R: Prot = Prot { write: false, execute: false, user: true, device: false, global: false, key: 0 };
const RW: Prot = Prot { write: true, ..R };
const RX: Prot = Prot { execute: true, ..R };
const MIB2: u64 = 2 << 20;
const GIB: u64 = 1 << 30;

fn memory() -> Memory {
    Memory { room: 1000, ..Memory::default() }
}

#[test]
fn entries_are_as_the_manual_has_them() {
    let entry = |prot| {
        let mut memory = memory();
        let mut tables = Tables::new(&mut memory).unwrap();
        tables.map(&mut memory, 0x40_0000, 0x000f_edcb_a987_6000, prot).unwrap();
        let (_, pages) = survey(&memory, tables.root());
        pages[0]
    };
    assert_eq!(entry(R), 0x800f_edcb_a987_6065, "present, user, accessed, dirty, not executable");
    assert_eq!(entry(RW), 0x800f_edcb_a987_6067);
    assert_eq!(entry(RX), 0x000f_edcb_a987_6065);
    assert_eq!(entry(Prot { user: false, global: true, ..RX }), 0x000f_edcb_a987_6161);
    assert_eq!(entry(Prot { device: true, ..RW }), 0x800f_edcb_a987_607f);
    assert_eq!(entry(Prot { key: 15, ..RX }), 0x780f_edcb_a987_6065);
    assert_eq!(entry(Prot { key: 1, ..R }), 0x880f_edcb_a987_6065);
}

#[test]
fn a_hidden_entry_names_no_memory() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    tables.map(&mut memory, 0x40_0000, 0x1234_5000, RW).unwrap();
    let entry = |memory: &Memory| {
        *memory.tables.values().flatten().map(|(_, entry)| entry).find(|e| **e >> 9 & 1 == 1).unwrap()
    };
    assert_eq!(tables.hide(&mut memory, 0x40_0000, 0x1000).entries, 1);
    assert_eq!(tables.hide(&mut memory, 0x40_0000, 0x1000), Touched::default());
    assert_eq!(tables.translate(&memory, 0x40_0000), None);
    assert_eq!(entry(&memory) & 0x000f_ffff_ffff_f001, 0x000f_ffff_edcb_a000, "not present, and the frame upside down");
    assert_eq!(tables.show(&mut memory, 0x40_0000, 0x1000).entries, 1);
    assert_eq!(tables.show(&mut memory, 0x40_0000, 0x1000), Touched::default());
    assert_eq!(tables.translate(&memory, 0x40_0000), Some((0x1234_5000, RW)));
}

#[test]
fn what_is_empty_is_passed_over_at_once() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    for at in [0x1000, 40 * GIB + MIB2 + 0x5000] {
        tables.map(&mut memory, at, 0x1000, R).unwrap();
    }
    let before = memory.touched.get();
    let over = |from: u64, most| tables.pass_over(&memory, from, 64 * GIB - from, most);
    assert_eq!(over(0, 5000), 0);
    assert_eq!(over(MIB2, 5000), 40 * GIB + MIB2, "a table of pages is not looked into");
    assert_eq!(over(40 * GIB + 2 * MIB2, 5000), 64 * GIB);
    // Of one table of tables, and of those above it.
    assert!(memory.touched.get() - before < 3 * 600);
    assert_eq!(over(MIB2, 101), 100 * MIB2, "so many were looked at");
}

#[test]
fn few_pages_are_taken_out_and_their_table_stays() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    // Over the border between two tables; one of them is hidden, and one is not there.
    let at = |page: u64| 0x60_0000 - 0x2000 + page * 0x1000;
    for page in [0, 1, 2, 4] {
        tables.map(&mut memory, at(page), 0x1234_5000, RW).unwrap();
    }
    assert_eq!(tables.hide(&mut memory, at(1), 0x1000).entries, 1);
    let before = tables.tables(&memory);
    assert_eq!(tables.take_out(&mut memory, at(1), 0x3000).entries, 2);
    assert_eq!(tables.take_out(&mut memory, at(1), 0x3000), Touched::default());
    let there = |page| tables.translate(&memory, at(page)).is_some();
    assert_eq!([0, 1, 2, 3, 4].map(there), [true, false, false, false, true]);
    assert_eq!(tables.tables(&memory), before);
    assert_eq!(tables.show(&mut memory, at(0), 0x5000), Touched::default(), "nothing is hidden any more");
    let covers = |base, len| Tables::covers_table(base, len);
    assert!(covers(MIB2, MIB2) && covers(MIB2 - 1, MIB2 + 1) && covers(0, u64::MAX) && !covers(MIB2, MIB2 - 1));
    assert!(
        !covers(MIB2 + 0x1000, 2 * MIB2 - 0x2000) && covers(MIB2 + 0x1000, 2 * MIB2) && !covers(u64::MAX, u64::MAX)
    );
}

#[test]
fn what_is_refused() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    let mut map = |address, frame, prot| tables.map(&mut memory, address, frame, prot);
    assert_eq!(map(0, 0, Prot { write: true, ..RX }), Err(MapError::WriteAndExecute));
    assert_eq!(map(1 << 47, 0, R), Err(MapError::NotCanonical));
    assert_eq!(map(u64::MAX << 47, 0, R), Ok(Mapped::New));
    assert_eq!(map((u64::MAX << 47) - 4096, 0, R), Err(MapError::NotCanonical));
    assert_eq!(map(8, 0, R), Err(MapError::Unaligned));
    assert_eq!(map(0, 8, R), Err(MapError::Unaligned));
    assert_eq!(map(0, 1 << 52, R), Err(MapError::Unaligned), "no such physical address");
    let mut large = |address, frame, size| tables.map_sized(&mut memory, address, frame, size, R);
    assert_eq!(large(GIB, GIB, GIB), Ok(Mapped::New));
    assert_eq!(large(GIB, MIB2, GIB), Err(MapError::Unaligned));
    assert_eq!(large(MIB2 / 2, 0, MIB2), Err(MapError::Unaligned));
    assert_eq!(large(0, 0, 8192), Err(MapError::Unaligned));
    assert_eq!(large(0, 0, 512 * GIB), Err(MapError::Unaligned));
    assert_eq!(tables.map(&mut memory, 2 * GIB, 0, R), Ok(Mapped::New));
    assert_eq!(tables.map_sized(&mut memory, 2 * GIB, MIB2, MIB2, R), Err(MapError::InTheWay));
    assert_eq!(tables.map_sized(&mut memory, 2 * GIB, GIB, GIB, R), Err(MapError::InTheWay));
}

#[test]
fn a_large_page_is_split_where_a_part_changes() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    let prot = Prot { key: 5, ..RW };
    tables.map_sized(&mut memory, GIB, 3 * GIB, GIB, prot).unwrap();
    assert_eq!(tables.tables(&memory), 1);
    assert_eq!(tables.write_protect(&mut memory, GIB + MIB2, 2 * MIB2), Touched { entries: 2, more: false });
    assert_eq!(tables.tables(&memory), 2, "its parts are of 2 MiB");
    assert_eq!(tables.hide(&mut memory, GIB + 0x3000, 0x1000), Touched { entries: 1, more: false });
    assert_eq!(tables.tables(&memory), 3);
    let at = |address| tables.translate(&memory, address);
    assert_eq!(at(GIB + 0x2fff), Some((3 * GIB + 0x2000, prot)));
    assert_eq!(at(GIB + 0x3000), None);
    assert_eq!(at(GIB + 3 * MIB2 - 1), Some((3 * GIB + 3 * MIB2 - 0x1000, Prot { write: false, ..prot })));
    assert_eq!(at(2 * GIB - 1), Some((4 * GIB - 0x1000, prot)));
    assert_eq!(tables.map(&mut memory, GIB + MIB2, 0x7000, RX), Ok(Mapped::Replaced));
    assert_eq!(tables.tables(&memory), 4);
    assert_eq!(
        tables.translate(&memory, GIB + MIB2 + 0x1000),
        Some((3 * GIB + MIB2 + 0x1000, Prot { write: false, ..prot }))
    );
    let mut out = tables.unmap(&mut memory, GIB, GIB);
    assert_eq!(
        (out.pages, out.more, out.tables.tops()),
        (0, false, 2),
        "a table with all that hangs on it, and the one above"
    );
    assert_eq!(out.tables.free(&mut memory, &mut { usize::MAX }), 4);
    assert_eq!(tables.map_sized(&mut memory, GIB, 3 * GIB, GIB, prot), Ok(Mapped::New));
}

/// A domain that may only read maps what another one of the same view may write: the right goes by `write_protect`, which says that there is
/// something to be forgotten (pitfalls, R5).
#[test]
fn mapping_takes_no_right_to_write() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    let keyed = Prot { key: 5, ..R };
    for size in [0x1000, MIB2] {
        tables.map_sized(&mut memory, GIB, GIB, size, RW).unwrap();
        assert_eq!(tables.map_sized(&mut memory, GIB, GIB, size, R), Ok(Mapped::Same));
        assert_eq!(tables.map_sized(&mut memory, GIB, GIB, size, keyed), Ok(Mapped::Replaced));
        assert_eq!(tables.translate(&memory, GIB), Some((GIB, Prot { key: 5, ..RW })));
        assert_eq!(
            tables.map_sized(&mut memory, GIB, GIB, size, R),
            Err(MapError::InTheWay),
            "no key stops stores any more"
        );
        assert_eq!(tables.write_protect(&mut memory, GIB, size), Touched { entries: 1, more: false });
        assert_eq!(tables.map_sized(&mut memory, GIB, GIB, size, R), Ok(Mapped::Replaced));
        assert_eq!(tables.translate(&memory, GIB), Some((GIB, R)));
        tables.unmap(&mut memory, GIB, MIB2).tables.free(&mut memory, &mut { usize::MAX });
    }
    tables.map(&mut memory, GIB, GIB, RW).unwrap();
    assert!(tables.enter(&mut memory, GIB, GIB, R));
    assert_eq!(tables.translate(&memory, GIB), Some((GIB, RW)));
    tables.map(&mut memory, GIB, GIB, Prot { key: 5, ..RW }).unwrap();
    assert!(!tables.enter(&mut memory, GIB, GIB, R), "nor here");
    tables.map(&mut memory, GIB, GIB, RW).unwrap();
    assert!(tables.enter(&mut memory, GIB, 2 * GIB, R));
    assert_eq!(tables.translate(&memory, GIB), Some((2 * GIB, R)), "of another frame nothing is known");
    assert_eq!(tables.map(&mut memory, GIB, 2 * GIB, RX), Ok(Mapped::Replaced));
    assert_eq!(tables.translate(&memory, GIB), Some((2 * GIB, RX)));
}

/// However many pages tables have: the links to them say that nothing is stored there, until one of them changes.
#[test]
fn tables_are_made_read_only_as_a_whole() {
    let mut memory = Memory { room: 5000, ..Memory::default() };
    let mut tables = Tables::new(&mut memory).unwrap();
    for page in 0..1024 {
        tables.map(&mut memory, GIB + page * 4096, page << 12, RW).unwrap();
    }
    let before = memory.touched.get();
    assert!(tables.write_protect(&mut memory, GIB, GIB).is_any());
    assert!(memory.touched.get() - before < 600, "{} accesses", memory.touched.get() - before);
    assert!(!tables.write_protect(&mut memory, GIB, GIB).is_any(), "nothing is left to be forgotten");
    assert!(!tables.write_protect(&mut memory, GIB, 0x2000).is_any());
    let written = |tables: &Tables, memory: &Memory| -> Vec<u64> {
        let writes = |page: &u64| tables.translate(memory, GIB + page * 4096).is_some_and(|(_, prot)| prot.write);
        (0..1024).filter(writes).collect()
    };
    assert_eq!(written(&tables, &memory), []);
    // By each way to a page of one of the two.
    assert!(tables.enter(&mut memory, GIB + 0x3000, 0x8000, RW));
    assert_eq!(written(&tables, &memory), [3]);
    assert!(tables.write_protect(&mut memory, GIB, 2 * MIB2).is_any());
    assert_eq!(tables.map(&mut memory, GIB + 0x5000, 0x8000, RW), Ok(Mapped::Replaced));
    assert_eq!(written(&tables, &memory), [5]);
    assert!(tables.write_protect(&mut memory, GIB, 2 * MIB2).is_any());
    assert!(tables.hide(&mut memory, GIB + MIB2, 0x4000).is_any());
    assert_eq!(tables.show(&mut memory, GIB + MIB2, 0x4000), Touched { entries: 4, more: false });
    assert_eq!(written(&tables, &memory), []);
}

/// However much is mapped there: what takes long is done in stretches, when processors have forgotten.
#[test]
fn many_tables_go_in_stretches() {
    let mut memory = Memory { room: 5000, ..Memory::default() };
    let mut tables = Tables::new(&mut memory).unwrap();
    for table in 0..2048 {
        tables.map(&mut memory, GIB + table * MIB2, 0x7000, RW).unwrap();
    }
    let (_, before) = (tables.unmap(&mut memory, 0, 4096), memory.touched.get());
    let mut gone = tables.unmap(&mut memory, 0, 1 << 47).tables;
    // All of the root and nothing else.
    assert!(memory.touched.get() - before < 2 * 512, "{} accesses", memory.touched.get() - before);
    assert_eq!(tables.tables(&memory), 0);
    assert!(gone.are_more_than(&memory, 2052) && !gone.are_more_than(&memory, 2053));
    let mut freed = 0;
    while !gone.is_empty() {
        let before = memory.touched.get();
        let some = gone.free(&mut memory, &mut 100);
        assert!(memory.touched.get() - before <= 100 && some <= 100);
        freed += some;
    }
    assert_eq!(freed, 2048 + 4 + 1);
    tables.free_lower(&mut memory);
    assert!(memory.tables.is_empty());
}

#[test]
fn no_memory_for_a_table() {
    for room in 0..4 {
        let mut memory = Memory { room, ..Memory::default() };
        let Some(mut tables) = Tables::new(&mut memory) else {
            assert_eq!(room, 0);
            continue;
        };
        assert_eq!(tables.map(&mut memory, 0, 0, R), Err(MapError::NoMemory));
        assert_eq!(tables.translate(&memory, 0), None);
        memory.room = 10;
        assert_eq!(tables.map(&mut memory, 0, 0, R), Ok(Mapped::New), "what was made is used");
        assert_eq!(tables.tables(&memory), 3);
        tables.free_lower(&mut memory);
        assert!(memory.tables.is_empty());
    }
}

#[test]
fn all_roots_share_the_upper_half() {
    let upper = 0xffff_8000_0000_0000;
    let mut memory = memory();
    let mut kernel = Tables::new(&mut memory).unwrap();
    kernel.map(&mut memory, upper, 0x1000, Prot { user: false, ..RW }).unwrap();
    let mut view = Tables::new(&mut memory).unwrap();
    view.share_upper(&mut memory, &kernel);
    view.map(&mut memory, 0, 0x2000, R).unwrap();
    kernel.map(&mut memory, upper + 0x1000, 0x3000, RW).unwrap();
    assert_eq!(view.translate(&memory, upper + 0x1fff).unwrap().0, 0x3000);
    assert_eq!(kernel.translate(&memory, 0), None);
    // Taking out all of it leaves the link from the roots, which the other roots have too.
    let mut out = kernel.unmap(&mut memory, upper, 1 << 47);
    assert_eq!((out.pages, out.tables.tops()), (0, 1));
    assert_eq!(out.tables.free(&mut memory, &mut { usize::MAX }), 2);
    assert_eq!(view.translate(&memory, upper), None);
    assert_eq!((view.tables(&memory), kernel.tables(&memory)), (3, 0));
    view.free_lower(&mut memory);
    assert_eq!(memory.tables.len(), 2, "the kernel's root and one table below");
}

#[test]
fn a_root_is_enough() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    tables.map(&mut memory, 0x5000, 0x1000, RX).unwrap();
    assert_eq!(Tables::from_root(tables.root()).translate(&memory, 0x5123), Some((0x1000, RX)));
}

/// In the entry of a large page, bit 12 chooses how it is cached. We never set it; tables of a boot loader may.
#[test]
fn a_caching_bit_is_no_address() {
    let mut memory = memory();
    let mut tables = Tables::new(&mut memory).unwrap();
    tables.map_sized(&mut memory, MIB2, 3 * MIB2, MIB2, R).unwrap();
    let (found, pages) = survey(&memory, tables.root());
    let (directory, _) = found.iter().find(|(_, (level, _))| *level == 2).unwrap();
    memory.write(*directory, 1, pages[0] | 1 << 12);
    assert_eq!(tables.translate(&memory, MIB2 + 0x5678), Some((3 * MIB2 + 0x5000, R)));
}

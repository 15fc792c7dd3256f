//! Page tables on an emulated machine whose processors remember what they may, against a plain map from page to frame.

mod machine;

use super::*;
use machine::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

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
    assert_eq!((tables.hide(&mut memory, 0x40_0000, 0x1000), tables.hide(&mut memory, 0x40_0000, 0x1000)), (1, 0));
    assert_eq!(tables.translate(&memory, 0x40_0000), None);
    assert_eq!(entry(&memory) & 0x000f_ffff_ffff_f001, 0x000f_ffff_edcb_a000, "not present, and the frame upside down");
    assert_eq!((tables.show(&mut memory, 0x40_0000, 0x1000), tables.show(&mut memory, 0x40_0000, 0x1000)), (1, 0));
    assert_eq!(tables.translate(&memory, 0x40_0000), Some((0x1234_5000, RW)));
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
    assert_eq!(tables.hide(&mut memory, at(1), 0x1000), 1);
    let before = tables.tables(&memory);
    assert_eq!((tables.take_out(&mut memory, at(1), 0x3000), tables.take_out(&mut memory, at(1), 0x3000)), (2, 0));
    let there = |page| tables.translate(&memory, at(page)).is_some();
    assert_eq!([0, 1, 2, 3, 4].map(there), [true, false, false, false, true]);
    assert_eq!(tables.tables(&memory), before);
    assert_eq!(tables.show(&mut memory, at(0), 0x5000), 0, "nothing is hidden any more");
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
    let mut large = |address, frame, size| tables.map_large(&mut memory, address, frame, size, R);
    assert_eq!(large(GIB, GIB, GIB), Ok(Mapped::New));
    assert_eq!(large(GIB, MIB2, GIB), Err(MapError::Unaligned));
    assert_eq!(large(MIB2 / 2, 0, MIB2), Err(MapError::Unaligned));
    assert_eq!(large(0, 0, 4096), Err(MapError::Unaligned));
    assert_eq!(large(0, 0, 512 * GIB), Err(MapError::Unaligned));
    assert_eq!(large(GIB, MIB2, MIB2), Err(MapError::InTheWay));
    assert_eq!(tables.map(&mut memory, GIB, 0, R), Err(MapError::InTheWay));
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
    let out = kernel.unmap(&mut memory, upper, 1 << 47);
    assert_eq!((out.pages, out.tables.len()), (2, 2));
    out.tables.into_iter().for_each(|table| memory.free(table));
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
    tables.map_large(&mut memory, MIB2, 3 * MIB2, MIB2, R).unwrap();
    let (found, pages) = survey(&memory, tables.root());
    let (directory, _) = found.iter().find(|(_, (level, _))| *level == 2).unwrap();
    memory.write(*directory, 1, pages[0] | 1 << 12);
    assert_eq!(tables.translate(&memory, MIB2 + 0x5678), Some((3 * MIB2 + 0x5000, R)));
}

/// An address made of indices at the borders of tables, so that histories meet.
fn place() -> impl Strategy<Value = u64> {
    let at = |indices: &'static [u64]| prop::sample::select(indices);
    (at(&[0, 1, 255, 256, 511]), at(&[0, 511]), at(&[0, 1, 511]), at(&[0, 1, 511])).prop_map(
        |(root, gib, mib2, page)| {
            let address = root * span(4) + gib * span(3) + mib2 * span(2) + page * span(1);
            if address >> 47 == 1 { address | u64::MAX << 48 } else { address }
        },
    )
}

fn prot() -> impl Strategy<Value = Prot> {
    (any::<[bool; 5]>(), 0..16u8).prop_map(|([write, execute, user, device, global], key)| Prot {
        write,
        // Writable and executable comes up, but not half of the time.
        execute: execute && (!write || device),
        user,
        device,
        global,
        key,
    })
}

fn len() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 4096, 4097, 8192, MIB2, MIB2 + 4096, GIB, 512 * GIB, 1 << 47, u64::MAX];
    prop_oneof![prop::sample::select(edges.to_vec()), 0..4 * MIB2]
}

#[derive(Clone, Debug)]
enum Step {
    Map(u64, u64, Prot),
    Large(u64, u64, bool, Prot),
    Unmap(u64, u64),
    Protect(u64, u64),
    Hide(u64, u64),
    Show(u64, u64),
    Access(usize, u64),
    Refuse(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let frame = || prop_oneof![(0..4u64).prop_map(|frame| frame << 12), Just(0x000f_ffff_ffff_f000)];
    let aligned = |(address, frame, gib, prot): (u64, u64, bool, Prot)| {
        let size = if gib { GIB } else { MIB2 };
        Step::Large(address & !(size - 1), frame << 18 & 0x000f_ffff_c000_0000, gib, prot)
    };
    prop_oneof![
        6 => (place(), frame(), prot()).prop_map(|(address, frame, prot)| Step::Map(address, frame, prot)),
        1 => (place(), frame(), any::<bool>(), prot()).prop_map(aligned),
        3 => (place(), len()).prop_map(|(base, len)| Step::Unmap(base, len)),
        2 => (place(), len()).prop_map(|(base, len)| Step::Protect(base, len)),
        2 => lower().prop_map(|(base, len)| Step::Hide(base, len)),
        2 => lower().prop_map(|(base, len)| Step::Show(base, len)),
        8 => (0..2usize, place()).prop_map(|(processor, address)| Step::Access(processor, address)),
        1 => place().prop_map(Step::Refuse),
    ]
}

/// Whole pages of the lower half, not many.
fn lower() -> impl Strategy<Value = (u64, u64)> {
    let whole = |(base, len): (u64, u64)| {
        let base = base & ((1 << 47) - 1) & !0xfff;
        (base, ((len & !0xfff).min(8 * MIB2) + 4096).min((1 << 47) - base))
    };
    (place(), len()).prop_map(whole)
}

/// What is mapped where: first address in 48 bits -> (size, frame, protection).
#[derive(Default)]
struct Model(BTreeMap<u64, (u64, u64, Prot)>);

const LOW48: u64 = (1 << 48) - 1;

impl Model {
    fn at(&self, address: u64) -> Option<(u64, Prot)> {
        let address = address & LOW48;
        let (start, (size, frame, prot)) = self.0.range(..=address).next_back()?;
        (address - start < *size).then_some((frame + ((address - start) & !0xfff), *prot))
    }

    /// The first addresses of what `[first, last]` touches.
    fn touched(&self, first: u64, last: u64) -> Vec<u64> {
        let touched = |(start, (size, ..)): &(&u64, &(u64, u64, Prot))| **start <= last && **start + size > first;
        self.0.iter().filter(touched).map(|(start, _)| *start).collect()
    }
}

/// The pages that `[base, base + len)` touches within the half of `base`; in 48 bits, both ends belong to it.
fn pages(base: u64, len: u64) -> Option<(u64, u64)> {
    let end = if base >> 47 == 0 { (1 << 47) - 1 } else { u64::MAX };
    let last = base.saturating_add(len.checked_sub(1)?).min(end);
    Some((base & LOW48 & !0xfff, last & LOW48 | 0xfff))
}

struct Run {
    memory: Memory,
    tables: Tables,
    model: Model,
    /// What would be mapped if it were shown.
    hidden: BTreeMap<u64, (u64, u64, Prot)>,
    processors: Vec<Processor>,
}

impl Run {
    fn shootdown(&mut self, first: u64, last: u64) {
        let full = |address: u64| if address >> 47 == 1 { address | u64::MAX << 48 } else { address };
        self.processors.iter_mut().for_each(|processor| processor.forget(full(first), full(last)));
    }

    fn map(&mut self, address: u64, frame: u64, size: u64, prot: Prot) -> Result<(), TestCaseError> {
        let result = match size {
            4096 => self.tables.map(&mut self.memory, address, frame, prot),
            _ => self.tables.map_large(&mut self.memory, address, frame, size, prot),
        };
        let start = address & LOW48;
        let there = self.model.touched(start, start + size - 1);
        let other_size = there.iter().any(|start| self.model.0[start].0 != size);
        let same = self.model.0.get(&start) == Some(&(size, frame, prot));
        match result {
            Err(MapError::WriteAndExecute) => prop_assert!(prot.write && prot.execute),
            Err(MapError::InTheWay) => {
                // Tables in which nothing is mapped any more are in the way of a large page, too.
                let table = |(level, first): &(u32, u64)| *first == start && span(*level + 1) == size;
                prop_assert!(other_size || survey(&self.memory, self.tables.root()).0.values().any(table));
            }
            Err(other) => prop_assert!(false, "{}", other),
            Ok(mapped) => {
                prop_assert!(!other_size);
                prop_assert!(!(prot.write && prot.execute));
                let expected = match there.len() {
                    0 => Mapped::New,
                    _ if same => Mapped::Same,
                    _ => Mapped::Replaced,
                };
                prop_assert_eq!(mapped, expected);
                self.hidden.remove(&start);
                self.model.0.insert(start, (size, frame, prot));
                // What the answer is for: only a replacement is told to the processors.
                if mapped == Mapped::Replaced {
                    self.shootdown(start, start + size - 1);
                }
            }
        }
        Ok(())
    }

    fn unmap(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let (before, _) = survey(&self.memory, self.tables.root());
        let out = self.tables.unmap(&mut self.memory, base, len);
        let (after, _) = survey(&self.memory, self.tables.root());
        let gone = &names(&before) - &names(&after);
        prop_assert_eq!(&out.tables.iter().copied().collect::<std::collections::BTreeSet<_>>(), &gone);
        prop_assert_eq!(out.tables.len(), gone.len());
        let Some((first, last)) = pages(base, len) else {
            prop_assert!(out.is_empty());
            return Ok(());
        };
        self.hidden.retain(|start, _| *start < first || *start > last);
        let mut removed = 0;
        for start in self.model.touched(first, last) {
            let (size, ..) = self.model.0[&start];
            if size == 4096 || first <= start && start + (size - 1) <= last {
                removed += size / 4096;
                self.model.0.remove(&start);
            }
        }
        prop_assert_eq!(out.pages, removed);
        // A table goes if, and only if, the range covers all that it can map, or a table below it has gone and nothing is
        // left in it; and it hangs on this root only.
        for (level, start) in before.values() {
            let last_of = start + (span(*level + 1) - 1);
            let covered = first <= *start && last_of <= last;
            let below = |tables: &BTreeMap<u64, (u32, u64)>| {
                tables.values().filter(|(l, s)| l + 1 == *level && (*start..=last_of).contains(s)).count()
            };
            let no_page = self.model.0.range(*start..=last_of).next().is_none();
            let emptied = below(&after) < below(&before) && below(&after) == 0 && no_page;
            let shared = *level == 3 && *start >> 47 == 1;
            let stays = after.values().any(|other| other == &(*level, *start));
            prop_assert_eq!(stays, !(covered || emptied) || shared);
        }
        if !out.is_empty() {
            self.shootdown(first, last);
        }
        // Only now: a processor might have been walking them.
        out.tables.into_iter().for_each(|table| self.memory.free(table));
        Ok(())
    }

    fn protect(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let changed = self.tables.write_protect(&mut self.memory, base, len);
        let mut expected = 0;
        if let Some((first, last)) = pages(base, len) {
            for start in self.model.touched(first, last) {
                let (size, _, prot) = self.model.0.get_mut(&start).unwrap();
                expected += u64::from(std::mem::take(&mut prot.write));
                if *size > 4096 {
                    let end = start + *size - 1;
                    self.shootdown(start, end);
                }
            }
            for (_, (_, _, prot)) in self.hidden.range_mut(first..=last) {
                prot.write = false;
            }
            if changed > 0 {
                self.shootdown(first, last);
            }
        }
        prop_assert_eq!(changed, expected);
        Ok(())
    }

    fn hide(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let changed = self.tables.hide(&mut self.memory, base, len);
        let is_page = |(_, (size, ..)): &(&u64, &(u64, u64, Prot))| *size == 4096;
        let there: Vec<u64> = self.model.0.range(base..base + len).filter(is_page).map(|(start, _)| *start).collect();
        prop_assert_eq!(changed, there.len() as u64);
        for start in there {
            self.hidden.extend(self.model.0.remove_entry(&start));
        }
        if changed > 0 {
            self.shootdown(base, base + len - 1);
        }
        Ok(())
    }

    fn show(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let changed = self.tables.show(&mut self.memory, base, len);
        let there: Vec<u64> = self.hidden.range(base..base + len).map(|(start, _)| *start).collect();
        prop_assert_eq!(changed, there.len() as u64);
        for start in there {
            self.model.0.extend(self.hidden.remove_entry(&start));
        }
        Ok(())
    }

    fn access(&mut self, processor: usize, address: u64) -> Result<(), TestCaseError> {
        let expected = self.model.at(address);
        prop_assert_eq!(self.tables.translate(&self.memory, address), expected);
        let seen = self.processors[processor].access(&self.memory, self.tables.root(), address);
        prop_assert_eq!(seen, expected, "what a processor sees at {:x}", address);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn every_processor_sees_what_is_mapped(steps in prop::collection::vec(step(), 0..80)) {
        let mut memory = memory();
        let tables = Tables::new(&mut memory).unwrap();
        let processors = vec![Processor::default(), Processor::default()];
        let mut run = Run { memory, tables, model: Model::default(), hidden: BTreeMap::new(), processors };
        for step in steps {
            match step {
                Step::Map(address, frame, prot) => run.map(address, frame, 4096, prot)?,
                Step::Large(address, frame, gib, prot) => {
                    run.map(address, frame, if gib { GIB } else { MIB2 }, prot)?;
                }
                Step::Unmap(base, len) => run.unmap(base, len)?,
                Step::Protect(base, len) => run.protect(base, len)?,
                Step::Hide(base, len) => run.hide(base, len)?,
                Step::Show(base, len) => run.show(base, len)?,
                Step::Access(processor, address) => run.access(processor, address)?,
                Step::Refuse(address) => {
                    // Without memory it may fail, but then nothing that was mapped has changed.
                    let room = std::mem::take(&mut run.memory.room);
                    if run.model.at(address).is_none() {
                        let result = run.tables.map(&mut run.memory, address, 0x7000, R);
                        if result == Ok(Mapped::New) {
                            run.hidden.remove(&(address & LOW48));
                            run.model.0.insert(address & LOW48, (4096, 0x7000, R));
                        } else {
                            prop_assert_eq!(result, Err(MapError::NoMemory));
                        }
                    }
                    run.memory.room = room;
                }
            }
            let (tables, pages) = survey(&run.memory, run.tables.root());
            prop_assert!(pages.iter().all(|entry| entry >> 63 == 1 || entry >> 1 & 1 == 0), "write and execute");
            prop_assert_eq!(pages.len(), run.model.0.len());
            let lower = tables.values().filter(|(_, start)| start >> 47 == 0).count();
            prop_assert_eq!(run.tables.tables(&run.memory), lower as u64);
        }
        for start in run.model.0.keys().copied().collect::<Vec<_>>() {
            let full = if start >> 47 == 1 { start | u64::MAX << 48 } else { start };
            run.access(0, full)?;
            run.access(1, full)?;
        }
        let (tables, _) = survey(&run.memory, run.tables.root());
        let upper = tables.values().filter(|(_, start)| start >> 47 == 1).count();
        run.tables.free_lower(&mut run.memory);
        prop_assert_eq!(run.memory.tables.len(), upper, "the upper half is not ours to free");
    }
}

//! Histories of page tables on an emulated machine whose processors remember what they may, against a plain map from page to frame.

use super::machine::*;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

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
    TakeOut(u64, u64),
    /// One of the others, when there is no memory to split a page.
    Scarce(Box<Step>),
    Access(usize, u64),
    Refuse(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let frame = || prop_oneof![(0..4u64).prop_map(|frame| frame << 12), Just(0x000f_ffff_ffff_f000)];
    let aligned = |(address, frame, gib, prot): (u64, u64, bool, Prot)| {
        let size = if gib { GIB } else { MIB2 };
        Step::Large(address & !(size - 1), frame << 18 & 0x000f_ffff_c000_0000, gib, prot)
    };
    let change = || {
        prop_oneof![
            3 => (place(), len()).prop_map(|(base, len)| Step::Unmap(base, len)),
            2 => (place(), len()).prop_map(|(base, len)| Step::Protect(base, len)),
            2 => lower().prop_map(|(base, len)| Step::Hide(base, len)),
            2 => lower().prop_map(|(base, len)| Step::Show(base, len)),
            2 => lower().prop_map(|(base, len)| Step::TakeOut(base, len)),
        ]
    };
    prop_oneof![
        6 => (place(), frame(), prot()).prop_map(|(address, frame, prot)| Step::Map(address, frame, prot)),
        2 => (place(), frame(), any::<bool>(), prot()).prop_map(aligned),
        9 => change(),
        1 => change().prop_map(|step| Step::Scarce(Box::new(step))),
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

    /// A large page is split where one of its parts begins.
    fn split(&mut self, address: u64, which: impl Fn(&Prot) -> bool) {
        while let Some((&start, &(size, frame, prot))) = self.0.range(..address).next_back()
            && size > 4096
            && address - start < size
            && which(&prot)
        {
            self.0.remove(&start);
            let part = size / 512;
            self.0.extend((0..512).map(|n| (start + n * part, (part, frame + n * part, prot))));
        }
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

    /// A range of which something changes: large pages of which it has a part are split, if there is memory. What processors have to
    /// forget.
    fn edges(&mut self, first: u64, last: u64, which: impl Fn(&Prot) -> bool) -> (u64, u64) {
        if self.memory.room > 0 {
            self.model.split(first, &which);
            self.model.split(last + 1, &which);
            return (first, last);
        }
        let touched = self.model.touched(first, last).into_iter().map(|start| (start, self.model.0[&start]));
        let touched = touched.filter(|(_, (_, _, prot))| which(prot));
        touched
            .fold((first, last), |(first, last), (start, (size, ..))| (first.min(start), last.max(start + (size - 1))))
    }

    fn map(&mut self, address: u64, frame: u64, size: u64, prot: Prot) -> Result<(), TestCaseError> {
        let result = match size {
            4096 => self.tables.map(&mut self.memory, address, frame, prot),
            _ => self.tables.map_sized(&mut self.memory, address, frame, size, prot),
        };
        let start = address & LOW48;
        // What only a key kept from storing there goes before something that only the entry does.
        let before = self.model.0.range(..=start).next_back().filter(|(at, (len, ..))| **at + (len - 1) >= start);
        let by_key = before.is_some_and(|(_, (len, _, was))| *len >= size && was.write && was.key != 0);
        let takes = by_key && !prot.write && prot.key == 0 && result == Err(MapError::InTheWay);
        if result.is_ok() || takes {
            self.model.split(start, |_| true);
            self.model.split(start + size, |_| true);
        }
        let there = self.model.touched(start, start + size - 1);
        let other_size = there.iter().any(|start| self.model.0[start].0 < size);
        // Whoever can store keeps that.
        let keeps = self.model.0.get(&start).is_some_and(|&(len, at, was)| (len, at) == (size, frame) && was.write);
        let prot = Prot { write: prot.write || keeps && !prot.execute, ..prot };
        let same = self.model.0.get(&start) == Some(&(size, frame, prot));
        match result {
            Err(MapError::WriteAndExecute) => prop_assert!(prot.write && prot.execute),
            Err(MapError::InTheWay) => {
                // Tables in which nothing is mapped any more are in the way of a large page, too.
                let table = |(level, first): &(u32, u64)| *first == start && span(*level + 1) == size;
                prop_assert!(takes || other_size || survey(&self.memory, self.tables.root()).0.values().any(table));
            }
            Err(other) => prop_assert!(false, "{}", other),
            Ok(mapped) => {
                prop_assert!(!other_size);
                prop_assert!(!(by_key && !prot.write && prot.key == 0));
                prop_assert!(!(prot.write && prot.execute));
                let expected = match there.len() {
                    0 => Mapped::New,
                    _ if same => Mapped::Same,
                    _ => Mapped::Replaced,
                };
                prop_assert_eq!(mapped, expected);
                self.forget_hidden(start, start + (size - 1));
                self.model.0.insert(start, (size, frame, prot));
                // What the answer is for: only a replacement is told to the processors.
                if mapped == Mapped::Replaced {
                    self.shootdown(start, start + size - 1);
                }
            }
        }
        Ok(())
    }

    /// Of what was hidden there nothing is known any more.
    fn forget_hidden(&mut self, first: u64, last: u64) {
        self.hidden.retain(|start, (size, ..)| *start > last || start + (*size - 1) < first);
    }

    fn unmap(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let (before, _) = survey(&self.memory, self.tables.root());
        let mut out = self.tables.unmap(&mut self.memory, base, len);
        let (after, _) = survey(&self.memory, self.tables.root());
        let gone = &names(&before) - &names(&after);
        let Some((first, last)) = pages(base, len) else {
            prop_assert!(out.is_empty());
            return Ok(());
        };
        self.forget_hidden(first, last);
        let stale = self.edges(first, last, |_| true);
        prop_assert_eq!(out.more, stale != (first, last));
        let (mut emptied, mut removed) = (0, 0);
        for start in self.model.touched(first, last) {
            let (size, ..) = self.model.0[&start];
            removed += 1;
            // Not by the entry, but with a table.
            let of_gone = |(table, (level, at)): (&u64, &(u32, u64))| {
                gone.contains(table)
                    && first <= *at
                    && at + (span(*level + 1) - 1) <= last
                    && (*at..=at + (span(*level + 1) - 1)).contains(&start)
            };
            emptied += if before.iter().any(of_gone) { 0 } else { size / 4096 };
            self.model.0.remove(&start);
        }
        prop_assert_eq!(out.pages, emptied);
        prop_assert!(removed == 0 || !out.is_empty());
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
            self.shootdown(stale.0, stale.1);
        }
        // Only now: a processor might have been walking them. (That none is freed twice, the memory looks after.)
        while !out.tables.is_empty() {
            out.tables.free(&mut self.memory, &mut 700);
        }
        prop_assert!(gone.iter().all(|table| !self.memory.tables.contains_key(table)));
        prop_assert!(names(&after).iter().all(|table| self.memory.tables.contains_key(table)));
        Ok(())
    }

    /// Whatever it looks at, nothing lies in what it passes over.
    fn pass_over(&self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let Some((first, last)) = pages(base, len) else { return Ok(()) };
        for most in [0, 3, 700, usize::MAX] {
            let passed = self.tables.pass_over(&self.memory, base, len, most) - base;
            prop_assert!(passed <= len);
            if let Some(passed) = passed.checked_sub(1) {
                let end = (first + passed).min(last);
                prop_assert!(self.model.touched(first, end).is_empty(), "pages are passed over");
                let is_hidden = self.hidden.iter().any(|(at, (size, ..))| *at <= end && at + (*size - 1) >= first);
                prop_assert!(!is_hidden, "hidden pages are passed over");
            }
        }
        Ok(())
    }

    fn protect(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        self.pass_over(base, len)?;
        let touched = self.tables.write_protect(&mut self.memory, base, len);
        let mut expected = 0;
        if let Some((first, last)) = pages(base, len) {
            let stale = self.edges(first, last, |prot| prot.write);
            prop_assert_eq!(touched.more, stale != (first, last));
            for start in self.model.touched(first, last) {
                let (_, _, prot) = self.model.0.get_mut(&start).unwrap();
                expected += u64::from(std::mem::take(&mut prot.write));
            }
            for (start, (size, _, prot)) in &mut self.hidden {
                prot.write &= *start > last || start + (*size - 1) < first;
            }
            if touched.is_any() {
                self.shootdown(stale.0, stale.1);
            }
        }
        // Of a table as a whole, whatever is in it.
        prop_assert!(touched.is_any() || expected == 0, "{} pages can be stored to no more", expected);
        Ok(())
    }

    /// Hides pages, or takes them out.
    fn close(&mut self, base: u64, len: u64, out: bool) -> Result<(), TestCaseError> {
        let last = base + (len - 1);
        let tables = &mut self.tables;
        let touched =
            if out { tables.take_out(&mut self.memory, base, len) } else { tables.hide(&mut self.memory, base, len) };
        let stale = self.edges(base, last, |_| true);
        prop_assert_eq!(touched.more, stale != (base, last));
        let mut entries = 0;
        if out {
            // A large page that is hidden counts as one entry if all of it is taken out, and as none if it is forgotten.
            let all = |(start, (size, ..)): &(&u64, &(u64, u64, Prot))| **start >= base && **start + (size - 1) <= last;
            entries += self.hidden.iter().filter(all).count() as u64;
            self.forget_hidden(base, last);
        }
        for start in self.model.touched(base, last) {
            let page = self.model.0.remove(&start).unwrap();
            entries += 1;
            // What could not be split is gone.
            if !out && start >= base && start + (page.0 - 1) <= last {
                self.hidden.insert(start, page);
            }
        }
        prop_assert_eq!(touched.entries, entries);
        if touched.is_any() {
            self.shootdown(stale.0, stale.1);
        }
        Ok(())
    }

    fn show(&mut self, base: u64, len: u64) -> Result<(), TestCaseError> {
        let touched = self.tables.show(&mut self.memory, base, len);
        let there: Vec<u64> = self.hidden.range(base..base + len).map(|(start, _)| *start).collect();
        let mut entries = 0;
        for start in there {
            let page = self.hidden[&start];
            if start + (page.0 - 1) < base + len {
                entries += 1;
                self.model.0.insert(start, page);
                self.hidden.remove(&start);
            }
        }
        self.forget_hidden(base, base + (len - 1));
        prop_assert_eq!(touched, Touched { entries, more: false });
        Ok(())
    }

    fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Map(address, frame, prot) => self.map(address, frame, 4096, prot),
            Step::Large(address, frame, gib, prot) => self.map(address, frame, if gib { GIB } else { MIB2 }, prot),
            Step::Unmap(base, len) => self.unmap(base, len),
            Step::Protect(base, len) => self.protect(base, len),
            Step::Hide(base, len) => self.close(base, len, false),
            Step::TakeOut(base, len) => self.close(base, len, true),
            Step::Show(base, len) => self.show(base, len),
            Step::Access(processor, address) => self.access(processor, address),
            Step::Scarce(step) => {
                let room = std::mem::take(&mut self.memory.room);
                let done = self.step(*step);
                // (What has gone meanwhile is free.)
                self.memory.room += room;
                done
            }
            Step::Refuse(address) => {
                // Without memory it may fail, but then nothing that was mapped has changed.
                let room = std::mem::take(&mut self.memory.room);
                if self.model.at(address).is_none() {
                    let result = self.tables.map(&mut self.memory, address, 0x7000, R);
                    if result == Ok(Mapped::New) {
                        let start = address & LOW48;
                        self.forget_hidden(start, start | 0xfff);
                        self.model.0.insert(start, (4096, 0x7000, R));
                    } else {
                        prop_assert_eq!(result, Err(MapError::NoMemory));
                    }
                }
                self.memory.room = room;
                Ok(())
            }
        }
    }

    fn access(&mut self, processor: usize, address: u64) -> Result<(), TestCaseError> {
        let expected = self.model.at(address);
        prop_assert_eq!(self.tables.translate(&self.memory, address), expected);
        let processor = &mut self.processors[processor];
        let mut seen = processor.access(&self.memory, self.tables.root(), address);
        if let (Some((_, seen_as)), Some((_, is))) = (seen, expected)
            && is.write
            && !seen_as.write
        {
            // It remembers a link that was held. A store faults, and by that it forgets what has led there.
            processor.forget(address, address);
            seen = processor.access(&self.memory, self.tables.root(), address);
        }
        prop_assert_eq!(seen, expected, "what a processor sees at {:x}", address);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn every_processor_sees_what_is_mapped(steps in prop::collection::vec(step(), 0..80)) {
        let mut memory = memory();
        let tables = Tables::new(&mut memory).unwrap();
        let processors = vec![Processor::default(), Processor::default()];
        let mut run = Run { memory, tables, model: Model::default(), hidden: BTreeMap::new(), processors };
        for step in steps {
            run.step(step)?;
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

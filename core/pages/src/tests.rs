//! A family of clones against plain copies of their contents.

mod row;

use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many pages somebody else has, too, counted in two parts.
fn shared<P: Page>(map: &PageMap<P>) -> u64 {
    let (mut from, mut counted) = (Some(0), [0, 0]);
    while let Some(at) = from {
        let (part, next) = map.survey(at, 2, |_| 0);
        counted = [counted[0] + part.resident, counted[1] + part.shared];
        from = next;
    }
    assert_eq!(counted[0], map.resident());
    counted[1]
}

/// What is kept of a map is what its chunks come to.
fn sums_up<P: Page>(map: &PageMap<P>) -> bool {
    let sum = |of: fn(&Chunk<P>) -> u64| map.chunks.from(0).map(|(_, chunk)| of(chunk)).sum::<u64>();
    (map.resident(), map.bytes()) == (sum(|chunk| chunk.pages().count() as u64), sum(Chunk::bytes))
}

/// A page of one byte that counts how many pages there are.
#[derive(Debug)]
struct Content {
    value: Cell<u8>,
    live: Rc<Cell<usize>>,
}

impl Drop for Content {
    fn drop(&mut self) {
        self.live.set(self.live.get() - 1);
    }
}

type Map = PageMap<Arc<Content>>;

#[derive(Clone, Default)]
struct Memory(Rc<Cell<usize>>);

impl Memory {
    #[expect(clippy::arc_with_non_send_sync, reason = "`Page` is for `Arc`; the count of pages is not shared")]
    fn page(&self, value: u8) -> Arc<Content> {
        self.0.set(self.0.get() + 1);
        Arc::new(Content { value: Cell::new(value), live: self.0.clone() })
    }

    /// What a page fault does: zeroes, or a copy.
    fn make(&self) -> impl FnOnce(Option<&Arc<Content>>) -> Result<Arc<Content>, ()> {
        |old| Ok(self.page(old.map_or(0, |old| old.value.get())))
    }
}

fn write(map: &mut Map, memory: &Memory, page: u64, value: u8) -> (bool, bool) {
    let wrote = map.make_writable(page, memory.make()).unwrap();
    wrote.page.value.set(value);
    (wrote.replaced.is_some(), wrote.fresh)
}

fn read(map: &Map, page: u64) -> Option<u8> {
    map.get(page).map(|page| page.value.get())
}

#[test]
fn a_write_copies_what_is_shared_and_nothing_else() {
    let memory = Memory::default();
    let mut one = Map::new(3);
    assert!(!one.writable(0));
    assert_eq!(write(&mut one, &memory, 0, 1), (false, true));
    assert_eq!(write(&mut one, &memory, 0, 2), (false, false));
    assert!(one.writable(0));
    let mut two = one.clone_shared();
    assert!(!one.writable(0) && !two.writable(0));
    assert_eq!((shared(&one), two.resident()), (1, 1));
    assert_eq!(write(&mut two, &memory, 0, 3), (true, false));
    // Now nobody else holds the page of `one`, and no further copy is needed.
    assert_eq!(write(&mut one, &memory, 0, 4), (false, false));
    assert_eq!((read(&one, 0), read(&two, 0)), (Some(4), Some(3)));
    assert_eq!(memory.0.get(), 2);
}

proptest! {
    /// Pages that are taken out are gone here, and stay in a clone.
    #[test]
    fn pages_are_taken_out(
        there in prop::collection::btree_set(0..1100u64, 0..60), first in 0..1100u64, count in 0..700u64, cloned: bool,
    ) {
        let memory = Memory::default();
        let mut map = Map::new(1100);
        for page in &there {
            write(&mut map, &memory, *page, *page as u8);
        }
        let clone = cloned.then(|| map.clone_shared());
        let mut out = Vec::new();
        map.take(first, count, |page| out.push(page.value.get()));
        let is_out = |page: &u64| (first..first + count).contains(page);
        let wanted: Vec<u8> = there.iter().filter(|page| is_out(page)).map(|page| *page as u8).collect();
        prop_assert_eq!((out.len() as u64 + map.resident(), out), (there.len() as u64, wanted));
        prop_assert!(sums_up(&map) && clone.iter().all(sums_up));
        for page in 0..1100 {
            let value = there.contains(&page).then_some(page as u8);
            prop_assert_eq!(read(&map, page), value.filter(|_| !is_out(&page)));
            if let Some(clone) = &clone {
                prop_assert_eq!(read(clone, page), value);
            }
        }
        // With the pages taken out and both maps everything is gone.
        drop((map, clone));
        prop_assert_eq!(memory.0.get(), 0);
    }
}

proptest! {
    /// Pages are made where there were none, in their order and as many as there are to be had; what was there stays, and a clone sees nothing of it.
    #[test]
    fn pages_are_made_where_there_are_none(
        there in prop::collection::btree_set(0..1100u64, 0..60),
        first in 0..1100u64,
        count in 0..1100u64,
        most in 0..1200u64,
        cloned: bool,
    ) {
        let (memory, count) = (Memory::default(), count.min(1100 - first));
        let mut map = Map::new(1100);
        for page in &there {
            write(&mut map, &memory, *page, 7);
        }
        let clone = cloned.then(|| map.clone_shared());
        let absent: Vec<u64> = (first..first + count).filter(|page| !there.contains(page)).collect();
        prop_assert_eq!(map.absent(first, count), absent.len() as u64);
        for page in 0..1100 {
            // What is passed over is absent, and no chunk in which anything is, is.
            let next = map.resident_from(page);
            let end = next.unwrap_or(1100);
            prop_assert!((page..end).all(|page| !there.contains(&page)), "{page}: {next:?}");
            let begins = end.is_multiple_of(CHUNK) && (end..end + CHUNK).any(|page| there.contains(&page));
            prop_assert!(end == page || next.is_none() || begins, "{page}: {next:?}");
        }
        let mut left = most;
        let made = map.fill(first, count, || {
            left = left.checked_sub(1)?;
            Some(memory.page(9))
        });
        prop_assert_eq!(made, most.min(absent.len() as u64));
        prop_assert_eq!(map.resident(), there.len() as u64 + made);
        prop_assert!(sums_up(&map) && clone.iter().all(sums_up));
        let new = &absent[..made as usize];
        for page in 0..1100 {
            let old = there.contains(&page).then_some(7);
            prop_assert_eq!(read(&map, page), if new.binary_search(&page).is_ok() { Some(9) } else { old });
            if let Some(clone) = &clone {
                prop_assert_eq!(read(clone, page), old);
            }
        }
    }
}

#[test]
fn a_clone_costs_nothing_per_page() {
    let memory = Memory::default();
    let mut one = Map::new(512);
    for page in 0..512 {
        write(&mut one, &memory, page, 1);
    }
    let two = one.clone_shared();
    assert_eq!(memory.0.get(), 512);
    assert!((0..512).all(|page| Arc::strong_count(two.get(page).unwrap()) == 1), "one counted pointer, not 512");
}

#[test]
fn a_refusal_changes_nothing() {
    let memory = Memory::default();
    let mut one = Map::new(600);
    write(&mut one, &memory, 5, 1);
    let mut two = one.clone_shared();
    assert!(two.make_writable(5, |_| Err(())).is_err());
    assert!(two.make_writable(6, |_| Err(())).is_err());
    assert!(two.ensure(599, || Err(())).is_err());
    assert_eq!((two.resident(), read(&two, 5), read(&two, 6)), (1, Some(1), None));
    assert!(!one.writable(5));
}

#[test]
fn pages_taken_out_of_a_shared_chunk_outlive_the_other_owner() {
    let memory = Memory::default();
    let mut one = Map::new(8);
    write(&mut one, &memory, 7, 9);
    let mut two = one.clone_shared();
    let cut = two.resize(0);
    drop(one);
    assert_eq!(cut.pages().map(|page| page.value.get()).collect::<Vec<_>>(), [9]);
    assert_eq!(memory.0.get(), 1);
    drop(cut);
    assert_eq!(memory.0.get(), 0);
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let memory = Memory::default();
    for (page, cut_to) in [(5, 5), (5, 3), (511, 511), (512, 512), (512, 1), (1030, 1029), (0, 0)] {
        let mut map = Map::new(2000);
        write(&mut map, &memory, page, 1);
        assert_eq!(map.resize(cut_to).len(), 1, "{page} {cut_to}");
        assert!(map.resize(2000).is_empty());
        assert_eq!((read(&map, page), map.resident()), (None, 0));
    }
}

#[test]
fn nothing_lies_beyond_the_end() {
    let map = Map::new(1);
    assert!(map.get(1).is_none() && map.get(u64::MAX).is_none());
    assert!(!map.writable(1) && !map.writable(u64::MAX));
    assert_eq!(Map::new(0).len_pages(), 0);
}

#[test]
#[should_panic(expected = "page 1 of 1")]
fn writing_beyond_the_end_is_the_callers_mistake() {
    drop(Map::new(1).make_writable(1, Memory::default().make()));
}

#[derive(Clone, Debug)]
enum Step {
    Write(usize, u64, u8),
    /// The same, but there is no memory.
    Refuse(usize, u64),
    Ensure(usize, u64),
    Supply(usize, u64, u8),
    Clone(usize),
    Resize(usize, u64),
    Fill(usize, u64, u64),
    Take(usize, u64, u64),
    TakeOne(usize, u64),
    TakeAll(usize),
    Delete(usize),
}

/// The borders of chunks, and little else.
const PAGES: [u64; 9] = [0, 1, 510, 511, 512, 513, 1023, 1024, 1030];
/// As many from each on are made at once, at most.
const MORE: u64 = 4;

fn step() -> impl Strategy<Value = Step> {
    let page = || prop::sample::select(&PAGES[..]);
    let map = || 0..100usize;
    prop_oneof![
        8 => (map(), page(), 1..=u8::MAX).prop_map(|(map, page, value)| Step::Write(map, page, value)),
        1 => (map(), page()).prop_map(|(map, page)| Step::Refuse(map, page)),
        2 => (map(), page()).prop_map(|(map, page)| Step::Ensure(map, page)),
        1 => (map(), page(), 1..=u8::MAX).prop_map(|(map, page, value)| Step::Supply(map, page, value)),
        4 => map().prop_map(Step::Clone),
        2 => (map(), page(), 0..2u64).prop_map(|(map, page, more)| Step::Resize(map, page + more)),
        2 => (map(), page(), 0..=MORE).prop_map(|(map, page, count)| Step::Fill(map, page, count)),
        2 => (map(), page(), 0..1100u64).prop_map(|(map, page, count)| Step::Take(map, page, count)),
        1 => (map(), page()).prop_map(|(map, page)| Step::TakeOne(map, page)),
        1 => map().prop_map(Step::TakeAll),
        2 => map().prop_map(Step::Delete),
    ]
}

/// A section and a plain copy of what is in it: `None` for pages that are not resident.
struct Section {
    map: Map,
    model: Vec<Option<u8>>,
}

impl Section {
    fn holds(&self, page: u64) -> bool {
        page < self.map.len_pages()
    }
}

fn run(family: &mut Vec<Section>, memory: &Memory, step: Step) -> Result<(), TestCaseError> {
    let (Step::Write(which, ..)
    | Step::Refuse(which, _)
    | Step::Ensure(which, _)
    | Step::Supply(which, ..)
    | Step::Clone(which)
    | Step::Resize(which, _)
    | Step::Fill(which, ..)
    | Step::Take(which, ..)
    | Step::TakeOne(which, _)
    | Step::TakeAll(which)
    | Step::Delete(which)) = step;
    let which = which % family.len();
    let shared_with_others = |page: u64| {
        let mine = family[which].map.get(page);
        let same =
            |other: &Section| mine.zip(other.map.get(page)).is_some_and(|(mine, other)| Arc::ptr_eq(mine, other));
        family.iter().enumerate().any(|(at, other)| at != which && same(other))
    };
    match step {
        Step::Write(_, page, value) if family[which].holds(page) => {
            let was_shared = shared_with_others(page);
            let section = &mut family[which];
            let was_resident = section.model[page as usize].is_some();
            let (replaced, fresh) = write(&mut section.map, memory, page, value);
            prop_assert_eq!((replaced, fresh), (was_shared, !was_resident));
            prop_assert!(section.map.writable(page));
            section.model[page as usize] = Some(value);
        }
        Step::Refuse(_, page) if family[which].holds(page) => {
            let needs_none = family[which].map.writable(page);
            let result = family[which].map.make_writable(page, |_| Err(())).map(drop);
            prop_assert_eq!(result.is_ok(), needs_none);
        }
        Step::Ensure(_, page) if family[which].holds(page) => {
            let section = &mut family[which];
            let model = section.model[page as usize].get_or_insert(0);
            let page = section.map.ensure(page, || Ok::<_, ()>(memory.page(0))).unwrap();
            prop_assert_eq!(page.value.get(), *model);
        }
        Step::Supply(_, page, value) if family[which].holds(page) => {
            let section = &mut family[which];
            let old = section.map.supply(page, memory.page(value));
            let before = section.model[page as usize].replace(value);
            prop_assert_eq!(old.map(|old| old.value.get()), before);
        }
        Step::Write(..) | Step::Refuse(..) | Step::Ensure(..) | Step::Supply(..) => {}
        Step::Clone(_) if family.len() < 8 => {
            // By parts of one chunk.
            let Section { map, model } = &mut family[which];
            let (mut clone, mut from) = (PageMap::new(map.len_pages()), Some(0));
            while let Some(at) = from {
                from = map.share_some(&mut clone, at, 1);
            }
            prop_assert_eq!((clone.bytes_of_lists() <= map.bytes_of_lists(), clone.resident()), (true, map.resident()));
            let clone = Section { map: clone, model: model.clone() };
            family.push(clone);
        }
        Step::Clone(_) => {}
        Step::Resize(_, len) => {
            let section = &mut family[which];
            let mut cut: Vec<u8> = section.map.resize(len).pages().map(|page| page.value.get()).collect();
            let mut expected: Vec<u8> = section.model.iter().skip(len as usize).flatten().copied().collect();
            cut.sort();
            expected.sort();
            prop_assert_eq!(cut, expected);
            section.model.resize(len as usize, None);
            prop_assert_eq!(section.map.len_pages(), len);
            // Cut at the end of a chunk, it ends there.
            let end = section.map.end();
            prop_assert!(end <= len.next_multiple_of(CHUNK).max(64 * CHUNK));
            prop_assert!((end..len).all(|page| section.map.get(page).is_none()));
        }
        Step::Fill(_, first, count) if family[which].holds(first) => {
            let Section { map, model } = &mut family[which];
            let count = count.min(map.len_pages() - first);
            // There is memory for some of them.
            let mut left = count / 2;
            let made = map.fill(first, count, || {
                left = left.checked_sub(1)?;
                Some(memory.page(7))
            });
            let absent = model[first as usize..(first + count) as usize].iter_mut().filter(|page| page.is_none());
            prop_assert_eq!(absent.take(made as usize).map(|page| *page = Some(7)).count() as u64, made);
        }
        Step::Fill(..) => {}
        Step::Take(_, first, count) => {
            let Section { map, model } = &mut family[which];
            let mut taken = 0;
            map.take(first, count, |_| taken += 1);
            let there = model.iter_mut().skip(first as usize).take(count as usize).filter_map(Option::take);
            prop_assert_eq!(taken, there.count());
        }
        Step::TakeOne(_, page) => {
            let Section { map, model } = &mut family[which];
            let there = model.get_mut(page as usize).and_then(Option::take);
            prop_assert_eq!(map.take_one(page).map(|page| page.value.get()), there);
        }
        Step::TakeAll(_) => {
            let section = &mut family[which];
            let taken = section.map.take_all();
            prop_assert_eq!(taken.len(), section.model.iter().flatten().count());
            section.model.fill(None);
        }
        Step::Delete(_) if family.len() > 1 => {
            let section = family.swap_remove(which);
            let resident = section.map.resident();
            prop_assert_eq!(section.map.drain().count() as u64, resident);
        }
        Step::Delete(_) => {}
    }
    Ok(())
}

/// Contents are those of the model, sharing is what it looks like, and nothing that is shared may be written.
fn check(family: &[Section], memory: &Memory) -> Result<(), TestCaseError> {
    let mut distinct = BTreeSet::new();
    for (at, section) in family.iter().enumerate() {
        let mut shared = 0;
        for page in BTreeSet::from_iter(PAGES.into_iter().flat_map(|page| page..page + MORE)) {
            let model = section.model.get(page as usize).copied().flatten();
            prop_assert_eq!(read(&section.map, page), model);
            let Some(mine) = section.map.get(page) else {
                prop_assert!(!section.map.writable(page));
                continue;
            };
            distinct.insert(Arc::as_ptr(mine));
            let others = family.iter().enumerate().filter(|(other, _)| *other != at);
            let visible_elsewhere =
                others.filter_map(|(_, other)| other.map.get(page)).any(|other| Arc::ptr_eq(mine, other));
            prop_assert_eq!(section.map.writable(page), !visible_elsewhere);
            shared += u64::from(visible_elsewhere);
        }
        prop_assert_eq!(section.map.resident(), section.model.iter().flatten().count() as u64);
        prop_assert_eq!(self::shared(&section.map), shared);
        let is_empty = |(at, chunk): (usize, &Arc<Chunk<_>>)| at > 0 && chunk.resident() == 0;
        prop_assert!(!section.map.chunks.from(0).any(is_empty), "nobody pays for a chunk without a page");
        prop_assert!(sums_up(&section.map));
    }
    prop_assert_eq!(memory.0.get(), distinct.len(), "pages that nobody has do not stay");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn a_family_of_clones_behaves_like_copies(len in 0..1100u64, steps in prop::collection::vec(step(), 0..80)) {
        let memory = Memory::default();
        let mut family = vec![Section { map: Map::new(len), model: vec![None; len as usize] }];
        for step in steps {
            run(&mut family, &memory, step)?;
            check(&family, &memory)?;
        }
        drop(family);
        prop_assert_eq!(memory.0.get(), 0, "no page outlives its maps");
    }
}

/// Each clone under a lock of its own, on several processors: nobody sees what another one wrote.
#[test]
fn clones_on_several_processors() {
    type Shared = PageMap<Arc<AtomicU64>>;
    let make = |old: Option<&Arc<AtomicU64>>| {
        Ok::<_, ()>(Arc::new(AtomicU64::new(old.map_or(0, |old| old.load(Ordering::Relaxed)))))
    };
    for _ in 0..200 {
        let mut origin = Shared::new(1024);
        for page in [0, 1, 600] {
            origin.make_writable(page, make).unwrap().page.store(1, Ordering::Relaxed);
        }
        let clones: Vec<Shared> = (0..3).map(|_| origin.clone_shared()).collect();
        drop(origin);
        std::thread::scope(|scope| {
            for (number, mut map) in clones.into_iter().enumerate() {
                scope.spawn(move || {
                    for page in [0, 1, 600] {
                        assert_eq!(map.get(page).unwrap().load(Ordering::Relaxed), 1);
                        let wrote = map.make_writable(page, make).unwrap();
                        wrote.page.store(10 + number as u64, Ordering::Relaxed);
                    }
                    for page in [0, 1, 600] {
                        assert_eq!(map.get(page).unwrap().load(Ordering::Relaxed), 10 + number as u64);
                    }
                });
            }
        });
    }
}

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const R: Rights = Rights::READ;
const RW: Rights = Rights::READ.union(Rights::WRITE);

fn backing(base: u64) -> Arc<Backing> {
    Backing::new(Section::played(base, 1 << 20), 7, 1 << 20)
}

fn piece(backing: &Arc<Backing>, origin: u64, rights: Rights) -> Piece {
    Piece { backing: backing.clone(), origin, rights, most: RW, shared: false }
}

#[test]
fn a_range_is_granted_if_all_of_it_may_be_used() {
    let mut map = Map::default();
    let one = backing(1 << 46);
    map.insert(0x10000..0x12000, piece(&one, 0x10000, RW));
    map.insert(0x12000..0x13000, piece(&one, 0x10000, R));
    map.insert(0x14000..0x15000, piece(&one, 0x10000, RW));
    for (address, len, need, good) in [
        (0x10000, 0x3000, R, true),
        (0x10fff, 2, RW, true),
        (0x10000, 0x2001, RW, false),
        (0x12fff, 1, R, true),
        (0x12fff, 2, R, false),
        (0xffff, 2, R, false),
        (0x13000, 0x1000, R, false),
        (0x13fff, 2, R, false),
        (0x14fff, 1, RW, true),
        (0x14fff, 2, RW, false),
        (u64::MAX, 2, R, false),
        (u64::MAX - 1, 1, R, false),
        (WINDOW_END - 1, 2, R, false),
        (0, 0, R, true),
    ] {
        assert_eq!(map.grant(address, len, need).is_ok(), good, "{address:#x} {len:#x}");
    }
}

#[test]
fn a_part_of_what_was_granted_stays_within() {
    let granted = Granted { address: 100, len: 10 };
    assert_eq!(granted.part(3, 4), Granted { address: 103, len: 4 });
    assert_eq!(granted.part(8, 9), Granted { address: 108, len: 2 });
    assert_eq!(granted.part(11, 1), Granted { address: 110, len: 0 });
    assert_eq!(granted.part(u64::MAX, u64::MAX).len(), 0);
}

#[test]
fn room_is_found_from_the_top() {
    let mut map = Map::default();
    let one = backing(1 << 46);
    assert_eq!(map.find(PAGE), Some(MAP_TOP - PAGE));
    map.insert(MAP_TOP - 2 * PAGE..MAP_TOP - PAGE, piece(&one, 0, R));
    assert_eq!(map.find(PAGE), Some(MAP_TOP - PAGE));
    assert_eq!(map.find(2 * PAGE), Some(MAP_TOP - 4 * PAGE));
    assert_eq!(map.find(MAP_TOP), None);
}

#[test]
fn a_piece_that_is_cut_keeps_its_offsets_and_its_section() {
    let mut map = Map::default();
    let one = backing(1 << 46);
    map.insert(0x20000..0x24000, piece(&one, 0x1f000, RW));
    let removed = map.remove(0x21000..0x22000);
    assert_eq!(removed.len(), 1);
    assert_eq!(removed[0].0, 0x21000..0x22000);
    let left = map.pieces(&(0..WINDOW_END));
    assert_eq!(
        left.iter().map(|(r, p)| (r.start, p.offset(r.start))).collect::<Vec<_>>(),
        [(0x20000, 0x1000), (0x22000, 0x3000)]
    );
    drop((removed, one));
    let last =
        |pieces: Vec<(Range<u64>, Piece)>| pieces.into_iter().filter_map(|(_, p)| Arc::into_inner(p.backing)).count();
    assert_eq!(last(map.remove(0x20000..0x21000)), 0, "something of it is still mapped");
    drop(left);
    assert_eq!(last(map.remove(0..WINDOW_END)), 1);
}

#[test]
fn ranges_are_whole_pages_in_the_window() {
    assert_eq!(page_range(0x1000, 1), Ok(0x1000..0x2000));
    assert_eq!(page_range(0x1001, 1), Err(Errno(errno::EINVAL)));
    assert_eq!(page_range(0x1000, 0), Err(Errno(errno::EINVAL)));
    assert_eq!(page_range(WINDOW_END - PAGE, PAGE), Ok(WINDOW_END - PAGE..WINDOW_END));
    assert_eq!(page_range(WINDOW_END - PAGE, PAGE + 1), Err(Errno(errno::ENOMEM)));
    assert_eq!(page_range(u64::MAX - PAGE + 1, u64::MAX), Err(Errno(errno::ENOMEM)));
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64, bool),
    Remove(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (16u64..40, 1u64..8);
    let step = prop_oneof![
        (range.clone(), any::<bool>()).prop_map(|((at, len), write)| Step::Insert(at, len, write)),
        range.prop_map(|(at, len)| Step::Remove(at, len)),
    ];
    proptest::collection::vec(step, 1..40)
}

proptest! {
    /// The map agrees with a table of pages: rights, offsets, and which sections are still in use.
    #[test]
    fn the_map_is_a_table_of_pages(steps in steps()) {
        let mut map = Map::default();
        let mut model: BTreeMap<u64, (u64, u64, Rights)> = BTreeMap::new();
        let mut gone = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            let base = (1 << 46) + ((i as u64) << 21);
            let removed = match step {
                Step::Insert(at, len, write) => {
                    let rights = if write { RW } else { R };
                    let made = Piece { backing: backing(base), origin: at * PAGE, rights, most: RW, shared: false };
                    model.extend((at..at + len).map(|page| (page, (base, (page - at) * PAGE, rights))));
                    map.insert(at * PAGE..(at + len) * PAGE, made)
                }
                Step::Remove(at, len) => {
                    model.retain(|page, _| !(at..at + len).contains(page));
                    map.remove(at * PAGE..(at + len) * PAGE)
                }
            };
            gone.extend(removed.into_iter().filter_map(|(_, p)| Arc::into_inner(p.backing)).map(|b| b.section.base()));
            for page in 10..50u64 {
                let found = map.pieces(&(page * PAGE..(page + 1) * PAGE)).pop();
                let found = found.map(|(r, p)| (p.backing.section.base(), p.offset(r.start), p.rights));
                prop_assert_eq!(found, model.get(&page).copied());
                let good = |need| model.get(&page).is_some_and(|m| m.2.contains(need));
                prop_assert_eq!(map.grant(page * PAGE + 5, 7, RW).is_ok(), good(RW));
            }
            for base in &gone {
                prop_assert!(model.values().all(|m| m.0 != *base), "a section was given up that is mapped");
            }
        }
        let used: std::collections::BTreeSet<u64> = model.values().map(|m| m.0).collect();
        let end = map.remove(0..WINDOW_END).into_iter().filter_map(|(_, p)| Arc::into_inner(p.backing)).count();
        prop_assert_eq!(end, used.len(), "every section is given up once");
    }
}

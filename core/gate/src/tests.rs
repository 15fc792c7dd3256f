//! Gates are found exactly where they were made.

use super::*;
use abi::Error;
use abi::gate::{GATE_STEP, GATES_MAX, flag};
use proptest::prelude::*;

const FIRST: u64 = (1 << 46) + 0x1ff000;

fn block(count: u64) -> Block {
    Block { entry: 0x1000 ^ count, count, cookie: !count, flags: flag::CALLER_STACK }
}

#[test]
fn what_is_no_block_is_refused() {
    let mut table = GateTable::new(FIRST);
    assert_eq!(table.create(block(0)), Err(Error::BadArgument));
    assert_eq!(table.create(Block { flags: 2, ..block(1) }), Err(Error::BadArgument));
    assert_eq!(table.create(block(GATES_MAX + 1)), Err(Error::TooBig));
    assert_eq!(table.create(block(u64::MAX)), Err(Error::TooBig));
    assert_eq!(table.create(block(GATES_MAX)), Ok(FIRST));
    assert_eq!(table.create(block(1)), Err(Error::TooBig));
}

#[test]
fn only_exact_addresses_are_gates() {
    let mut table = GateTable::new(FIRST);
    let address = table.create(block(3)).unwrap();
    for index in 0..3 {
        assert_eq!(table.find(address + index * GATE_STEP), Some((block(3), index)));
        for off in 1..GATE_STEP {
            assert_eq!(table.find(address + index * GATE_STEP + off), None);
        }
    }
    for wrong in [0, FIRST - GATE_STEP, address + 3 * GATE_STEP, FIRST + GATES_MAX * GATE_STEP, u64::MAX] {
        assert_eq!(table.find(wrong), None, "{wrong:x}");
        assert_eq!(table.delete(wrong), Err(Error::NotFound));
    }
    assert_eq!(table.delete(address + GATE_STEP), Err(Error::NotFound), "not the first of its block");
    assert_eq!(table.delete(address), Ok(block(3)));
    assert_eq!(table.find(address), None);
}

#[test]
fn an_address_is_not_given_again_before_the_page_is_used_up() {
    let mut table = GateTable::new(FIRST);
    for number in 0..3 * GATES_MAX {
        let address = table.create(block(1)).unwrap();
        assert_eq!(address, FIRST + number % GATES_MAX * GATE_STEP);
        table.delete(address).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Against a list of the page's places.
    #[test]
    fn agrees_with_a_list_of_places(steps in prop::collection::vec((1..80u64, any::<bool>()), 0..80)) {
        let mut table = GateTable::new(FIRST);
        let mut places: Vec<Option<(Block, u64)>> = vec![None; GATES_MAX as usize];
        let mut made: Vec<u64> = Vec::new();
        let mut cursor = 0;
        for (number, create) in steps {
            if create {
                let block = Block { entry: made.len() as u64, ..block(number) };
                let free = |at: &usize| {
                    places.get(*at..*at + number as usize).is_some_and(|row| row.iter().all(Option::is_none))
                };
                let at = (cursor..places.len()).chain(0..places.len()).find(free);
                let expected = at.map(|at| FIRST + at as u64 * GATE_STEP).ok_or(Error::TooBig);
                prop_assert_eq!(table.create(block), expected);
                if let Some(at) = at {
                    (0..number).for_each(|index| places[at + index as usize] = Some((block, index)));
                    cursor = at + number as usize;
                    made.push(FIRST + at as u64 * GATE_STEP);
                }
            } else if !made.is_empty() {
                let address = made.swap_remove(number as usize % made.len());
                let at = ((address - FIRST) / GATE_STEP) as usize;
                let (block, _) = places[at].unwrap();
                prop_assert_eq!(table.delete(address), Ok(block));
                places[at..at + block.count as usize].fill(None);
            }
            for (at, place) in places.iter().enumerate() {
                prop_assert_eq!(table.find(FIRST + at as u64 * GATE_STEP), *place);
            }
        }
    }
}

//! Against a plain set of frames.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Frames that the tests' machines have.
const FRAMES: u64 = 6 * BLOCK;

#[derive(Clone, Copy, Debug)]
enum Step {
    Take(usize),
    /// Gives one back of those that are out.
    Give(usize),
    Run(u64, u32),
    /// Gives a run back, or a part of it.
    GiveRun(usize, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let count = prop_oneof![0..70u64, Just(BLOCK), 1..3 * BLOCK, Just(2 * BLOCK), Just(1 << 20)];
    prop_oneof![
        4 => prop_oneof![1..40usize, 1..900usize].prop_map(Step::Take),
        4 => any::<usize>().prop_map(Step::Give),
        3 => (count, 0..12u32).prop_map(|(count, align)| Step::Run(count, align)),
        3 => (any::<usize>(), 1..2000u64).prop_map(|(which, count)| Step::GiveRun(which, count)),
    ]
}

/// The lists hold just the blocks that belong in them.
fn lists(pool: &Pool) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let walk = |list: &List| {
        let (mut all, mut at, mut last) = (BTreeSet::new(), list.first(), NONE);
        while at != NONE {
            assert!(all.insert(at), "a list goes round");
            (last, at) = (at, pool.blocks[at as usize].links.next);
        }
        assert_eq!(list.last(), last);
        all
    };
    (walk(&pool.some), walk(&pool.whole))
}

fn check(pool: &Pool, free: &BTreeSet<u64>) {
    let count = |block: u32| free.range(u64::from(block) * BLOCK..u64::from(block + 1) * BLOCK).count() as u64;
    let blocks = || 0..pool.blocks.len() as u32;
    let (some, whole) = lists(pool);
    assert_eq!(some, blocks().filter(|block| (1..BLOCK).contains(&count(*block))).collect());
    assert_eq!(whole, blocks().filter(|block| count(*block) == BLOCK).collect());
    assert!(blocks().all(|block| pool.blocks[block as usize].free() == count(block)));
}

/// Whether there is such a run, wherever.
fn exists(free: &BTreeSet<u64>, count: u64, align: u64, within: bool) -> bool {
    let fits = |first: u64| {
        let long = if within { count } else { count.next_multiple_of(BLOCK) };
        (!within || first % BLOCK + count <= BLOCK)
            && first + count <= FRAMES
            && free.range(first..first + long).count() as u64 == long
    };
    (0..FRAMES).step_by(if within { align } else { align.max(BLOCK) } as usize).any(fits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_frame_is_free_or_somebodys(
        holes in prop::collection::vec((0..FRAMES, 1..40u64), 0..8), steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut pool = Pool::below(FRAMES);
        let mut free: BTreeSet<u64> = (0..FRAMES).collect();
        for (first, count) in holes {
            free.retain(|frame| !(first..first + count).contains(frame));
        }
        // Ranges of any length, as a machine has them.
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for frame in &free {
            match ranges.last_mut() {
                Some((first, count)) if *first + *count == *frame => *count += 1,
                _ => ranges.push((*frame, 1)),
            }
        }
        ranges.iter().rev().for_each(|(first, count)| pool.add(*first, *count));
        check(&pool, &free);
        let mut out: Vec<(u64, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Take(count) => {
                    let mut frames = vec![u64::MAX; count];
                    let taken = pool.take(&mut frames);
                    prop_assert_eq!(taken, count.min(free.len()));
                    for frame in &frames[..taken] {
                        prop_assert!(free.remove(frame), "{} is not free", frame);
                        out.push((*frame, 1));
                    }
                }
                Step::Give(which) if !out.is_empty() => {
                    let (first, count) = out.swap_remove(which % out.len());
                    match count {
                        1 => pool.give_one(first),
                        _ => pool.give(first, count),
                    }
                    free.extend(first..first + count);
                }
                Step::GiveRun(which, part) if !out.is_empty() => {
                    let which = which % out.len();
                    let (first, count) = out[which];
                    let part = part.min(count);
                    pool.give(first, part);
                    free.extend(first..first + part);
                    out[which] = (first + part, count - part);
                    out.retain(|(_, count)| *count > 0);
                }
                Step::Run(count, align) => {
                    let align = 1 << align;
                    match pool.take_run(count, align) {
                        Some(first) => {
                            prop_assert!(count > 0 && first % align == 0);
                            for frame in first..first + count {
                                prop_assert!(free.remove(&frame), "{} is not free", frame);
                            }
                            out.push((first, count));
                        }
                        None if count == 0 => {}
                        None => {
                            let short = count < BLOCK && align < BLOCK;
                            prop_assert!(!exists(&free, count, align, short), "there were {} at {}", count, align);
                        }
                    }
                }
                Step::Give(_) | Step::GiveRun(..) => {}
            }
            check(&pool, &free);
        }
    }
}

#[test]
fn blocks_are_broken_into_one_after_the_other() {
    let mut pool = Pool::below(4 * BLOCK);
    pool.add(0, 4 * BLOCK);
    let mut frames = [0; 100];
    for _ in 0..5 {
        assert_eq!(pool.take(&mut frames), 100);
    }
    assert_eq!(pool.take_run(3 * BLOCK, BLOCK), Some(BLOCK), "three of four blocks are whole");
    assert_eq!(pool.take_run(12, 4), Some(500));
    assert_eq!((pool.take_run(1, 1), pool.take(&mut frames)), (None, 0));
}

#[test]
#[should_panic(expected = "twice")]
fn nor_is_a_single_one() {
    let mut pool = Pool::below(BLOCK);
    pool.give_one(4);
    pool.give_one(4);
}

#[test]
#[should_panic(expected = "twice")]
fn a_frame_is_given_back_once() {
    let mut pool = Pool::below(BLOCK);
    pool.give(3, 2);
    pool.give(4, 1);
}

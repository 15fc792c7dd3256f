//! Several threads at once: under `shuttle` a deadlock is found, and on the host's threads the ranks are checked.

use super::locks::{Ranked, Shuttled};
use crate::{Kind, Locks, Node, Tree};
use abi::Error;
use std::sync::Arc;

const ME: u64 = 1;

/// A tree is whole: every directory is once below the root, and knows its parent. Value: nodes.
fn check<L: Locks>(tree: &Tree<L, u64>) -> u64 {
    let mut seen = vec![tree.root().number];
    let mut open: Vec<Arc<Node<L, u64>>> = vec![tree.root().clone()];
    while let Some(node) = open.pop() {
        let mut children = Vec::new();
        node.list(ME, b"", |_, child| {
            children.push(child.clone());
            true
        })
        .unwrap();
        for child in children {
            assert!(!seen.contains(&child.number), "{} is there twice", child.number);
            assert!(!child.is_gone());
            seen.push(child.number);
            if child.kind == Kind::Directory {
                assert_eq!(child.parent().map(|parent| parent.number), Some(node.number));
                open.push(child);
            }
        }
    }
    seen.len() as u64 - 1
}

/// One step of a thread, from a number: all that locks more than one node, on few names.
fn step<L: Locks>(tree: &Tree<L, u64>, random: u64) {
    let paths = ["a", "b", "a/c", "b/c", "a/c/d", "b/c/d", "a/b", "b/a"];
    let path = |n: u64| paths[n as usize % paths.len()].as_bytes();
    let kind = if random & 8 == 0 { Kind::Directory } else { Kind::File };
    let outcome = match random % 8 {
        0 | 1 => tree.create(ME, path(random >> 8), kind, 0o755, 1).map(drop),
        2 => tree.remove(ME, path(random >> 8), kind, 1),
        _ => tree.rename(ME, path(random >> 8), path(random >> 16), 1),
    };
    let honest = [
        Error::NotFound,
        Error::Exists,
        Error::NotADirectory,
        Error::IsADirectory,
        Error::NotEmpty,
        Error::BadArgument,
    ];
    assert!(outcome.is_ok() || honest.iter().any(|error| outcome == Err(*error)), "{outcome:?}");
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 11
}

#[test]
fn nobody_waits_for_ever_and_the_tree_stays_whole() {
    let seeds = std::sync::atomic::AtomicU64::new(1);
    let runs = move || {
        let mut seed = seeds.fetch_add(1, std::sync::atomic::Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tree: Arc<Tree<Shuttled, u64>> = Arc::new(Tree::new(0));
        for path in ["a", "b", "a/c", "b/c"] {
            tree.create(ME, path.as_bytes(), Kind::Directory, 0o755, 0).unwrap();
        }
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (tree, mut random) = (tree.clone(), next(&mut seed) | 1);
                shuttle::thread::spawn(move || (0..4).for_each(|_| step(&tree, next(&mut random))))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(check(&tree), tree.nodes_of(ME));
    };
    shuttle::check_random(runs, 3000);
}

/// Two moves, each of which is right by itself, would together make a circle.
#[test]
fn two_moves_make_no_circle() {
    let run = || {
        let tree: Arc<Tree<Shuttled, u64>> = Arc::new(Tree::new(0));
        for path in ["a", "b"] {
            tree.create(ME, path.as_bytes(), Kind::Directory, 0o755, 0).unwrap();
        }
        let mover = |from: &'static [u8], to: &'static [u8]| {
            let tree = tree.clone();
            shuttle::thread::spawn(move || tree.rename(ME, from, to, 1).is_ok())
        };
        let (one, other) = (mover(b"a", b"b/a"), mover(b"b", b"a/b"));
        let moved = [one.join().unwrap(), other.join().unwrap()];
        assert_eq!(moved.iter().filter(|moved| **moved).count(), 1);
        assert_eq!(check(&tree), 2);
    };
    shuttle::check_random(run, 3000);
}

#[test]
fn locks_are_taken_in_the_order_of_numbers() {
    let tree: Arc<Tree<Ranked, u64>> = Arc::new(Tree::new(0));
    for path in ["a", "b", "a/c", "b/c"] {
        tree.create(ME, path.as_bytes(), Kind::Directory, 0o755, 0).unwrap();
    }
    let threads: Vec<_> = (1..5u64)
        .map(|seed| {
            let (tree, mut random) = (tree.clone(), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            std::thread::spawn(move || (0..20_000).for_each(|_| step(&tree, next(&mut random))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(check(&tree), tree.nodes_of(ME));
}

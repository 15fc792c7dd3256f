//! Ways that were gone before: which locks are taken on them, and that nobody is led where they do not go any more.

use super::locks::{Ranked, Shuttled, taken};
use super::{Files, ME, OTHER, find, make, number, tree};
use crate::{By, Kind, Opens, Tree};
use abi::Error;
use std::sync::Arc;

/// Rank of the locks of parts, which one thread has to itself, and of the counts of all that is open.
const PART: u64 = u64::MAX;
const COUNTS: u64 = u64::MAX - 1;

fn nested() -> Files {
    let tree = tree();
    for path in ["a", "a/b", "a/b/c"] {
        make(&tree, path, Kind::Directory);
    }
    make(&tree, "a/b/c/f", Kind::File);
    tree
}

#[test]
fn who_goes_a_way_again_locks_nothing_on_it() {
    let tree = nested();
    let (c, f) = (find(&tree, "a/b/c").unwrap(), find(&tree, "a/b/c/f").unwrap());
    assert_eq!(taken(|| assert_eq!(find(&tree, "a/b/c/f"), Ok(f))), [PART, c]);
    let made = taken(|| make(&tree, "a/b/c/g", Kind::File));
    assert_eq!(made, [PART, c], "nor what the person's other nodes are counted by");
    let g = find(&tree, "a/b/c/g").unwrap();
    let removed = taken(|| tree.remove(ME, b"a/b/c/g", Kind::File, 1).unwrap());
    assert_eq!(removed, [PART, c, c, g]);
}

#[test]
fn a_way_ends_with_what_it_went_through() {
    let tree = nested();
    let f = find(&tree, "a/b/c/f");
    tree.rename(ME, b"a/b", b"a/x", 1).unwrap();
    assert_eq!((find(&tree, "a/b/c/f"), find(&tree, "a/x/c/f")), (Err(Error::NotFound), f));
    make(&tree, "a/b", Kind::Directory);
    assert_eq!(find(&tree, "a/b/c/f"), Err(Error::NotFound));
    assert_eq!(find(&tree, "a/x/c/../../x/c/f"), f);
    tree.rename(ME, b"a/x/c", b"a/b/c", 1).unwrap();
    assert_eq!((find(&tree, "a/b/c/f"), find(&tree, "a/x/c/../../x/c/f")), (f, Err(Error::NotFound)));
    // In the place of one that was gone through.
    make(&tree, "a/b/d", Kind::Directory);
    assert_eq!(find(&tree, "a/b/d/f"), Err(Error::NotFound));
    tree.rename(ME, b"a/b/c", b"a/b/d", 1).unwrap();
    assert_eq!((find(&tree, "a/b/d/f"), find(&tree, "a/b/c/f")), (f, Err(Error::NotFound)));
}

/// Also if somebody has a directory on it in hand, or the way comes out of it again.
#[test]
fn a_way_ends_with_a_directory_that_is_gone() {
    let tree = nested();
    for path in ["a/d", "a/e"] {
        make(&tree, path, Kind::Directory);
    }
    let f = find(&tree, "a/b/c/f");
    let paths = ["a/d/../b/c/f", "a/e/../b/c/f"];
    assert_eq!(paths.map(|path| find(&tree, path)), [f, f]);
    let held = [&b"a/d"[..], b"a/e"].map(|path| tree.find(ME, path).unwrap());
    tree.remove(ME, b"a/d", Kind::Directory, 1).unwrap();
    assert_eq!(paths.map(|path| find(&tree, path)), [Err(Error::NotFound), f]);
    make(&tree, "a/d", Kind::Directory);
    make(&tree, "a/d/g", Kind::File);
    assert!(held[0].is_gone() && find(&tree, "a/d/g").is_ok());
    assert_eq!(find(&tree, "a/e/g"), Err(Error::NotFound));
    tree.rename(ME, b"a/d", b"a/e", 1).unwrap();
    assert!(held[1].is_gone() && find(&tree, "a/e/g").is_ok());
    assert_eq!(paths.map(|path| find(&tree, path)), [Err(Error::NotFound), f]);
}

#[test]
fn what_is_made_and_removed_beside_a_way_changes_nothing_there() {
    let tree = nested();
    find(&tree, "a/b/c/f").unwrap();
    let c = find(&tree, "a/b/c").unwrap();
    make(&tree, "a/b/d", Kind::Directory);
    tree.rename(ME, b"a/b/d", b"a/d", 1).unwrap();
    tree.remove(ME, b"a/d", Kind::Directory, 1).unwrap();
    assert_eq!(taken(|| assert!(find(&tree, "a/b/c/f").is_ok())), [PART, c]);
}

#[test]
fn a_way_is_for_one_person_as_long_as_he_may_go_it() {
    let tree = nested();
    let f = find(&tree, "a/b/c/f").unwrap();
    let find = |user| tree.find(user, b"a/b/c/f").map(|node| node.number);
    let mode = |path: &[u8], mode| tree.find(ME, path).unwrap().set_mode(ME, mode, |_, _| Ok(())).unwrap();
    assert_eq!((find(ME), find(OTHER)), (Ok(f), Ok(f)));
    mode(b"a/b", 0o700);
    assert_eq!((find(ME), find(OTHER)), (Ok(f), Err(Error::Denied)));
    assert_eq!(find(OTHER), Err(Error::Denied), "who is refused is refused again");
    mode(b"a/b", 0o711);
    assert_eq!(find(OTHER), Ok(f));
    let root = tree.root();
    root.set_mode(0, 0o700, |_, _| Ok(())).unwrap();
    assert_eq!([ME, OTHER, 0].map(find), [Err(Error::Denied), Err(Error::Denied), Ok(f)]);
}

#[test]
fn what_is_remembered_keeps_nothing() {
    let tree = nested();
    assert!(tree.find(ME, b"a/b/c/f").is_ok());
    tree.remove(ME, b"a/b/c/f", Kind::File, 1).unwrap();
    for (left, path) in [(2, "a/b/c"), (1, "a/b"), (0, "a")] {
        tree.remove(ME, path.as_bytes(), Kind::Directory, 1).unwrap();
        assert_eq!(tree.nodes_of(ME), left);
    }
}

#[test]
fn more_ways_than_are_remembered_lead_on() {
    let tree = tree();
    let mut deep = String::from("x");
    for _ in 0..20 {
        make(&tree, &deep, Kind::Directory);
        deep.push_str("/x");
    }
    make(&tree, &deep, Kind::File);
    let (f, long) = (find(&tree, &deep), format!("{}{deep}", "/".repeat(1000)));
    for _ in 0..2 {
        for from in (0..deep.len()).step_by(2) {
            let up = "/..".repeat(20 - from / 2);
            let around = format!("{}{up}/{}", &deep[..deep.len() - 2], &deep[from..]);
            assert_eq!((find(&tree, &deep), find(&tree, &long), find(&tree, &around)), (f, f, f), "{around}");
        }
    }
}

/// Whoever asks after a change was made sees it, on whatever ways he has gone before.
#[test]
fn a_change_that_was_made_is_seen() {
    use shuttle::sync::atomic::{AtomicU64, Ordering};
    type Shared = (Tree<Shuttled, u64>, AtomicU64);
    let run = || {
        let tree: Tree<Shuttled, u64> = Tree::new(0);
        for (path, kind) in [("a", Kind::Directory), ("a/b", Kind::Directory), ("a/b/f", Kind::File)] {
            tree.create(ME, path.as_bytes(), kind, 0o755, 0).unwrap();
        }
        let all: Arc<Shared> = Arc::new((tree, AtomicU64::new(0)));
        let others = all.clone();
        let goes = shuttle::thread::spawn(move || {
            let (tree, made) = &*others;
            for _ in 0..4 {
                let before = made.load(Ordering::SeqCst);
                let found = tree.find(OTHER, b"a/b/f").map(drop);
                let after = made.load(Ordering::SeqCst);
                // What there was in one of the times between.
                let was = [Ok(()), Err(Error::Denied), Err(Error::NotFound), Ok(())];
                let may = &was[before as usize..=(after as usize + 1).min(3)];
                assert!(may.contains(&found), "{found:?} after {before} changes, before {after}");
            }
        });
        let (tree, made) = &*all;
        let directory = tree.find(ME, b"a/b").unwrap();
        directory.set_mode(ME, 0o700, |_, _| Ok(())).unwrap();
        made.store(1, Ordering::SeqCst);
        tree.rename(ME, b"a/b", b"c", 1).unwrap();
        made.store(2, Ordering::SeqCst);
        directory.set_mode(ME, 0o755, |_, _| Ok(())).unwrap();
        tree.rename(ME, b"c", b"a/b", 1).unwrap();
        made.store(3, Ordering::SeqCst);
        goes.join().unwrap();
    };
    shuttle::check_random(run, 3000);
    shuttle::check_pct(run, 3000, 3);
}

#[test]
fn who_opens_and_closes_again_meets_nobody() {
    let opens: Arc<Opens<Ranked, ()>> = Arc::new(Opens::new(8, 100, number));
    let by = By { task: 7, program: 7 };
    let once = |opens: &Opens<Ranked, ()>| {
        let number = opens.add(by, ME, ()).unwrap();
        opens.close(number, by, ME).unwrap();
    };
    assert_eq!(taken(|| once(&opens)), [PART, COUNTS, PART, PART]);
    assert_eq!(taken(|| once(&opens)), [PART, PART, PART]);
    assert_eq!(opens.programs(), [], "nothing is open");
    // What this thread has closed is room for others.
    let numbers: Vec<u64> = (0..8).map(|_| opens.add(by, ME, ()).unwrap()).collect();
    assert_eq!(opens.add(by, ME, ()), Err(Error::Quota));
    numbers.iter().for_each(|number| drop(opens.close(*number, by, ME).unwrap()));
    let others = opens.clone();
    let many = std::thread::spawn(move || (0..10).filter(|_| others.add(by, ME, ()).is_ok()).count()).join().unwrap();
    assert_eq!((many, opens.close_all(7), opens.programs()), (8, 8, vec![]));
}

/// Whatever they do at once: nobody is refused as long as less than the limit is open, and in the end nothing is counted.
#[test]
fn what_is_counted_is_open_or_to_be_had() {
    let run = || {
        let opens: Arc<Opens<Shuttled, ()>> = Arc::new(Opens::new(2, 100, number));
        let by = By { task: 7, program: 7 };
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let opens = opens.clone();
                shuttle::thread::spawn(move || {
                    for _ in 0..3 {
                        // Each has one of the two.
                        let number = opens.add(by, ME, ()).unwrap();
                        opens.close(number, by, ME).unwrap();
                    }
                })
            })
            .collect();
        assert!(opens.programs().iter().all(|program| *program == 7));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(opens.programs(), []);
    };
    shuttle::check_random(run, 2000);
}

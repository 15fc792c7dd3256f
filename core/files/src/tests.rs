//! One by one, against a plain map of paths, and by several threads whose locks refuse a wrong order.

mod locks;
mod model;
mod race;
mod ways;

use crate::{By, Kind, NAME_MAX, Opens, PATH_MAX, Tree};
use abi::Error;
use abi::task::USER_SYSTEM;
use locks::Ranked;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const ME: u64 = 1;
const OTHER: u64 = 2;

/// A file's content that says when it goes.
#[derive(Default)]
struct Bytes(Vec<u8>, Option<Arc<AtomicU64>>);

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(gone) = &self.1 {
            gone.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type Files = Tree<Ranked, Bytes>;

fn tree() -> Files {
    Tree::new(0)
}

fn make(tree: &Files, path: &str, kind: Kind) {
    tree.create(ME, path.as_bytes(), kind, 0o755, 1).unwrap();
}

fn names(tree: &Files, path: &str) -> Vec<String> {
    let mut names = Vec::new();
    let each = |name: &[u8], _: &_| {
        names.push(String::from_utf8_lossy(name).into_owned());
        true
    };
    tree.find(ME, path.as_bytes()).unwrap().list(ME, b"", each).unwrap();
    names
}

fn find(tree: &Files, path: &str) -> Result<u64, Error> {
    tree.find(ME, path.as_bytes()).map(|node| node.number)
}

#[test]
fn names_lead_to_what_was_made() {
    let tree = tree();
    make(&tree, "d", Kind::Directory);
    make(&tree, "/d/f", Kind::File);
    let f = find(&tree, "d/f").unwrap();
    for path in ["/d/f", "//d//f", "./d/./f", "d/../d/f", "../../d/f"] {
        assert_eq!(find(&tree, path), Ok(f), "{path}");
    }
    assert_eq!(find(&tree, "d/f/"), Err(Error::NotADirectory));
    assert_eq!(find(&tree, "d/f/g"), Err(Error::NotADirectory));
    assert_eq!(find(&tree, "d/g"), Err(Error::NotFound));
    assert_eq!(find(&tree, ""), Err(Error::NotFound));
    assert_eq!(find(&tree, "/"), Ok(1));
    assert_eq!(names(&tree, "d"), ["f"]);
    assert_eq!(tree.find(ME, b"d/f").unwrap().list(ME, b"", |_, _| true), Err(Error::NotADirectory));
}

#[test]
fn what_cannot_be_a_name_is_refused() {
    let tree = tree();
    let create = |path: &[u8], kind| tree.create(ME, path, kind, 0o644, 1).map(|node| node.number).err();
    for path in [&b"."[..], b"..", b"/", b"a/..", b"//"] {
        let expected = if path.starts_with(b"a") { Error::NotFound } else { Error::BadArgument };
        assert!([Some(expected), Some(Error::BadArgument)].contains(&create(path, Kind::File)), "{path:?}");
    }
    assert_eq!(create(b"a\0b", Kind::File), Some(Error::BadArgument));
    assert_eq!(create(&[b'x'; NAME_MAX + 1], Kind::File), Some(Error::TooBig));
    assert_eq!(create(&[b'x'; NAME_MAX], Kind::File), None);
    assert_eq!(create(&b"/".repeat(PATH_MAX + 1), Kind::File), Some(Error::TooBig));
    assert_eq!(create(b"f/", Kind::File), Some(Error::IsADirectory));
    assert_eq!(create(b"d/", Kind::Directory), None);
    assert_eq!(create(b"d", Kind::File), Some(Error::Exists));
    assert_eq!(create(b"no/f", Kind::File), Some(Error::NotFound));
}

#[test]
fn what_is_open_outlives_its_name() {
    let tree = tree();
    let gone = Arc::new(AtomicU64::new(0));
    make(&tree, "f", Kind::File);
    let open = tree.find(ME, b"f").unwrap();
    open.write(7, |bytes, _| {
        bytes.0.extend_from_slice(b"kept");
        bytes.1 = Some(gone.clone());
    })
    .unwrap();
    assert_eq!(open.status().mtime, 7);
    tree.remove(ME, b"f", Kind::File, 8).unwrap();
    assert!(open.is_gone() && find(&tree, "f") == Err(Error::NotFound));
    assert_eq!(open.content(|bytes, _| bytes.0.clone()), Ok(b"kept".to_vec()));
    assert_eq!((gone.load(Ordering::Relaxed), tree.nodes_of(ME)), (0, 1));
    drop(open);
    assert_eq!((gone.load(Ordering::Relaxed), tree.nodes_of(ME)), (1, 0));
}

#[test]
fn a_directory_goes_when_it_is_empty() {
    let tree = tree();
    make(&tree, "d", Kind::Directory);
    make(&tree, "d/f", Kind::File);
    assert_eq!(tree.remove(ME, b"d", Kind::File, 1), Err(Error::IsADirectory));
    assert_eq!(tree.remove(ME, b"d", Kind::Directory, 1), Err(Error::NotEmpty));
    assert_eq!(tree.remove(ME, b"d/f", Kind::Directory, 1), Err(Error::NotADirectory));
    tree.remove(ME, b"d/f", Kind::File, 1).unwrap();
    let open = tree.find(ME, b"d").unwrap();
    tree.remove(ME, b"d/", Kind::Directory, 1).unwrap();
    assert_eq!(find(&tree, "d"), Err(Error::NotFound));
    // Nothing is made in a directory that is gone, even by who still has it.
    let mut state = open.lock();
    assert_eq!(state.names_for(ME, ME).err(), Some(Error::NotFound));
}

#[test]
fn a_rename_replaces_what_is_of_its_kind() {
    let tree = tree();
    for (path, kind) in [("a", Kind::File), ("b", Kind::File), ("d", Kind::Directory), ("e", Kind::Directory)] {
        make(&tree, path, kind);
    }
    let rename = |from: &str, to: &str| tree.rename(ME, from.as_bytes(), to.as_bytes(), 1);
    let a = find(&tree, "a");
    assert_eq!(rename("a", "a"), Ok(()));
    assert_eq!(rename("a", "d"), Err(Error::IsADirectory));
    assert_eq!(rename("d", "a"), Err(Error::NotADirectory));
    assert_eq!(rename("x", "y"), Err(Error::NotFound));
    assert_eq!(rename("a", "b"), Ok(()));
    assert_eq!((find(&tree, "b"), find(&tree, "a")), (a, Err(Error::NotFound)));
    assert_eq!(rename("b", "d/b"), Ok(()));
    assert_eq!(find(&tree, "d/b"), a);
    assert_eq!(rename("e", "d"), Err(Error::NotEmpty));
    assert_eq!(rename("d", "e"), Ok(()));
    assert_eq!(names(&tree, "/"), ["e"]);
    assert_eq!(find(&tree, "e/b/"), Err(Error::NotADirectory));
    assert_eq!(tree.nodes_of(ME), 2);
}

#[test]
fn a_directory_does_not_go_into_itself() {
    let tree = tree();
    for path in ["a", "a/b", "a/b/c"] {
        make(&tree, path, Kind::Directory);
    }
    let rename = |from: &str, to: &str| tree.rename(ME, from.as_bytes(), to.as_bytes(), 1);
    assert_eq!(rename("a", "a/b/c/a"), Err(Error::BadArgument));
    assert_eq!(rename("a", "a/x"), Err(Error::BadArgument));
    assert_eq!(rename("a/b", "a/b/c"), Err(Error::BadArgument));
    assert_eq!(rename("a/b/c", "a/b"), Err(Error::NotEmpty));
    assert_eq!(rename("a/b/c", "c"), Ok(()));
    assert_eq!(rename("a", "c/a"), Ok(()));
    assert_eq!(find(&tree, "c/a/b/../.."), find(&tree, "c"));
}

#[test]
fn modes_are_kept_to() {
    let tree = tree();
    tree.create(ME, b"mine", Kind::Directory, 0o700, 1).unwrap();
    tree.create(ME, b"mine/f", Kind::File, 0o644, 1).unwrap();
    tree.create(ME, b"open", Kind::Directory, 0o777, 1).unwrap();
    tree.create(OTHER, b"open/theirs", Kind::File, 0o644, 1).unwrap();
    tree.create(ME, b"open/mine", Kind::File, 0o644, 1).unwrap();
    assert_eq!(tree.find(OTHER, b"mine/f").err(), Some(Error::Denied));
    assert!(tree.find(0, b"mine/f").is_ok());
    assert_eq!(tree.create(OTHER, b"mine/g", Kind::File, 0o644, 1).err(), Some(Error::Denied));
    // In a directory that is open to all each one takes his own names away, and the owner of the directory any.
    assert_eq!(tree.remove(OTHER, b"open/mine", Kind::File, 1), Err(Error::Denied));
    assert_eq!(tree.rename(OTHER, b"open/theirs", b"open/mine", 1), Err(Error::Denied));
    assert_eq!(tree.rename(OTHER, b"open/mine", b"x", 1), Err(Error::Denied));
    assert_eq!(tree.remove(ME, b"open/theirs", Kind::File, 1), Ok(()));
    let node = tree.find(ME, b"open/mine").unwrap();
    assert_eq!(node.set_mode(OTHER, 0o777, |_, _| Ok(())), Err(Error::Denied));
    assert_eq!(node.set_mode(ME, 0o600, |_, _| Err(Error::Quota)), Err(Error::Quota));
    assert_eq!(node.status().mode, 0o644, "nothing has changed");
    assert_eq!(node.set_mode(ME, 0o170_400, |_, _| Ok(())), Ok(()));
    assert_eq!(node.status().mode, 0o400);
    assert_eq!(node.check(OTHER, crate::bits::READ), Err(Error::Denied));
    assert_eq!(node.check(ME, crate::bits::WRITE), Err(Error::Denied));
    assert_eq!(node.set_time(OTHER, 5), Err(Error::Denied));
    assert_eq!(node.set_time(ME, 5), Ok(()));
}

#[test]
fn a_person_has_so_many_nodes() {
    let tree: Files = Tree::limited(0, 3);
    for path in ["a", "b", "c"] {
        make(&tree, path, Kind::File);
    }
    let more = |user, path: &[u8]| tree.create(user, path, Kind::File, 0o644, 1).map(|node| node.number).err();
    assert_eq!(more(ME, b"d"), Some(Error::Quota));
    assert_eq!(more(OTHER, b"d"), None, "that is its own problem");
    assert_eq!(more(0, b"e"), None);
    assert_eq!(more(ME, b"e"), Some(Error::Quota), "and what exists changes nothing");
    tree.remove(ME, b"a", Kind::File, 1).unwrap();
    assert_eq!(more(ME, b"a"), None);
    assert_eq!(tree.nodes_of(ME), 3);
}

#[test]
fn a_list_goes_on_where_it_ended() {
    let tree = tree();
    for path in ["a", "b", "c", "d"] {
        make(&tree, path, Kind::File);
    }
    let root = tree.root();
    let mut seen = Vec::new();
    let mut after = Vec::new();
    loop {
        let before = seen.len();
        let each = |name: &[u8], _: &_| {
            seen.push(name.to_vec());
            seen.len() - before < 2
        };
        root.list(ME, &after, each).unwrap();
        if seen.len() == before {
            break;
        }
        after = seen[seen.len() - 1].clone();
        // What comes and goes meanwhile changes nothing for the others.
        let _ = tree.remove(ME, &after.clone(), Kind::File, 1);
    }
    assert_eq!(seen, [b"a", b"b", b"c", b"d"].map(|name| name.to_vec()));
}

/// Some come again, and are not given twice.
fn number() -> u64 {
    static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
    NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed) / 2 << 8
}

#[test]
fn the_dead_lose_what_they_had_open() {
    let opens: Opens<Ranked, &str> = Opens::new(2, 100, number);
    let own = |task| By { task, program: task };
    let first = opens.add(own(7), ME, "a").unwrap();
    let second = opens.add(own(7), ME, "b").unwrap();
    assert_eq!(opens.add(own(7), ME, "c").err(), Some(Error::Quota));
    let others = opens.add(own(8), OTHER, "d").unwrap();
    assert_eq!(opens.get(first, ME).map(|open| open.what), Ok("a"));
    assert_eq!(opens.get(first, OTHER).err(), Some(Error::Denied));
    assert_eq!(opens.close(first, own(8), ME).err(), Some(Error::Denied));
    assert_eq!(opens.close(first, own(7), ME).map(|open| open.what), Ok("a"));
    assert_eq!(opens.close(first, own(7), ME).err(), Some(Error::NotFound));
    assert_eq!(opens.programs(), [7, 8]);
    assert_eq!(opens.close_all(7), 1);
    assert_eq!(opens.get(second, ME).err(), Some(Error::NotFound));
    assert_eq!((opens.programs(), opens.get(others, OTHER).is_ok()), (vec![8], true));
}

#[test]
fn what_a_personality_opens_outlives_who_it_was_for() {
    let opens: Opens<Ranked, &str> = Opens::new(1, 100, number);
    let served = |task| By { task, program: 3 };
    let number = opens.add(served(7), ME, "a").unwrap();
    assert_eq!(opens.add(served(7), ME, "b").err(), Some(Error::Quota), "it counts for who it is for");
    let others = opens.add(served(8), ME, "b").unwrap();
    assert_eq!((opens.programs(), opens.close_all(7)), (vec![3], 0), "who it was for has ended");
    assert_eq!(opens.close(number, served(9), OTHER).err(), Some(Error::Denied), "by the program, for somebody else");
    assert_eq!(opens.close(number, served(9), ME).map(|open| open.what), Ok("a"), "by the program, for a child of it");
    let own = By { task: 3, program: 3 };
    let more = opens.add(served(9), ME, "e").unwrap();
    assert!(opens.close(more, own, USER_SYSTEM).is_ok(), "by the program, on its own thread");
    assert!(opens.add(served(7), ME, "c").is_ok(), "there is room again");
    assert_eq!((opens.close_all(3), opens.programs()), (2, vec![]), "with the program all of it ends");
    assert_eq!(opens.get(others, ME).err(), Some(Error::NotFound));
}

#[test]
fn a_person_has_as_many_open_as_others_have_left() {
    let opens: Opens<Ranked, &str> = Opens::new(4, 64, number);
    let tries = |user: u64, tasks: u64| -> Vec<u64> {
        let all = (0..4 * tasks).map(|n| By { task: user * 1000 + n / 4, program: 3 });
        all.filter_map(|by| opens.add(by, user, "a").ok()).collect()
    };
    let mine = tries(ME, 100);
    assert_eq!((mine.len(), tries(OTHER, 100).len()), (32, 16), "what is left is for others");
    assert_eq!(tries(USER_SYSTEM, 25).len(), 100, "the system has what it needs");
    assert_eq!(opens.close_all(3), 148);
    assert_eq!((tries(ME, 100).len(), opens.close_all(3)), (32, 32), "as before");
}

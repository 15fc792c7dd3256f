use super::*;

fn file(len: u64) -> Node {
    Node::File(File { len, ..File::default() })
}

fn tree() -> Tree {
    let mut tree = Tree::new();
    for (name, len) in
        [("busybox", 1), ("/etc/motd", 2), ("./data/a/b", 3), ("data//c", 4), ("data/../x", 5), ("etc", 6)]
    {
        tree.add(name.as_bytes(), file(len));
    }
    tree
}

fn walk(from: &str, path: &str) -> Result<(String, Option<Node>), u32> {
    let place = tree().walk(from.as_bytes(), path.as_bytes()).map_err(|e| e.0)?;
    Ok((String::from_utf8(place.path).unwrap(), place.entry.map(|e| e.node)))
}

fn found(path: &str, node: Node) -> Result<(String, Option<Node>), u32> {
    Ok((path.to_string(), Some(node)))
}

#[test]
fn paths_are_followed() {
    assert_eq!(walk("/", "busybox"), found("/busybox", file(1)));
    assert_eq!(walk("/etc", "motd"), found("/etc/motd", file(2)));
    assert_eq!(walk("/etc", "/data/a/b"), found("/data/a/b", file(3)));
    assert_eq!(walk("/data/a", "../c"), found("/data/c", file(4)));
    assert_eq!(walk("/data/a", ".././a//./b"), found("/data/a/b", file(3)));
    assert_eq!(walk("/", "../../.."), found("/", Node::Directory));
    assert_eq!(walk("/data", "."), found("/data", Node::Directory));
    assert_eq!(walk("/", "/"), found("/", Node::Directory));
    assert_eq!(walk("/", "data/"), found("/data", Node::Directory));
    assert_eq!(walk("/", "/dev/null"), found("/dev/null", Node::Device(Device::Null)));
    assert_eq!(walk("/", "data/new"), Ok(("/data/new".to_string(), None)));
}

#[test]
fn paths_that_lead_nowhere() {
    assert_eq!(walk("/", ""), Err(errno::ENOENT));
    assert_eq!(walk("/", "none/x"), Err(errno::ENOENT));
    assert_eq!(walk("/", "none/../busybox"), Err(errno::ENOENT));
    assert_eq!(walk("/", "busybox/"), Err(errno::ENOTDIR));
    assert_eq!(walk("/", "busybox/x"), Err(errno::ENOTDIR));
    assert_eq!(walk("/", "busybox/.."), Err(errno::ENOTDIR));
    assert_eq!(walk("/", &"a/".repeat(2048)), Err(errno::ENAMETOOLONG));
    assert_eq!(walk("/", &"n".repeat(256)), Err(errno::ENAMETOOLONG));
    assert_eq!(walk("/", &"n".repeat(255)).unwrap().1, None);
}

#[test]
fn names_that_cannot_be_are_left_out() {
    assert_eq!(walk("/", "x"), Ok(("/x".to_string(), None)), "no name leads upwards");
    assert_eq!(walk("/", "etc").unwrap().1, Some(Node::Directory), "no file hides a directory");
    let mut tree = Tree::new();
    tree.add(b"dev/null", file(1));
    tree.add(b"", file(1));
    assert_eq!(tree.get(b"/dev/null").unwrap().node, Node::Device(Device::Null));
    assert_eq!(tree.get(b"").unwrap().node, Node::Directory);
}

#[test]
fn directories_are_listed_in_order() {
    let names = |path: &str| {
        let list = tree().list(path.as_bytes());
        list.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(names("/"), ["busybox", "data", "dev", "etc", "proc"]);
    assert_eq!(names("/data"), ["a", "c"]);
    assert_eq!(names("/data/a"), ["b"]);
    let inodes: std::collections::BTreeSet<u64> = tree().list(b"/").into_iter().map(|(_, e)| e.inode).collect();
    assert_eq!(inodes.len(), 5);
}

#[test]
fn parents_and_last_names() {
    assert_eq!(parent(b"/a/b"), b"/a");
    assert_eq!(parent(b"/a"), b"/");
    assert_eq!(parent(b"/"), b"/");
    assert_eq!(last(b"/a/b"), b"b");
    assert_eq!(last(b"a/"), b"a");
    assert_eq!(last(b"/"), b"");
}

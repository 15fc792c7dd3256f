use super::*;
use crate::field;
use crate::tree::File;

fn entry(node: Node) -> Entry {
    Entry::own(77, node)
}

#[test]
fn a_file_in_both_structures() {
    let file = File { address: 1, len: 5000, fixed: true };
    let mode = Mode { bits: 0o755, owner: 3, mtime: 1_700_000_000 };
    let status = Status::of(Entry { mode, ..entry(Node::File(file)) });
    let bytes = status.stat();
    assert_eq!(bytes.len(), 144);
    assert_eq!(field!(bytes, linux::stat, st_size), 5000);
    assert_eq!(field!(bytes, linux::stat, st_blocks), 16, "two blocks in units of 512");
    assert_eq!(field!(bytes, linux::stat, st_mode), 0o100_755);
    assert_eq!(field!(bytes, linux::stat, st_mtime), 1_700_000_000);
    assert_eq!(field!(bytes, linux::stat, st_ino), 77);
    assert_eq!(field!(bytes, linux::stat, st_uid), 3);
    let bytes = status.statx();
    assert_eq!(bytes.len(), 256);
    assert_eq!(field!(bytes, linux::statx, stx_size), 5000);
    assert_eq!(field!(bytes, linux::statx, stx_mode), 0o100_755);
    assert_eq!(field!(bytes, linux::statx, stx_mtime.tv_sec), 1_700_000_000);
    assert_eq!(field!(bytes, linux::statx, stx_mask) & linux::STATX_SIZE, linux::STATX_SIZE);
}

#[test]
fn kinds() {
    let mode = |node| Status::of(entry(node)).mode & linux::S_IFMT;
    assert_eq!(mode(Node::Directory), linux::S_IFDIR);
    assert_eq!(mode(Node::Program), linux::S_IFLNK);
    assert_eq!(mode(Node::Device(Device::Null)), linux::S_IFCHR);
    assert_eq!(Status::of(entry(Node::Device(Device::Null))).rdev, (1, 3));
    let bytes = Status::of(entry(Node::Device(Device::Zero))).stat();
    assert_eq!(field!(bytes, linux::stat, st_rdev), 0x105);
    let stream = |terminal| {
        let (input, output) = Default::default();
        Description::new(Object::Stream { input, output, terminal }, b"", 0, 0)
    };
    assert_eq!(Status::of_open(&stream(true)).mode & linux::S_IFMT, linux::S_IFCHR);
    assert_eq!(Status::of_open(&stream(false)).mode & linux::S_IFMT, linux::S_IFIFO);
}

//! The few names that this server itself has beside those of the file server: devices, and what leads into the program itself
//! (`/proc/self/exe`), which are the only symbolic links. Paths are bytes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::answer::{Errno, errno, fail};

/// Longest path and longest name that Linux takes.
pub const PATH_MAX: usize = 4096;
pub const NAME_MAX: usize = 255;

/// A file: bytes at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Address of the first byte; 0 for an empty file.
    pub address: u64,
    pub len: u64,
    /// They never change there.
    pub fixed: bool,
}

/// What is known of a node, whatever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Nine bits.
    pub bits: u32,
    pub owner: u64,
    /// Seconds since 1970.
    pub mtime: i64,
}

impl Mode {
    /// Of this server's own nodes.
    pub const OWN: Mode = Mode { bits: 0o755, owner: 0, mtime: 0 };

    /// Whether somebody may do all of `wanted`: 4 read, 2 write, 1 execute.
    #[must_use]
    pub fn allows(&self, user: u64, wanted: u32) -> bool {
        let mine = if user == self.owner { self.bits >> 6 } else { self.bits };
        user == abi::task::USER_SYSTEM || mine & wanted == wanted
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    Null,
    Zero,
    Full,
    Random,
    Terminal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    Directory,
    File(File),
    Device(Device),
    /// The file of the running program.
    Program,
    /// An open file of the running program.
    Descriptor(i32),
}

/// A node with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub inode: u64,
    pub node: Node,
    pub mode: Mode,
}

impl Entry {
    /// A node of this server's own.
    #[must_use]
    pub fn own(inode: u64, node: Node) -> Entry {
        Entry { inode, node, mode: Mode::OWN }
    }
}

/// What a path leads to: its absolute form, and the node if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub path: Vec<u8>,
    pub entry: Option<Entry>,
}

#[derive(Debug)]
pub struct Tree {
    entries: BTreeMap<Vec<u8>, Entry>,
    next: u64,
}

/// Numbers from here on are those of this server's own nodes.
const INODE: u64 = 1 << 32;

const OWN: [(&[u8], Node); 13] = [
    (b"/dev/null", Node::Device(Device::Null)),
    (b"/dev/zero", Node::Device(Device::Zero)),
    (b"/dev/full", Node::Device(Device::Full)),
    (b"/dev/random", Node::Device(Device::Random)),
    (b"/dev/urandom", Node::Device(Device::Random)),
    (b"/dev/tty", Node::Device(Device::Terminal)),
    (b"/dev/stdin", Node::Descriptor(0)),
    (b"/dev/stdout", Node::Descriptor(1)),
    (b"/dev/stderr", Node::Descriptor(2)),
    (b"/proc/self/exe", Node::Program),
    (b"/proc/self/fd/0", Node::Descriptor(0)),
    (b"/proc/self/fd/1", Node::Descriptor(1)),
    (b"/proc/self/fd/2", Node::Descriptor(2)),
];

impl Default for Tree {
    fn default() -> Tree {
        Tree::new()
    }
}

impl Tree {
    /// A tree with the devices only.
    #[must_use]
    pub fn new() -> Tree {
        let mut tree = Tree { entries: BTreeMap::new(), next: INODE };
        tree.put(b"/".to_vec(), Node::Directory);
        for (path, node) in OWN {
            tree.add(path, node);
        }
        tree
    }

    /// Adds a node under a name as the table of files has it: with or without a slash before it. Names that a path
    /// could not lead to are left out, and so is what would hide a directory or a device.
    pub fn add(&mut self, name: &[u8], node: Node) {
        let mut path = Vec::new();
        let mut names = name.split(|&c| c == b'/').filter(|n| !matches!(*n, b"" | b".")).peekable();
        while let Some(part) = names.next() {
            if part == b".." || part.len() > NAME_MAX {
                return;
            }
            path.push(b'/');
            path.extend_from_slice(part);
            let here = self.entries.get(&path).map(|e| e.node);
            match (here, names.peek()) {
                (None, Some(_)) => self.put(path.clone(), Node::Directory),
                (Some(Node::Directory), Some(_)) => {}
                (None | Some(Node::File(_)), None) => self.put(path.clone(), node),
                _ => return,
            }
        }
    }

    fn put(&mut self, path: Vec<u8>, node: Node) {
        let inode = self.next;
        self.next += 1;
        self.entries.insert(path, Entry::own(inode, node));
    }

    /// Follows `path` from the directory `from` (absolute).
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`.
    pub fn walk(&self, from: &[u8], path: &[u8]) -> Result<Place, Errno> {
        if path.is_empty() {
            return fail(errno::ENOENT);
        }
        if path.len() >= PATH_MAX {
            return fail(errno::ENAMETOOLONG);
        }
        let mut at = if path[0] == b'/' { Vec::new() } else { from.strip_suffix(b"/").unwrap_or(from).to_vec() };
        let mut entry = self.get(&at);
        for name in path.split(|&c| c == b'/') {
            match entry {
                None => return fail(errno::ENOENT),
                // An empty name is a slash: `file/` asks for a directory, too.
                Some(Entry { node: Node::Directory, .. }) => {}
                Some(_) => return fail(errno::ENOTDIR),
            }
            match name {
                b"" | b"." => continue,
                b".." => at.truncate(at.iter().rposition(|&c| c == b'/').unwrap_or(0)),
                _ if name.len() > NAME_MAX => return fail(errno::ENAMETOOLONG),
                _ => {
                    at.push(b'/');
                    at.extend_from_slice(name);
                }
            }
            entry = self.get(&at);
        }
        if at.is_empty() {
            at.push(b'/');
        }
        Ok(Place { path: at, entry })
    }

    /// Whether an absolute path without `.` and `..` begins with a name of this server's own.
    #[must_use]
    pub fn owns(&self, path: &[u8]) -> bool {
        let end = path.iter().skip(1).position(|&c| c == b'/').map_or(path.len(), |at| at + 1);
        end > 1 && self.entries.contains_key(&path[..end])
    }

    /// The node of an absolute path without `.`, `..` and doubled slashes; the empty path is the root.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<Entry> {
        let path = if path.is_empty() { b"/".as_slice() } else { path };
        self.entries.get(path).copied()
    }

    /// What a directory holds, in the order of the names.
    #[must_use]
    pub fn list(&self, directory: &[u8]) -> Vec<(Vec<u8>, Entry)> {
        let mut prefix = directory.strip_suffix(b"/").unwrap_or(directory).to_vec();
        prefix.push(b'/');
        let within = self.entries.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        within
            .map(|(path, entry)| (&path[prefix.len()..], entry))
            .filter(|(name, _)| !name.is_empty() && !name.contains(&b'/'))
            .map(|(name, entry)| (name.to_vec(), *entry))
            .collect()
    }
}

/// An absolute path without `.`, `..` and doubled slashes.
#[must_use]
pub fn normal(path: &[u8]) -> Vec<u8> {
    let mut at = Vec::with_capacity(path.len());
    for name in path.split(|&c| c == b'/') {
        match name {
            b"" | b"." => {}
            b".." => at.truncate(at.iter().rposition(|&c| c == b'/').unwrap_or(0)),
            _ => {
                at.push(b'/');
                at.extend_from_slice(name);
            }
        }
    }
    if at.is_empty() {
        at.push(b'/');
    }
    at
}

/// The directory that a path lies in, and `..` of a directory.
#[must_use]
pub fn parent(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&c| c == b'/') {
        None | Some(0) => b"/",
        Some(at) => &path[..at],
    }
}

/// The last name of a path.
#[must_use]
pub fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&c| c == b'/').find(|n| !n.is_empty()).unwrap_or(b"")
}

#[cfg(test)]
mod tests;

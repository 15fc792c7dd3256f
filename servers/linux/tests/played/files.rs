//! The file server, played: paths to nodes in one map. What a file holds lies in the played space, where it has room.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use abi::Error;
use abi::layout::SPACE_BASE;
use musubi::interfaces::files::how;
use personality::descriptors::Name;
use personality::machine::Machine;
use personality::tree::{Entry, File, Mode as Known, Node, normal, parent};

use super::Played;

/// Whether a file may be run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    Executable,
}

type Shared = Arc<Mutex<Entry>>;

pub struct Files {
    names: BTreeMap<Vec<u8>, Shared>,
    pub open: HashMap<u64, (Shared, u64)>,
    next: u64,
}

impl Default for Files {
    fn default() -> Files {
        let mut files = Files { names: BTreeMap::new(), open: HashMap::new(), next: 1 };
        for path in [&b"/"[..], b"/tmp"] {
            files.add(path, Node::Directory, 0o755, 0);
        }
        files
    }
}

impl Files {
    fn add(&mut self, path: &[u8], node: Node, bits: u32, mtime: i64) -> Shared {
        let inode = self.next;
        self.next += 1;
        let made = Arc::new(Mutex::new(Entry { inode, node, mode: Known { bits, owner: 0, mtime } }));
        self.names.insert(path.to_vec(), made.clone());
        made
    }

    pub fn put(&mut self, path: &[u8], file: File, mode: Mode, mtime: i64) {
        let path = normal(path);
        let ends = path.iter().enumerate().skip(1).filter(|(_, c)| **c == b'/').map(|(at, _)| at);
        for end in ends.collect::<Vec<_>>() {
            if !self.names.contains_key(&path[..end]) {
                self.add(&path[..end], Node::Directory, 0o755, mtime);
            }
        }
        let bits = if mode == Mode::Executable { 0o755 } else { 0o644 };
        self.add(&path, Node::File(file), bits, mtime);
    }

    fn is_directory(&self, path: &[u8]) -> Result<(), Error> {
        let entry = self.names.get(path).ok_or(Error::NotFound)?;
        if entry.lock().unwrap().node == Node::Directory { Ok(()) } else { Err(Error::NotADirectory) }
    }

    pub fn find(&self, whole: &[u8]) -> Result<Shared, Error> {
        self.find_by(whole, |_| true)
    }

    pub fn look_for(&self, user: u64, path: &[u8]) -> Result<Entry, Error> {
        let found = self.find_by(path, |directory| directory.mode.allows(user, 1));
        found.map(|found| *found.lock().unwrap())
    }

    /// What somebody finds who may step through some directories only.
    fn find_by(&self, whole: &[u8], may_step: impl Fn(&Entry) -> bool) -> Result<Shared, Error> {
        let mut at = b"/".to_vec();
        for name in whole.split(|c| *c == b'/') {
            self.is_directory(&at)?;
            if !self.names.get(&at).is_none_or(|directory| may_step(&directory.lock().unwrap())) {
                return Err(Error::Denied);
            }
            if name.len() > 255 {
                return Err(Error::TooBig);
            }
            at = normal(&[&at[..], b"/", name].concat());
            if !self.names.contains_key(&at) {
                return Err(Error::NotFound);
            }
        }
        self.names.get(&at).cloned().ok_or(Error::NotFound)
    }

    pub fn open(&mut self, path: &[u8], asked: u64, now: i64) -> Result<(u64, Entry), Error> {
        let path = normal(path);
        let file = match self.find(&path) {
            Err(Error::NotFound) if asked & how::CREATE != 0 => {
                self.is_directory(parent(&path))?;
                self.add(&path, Node::File(File::default()), (asked >> 32) as u32, now)
            }
            found => found?,
        };
        let mut entry = file.lock().unwrap();
        match &mut entry.node {
            Node::File(known) if asked & how::EMPTY != 0 => *known = File::default(),
            Node::File(_) => {}
            _ => return Err(Error::IsADirectory),
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number, (file.clone(), asked));
        Ok((number, *entry))
    }

    pub fn opened(&self, open: u64) -> Result<(Shared, u64), Error> {
        self.open.get(&open).cloned().ok_or(Error::NotFound)
    }

    pub fn list(&self, path: &[u8]) -> Result<Vec<Name>, Error> {
        let path = normal(path);
        self.is_directory(&path)?;
        let below = self.names.iter().filter(|(other, _)| other.len() > 1 && parent(other) == path);
        let name = |(path, entry): (&Vec<u8>, &Shared)| {
            let name = path.rsplit(|c| *c == b'/').next().unwrap().to_vec();
            Name { name, entry: *entry.lock().unwrap() }
        };
        Ok(below.map(name).collect())
    }

    pub fn make(&mut self, path: &[u8], bits: u32, now: i64) -> Result<(), Error> {
        self.is_directory(parent(path))?;
        if self.names.contains_key(path) {
            return Err(Error::Exists);
        }
        self.add(path, Node::Directory, bits, now);
        Ok(())
    }

    pub fn remove(&mut self, path: &[u8], directory: bool) -> Result<(), Error> {
        let is_directory = self.find(path)?.lock().unwrap().node == Node::Directory;
        match (directory, is_directory) {
            (false, true) => return Err(Error::IsADirectory),
            (true, false) => return Err(Error::NotADirectory),
            (true, true) if !self.list(path)?.is_empty() => return Err(Error::NotEmpty),
            _ => {}
        }
        self.names.remove(path);
        Ok(())
    }

    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), Error> {
        self.find(from)?;
        self.is_directory(parent(to))?;
        let below = [from, b"/"].concat();
        if to.starts_with(&below) {
            return Err(Error::BadArgument);
        }
        if from != to && self.names.contains_key(to) {
            let directory = self.find(from)?.lock().unwrap().node == Node::Directory;
            self.remove(to, directory)?;
        }
        let moved: Vec<_> =
            self.names.keys().filter(|path| *path == from || path.starts_with(&below)).cloned().collect();
        for path in moved {
            let entry = self.names.remove(&path).unwrap();
            self.names.insert([to, &path[from.len()..]].concat(), entry);
        }
        Ok(())
    }
}

impl Played {
    /// With a program to start, and a file of ten digits.
    pub fn with_files() -> Played {
        let machine = Played::new();
        machine.put(b"busybox", &std::fs::read("/bin/busybox").unwrap(), Mode::Executable, 0);
        machine.put(b"data/file", b"0123456789", Mode::Plain, 1234);
        machine
    }

    pub fn put(&self, name: &[u8], bytes: &[u8], mode: Mode, mtime: i64) -> File {
        let address = if bytes.is_empty() { 0 } else { self.allocate(bytes.len() as u64) };
        if address != 0 {
            self.space.write_all_at(bytes, address - SPACE_BASE).unwrap();
        }
        let file = File { address, len: bytes.len() as u64, fixed: true };
        self.files.lock().unwrap().put(name, file, mode, mtime);
        file
    }

    /// Where a file lies.
    pub fn file(&self, path: &[u8]) -> File {
        match self.file_look(path).unwrap().node {
            Node::File(file) => file,
            other => panic!("{other:?}"),
        }
    }
}

//! What is known of processes, by number and by who has started them; and which of it is to be written down.

use alloc::collections::{BTreeMap, BTreeSet};
use musubi::interfaces::processes::ProcessInfo;

/// Whoever asks for his children looks through these alone, however many others there are.
#[derive(Debug)]
pub struct Records {
    all: BTreeMap<u64, ProcessInfo>,
    /// Parent and child.
    children: BTreeSet<(u64, u64)>,
    /// To be written down.
    changed: BTreeSet<u64>,
    /// To be forgotten where they are written down.
    gone: BTreeSet<u64>,
}

impl Records {
    pub const fn new() -> Records {
        Records { all: BTreeMap::new(), children: BTreeSet::new(), changed: BTreeSet::new(), gone: BTreeSet::new() }
    }

    pub fn get(&self, task: u64) -> Option<&ProcessInfo> {
        self.all.get(&task)
    }

    /// In the order of their numbers, from behind `after`.
    pub fn after(&self, after: u64) -> impl Iterator<Item = &ProcessInfo> {
        self.all.range(after.saturating_add(1)..).map(|one| one.1)
    }

    pub fn all(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.all.values()
    }

    pub fn of_parent(&self, parent: u64) -> impl Iterator<Item = &ProcessInfo> + Clone {
        self.children.range((parent, 0)..=(parent, u64::MAX)).filter_map(|(_, task)| self.all.get(task))
    }

    /// As it is written down.
    pub fn restore(&mut self, info: ProcessInfo) {
        if let Some(before) = self.all.insert(info.task, info) {
            self.children.remove(&(before.parent, before.task));
        }
        self.children.insert((info.parent, info.task));
    }

    pub fn put(&mut self, info: ProcessInfo) {
        self.restore(info);
        self.changed.insert(info.task);
        self.gone.remove(&info.task);
    }

    pub fn remove(&mut self, task: u64) {
        if let Some(before) = self.all.remove(&task) {
            self.children.remove(&(before.parent, task));
            self.changed.remove(&task);
            self.gone.insert(task);
        }
    }

    /// What has changed since it was written down, each with what is known of it now; nothing: it is not known any more. What is not needed goes first, and makes room.
    pub fn unwritten(&self) -> impl Iterator<Item = (u64, Option<&ProcessInfo>)> {
        let gone = self.gone.iter().map(|task| (*task, None));
        gone.chain(self.changed.iter().map(|task| (*task, self.all.get(task))))
    }

    /// That of it is written down. If it has changed since, it is to be once more.
    pub fn is_written(&mut self, task: u64, info: Option<&ProcessInfo>) {
        if self.all.get(&task) == info {
            self.changed.remove(&task);
            self.gone.remove(&task);
        }
    }
}

//! What is told of processes, for who asks for one of them: in parts by number, each with a lock of its own, so that neither the table's lock is
//! needed for it nor anybody waits for who asks for another one.

use crate::table::Table;
use alloc::collections::BTreeMap;
use musubi::interfaces::processes::ProcessInfo;
use musubi::rt::Mutex;

const PARTS: usize = 32;

/// In cache lines of its own.
#[repr(align(64))]
struct Part(Mutex<BTreeMap<u64, ProcessInfo>>);

pub struct Seen([Part; PARTS]);

impl Seen {
    pub const fn new() -> Seen {
        Seen([const { Part(Mutex::new(BTreeMap::new())) }; PARTS])
    }

    fn part(&self, task: u64) -> &Mutex<BTreeMap<u64, ProcessInfo>> {
        &self.0[task as usize % PARTS].0
    }

    pub fn get(&self, task: u64) -> Option<ProcessInfo> {
        self.part(task).lock().get(&task).copied()
    }

    /// What has changed in the table, and is not written down yet, is told from now on. With the table in hand: whoever has heard of a change there finds
    /// it here.
    pub fn follows(&self, table: &Table) {
        table.unwritten().for_each(|(task, info)| self.put(task, info));
    }

    /// All that the table knows.
    pub fn begins(&self, table: &Table) {
        table.all().for_each(|info| self.put(info.task, Some(info)));
    }

    fn put(&self, task: u64, info: Option<&ProcessInfo>) {
        let mut part = self.part(task).lock();
        match info {
            Some(info) => _ = part.insert(task, *info),
            None => _ = part.remove(&task),
        }
    }
}

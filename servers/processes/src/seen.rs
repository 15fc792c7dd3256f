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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::By;
    use alloc::vec::Vec;
    use musubi::abi::section::NAME_LEN;
    use musubi::abi::task::Exit;

    #[test]
    fn what_is_told_is_what_the_table_knows() {
        let (seen, mut table) = (Seen::new(), Table::new());
        let shell = By { task: 7, user: 1 };
        for task in 10..200 {
            table.adopt(task, shell.task, shell.user, [0; NAME_LEN]);
            if task.is_multiple_of(3) {
                table.end(task - 1, Exit::default(), |_| true);
            }
            if task.is_multiple_of(6) {
                let _ = table.forget(shell, task - 1);
            }
            seen.follows(&table);
            // Whether it is written down or not.
            if task.is_multiple_of(5) {
                let unwritten: Vec<_> = table.unwritten().map(|(task, info)| (task, info.copied())).collect();
                unwritten.iter().for_each(|(task, info)| table.is_written(*task, info.as_ref()));
            }
            (0..250).for_each(|task| assert_eq!(seen.get(task), table.get(task).copied(), "{task}"));
        }
        let next = Seen::new();
        next.begins(&table);
        (0..250).for_each(|task| assert_eq!(next.get(task), table.get(task).copied(), "{task}"));
    }
}

//! Which of a thread's records lead to each of its domains: what becomes of a domain is written into all of them.

use crate::promise;
use crate::task::Task;
use alloc::collections::{BTreeMap, BTreeSet};

/// The addresses of records, by the number of the domain that they lead to.
pub struct Leads {
    to: BTreeMap<u32, BTreeSet<u64>>,
    /// How many came after the first, and were at the most: for these the task is charged until the thread ends.
    count: usize,
    most: usize,
}

impl Leads {
    /// Of a thread that has only its first record.
    pub fn new(domain: u32, address: u64) -> Leads {
        Leads { to: [(domain, [address].into())].into(), count: 0, most: 0 }
    }

    pub fn get(&self, domain: &u32) -> Option<&BTreeSet<u64>> {
        self.to.get(domain)
    }

    /// A record leads to this domain.
    pub fn insert(&mut self, task: &Task, domain: u32, address: u64) {
        if self.to.entry(domain).or_default().insert(address) {
            self.count += 1;
            if self.count > self.most {
                self.most = self.count;
                task.counts_list(0, promise::RECORD);
            }
        }
    }

    /// Of those that lead to this domain only these still do.
    pub fn retain(&mut self, domain: u32, still: impl Fn(u64) -> bool) {
        if let Some(all) = self.to.get_mut(&domain) {
            let before = all.len();
            all.retain(|address| still(*address));
            self.count = self.count.saturating_sub(before - all.len());
        }
    }

    /// The domain is no more: what led to it.
    pub fn remove(&mut self, domain: u32) -> BTreeSet<u64> {
        let all = self.to.remove(&domain).unwrap_or_default();
        self.count = self.count.saturating_sub(all.len());
        all
    }

    /// Nothing leads anywhere any more: the thread has ended. Freed by the caller, without its lock.
    pub fn end(&mut self, task: &Task) -> BTreeMap<u32, BTreeSet<u64>> {
        task.counts_list(core::mem::take(&mut self.most) as u64 * promise::RECORD, 0);
        self.count = 0;
        core::mem::take(&mut self.to)
    }
}

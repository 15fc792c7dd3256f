//! Threads that sleep, wake and end, on `shuttle`'s.

use crate::Threads;
use abi::Error;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Arc, Condvar, Mutex};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
struct Inner {
    woken: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    /// (watcher, watched), with how often.
    watches: BTreeMap<(u64, u64), u32>,
    /// For how many more looks a thread is running.
    running: BTreeMap<u64, u32>,
    /// Whoever looks is not among those that are running.
    unsaid: bool,
    finished: u64,
    entries: u64,
    spins: u64,
}

pub struct Machine {
    threads: u64,
    inner: Mutex<Inner>,
    changed: Condvar,
}

pub fn words(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Machine {
    pub fn new(threads: u64) -> Arc<Machine> {
        Arc::new(Machine { threads, inner: Mutex::default(), changed: Condvar::new() })
    }

    /// A thread ends: who watches it is woken.
    pub fn end(&self, thread: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.ended.insert(thread);
        let watchers: Vec<u64> = inner.watches.keys().filter(|(_, other)| *other == thread).map(|one| one.0).collect();
        inner.watches.retain(|(_, other), _| *other != thread);
        inner.woken.extend(watchers);
        self.changed.notify_all();
    }

    pub fn wait_for_end(&self, thread: u64) {
        let mut inner = self.inner.lock().unwrap();
        while !inner.ended.contains(&thread) {
            inner = self.changed.wait(inner).unwrap();
        }
    }

    pub fn has_ended(&self, thread: u64) -> bool {
        self.inner.lock().unwrap().ended.contains(&thread)
    }

    /// Waits until the thread has ended, or the word is no longer 0.
    pub fn wait_for_end_or(&self, word: &AtomicU64, thread: u64) {
        while word.load(Ordering::SeqCst) == 0 && !self.inner.lock().unwrap().ended.contains(&thread) {
            shuttle::thread::yield_now();
        }
    }

    /// Waits until so many have come here: nobody ends before.
    pub fn wait_for_all(&self, count: u64) {
        let mut inner = self.inner.lock().unwrap();
        inner.finished += 1;
        self.changed.notify_all();
        while inner.finished < count {
            inner = self.changed.wait(inner).unwrap();
        }
    }

    pub fn run_for(&self, thread: u64, looks: u32) {
        self.inner.lock().unwrap().running.insert(thread, looks);
    }

    pub fn say_nothing_of_oneself(&self) {
        self.inner.lock().unwrap().unsaid = true;
    }

    /// Sleeps and wake-ups so far.
    pub fn entries(&self) -> u64 {
        self.inner.lock().unwrap().entries
    }

    pub fn spins(&self) -> u64 {
        self.inner.lock().unwrap().spins
    }

    pub fn is_watched(&self, thread: u64) -> bool {
        self.inner.lock().unwrap().watches.keys().any(|(_, other)| *other == thread)
    }
}

/// The machine as one of its threads sees it.
pub struct As {
    machine: Arc<Machine>,
    me: u64,
}

impl As {
    pub fn new(machine: &Arc<Machine>, me: u64) -> As {
        As { machine: machine.clone(), me }
    }

    fn wake(&self, inner: &mut Inner, thread: u64) {
        inner.woken.insert(thread);
        self.machine.changed.notify_all();
    }

    fn rest(&self, until: u64) -> Result<(), Error> {
        let mut inner = self.machine.inner.lock().unwrap();
        inner.entries += 1;
        loop {
            if inner.woken.remove(&self.me) {
                return Ok(());
            }
            if until != u64::MAX {
                return Err(Error::TimedOut);
            }
            inner = self.machine.changed.wait(inner).unwrap();
        }
    }
}

impl Threads for As {
    fn me(&self) -> u64 {
        self.me
    }

    fn is_running(&self, thread: u64) -> bool {
        let mut inner = self.machine.inner.lock().unwrap();
        if thread == self.me {
            return !inner.unsaid;
        }
        let looks = inner.running.entry(thread).or_default();
        *looks = looks.saturating_sub(1);
        *looks > 0
    }

    fn ends(&self) -> u64 {
        self.machine.inner.lock().unwrap().ended.len() as u64
    }

    fn watch(&self, thread: u64) -> Result<(), Error> {
        let mut inner = self.machine.inner.lock().unwrap();
        if thread > self.machine.threads {
            return Err(Error::NotFound);
        }
        if inner.ended.contains(&thread) {
            return Err(Error::Dead);
        }
        *inner.watches.entry((self.me, thread)).or_default() += 1;
        Ok(())
    }

    fn unwatch(&self, thread: u64) {
        let mut inner = self.machine.inner.lock().unwrap();
        if let Some(count) = inner.watches.get_mut(&(self.me, thread)) {
            *count -= 1;
            if *count == 0 {
                inner.watches.remove(&(self.me, thread));
            }
        }
    }

    fn sleep(&self, until: u64) -> Result<(), Error> {
        self.rest(until)
    }

    fn wake_up(&self, thread: u64) {
        let mut inner = self.machine.inner.lock().unwrap();
        inner.entries += 1;
        self.wake(&mut inner, thread);
    }

    fn pass(&self, thread: u64, until: u64) -> Result<(), Error> {
        self.wake(&mut self.machine.inner.lock().unwrap(), thread);
        self.rest(until)
    }

    fn now(&self) -> u64 {
        0
    }

    fn relax(&self) {
        self.machine.inner.lock().unwrap().spins += 1;
        shuttle::thread::yield_now();
    }
}

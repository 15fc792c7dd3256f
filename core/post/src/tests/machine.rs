//! Threads that wait for messages and are woken, on `shuttle`'s.

use super::*;
use crate::{Called, Woken};
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread::{self, JoinHandle};
use std::collections::BTreeSet;

pub struct Machine {
    pub pool: Pool,
    /// Records of the threads that are to go on.
    woken: Mutex<BTreeSet<u32>>,
    changed: Condvar,
}

impl Machine {
    pub fn new() -> Arc<Machine> {
        Machine::of(CONFIG)
    }

    pub fn of(config: Config) -> Arc<Machine> {
        Arc::new(Machine { pool: Pool::new(config), woken: Mutex::default(), changed: Condvar::new() })
    }

    pub fn post(&self, number: u32) -> Permit {
        allow(&self.pool, self.pool.get(number).unwrap())
    }

    pub fn wake(&self, woken: Woken) {
        assert!(self.woken.lock().unwrap().insert(woken.receiver), "woken twice for one wait");
        self.changed.notify_all();
    }

    /// What this thread's wait ends with.
    pub fn end_of_wait(&self, who: &Who, received: Received) -> Received {
        let Received::Waits(_) = received else { return received };
        let mut woken = self.woken.lock().unwrap();
        while !woken.remove(&who.receiver) {
            woken = self.changed.wait(woken).unwrap();
        }
        drop(woken);
        self.pool.collect(who.receiver).expect("woken for a reason")
    }

    pub fn finish(&self, who: &Who, called: Result<Called, Error>) -> Result<Received, Error> {
        let called = called?;
        if let Some(woken) = called.woken {
            self.wake(woken);
        }
        Ok(self.end_of_wait(who, called.received))
    }

    pub fn send(&self, who: &Who, to: &Permit, op: u64) -> Result<(), Error> {
        let woken = self.pool.send(to, &who.by(), &body(op), 0)?;
        woken.into_iter().for_each(|woken| self.wake(woken));
        Ok(())
    }

    pub fn receive(&self, who: &Who, at: &[Permit]) -> Result<Received, Error> {
        Ok(self.end_of_wait(who, self.pool.receive(at, &who.by(), true)?))
    }

    pub fn ask(&self, who: &Who, to: &Permit, op: u64) -> Result<Received, Error> {
        self.finish(who, self.pool.ask(to, &who.by(), &body(op)))
    }

    /// Ends whatever this thread is waiting for now. Whether it did.
    pub fn interrupt(&self, who: &Who, error: Error) -> bool {
        let woken = self.pool.waits(who.receiver).and_then(|ticket| self.pool.interrupt(who.receiver, ticket, error));
        woken.map(|woken| self.wake(woken)).is_some()
    }

    /// A shuttle thread for one of ours.
    pub fn run<T: Send + 'static>(
        self: &Arc<Machine>,
        does: impl FnOnce(&Machine) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let machine = self.clone();
        thread::spawn(move || does(&machine))
    }

    /// Nothing is left anywhere: no message, no receiver, no charge.
    pub fn is_empty(&self, posts: &[u32], accounts: &[u32]) {
        for post in posts {
            assert_eq!(self.pool.depth(*post), (0, 0), "post {post}");
            assert_eq!(self.pool.free(*post, false, 0, |_| {}), Ok(()), "post {post}");
        }
        for account in accounts {
            assert_eq!(self.pool.charged(*account), 0, "account {account}");
        }
    }
}

/// Interleavings at random, and such that differ from one another in a few places.
pub fn random(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), 1000);
    shuttle::check_pct(test, 500, 3);
}

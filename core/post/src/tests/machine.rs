//! Threads that wait for messages and are woken, on `shuttle`'s.

use super::each::under;
use super::*;
use crate::message::Envelope;
use crate::{By, Called, Hands, Holder, Letter, Lies, Message, Question, Sent, Step, Woken};
use shuttle::rand::Rng;
use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread::{self, JoinHandle};
use std::collections::{BTreeMap, BTreeSet};

pub struct Machine {
    pub pool: Pool,
    /// Records of the threads that are to go on.
    woken: Mutex<BTreeSet<u32>>,
    /// What has been carried to threads that are to go on, by their records.
    carried: Mutex<BTreeMap<u32, Received>>,
    changed: Condvar,
    /// Whether hands always carry, and not by chance.
    carries: bool,
    /// Access lists, of those who may not: post and thread.
    denied: Mutex<BTreeSet<(u32, u64)>>,
}

impl Machine {
    pub fn new() -> Arc<Machine> {
        Machine::of(CONFIG)
    }

    pub fn of(config: Config) -> Arc<Machine> {
        Machine::around(Pool::new(config))
    }

    pub fn around(pool: Pool) -> Arc<Machine> {
        Machine::with_hands(pool, false)
    }

    /// One whose hands carry each message that they can.
    pub fn carrying(config: Config) -> Arc<Machine> {
        Machine::with_hands(Pool::new(config), true)
    }

    fn with_hands(pool: Pool, carries: bool) -> Arc<Machine> {
        Arc::new(Machine {
            pool,
            carries,
            woken: Mutex::default(),
            carried: Mutex::default(),
            changed: Condvar::new(),
            denied: Mutex::default(),
        })
    }

    pub fn post(&self, number: u32) -> Permit {
        allow(&self.pool, self.pool.get(number, SYSTEM).unwrap())
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
        self.came(who).expect("woken for a reason")
    }

    /// What has ended this thread's wait: it was carried there, or left.
    pub fn came(&self, who: &Who) -> Option<Received> {
        let carried = under(&self.carried, |carried| carried.remove(&who.receiver));
        carried.or_else(|| self.pool.collect(who.receiver))
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
        let body = Body::default();
        let mut hands = Carrying::new(self, &body);
        let step = self.pool.receive_with(at, &who.by(), true, &mut hands);
        self.finish(who, hands.called(step))
    }

    /// What the list of a post says about a thread.
    pub fn may(&self, post: u32, thread: u64) -> Result<(), Error> {
        if self.denied.lock().unwrap().contains(&(post, thread)) { Err(Error::Denied) } else { Ok(()) }
    }

    /// A thread's rights to a post are taken away.
    pub fn deny(&self, post: u32, thread: u64) {
        self.denied.lock().unwrap().insert((post, thread));
        self.renew(post);
    }

    /// The list of a post has changed.
    pub fn renew(&self, post: u32) {
        let may = |waits: Holder| self.may(post, self.pool.thread_of(waits.receiver));
        self.pool.changed(post, may, |woken| self.wake(woken));
    }

    /// Does something with a permit for each of these posts, once more if a list changes meanwhile.
    pub fn with<T>(
        &self,
        who: &Who,
        posts: &[u32],
        mut call: impl FnMut(&[Permit]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let permit = |post: &u32| self.pool.permit(*post, BOTH, || self.may(*post, who.sender.thread));
            let permits: Vec<Permit> = posts.iter().map(permit).collect::<Result<_, Error>>()?;
            match call(&permits) {
                Err(Error::Changed) => {}
                outcome => return outcome,
            }
        }
    }

    pub fn ask(&self, who: &Who, to: &Permit, op: u64) -> Result<Received, Error> {
        let body = body(op);
        let mut hands = Carrying::new(self, &body);
        let step = self.pool.ask_with(to, &who.by(), &mut hands);
        self.finish(who, hands.called(step))
    }

    /// [`Pool::send_and_receive`] by hands that carry.
    pub fn send_and_receive(&self, to: &Permit, at: &Permit, by: &Caller, body: &Body) -> Result<Called, Error> {
        let mut hands = Carrying::new(self, body);
        let step = self.pool.send_and_receive_with(to, at, by, &mut hands);
        hands.called(step)
    }

    /// [`Pool::answer_and_receive`] in the same way.
    pub fn answer_and_receive(
        &self,
        question: Question,
        at: &Permit,
        by: &Caller,
        body: &Body,
    ) -> Result<Called, Error> {
        let mut hands = Carrying::new(self, body);
        let step = self.pool.answer_and_receive_with(question, at, by, &mut hands);
        hands.called(step)
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

/// Hands that carry what they have to the receiver, or do so in half of the cases, as the kernel does where that one can go on at once.
struct Carrying<'a> {
    machine: &'a Machine,
    body: &'a Body,
    came: Option<(u32, Message)>,
    woken: Option<Woken>,
}

impl<'a> Carrying<'a> {
    fn new(machine: &'a Machine, body: &'a Body) -> Carrying<'a> {
        Carrying { machine, body, came: None, woken: None }
    }

    fn called(self, step: Step) -> Result<Called, Error> {
        let received = match (step, self.came) {
            (Step::Refused(error), _) => return Err(error),
            (Step::Ended(error), _) => Received::Ended(error),
            (Step::Waits(ticket), _) => Received::Waits(ticket),
            (Step::Came, came) => came.map(|(post, message)| Received::Message(post, message)).unwrap(),
        };
        Ok(Called { woken: self.woken, received })
    }
}

impl Hands for Carrying<'_> {
    fn op(&self) -> u64 {
        self.body.op
    }

    fn lend(&self) -> u16 {
        self.body.lend
    }

    fn words(&self) -> &[u64; 6] {
        &self.body.words
    }

    fn carry(
        &mut self,
        woken: &Woken,
        _: Sent,
        post: u32,
        by: impl By,
        (back, question): (u32, Option<Question>),
        rest: impl FnOnce(),
    ) -> bool {
        let carries = self.machine.carries || shuttle::rand::thread_rng().gen_bool(0.5);
        if carries {
            let back = Envelope { from: by.sender(), back, question }.back();
            let message = Message { body: *self.body, from: by.sender(), back, question };
            let received = Received::Message(post, message);
            let before = under(&self.machine.carried, |carried| carried.insert(woken.receiver, received));
            assert!(before.is_none());
            self.woken = Some(*woken);
            rest();
        }
        carries
    }

    fn wake(&mut self, woken: Woken) {
        self.woken = Some(woken);
    }

    fn show(&mut self, _: Lies, letter: &Letter) -> bool {
        self.came = Some((letter.post(), letter.read()));
        false
    }

    fn may_receive(&self, post: u32, by: impl By) -> Result<(), Error> {
        self.machine.may(post, by.sender().thread)
    }
}

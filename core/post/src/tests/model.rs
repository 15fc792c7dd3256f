//! Random calls of a few threads, one at a time, against plain lists.

use super::*;
use crate::{Back, Called, Notice, Question, Woken};
use proptest::prelude::*;
use std::collections::VecDeque;

const THREADS: usize = 4;
const LIMITS: [u32; 2] = [2, 3];

#[derive(Clone, Debug)]
enum Step {
    Get(u32),
    Free(u32, bool),
    Send(usize, u32, u32),
    Receive(usize, Vec<u32>, bool),
    SendReceive(usize, u32, u32),
    Ask(usize, u32),
    Answer(usize, usize, Option<u32>),
    TimeOut(usize),
    /// The text that the thread executes ends, and begins anew.
    End(usize),
    Bind(usize, u32),
    Notify,
    Unbind,
}

fn step() -> impl Strategy<Value = Step> {
    let (thread, post) = (|| 0..THREADS, || 1..5u32);
    prop_oneof![
        2 => post().prop_map(Step::Get),
        1 => (post(), any::<bool>()).prop_map(|(post, force)| Step::Free(post, force)),
        5 => (thread(), post(), 1..4u32).prop_map(|(who, post, count)| Step::Send(who, post, count)),
        5 => (thread(), prop::collection::vec(post(), 1..4), any::<bool>()).prop_map(|(who, posts, waits)| Step::Receive(who, posts, waits)),
        3 => (thread(), post(), post()).prop_map(|(who, to, at)| Step::SendReceive(who, to, at)),
        3 => (thread(), post()).prop_map(|(who, to)| Step::Ask(who, to)),
        4 => (thread(), thread(), prop::option::of(post())).prop_map(|(who, asker, at)| Step::Answer(who, asker, at)),
        2 => thread().prop_map(Step::TimeOut),
        1 => thread().prop_map(Step::End),
        1 => (thread(), post()).prop_map(|(who, post)| Step::Bind(who, post)),
        2 => Just(Step::Notify),
        1 => Just(Step::Unbind),
    ]
}

/// A message: its operation, who sent it, how often it came (a notice), and the question, if it is one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Letter {
    op: u64,
    from: usize,
    count: u64,
    /// The asker's wait.
    question: Option<(usize, u64)>,
    back: u32,
}

/// What a call or a wait has come to.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Got(u32, Letter),
    Waits,
    Ended(Error),
}

#[derive(Debug, Default)]
struct List {
    letters: VecDeque<Letter>,
    waiting: VecDeque<usize>,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    /// The number of its wait, while it waits.
    wait: Option<u64>,
    holder: Option<usize>,
}

#[derive(Default)]
struct Model {
    posts: [Option<List>; 5],
    threads: [Thread; THREADS],
    used: [u32; 2],
    waits: u64,
    /// What the waits came to that have ended in this step, in their order.
    woken: Vec<(usize, Outcome)>,
    /// The notice: its post while that is the one it was bound to, who pays, and its operation.
    notice: Option<(Option<u32>, usize, u64)>,
}

impl Model {
    fn post(&mut self, number: u32) -> Result<&mut List, Error> {
        self.posts[number as usize].as_mut().ok_or(Error::NotFound)
    }

    fn end(&mut self, thread: usize, outcome: Outcome) {
        assert!(self.threads[thread].wait.take().is_some());
        self.posts.iter_mut().flatten().for_each(|list| list.waiting.retain(|one| *one != thread));
        self.woken.push((thread, outcome));
    }

    fn begin(&mut self, thread: usize) -> u64 {
        self.waits += 1;
        self.threads[thread] = Thread { wait: Some(self.waits), holder: None };
        self.waits
    }

    fn hold(&mut self, letter: &Letter, holder: usize) {
        if let Some((asker, wait)) = letter.question
            && self.threads[asker].wait == Some(wait)
        {
            self.threads[asker].holder = Some(holder);
        }
    }

    fn put(&mut self, number: u32, letter: Letter) -> Result<(), Error> {
        let list = self.post(number)?;
        if let Some(thread) = list.waiting.front().copied() {
            self.hold(&letter, thread);
            self.end(thread, Outcome::Got(number, letter));
            return Ok(());
        }
        self.post(number)?.letters.push_back(letter);
        Ok(())
    }

    /// It was taken out: a notice that is still bound is paid for as before.
    fn release(&mut self, letter: &Letter) {
        if letter.count == 0 || letter.back == u32::MAX {
            self.used[letter.from % 2] -= 1;
        }
    }

    fn take(&mut self, number: u32, thread: usize) -> Result<Option<Outcome>, Error> {
        let Some(letter) = self.post(number)?.letters.pop_front() else { return Ok(None) };
        self.release(&letter);
        self.hold(&letter, thread);
        Ok(Some(Outcome::Got(number, letter)))
    }

    fn receive(&mut self, thread: usize, posts: &[u32], waits: bool) -> Result<Outcome, Error> {
        for (i, post) in posts.iter().enumerate() {
            assert!(!posts[..i].contains(post));
            if let Some(outcome) = self.take(*post, thread)? {
                return Ok(outcome);
            }
        }
        if !waits {
            return Err(Error::TimedOut);
        }
        self.begin(thread);
        posts.iter().for_each(|post| self.posts[*post as usize].as_mut().unwrap().waiting.push_back(thread));
        Ok(Outcome::Waits)
    }

    fn call(&mut self, thread: usize, to: u32, at: Option<u32>, op: u64) -> Result<Outcome, Error> {
        if let Some(at) = at {
            self.post(at)?;
        }
        let wait = self.begin(thread);
        let letter = Letter { op, from: thread, count: 0, question: Some((thread, wait)), back: at.unwrap_or(0) };
        if let Err(error) = self.put(to, letter) {
            self.threads[thread].wait = None;
            return Err(error);
        }
        let Some(at) = at else { return Ok(Outcome::Waits) };
        if let Some(letter) = self.post(at)?.letters.front().copied() {
            self.threads[thread].wait = None;
            let outcome = self.take(at, thread)?.unwrap();
            assert_eq!(outcome, Outcome::Got(at, letter));
            return Ok(outcome);
        }
        self.post(at)?.waiting.push_back(thread);
        Ok(Outcome::Waits)
    }
}

/// The real pool beside the model.
struct Both {
    pool: Pool,
    all: Vec<Who>,
    model: Model,
    ops: u64,
    notice: Option<Notice>,
    /// Questions as their holders know them, by asker.
    questions: [Option<Question>; THREADS],
}

impl Both {
    fn new() -> Both {
        let pool = Pool::new(CONFIG);
        let accounts = LIMITS.map(|limit| account(&pool, limit));
        let all = (0..THREADS).map(|n| Who::new(&pool, n as u64, accounts[n % 2])).collect();
        Both { pool, all, model: Model::default(), ops: 0, notice: None, questions: [None; THREADS] }
    }

    fn permit(&self, post: u32) -> Result<Permit, Error> {
        self.pool.permit(post, BOTH, || Ok(()))
    }

    /// The same in the model's words; questions are noted.
    fn said(&mut self, received: Received) -> Outcome {
        match received {
            Received::Waits(_) => Outcome::Waits,
            Received::Ended(error) => Outcome::Ended(error),
            Received::Message(post, message) => {
                let from = message.from.thread as usize;
                let is_notice = message.body.op > 1 << 31;
                let back = if let Back::Post(back) = message.back { back } else { 0 };
                if let Back::Question(question) = message.back {
                    self.questions[from] = Some(question);
                }
                let count = if is_notice { message.body.words[0] } else { 0 };
                let question = message.question.map(|_| (from, 0));
                Outcome::Got(post, Letter { op: message.body.op, from, count, question, back })
            }
        }
    }

    fn wakes(&mut self, woken: impl IntoIterator<Item = Woken>) {
        let woken: Vec<_> = woken.into_iter().collect();
        let expected = std::mem::take(&mut self.model.woken);
        assert_eq!(woken.len(), expected.len(), "{woken:?}: {expected:?}");
        for (woken, (thread, outcome)) in woken.into_iter().zip(expected) {
            assert_eq!(woken.thread, thread as u64);
            let collected = self.pool.collect(woken.receiver).unwrap();
            assert_eq!(self.said(collected), plain(outcome));
        }
    }

    fn called(&mut self, real: Result<Called, Error>, expected: Result<Outcome, Error>) {
        match (real, expected) {
            (Ok(called), Ok(expected)) => {
                self.wakes(called.woken);
                assert_eq!(self.said(called.received), plain(expected));
            }
            (real, expected) => assert_eq!(real.err(), expected.err()),
        }
    }

    fn idle(&self, thread: usize) -> bool {
        self.model.threads[thread].wait.is_none()
    }

    fn run(&mut self, step: &Step) {
        self.ops += 1;
        let op = self.ops;
        match step.clone() {
            Step::Get(post) => {
                let is_free = self.model.posts[post as usize].is_none();
                assert_eq!(self.pool.get(post, SYSTEM).is_ok(), is_free);
                self.model.posts[post as usize].get_or_insert_default();
            }
            Step::Free(post, force) => {
                let mut woken = Vec::new();
                let real = self.pool.free(post, force, 0, |one| woken.push(one));
                let expected = self.free(post, force);
                assert_eq!(real, expected);
                self.wakes(woken);
            }
            Step::Send(who, post, count) if self.idle(who) => {
                let mut woken = Vec::new();
                let by = self.all[who];
                let real = self.permit(post).and_then(|permit| {
                    self.pool.send_many(
                        &permit,
                        &by.by(),
                        count,
                        |n| body(op * 10 + u64::from(n)),
                        |one| woken.push(one),
                    )
                });
                let mut sent = Ok(0);
                for n in 0..count {
                    let letter = Letter { op: op * 10 + u64::from(n), from: who, count: 0, question: None, back: 0 };
                    match self.put(post, letter, who) {
                        Ok(()) => sent = Ok(n + 1),
                        Err(error) if n == 0 => sent = Err(error),
                        Err(_) => break,
                    }
                    if sent.is_err() {
                        break;
                    }
                }
                assert_eq!(real, sent);
                self.wakes(woken);
            }
            Step::Receive(who, mut posts, waits) if self.idle(who) => {
                posts.sort_unstable();
                posts.dedup();
                let by = self.all[who];
                let permits: Result<Vec<Permit>, Error> = posts.iter().map(|post| self.permit(*post)).collect();
                let Ok(permits) = permits else { return };
                let real = self.pool.receive(&permits, &by.by(), waits);
                let expected = self.model.receive(who, &posts, waits);
                let real = real.map(|received| self.said(received));
                assert_eq!(real, expected.map(plain));
            }
            Step::SendReceive(who, to, at) if self.idle(who) => {
                let by = self.all[who];
                let (Ok(there), Ok(here)) = (self.permit(to), self.permit(at)) else { return };
                let real = self.pool.send_and_receive(&there, &here, &by.by(), &body(op * 10));
                let expected = self.call(who, to, Some(at), op * 10);
                self.called(real, expected);
            }
            Step::Ask(who, to) if self.idle(who) => {
                let by = self.all[who];
                let Ok(there) = self.permit(to) else { return };
                let real = self.pool.ask(&there, &by.by(), &body(op * 10));
                let expected = self.call(who, to, None, op * 10);
                self.called(real, expected);
            }
            Step::Answer(who, asker, at) if self.idle(who) => self.answer(who, asker, at, op * 10),
            Step::TimeOut(who) => {
                let ticket = self.pool.waits(self.all[who].receiver);
                assert_eq!(ticket.is_some(), !self.idle(who));
                if let Some(ticket) = ticket {
                    let woken = self.pool.interrupt(self.all[who].receiver, ticket, Error::TimedOut);
                    self.model.end(who, Outcome::Ended(Error::TimedOut));
                    self.wakes(woken);
                }
            }
            Step::End(who) => {
                let mut woken = Vec::new();
                let receiver = self.all[who].receiver;
                self.pool.holders_gone(|holder| holder.receiver == receiver, |one| woken.push(one));
                for asker in 0..THREADS {
                    if !self.idle(asker) && self.model.threads[asker].holder == Some(who) {
                        self.model.end(asker, Outcome::Ended(Error::Dead));
                    }
                }
                self.wakes(woken);
            }
            Step::Bind(who, post) => {
                if self.notice.is_none() && self.model.posts[post as usize].is_some() {
                    let by = self.all[who];
                    let bound = self.pool.bind(&self.permit(post).unwrap(), &by.by(), (1 << 31) + op, by.sender);
                    assert_eq!(bound.is_ok(), self.charge(who));
                    if let Ok(notice) = bound {
                        self.notice = Some(notice);
                        self.model.notice = Some((Some(post), who, (1 << 31) + op));
                    }
                }
            }
            Step::Notify => self.notify(),
            Step::Unbind => self.unbind(),
            _ => {}
        }
        self.check();
    }

    fn charge(&mut self, who: usize) -> bool {
        let has_room = self.model.used[who % 2] < LIMITS[who % 2];
        self.model.used[who % 2] += u32::from(has_room);
        has_room
    }

    fn put(&mut self, post: u32, letter: Letter, who: usize) -> Result<(), Error> {
        let waits = !self.model.post(post)?.waiting.is_empty();
        if !waits && !self.charge(who) {
            return Err(Error::MessageQuota);
        }
        self.model.put(post, letter)
    }

    fn call(&mut self, who: usize, to: u32, at: Option<u32>, op: u64) -> Result<Outcome, Error> {
        let waits = !self.model.post(to)?.waiting.is_empty();
        if !waits && !self.charge(who) {
            return Err(Error::MessageQuota);
        }
        self.model.call(who, to, at, op)
    }

    fn free(&mut self, post: u32, force: bool) -> Result<(), Error> {
        let list = self.model.post(post)?;
        if !force && !(list.letters.is_empty() && list.waiting.is_empty()) {
            return Err(Error::Busy);
        }
        while let Some(letter) = self.model.post(post)?.letters.pop_front() {
            self.model.release(&letter);
            if let Some((asker, wait)) = letter.question
                && self.model.threads[asker].wait == Some(wait)
            {
                self.model.end(asker, Outcome::Ended(Error::NotFound));
            }
        }
        while let Some(thread) = self.model.post(post)?.waiting.front().copied() {
            self.model.end(thread, Outcome::Ended(Error::NotFound));
        }
        self.model.posts[post as usize] = None;
        if let Some((at, ..)) = &mut self.model.notice
            && *at == Some(post)
        {
            *at = None;
        }
        Ok(())
    }

    fn answer(&mut self, who: usize, asker: usize, at: Option<u32>, op: u64) {
        let Some(question) = self.questions[asker] else { return };
        let by = self.all[who];
        let permit = at.and_then(|at| self.permit(at).ok());
        let may = !self.idle(asker) && self.model.threads[asker].holder == Some(who) && {
            // Of this wait, and not one that waits at a post.
            self.pool.waits(self.all[asker].receiver) == Some(question.ticket)
        };
        let letter = Letter { op, from: who, count: 0, question: None, back: 0 };
        match permit {
            None => {
                let real = self.pool.answer(question, &by.by(), &body(op));
                assert_eq!(real.is_ok(), may);
                if let Ok(woken) = real {
                    self.model.end(asker, Outcome::Got(0, letter));
                    self.wakes([woken]);
                }
            }
            Some(permit) => {
                let real = self.pool.answer_and_receive(question, &permit, &by.by(), &body(op));
                assert_eq!(real.is_ok(), may);
                if let Ok(called) = real {
                    self.model.end(asker, Outcome::Got(0, letter));
                    let expected = self.model.receive(who, &[permit.post()], true);
                    self.called(Ok(called), expected);
                }
            }
        }
    }

    fn notify(&mut self) {
        let (Some(notice), Some((at, who, op))) = (&self.notice, self.model.notice) else { return };
        let real = self.pool.notify(notice);
        assert_eq!(real.is_ok(), at.is_some());
        let Some(at) = at else { return };
        let letters = &mut self.model.post(at).unwrap().letters;
        match letters.iter_mut().find(|letter| letter.op == op) {
            Some(letter) => letter.count += 1,
            None => {
                let letter = Letter { op, from: who, count: 1, question: None, back: 0 };
                self.model.put(at, letter).unwrap();
            }
        }
        self.wakes(real.unwrap());
    }

    fn unbind(&mut self) {
        let (Some(notice), Some((at, who, op))) = (self.notice.take(), self.model.notice.take()) else { return };
        self.pool.unbind(notice, 0);
        let queued = at.and_then(|at| self.model.post(at).unwrap().letters.iter_mut().find(|letter| letter.op == op));
        match queued {
            // Received like any other from now on, and paid for until then.
            Some(letter) => letter.back = u32::MAX,
            None => self.model.used[who % 2] -= 1,
        }
    }

    fn check(&mut self) {
        for list in self.model.posts.iter().flatten() {
            assert!(list.letters.is_empty() || list.waiting.is_empty(), "no sleeper beside its message");
        }
        for (number, used) in self.model.used.iter().enumerate() {
            assert_eq!(self.pool.charged(self.all[number].account), *used);
        }
    }
}

/// Without what only the model knows.
fn plain(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Got(post, letter) => {
            let back = if letter.back == u32::MAX { 0 } else { letter.back };
            let question = letter.question.map(|(asker, _)| (asker, 0));
            Outcome::Got(post, Letter { back, question, ..letter })
        }
        other => other,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn agrees_with_plain_lists(steps in prop::collection::vec(step(), 0..120)) {
        alone(move || {
            let mut both = Both::new();
            steps.iter().for_each(|step| both.run(step));
            // Everything is given back, and everybody hears so.
            both.unbind();
            for post in 1..5 {
                both.run(&Step::Free(post, true));
            }
            for who in 0..THREADS {
                both.run(&Step::TimeOut(who));
            }
            assert_eq!(both.model.used, [0, 0]);
            both.check();
        });
    }
}

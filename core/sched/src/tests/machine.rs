//! A machine of processors, threads and schedulers that answer anything: each thread is in one place, and the kernel finds
//! every one again.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const PROCESSORS: usize = 3;
const THREADS: usize = 5;
type Entry = (usize, u64);

#[derive(Default)]
struct Processor {
    running: Option<usize>,
    queue: Ring<Entry>,
    seat: Seat<()>,
    outbox: Outbox<Entry, 4>,
    slots: [Entry; 4],
    head: u32,
    /// What its scheduler believes.
    known: VecDeque<Entry>,
}

#[derive(Default)]
struct Machine {
    lives: Vec<Life>,
    home: Vec<usize>,
    processors: Vec<Processor>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A thread that waits is made ready on a processor.
    Wake(usize, usize),
    /// The thread that runs there waits, or makes room, or ends.
    Wait(usize),
    GiveWay(usize),
    End(usize),
    Sit(usize),
    /// The scheduler decides from what it knows: its own first thread, the first that another one knows, or nonsense.
    Decide(usize),
    Steal(usize, usize),
    Lie(usize, usize, u64),
    /// It reads nothing this time.
    Sleepy(usize),
    Dismiss(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let (p, t) = (0..PROCESSORS, 0..THREADS);
    prop_oneof![
        6 => (t.clone(), p.clone()).prop_map(|(t, p)| Step::Wake(t, p)),
        4 => p.clone().prop_map(Step::Wait),
        4 => p.clone().prop_map(Step::GiveWay),
        1 => p.clone().prop_map(Step::End),
        2 => p.clone().prop_map(Step::Sit),
        8 => p.clone().prop_map(Step::Decide),
        4 => (p.clone(), p.clone()).prop_map(|(a, b)| Step::Steal(a, b)),
        2 => (p.clone(), 0..THREADS + 1, 0..9u64).prop_map(|(p, t, turn)| Step::Lie(p, t, turn)),
        1 => p.clone().prop_map(Step::Sleepy),
        1 => p.prop_map(Step::Dismiss),
    ]
}

impl Machine {
    fn new() -> Machine {
        Machine {
            lives: vec![Life::new(); THREADS],
            home: vec![0; THREADS],
            processors: (0..PROCESSORS).map(|_| Processor::default()).collect(),
        }
    }

    /// As `kernel/src/sched.rs` does it: to the scheduler, or into the kernel's own queue.
    fn announce(&mut self, thread: usize, turn: u64, at: usize) {
        self.home[thread] = at;
        let p = &mut self.processors[at];
        if p.seat.holder().is_none() {
            p.queue.push_back((thread, turn));
            return;
        }
        let slots = &mut p.slots;
        let told = p.outbox.post((thread, turn), Weight::Heavy, p.head, |slot, entry| slots[slot as usize] = *entry);
        if told.is_err() {
            self.dismiss(at, Reason::Ring);
        }
    }

    fn dismiss(&mut self, at: usize, why: Reason) {
        if self.processors[at].seat.dismiss(why, 0).is_none() {
            return;
        }
        self.processors[at].known.clear();
        for thread in 0..THREADS {
            if self.home[thread] == at && self.lives[thread].phase() == Phase::Ready {
                self.processors[at].queue.push_back((thread, self.lives[thread].turn()));
            }
        }
    }

    fn sit(&mut self, at: usize) {
        self.dismiss(at, Reason::Replaced);
        let p = &mut self.processors[at];
        p.seat.sit((), 0);
        p.outbox = Outbox::new();
        p.head = 0;
        let ready: Vec<Entry> = std::iter::from_fn(|| self.processors[at].queue.pop_front()).collect();
        for (thread, turn) in ready {
            self.announce(thread, turn, at);
        }
    }

    /// The scheduler reads, then answers.
    fn read(&mut self, at: usize) {
        let p = &mut self.processors[at];
        while p.outbox.unread(p.head).unwrap() > 0 {
            p.known.push_back(p.slots[p.head as usize % 4]);
            p.head += 1;
            let slots = &mut p.slots;
            p.outbox.catch_up(p.head, |slot, entry| slots[slot as usize] = *entry).unwrap();
        }
    }

    fn name(&mut self, at: usize, entry: Option<Entry>) {
        if self.processors[at].running.is_some() || self.processors[at].seat.holder().is_none() {
            return;
        }
        self.processors[at].seat.ask(0);
        let Some((thread, turn)) = entry else { return self.processors[at].seat.decided(false) };
        let claimed = match self.lives.get_mut(thread) {
            Some(life) => life.claim(turn, at),
            None => Err(Refused::Never),
        };
        match claimed {
            Ok(()) => {
                self.processors[at].seat.decided(true);
                self.run(at, thread);
            }
            Err(why) => {
                if let Err(reason) = self.processors[at].seat.missed(why) {
                    self.dismiss(at, reason);
                }
            }
        }
    }

    fn run(&mut self, at: usize, thread: usize) {
        assert!(self.processors.iter().all(|p| p.running != Some(thread)), "a thread runs on two processors");
        self.home[thread] = at;
        self.processors[at].running = Some(thread);
    }

    /// The kernel's own round robin, wherever nobody sits.
    fn round_robin(&mut self) {
        for at in 0..PROCESSORS {
            while self.processors[at].seat.holder().is_none() && self.processors[at].running.is_none() {
                let Some((thread, turn)) = self.processors[at].queue.pop_front() else { break };
                if self.lives[thread].claim(turn, at).is_ok() {
                    self.run(at, thread);
                }
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Wake(thread, at) if self.lives[thread].phase() == Phase::Waiting => {
                let turn = self.lives[thread].ready().unwrap();
                self.announce(thread, turn, at);
            }
            Step::Wait(at) => {
                if let Some(thread) = self.processors[at].running.take() {
                    assert!(self.lives[thread].wait());
                }
            }
            Step::GiveWay(at) => {
                if let Some(thread) = self.processors[at].running.take() {
                    let turn = self.lives[thread].ready().unwrap();
                    self.announce(thread, turn, at);
                }
            }
            Step::End(at) => {
                if let Some(thread) = self.processors[at].running.take() {
                    assert!(self.lives[thread].end(at));
                }
            }
            Step::Sit(at) => self.sit(at),
            Step::Decide(at) => {
                self.read(at);
                let entry = self.processors[at].known.pop_front();
                self.name(at, entry);
            }
            Step::Steal(at, from) => {
                let entry = self.processors[from].known.back().copied();
                self.name(at, entry);
            }
            Step::Lie(at, thread, turn) => self.name(at, Some((thread, turn))),
            Step::Sleepy(at) => self.name(at, None),
            Step::Dismiss(at) => self.dismiss(at, Reason::Slow),
            Step::Wake(..) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Whatever schedulers say: when the last of them is gone, the round robin runs every thread that could run.
    #[test]
    fn no_thread_is_lost_or_on_two_processors(steps in prop::collection::vec(step(), 0..200)) {
        let mut machine = Machine::new();
        for step in steps {
            machine.step(step);
            machine.round_robin();
            let running = machine.lives.iter().filter(|life| life.phase() == Phase::Running).count();
            for (at, p) in machine.processors.iter().enumerate() {
                let here: Vec<usize> = (0..THREADS).filter(|t| machine.lives[*t].runs_at(at)).collect();
                prop_assert_eq!(here, p.running.into_iter().collect::<Vec<_>>());
            }
            prop_assert_eq!(running, machine.processors.iter().filter(|p| p.running.is_some()).count());
        }
        (0..PROCESSORS).for_each(|at| machine.dismiss(at, Reason::Replaced));
        let could: usize = machine.lives.iter().filter(|l| matches!(l.phase(), Phase::Ready | Phase::Running)).count();
        let mut ran = 0;
        for _ in 0..THREADS + 1 {
            machine.round_robin();
            for at in 0..PROCESSORS {
                ran += usize::from(machine.processors[at].running.is_some());
                machine.step(Step::End(at));
            }
        }
        prop_assert_eq!(ran, could);
    }

    /// A reader that reads when it likes gets everything heavy, in order, and is told how much it missed of the rest.
    #[test]
    fn a_ring_loses_only_what_it_counts(steps in prop::collection::vec((any::<bool>(), 0..6u32), 0..200)) {
        let mut outbox: Outbox<(u32, Weight), 8> = Outbox::new();
        let (mut slots, mut head) = ([(0, Weight::Light); 8], 0);
        let (mut told, mut read) = (Vec::new(), Vec::new());
        for (number, (heavy, reads)) in (0u32..).zip(steps) {
            let weight = if heavy { Weight::Heavy } else { Weight::Light };
            let missed = outbox.missed();
            outbox.post((number, weight), weight, head, |slot, entry| slots[slot as usize] = *entry).unwrap();
            if outbox.missed() == missed {
                told.push((number, weight));
            }
            prop_assert!(!heavy || outbox.missed() == missed);
            for _ in 0..reads {
                if outbox.unread(head).unwrap() > 0 {
                    read.push(slots[head as usize % 8]);
                    head += 1;
                }
                outbox.catch_up(head, |slot, entry| slots[slot as usize] = *entry).unwrap();
            }
            prop_assert_eq!(outbox.is_empty(head).unwrap(), told.len() == read.len());
        }
        prop_assert_eq!(&read[..], &told[..read.len()]);
    }
}

#[test]
fn a_reader_that_is_ahead_talks_nonsense() {
    let mut outbox: Outbox<u8, 4> = Outbox::new();
    assert_eq!(outbox.unread(1), Err(Nonsense));
    assert_eq!(outbox.post(1, Weight::Heavy, 5, |_, _| panic!("there is no room")), Err(Nonsense));
    // It was kept all the same.
    let mut got = 0;
    outbox.catch_up(0, |_, entry| got = *entry).unwrap();
    assert_eq!((got, outbox.unread(0)), (1, Ok(1)));
}

#[test]
fn positions_go_round() {
    let mut outbox: Outbox<u32, 4> = Outbox::new();
    outbox.tail = u32::MAX - 1;
    let (mut head, mut slots) = (u32::MAX - 1, [0; 4]);
    for number in 0..10 {
        outbox.post(number, Weight::Heavy, head, |slot, entry| slots[slot as usize] = *entry).unwrap();
        assert_eq!(slots[head as usize % 4], number);
        head = head.wrapping_add(1);
    }
}

#[test]
fn who_decides_has_so_many_beats() {
    let mut seat = Seat::new();
    assert_eq!(seat.beat(None, true, 0), Beat::Fine);
    seat.sit("a", 5);
    assert!((0..100).all(|beat| seat.beat(None, true, beat * BEAT_NS) == Beat::Fine), "nobody asked it anything");
    seat.ask(6);
    assert_eq!(
        (1..).position(|beat| seat.beat(None, true, 6 + beat * BEAT_NS) == Beat::Late),
        Some(BEATS as usize - 1)
    );
    assert!(u64::from(BEATS) * BEAT_NS < 10_000_000);
    assert_eq!(seat.dismiss(Reason::Slow, 7), Some("a"));
    let mut last = Last { why: Reason::Slow, when: 7, beats: BEATS, since: 6, took: 0 };
    assert_eq!((seat.last(), seat.counts().dismissed), (Some(last), 1));
    // Somebody else's; then its own.
    seat.handed_over(6, 9);
    assert_eq!(seat.last(), Some(last));
    seat.handed_over(7, 9);
    last.took = 3;
    assert_eq!(seat.last(), Some(last));
    assert_eq!(seat.dismiss(Reason::Slow, 8), None);
    assert_eq!(seat.beat(None, true, 0), Beat::Fine);
}

/// A host that gives the machine a moment now and then puts nobody out who needs a few of them; who loops ends there, too.
#[test]
fn beats_that_come_late_weigh_little() {
    let mut seat = Seat::new();
    seat.sit("a", 5);
    let beat = |seat: &mut Seat<_>, at: u32, on_time| seat.beat(None, on_time, u64::from(at) * 2 * BEAT_NS);
    seat.ask(0);
    assert!((0..2 * BEATS).all(|at| beat(&mut seat, at, false) == Beat::Fine));
    let more = (2 * BEATS..).position(|at| beat(&mut seat, at, true) == Beat::Late);
    assert_eq!(more, Some(1), "as if it had been a quarter of that: six beats and ten milliseconds");
    seat.ask(0);
    let late = (0..).position(|at| beat(&mut seat, at, false) == Beat::Late);
    assert_eq!(late, Some(23), "a machine that is always late");
}

/// Who loops has less than 10 ms by the clock, if none of the beats is so late that it weighs less.
#[test]
fn who_loops_is_stopped_within_10_ms_if_beats_are_a_little_late() {
    let mut rng = 1_u64;
    for _ in 0..10_000 {
        let mut seat = Seat::new();
        seat.sit("a", 5);
        seat.ask(0);
        let (mut now, mut beats) = (0, 0);
        loop {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            now += BEAT_NS + (rng >> 33) % (BEAT_NS / 2);
            beats += 1;
            if seat.beat(None, true, now) == Beat::Late {
                break;
            }
        }
        assert!(now < 10 * BEAT_NS && beats >= 6, "{beats} beats, {now} ns");
    }
}

#[test]
fn an_errand_that_takes_too_long_ends_and_the_scheduler_goes_on() {
    let mut seat = Seat::new();
    seat.sit("a", 5);
    seat.ask(0);
    assert_eq!(seat.beat(Some(1), true, BEAT_NS), Beat::Fine);
    let second: Vec<Beat> =
        (0..ERRAND_BEATS).map(|beat| seat.beat(Some(2), true, u64::from(2 + beat) * BEAT_NS)).collect();
    assert_eq!(second.iter().position(|beat| *beat == Beat::Recall), Some(ERRAND_BEATS as usize - 1), "another call");
    seat.recalls_later(2);
    assert_eq!(seat.beat(Some(2), true, 6 * BEAT_NS), Beat::Recall, "it could not be");
    assert_eq!(seat.beat(None, true, 6 * BEAT_NS), Beat::Fine, "it is back");
    seat.decided(true);
    seat.ask(0);
    assert_eq!(seat.beat(Some(3), true, BEAT_NS), Beat::Fine, "beats of an earlier decision do not count");
    // One bad driver after the other.
    let rest =
        (0..BEATS).map(|at| seat.beat(Some(10 + u64::from(at / ERRAND_BEATS)), true, u64::from(2 + at) * BEAT_NS));
    let rest: Vec<Beat> = rest.collect();
    assert_eq!(rest.iter().position(|beat| *beat == Beat::Late), Some(BEATS as usize - 2));
    assert!(rest.contains(&Beat::Recall));
    // Where beats are a little late the call ends first, too.
    seat.ask(0);
    let all: Vec<Beat> = (1..10).map(|beat| seat.beat(Some(4), true, beat * BEAT_NS * 149 / 100)).collect();
    assert_eq!(all.iter().find(|beat| **beat != Beat::Fine), Some(&Beat::Recall));
}

#[test]
fn what_waits_once_does_not_wait_twice() {
    let mut outbox: Outbox<u32, 4> = Outbox::new();
    let mut slots = [0; 4];
    for number in [1, 2, 3, 4, 7, 7, 8, 7] {
        outbox.post(number, Weight::Once, 0, |slot, entry| slots[slot as usize] = *entry).unwrap();
    }
    assert_eq!(slots, [1, 2, 3, 4]);
    outbox.catch_up(4, |slot, entry| slots[slot as usize] = *entry).unwrap();
    assert_eq!((outbox.unread(4), slots[0], slots[1]), (Ok(2), 7, 8));
    // It has been read: the next time it is news.
    outbox.post(7, Weight::Once, 6, |slot, entry| slots[slot as usize] = *entry).unwrap();
    assert_eq!((outbox.unread(6), slots[2]), (Ok(1), 7));
}

//! The queue: four senders and a reader, against lists.

use crate::fifo::{Fifo, How, UNIT, Verdict};
use abi::mbcf::{STOPPED_MAX, fifo_flag};
use proptest::prelude::*;
use std::collections::VecDeque;

const BASE: u64 = 0x4000;

/// A queue with a buffer, used as the kernel does.
struct Machine {
    fifo: Fifo,
    buffer: Vec<u8>,
}

impl Machine {
    fn new(size: u64) -> Machine {
        Machine { fifo: Fifo::new(BASE, BASE + size, false).unwrap(), buffer: vec![0xee; size as usize] }
    }

    fn write(&mut self, pieces: [(u64, u64); 2], from: &[u8]) {
        let mut done = 0;
        for (at, len) in pieces {
            let at = (at - BASE) as usize;
            self.buffer[at..at + len as usize].copy_from_slice(&from[done..done + len as usize]);
            done += len as usize;
        }
        assert_eq!(done, from.len());
    }

    fn send(&mut self, how: How, source: u64, data: &[u8]) -> Verdict {
        self.send_while(how, source, data, |_| true)
    }

    fn send_while(&mut self, how: How, source: u64, data: &[u8], lives: impl Fn(u64) -> bool) -> Verdict {
        let before = (self.fifo.words(), self.buffer.clone());
        let len = data.len() as u64;
        let verdict = self.fifo.admit(how, source, len, lives);
        let flags = |words: abi::mbcf::FifoWords| abi::mbcf::FifoWords { flags: 0, ..words };
        assert_eq!(
            (flags(self.fifo.words()), &self.buffer),
            (flags(before.0), &before.1),
            "positions before it is stored"
        );
        if verdict == Verdict::Store {
            self.write(self.fifo.pieces(0, UNIT), &len.to_le_bytes());
            self.write(self.fifo.pieces(UNIT, len), data);
            self.fifo.commit(how, source, len);
        }
        verdict
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let at = (self.fifo.first()? - BASE) as usize;
        let len = u64::from_le_bytes(self.buffer[at..at + 8].try_into().unwrap());
        assert!(self.fifo.is_length(len));
        let mut data = Vec::new();
        for (at, part) in self.fifo.first_pieces(UNIT, len) {
            let at = (at - BASE) as usize;
            data.extend(&self.buffer[at..at + part as usize]);
        }
        self.fifo.take(len);
        Some(data)
    }

    fn is_stopped(&self) -> bool {
        self.fifo.words().flags & fifo_flag::STOPPED != 0
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The sender sends its next packet, or the one that it has to send again.
    Ordered(u64, usize),
    /// The sender ignores what it was told and goes on with its next packet.
    Eager(u64, usize),
    Plain(u64, usize),
    Read,
    /// The sender ends, and another one comes in its place.
    Dies(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u64..4, 0_usize..60).prop_map(|(who, len)| Step::Ordered(who, len)),
        2 => (0_u64..4, 0_usize..60).prop_map(|(who, len)| Step::Eager(who, len)),
        1 => (0_u64..4, 0_usize..60).prop_map(|(who, len)| Step::Plain(who, len)),
        4 => Just(Step::Read),
        1 => (0_u64..4).prop_map(Step::Dies),
    ]
}

#[derive(Clone, Default)]
struct Source {
    number: u64,
    next: u64,
    /// The first packet that was refused, its data, and that it is one of this queue's stops.
    refused: Option<(u64, Vec<u8>)>,
}

fn run(size: u64, steps: &[Step]) {
    let mut machine = Machine::new(size);
    let mut model: VecDeque<Vec<u8>> = VecDeque::new();
    let mut sources: Vec<Source> = (0..4).map(|number| Source { number, ..Source::default() }).collect();
    let mut numbers = 4;
    // Of each source that there ever was, the last packet that was stored.
    let mut last: Vec<Option<u64>> = vec![None; 4];
    let taken = |data: &Vec<u8>| UNIT + (data.len() as u64).next_multiple_of(UNIT);
    for &step in steps {
        let used: u64 = model.iter().map(taken).sum();
        let fits = |data: &Vec<u8>| used + taken(data) <= size - UNIT;
        let alive: Vec<u64> = sources.iter().map(|source| source.number).collect();
        match step {
            Step::Ordered(who, len) | Step::Eager(who, len) => {
                let source = &mut sources[who as usize];
                let again = source.refused.clone().filter(|_| matches!(step, Step::Ordered(..)));
                let is_again = again.is_some();
                let (packet, data) = again.unwrap_or_else(|| {
                    let packet = source.next;
                    source.next += 1;
                    let mut data = vec![packet as u8; len];
                    data.iter_mut().take(1).for_each(|first| *first = source.number as u8);
                    (packet, data)
                });
                let how = if is_again { How::Retry(packet) } else { How::Normal(packet) };
                match machine.send_while(how, source.number, &data, |n| alive.contains(&n)) {
                    Verdict::Store => {
                        assert!(fits(&data), "a record that there was no room for");
                        assert!(is_again || source.refused.is_none(), "a stopped source's record");
                        let before = &mut last[source.number as usize];
                        assert!(before.is_none_or(|before| before < packet), "packet {packet} after {before:?}");
                        *before = Some(packet);
                        source.refused = None;
                        if is_again {
                            // What it has sent since was cancelled: it begins anew behind this one.
                            source.next = packet + 1;
                        }
                        model.push_back(data);
                    }
                    Verdict::Stopped(at) => {
                        assert_eq!(at, packet, "the packet of the report");
                        source.refused.get_or_insert((packet, data));
                        assert!(machine.is_stopped());
                    }
                    Verdict::Cancelled => {
                        assert!(source.refused.is_some() && !is_again, "only of one that has stopped");
                    }
                    Verdict::TooLong => assert!(taken(&data) > size - UNIT),
                }
            }
            Step::Plain(who, len) => {
                let data = vec![0xaa; len];
                match machine.send_while(How::Plain, sources[who as usize].number, &data, |n| alive.contains(&n)) {
                    Verdict::Store => {
                        assert!(fits(&data));
                        model.push_back(data);
                    }
                    Verdict::Cancelled => {
                        assert!(!fits(&data) || machine.is_stopped(), "there was room, and nobody waits for it")
                    }
                    Verdict::TooLong => assert!(taken(&data) > size - UNIT),
                    Verdict::Stopped(_) => panic!("plain records do not stop"),
                }
            }
            Step::Read => assert_eq!(machine.receive(), model.pop_front()),
            Step::Dies(who) => {
                sources[who as usize] = Source { number: numbers, ..Source::default() };
                numbers += 1;
                last.push(None);
            }
        }
        let words = machine.fifo.words();
        assert_eq!(words.read == words.write, model.is_empty(), "what one sees who looks");
        assert!((BASE..BASE + size).contains(&words.read) && (BASE..BASE + size).contains(&words.write));
    }
    // When all that there is is read, whoever has stopped goes on, in the order of stopping or not.
    while machine.receive().is_some() {}
    let alive: Vec<u64> = sources.iter().map(|source| source.number).collect();
    for _ in 0..4 {
        for source in &mut sources {
            let Some((packet, data)) = source.refused.clone() else { continue };
            if machine.send_while(How::Retry(packet), source.number, &data, |n| alive.contains(&n)) == Verdict::Store {
                source.refused = None;
            }
            while machine.receive().is_some() {}
        }
    }
    assert!(sources.iter().all(|source| source.refused.is_none()), "somebody is stopped for ever");
    assert_eq!(machine.send_while(How::Plain, 0, &[], |n| alive.contains(&n)), Verdict::Store);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    /// 100 000 operations and more in all: no record is lost, torn, stored twice or out of its sender's order.
    #[test]
    fn agrees_with_a_list(units in 2_u64..40, steps in prop::collection::vec(step(), 300)) {
        run(units * UNIT, &steps);
    }
}

#[test]
fn only_whole_units_are_a_buffer() {
    assert!(Fifo::new(8, 24, false).is_some());
    for (start, end) in [(8, 16), (8, 8), (16, 8), (4, 40), (8, 41)] {
        assert!(Fifo::new(start, end, false).is_none(), "{start} {end}");
    }
}

#[test]
fn a_stopped_queue_is_started_again() {
    let mut machine = Machine::new(64);
    assert_eq!(machine.send(How::Normal(1), 7, &[1; 24]), Verdict::Store);
    assert_eq!(machine.send(How::Normal(2), 7, &[2; 24]), Verdict::Stopped(2));
    assert_eq!(machine.send(How::Retry(2), 7, &[2; 24]), Verdict::Stopped(2), "there is still no room");
    assert!(machine.receive().is_some());
    assert_eq!(machine.send(How::Normal(3), 7, &[3; 8]), Verdict::Cancelled, "room or not");
    assert_eq!(machine.send(How::Retry(3), 7, &[3; 8]), Verdict::Cancelled, "not the packet at which it stopped");
    assert_eq!(machine.send(How::Retry(2), 7, &[2; 24]), Verdict::Store);
    assert!(!machine.is_stopped());
    assert_eq!(machine.send(How::Normal(3), 7, &[3; 8]), Verdict::Store);
    // To a queue that is not stopped a retry is an ordinary record.
    while machine.receive().is_some() {}
    assert_eq!(machine.send(How::Retry(9), 7, &[9; 8]), Verdict::Store);
    assert_eq!((machine.receive(), machine.receive()), (Some(vec![9; 8]), None));
}

#[test]
fn room_goes_to_who_has_stopped_first() {
    let mut machine = Machine::new(48);
    assert_eq!(machine.send(How::Normal(1), 1, &[0; 32]), Verdict::Store);
    assert_eq!(machine.send(How::Normal(5), 2, &[5; 16]), Verdict::Stopped(5));
    assert_eq!(machine.send(How::Normal(6), 3, &[6; 16]), Verdict::Stopped(6));
    assert!(machine.receive().is_some());
    // Room for one of the two.
    assert_eq!(machine.send(How::Retry(6), 3, &[6; 16]), Verdict::Stopped(6));
    assert_eq!(machine.send(How::Plain, 4, &[9; 16]), Verdict::Cancelled);
    // The first one has ended: nobody waits for it.
    assert_eq!(machine.send_while(How::Retry(6), 3, &[6; 16], |source| source != 2), Verdict::Store);
    assert!(!machine.is_stopped());
}

#[test]
fn so_many_senders_are_remembered() {
    let mut machine = Machine::new(16);
    assert_eq!(machine.send(How::Normal(0), 0, &[]), Verdict::Store);
    for source in 1..=STOPPED_MAX as u64 {
        assert_eq!(machine.send(How::Normal(1), source, &[]), Verdict::Stopped(1));
    }
    assert_eq!(machine.send(How::Normal(1), 100, &[]), Verdict::Cancelled, "one more is told that it has no order");
    assert_eq!(machine.send(How::Normal(1), 100, &[0; 9]), Verdict::TooLong);
}

#[test]
fn a_length_is_looked_at_before_it_is_used() {
    let mut machine = Machine::new(64);
    machine.send(How::Plain, 0, &[1; 8]);
    assert!(machine.fifo.is_length(8) && !machine.fifo.is_length(9) && !machine.fifo.is_length(u64::MAX));
    machine.fifo.empty();
    assert_eq!(machine.fifo.first(), None);
}

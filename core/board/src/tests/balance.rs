//! Busy processors even out: threads that compute for ever, on processors of different speeds, by the real queues.

use super::*;
use crate::terms::Position;
use proptest::prelude::*;

fn words() -> Vec<AtomicU64> {
    (0..(crate::LEN as usize / 8)).map(|_| AtomicU64::new(0)).collect()
}

/// What the kernel knows: each thread's latest turn, and who runs where.
struct Machine<'a> {
    board: Board<'a>,
    turns: Vec<u64>,
    running: Vec<usize>,
    quanta: Vec<u64>,
    lost: u64,
}

const LEVEL: Position = Position { level: 7, key: 0, first: false, lifted: false };

impl<'a> Machine<'a> {
    /// As many threads as said on each processor, numbered from 1 on.
    fn new(board: Board<'a>, threads: &[usize]) -> Machine<'a> {
        let all = 1 + threads.iter().sum::<usize>();
        let mut machine = Machine { board, turns: vec![1; all], running: Vec::new(), quanta: vec![0; all], lost: 0 };
        let mut next = 1;
        for (processor, count) in threads.iter().enumerate() {
            for thread in next..next + count {
                machine.board.queue(processor).put(Ready { thread: thread as u64, turn: 1 }, LEVEL);
            }
            next += count;
            machine.running.push(0);
        }
        machine
    }

    /// The quantum of whoever runs on this processor ends, and the next one is named.
    fn quantum(&mut self, processor: usize) {
        let queue = self.board.queue(processor);
        let ran = self.running[processor];
        if ran != 0 {
            self.quanta[ran] += 1;
            self.turns[ran] += 1;
            queue.put(Ready { thread: ran as u64, turn: self.turns[ran] }, LEVEL);
        }
        queue.tick();
        if let Some(ready) = self.board.spare_for(processor, self.running.len()) {
            queue.put(ready, LEVEL);
        }
        self.running[processor] = 0;
        while let Some((ready, _)) = queue.pop() {
            let thread = ready.thread as usize;
            if ready.turn == self.turns[thread] && !self.running.contains(&thread) {
                self.running[processor] = thread;
                break;
            }
            self.lost += 1;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn busy_processors_even_out(first in 0..4usize, order in prop::collection::vec(0..4usize, 1600), is_fair in any::<bool>()) {
        let words = words();
        let mut threads = [2; 4];
        threads[first] = 10;
        let mut machine = Machine::new(Board::new(&words).unwrap(), &threads);
        order[..200].iter().for_each(|processor| machine.quantum(*processor));
        machine.quanta.fill(0);
        let lost = machine.lost;
        // One after another in turn, or in any order, as on a host that stops them now and then.
        (0..1600).for_each(|n| machine.quantum(if is_fair { n % 4 } else { order[n] }));
        let had = &machine.quanta[1..];
        let (most, least) = (had.iter().max().unwrap(), had.iter().min().unwrap());
        prop_assert!(most < &(2 * least), "{:?}", had);
        prop_assert!(machine.lost - lost < 400, "{} of 1600 were named in vain", machine.lost - lost);
    }
}

/// Where some have agreed on a processor the others even out around them, and those stay.
#[test]
fn who_has_a_home_stays() {
    let words = words();
    let board = Board::new(&words).unwrap();
    board.set_weight(10);
    let home = Terms::Share { weight: 5 };
    assert!(board.priorities().agree(1, Some(7), home, 1 << 0));
    for thread in [2, 3, 1] {
        board.queue(0).put(Ready { thread, turn: 1 }, LEVEL);
    }
    assert_eq!(board.spare_for(1, 2), Some(Ready { thread: 3, turn: 1 }));
    // Of the next level, if all of the highest stay.
    let words = self::words();
    let board = Board::new(&words).unwrap();
    board.set_weight(10);
    assert!(board.priorities().agree(1, Some(7), home, 1 << 0));
    board.queue(0).put(Ready { thread: 1, turn: 1 }, LEVEL);
    board.queue(0).put(Ready { thread: 2, turn: 1 }, Position { level: 9, ..LEVEL });
    assert_eq!(board.spare_for(1, 2), Some(Ready { thread: 2, turn: 1 }));
    assert_eq!(board.spare_for(0, 2), None);
    // So does who looks for anybody at all.
    let (one, two) = (Ready { thread: 1, turn: 1 }, Ready { thread: 2, turn: 1 });
    let first_of = |may: fn(u64) -> bool| {
        board.queue(0).first_of::<3>(may).into_iter().flatten().map(|offer| offer.ready).collect::<Vec<_>>()
    };
    assert_eq!(first_of(|thread| thread != 1), [two]);
    assert_eq!(first_of(|_| true), [one, two]);
    assert_eq!(first_of(|_| false), []);
    // Behind a turn that is past stands who may be had.
    board.queue(0).put(Ready { thread: 1, turn: 2 }, LEVEL);
    assert_eq!(first_of(|_| true), [one, Ready { thread: 1, turn: 2 }, two]);
    assert_eq!(board.queue(1).first_of::<1>(|_| true), [None]);
    // Who is claimed is nobody's but the one's whose queue it is.
    let queue = board.queue(0);
    let [Some(offer)] = queue.first_of::<1>(|_| true) else { panic!("nobody") };
    assert_eq!((offer.ready, queue.claim(&offer), queue.claim(&offer)), (one, true, false));
    assert_eq!(first_of(|thread| thread == 1), [Ready { thread: 1, turn: 2 }]);
    let [Some(second)] = queue.first_of::<1>(|thread| thread == 2) else { panic!("nobody else") };
    assert!(board.spare_for(1, 2) == Some(two) && queue.claim(&second) && board.spare_for(1, 2).is_none());
    queue.leave(&offer);
    assert_eq!(first_of(|thread| thread == 1).len(), 2);
    assert!(queue.claim(&offer));
    assert_eq!(queue.pop().map(|popped| popped.0), Some(one));
    // In the same place stands another one, who is not.
    queue.put(Ready { thread: 9, turn: 1 }, LEVEL);
    assert!(first_of(|thread| thread == 9).len() == 1);
    queue.leave(&offer);
    assert!(!queue.claim(&offer) || first_of(|thread| thread == 9).len() == 1, "an old claim is about an old turn");
}

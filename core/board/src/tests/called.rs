//! Who was called has turns by the same rule as in the kernel's round robin.

use super::*;
use crate::Called;
use proptest::prelude::*;
use sched::{IN_A_ROW, Ring};

const NOBODY: Ready = Ready { thread: 0, turn: 0 };

fn words() -> Vec<AtomicU64> {
    (0..crate::words(1)).map(|_| AtomicU64::new(0)).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Ready(u64),
    Called,
    /// Whoever has the next turn; it is carried out, or something comes in between so often.
    Turn(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..LEVELS as u64).prop_map(Step::Ready),
        2 => Just(Step::Called),
        4 => (0..3u32).prop_map(Step::Turn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Turns of those who were called and of others come as in the ring of the round robin, whatever levels there are and however
    /// often a choice is not carried out.
    #[test]
    fn turns_come_as_in_the_ring(steps in prop::collection::vec(step(), 1..120)) {
        let words = words();
        let board = Board::new(&words).unwrap();
        let (queue, mut called, mut ring) = (board.queue(0), Called::new(), Ring::new());
        let mut born = 0;
        for step in steps {
            match step {
                Step::Ready(level) => {
                    born += 1;
                    queue.push(Ready { thread: born, turn: 1 }, level);
                    ring.push_back(false);
                }
                Step::Called => {
                    born += 1;
                    if called.put(Ready { thread: born, turn: 1 }) {
                        ring.push_called(true);
                    }
                }
                Step::Turn(refused) => {
                    for _ in 0..refused {
                        if let Some(ready) = called.take(queue, 0, NOBODY) {
                            prop_assert!(called.was_taken(ready));
                            called.undo(ready, false);
                        } else if let Some((ready, position)) = queue.pop() {
                            queue.put(ready, position);
                            called.undo(ready, false);
                        }
                    }
                    let taken = called.take(queue, 0, NOBODY);
                    let got = taken.map(|_| true).or_else(|| queue.pop().map(|_| false));
                    prop_assert_eq!(got, ring.pop_front());
                }
            }
        }
    }
}

/// Whoever runs and is the first of the queue goes on; a turn that is past is nobody's, and others come in their order.
#[test]
fn who_runs_goes_on() {
    let words = words();
    let board = Board::new(&words).unwrap();
    let (queue, mut called) = (board.queue(0), Called::new());
    let [runs, first, second] = [1, 2, 3].map(|thread| Ready { thread, turn: 7 });
    queue.push(runs, 3);
    assert!(called.put(first) && called.put(second));
    assert_eq!(called.take(queue, runs.thread, NOBODY), None);
    assert_eq!(called.clone().take(queue, runs.thread, runs), Some(first), "it has given way");
    assert_eq!(called.clone().take(queue, runs.thread, Ready { turn: runs.turn + 1, ..runs }), None, "another time");
    assert_eq!(called.take(queue, 0, NOBODY), Some(first));
    called.undo(first, false);
    assert_eq!(called.take(queue, 0, NOBODY), Some(first));
    called.undo(first, true);
    assert_eq!(called.take(queue, 0, NOBODY), Some(second));
    for thread in 0..IN_A_ROW as u64 {
        assert!(called.put(Ready { thread, turn: 1 }));
    }
    let row = core::iter::from_fn(|| called.take(queue, 0, NOBODY)).count();
    assert_eq!(row, IN_A_ROW as usize - 1, "beside the second one");
}

/// Who waits in the queue and is in a hurry has the next turn, once; nobody else loses his place, and who is not there is not made up.
#[test]
fn who_hurries_is_next() {
    let words = words();
    let board = Board::new(&words).unwrap();
    let (queue, mut called) = (board.queue(0), Called::new());
    let all = [1, 2, 3, 4].map(|thread| Ready { thread, turn: 9 });
    all.iter().for_each(|ready| assert!(queue.push(*ready, 3)));
    called.hurry(queue, Ready { turn: 8, ..all[2] });
    called.hurry(queue, Ready { thread: 5, turn: 9 });
    assert_eq!((queue.len(), called.take(queue, 0, NOBODY)), (4, None), "other turns");
    called.hurry(queue, all[3]);
    called.hurry(queue, all[1]);
    called.hurry(queue, all[1]);
    let turns: Vec<_> = core::iter::from_fn(|| called.take(queue, 0, NOBODY)).collect();
    assert_eq!(turns, [all[3], all[1]]);
    assert!(queue.push(all[1], 3));
    let left: Vec<_> = core::iter::from_fn(|| queue.pop()).map(|(ready, _)| ready).collect();
    assert_eq!((left, queue.len()), (vec![all[0], all[2], all[1]], 0), "the ends of the list are right");
}

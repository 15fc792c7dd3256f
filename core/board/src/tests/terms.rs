//! The fixed part of choosing, on an imagined processor.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1_000_000_000) };
}

fn now() -> u64 {
    NOW.get()
}

fn words() -> Vec<AtomicU64> {
    (0..(crate::LEN as usize / 8)).map(|_| AtomicU64::new(0)).collect()
}

/// One processor, and threads that are ready once at a time.
struct Processor<'a> {
    board: Board<'a>,
    order: Order<'a>,
}

impl<'a> Processor<'a> {
    fn new(words: &'a [AtomicU64]) -> Processor<'a> {
        let board = Board::new(words).unwrap();
        board.proposals().note_terms();
        Processor { board, order: Order::new(board, 0, now) }
    }

    fn ready(&self, thread: u64, why: Why) {
        assert!(self.board.queue(0).put(Ready { thread, turn: 1 }, self.order.position(thread, why)));
    }

    /// Runs the first one for at most `ns`: which, how long, and whether its time was over before that.
    fn run(&self, ns: u64) -> Option<(u64, u64, bool)> {
        let queue = self.board.queue(0);
        let key = queue.first_key();
        let (Ready { thread, .. }, _) = queue.pop()?;
        let limit = self.order.limit(thread).unwrap_or(QUANTUM_NS);
        let began = self.order.begin(thread, key);
        let ran = limit.min(ns);
        NOW.set(now() + ran);
        self.order.end(thread, began);
        Some((thread, ran, limit <= ns))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whoever is always ready has had, at any moment, its share of all turns but for one turn for each thread; threads
    /// that are interrupted, or come and go, do not change that.
    #[test]
    fn shares_are_kept(weights in prop::collection::vec(1..20u64, 1..6), usual in 1..4u64, cuts in prop::collection::vec(any::<u8>(), 400)) {
        let words = words();
        let processor = Processor::new(&words);
        processor.board.set_weight(usual);
        // The last one has agreed on nothing.
        let all: Vec<u64> = weights.iter().copied().chain([usual]).collect();
        for (thread, weight) in (1..).zip(&weights) {
            let terms = Terms::Share { weight: *weight };
            prop_assert!(processor.board.priorities().agree(thread, Some(USUAL), terms, 0));
        }
        (1..=all.len() as u64).for_each(|thread| processor.ready(thread, Why::Came));
        let mut had = vec![0u64; all.len()];
        for cut in cuts {
            let usual = all.len() as u64;
            // Who has agreed on nothing has no memory: an interruption would be free.
            let first = processor.board.queue(0).first(USUAL as usize).unwrap().0.thread;
            let ns = if first != usual && cut < 60 { QUANTUM_NS / 100 * u64::from(cut + 1) } else { u64::MAX };
            let (thread, ran, over) = processor.run(ns).unwrap();
            had[thread as usize - 1] += ran;
            processor.ready(thread, if over { Why::Over } else { Why::Interrupted });
        }
        let (ns, weight): (u64, u64) = (had.iter().sum(), all.iter().sum());
        for (had, share) in had.iter().zip(&all) {
            let fair = ns as f64 * *share as f64 / weight as f64;
            let off = (*had as f64 - fair).abs() / QUANTUM_NS as f64;
            prop_assert!(off <= all.len() as f64, "{off} turns off; had {had} of {ns}, weight {share} of {weight}");
        }
    }

    /// Whatever periodic threads need together, up to the whole processor, each has it by its deadline; and one that
    /// needs more than it said harms only itself.
    #[test]
    fn deadlines_are_met(
        tasks in prop::collection::vec((2..12u64, 1..100u64), 1..6), greedy in any::<bool>(), with_usual in any::<bool>()
    ) {
        const MS: u64 = 1_000_000;
        let words = words();
        let processor = Processor::new(&words);
        let whole: u64 = tasks.iter().map(|(_, part)| part).sum();
        // (period, budget), together at most 1.
        let tasks: Vec<(u64, u64)> =
            tasks.iter().map(|(period, part)| (period * MS, (period * MS * part / whole).max(1))).collect();
        for (thread, (period, budget)) in (1..).zip(&tasks) {
            let terms = Terms::Periodic { period: *period, deadline: *period, budget: *budget };
            prop_assert!(processor.board.priorities().agree(thread, Some(1), terms, 0));
        }
        if with_usual {
            processor.ready(99, Why::Came);
        }
        let begin = now();
        // Of each: when its period begins next, what is left to do, by when.
        let mut jobs: Vec<(u64, u64, u64)> = tasks.iter().map(|_| (begin, 0, 0)).collect();
        while now() < begin + 200 * MS {
            for (thread, (next, left, by)) in (1u64..).zip(&mut jobs) {
                let (period, budget) = tasks[thread as usize - 1];
                let is_greedy = greedy && thread == 1;
                if now() >= *next && *left == 0 {
                    *left = if is_greedy { u64::MAX } else { budget };
                    *by = *next + period;
                    *next += period;
                    processor.ready(thread, Why::Came);
                }
            }
            let soonest = jobs.iter().filter(|job| job.0 > now()).map(|job| job.0 - now()).min().unwrap_or(MS);
            let first = (0..2).find_map(|l| processor.board.queue(0).first([1, USUAL as usize][l])).map(|f| f.0.thread);
            let need = match first {
                Some(thread) if thread < 99 => jobs[thread as usize - 1].1,
                _ => u64::MAX,
            };
            let Some((thread, ran, over)) = processor.run(soonest.min(need)) else {
                NOW.set(now() + soonest);
                continue;
            };
            if thread == 99 {
                processor.ready(99, if over { Why::Over } else { Why::Interrupted });
                continue;
            }
            let is_greedy = greedy && thread == 1;
            let job = &mut jobs[thread as usize - 1];
            job.1 -= ran;
            prop_assert!(is_greedy || now() <= job.2, "thread {thread} of {tasks:?} is late by {}", now() - job.2);
            if job.1 > 0 {
                processor.ready(thread, if over { Why::Over } else { Why::Interrupted });
            }
        }
    }
}

#[test]
fn threads_are_left_where_they_belong() {
    let words = words();
    let board = Board::new(&words).unwrap();
    board.proposals().note_terms();
    assert!(board.priorities().agree(7, Some(USUAL), Terms::Job { job: 1 }, 0b1100));
    let [here, there] = [0, 2].map(|processor| Order::new(board, processor, now));
    assert_eq!((here.elsewhere(7), there.elsewhere(7), here.elsewhere(8)), (Some(2), None, None));
    assert!(board.queue(2).push(Ready { thread: 1, turn: 1 }, 3));
    assert_eq!(here.elsewhere(7), Some(3), "where fewer are ready");
    Order::new(board, 2, now).rests(true);
    assert_eq!(here.elsewhere(7), Some(2), "where nobody runs");
    assert_eq!(here.helper(), None, "nobody waits here");
    assert!(board.queue(0).push(Ready { thread: 7, turn: 2 }, 3));
    assert_eq!((here.helper(), here.helper()), (Some(2), None), "told once");
    Order::new(board, 1, now).rests(true);
    assert_eq!(here.helper(), None, "it may not have that thread");
    board.priorities().agreed(7).unwrap().set_homes(0);
    assert_eq!(here.helper(), Some(1));
    assert_eq!(here.elsewhere(7), None);
    board.priorities().forget(7);
    assert!(board.priorities().agreed(7).is_none() && board.priorities().all().next().is_none());
}

#[test]
fn who_has_agreed_keeps_its_place_in_the_table() {
    let words = words();
    let table = Board::new(&words).unwrap().priorities();
    let (a, b) = (5, 5 + THREADS as u64);
    assert!(table.agree(a, Some(USUAL), Terms::Share { weight: 3 }, 0) && table.set(b, USUAL));
    assert_eq!(table.agreed(a).unwrap().terms(), Terms::Share { weight: 3 });
    assert_eq!(table.agreed(b).unwrap().terms(), Terms::Usual);
    assert_eq!(table.all().map(|(thread, ..)| thread).collect::<Vec<_>>(), [a]);
    // Sixteen near each other, and no more.
    assert!(
        (0..16).filter(|n| table.agree(5 + (n + 2) * THREADS as u64, Some(9), Terms::Job { job: 1 }, 0)).count() >= 14
    );
    assert!(!table.agree(5 + 99 * THREADS as u64, Some(9), Terms::Job { job: 1 }, 0));
}

#[test]
fn proposals_have_one_answer() {
    let words = words();
    let proposals = Board::new(&words).unwrap().proposals();
    let terms = Terms::Periodic { period: 3, deadline: 2, budget: 1 };
    assert_eq!(proposals.knows(terms), None);
    proposals.know(&[terms]);
    assert_eq!((proposals.knows(terms), proposals.knows(Terms::Job { job: 0 })), (Some(true), Some(false)));
    assert!(!proposals.decide(|_, _| 0), "nobody has proposed anything");
    let number = proposals.propose(7, terms);
    assert_eq!(proposals.answer(number), None);
    assert!(proposals.decide(|thread, given| if (thread, given) == (7, terms) { 9 } else { 0 }));
    assert!(!proposals.decide(|_, _| 0), "it was decided");
    assert_eq!(proposals.answer(number), Some(9));
    assert_eq!(proposals.answer(proposals.propose(7, terms)), None);
    proposals.withdraw();
    assert!(!proposals.decide(|_, _| 0), "it was taken back");
    // Who has thought about one for too long says nothing about the next.
    let late = proposals.propose(1, terms);
    let mut next = 0;
    proposals.decide(|_, _| {
        proposals.withdraw();
        next = proposals.propose(2, terms);
        assert!(proposals.decide(|thread, _| thread));
        1
    });
    assert_eq!((proposals.answer(late), proposals.answer(next)), (None, Some(2)));
}

#[test]
fn mail_comes_once_and_in_order() {
    let words = words();
    let mail = Board::new(&words).unwrap().mail(3);
    const EACH: u64 = 5000;
    std::thread::scope(|scope| {
        for thread in 1..=3 {
            scope.spawn(move || {
                (1..=EACH).for_each(|turn| {
                    while !mail.put(Ready { thread, turn }) {
                        std::thread::yield_now()
                    }
                });
            });
        }
        let mut next = [1u64; 4];
        while next[1..].iter().any(|next| *next <= EACH) {
            if let Some(ready) = mail.take() {
                assert_eq!(ready.turn, next[ready.thread as usize]);
                next[ready.thread as usize] += 1;
            }
        }
    });
    assert_eq!(mail.take(), None);
    assert!((0..64).all(|turn| mail.put(Ready { thread: 1, turn })) && !mail.put(Ready { thread: 1, turn: 64 }));
}

//! Two processors and one board, under `shuttle`'s interleavings: each fast level files, takes and looks for work at the other's, each high level
//! hears of wishes, and somebody looks on. The kernel is three lines: whoever names a turn first has it.

use super::*;
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::collections::{BTreeMap, BTreeSet};

/// The first two have the same place in the table of priorities; the last has to run on processor 1.
const NUMBERS: [u64; 3] = [7, 7 + THREADS as u64, 9];
const STAYS: u64 = NUMBERS[2];
/// How often each is ready.
const TURNS: usize = 3;
/// Decisions of a processor while the other one decides, too.
const DECISIONS: u64 = 5;
/// What the policy of these levels lets a thread wish for at most.
const HIGHEST: u64 = 1;
/// Which thread wishes for which level, on which processor, before which of its decisions.
const WISHES: [(usize, u64, u64, u64); 4] = [(0, 1, 7, 3), (1, 1, NUMBERS[1], 5), (1, 2, STAYS, 17), (0, 3, 7, 4)];

#[derive(Default)]
struct Turns {
    made: BTreeSet<(u64, u64)>,
    ready: BTreeMap<u64, u64>,
    had: BTreeMap<u64, usize>,
}

struct Machine {
    words: Vec<AtomicU64>,
    turns: Mutex<Turns>,
}

impl Machine {
    fn new() -> Arc<Machine> {
        let words = (0..crate::words(2)).map(|_| AtomicU64::new(0)).collect();
        let machine = Arc::new(Machine { words, turns: Mutex::default() });
        let board = machine.board();
        assert!(board.priorities().agree(STAYS, Some(USUAL), Terms::Job { job: 1 }, 1 << 1));
        board.proposals().note_terms();
        machine
    }

    fn board(&self) -> Board<'_> {
        Board::new(&self.words).unwrap()
    }

    /// A thread becomes ready, if it has a turn left. No two turns have the same number, so that halves of two are found out.
    fn wake(&self, thread: u64) -> Option<Ready> {
        let mut turns = self.turns.lock().unwrap();
        if turns.had.get(&thread).is_some_and(|had| *had == TURNS) {
            return None;
        }
        let turn = turns.made.len() as u64 + 1;
        turns.made.insert((thread, turn));
        assert_eq!(turns.ready.insert(thread, turn), None, "ready twice at once");
        Some(Ready { thread, turn })
    }

    /// Whether a thread is still to be had for that turn; then it runs, and its turn is over.
    fn name(&self, ready: Ready) -> bool {
        self.check(ready);
        let mut turns = self.turns.lock().unwrap();
        let is_there = turns.ready.get(&ready.thread) == Some(&ready.turn);
        if is_there {
            turns.ready.remove(&ready.thread);
            *turns.had.entry(ready.thread).or_default() += 1;
        }
        is_there
    }

    /// What is seen in a queue was once filed like that.
    fn check(&self, ready: Ready) {
        let is_known = self.turns.lock().unwrap().made.contains(&(ready.thread, ready.turn));
        assert!(is_known, "a thread and another one's turn: {ready:?}");
    }
}

/// A fast level.
struct Level {
    machine: Arc<Machine>,
    here: usize,
    unsorted: bool,
}

impl Level {
    fn file(&self, ready: Ready, why: Why) {
        let (board, order) = (self.machine.board(), self.order());
        if order.elsewhere(ready.thread).is_none_or(|to| !board.mail(to).put(ready)) {
            assert!(board.queue(self.here).put(ready, order.position(ready.thread, why)));
        }
    }

    fn order(&self) -> Order<'_> {
        Order::new(self.machine.board(), self.here, || 0)
    }

    fn wish(&mut self, asked: Asked) {
        let desk = self.machine.board().desk(self.here);
        assert!(desk.send(asked));
        desk.call(Call { why: reason::PRIORITY, thread: 1, when: 2 });
        self.unsorted = true;
    }

    /// Whether somebody has run.
    fn decide(&mut self) -> bool {
        let board = self.machine.board();
        let (queue, desk) = (board.queue(self.here), board.desk(self.here));
        if !desk.is_wanted() && core::mem::take(&mut self.unsorted) {
            queue.file_anew(|thread| board.priorities().of(thread));
        }
        let (levels, to) = desk.take_raise();
        (0..LEVELS).filter(|level| levels >> level & 1 != 0).for_each(|level| queue.raise(level, to as usize));
        while let Some(ready) = board.mail(self.here).take() {
            self.file(ready, Why::Came);
        }
        while let Some((ready, _)) = queue.pop() {
            if self.run(ready) {
                if let Some(ready) = board.spare_for(self.here, 2) {
                    assert!(queue.put(ready, self.order().position(ready.thread, Why::Came)));
                }
                return true;
            }
        }
        let may_have = |thread| self.order().elsewhere(thread).is_none();
        let other = board.queue(1 - self.here);
        other.first_of::<2>(may_have).into_iter().flatten().any(|offer| other.claim(&offer) && self.run(offer.ready))
    }

    fn run(&self, ready: Ready) -> bool {
        let has_run = self.machine.name(ready);
        if has_run && let Some(again) = self.machine.wake(ready.thread) {
            self.file(again, Why::Over);
        }
        has_run
    }
}

/// A high level does what it is called for. Whether it was.
fn answer(board: Board<'_>, here: usize) -> bool {
    let desk = board.desk(here);
    let is_wanted = desk.is_wanted();
    if is_wanted {
        let asked = desk.begin();
        while let Some(Asked { thread, level }) = desk.receive() {
            board.priorities().wish(thread, level, HIGHEST);
        }
        if board.queue(here).first(USUAL as usize).is_some() {
            desk.raise(1 << USUAL, 0);
        }
        desk.done(asked);
    }
    is_wanted
}

fn no_thread_is_lost() {
    let machine = Machine::new();
    let levels: Vec<_> = (0..2)
        .map(|here| {
            let machine = machine.clone();
            thread::spawn(move || {
                let mut level = Level { machine, here, unsorted: false };
                // All come to the first one; the other one has to look for work.
                if here == 0 {
                    NUMBERS.iter().for_each(|thread| level.file(level.machine.wake(*thread).unwrap(), Why::Came));
                }
                for decision in 0..DECISIONS {
                    for (_, _, thread, to) in WISHES.into_iter().filter(|wish| (wish.0, wish.1) == (here, decision)) {
                        level.wish(Asked { thread, level: to });
                    }
                    level.decide();
                }
                level.unsorted
            })
        })
        .collect();
    let mut others: Vec<_> = (0..2)
        .map(|here| {
            let machine = machine.clone();
            thread::spawn(move || (0..3).for_each(|_| _ = answer(machine.board(), here)))
        })
        .collect();
    let looks = machine.clone();
    others.push(thread::spawn(move || {
        (0..2).for_each(|p| looks.board().queue(p).all(USUAL as usize).for_each(|ready| looks.check(ready)));
    }));
    let unsorted: Vec<bool> = levels.into_iter().map(|level| level.join().unwrap()).collect();
    others.into_iter().for_each(|other| other.join().unwrap());
    // What is left.
    let board = machine.board();
    while (0..2).any(|here| answer(board, here)) {}
    let mut levels = [0, 1].map(|here| Level { machine: machine.clone(), here, unsorted: unsorted[here] });
    while levels.iter_mut().any(Level::decide) {}
    let turns = machine.turns.lock().unwrap();
    assert!(NUMBERS.iter().all(|thread| turns.had.get(thread) == Some(&TURNS)), "turns had: {:?}", turns.had);
    assert_eq!([0, 1].map(|p| board.queue(p).len()), [0, 0], "threads that nobody finds");
    let told = NUMBERS.map(|thread| board.priorities().of(thread));
    assert_eq!(told, [4, 5, 17], "what was wished for last");
    assert_eq!(board.priorities().agreed(STAYS).map(|agreed| agreed.homes()), Some(1 << 1));
}

#[test]
fn no_thread_is_lost_and_none_has_a_turn_twice() {
    shuttle::check_random(no_thread_is_lost, 4_000);
    shuttle::check_pct(no_thread_is_lost, 4_000, 3);
}

/// What each of two high levels is told to do at once, for threads that have the same place in the table.
fn no_wish_goes_to_another_thread() {
    let machine = Machine::new();
    let levels: Vec<_> = [[3, USUAL, 4], [5, USUAL, 6]]
        .into_iter()
        .zip(NUMBERS)
        .map(|(wishes, number)| {
            let machine = machine.clone();
            thread::spawn(move || {
                for level in wishes {
                    assert!(machine.board().priorities().set(number, level));
                    let found = machine.board().priorities().of(number);
                    assert_eq!(found, level, "what thread {number} has wished for");
                }
            })
        })
        .collect();
    levels.into_iter().for_each(|level| level.join().unwrap());
    assert_eq!(NUMBERS.map(|thread| machine.board().priorities().of(thread)), [4, 6, USUAL]);
}

#[test]
fn wishes_are_of_who_has_made_them() {
    shuttle::check_random(no_wish_goes_to_another_thread, 2_000);
    shuttle::check_pct(no_wish_goes_to_another_thread, 2_000, 3);
}

/// Somebody looks at a place of a queue that is given up and had by another thread meanwhile.
fn who_looks_sees_what_was_filed() {
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..crate::words(1)).map(|_| AtomicU64::new(0)).collect());
    let filed = |thread: u64| Ready { thread, turn: thread * 7 };
    let (queue, shown) = (Board::new(&words).unwrap().queue(0), words.clone());
    assert!(queue.push(filed(1), 3) && queue.push(filed(2), 3));
    let looker = thread::spawn(move || {
        let seen = Board::new(&shown).unwrap().queue(0).first(3);
        assert!(seen.is_none_or(|(ready, _)| ready == filed(ready.thread)), "another one's turn: {seen:?}");
    });
    assert_eq!(queue.pop().map(|(ready, _)| ready), Some(filed(1)));
    assert!(queue.push(filed(3), 3));
    looker.join().unwrap();
}

#[test]
fn who_looks_sees_a_thread_with_its_turn() {
    // It takes two preemptions at the right places.
    shuttle::check_pct(who_looks_sees_what_was_filed, 20_000, 3);
}

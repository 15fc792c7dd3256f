//! The queues against plain lists.

use super::*;
use crate::sync::Ordering;
use proptest::prelude::*;
use std::collections::VecDeque;

fn words() -> Vec<AtomicU64> {
    (0..LEN / 8).map(|_| AtomicU64::new(0)).collect()
}

#[derive(Clone, Debug)]
enum Turn {
    Push(u64, u64),
    Front(u64, u64),
    Pop,
    Raise(usize, usize),
    FileAnew(u64),
}

fn turn() -> impl Strategy<Value = Turn> {
    let level = 0..LEVELS as u64;
    prop_oneof![
        4 => (level.clone(), 0..4u64).prop_map(|(level, key)| Turn::Push(level, key)),
        2 => (level, 0..4u64).prop_map(|(level, key)| Turn::Front(level, key)),
        4 => Just(Turn::Pop),
        1 => (0..LEVELS, 0..LEVELS).prop_map(|(from, to)| Turn::Raise(from, to)),
        1 => (1..40u64).prop_map(Turn::FileAnew),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn queues_agree_with_lists(turns in prop::collection::vec(turn(), 0..200)) {
        let words = words();
        let queue = Board::new(&words).unwrap().queue(3);
        let mut lists: Vec<VecDeque<(u64, Ready)>> = vec![VecDeque::new(); LEVELS];
        let mut lifted = std::collections::BTreeMap::new();
        let insert = |list: &mut VecDeque<(u64, Ready)>, key: u64, ready, first: bool| {
            let at = list.iter().position(|(other, _)| if first { *other >= key } else { *other > key });
            list.insert(at.unwrap_or(list.len()), (key, ready));
        };
        for (thread, turn) in (1..).zip(turns) {
            let ready = Ready { thread, turn: thread * 7 };
            match turn {
                Turn::Push(level, key) => {
                    let position = Position { level, key, ..Position::default() };
                    prop_assert!(queue.put(ready, position));
                    insert(&mut lists[level as usize], key, ready, false);
                }
                Turn::Front(level, key) => {
                    let position = Position { level, key, first: true, ..Position::default() };
                    prop_assert!(queue.put(ready, position));
                    insert(&mut lists[level as usize], key, ready, true);
                }
                Turn::Pop => {
                    let level = lists.iter().position(|list| !list.is_empty());
                    prop_assert_eq!(queue.first_key(), level.map_or(0, |level| lists[level][0].0));
                    let expected = level.map(|level| {
                        let (key, ready) = lists[level].pop_front().unwrap();
                        let lifted = lifted.remove(&ready.thread).is_some();
                        (ready, Position { level: level as u64, key, first: true, lifted })
                    });
                    prop_assert_eq!(queue.pop(), expected);
                }
                Turn::Raise(from, to) => {
                    queue.raise(from, to);
                    if let Some((key, ready)) = lists[from].pop_front() {
                        lifted.insert(ready.thread, to);
                        insert(&mut lists[to], key, ready, false);
                    }
                }
                Turn::FileAnew(by) => {
                    queue.file_anew(|thread| thread % by);
                    let mut all: Vec<_> = lists.iter_mut().flat_map(|list| list.drain(..)).collect();
                    all.sort_by_key(|(key, _)| *key);
                    all.into_iter().for_each(|(key, r)| {
                        let level = ((r.thread % by) as usize).min(LEVELS - 1);
                        let level = lifted.get(&r.thread).map_or(level, |to| level.min(*to));
                        lists[level].push_back((key, r));
                    });
                }
            }
            prop_assert_eq!(queue.len() as usize, lists.iter().map(VecDeque::len).sum::<usize>());
            for (level, list) in lists.iter().enumerate() {
                let list: VecDeque<Ready> = list.iter().map(|(_, ready)| *ready).collect();
                prop_assert_eq!(queue.all(level).collect::<VecDeque<_>>(), list.clone());
                prop_assert_eq!(queue.first(level).map(|first| first.0), list.front().copied());
            }
        }
    }
}

#[test]
fn a_full_queue_says_so_and_goes_on() {
    let words = words();
    let queue = Board::new(&words).unwrap().queue(0);
    let ready = |thread| Ready { thread, turn: 1 };
    assert!((1..=THREADS as u64).all(|thread| queue.push(ready(thread), 5)));
    assert!(!queue.push(ready(9999), 5));
    assert_eq!(queue.pop().map(|(ready, at)| (ready, at.level)), Some((ready(1), 5)));
    assert!(queue.put(ready(9999), Position { level: 4, first: true, ..Position::default() }));
    assert_eq!(queue.pop().map(|(ready, at)| (ready, at.level)), Some((ready(9999), 4)));
}

#[test]
fn priorities_are_found_again() {
    let words = words();
    let priorities = Board::new(&words).unwrap().priorities();
    assert_eq!(priorities.of(7), USUAL);
    assert!(priorities.set(7, 3) && priorities.set(7 + THREADS as u64, 4));
    assert_eq!((priorities.of(7), priorities.of(7 + THREADS as u64)), (3, 4));
    priorities.forget(7);
    assert_eq!((priorities.of(7), priorities.of(7 + THREADS as u64)), (USUAL, 4));
    assert!(priorities.set(7 + 2 * THREADS as u64, 1));
    assert_eq!(priorities.of(7 + 2 * THREADS as u64), 1);
}

#[test]
fn the_desk_passes_on_what_is_asked() {
    let words = words();
    let desk = Board::new(&words).unwrap().desk(31);
    assert!(!desk.is_wanted());
    let asked = |thread| Asked { thread, level: thread % 32 };
    assert!((0..16).all(|thread| desk.send(asked(thread))) && !desk.send(asked(16)));
    let call = |why, thread| desk.call(Call { why, thread, when: 1000 + thread });
    call(reason::PRIORITY, 5);
    let begun = desk.begin();
    call(reason::QUANTUM, 6);
    assert!((0..16).all(|thread| desk.receive() == Some(asked(thread))) && desk.receive().is_none());
    desk.done(begun);
    assert!(desk.is_wanted(), "what came meanwhile");
    desk.done(desk.begin());
    assert!(!desk.is_wanted());
    let seen = [0, 1, 8, 9, 99, u32::MAX].map(|kind| desk.saw(kind));
    assert_eq!(seen, [None, Some(Kind::Ready), Some(Kind::Handed), None, None, None], "no handler is for unknown ones");
    assert_eq!((desk.seen(1), desk.seen(8), desk.seen(0)), (1, 1, 4), "unknown kinds are counted");
    assert_eq!((desk.calls(reason::PRIORITY), desk.calls(reason::QUANTUM)), (1, 1));
    let numbered = |(number, called): (u64, Call)| (number, called.why, called.thread, called.when);
    assert_eq!(desk.latest_calls().map(numbered).collect::<Vec<_>>(), [(0, 1, 5, 1005), (1, 2, 6, 1006)]);
    (2..40).for_each(|thread| call(reason::QUANTUM, thread));
    let of_last = desk.latest_calls().map(|(number, called)| (number, called.thread)).collect::<Vec<_>>();
    assert_eq!(of_last, (25..40).map(|n| (n, n)).collect::<Vec<_>>(), "the next one may be written already");
    desk.set_high(9);
    assert_eq!(desk.take_high(), None);
    desk.high_is_ready(4);
    desk.high_is_ready(3);
    assert_eq!(desk.take_high(), Some(Ready { thread: 9, turn: 4 }));
    assert_eq!(desk.take_high(), None);
}

#[test]
fn the_buffer_keeps_request_answer_switch_in_order() {
    let words = words();
    let buffer = Board::new(&words).unwrap().buffer(2);
    let chosen = Chosen { thread: 5, turn: 6, ns: 7 };
    assert_eq!((buffer.take(), buffer.receive()), (None, None));
    assert!((0..128).all(|n| buffer.send([n, 0, 0, 0])) && !buffer.send([9; 4]));
    buffer.ask();
    assert!(buffer.is_asked() && buffer.take().is_none(), "no answer yet");
    assert!((0..128).all(|n| buffer.receive() == Some([n, 0, 0, 0])) && buffer.receive().is_none());
    buffer.answer(chosen);
    assert_eq!((buffer.is_asked(), buffer.take(), buffer.take()), (false, Some(chosen), None));
    assert_eq!(buffer.steps(), ([1, 1, 1], 0));
    // A request before the answer to the last one was carried out.
    buffer.ask();
    buffer.answer(chosen);
    buffer.ask();
    assert_eq!(buffer.steps(), ([3, 2, 1], 1));
    let latest: Vec<(u64, Step)> = buffer.latest().collect();
    let answer = Step::Answer { thread: 5 };
    let expected = [Step::Request, answer, Step::Switch { thread: 5 }, Step::Request, answer, Step::Request];
    assert_eq!(latest, (1..).zip(expected).collect::<Vec<_>>());
    let orderly = |steps: &[Step]| steps.windows(2).all(|pair| pair[1].follows(pair[0]));
    assert!(orderly(&expected[..5]) && !orderly(&expected), "the last request came too early");
    buffer.answer(chosen);
    buffer.answer(chosen);
    assert_eq!(buffer.steps(), ([3, 3, 1], 2), "a second answer");
    buffer.not_carried_out(chosen);
    assert_eq!(buffer.steps().1, 3, "what was not taken was not carried out");
}

#[test]
fn the_trace_has_the_latest_steps_in_their_order() {
    let words = words();
    let buffer = Board::new(&words).unwrap().buffer(0);
    assert_eq!(buffer.latest().count(), 0);
    for thread in 1..40 {
        buffer.ask();
        buffer.answer(Chosen { thread, turn: 1, ns: 0 });
        let chosen = buffer.take().unwrap();
        if thread % 3 == 0 {
            buffer.not_carried_out(chosen);
        }
    }
    let latest: Vec<(u64, Step)> = buffer.latest().collect();
    assert!(latest.len() > 20 && latest.last() == Some(&(3 * 39 + 13, Step::Back { thread: 39 })));
    assert!(latest.windows(2).all(|pair| pair[1].0 == pair[0].0 + 1 && pair[1].1.follows(pair[0].1)));
    let (other, back) = (Step::Switch { thread: 2 }, Step::Back { thread: 1 });
    assert!(
        !other.follows(Step::Answer { thread: 1 }) && !back.follows(Step::Answer { thread: 1 }) && !back.follows(other)
    );
    assert!(!Step::Request.follows(Step::Request) && !other.follows(Step::Request));
}

#[test]
fn beds_lose_no_wake_up() {
    let words = words();
    let beds = Board::new(&words).unwrap().beds();
    assert_eq!(beds.wake(0, 0), Woken::Unknown);
    assert!(beds.of(0).is_none());
    // The same place for all of them.
    let threads = [5, 5 + THREADS as u64, 5 + 2 * THREADS as u64];
    for thread in threads {
        assert_eq!(beds.wake(thread, 0), Woken::Unknown);
        beds.note(thread);
        let bed = beds.of(thread).unwrap();
        assert!(!bed.lie_down(1), "it was woken before");
        assert!(bed.lie_down(1));
        assert_eq!(beds.wake(thread, 1), Woken::Here);
        assert!(bed.get_up());
        assert!(bed.lie_down(1));
        assert_eq!(beds.wake(thread, 0), Woken::Elsewhere);
        assert_eq!(beds.wake(thread, 0), Woken::Awake);
        assert!(bed.get_up(), "somebody has woken it");
        assert!(bed.lie_down(2));
        assert!(!bed.get_up(), "nobody has");
    }
    // One that was made twice is forgotten twice.
    beds.0[2 * (8 + 5)].store(5, Ordering::SeqCst);
    for thread in threads {
        beds.forget(thread);
        assert_eq!(beds.wake(thread, 0), Woken::Unknown);
    }
}

/// Who goes to bed and who wakes it for the first time do so at once: one bed, and it is woken.
#[test]
fn one_bed_for_each() {
    const THREAD: u64 = 9;
    let once = || {
        let words: &'static [_] = words().leak();
        let beds = Board::new(words).unwrap().beds();
        let waker = shuttle::thread::spawn(move || beds.note(THREAD));
        beds.of(THREAD).unwrap();
        waker.join().unwrap();
        let made = beds.0[2 * THREAD as usize..]
            .iter()
            .step_by(2)
            .take(20)
            .filter(|there| there.load(Ordering::SeqCst) == THREAD)
            .count();
        assert_eq!((made, beds.of(THREAD).unwrap().lie_down(0)), (1, false));
    };
    shuttle::check_random(once, 300);
}

/// Whoever interrupts it how often: a thread has one quantum between two turns of others of its level.
#[test]
fn interrupted_threads_have_no_more_than_a_quantum() {
    use crate::Quanta;
    for every in [100_000u64, 700_000, 3_000_000, 9_999_999] {
        let mut quanta = Quanta::new(10_000_000);
        let (mut now, mut ran) = (0, 0);
        let mut limit = quanta.begin(5, 16, now);
        assert_eq!(limit, 10_000_000);
        while limit > every {
            now += every;
            ran += every;
            if !quanta.interrupted(5, 16, now) {
                break;
            }
            // One of a higher level, for longer than a quantum in all.
            assert_eq!(quanta.begin(9, 3, now), 10_000_000);
            now += 400_000;
            limit = quanta.begin(5, 16, now);
        }
        assert!(ran <= 10_000_000 && ran + every.max(200_000) >= 10_000_000, "{ran} by {every}");
    }
    // Who comes in between at the same level has a whole one, and the first one a new one.
    let mut quanta = Quanta::new(10);
    quanta.begin(5, 16, 0);
    assert!(!quanta.interrupted(5, 16, 9));
    assert_eq!((quanta.begin(6, 16, 9), quanta.begin(5, 16, 20)), (10, 10));
}

/// What was left when it was interrupted is part of that quantum, and not the next one.
#[test]
fn who_goes_on_after_an_interruption_has_a_whole_quantum_the_next_time() {
    use crate::Quanta;
    const WHOLE: u64 = 10_000_000;
    for at_tick in [false, true] {
        let mut quanta = Quanta::new(WHOLE);
        assert_eq!(quanta.begin(5, 16, 0), WHOLE);
        assert!(quanta.interrupted(5, 16, WHOLE / 2));
        if at_tick {
            quanta.end(WHOLE);
        } else {
            quanta.goes_on(5, 16);
        }
        assert_eq!((quanta.begin(6, 16, WHOLE), quanta.begin(5, 16, 2 * WHOLE)), (WHOLE, WHOLE));
    }
}

/// Two of a higher level compute for ever, and something interrupts whoever runs many times in a quantum: each of those below has a whole
/// quantum again and again, not the first of them one little piece after the other.
#[test]
fn who_is_raised_has_a_quantum_however_often_it_is_interrupted() {
    use crate::Quanta;
    const WHOLE: u64 = 10_000_000;
    const PIECE: u64 = 200_000;
    let words = words();
    let queue = Board::new(&words).unwrap().queue(0);
    let own = |thread: u64| if thread <= 2 { 15 } else { 16 };
    (1..=5).for_each(|thread| assert!(queue.push(Ready { thread, turn: 1 }, own(thread))));
    let (mut quanta, mut running, mut had) = (Quanta::new(WHOLE), 0, [0; 6]);
    for now in (0..2_000_000_000).step_by(PIECE as usize) {
        if running != 0 {
            let goes_on = quanta.interrupted(running, own(running), now);
            let position = Position { level: own(running), first: goes_on, ..Position::default() };
            let position = if goes_on { quanta.resumes(running, position) } else { position };
            assert!(queue.put(Ready { thread: running, turn: 1 }, position));
            if !goes_on {
                queue.tick();
                quanta.end(now);
                // As the policy does, with a patience of eight quanta.
                for level in 16..LEVELS {
                    if queue.first(level).is_some_and(|(_, waited)| waited >= 8) {
                        queue.raise(level, queue.highest().unwrap() as usize);
                    }
                }
                running = 0;
            }
        }
        let (next, position) = queue.pop().unwrap();
        quanta.taken(next.thread, position);
        if next.thread != running {
            quanta.begin(next.thread, position.level, now);
        }
        running = next.thread;
        had[running as usize] += PIECE;
    }
    assert!(had[3..].iter().all(|had| *had > 5 * WHOLE), "of two seconds: {had:?}");
    assert!(had[1] > had[3] && had[2] > had[3], "they come first: {had:?}");
}

#[test]
fn a_longer_queue_spares_its_last_one() {
    let words = words();
    let queue = Board::new(&words).unwrap().queue(0);
    assert_eq!(queue.spare(0, |_| true), None);
    queue.push(Ready { thread: 5, turn: 0 }, 7);
    assert_eq!(queue.spare(0, |_| true), None, "it was put aside");
    queue.push(Ready { thread: 6, turn: 3 }, 7);
    queue.push(Ready { thread: 7, turn: 1 }, 7);
    queue.push(Ready { thread: 8, turn: 1 }, 9);
    assert_eq!(queue.spare(3, |_| true), Some(Ready { thread: 7, turn: 1 }));
    assert_eq!((queue.spare(4, |_| true), queue.len()), (None, 4), "as many wait there, and it stays here");
}

#[test]
fn a_turn_is_given_where_nobody_above_is_ready() {
    let words = words();
    let queue = Board::new(&words).unwrap().queue(0);
    let (to, last) = (Ready { thread: 9, turn: 3 }, Ready { thread: 11, turn: 4 });
    let mut loans = Loans::default();
    let lend = |loans: &mut Loans| {
        loans.lend(5, (7, 0), to);
        loans.take(queue).map(|lent| (lent.waiter, lent.to))
    };
    assert_eq!(lend(&mut loans), Some((5, to)), "nobody else is ready");
    assert_eq!(loans.take(queue), None, "once");
    queue.push(Ready { thread: 5, turn: 2 }, 7);
    queue.push(to, 31);
    assert_eq!(lend(&mut loans), Some((5, to)), "the waiter itself has its turn afterwards, and others of its level");
    queue.put(Ready { thread: 6, turn: 2 }, Position { level: 6, key: 5, ..Position::default() });
    assert_eq!(lend(&mut loans), None, "the turn of somebody above the waiter is not the waiter's to give");
    loans.lend(5, (6, 7), to);
    assert_eq!(loans.take(queue), None, "nor of somebody with an earlier deadline");
    // Along a chain: who runs on a turn that was given to it passes that on, and only that.
    loans.lend(5, (6, 4), to);
    let lent = loans.take(queue).unwrap();
    loans.begin(Some(lent));
    loans.lend(9, (31, 0), last);
    assert_eq!(loans.take(queue).map(|lent| lent.to), Some(last));
    loans.begin(None);
    loans.lend(9, (31, 0), last);
    assert_eq!(loans.take(queue), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 50, ..ProptestConfig::default() })]

    /// What is left of each thread is its last turn, in the same order, and that it is awake, which is no turn; nothing of turns that are over. And the
    /// queue has room for as many as before.
    #[test]
    fn turns_that_are_past_are_taken_out(
        all in prop::collection::vec((1..20u64, 0..50u64, 0..4u64), 0..200),
        over in prop::collection::vec((1..20u64, 1..50u64), 0..4),
        ended in 1..40u64,
        told in 1..20u64,
    ) {
        let words = words();
        let queue = Board::new(&words).unwrap().queue(2);
        all.iter().for_each(|(thread, turn, level)| assert!(queue.push(Ready { thread: *thread, turn: *turn }, *level)));
        let all_ended = &*Box::leak(Box::new(Over::new()));
        all_ended.note(ended);
        let mut latest = Latest::new(all_ended);
        over.iter().for_each(|&(thread, turn)| latest.is_over(Ready { thread, turn }));
        // That was not so, as it comes out.
        latest.is_told(Ready { thread: told, turn: 7 });
        let last = |thread: u64| all.iter().filter(|one| one.0 == thread).map(|one| one.1).max();
        let is_over = |ready: &Ready| {
            let last = over.iter().rev().find(|one| one.0 == ready.thread);
            let until = last.map_or(0, |one| if one.0 == told { one.1.min(6) } else { one.1 });
            ready.thread == ended || ready.turn > 0 && ready.turn <= until
        };
        let mut known = std::collections::BTreeSet::new();
        let kept: Vec<Vec<Ready>> = (0..LEVELS as u64)
            .map(|level| {
                let of_level = all.iter().filter(|one| one.2 == level && (one.1 == 0 || Some(one.1) == last(one.0)));
                let of_level = of_level.map(|one| Ready { thread: one.0, turn: one.1 });
                of_level.filter(|one| !is_over(one) && known.insert((one.thread, one.turn))).collect()
            })
            .collect();
        let left: usize = kept.iter().map(Vec::len).sum();
        assert_eq!(queue.purge(&mut latest), all.len() - left);
        assert_eq!(queue.len(), left as u64);
        for (level, wanted) in kept.iter().enumerate() {
            assert_eq!(&queue.all(level).collect::<Vec<_>>(), wanted);
        }
        for n in left..THREADS {
            assert!(queue.push(Ready { thread: 1000 + n as u64, turn: 1 }, 31));
        }
        assert!(!queue.push(Ready { thread: 1, turn: 100 }, 0), "full");
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), THREADS);
    }
}

/// However often threads ask, of each the latest wish comes out in the end, and nothing is refused that is not of one more thread than there is room for.
#[test]
fn the_latest_wish_of_each_thread_is_kept() {
    let mut wishes = Wishes::new();
    // Numbers that are far apart, too.
    let numbers: Vec<u64> = (1..=THREADS as u64 / 4).flat_map(|n| [n, 2 * THREADS as u64 + n]).collect();
    let mut heard = std::collections::BTreeMap::new();
    for round in 0..40 {
        for thread in &numbers {
            assert!(wishes.put(Asked { thread: *thread, level: (thread + round) % 32 }), "{thread} in round {round}");
        }
        for _ in 0..if round < 30 { 0 } else { 100 } {
            let asked = wishes.first().unwrap();
            heard.insert(asked.thread, asked.level);
            wishes.pop();
        }
    }
    while let Some(asked) = wishes.first() {
        heard.insert(asked.thread, asked.level);
        wishes.pop();
    }
    let latest: std::collections::BTreeMap<u64, u64> =
        numbers.iter().map(|thread| (*thread, (thread + 39) % 32)).collect();
    assert_eq!(heard, latest);
    // Whatever their numbers are: many of one hash, too, as far as its lower bits go.
    for apart in [1, 1 << 20, 1 << 40, 0xf1de_83e1_9937_733d] {
        let thread = |n: u64| n.wrapping_mul(apart);
        for round in 0..2 {
            let had =
                (1..=THREADS as u64 + 1).filter(|n| wishes.put(Asked { thread: thread(*n), level: round })).count();
            assert_eq!(had, THREADS, "{apart:#x}");
        }
        let all: Vec<Asked> = std::iter::from_fn(|| wishes.first().inspect(|_| wishes.pop())).collect();
        assert_eq!(all, (1..=THREADS as u64).map(|n| Asked { thread: thread(n), level: 1 }).collect::<Vec<_>>());
    }
}

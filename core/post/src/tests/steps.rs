//! Sending and receiving in one step, by hands that carry whatever they can, under all interleavings that threads can tell apart.

use super::all::{SMALL, all_told_apart, two};
use super::machine::Machine;
use super::*;
use crate::Back;
use shuttle::sync::Arc;

fn machine() -> (Arc<Machine>, [Who; 2], [Permit; 2]) {
    let machine = Machine::carrying(SMALL);
    let posts = [machine.post(1), machine.post(2)];
    let both = two(&machine.pool);
    (machine, both, posts)
}

fn is_wait(received: Received) -> bool {
    matches!(received, Received::Waits(_))
}

/// Whoever has received the message answers in one step, which may be before its sender's wait has begun, in the middle of that, or after: the answer
/// comes once. Its own wait begins in the same step.
#[test]
fn an_answer_in_one_step_and_its_senders_wait() {
    all_told_apart(|| {
        let (machine, [me, server], [there, back]) = machine();
        let serves = machine.run(move |machine| {
            let Ok(received) = machine.pool.receive(&[there], &server.by(), false) else { return None };
            assert_eq!(op(received), (1, 1));
            let called = machine.send_and_receive(&back, &there, &server.by(), &body(7)).unwrap();
            assert!(is_wait(called.received), "nothing has come");
            Some(called.woken)
        });
        let called = machine.send_and_receive(&there, &back, &me.by(), &body(1)).unwrap();
        assert_eq!(called.woken, None, "nobody waits there");
        match (called.received, serves.join().unwrap()) {
            // It looked too early.
            (Received::Waits(_), None) => {
                assert_eq!(op(machine.pool.receive(&[there], &server.by(), false).unwrap()), (1, 1));
                let called = machine.send_and_receive(&back, &there, &server.by(), &body(7)).unwrap();
                assert_eq!(called.woken.map(|woken| woken.receiver), Some(me.receiver));
                assert_eq!(op(machine.came(&me).unwrap()), (2, 7));
            }
            (Received::Waits(_), Some(Some(woken))) => {
                assert_eq!(woken.receiver, me.receiver);
                assert_eq!(op(machine.came(&me).unwrap()), (2, 7));
            }
            (Received::Message(2, message), Some(None)) => assert_eq!(message.body.op, 7),
            other => panic!("{other:?}"),
        }
        assert_eq!(machine.came(&me), None, "it came once");
        assert!(machine.interrupt(&server, Error::Killed), "it waits for the next one");
        machine.is_empty(&[1, 2], &[me.account]);
    });
}

/// Two send and receive in one step, each where the other one receives: both have what the other one has sent, whoever comes first.
#[test]
fn two_steps_against_each_other() {
    all_told_apart(|| {
        let (machine, [me, other], [one, two]) = machine();
        let steps = machine.run(move |machine| machine.send_and_receive(&two, &one, &other.by(), &body(8)).unwrap());
        let mine = machine.send_and_receive(&one, &two, &me.by(), &body(7)).unwrap();
        let others = steps.join().unwrap();
        for (who, called, woken, came) in [(me, mine, others.woken, (2, 8)), (other, others, mine.woken, (1, 7))] {
            assert_eq!(woken.map(|woken| woken.receiver), is_wait(called.received).then_some(who.receiver));
            let received = if is_wait(called.received) { machine.came(&who).unwrap() } else { called.received };
            assert_eq!(op(received), came);
            assert_eq!(machine.came(&who), None, "it came once");
        }
        machine.is_empty(&[1, 2], &[me.account]);
    });
}

/// Whoever answers and receives in one step finds the next message, or is found by its sender, and the asker has the answer.
#[test]
fn an_answer_and_the_next_message() {
    all_told_apart(|| {
        let (machine, [me, server], [post, _]) = machine();
        assert!(is_wait(machine.pool.ask(&post, &me.by(), &body(1)).unwrap().received));
        let Ok(Received::Message(1, message)) = machine.pool.receive(&[post], &server.by(), false) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        let sends = machine.run(move |machine| {
            let by = Caller { processor: 0, ..me.by() };
            machine.pool.send(&post, &by, &body(2), 0).unwrap()
        });
        let called = machine.answer_and_receive(question, &post, &server.by(), &body(7)).unwrap();
        let sent = sends.join().unwrap();
        assert_eq!(called.woken.map(|woken| woken.receiver), Some(me.receiver));
        assert_eq!(op(machine.came(&me).unwrap()), (0, 7));
        match (called.received, sent) {
            (Received::Message(1, message), None) => assert_eq!(message.body.op, 2),
            (Received::Waits(_), Some(woken)) => {
                assert_eq!(woken.receiver, server.receiver);
                assert_eq!(op(machine.came(&server).unwrap()), (1, 2));
            }
            other => panic!("{other:?}"),
        }
        machine.is_empty(&[1, 2], &[me.account]);
    });
}

/// Whoever answers and receives in one step does both, or hears that the asker's time was up, and does neither.
#[test]
fn an_answer_in_one_step_and_a_time_out() {
    all_told_apart(|| {
        let (machine, [me, server], [post, _]) = machine();
        let Received::Waits(ticket) = machine.pool.ask(&post, &me.by(), &body(1)).unwrap().received else { panic!() };
        let Ok(Received::Message(1, message)) = machine.pool.receive(&[post], &server.by(), false) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        let ends = machine.run(move |machine| machine.pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some());
        let called = machine.answer_and_receive(question, &post, &server.by(), &body(7));
        match (called, ends.join().unwrap()) {
            (Ok(called), false) => {
                assert!(is_wait(called.received), "nothing has come");
                assert_eq!(called.woken.map(|woken| woken.receiver), Some(me.receiver));
                assert_eq!(op(machine.came(&me).unwrap()), (0, 7));
                assert!(machine.interrupt(&server, Error::Killed));
            }
            (Err(Error::NotFound), true) => {
                assert_eq!(machine.came(&me), Some(Received::Ended(Error::TimedOut)));
                assert_eq!(machine.pool.waits(server.receiver), None);
            }
            other => panic!("{other:?}"),
        }
        machine.is_empty(&[1, 2], &[me.account]);
    });
}

/// One waits for a message, two send at once, one of them in one step with a wait of its own: he has one of them, the other one stays, and none is carried twice.
#[test]
fn a_step_beside_a_plain_message() {
    all_told_apart(|| {
        let (machine, [me, server], [there, back]) = machine();
        assert!(is_wait(machine.pool.receive(&[there], &server.by(), true).unwrap()));
        let sends = machine.run(move |machine| {
            // By a thread that needs no record of its own.
            let by = Caller { processor: 0, ..me.by() };
            machine.pool.send(&there, &by, &body(2), 0).unwrap().is_some()
        });
        let called = machine.send_and_receive(&there, &back, &me.by(), &body(1)).unwrap();
        let by_other = sends.join().unwrap();
        assert!(is_wait(called.received), "nothing has come");
        assert!(called.woken.is_some() != by_other, "by one of them");
        let (came, left) = if by_other { (2, 1) } else { (1, 2) };
        assert_eq!(op(machine.came(&server).unwrap()), (1, came));
        assert_eq!(op(machine.pool.receive(&[there], &server.by(), false).unwrap()), (1, left));
        assert!(machine.interrupt(&me, Error::Killed));
        machine.is_empty(&[1, 2], &[me.account]);
    });
}

//! Rights that are taken away: no message is sent, and none is received, after that.

use super::machine::{Machine, random};
use super::*;
use crate::Back;

#[test]
fn a_right_that_was_taken_is_not_used() {
    random(|| {
        let machine = Machine::new();
        let paid = account(&machine.pool, 4);
        machine.post(1);
        let me = Who::new(&machine.pool, 1, paid);
        let sends = machine.run(move |machine| machine.with(&me, &[1], |to| machine.send(&me, &to[0], 1)));
        machine.deny(1, 1);
        // What was sent was sent before that.
        let before = machine.pool.charged(paid);
        assert_eq!(sends.join().unwrap().is_ok(), before == 1);
        assert_eq!(machine.pool.charged(paid), before);
    });
}

/// Lists change in the middle of calls, and during waits: who has the right still does not hear of it.
#[test]
fn a_list_that_changes_meanwhile_ends_no_wait() {
    random(|| {
        let machine = Machine::new();
        let (post, back, paid) = (machine.post(1), machine.post(2), account(&machine.pool, 4));
        let (server, client) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let fresh = |machine: &Machine, old: Permit| machine.pool.permit(old.post(), Rights::all(), || Ok(())).unwrap();
        let serves = machine.run(move |machine| {
            let mut at = post;
            let mut served = 0;
            while served < 2 {
                match machine.receive(&server, &[at]) {
                    Err(Error::Changed) => at = fresh(machine, at),
                    Ok(Received::Message(1, message)) => {
                        let Back::Post(2) = message.back else { panic!() };
                        while let Err(Error::Changed) =
                            machine.send(&server, &fresh(machine, back), message.body.op + 100)
                        {
                        }
                        served += 1;
                    }
                    other => panic!("a wait that has ended with {other:?}"),
                }
            }
        });
        let asks = machine.run(move |machine| {
            for n in 0..2 {
                let called = loop {
                    let (to, at) = (fresh(machine, post), fresh(machine, back));
                    match machine.send_and_receive(&to, &at, &client.by(), &body(n)) {
                        Err(Error::Changed) => {}
                        called => break called,
                    }
                };
                assert_eq!(op(machine.finish(&client, called).unwrap()), (2, n + 100));
            }
        });
        for _ in 0..2 {
            machine.renew(1);
            machine.renew(2);
        }
        serves.join().unwrap();
        asks.join().unwrap();
        machine.is_empty(&[1, 2], &[paid]);
    });
}

/// How a thread comes to wait at post 1.
#[derive(Clone, Copy, Debug)]
enum Waits {
    There,
    AmongOthers,
    /// For an answer to what it sends to post 3.
    AfterSending,
    /// After it has answered a question from post 3.
    AfterAnswering,
}

/// What it hears.
fn waits(machine: &Machine, who: &Who, how: Waits) -> Received {
    let outcome = match how {
        Waits::There => machine.with(who, &[1], |at| machine.receive(who, at)),
        Waits::AmongOthers => machine.with(who, &[2, 1], |at| machine.receive(who, at)),
        Waits::AfterSending => machine.with(who, &[3, 1], |at| {
            let called = machine.send_and_receive(&at[0], &at[1], &who.by(), &body(30));
            machine.finish(who, called)
        }),
        Waits::AfterAnswering => {
            let Ok(Received::Message(3, message)) = machine.with(who, &[3], |at| machine.receive(who, at)) else {
                panic!()
            };
            let Back::Question(question) = message.back else { panic!() };
            let outcome = machine.with(who, &[1], |at| {
                let called = machine.answer_and_receive(question, &at[0], &who.by(), &body(31));
                machine.finish(who, called)
            });
            if outcome.is_err() {
                machine.wake(machine.pool.answer(question, &who.by(), &body(31)).expect("nothing was done"));
            }
            outcome
        }
    };
    outcome.unwrap_or_else(Received::Ended)
}

/// One waits, or is about to, while it loses its right; a message is under way, and another one is sent when it is gone.
/// Whoever else waits there gets that, and all that the first one has not.
fn a_wait_ends_with_the_right(how: Waits) {
    random(move || {
        let machine = Machine::new();
        let paid = account(&machine.pool, 4);
        for post in 1..=3 {
            machine.post(post);
        }
        let [me, loser, keeper, other, beyond] = [1, 2, 3, 4, 5].map(|thread| Who::new(&machine.pool, thread, paid));
        let lost = machine.run(move |machine| waits(machine, &loser, how));
        let kept = machine.run(move |machine| {
            let mut sum = 0;
            while sum & 2 == 0 {
                sum |= op(machine.with(&keeper, &[1], |at| machine.receive(&keeper, at)).unwrap()).1;
            }
            sum
        });
        let sends = machine.run(move |machine| machine.with(&other, &[1], |to| machine.send(&other, &to[0], 1)));
        let meets = machine.run(move |machine| match how {
            Waits::There | Waits::AmongOthers => {}
            Waits::AfterSending => drop(machine.with(&beyond, &[3], |at| machine.receive(&beyond, at)).unwrap()),
            Waits::AfterAnswering => {
                let answer = machine.with(&beyond, &[3], |to| machine.ask(&beyond, &to[0], 30));
                assert_eq!(op(answer.unwrap()), (0, 31));
            }
        });
        machine.deny(1, loser.sender.thread);
        machine.with(&me, &[1], |to| machine.send(&me, &to[0], 2)).unwrap();
        let first = match lost.join().unwrap() {
            Received::Message(1, message) => {
                assert_eq!(message.body.op, 1, "what was sent when the right was gone");
                true
            }
            heard => {
                assert_eq!(heard, Received::Ended(Error::Denied));
                false
            }
        };
        sends.join().unwrap().unwrap();
        if let Waits::AfterSending = how {
            // Whoever was refused at once has sent nothing.
            machine.with(&me, &[3], |to| machine.send(&me, &to[0], 32)).unwrap();
        }
        meets.join().unwrap();
        let mut sum = kept.join().unwrap();
        // The one that was under way may have come last.
        while let Ok(left) = machine.with(&keeper, &[1], |at| machine.pool.receive(at, &keeper.by(), false)) {
            sum |= op(left).1;
        }
        assert_eq!(sum, if first { 2 } else { 3 }, "each is received once");
        while machine.with(&keeper, &[3], |at| machine.pool.receive(at, &keeper.by(), false)).is_ok() {}
        machine.is_empty(&[1, 2, 3], &[paid]);
    });
}

#[test]
fn a_receive_ends_with_its_right() {
    a_wait_ends_with_the_right(Waits::There);
}

#[test]
fn a_receive_at_several_posts_ends_with_one_right() {
    a_wait_ends_with_the_right(Waits::AmongOthers);
}

#[test]
fn a_wait_after_sending_ends_with_its_right() {
    a_wait_ends_with_the_right(Waits::AfterSending);
}

#[test]
fn a_wait_after_answering_ends_with_its_right() {
    a_wait_ends_with_the_right(Waits::AfterAnswering);
}

/// Who is looked at waits somewhere else by then, with every right: it is let alone.
#[test]
fn a_later_wait_is_another_one() {
    random(|| {
        let machine = Machine::new();
        let (there, paid) = (machine.post(2), account(&machine.pool, 4));
        let post = machine.post(1);
        let (me, who) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let waits = machine.run(move |machine| {
            let first = machine.with(&who, &[1], |at| machine.receive(&who, at)).unwrap_or_else(Received::Ended);
            (first, machine.receive(&who, &[there]).unwrap())
        });
        let denies = machine.run(move |machine| machine.deny(1, who.sender.thread));
        let sent = machine.with(&me, &[1], |to| machine.send(&me, &to[0], 1));
        denies.join().unwrap();
        machine.send(&me, &there, 2).unwrap();
        let (first, second) = waits.join().unwrap();
        assert_eq!(op(second), (2, 2));
        assert_eq!(sent, Ok(()));
        match first {
            Received::Message(1, _) => {}
            heard => {
                assert_eq!(heard, Received::Ended(Error::Denied));
                assert_eq!(machine.pool.depth(post.post()).0, 1, "it is still there");
            }
        }
    });
}

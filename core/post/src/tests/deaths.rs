//! Senders, receivers, owners and posts that end at any moment: everybody who waits hears something.

use super::machine::{Machine, random};
use super::*;
use crate::{Back, Called};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicBool, Ordering};

#[test]
fn whoever_asked_hears_of_the_end_of_the_one_who_holds_the_question() {
    for in_one_step in [false, true] {
        random(move || {
            let machine = Machine::new();
            let (post, back, paid) = (machine.post(1), machine.post(2), account(&machine.pool, 4));
            let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
            let serves = machine.run(move |machine| {
                let Ok(Received::Message(1, _)) = machine.receive(&server, &[post]) else { panic!() };
                machine.pool.close_receiver(server.receiver, |woken| machine.wake(woken));
            });
            let received = if in_one_step {
                let called = machine.send_and_receive(&post, &back, &me.by(), &body(1));
                machine.finish(&me, called)
            } else {
                machine.ask(&me, &post, 1)
            };
            assert_eq!(received, Ok(Received::Ended(Error::Dead)));
            serves.join().unwrap();
            machine.is_empty(&[1, 2], &[paid]);
        });
    }
}

#[test]
fn an_end_and_an_answer_are_not_both_heard() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        // Its text ends: whoever ends it says so first, then looks for questions.
        let dead = Arc::new(AtomicBool::new(false));
        let (is_dead, ends) = (dead.clone(), dead);
        let gone = |machine: &Machine, receiver| {
            let is_gone = |holder: Holder| holder == Holder { receiver, domain: 1 };
            machine.pool.holders_gone(is_gone, |woken| machine.wake(woken));
        };
        let killer = machine.run(move |machine| {
            ends.store(true, Ordering::SeqCst);
            gone(machine, server.receiver);
        });
        let serves = machine.run(move |machine| {
            let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
            let Back::Question(question) = message.back else { panic!() };
            // Whoever has received looks whether its text lives.
            if is_dead.load(Ordering::SeqCst) {
                gone(machine, server.receiver);
            } else if let Ok(woken) = machine.pool.answer(question, &server.by(), &body(7)) {
                machine.wake(woken);
            }
        });
        match machine.ask(&me, &post, 1).unwrap() {
            Received::Message(0, message) => assert_eq!(message.body.op, 7),
            Received::Ended(Error::Dead) => {}
            other => panic!("{other:?}"),
        }
        killer.join().unwrap();
        serves.join().unwrap();
        machine.is_empty(&[1], &[paid]);
    });
}

/// The kernel's order. A text ends: that is said, who waits in it is woken, and who holds questions is looked for. One that waited
/// there may have been found by an asker first, who does not say yet that it holds the question: nobody looks again but the one that
/// was found, when it falls out of its text.
#[test]
fn who_is_found_in_the_moment_of_its_end_gives_the_question_up() {
    for in_one_step in [false, true] {
        random(move || {
            let machine = Machine::new();
            let (post, back, paid) = (machine.post(1), machine.post(2), account(&machine.pool, 4));
            let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
            let dead = Arc::new(AtomicBool::new(false));
            let (is_dead, ends) = (dead.clone(), dead);
            let holder = Holder { receiver: server.receiver, domain: 1 };
            let killer = machine.run(move |machine| {
                ends.store(true, Ordering::SeqCst);
                machine.interrupt(&server, Error::Dead);
                machine.pool.holders_gone(|one| one == holder, |woken| machine.wake(woken));
            });
            let serves = machine.run(move |machine| {
                let waits = machine.pool.receive(&[post], &server.by(), true).unwrap();
                if is_dead.load(Ordering::SeqCst) {
                    // Whoever has woken those that wait may have come too early for this wait.
                    machine.interrupt(&server, Error::Dead);
                }
                let received = machine.end_of_wait(&server, waits);
                let lives = !is_dead.load(Ordering::SeqCst);
                match received {
                    Received::Message(1, message) if lives => {
                        let answered = match message.back {
                            Back::Question(question) => {
                                machine.pool.answer(question, &server.by(), &body(7)).map(|one| machine.wake(one))
                            }
                            Back::Post(_) => machine.send(&server, &back, 7),
                            Back::Nowhere => panic!("nobody has asked"),
                        };
                        // Its text may end between the look and the answer.
                        assert!(answered.is_ok() || is_dead.load(Ordering::SeqCst), "{answered:?}");
                    }
                    Received::Message(..) => machine.pool.fell_out(holder, |woken| machine.wake(woken)),
                    // What nobody has received waits for the next server; here there is none.
                    Received::Ended(Error::Dead) => {
                        machine.pool.free(1, true, 1, |woken| machine.wake(woken)).unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            });
            let heard = if in_one_step {
                let called = machine.send_and_receive(&post, &back, &me.by(), &body(1));
                machine.finish(&me, called)
            } else {
                machine.ask(&me, &post, 1)
            };
            match heard {
                Ok(Received::Message(_, message)) => assert_eq!(message.body.op, 7),
                Ok(Received::Ended(Error::Dead | Error::NotFound)) | Err(Error::NotFound) => {}
                other => panic!("{other:?}"),
            }
            killer.join().unwrap();
            serves.join().unwrap();
        });
    }
}

#[test]
fn whoever_asked_hears_of_the_end_of_the_post() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let me = Who::new(&machine.pool, 1, paid);
        let owner = machine.run(|machine| machine.pool.free(1, true, 1, |woken| machine.wake(woken)).unwrap());
        match machine.ask(&me, &post, 1) {
            Ok(Received::Ended(Error::NotFound)) | Err(Error::NotFound) => {}
            other => panic!("{other:?}"),
        }
        owner.join().unwrap();
        machine.is_empty(&[], &[paid]);
    });
}

/// Who owns a post knows that nobody will receive there.
#[test]
fn whoever_asks_where_nobody_will_receive_hears_it() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let owner = machine.run(|machine| {
            let told = machine.pool.refuse_questions(1, true);
            machine.pool.end_questions(1, |woken| machine.wake(woken));
            told
        });
        match machine.ask(&me, &post, 1) {
            Ok(Received::Ended(Error::Dead)) | Err(Error::Dead) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(owner.join().unwrap(), Ok(()));
        // What lies there, as after a time-out, is nobody's any more; and others are asked as ever from when that is said.
        assert_eq!(machine.pool.refuse_questions(1, false), Ok(()));
        while machine.pool.depth(1).0 > 0 {
            let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
            let Back::Question(question) = message.back else { panic!() };
            assert_eq!(machine.pool.answer(question, &server.by(), &body(7)), Err(Error::NotFound));
        }
        let asks = machine.run(move |machine| machine.ask(&me, &post, 2));
        let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        machine.wake(machine.pool.answer(question, &server.by(), &body(8)).unwrap());
        assert_eq!(asks.join().unwrap().map(op), Ok((0, 8)));
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn only_questions_of_that_post_that_nobody_has_received_are_refused() {
    alone(|| {
        let machine = Machine::new();
        let (post, other, back) = (machine.post(1), machine.post(2), machine.post(3));
        let paid = account(&machine.pool, 8);
        let [me, next, third, server] = [1, 2, 3, 4].map(|thread| Who::new(&machine.pool, thread, paid));
        let refuse = |post| {
            let mut heard = Vec::new();
            assert_eq!(machine.pool.refuse_questions(post, true), Ok(()));
            machine.pool.end_questions(post, |woken| heard.push(woken.receiver));
            heard
        };
        // This one has received there before it asks elsewhere.
        assert_eq!(machine.pool.send(&post, &server.by(), &body(1), 0), Ok(None));
        assert!(matches!(machine.receive(&me, &[post]), Ok(Received::Message(1, _))));
        let waits =
            |called: Result<Called, Error>| matches!(called.map(|called| called.received), Ok(Received::Waits(_)));
        assert!(waits(machine.pool.ask(&other, &me.by(), &body(2))));
        assert_eq!(refuse(1), []);
        // What is received or may be looked for, and what waits for no answer, stays.
        assert_eq!(machine.pool.refuse_questions(1, false), Ok(()));
        machine.pool.end_questions(2, |_| panic!("nobody has said so of that one"));
        assert!(waits(machine.pool.ask(&post, &next.by(), &body(3))));
        assert!(matches!(machine.receive(&server, &[post]), Ok(Received::Message(1, _))));
        assert!(waits(machine.pool.send_and_receive(&post, &back, &third.by(), &body(4))));
        assert_eq!(refuse(1), []);
        assert_eq!(machine.pool.send(&post, &server.by(), &body(5), 0), Ok(None));
        assert_eq!(machine.pool.depth(1).0, 2);
        assert_eq!(refuse(2), [me.receiver]);
        assert_eq!(machine.pool.collect(me.receiver), Some(Received::Ended(Error::Dead)));
        assert_eq!(machine.pool.ask(&other, &me.by(), &body(6)), Err(Error::Dead));
        // Another one's post under the same number is like any.
        machine.pool.free(2, true, 0, |_| {}).unwrap();
        assert_eq!(machine.pool.refuse_questions(2, true), Err(Error::NotFound));
        let anew = machine.post(2);
        assert!(waits(machine.pool.ask(&anew, &me.by(), &body(7))));
    });
}

#[test]
fn a_kill_and_a_refusal_are_not_both_heard() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 0));
        let me = Who::new(&machine.pool, 1, paid);
        let killer = machine.run(move |machine| machine.interrupt(&me, Error::Killed));
        // Nobody waits there, and nothing may be queued.
        let heard = machine.ask(&me, &post, 1);
        let killed = killer.join().unwrap();
        assert_eq!(heard, if killed { Ok(Received::Ended(Error::Killed)) } else { Err(Error::MessageQuota) });
        assert_eq!(machine.pool.collect(me.receiver), None);
    });
}

#[test]
fn a_killed_asker_has_asked_nothing() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, other) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 3, paid));
        let server = Who::new(&machine.pool, 2, paid);
        let killer = machine.run(move |machine| machine.interrupt(&me, Error::Killed));
        let asks = machine.run(move |machine| {
            let received = machine.ask(&me, &post, 1);
            let killed = killer.join().unwrap();
            // Its record goes to somebody else, who asks, too.
            machine.pool.close_receiver(me.receiver, |_| {});
            let next = Who::new(&machine.pool, 4, paid);
            (received, killed, machine.ask(&next, &post, 2))
        });
        let mut answers = 0;
        for _ in 0..2 {
            let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
            let Back::Question(question) = message.back else { panic!() };
            if let Ok(woken) = machine.pool.answer(question, &server.by(), &body(message.body.op + 100)) {
                answers += 1;
                machine.wake(woken);
            }
        }
        let (first, killed, second) = asks.join().unwrap();
        assert_eq!(op(second.unwrap()), (0, 102), "never the answer to another's question");
        if killed && first == Ok(Received::Ended(Error::Killed)) {
            assert_eq!(answers, 1);
        } else {
            assert_eq!((op(first.unwrap()), answers), ((0, 101), 2));
        }
        machine.pool.close_receiver(other.receiver, |_| {});
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn messages_outlive_their_sender_and_their_server() {
    alone(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (sender, asker) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        machine.send(&sender, &post, 5).unwrap();
        let asked = machine.pool.ask(&post, &asker.by(), &body(6)).unwrap();
        machine.pool.close_receiver(sender.receiver, |_| {});
        machine.pool.close_account(paid);
        // A server comes, dies with the first message, and its successor gets the rest.
        let system = machine.pool.open_account(Share::System(0)).unwrap();
        let first = Who::new(&machine.pool, 3, system);
        let Ok(Received::Message(1, message)) = machine.receive(&first, &[post]) else { panic!() };
        assert_eq!((message.body.op, message.from.thread), (5, 1));
        machine.pool.close_receiver(first.receiver, |woken| panic!("{woken:?}: nobody asked"));
        let second = Who::new(&machine.pool, 4, system);
        let Ok(Received::Message(1, message)) = machine.receive(&second, &[post]) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        machine.wake(machine.pool.answer(question, &second.by(), &body(7)).unwrap());
        assert_eq!(op(machine.end_of_wait(&asker, asked.received)), (0, 7), "it has noticed nothing");
        // Now the account is free, with its share.
        assert!(machine.pool.open_account(Share::System(8)).is_ok());
    });
}

/// A thread that has ended without its wait being ended is no receiver any more; who has its record next waits for its own messages only.
#[test]
fn who_ends_in_the_middle_of_a_wait_receives_nothing() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let paid = account(&pool, 4);
        let (me, dies) = (Who::new(&pool, 1, paid), Who::new(&pool, 2, paid));
        let [first, second] = [1, 2].map(|number| allow(&pool, pool.get(number, SYSTEM).unwrap()));
        let waits = |who: &Who, post| matches!(pool.receive(&[post], &who.by(), true), Ok(Received::Waits(_)));
        assert!(waits(&dies, first));
        let mut woken = Vec::new();
        pool.close_receiver(dies.receiver, |who| woken.push(who.thread));
        assert_eq!(woken, [2], "what it has lent is to be taken back");
        let next = Who::new(&pool, 3, paid);
        assert_eq!(next.receiver, dies.receiver, "the record that was given back");
        assert!(waits(&next, second));
        assert!(pool.send(&first, &me.by(), &body(7), 0).unwrap().is_none(), "nobody waits there");
        assert_eq!(op(pool.receive(&[first], &me.by(), false).unwrap()), (1, 7));
        let to = pool.send(&second, &me.by(), &body(8), 0).unwrap().expect("one waits there");
        assert_eq!(to.thread, 3);
        assert_eq!(pool.collect(next.receiver).map(op), Some((2, 8)));
    });
}

/// The same of who asks and lends: what it has lent is not had any more, and there is nobody to answer.
#[test]
fn who_ends_in_the_middle_of_a_question_lends_nothing() {
    alone(|| {
        let pool = Pool::new(CONFIG);
        let paid = account(&pool, 4);
        let (server, dies) = (Who::new(&pool, 1, paid), Who::new(&pool, 2, paid));
        let post = allow(&pool, pool.get(1, SYSTEM).unwrap());
        let lends = Body { words: [0x1000, 8, 0, 0, 0, 0], lend: 1, ..body(1) };
        pool.ask(&post, &dies.by(), &lends).unwrap();
        let Ok(Received::Message(1, message)) = pool.receive(&[post], &server.by(), false) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        let holder = Holder { receiver: server.receiver, domain: 1 };
        assert!(touched(&pool, holder, 0x1000).is_some());
        let mut back = Vec::new();
        pool.close_receiver(dies.receiver, |woken| back.push(woken.touched));
        assert_eq!((back, touched(&pool, holder, 0x1000)), (vec![true], None));
        assert!(pool.answer(question, &server.by(), &body(2)).is_err());
    });
}

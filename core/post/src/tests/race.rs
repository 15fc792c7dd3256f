//! Nothing lost, nothing twice, nobody asleep beside a message, in the order of each sender.

use super::machine::{Machine, random};
use super::*;
use crate::Back;

#[test]
fn two_senders_and_a_receiver() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let all: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| (0..2).for_each(|n| machine.send(&who, &post, thread * 10 + n).unwrap()))
            })
            .into();
        let me = Who::new(&machine.pool, 3, paid);
        let mut next = [0; 3];
        for _ in 0..4 {
            let Ok(Received::Message(1, message)) = machine.receive(&me, &[post]) else { panic!() };
            let from = message.from.thread;
            assert_eq!(message.body, body(from * 10 + next[from as usize]), "in its sender's order");
            next[from as usize] += 1;
        }
        all.into_iter().for_each(|one| one.join().unwrap());
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn two_receivers_and_a_sender() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let all: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| {
                    let [first, second] = [0, 1].map(|_| op(machine.receive(&who, &[post]).unwrap()).1);
                    assert!(first < second, "one sender's order");
                    1u64 << first | 1 << second
                })
            })
            .into();
        let me = Who::new(&machine.pool, 3, paid);
        (0..4).for_each(|n| machine.send(&me, &post, n).unwrap());
        let sum: u64 = all.into_iter().map(|one| one.join().unwrap()).sum();
        assert_eq!(sum, 15);
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn many_to_many() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let senders: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| {
                    (0..3).for_each(|n| {
                        while machine.send(&who, &post, thread * 3 - 3 + n) == Err(Error::MessageQuota) {
                            shuttle::thread::yield_now();
                        }
                    });
                })
            })
            .into();
        let receivers: Vec<_> = [3u64, 4]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine
                    .run(move |machine| (0..3).map(|_| 1 << op(machine.receive(&who, &[post]).unwrap()).1).sum::<u64>())
            })
            .into();
        senders.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(receivers.into_iter().map(|one| one.join().unwrap()).sum::<u64>(), 63);
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn several_posts_at_once() {
    random(|| {
        let machine = Machine::new();
        let (posts, paid) = ([machine.post(1), machine.post(2)], account(&machine.pool, 4));
        let all: Vec<_> = [0usize, 1]
            .map(|n| {
                let (who, post) = (Who::new(&machine.pool, n as u64 + 1, paid), posts[n]);
                machine.run(move |machine| machine.send(&who, &post, n as u64).unwrap())
            })
            .into();
        let me = Who::new(&machine.pool, 3, paid);
        let mut got = [0, 1].map(|_| op(machine.receive(&me, &posts).unwrap()));
        got.sort_unstable();
        assert_eq!(got, [(1, 0), (2, 1)]);
        all.into_iter().for_each(|one| one.join().unwrap());
        machine.is_empty(&[1, 2], &[paid]);
    });
}

#[test]
fn two_wait_for_several_posts_and_one_at_each_comes() {
    random(|| {
        let machine = Machine::new();
        let (posts, paid) = ([machine.post(1), machine.post(2)], account(&machine.pool, 4));
        let all: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                let posts = if thread == 1 { posts } else { [posts[1], posts[0]] };
                machine.run(move |machine| op(machine.receive(&who, &posts).unwrap()).1)
            })
            .into();
        let me = Who::new(&machine.pool, 3, paid);
        machine.send(&me, &posts[0], 1).unwrap();
        machine.send(&me, &posts[1], 2).unwrap();
        assert_eq!(all.into_iter().map(|one| one.join().unwrap()).sum::<u64>(), 3);
        machine.is_empty(&[1, 2], &[paid]);
    });
}

#[test]
fn a_time_out_and_a_message() {
    random(|| {
        let machine = Machine::new();
        let (posts, paid) = ([machine.post(1), machine.post(2)], account(&machine.pool, 4));
        let (me, other) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let sender = machine.run(move |machine| machine.send(&other, &posts[1], 5).unwrap());
        let timer = machine.run(move |machine| machine.interrupt(&me, Error::TimedOut));
        let received = machine.receive(&me, &posts).unwrap();
        let ended = timer.join().unwrap();
        sender.join().unwrap();
        match received {
            Received::Message(2, message) => assert_eq!((message.body.op, ended), (5, false), "not both"),
            Received::Ended(Error::TimedOut) => {
                assert!(ended);
                assert_eq!(op(machine.pool.receive(&posts, &me.by(), false).unwrap()), (2, 5), "it is still there");
            }
            other => panic!("{other:?}"),
        }
        machine.is_empty(&[1, 2], &[paid]);
    });
}

#[test]
fn a_post_goes_while_others_send_and_receive() {
    random(|| {
        let machine = Machine::new();
        let (posts, paid) = ([machine.post(1), machine.post(2)], account(&machine.pool, 4));
        let (sender, receiver) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let sends = machine.run(move |machine| machine.send(&sender, &posts[0], 5));
        let receives = machine.run(move |machine| machine.receive(&receiver, &posts));
        machine.pool.free(1, true, 0, |woken| machine.wake(woken)).unwrap();
        let sent = sends.join().unwrap();
        let received = receives.join().unwrap();
        match (sent, received) {
            // It came before.
            (Ok(()), Ok(Received::Message(1, message))) => assert_eq!(message.body.op, 5),
            // It was there when the post went, and the receiver came too late or waited elsewhere first.
            (Ok(()) | Err(Error::NotFound), Ok(Received::Ended(Error::NotFound)) | Err(Error::NotFound)) => {}
            other => panic!("{other:?}"),
        }
        // The number can be had again, empty, and the slot is free.
        machine.post(1);
        machine.is_empty(&[1, 2], &[paid]);
    });
}

#[test]
fn a_post_is_had_by_one() {
    random(|| {
        let machine = Machine::new();
        machine.post(1);
        let free = machine.run(|machine| machine.pool.free(1, true, 0, |_| {}));
        let other = machine.run(|machine| machine.pool.get(1, SYSTEM).is_ok());
        let mine = machine.pool.get(1, SYSTEM).is_ok();
        free.join().unwrap().unwrap();
        assert!(!(mine && other.join().unwrap()));
    });
}

#[test]
fn what_the_next_owner_is_sent_stays() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, other) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        (0..2).for_each(|n| machine.send(&me, &post, n).unwrap());
        let frees = machine.run(|machine| machine.pool.free(1, true, 0, |_| {}).unwrap());
        let gets = machine.run(move |machine| {
            while machine.pool.get(1, SYSTEM).is_err() {
                shuttle::thread::yield_now();
            }
            machine.send(&other, &allow(&machine.pool, 1), 9).unwrap();
        });
        frees.join().unwrap();
        gets.join().unwrap();
        assert_eq!(op(machine.pool.receive(&[allow(&machine.pool, 1)], &me.by(), false).unwrap()), (1, 9));
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn sending_and_receiving_in_one_step() {
    random(|| {
        let machine = Machine::new();
        // Nobody may have anything queued at the clients' posts: answers go to those who wait.
        let (paid, nothing) = (account(&machine.pool, 4), account(&machine.pool, 0));
        let posts = [machine.post(1), machine.post(2), machine.post(3)];
        let clients: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| {
                    for n in 0..2 {
                        let back = &posts[thread as usize - 1];
                        let called = machine.send_and_receive(&posts[2], back, &who.by(), &body(thread * 10 + n));
                        let (post, answer) = op(machine.finish(&who, called).unwrap());
                        assert_eq!((post, answer), (thread as u32, thread * 10 + n + 100));
                    }
                })
            })
            .into();
        let servers: Vec<_> = [3u64, 4]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, nothing);
                machine.run(move |machine| {
                    let mut served = 0;
                    let mut received = machine.receive(&who, &posts[2..]).unwrap();
                    while let Received::Message(3, message) = received {
                        served += 1;
                        let Back::Post(back) = message.back else { panic!() };
                        let answer = body(message.body.op + 100);
                        let back = &posts[back as usize - 1];
                        match machine.send_and_receive(back, &posts[2], &who.by(), &answer) {
                            // The client is about to wait: it does not on one processor.
                            Err(Error::MessageQuota) => {
                                received = loop {
                                    shuttle::thread::yield_now();
                                    match machine.send_and_receive(back, &posts[2], &who.by(), &answer) {
                                        Err(Error::MessageQuota) => {}
                                        called => break machine.finish(&who, called).unwrap(),
                                    }
                                }
                            }
                            called => received = machine.finish(&who, called).unwrap(),
                        }
                    }
                    assert_eq!(received, Received::Ended(Error::Killed));
                    served
                })
            })
            .into();
        clients.into_iter().for_each(|one| one.join().unwrap());
        let mut served = 0;
        for (server, record) in servers.into_iter().zip([3, 4]) {
            // It may still be on its way into its last wait.
            loop {
                let waits = machine.pool.waits(record);
                if let Some(woken) = waits.and_then(|ticket| machine.pool.interrupt(record, ticket, Error::Killed)) {
                    machine.wake(woken);
                    break;
                }
                shuttle::thread::yield_now();
            }
            served += server.join().unwrap();
        }
        assert_eq!(served, 4);
        machine.is_empty(&[1, 2, 3], &[paid, nothing]);
    });
}

#[test]
fn questions_and_answers() {
    random(|| {
        let machine = Machine::new();
        let (paid, nothing, post) = (account(&machine.pool, 4), account(&machine.pool, 0), machine.post(1));
        let servers: Vec<_> = [1u64, 2]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, nothing);
                machine.run(move |machine| {
                    let mut received = machine.receive(&who, &[post]).unwrap_or_else(Received::Ended);
                    let mut served = 0;
                    while let Received::Message(1, message) = received {
                        served += 1;
                        let Back::Question(question) = message.back else { panic!() };
                        let answer = body(message.body.op + 100);
                        // Without anything queued: who asks waits already.
                        let called = machine.answer_and_receive(question, &post, &who.by(), &answer);
                        received = machine.finish(&who, called).unwrap_or_else(Received::Ended);
                    }
                    assert_eq!(received, Received::Ended(Error::NotFound));
                    served
                })
            })
            .into();
        let clients: Vec<_> = [3u64, 4]
            .map(|thread| {
                let who = Who::new(&machine.pool, thread, paid);
                machine.run(move |machine| {
                    for n in 0..2 {
                        assert_eq!(op(machine.ask(&who, &post, thread * 10 + n).unwrap()), (0, thread * 10 + n + 100));
                    }
                })
            })
            .into();
        clients.into_iter().for_each(|one| one.join().unwrap());
        machine.pool.free(1, true, 0, |woken| machine.wake(woken)).unwrap();
        let mut served = 0;
        for server in servers {
            served += server.join().unwrap();
        }
        assert_eq!(served, 4);
        machine.is_empty(&[], &[paid, nothing]);
    });
}

#[test]
fn an_answer_and_a_time_out() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let serves = machine.run(move |machine| {
            let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
            let Back::Question(question) = message.back else { panic!() };
            let answered = machine.pool.answer(question, &server.by(), &body(7));
            answered.map(|woken| machine.wake(woken))
        });
        let timer = machine.run(move |machine| machine.interrupt(&me, Error::TimedOut));
        let received = machine.ask(&me, &post, 1).unwrap();
        match (received, serves.join().unwrap(), timer.join().unwrap()) {
            (Received::Message(0, message), Ok(()), false) => assert_eq!(message.body.op, 7),
            (Received::Ended(Error::TimedOut), Err(Error::NotFound), true) => {}
            other => panic!("{other:?}"),
        }
        machine.is_empty(&[1], &[paid]);
    });
}

#[test]
fn what_was_lent_is_forgotten_or_was_not_had() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let (me, server) = (Who::new(&machine.pool, 1, paid), Who::new(&machine.pool, 2, paid));
        let lends = crate::Body { words: [0x1000, 8, 0, 0, 0, 0], lend: 1, ..body(1) };
        let _ = machine.pool.ask(&post, &me.by(), &lends).unwrap();
        let Ok(Received::Message(1, message)) = machine.receive(&server, &[post]) else { panic!() };
        let Back::Question(question) = message.back else { panic!() };
        // One thread of the server faults there, another one answers; or the asker gives up.
        let holder = crate::Holder { receiver: server.receiver, domain: 1 };
        let faults =
            machine.run(move |machine| machine.pool.loan(question, holder, 0x1004, |loan| Some(*loan)).is_some());
        let ends = machine.pool.answer(question, &server.by(), &body(2)).unwrap();
        let again = machine.pool.loan(question, holder, 0x1004, |loan| Some(*loan));
        assert_eq!(again, None);
        assert!(ends.touched || !faults.join().unwrap(), "mapped, and nobody was told");
    });
}

#[test]
fn notices_are_all_counted() {
    random(|| {
        let machine = Machine::new();
        let (post, paid) = (machine.post(1), account(&machine.pool, 4));
        let me = Who::new(&machine.pool, 1, paid);
        let notice = machine.pool.bind(&post, &me.by(), 9, me.sender).unwrap();
        let interrupts = machine.run(move |machine| {
            for _ in 0..3 {
                if let Some(woken) = machine.pool.notify(&notice).unwrap() {
                    machine.wake(woken);
                }
            }
            notice
        });
        let mut sum = 0;
        while sum < 3 {
            let Ok(Received::Message(1, message)) = machine.receive(&me, &[post]) else { panic!() };
            assert!(message.body.words[0] > 0);
            sum += message.body.words[0];
        }
        assert_eq!(sum, 3);
        machine.pool.unbind(interrupts.join().unwrap(), 0);
        machine.is_empty(&[1], &[paid]);
    });
}

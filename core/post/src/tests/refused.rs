//! Questions where nobody answers, and messages that are written before they are sent, under all interleavings that threads can tell apart.

use super::all::{all_told_apart, collected, pool, two, waits};
use super::*;
use shuttle::sync::Arc;
use shuttle::thread;

/// Questions are refused at a post, and those that lie there ended, while somebody asks: he hears so at once or from his wait, and waits for nobody.
#[test]
fn one_asks_where_questions_are_refused() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, _], post) = (two(&pool), allow(&pool, 1));
        let refuses = thread::spawn({
            let pool = pool.clone();
            move || {
                pool.refuse_questions(1, true).unwrap();
                let mut woken = Vec::new();
                pool.end_questions(1, |one| woken.push(one.receiver));
                woken
            }
        });
        let asked = pool.ask(&post, &me.by(), &body(7));
        let woken = refuses.join().unwrap();
        match asked {
            Err(Error::Dead) => assert_eq!(woken, []),
            Ok(called) => {
                assert!(matches!(called.received, Received::Waits(_)) && called.woken.is_none());
                assert_eq!(
                    (woken.as_slice(), pool.collect(me.receiver)),
                    ([me.receiver].as_slice(), Some(Received::Ended(Error::Dead)))
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(pool.waits(me.receiver), None);
    });
}

/// Questions are refused no more while somebody asks: he hears `Dead`, or lies there for whoever receives next, and those that lie there are not ended.
#[test]
fn one_asks_where_questions_are_refused_no_more() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        pool.refuse_questions(1, true).unwrap();
        let allows = thread::spawn({
            let pool = pool.clone();
            move || pool.refuse_questions(1, false).unwrap()
        });
        let asked = pool.ask(&post, &me.by(), &body(7));
        allows.join().unwrap();
        pool.end_questions(1, |_| panic!("they are not refused"));
        let received = pool.receive(&[post], &other.by(), false);
        match asked {
            Err(Error::Dead) => assert_eq!(received, Err(Error::TimedOut)),
            Ok(_) => assert_eq!((op(received.unwrap()), pool.waits(me.receiver).is_some()), ((1, 7), true)),
            other => panic!("{other:?}"),
        }
    });
}

/// So many messages as one writes before he sends them.
fn written(pool: &Arc<Pool>, by: &Who, ops: &[u64]) -> Vec<u32> {
    let rooms = pool.rooms(&by.by(), ops.len() as u32);
    for (room, op) in rooms.iter().zip(ops) {
        (0..7).for_each(|at| pool.write(*room, at, *op));
    }
    rooms
}

/// Two written messages are sent while somebody looks for one: they come once each, and in their order.
#[test]
fn two_written_ones_keep_their_order() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let rooms = written(&pool, &other, &[7, 8]);
        let sends = thread::spawn({
            let pool = pool.clone();
            move || assert_eq!(pool.send_written(&post, &other.by(), &rooms, |_| panic!("nobody waits")), Ok(2))
        });
        let look = || pool.receive(&[post], &me.by(), false);
        let first = look();
        sends.join().unwrap();
        let came: Vec<u64> = [first, look(), look()].into_iter().filter_map(|one| Some(op(one.ok()?).1)).collect();
        assert_eq!((came.as_slice(), pool.charged(me.account)), ([7, 8].as_slice(), 0));
    });
}

/// A written message is sent while somebody begins to wait: it is there when he looks, or finds him waiting.
#[test]
fn a_written_one_and_who_begins_to_wait() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let rooms = written(&pool, &other, &[7]);
        let sends = thread::spawn({
            let pool = pool.clone();
            move || {
                let mut woken = Vec::new();
                assert_eq!(pool.send_written(&post, &other.by(), &rooms, |one| woken.push(one.receiver)), Ok(1));
                woken
            }
        });
        let received = pool.receive(&[post], &me.by(), true).unwrap();
        match (received, sends.join().unwrap().as_slice()) {
            (Received::Message(1, message), []) => assert_eq!(message.body.op, 7),
            (Received::Waits(_), [woken]) => assert_eq!((*woken, collected(&pool, &me)), (me.receiver, (1, 7))),
            other => panic!("{other:?}"),
        }
        assert_eq!((pool.depth(1), pool.charged(me.account)), ((0, 0), 0));
    });
}

/// Two written messages are sent to one who waits, whose time is up in that moment: he has the first one or none, and the others lie there in their order.
#[test]
fn two_written_ones_and_a_time_out() {
    all_told_apart(|| {
        let pool = pool();
        let ([me, other], post) = (two(&pool), allow(&pool, 1));
        let rooms = written(&pool, &other, &[7, 8]);
        let ticket = waits(&pool, &me, post);
        let ends = thread::spawn({
            let pool = pool.clone();
            move || pool.interrupt(me.receiver, ticket, Error::TimedOut).is_some()
        });
        let mut woken = 0;
        assert_eq!(pool.send_written(&post, &other.by(), &rooms, |_| woken += 1), Ok(2));
        let ended = ends.join().unwrap();
        assert!((woken == 1) != ended, "by one of them");
        let left: &[u64] = match pool.collect(me.receiver).unwrap() {
            Received::Ended(Error::TimedOut) if ended => &[7, 8],
            received if !ended && op(received) == (1, 7) => &[8],
            other => panic!("{other:?}"),
        };
        let look = || pool.receive(&[post], &me.by(), false).map(|one| op(one).1);
        assert_eq!(left.iter().map(|_| look()).collect::<Vec<_>>(), left.iter().map(|op| Ok(*op)).collect::<Vec<_>>());
        assert_eq!((look(), pool.charged(me.account)), (Err(Error::TimedOut), 0));
    });
}

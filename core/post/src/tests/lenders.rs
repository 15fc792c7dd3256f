//! As whom memory is lent with a message, and who may end that.

use super::all::all_told_apart;
use super::lent::{BACK, LENDS, TO, world};
use super::machine::random;
use super::*;
use crate::Question;
use shuttle::thread;
use std::vec::Vec;

/// In a call a text lends as its own task's threads, whosever thread it is on: so what it lends, how long, and who takes it back.
#[test]
fn who_lends_need_not_be_who_sends() {
    alone(|| {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let lender = Sender { thread: 0, task: 30, user: 8, place: TEXT | 1 };
        let in_a_call = Caller { lender, ..world.lender.by() };
        let lent = || {
            let loan = world.pool.send_lending(&to, &back, &in_a_call, &LENDS).unwrap().0;
            assert_eq!(world.received(), loan, "from who has sent it");
            loan
        };
        let loan = lent();
        let from = touched(&world.pool, world.holder(), 0x1000).map(|loan| loan.from);
        assert_eq!(from, Some(lender.subject(TEXT)));
        assert_eq!(world.pool.cancel(loan, &world.lender.by()), Err(Error::NotFound), "on the same thread, as itself");
        let by_another = Caller { lender: Sender { thread: 3, ..lender }, ..world.server.by() };
        world.wake(world.pool.cancel(loan, &by_another).unwrap());
        assert_eq!(world.heard(), []);
        // The thread that it was on is the one that ends it.
        let loan = lent();
        world.pool.close_receiver(world.lender.receiver, |woken| world.wake(woken));
        assert!(!world.pool.is_lent(loan));
    });
}

/// Not even who has had its record before and knows what it will be called, in the moment that it is made.
#[test]
fn nobody_takes_back_what_another_one_lends() {
    let interleave = || {
        let world = world();
        let other = Who::new(&world.pool, 3, world.paid);
        let lender = Sender { task: 9, ..other.sender };
        let other = Caller { sender: lender, lender, ..other.by() };
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let first = world.pool.send_lending(&to, &back, &other, &LENDS).unwrap().0;
        world.wake(world.pool.cancel(first, &other).unwrap());
        let (number, turn) = first.loan().unwrap();
        let next = Question::of_loan(number, turn + 1);
        let takes = thread::spawn({
            let world = world.clone();
            move || assert_eq!(world.pool.cancel(next, &other), Err(Error::NotFound))
        });
        assert_eq!(world.lend(), next);
        takes.join().unwrap();
        assert!(world.pool.is_lent(next), "whoever waits for the answer would wait for ever");
    };
    random(interleave);
    all_told_apart(interleave);
}

/// What gave nothing, and what nobody has used, is not taken back.
#[test]
fn what_was_not_used_is_not_looked_for_afterwards() {
    alone(|| {
        let world = world();
        let (to, back, holder) = (world.permit(TO), world.permit(BACK), world.holder());
        let lends = Body { words: [0x1000, 0x10, 0x2000, 0x10, 0x3000, 0x10], lend: 0b1_0000_0000_0101, ..LENDS };
        for used in [&[][..], &[0x2000], &[0x1000, 0x3000]] {
            let loan = world.pool.send_lending(&to, &back, &world.lender.by(), &lends).unwrap().0;
            assert!(matches!(world.pool.receive(&[to], &world.server.by(), false), Ok(Received::Message(TO, _))));
            for at in [0x1000, 0x2000, 0x3000] {
                let gives = |loan: &Loan| used.contains(&loan.range.address).then_some(loan.range.address);
                assert_eq!(world.pool.loan(loan, holder, at, gives), used.contains(&at).then_some(at));
            }
            let over = world.pool.cancel(loan, &world.lender.by()).unwrap();
            assert_eq!(over.touched, !used.is_empty());
            let taken = world.pool.lent(over.receiver).0;
            assert_eq!(taken.lent().map(|range| range.address).collect::<Vec<_>>(), used);
            assert_eq!(world.pool.finish(over, 0), None);
        }
    });
}

/// It is over for who may not receive the answer any more; others, and other posts, are as before.
#[test]
fn who_may_not_receive_any_more_lends_nothing_until_an_answer_there() {
    let interleave = || {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let changes = thread::spawn({
            let world = world.clone();
            move || {
                world.pool.changed(BACK, |_| Err(Error::Refused), |_| {});
                world.pool.lenders_changed(BACK, |who| who.thread != 1, |over| world.wake(over));
            }
        });
        let lent = world.pool.send_lending(&to, &back, &world.lender.by(), &LENDS);
        changes.join().unwrap();
        match lent {
            Ok((loan, None)) => {
                assert_eq!(world.received(), loan);
                world.is_over(loan);
            }
            Err(Error::Changed) => assert_eq!(world.pool.depth(TO), (0, 0)),
            other => panic!("{other:?}"),
        }
        assert_eq!((world.heard(), world.pool.charged(world.paid)), (Vec::new(), 0));
    };
    random(interleave);
    all_told_apart(interleave);
    alone(|| {
        let world = world();
        let loan = world.lent();
        world.pool.lenders_changed(TO, |_| false, |_| panic!("it is answered elsewhere"));
        world.pool.lenders_changed(BACK, |who| who.thread == 1, |_| panic!("he may"));
        assert!(world.pool.is_lent(loan) && world.answer(loan));
    });
}

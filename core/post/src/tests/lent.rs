//! Loans of messages whose senders go on: used by the receiver only, and until one of all that may end them does.

use super::all::all_told_apart;
use super::each::under;
use super::machine::random;
use super::*;
use crate::{Back, Question, Woken};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;
use std::vec::Vec;

/// A server's post, and one for answers.
pub(super) const TO: u32 = 1;
pub(super) const BACK: u32 = 2;
/// A processor that none of the threads is on.
const APART: usize = 4;

/// A lender, a holder, and the memory.
pub(super) struct World {
    pub pool: Pool,
    pub lender: Who,
    pub server: Who,
    pub paid: u32,
    /// Whether the holder has it mapped; under the section's lock.
    mapped: Mutex<bool>,
    /// Only one at a time is on that processor.
    apart: Mutex<()>,
}

pub(super) const LENDS: Body = Body { op: 5, words: [0x1000, 0x10, 0, 0, 0, 0], lend: 1 << 8 };

pub(super) fn world() -> Arc<World> {
    let config = Config { messages: 4, receivers: 3, accounts: 2, ..CONFIG };
    let pool = Pool::new(Config { reserve: Reserve::default(), ..config });
    [TO, BACK].into_iter().for_each(|number| assert_eq!(pool.get(number, SYSTEM), Ok(number)));
    let paid = account(&pool, 3);
    let (lender, server) = (Who::new(&pool, 1, paid), Who::new(&pool, 2, account(&pool, 0)));
    Arc::new(World { pool, lender, server, paid, mapped: Mutex::new(false), apart: Mutex::new(()) })
}

impl World {
    pub fn permit(&self, post: u32) -> Permit {
        allow(&self.pool, post)
    }

    pub fn holder(&self) -> Holder {
        Holder { receiver: self.server.receiver, domain: 1 }
    }

    /// Lends, and nobody waits for it.
    pub fn lend(&self) -> Question {
        let (to, back) = (self.permit(TO), self.permit(BACK));
        let (loan, woken) = self.pool.send_lending(&to, &back, &self.lender.by(), &LENDS).unwrap();
        assert_eq!(woken, None);
        loan
    }

    /// The server receives that.
    pub fn received(&self) -> Question {
        let Ok(Received::Message(TO, message)) = self.pool.receive(&[self.permit(TO)], &self.server.by(), false) else {
            panic!()
        };
        let Back::Question(loan) = message.back else { panic!() };
        assert_eq!((message.body, message.from.thread), (LENDS, 1));
        loan
    }

    pub fn lent(&self) -> Question {
        let loan = self.lend();
        assert_eq!(self.received(), loan);
        loan
    }

    /// The holder touches it. Whether it had it.
    pub fn touch(&self) -> bool {
        let Some(loan) = self.pool.lends(self.holder(), 0x100f, None) else { return false };
        under(&self.mapped, |mapped| {
            let lent = self.pool.loan(loan, self.holder(), 0x100f, |_| Some(())).is_some();
            *mapped |= lent;
            lent
        })
    }

    /// What the kernel does first with a loan that is over.
    fn take_back(&self, over: &Woken) {
        assert!(over.is_loan());
        under(&self.mapped, |mapped| {
            if over.touched {
                assert_eq!(self.pool.lent(over.receiver).0, LENDS);
                *mapped = false;
            }
            assert!(!*mapped, "nobody who used it is overlooked");
        });
    }

    /// Whoever is woken: a thread that has collected nothing yet, or the lender of a loan.
    pub fn wake(&self, woken: Woken) {
        if woken.is_loan() {
            self.take_back(&woken);
            let told = under(&self.apart, |()| self.pool.finish(woken, APART));
            assert_eq!(told, None, "nobody waits");
        }
    }

    /// The holder answers. Whether that ended it.
    pub fn answer(&self, loan: Question) -> bool {
        let Ok(over) = self.pool.answer_loan(loan, &self.server.by(), 0) else { return false };
        self.take_back(&over);
        assert_eq!(self.pool.finish_with(over, &self.server.by(), &body(7)), None);
        true
    }

    /// What has come for the lender: operations, threads and first words.
    pub fn heard(&self) -> Vec<(u64, u64, u64)> {
        let at = [self.permit(BACK)];
        let next = || match self.pool.receive(&at, &self.lender.by(), false) {
            Ok(Received::Message(BACK, message)) => Some((message.body.op, message.from.thread, message.body.words[0])),
            _ => None,
        };
        core::iter::from_fn(next).collect()
    }

    pub fn is_over(&self, loan: Question) {
        assert!(!self.pool.is_lent(loan) && !self.touch() && !under(&self.mapped, |mapped| *mapped));
        assert!(!self.answer(loan), "it is over");
        assert_eq!(self.pool.charged(self.paid), 0);
    }
}

const ANSWERED: (u64, u64, u64) = (7, 2, 7);

pub(super) fn ended(error: Error) -> (u64, u64, u64) {
    (LENDS.op, 0, error.word())
}

#[test]
fn memory_is_lent_with_a_message_until_it_is_answered() {
    alone(|| {
        let world = world();
        let (pool, lender, server) = (&world.pool, world.lender.by(), world.server.by());
        let loan = world.lend();
        assert!(!world.touch(), "nobody has it yet");
        assert_eq!(pool.charged(world.paid), 2, "the message and the loan");
        assert_eq!(world.received(), loan);
        assert_eq!(pool.charged(world.paid), 1);
        let lent = |holder, address| touched(pool, holder, address).map(|loan| (loan.range.rights, loan.from.thread));
        let (holder, both) = (world.holder(), Rights::READ | Rights::WRITE);
        assert_eq!([0xfff, 0x1010].map(|address| lent(holder, address)), [None; 2]);
        assert_eq!(lent(Holder { domain: 2, ..holder }, 0x1000), None, "another text of the same thread");
        assert_eq!(lent(Holder { receiver: lender.receiver, ..holder }, 0x1000), None, "another thread");
        assert_eq!(pool.answer_loan(loan, &lender, 0), Err(Error::NotFound), "who has lent it does not hold it");
        assert_eq!(pool.answer_loan(loan, &server, 1), Err(Error::BadArgument));
        let next = Question::of_loan(loan.loan().unwrap().0, loan.loan().unwrap().1 + 1);
        assert_eq!(pool.answer_loan(next, &server, 0), Err(Error::NotFound));
        assert_eq!(lent(holder, 0x1000), Some((both, 1)));
        let over = pool.answer_loan(loan, &server, 0).unwrap();
        assert!(over.touched && lent(holder, 0x1000).is_none());
        assert_eq!(pool.lent(over.receiver).0, LENDS, "what is to be taken back");
        assert_eq!(pool.finish_with(over, &server, &body(7)), None);
        assert_eq!(pool.charged(world.paid), 1, "the answer is paid for by who has asked");
        assert_eq!(pool.charged(world.server.account), 0);
        let answer = pool.receive(&[world.permit(BACK)], &lender, false).unwrap();
        let Received::Message(BACK, message) = answer else { panic!() };
        assert_eq!((message.body, message.from.thread, message.back), (body(7), 2, Back::Question(loan)));
        world.is_over(loan);
        // Untouched, there is nothing to be taken back; and it is another loan.
        let second = world.lent();
        assert!(second != loan && second.word() >> 62 == 3);
        assert!(!pool.answer_loan(second, &server, 0).map(|over| (over.touched, pool.finish(over, 0))).unwrap().0);
        world.is_over(second);
    });
}

#[test]
fn whoever_waits_holds_what_it_is_handed() {
    alone(|| {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        assert!(matches!(world.pool.receive(&[to], &world.server.by(), true), Ok(Received::Waits(_))));
        let (loan, woken) = world.pool.send_lending(&to, &back, &world.lender.by(), &LENDS).unwrap();
        assert_eq!(woken.map(|woken| (woken.thread, woken.is_loan())), Some((2, false)));
        let Some(Received::Message(TO, message)) = world.pool.collect(world.server.receiver) else { panic!() };
        assert_eq!(message.back, Back::Question(loan));
        assert!(world.touch());
        // And so does the lender with the answer.
        assert!(matches!(world.pool.receive(&[back], &world.lender.by(), true), Ok(Received::Waits(_))));
        let over = world.pool.answer_loan(loan, &world.server.by(), 0).unwrap();
        world.take_back(&over);
        let woken = world.pool.finish_with(over, &world.server.by(), &body(7)).unwrap();
        assert_eq!((woken.thread, woken.touched), (1, false));
        let Some(Received::Message(BACK, message)) = world.pool.collect(world.lender.receiver) else { panic!() };
        assert_eq!((message.body.op, message.back), (7, Back::Question(loan)));
        world.is_over(loan);
    });
}

#[test]
fn what_cannot_be_lent_is_refused_and_changes_nothing() {
    alone(|| {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let sends = |to: &Permit, back: &Permit, lend: u16| {
            world.pool.send_lending(to, back, &world.lender.by(), &Body { lend, ..LENDS }).map(drop)
        };
        for lend in [0, 3, 1 << 5, 1 << 13, 1 << 15] {
            assert_eq!(sends(&to, &back, lend), Err(Error::BadArgument));
        }
        let nowhere = Permit::new(3, back.epoch, BOTH);
        assert_eq!(sends(&to, &nowhere, 1), Err(Error::NotFound));
        assert_eq!(sends(&nowhere, &back, 1), Err(Error::NotFound));
        world.pool.changed(BACK, |_| Ok(()), |_| {});
        assert_eq!(sends(&to, &back, 1), Err(Error::Changed));
        assert_eq!(world.pool.send(&to, &world.lender.by(), &LENDS, BACK), Err(Error::BadArgument));
        assert_eq!((world.pool.charged(world.paid), world.pool.depth(TO)), (0, (0, 0)));
        // Three are paid for: one with its message, and no more than that and a loan without.
        let loan = world.lend();
        let back = world.permit(BACK);
        assert_eq!(sends(&to, &back, 1), Err(Error::MessageQuota));
        assert_eq!((world.pool.charged(world.paid), world.pool.depth(TO)), (2, (1, 0)));
        assert_eq!(world.received(), loan);
        assert_eq!(sends(&to, &back, 1), Ok(()));
        assert_eq!(world.pool.charged(world.paid), 3);
        // All is paid for, and the answer has room.
        assert!(world.answer(loan));
        assert_eq!(world.pool.charged(world.paid), 3);
        assert_eq!(world.heard(), [ANSWERED]);
    });
}

/// What was refused with one is looked for behind it: in a loan behind a question, and in one behind another, also if what was tried is over by then.
#[test]
fn what_is_lent_is_found_behind_what_was_tried() {
    alone(|| {
        let world = world();
        let (pool, to, back, holder) = (&world.pool, world.permit(TO), world.permit(BACK), world.holder());
        let asker = Who::new(pool, 3, world.paid);
        let receives =
            || assert!(matches!(pool.receive(&[to], &world.server.by(), false), Ok(Received::Message(TO, _))));
        for lend in [1, 1 << 8] {
            pool.send_lending(&to, &back, &world.lender.by(), &Body { lend, ..LENDS }).unwrap();
            receives();
        }
        assert!(matches!(pool.ask(&to, &asker.by(), &LENDS).unwrap().received, Received::Waits(_)));
        receives();
        let next = |after: Option<Question>| pool.lends(holder, 0x1000, after);
        let all: Vec<Question> = core::iter::successors(next(None), |tried| next(Some(*tried))).collect();
        let says = |loan: &Loan| Some((loan.from.thread, loan.range.rights));
        let whose = |one: &Question| pool.loan(*one, holder, 0x1000, says);
        let both = Rights::READ | Rights::WRITE;
        let lent = [(3, both), (1, Rights::READ), (1, both)];
        assert_eq!(all.iter().filter_map(whose).collect::<Vec<_>>(), lent);
        for (tried, behind) in [(0, Some(all[1])), (1, Some(all[2])), (2, None)] {
            assert_eq!(next(Some(all[tried])), behind);
            pool.end(all[tried], Error::TimedOut).into_iter().for_each(|woken| _ = pool.finish(woken, 0));
            assert_eq!(next(Some(all[tried])), behind, "that one is over");
        }
    });
}

#[test]
fn what_ends_a_loan_is_heard() {
    alone(|| {
        let heard = |what: &str, ends: &dyn Fn(&World, Question), hears: &[(u64, u64, u64)]| {
            for touches in [false, true] {
                let world = world();
                let loan = world.lent();
                assert!(!touches || world.touch());
                ends(&world, loan);
                assert_eq!(world.heard(), hears, "{what}");
                world.is_over(loan);
            }
        };
        let wakes = |world: &World, over: Option<Woken>| world.wake(over.expect("it is over"));
        heard("an answer", &|world, loan| assert!(world.answer(loan)), &[ANSWERED]);
        heard("a limit", &|world, loan| wakes(world, world.pool.end(loan, Error::TimedOut)), &[ended(Error::TimedOut)]);
        heard("its lender", &|world, loan| wakes(world, world.pool.cancel(loan, &world.lender.by()).ok()), &[]);
        let text = |world: &World, _| world.pool.lenders_gone(TEXT, |woken| world.wake(woken));
        heard("the text that lends", &text, &[ended(Error::Dead)]);
        let gone = |world: &World, _| world.pool.fell_out(world.holder(), |woken| world.wake(woken));
        heard("the text that holds it", &gone, &[ended(Error::Dead)]);
        let holder = |world: &World, _| world.pool.close_receiver(world.server.receiver, |woken| world.wake(woken));
        heard("the thread that holds it", &holder, &[ended(Error::Dead)]);
        // Somebody else's thread receives that.
        let lender = |world: &World, _| world.pool.close_receiver(world.lender.receiver, |woken| world.wake(woken));
        heard("the thread that lends", &lender, &[ended(Error::Dead)]);
    });
}

#[test]
fn a_loan_goes_with_its_message_and_with_either_post() {
    alone(|| {
        let world = world();
        let loan = world.lend();
        // A server ends before it has received it: the next one gets it.
        world.pool.holders_gone(|_| true, |woken| panic!("{woken:?}: nobody has it"));
        let stranger = Caller { lender: Sender { task: 9, ..world.lender.sender }, ..world.lender.by() };
        assert_eq!(world.pool.cancel(loan, &stranger), Err(Error::NotFound));
        assert_eq!(world.received(), loan);
        assert!(world.touch() && world.answer(loan));
        assert_eq!(world.heard(), [ANSWERED]);
        // The post where it lies is given back.
        let loan = world.lend();
        world.pool.free(TO, true, 0, |woken| world.wake(woken)).unwrap();
        assert_eq!(world.heard(), [ended(Error::NotFound)]);
        world.is_over(loan);
        // The one where the answer goes; and the next one there hears nothing.
        world.pool.get(TO, SYSTEM).unwrap();
        let loan = world.lent();
        assert!(world.touch());
        world.pool.free(BACK, true, 0, |woken| world.wake(woken)).unwrap();
        world.pool.get(BACK, SYSTEM).unwrap();
        assert_eq!(world.heard(), []);
        world.is_over(loan);
        // It was over before that was seen to.
        let loan = world.lent();
        let over = world.pool.answer_loan(loan, &world.server.by(), 0).unwrap();
        world.pool.free(BACK, true, 0, |woken| world.wake(woken)).unwrap();
        world.pool.get(BACK, SYSTEM).unwrap();
        assert_eq!(world.pool.finish_with(over, &world.server.by(), &body(7)), None);
        assert_eq!(world.heard(), []);
        world.is_over(loan);
    });
}

/// Its holder uses it and answers, while something else ends it: once, and the lender hears of one of the two; and after the end nobody has any of it.
fn against(ends: impl Fn(&World, Question) + Clone + Send + Sync + 'static, hears: Option<Error>) {
    let interleave = move || {
        let world = world();
        let loan = world.lent();
        let holds = thread::spawn({
            let world = world.clone();
            move || {
                world.touch();
                world.answer(loan)
            }
        });
        ends(&world, loan);
        let answered = holds.join().unwrap();
        let heard = world.heard();
        match hears {
            _ if answered => assert_eq!(heard, [ANSWERED]),
            Some(error) => assert_eq!(heard, [ended(error)]),
            None => assert_eq!(heard, []),
        }
        world.is_over(loan);
        // And all goes on as before.
        if world.pool.thread_of(world.server.receiver) != 0 && world.pool.thread_of(world.lender.receiver) != 0 {
            let next = world.lent();
            assert!(world.touch() && world.answer(next) && next != loan);
            assert_eq!(world.heard(), [ANSWERED]);
        }
    };
    random(interleave.clone());
    all_told_apart(interleave);
}

#[test]
fn an_answer_and_a_limit_of_time() {
    let over =
        |world: &World, loan| world.pool.end(loan, Error::TimedOut).into_iter().for_each(|over| world.wake(over));
    against(over, Some(Error::TimedOut));
}

#[test]
fn an_answer_and_the_lenders_change_of_mind() {
    against(
        |world, loan| world.pool.cancel(loan, &world.lender.by()).into_iter().for_each(|over| world.wake(over)),
        None,
    );
}

#[test]
fn an_answer_and_the_end_of_a_text() {
    against(|world, _| world.pool.fell_out(world.holder(), |woken| world.wake(woken)), Some(Error::Dead));
    against(|world, _| world.pool.lenders_gone(TEXT, |woken| world.wake(woken)), Some(Error::Dead));
}

#[test]
fn an_answer_and_the_lenders_end() {
    let lender = |world: &World, _| world.pool.close_receiver(world.lender.receiver, |woken| world.wake(woken));
    against(lender, Some(Error::Dead));
}

/// What ends it from three sides at once.
#[test]
fn an_end_comes_once() {
    random(|| {
        let world = world();
        let loan = world.lent();
        let ends = |error: Error| {
            let world = world.clone();
            thread::spawn(move || {
                world.touch();
                world.pool.end(loan, error).map(|over| world.wake(over)).is_some()
            })
        };
        let all = [ends(Error::TimedOut), ends(Error::Dead)];
        let answered = world.answer(loan);
        let ended = all.map(|one| one.join().unwrap());
        assert_eq!(u32::from(answered) + ended.iter().map(|ended| u32::from(*ended)).sum::<u32>(), 1);
        assert_eq!(world.heard().len(), 1, "and is heard of once");
        world.is_over(loan);
    });
}

/// The post for the answers is freed while something is lent that is to be answered there.
#[test]
fn nothing_is_lent_for_a_post_that_goes() {
    let interleave = || {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let frees = thread::spawn({
            let world = world.clone();
            move || world.pool.free(BACK, true, world.server.processor, |woken| world.wake(woken)).unwrap()
        });
        let lent = world.pool.send_lending(&to, &back, &world.lender.by(), &LENDS);
        frees.join().unwrap();
        match lent {
            Ok((loan, None)) => {
                assert_eq!(world.received(), loan);
                world.is_over(loan);
            }
            Err(Error::NotFound) => {
                assert_eq!((world.pool.depth(TO), world.pool.charged(world.paid)), ((0, 0), 0));
            }
            other => panic!("{other:?}"),
        }
    };
    random(interleave);
    all_told_apart(interleave);
}

/// The post where the message lies, or is about to.
#[test]
fn whoever_lends_hears_of_the_end_of_the_post() {
    let interleave = || {
        let world = world();
        let (to, back) = (world.permit(TO), world.permit(BACK));
        let frees = thread::spawn({
            let world = world.clone();
            move || world.pool.free(TO, true, world.server.processor, |woken| world.wake(woken)).unwrap()
        });
        let lent = world.pool.send_lending(&to, &back, &world.lender.by(), &LENDS);
        frees.join().unwrap();
        match lent {
            Ok((loan, None)) => {
                assert_eq!(world.heard(), [ended(Error::NotFound)]);
                world.is_over(loan);
            }
            Err(Error::NotFound) => assert_eq!(world.heard(), []),
            other => panic!("{other:?}"),
        }
        assert_eq!(world.pool.charged(world.paid), 0);
    };
    random(interleave);
    all_told_apart(interleave);
}

/// Who is handed it in the moment of its end, when nobody says yet that it has it, gives it up as it falls out of its text.
#[test]
fn who_is_found_in_the_moment_of_its_end_gives_the_loan_up() {
    let interleave = || {
        let world = world();
        let (to, back, server) = (world.permit(TO), world.permit(BACK), world.server);
        assert!(matches!(world.pool.receive(&[to], &server.by(), true), Ok(Received::Waits(_))));
        let lends = thread::spawn({
            let world = world.clone();
            move || world.pool.send_lending(&to, &back, &world.lender.by(), &LENDS).unwrap()
        });
        let waits = world.pool.waits(server.receiver);
        let ended_there = waits.and_then(|ticket| world.pool.interrupt(server.receiver, ticket, Error::Dead));
        world.pool.holders_gone(|one| one == world.holder(), |over| world.wake(over));
        let (loan, handed) = lends.join().unwrap();
        if handed.is_some() {
            assert!(ended_there.is_none() && world.pool.collect(server.receiver).is_some());
            world.pool.fell_out(world.holder(), |over| world.wake(over));
            assert_eq!(world.heard(), [ended(Error::Dead)]);
        } else {
            assert!(ended_there.is_some() && world.pool.is_lent(loan), "it is the next server's");
            world.pool.free(TO, true, server.processor, |woken| world.wake(woken)).unwrap();
            assert_eq!(world.heard(), [ended(Error::NotFound)]);
        }
        world.is_over(loan);
    };
    random(interleave);
    all_told_apart(interleave);
}

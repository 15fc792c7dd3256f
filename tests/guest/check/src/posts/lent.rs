//! Memory that is lent with a message whose sender goes on: until the receiver answers, or something else ends it, and whoever has lent it hears which.

use super::loans::{
    self, COUNT, END, Holder, LEAVE, PATIENCE_NS, READ, READ_AFTER, READ_AND_GO, TO_READ, TO_WRITE, WRITE, calls,
    memory,
};
use super::post;
use crate::memory::{load, store, word};
use crate::report::{Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::post::{LOAN, QUESTION};
use musubi::rt::post::{Message, Post};
use musubi::rt::{section, thread, time};

const KILLS: u64 = 12;
/// So long it is waited for what must not come.
const A_WHILE_NS: u64 = 2_000_000;

struct Lender {
    holder: Holder,
    back: Post,
}

impl Lender {
    fn start() -> Result<Lender, String> {
        Ok(Lender { holder: Holder::start()?, back: post()? })
    }

    fn lends(&self, op: u32, at: u64, len: u64, lend: u16, ns: u64) -> Result<u64, Error> {
        self.holder.post.send_lending(op, [at, len, 0, 0, 0, 0], lend, self.back, ns)
    }

    fn hears(&self) -> Result<Message, String> {
        self.back.receive(PATIENCE_NS).map_err(doing("hearing of a loan"))
    }

    /// How a loan has ended that was not answered.
    fn lost(&self, loan: u64, op: u32, error: Error) -> Outcome {
        let message = self.hears()?;
        same!((message.lost(), message.back, message.op), (Some(error), loan, op), "how it ended");
        self.silent()
    }

    fn silent(&self) -> Outcome {
        same!(self.back.receive(0).map(|message| message.op), Err(Error::TimedOut), "a message more");
        Ok(())
    }

    /// It has tried what it may not any more.
    fn is_stopped(self, at: u64) -> Outcome {
        self.back.free(true).map_err(doing("freeing"))?;
        self.holder.is_stopped(at)
    }

    /// It may be about to try that.
    fn is_killed(self) -> Outcome {
        let _ = self.holder.child.kill();
        self.back.free(true).map_err(doing("freeing"))?;
        self.holder.ends().map(drop)
    }

    /// Its calls were refused, when it had it no more.
    fn is_refused(self) -> Outcome {
        self.back.free(true).map_err(doing("freeing"))?;
        same!(self.holder.ends()?.code, calls::REFUSED as u64, "how the holder ended");
        Ok(())
    }

    fn is_done(self) -> Outcome {
        self.holder.post.send(END, [0; 6], None).map_err(doing("the last one"))?;
        self.back.free(true).map_err(doing("freeing"))?;
        same!(self.holder.ends()?.code, 0, "how the holder ended");
        Ok(())
    }
}

/// Not one more from now on.
fn nothing_is_written(at: u64) -> Outcome {
    let count = load(at);
    time::sleep_ns(A_WHILE_NS);
    same!(load(at), count, "writes after the end");
    Ok(())
}

fn written(at: u64, least: u64) -> Outcome {
    let until = time::now_ns() + PATIENCE_NS;
    while load(at) < least && time::now_ns() < until {
        thread::yield_now();
    }
    holds!(load(at) >= least, "the holder never had the memory");
    Ok(())
}

pub fn while_its_sender_goes_on() -> Outcome {
    const PAGES: u64 = 8;
    let (lender, memory) = (Lender::start()?, memory(PAGES)?);
    let at = memory.base();
    for round in 0..20 {
        let lends = |page| lender.lends(READ, at + page * PAGE, 8, TO_READ, 0);
        let loans: Result<Vec<u64>, Error> = (0..PAGES).map(lends).collect();
        let loans = loans.map_err(doing("lending"))?;
        for (page, loan) in (0u64..).zip(loans) {
            holds!(loan & (QUESTION | LOAN) == QUESTION | LOAN, "what a loan is called: {loan:#x}");
            let message = lender.hears()?;
            same!((message.op, message.back, message.lost()), (READ, loan, None), "which was answered");
            same!(message.words[0], page + 7 + round, "what the holder reads in round {round}");
            word(at + page * PAGE).fetch_add(1, Ordering::SeqCst);
        }
    }
    let written = lender.lends(WRITE, at + PAGE, 8, TO_WRITE, 0);
    holds!(written.is_ok() && lender.hears()?.op == WRITE, "what is to be written: {written:?}");
    same!(load(at + PAGE), 0x77, "what was written");
    store(at + 4 * PAGE - 8, 0x99);
    lender.lends(loans::READ_LAST, at, 4 * PAGE, TO_READ, 0).map_err(doing("lending"))?;
    same!(lender.hears()?.words[0], 0x99, "the last word of four pages");
    let to = lender.holder.post;
    for lend in [3, 1 << 5, 1 << 7] {
        same!(lender.lends(READ, at, 8, lend, 0), Err(Error::BadArgument), "lending by {lend:#x}");
    }
    same!(to.send_lending(READ, [at; 6], TO_READ, Post(0), 0), Err(Error::BadArgument), "with no way back");
    same!(to.send_lending(READ, [at; 6], TO_READ, Post(at), 0), Err(Error::NotFound), "with a way back that is none");
    same!(post::answer(QUESTION | LOAN | 1 << 32 | 1, 0, [0; 6]), Err(Error::NotFound), "a loan of nobody's");
    lender.silent()?;
    lender.is_done()
}

/// As little as with a question.
pub fn no_more_than_that() -> Outcome {
    let memory = memory(2)?;
    let at = memory.base();
    for (op, first, lend, touched) in [(WRITE, at, TO_READ, at), (READ, at + PAGE, TO_READ, at + PAGE)] {
        let lender = Lender::start()?;
        // Of the second page nothing is lent.
        let words = [first, 8, at, 8, 0, 0];
        let lend = if first == at { lend } else { lend << 2 };
        let loan = lender.holder.post.send_lending(op, words, lend, lender.back, 0).map_err(doing("lending"))?;
        lender.lost(loan, op, Error::Dead)?;
        lender.is_stopped(touched)?;
    }
    same!(load(at), 7, "what was not to be written");
    Ok(())
}

pub fn not_after_the_answer() -> Outcome {
    for _ in 0..5 {
        let (lender, memory) = (Lender::start()?, memory(1)?);
        let at = memory.base();
        let loan = lender.lends(READ_AFTER, at, 8, TO_READ, 0).map_err(doing("lending"))?;
        let message = lender.hears()?;
        same!((message.back, message.words[0]), (loan, 7), "what the holder reads");
        lender.is_stopped(at)?;
    }
    Ok(())
}

pub fn not_after_its_limit() -> Outcome {
    for round in 1..=5u64 {
        let (lender, memory) = (Lender::start()?, memory(1)?);
        let at = memory.base();
        let loan = lender.lends(COUNT, at, 8, TO_WRITE, 100_000_000 * round).map_err(doing("lending"))?;
        lender.lost(loan, COUNT, Error::TimedOut)?;
        nothing_is_written(at)?;
        let had = load(at) > 7;
        if had {
            lender.is_stopped(at)?
        } else {
            lender.is_killed()?
        }
        holds!(round < 5 || had, "the holder never had the memory");
    }
    // Who answers before is not told anything more.
    let (lender, memory) = (Lender::start()?, memory(1)?);
    for _ in 0..50 {
        lender.lends(READ, memory.base(), 8, TO_READ, 20_000_000_000).map_err(doing("lending"))?;
        same!(lender.hears()?.lost(), None, "in time");
    }
    lender.is_done()
}

pub fn it_is_taken_back() -> Outcome {
    let at_once = (Lender::start()?, memory(1)?);
    let loan = at_once.0.lends(COUNT, at_once.1.base(), 8, TO_WRITE, 0).map_err(doing("lending"))?;
    same!(post::cancel(loan), Ok(()), "taking it back at once");
    nothing_is_written(at_once.1.base())?;
    at_once.0.silent()?;
    at_once.0.is_killed()?;
    let (lender, memory) = (Lender::start()?, memory(1)?);
    let at = memory.base();
    let loan = lender.lends(COUNT, at, 8, TO_WRITE, 0).map_err(doing("lending"))?;
    written(at, 100)?;
    same!(post::cancel(loan ^ 1), Err(Error::NotFound), "another one");
    same!(post::cancel(0), Err(Error::NotFound), "none");
    same!(post::cancel(loan), Ok(()), "taking it back");
    nothing_is_written(at)?;
    same!(post::cancel(loan), Err(Error::NotFound), "once more");
    lender.silent()?;
    lender.is_stopped(at)
}

/// The thread that has lent it is killed at any moment while the holder writes, and others of its program hear.
pub fn not_after_its_lenders_end() -> Outcome {
    let mut wrote = 0;
    for round in 0..KILLS {
        let (lender, memory) = (Lender::start()?, memory(1)?);
        let (at, to, back) = (memory.base(), lender.holder.post, lender.back);
        let lends = move || {
            let _ = to.send_lending(COUNT, [at, 8, 0, 0, 0, 0], TO_WRITE, back, 0);
            time::sleep_ns(PATIENCE_NS);
        };
        let thread = thread::spawn(lends, 0).map_err(doing("thread"))?;
        if round % 3 == 0 {
            time::sleep_ns(round * 300_000);
        } else {
            written(at, 7 + round * 10)?;
        }
        thread.kill().map_err(doing("kill"))?;
        thread.join().map_err(doing("join"))?;
        nothing_is_written(at)?;
        if load(at) > 7 {
            wrote += 1;
            same!(lender.hears()?.lost(), Some(Error::Dead), "what is heard of it");
            lender.is_stopped(at)?;
        } else {
            lender.is_killed()?;
        }
    }
    holds!(wrote >= KILLS / 2, "the holder had the memory in {wrote} of {KILLS} rounds");
    Ok(())
}

/// The thread that has received it, while its program goes on; and that as a whole.
pub fn not_after_its_holders_end() -> Outcome {
    for _ in 0..5 {
        let (lender, memory) = (Lender::start()?, memory(1)?);
        let at = memory.base();
        let loan = lender.lends(READ_AND_GO, at, 8, TO_READ, 0).map_err(doing("lending"))?;
        lender.lost(loan, READ_AND_GO, Error::Dead)?;
        lender.holder.post.send(READ, [at, 8, 0, 0, 0, 0], None).map_err(doing("a message that lends nothing"))?;
        lender.is_stopped(at)?;
    }
    for round in 0..KILLS {
        let (lender, memory) = (Lender::start()?, memory(1)?);
        let at = memory.base();
        let loan = lender.lends(COUNT, at, 8, TO_WRITE, 0).map_err(doing("lending"))?;
        written(at, 8 + round * 10)?;
        lender.holder.child.kill().map_err(doing("kill"))?;
        lender.lost(loan, COUNT, Error::Dead)?;
        lender.is_killed()?;
    }
    Ok(())
}

/// A loan goes with its message: to whoever receives that, and with the post; and with the post that the answer goes to.
pub fn not_without_its_posts() -> Outcome {
    let (to, back, memory) = (post()?, post()?, memory(1)?);
    let at = memory.base();
    let lends = |op| to.send_lending(op, [at, 8, 0, 0, 0, 0], TO_WRITE, back, 0).map_err(doing("lending"));
    let loan = lends(READ)?;
    let holder = Holder::at(to)?;
    let message = back.receive(PATIENCE_NS).map_err(doing("hearing"))?;
    same!((message.back, message.words[0]), (loan, 7), "from one who came later");
    // The post for the answer goes.
    lends(COUNT)?;
    written(at, 100)?;
    back.free(true).map_err(doing("freeing"))?;
    nothing_is_written(at)?;
    holder.is_stopped(at)?;
    // And the post where it lies, before anybody has received it.
    let (to, back) = (post()?, post()?);
    let loan = to.send_lending(READ, [at, 8, 0, 0, 0, 0], TO_READ, back, 0).map_err(doing("lending"))?;
    to.free(true).map_err(doing("freeing"))?;
    let message = back.receive(PATIENCE_NS).map_err(doing("hearing"))?;
    same!((message.lost(), message.back), (Some(Error::NotFound), loan), "how it ended");
    back.free(true).map_err(doing("freeing"))
}

/// Its holder's calls to the kernel reach it while it is lent, and not after the answer, or when it was taken back.
pub fn calls_reach_it() -> Outcome {
    let (lender, memory) = (Lender::start()?, memory(1)?);
    let at = memory.base();
    let words = |to| [at, PAGE, to, 0, 0, 0];
    let calls = |op, lend| lender.holder.post.send_lending(op, words(at + 64), lend, lender.back, 0);
    for round in 0..20 {
        let letter = b'a' + round;
        [64, 72].into_iter().for_each(|behind| store(at + behind, u64::from_le_bytes([letter; 8])));
        calls(calls::NAME, TO_READ).map_err(doing("lending"))?;
        same!(lender.hears()?.words[0], 16 * u64::from(letter), "what it has the kernel read in round {round}");
        store(at + 64 + calls::TASK, 0);
        calls(calls::IDENTITY, TO_WRITE).map_err(doing("lending"))?;
        same!(lender.hears()?.words[0], 0, "what it has the kernel write in round {round}");
        same!(load(at + 64 + calls::TASK), lender.holder.child.task, "what was written in round {round}");
    }
    calls(calls::AFTER, TO_WRITE).map_err(doing("lending"))?;
    same!(lender.hears()?.words[1], 0, "what it had before it answered");
    store(at + 64 + calls::TASK, 0);
    lender.is_refused()?;
    same!(load(at + 64 + calls::TASK), 0, "what was written after the answer");
    // Taken back while the kernel writes there, again and again.
    let lender = Lender::start()?;
    let task = lender.holder.child.task;
    let loan = lender.holder.post.send_lending(calls::KEEP_ON, words(at), TO_WRITE, lender.back, 0);
    let loan = loan.map_err(doing("lending"))?;
    let until = time::now_ns() + PATIENCE_NS;
    while load(at + calls::TASK) != task && time::now_ns() < until {
        thread::yield_now();
    }
    same!(post::cancel(loan), Ok(()), "taking it back");
    same!(load(at + calls::TASK), task, "the holder has had the memory");
    store(at + calls::TASK, 0);
    lender.is_refused()?;
    same!(load(at + calls::TASK), 0, "what was written after that");
    Ok(())
}

/// Loans of a batch: fewer than may be queued.
const BATCH: u64 = 20;

pub fn untouched_it_costs_nothing() -> Outcome {
    let (lender, memory) = (Lender::start()?, memory(4)?);
    let lists = || (section::acl(memory.base()), section::acl(lender.holder.post.0), section::acl(lender.back.0));
    let before = lists();
    let batch = || -> Result<[u64; 4], String> {
        let before = loans::counted();
        for _ in 0..BATCH {
            lender.lends(LEAVE, memory.base(), 4 * PAGE, TO_WRITE, 0).map_err(doing("lending"))?;
        }
        for _ in 0..BATCH {
            same!(lender.hears()?.op, LEAVE, "an answer");
        }
        let after = loans::counted();
        Ok(core::array::from_fn(|i| after[i].wrapping_sub(before[i])))
    };
    // Others of this machine do something now and then: the least counts.
    let mut least = [u64::MAX; 4];
    for _ in 0..16 {
        let now = batch()?;
        least = core::array::from_fn(|i| least[i].min(now[i]));
    }
    same!(least, [0; 4], "faults, shootdowns, flushes, bytes copied besides messages, of {BATCH} loans");
    same!(lists(), before, "the lists afterwards");
    let before = loans::counted();
    lender.lends(READ, memory.base(), 8, TO_READ, 0).map_err(doing("lending"))?;
    same!(lender.hears()?.words[0], 7, "what the holder reads");
    holds!(loans::counted()[0] > before[0], "what is touched is had without a fault");
    lender.is_done()
}

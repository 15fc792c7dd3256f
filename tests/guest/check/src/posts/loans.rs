//! Memory that is lent with a question: its holder reaches it, nobody else does, and nobody when the question is over, however it ends.

pub mod calls;

use super::{entry, post};
use crate::memory::{data, load, store, word};
use crate::report::{Outcome, doing};
use crate::roles::WENT_THROUGH;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::info::Processor;
use musubi::abi::layout::PAGE;
use musubi::abi::task::{Exit, cause, exit};
use musubi::command::{Child, Command};
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{Section, Trap, section, task, thread, time};
use musubi::{Error, Rights};

/// What the holder does with the memory.
pub(super) const READ: u32 = 1;
pub(super) const WRITE: u32 = 2;
pub(super) const READ_LAST: u32 = 3;
/// After it has answered.
pub(super) const READ_AFTER: u32 = 4;
/// Again and again, and never answers.
pub(super) const COUNT: u32 = 5;
pub(super) const END: u32 = 6;
/// Reads, and sends what it has read to the post that the message names.
const READ_AND_SEND: u32 = 7;
/// Touches nothing.
pub(super) const LEAVE: u32 = 8;
/// Reads, and ends without an answer; another thread receives in its place.
pub(super) const READ_AND_GO: u32 = 9;

/// Lends word 0, with the length in word 1.
pub(crate) const TO_READ: u16 = 1;
pub(crate) const TO_WRITE: u16 = 1 << 8;

pub(super) const PATIENCE_NS: u64 = 20_000_000_000;
const KILLS: u64 = 12;

/// The program that receives questions, and has no right to any memory of ours.
pub fn holder(post: u64) -> i32 {
    let post = Post(post);
    let served = || -> Result<i32, Error> {
        let mut message = post.receive(FOR_EVER)?;
        loop {
            let [at, len, ..] = message.words;
            let value = match message.op {
                READ => load(at),
                WRITE => {
                    store(at, 0x77);
                    0
                }
                READ_LAST => load(at + len - 8),
                READ_AFTER => {
                    post::answer(message.back, READ_AFTER, [load(at); 6])?;
                    load(at);
                    return Ok(WENT_THROUGH);
                }
                COUNT => loop {
                    word(at).fetch_add(1, Ordering::SeqCst);
                },
                READ_AND_SEND => {
                    Post(message.back).send(READ_AND_SEND, [load(at); 6], None)?;
                    message = post.receive(FOR_EVER)?;
                    continue;
                }
                LEAVE => 0,
                READ_AND_GO => {
                    load(at);
                    let me = task::identity().thread;
                    // With the records that this one leaves behind.
                    let next = move || {
                        let _ = stub::thread_join(&Trap, me, u64::MAX);
                        task::exit(holder(post.0))
                    };
                    thread::spawn(next, 0)?;
                    thread::exit(0)
                }
                op if calls::OPS.contains(&op) => match calls::serve(&message, post) {
                    Ok(value) => value,
                    Err(status) => return Ok(status),
                },
                _ => return Ok(0),
            };
            message = post::answer_and_receive(message.back, message.op, [value; 6], post, FOR_EVER)?;
        }
    };
    served().unwrap_or(2)
}

pub(super) struct Holder {
    pub post: Post,
    pub child: Child,
}

impl Holder {
    pub fn start() -> Result<Holder, String> {
        Holder::at(post()?)
    }

    /// One that receives at this post.
    pub fn at(post: Post) -> Result<Holder, String> {
        post.allow(&entry(Rights::READ)).map_err(doing("allowing"))?;
        let number = format!("{}", post.0);
        let child = Command::new(b"bin/check").args(["check", "as", "post-holder", &number]).spawn();
        Ok(Holder { post, child: child.map_err(doing("starting"))? })
    }

    fn ask(&self, op: u32, at: u64, len: u64, lend: u16) -> Result<u64, Error> {
        self.post.ask_lending(op, [at, len, 0, 0, 0, 0], lend, FOR_EVER).map(|answer| answer.words[0])
    }

    pub fn ends(self) -> Result<Exit, String> {
        let exit = self.child.wait_for(PATIENCE_NS).map_err(doing("the holder's end"))?;
        self.post.free(true).map_err(doing("freeing"))?;
        Ok(exit)
    }

    /// It has tried what it may not (any more).
    pub fn is_stopped(self, at: u64) -> Outcome {
        let exit = self.ends()?;
        same!((exit.kind, exit.cause, exit.address), (exit::FAULT, cause::DENIED, at), "how the holder ended");
        Ok(())
    }
}

pub(super) fn memory(pages: u64) -> Result<Section, String> {
    let section = data(pages * PAGE).map_err(doing("create"))?;
    (0..pages).for_each(|page| store(section.base() + page * PAGE, page + 7));
    Ok(section)
}

pub fn what_is_lent_is_reached() -> Outcome {
    let (holder, memory) = (Holder::start()?, memory(4)?);
    let at = memory.base();
    for round in 0..50 {
        same!(holder.ask(READ, at, 8, TO_READ), Ok(7 + round), "what the holder reads in round {round}");
        word(at).fetch_add(1, Ordering::SeqCst);
    }
    same!(holder.ask(WRITE, at + PAGE, 8, TO_WRITE), Ok(0), "what the holder writes");
    same!(load(at + PAGE), 0x77, "what was written");
    store(at + 4 * PAGE - 8, 0x99);
    same!(holder.ask(READ_LAST, at, 4 * PAGE, TO_READ), Ok(0x99), "the last word of four pages");
    same!(holder.post.ask_lending(READ, [at; 6], 1 << 5, FOR_EVER), Err(Error::BadArgument), "a word with no length");
    same!(holder.post.ask_lending(READ, [at; 6], 3, FOR_EVER), Err(Error::BadArgument), "a length that is an address");
    // Access lists do not know of any of it.
    same!(section::grant(at, &entry(Rights::empty())).is_ok(), true, "the own list");
    holder.post.send(END, [0; 6], None).map_err(doing("the last one"))?;
    same!(holder.ends()?.code, 0, "how the holder ended");
    Ok(())
}

/// Neither what was not lent, nor for what it was not lent, nor what the lender may not use itself.
pub fn no_more_than_that() -> Outcome {
    let memory = memory(4)?;
    let at = memory.base();
    let refused = |op, first, len, lend, touched| -> Outcome {
        let holder = Holder::start()?;
        same!(holder.ask(op, first, len, lend), Err(Error::Dead), "asking for {op} at {first:#x}");
        holder.is_stopped(touched)
    };
    refused(READ, at, 8, 0, at)?;
    refused(WRITE, at, 8, TO_READ, at)?;
    refused(READ_LAST, at + PAGE, 0, TO_READ, at + PAGE - 8)?;
    same!(load(at), 7, "what was not to be written");
    // A section of which the lender may read, but not write.
    let me = task::identity();
    let mine = musubi::AclEntry {
        principal: musubi::abi::rights::principal::TASK,
        rights: (Rights::READ | Rights::CHANGE_ACL).bits(),
        id: me.task,
        text: me.text,
    };
    section::grant(at, &mine).map_err(doing("giving up a right"))?;
    refused(WRITE, at, 8, TO_WRITE, at)?;
    // And one that it knows only by its address.
    refused(READ, musubi::start().names(), 8, TO_READ, musubi::start().names()).or_else(|why| {
        // Where a gate is there is nothing to be read at all.
        if why.contains("how the holder ended") { Ok(()) } else { Err(why) }
    })
}

pub fn not_after_the_answer() -> Outcome {
    for _ in 0..5 {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let at = memory.base();
        same!(holder.ask(READ_AFTER, at, 8, TO_READ), Ok(7), "what the holder reads");
        holder.is_stopped(at)?;
    }
    Ok(())
}

/// The asker's limit of time is over while the holder writes.
pub fn not_after_a_time_out() -> Outcome {
    for round in 1..=5u64 {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let at = memory.base();
        let asked = holder.post.ask_lending(COUNT, [at, 8, 0, 0, 0, 0], TO_WRITE, 100_000_000 * round);
        same!(asked.map(|answer| answer.words), Err(Error::TimedOut), "asking one that never answers");
        // Not one more from the moment on at which the asker knows.
        let count = load(at);
        time::sleep_ns(2_000_000);
        same!(load(at), count, "writes after the end");
        // It has begun to, or the question was not received before it was over.
        if count > 7 {
            holder.is_stopped(at)?;
        } else {
            // It may be about to touch it, and be stopped at that.
            let _ = holder.child.kill();
            holder.ends()?;
        }
        holds!(round < 5 || count > 7, "the holder never had the memory");
    }
    Ok(())
}

/// The asker is killed at any moment while the holder writes.
pub fn not_after_a_kill() -> Outcome {
    let mut wrote = 0;
    for round in 0..KILLS {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let (at, post) = (memory.base(), holder.post);
        let asker = thread::spawn(move || _ = post.ask_lending(COUNT, [at, 8, 0, 0, 0, 0], TO_WRITE, FOR_EVER), 0);
        let asker = asker.map_err(doing("thread"))?;
        if round % 3 == 0 {
            time::sleep_ns(round * 300_000);
        } else {
            let until = time::now_ns() + PATIENCE_NS;
            while load(at) < 7 + round * 10 && time::now_ns() < until {
                thread::yield_now();
            }
        }
        asker.kill().map_err(doing("kill"))?;
        asker.join().map_err(doing("join"))?;
        let count = load(at);
        time::sleep_ns(2_000_000);
        same!(load(at), count, "writes after the end of the asker, in round {round}");
        if count > 7 {
            wrote += 1;
            holder.is_stopped(at)?;
        } else {
            // It may be about to touch it, and be stopped at that.
            let _ = holder.child.kill();
            holder.ends()?;
        }
    }
    holds!(wrote >= KILLS / 2, "the holder had the memory in {wrote} of {KILLS} rounds");
    Ok(())
}

/// The same with a message whose answer comes to a post.
pub fn in_one_step_with_a_receive() -> Outcome {
    let (holder, memory, back) = (Holder::start()?, memory(1)?, post()?);
    let (at, to) = (memory.base(), holder.post);
    back.allow(&entry(Rights::CALL)).map_err(doing("allowing"))?;
    let lends = |op, lend| to.send_and_receive_lending(op, [at, 8, 0, 0, 0, 0], lend, back, FOR_EVER);
    for round in 0..20 {
        let came = lends(READ_AND_SEND, TO_READ).map(|message| (message.op, message.words[0]));
        same!(came, Ok((READ_AND_SEND, 7 + round)), "what the holder reads in round {round}");
        word(at).fetch_add(1, Ordering::SeqCst);
    }
    same!(lends(READ, 3).map(drop), Err(Error::BadArgument), "a length that is an address");
    // A message of somebody else ends the wait, and so the loan.
    let before = load(at);
    let stranger = thread::spawn(
        move || {
            while load(at) < before + 10 {
                thread::yield_now();
            }
            let _ = back.send(READ_LAST, [0; 6], None);
        },
        0,
    );
    same!(lends(COUNT, TO_WRITE).map(|message| message.op), Ok(READ_LAST), "what came first");
    let count = load(at);
    time::sleep_ns(2_000_000);
    same!(load(at), count, "writes after the end");
    stranger.map_err(doing("thread"))?.join().map_err(doing("join"))?;
    back.free(true).map_err(doing("freeing"))?;
    holder.is_stopped(at)
}

/// The thread that holds the question ends, and its program goes on.
pub fn not_after_its_holders_end() -> Outcome {
    for _ in 0..5 {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let at = memory.base();
        same!(holder.ask(READ_AND_GO, at, 8, TO_READ), Err(Error::Dead), "what the asker hears");
        holder.post.send(READ, [at, 8, 0, 0, 0, 0], None).map_err(doing("a message that lends nothing"))?;
        holder.is_stopped(at)?;
    }
    Ok(())
}

/// Questions of a batch.
const BATCH: u64 = 200;

/// No list changes, no view and no translation; and what is lent is not looked at before it is touched.
pub fn untouched_it_costs_nothing() -> Outcome {
    let (holder, memory) = (Holder::start()?, memory(4)?);
    let lists = || (section::acl(memory.base()), section::acl(holder.post.0));
    let before = lists();
    let batch = |lend| -> Result<[u64; 4], String> {
        let before = counted();
        for _ in 0..BATCH {
            same!(holder.ask(LEAVE, memory.base(), 4 * PAGE, lend), Ok(0), "an answer");
        }
        let after = counted();
        Ok(core::array::from_fn(|i| after[i].wrapping_sub(before[i])))
    };
    // Others of this machine do something now and then: the least counts.
    let mut least = [[u64::MAX; 4]; 2];
    for _ in 0..8 {
        for (least, lend) in least.iter_mut().zip([0, TO_WRITE]) {
            let now = batch(lend)?;
            *least = core::array::from_fn(|i| least[i].min(now[i]));
        }
    }
    same!(
        least,
        [[0; 4]; 2],
        "faults, shootdowns, flushes, bytes copied besides messages, of {BATCH} questions: without a loan, and with one"
    );
    holds!(before.0.is_ok() && before.1.is_ok(), "the lists: {before:?}");
    same!(lists(), before, "the lists afterwards");
    // And touched it does cost something.
    let before = counted();
    same!(holder.ask(READ, memory.base(), 8, TO_READ), Ok(7), "what the holder reads");
    holds!(counted()[0] > before[0], "what is touched is had without a fault");
    holder.post.send(END, [0; 6], None).map_err(doing("the last one"))?;
    same!(holder.ends()?.code, 0, "how the holder ended");
    Ok(())
}

pub(crate) fn counted() -> [u64; 4] {
    // A question for one who is woken is kept for it, which is a copy of the message. What is lent is longer.
    let besides = |p: &Processor| p.copied_bytes.wrapping_sub(p.copies * size_of::<[u64; 6]>() as u64);
    let each = |p: Processor| [p.faults, p.shootdowns, p.tlb_flushes, besides(&p)];
    task::processors().map(each).fold([0; 4], |sum, one| core::array::from_fn(|i| sum[i].wrapping_add(one[i])))
}

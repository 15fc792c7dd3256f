//! What is lent, named to the kernel: its holder's calls reach as far as its own loads and stores, and as long.

use super::{Holder, KILLS, PATIENCE_NS, TO_READ, TO_WRITE, memory};
use crate::memory::{data, load, store};
use crate::posts::entry;
use crate::report::{Outcome, doing};
use crate::roles::WENT_THROUGH;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use core::mem::offset_of;
use core::ops::RangeInclusive;
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::rights::principal;
use musubi::abi::task::Identity;
use musubi::rt::post::{self, FOR_EVER, Message, Post};
use musubi::rt::{Trap, section, task, thread, time};
use musubi::{AclEntry, Error, Rights};

/// What the holder calls the kernel for, at the address in word 2: it names a section by what lies there.
pub(in crate::posts) const NAME: u32 = 0x10;
/// Has its identity written.
pub(in crate::posts) const IDENTITY: u32 = 0x11;
/// Waits, for no time, while what [`memory`] has put into the first page lies there; and wakes whoever does.
const WAIT: u32 = 0x12;
const WAKE: u32 = 0x13;
/// All of these, after it has answered.
pub(in crate::posts) const AFTER: u32 = 0x14;
/// On another of its threads; then that one loads.
const ELSEWHERE: u32 = 0x15;
/// Has its identity written again and again, and never answers.
pub(in crate::posts) const KEEP_ON: u32 = 0x16;

/// All of them.
pub const OPS: RangeInclusive<u32> = NAME..=KEEP_ON;

/// The status of a holder that was refused as it should be.
pub(in crate::posts) const REFUSED: i32 = 77;

/// Two words, the second on the next page where there are two.
const NAME_LEN: u64 = 16;

pub(in crate::posts) const TASK: u64 = offset_of!(Identity, task) as u64;

fn named_by(at: u64) -> Result<u64, Error> {
    let mine = data(PAGE)?;
    stub::section_name(&Trap, mine.base(), at, NAME_LEN)?;
    let name = section::info(mine.base())?.name;
    Ok(name[..NAME_LEN as usize].iter().fold(0, |sum, byte| sum + u64::from(*byte)))
}

fn called(op: u32, at: u64) -> Result<u64, Error> {
    match op {
        NAME => named_by(at),
        IDENTITY => stub::identity(&Trap, at),
        WAIT => stub::wait(&Trap, at, 7, 0),
        WAKE => stub::wake(&Trap, at, u64::MAX),
        _ => Err(Error::BadArgument),
    }
}

/// Value, or the error's word.
fn told(op: u32, at: u64) -> u64 {
    called(op, at).unwrap_or_else(Error::word)
}

/// The object, if that is the word of a refusal.
fn refused(word: u64) -> Option<Object> {
    Error::from_word(word)?.refusal().map(|refusal| refusal.object)
}

/// Whether the section's list refuses all of it.
fn is_all_refused(at: u64, base: u64) -> bool {
    let missing = [(NAME, Rights::READ), (IDENTITY, Rights::WRITE), (WAIT, Rights::READ), (WAKE, Rights::WRITE)];
    missing.iter().all(|(op, right)| refused(told(*op, at)) == Some(Object::Section(base, *right)))
}

/// The holder's side: what it answers with, or the status with which it ends.
pub fn serve(message: &Message, post: Post) -> Result<u64, i32> {
    let [base, _, at, ..] = message.words;
    let status = |is_kept| if is_kept { REFUSED } else { WENT_THROUGH };
    match message.op {
        AFTER => {
            let before = [told(NAME, at), told(IDENTITY, at)];
            post::answer(message.back, AFTER, [before[0], before[1], 0, 0, 0, 0]).map_err(|_| 2)?;
            Err(status(is_all_refused(at, base)))
        }
        ELSEWHERE => {
            load(at);
            let is_here = called(NAME, at).and(called(IDENTITY, at)).is_ok();
            let other = move || {
                // As one who has waited for messages, too.
                let polled = post.receive(0).map(drop);
                if is_here && polled == Err(Error::TimedOut) && is_all_refused(at, base) {
                    load(at);
                }
                task::exit(WENT_THROUGH)
            };
            let _ = thread::spawn(other, 0).and_then(thread::Thread::join);
            Err(2)
        }
        KEEP_ON => loop {
            if let Err(why) = called(IDENTITY, at) {
                return Err(status(refused(why.word()) == Some(Object::Section(base, Rights::WRITE))));
            }
        },
        op => Ok(told(op, at)),
    }
}

impl Holder {
    /// Has it call the kernel with `to`.
    fn calls(&self, op: u32, [at, len, to]: [u64; 3], lend: u16) -> Result<u64, Error> {
        self.post.ask_lending(op, [at, len, to, 0, 0, 0], lend, FOR_EVER).map(|answer| answer.words[0])
    }

    fn is_done(self) -> Outcome {
        self.post.send(super::END, [0; 6], None).map_err(doing("the last one"))?;
        same!(self.ends()?.code, 0, "how the holder ended");
        Ok(())
    }
}

pub fn are_served() -> Outcome {
    let (holder, memory) = (Holder::start()?, memory(4)?);
    let (at, len) = (memory.base(), 4 * PAGE);
    let across = at + PAGE - 8;
    for round in 0..50 {
        store(across, u64::from_le_bytes(*b"lent to "));
        store(across + 8, u64::from_le_bytes([b'a' + round; 8]));
        let sum = b"lent to ".iter().map(|byte| u64::from(*byte)).sum::<u64>() + 8 * u64::from(b'a' + round);
        same!(holder.calls(NAME, [at, len, across], TO_READ), Ok(sum), "what it reads in round {round}");
        store(across + TASK, 0);
        same!(holder.calls(IDENTITY, [at, len, across], TO_WRITE), Ok(0), "what it writes in round {round}");
        same!(load(across + TASK), holder.child.task, "what was written in round {round}");
    }
    let waits = |value| {
        store(at, value);
        holder.calls(WAIT, [at, len, at], TO_READ)
    };
    same!(waits(7), Ok(Error::TimedOut.word()), "a wait while the word is that");
    same!(waits(8), Ok(Error::Changed.word()), "a wait while the word is another");
    same!(holder.calls(WAKE, [at, len, at], TO_WRITE), Ok(0), "who waits there");
    holder.is_done()
}

/// Neither what was not lent, nor for what it was not lent, nor what the lender may not use itself. (Nobody has to end for that.)
pub fn no_further_than_lent() -> Outcome {
    let (holder, memory) = (Holder::start()?, memory(4)?);
    let at = memory.base();
    let lacks = |op, words, lend, right| -> Outcome {
        let word = holder.calls(op, words, lend).map_err(doing("asking"))?;
        same!(refused(word), Some(Object::Section(at, right)), "{op:#x} with {words:x?} lent as {lend:#x}");
        Ok(())
    };
    for op in [NAME, WAIT] {
        lacks(op, [at, PAGE, at], 0, Rights::READ)?;
        lacks(op, [at, PAGE, at + PAGE], TO_READ, Rights::READ)?;
    }
    lacks(NAME, [at, PAGE, at + PAGE - 8], TO_READ, Rights::READ)?;
    for op in [IDENTITY, WAKE] {
        lacks(op, [at, PAGE, at], 0, Rights::WRITE)?;
        lacks(op, [at, PAGE, at], TO_READ, Rights::WRITE)?;
        lacks(op, [at, PAGE, at + PAGE], TO_WRITE, Rights::WRITE)?;
    }
    same!(load(at), 7, "what was not to be written");
    same!(load(at + PAGE), 8, "what was not lent");
    // A section of which the lender may read, but not write.
    let me = task::identity();
    let rights = Rights::READ | Rights::CHANGE_ACL;
    let mine = AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    section::grant(at, &mine).map_err(doing("giving up a right"))?;
    lacks(IDENTITY, [at, PAGE, at], TO_WRITE, Rights::WRITE)?;
    same!(holder.calls(WAIT, [at, PAGE, at], TO_WRITE), Ok(Error::TimedOut.word()), "what it may read");
    same!(load(at), 7, "what was not to be written");
    // And what is on nobody's list but the holder's it has as always.
    same!(section::grant(at, &entry(Rights::READ)).is_ok(), true, "the own list");
    same!(holder.calls(WAIT, [at, PAGE, at], 0), Ok(Error::TimedOut.word()), "what all may read");
    holder.is_done()
}

pub fn not_after_the_answer() -> Outcome {
    for _ in 0..5 {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let at = memory.base();
        let answer = holder.post.ask_lending(AFTER, [at, PAGE, at + 64, 0, 0, 0], TO_WRITE, FOR_EVER);
        same!(answer.map(|answer| answer.words[1]), Ok(0), "what it had before it answered");
        store(at + 64 + TASK, 0);
        same!(holder.ends()?.code, REFUSED as u64, "how the holder ended");
        same!(load(at + 64 + TASK), 0, "what was written after the answer");
    }
    Ok(())
}

/// Another thread of the holder is refused by the kernel, and stopped where it loads.
pub fn not_on_other_threads() -> Outcome {
    let (holder, memory) = (Holder::start()?, memory(1)?);
    let at = memory.base();
    same!(holder.calls(ELSEWHERE, [at, PAGE, at], TO_WRITE), Err(Error::Dead), "what the asker hears");
    holder.is_stopped(at)
}

/// The asker knows that it is over, and what is written from then on is found. Whether the holder had the memory.
fn nothing_comes(holder: Holder, at: u64) -> Result<bool, String> {
    let wrote = load(at + TASK) == holder.child.task;
    store(at + TASK, 0);
    time::sleep_ns(2_000_000);
    same!(load(at + TASK), 0, "what was written after the end");
    if wrote {
        same!(holder.ends()?.code, REFUSED as u64, "how the holder ended");
    } else {
        // The question was not received before it was over, or is about to be.
        let _ = holder.child.kill();
        holder.ends()?;
    }
    same!(load(at + TASK), 0, "what was written until its end");
    Ok(wrote)
}

pub fn not_after_a_time_out() -> Outcome {
    let mut had = false;
    for round in 1..=5u64 {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let at = memory.base();
        let asked = holder.post.ask_lending(KEEP_ON, [at, PAGE, at, 0, 0, 0], TO_WRITE, 100_000_000 * round);
        same!(asked.map(|answer| answer.words), Err(Error::TimedOut), "asking one that never answers");
        had = nothing_comes(holder, at)?;
    }
    holds!(had, "the holder never had the memory");
    Ok(())
}

/// The asker is killed at any moment while the kernel writes.
pub fn not_after_a_kill() -> Outcome {
    let mut wrote = 0;
    for round in 0..KILLS {
        let (holder, memory) = (Holder::start()?, memory(1)?);
        let (at, post, task) = (memory.base(), holder.post, holder.child.task);
        let asker =
            thread::spawn(move || _ = post.ask_lending(KEEP_ON, [at, PAGE, at, 0, 0, 0], TO_WRITE, FOR_EVER), 0);
        let asker = asker.map_err(doing("thread"))?;
        if round % 3 == 0 {
            time::sleep_ns(round * 300_000);
        } else {
            let until = time::now_ns() + PATIENCE_NS;
            for _ in 0..=round {
                store(at + TASK, 0);
                while load(at + TASK) != task && time::now_ns() < until {
                    thread::yield_now();
                }
            }
        }
        asker.kill().map_err(doing("kill"))?;
        asker.join().map_err(doing("join"))?;
        wrote += u64::from(nothing_comes(holder, at).map_err(|why| format!("round {round}: {why}"))?);
    }
    holds!(wrote >= KILLS / 2, "the holder had the memory in {wrote} of {KILLS} rounds");
    Ok(())
}

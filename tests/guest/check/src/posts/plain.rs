//! Messages that are sent by one call and received by another, on the short way wherever nothing but the pool is concerned: what is
//! left in registers, who has sent them, and what ends or refuses such a call.

use super::{WORDS, flood, post, until};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::number;
use musubi::abi::post::head;
use musubi::abi::refusal::Object;
use musubi::abi::rights::principal;
use musubi::rt::post::{FOR_EVER, Message, Post, answer_and_receive, receive_of};
use musubi::rt::{task, thread, time};
use musubi::{AclEntry, Error, Rights};

/// Registers before a call, and afterwards.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
struct Registers {
    /// rax rdx rcx r11, which a call may change.
    changed: [u64; 4],
    /// rbx rbp rsi rdi r8 r9 r10 r12 r13 r14 r15.
    kept: [u64; 11],
    vector: [u64; 2],
    mxcsr: u64,
}

const MS: u64 = 1_000_000;

const RAX: usize = 0;
const RDX: usize = 1;
const RSI: usize = 2;
const RDI: usize = 3;
const R15: usize = 10;
/// Rounding up, nothing masked less than usual.
const MXCSR: u64 = 0x5f80;

/// Makes a call with these registers, and leaves there what it has left.
#[unsafe(naked)]
extern "C" fn call(registers: *mut Registers) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rax",
        "stmxcsr [rsp]",
        "push rdi",
        "movups xmm9, [rdi + 120]",
        "ldmxcsr [rdi + 136]",
        "mov rax, [rdi]",
        "mov rdx, [rdi + 8]",
        "mov rbx, [rdi + 32]",
        "mov rbp, [rdi + 40]",
        "mov rsi, [rdi + 48]",
        "mov r8, [rdi + 64]",
        "mov r9, [rdi + 72]",
        "mov r10, [rdi + 80]",
        "mov r12, [rdi + 88]",
        "mov r13, [rdi + 96]",
        "mov r14, [rdi + 104]",
        "mov r15, [rdi + 112]",
        "mov rdi, [rdi + 56]",
        "syscall",
        "xchg rdi, [rsp]",
        "mov [rdi], rax",
        "mov [rdi + 8], rdx",
        "mov [rdi + 16], rcx",
        "mov [rdi + 24], r11",
        "mov [rdi + 32], rbx",
        "mov [rdi + 40], rbp",
        "mov [rdi + 48], rsi",
        "mov [rdi + 64], r8",
        "mov [rdi + 72], r9",
        "mov [rdi + 80], r10",
        "mov [rdi + 88], r12",
        "mov [rdi + 96], r13",
        "mov [rdi + 104], r14",
        "mov [rdi + 112], r15",
        "movups [rdi + 120], xmm9",
        "stmxcsr [rdi + 136]",
        "pop rax",
        "mov [rdi + 56], rax",
        "ldmxcsr [rsp]",
        "pop rax",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
    )
}

/// All registers full, for a message to this post.
fn message(post: Post, back: u64, lend: u16) -> Registers {
    let mut kept = core::array::from_fn(|n| 0x1111_1111_1111_1111 * (n as u64 + 1));
    (kept[RDI], kept[RSI], kept[R15]) = (post.0, back, head(7, lend, 0));
    let changed = [number("post_send"), 0x7777, 0, 0];
    Registers { changed, kept, vector: [0x5ec7, 0xe75e], mxcsr: MXCSR }
}

/// A send that ends with this: nothing but what a call may change has changed.
fn sends(before: Registers, status: u64, how: &str) -> Outcome {
    let mut after = before;
    call(&mut after);
    same!([after.changed[RAX], after.changed[RDX]], [status, 0], "rax and rdx, {how}");
    same!(after.kept, before.kept, "what is kept, {how}");
    same!((after.vector, after.mxcsr as u32), (before.vector, MXCSR as u32), "vector registers, {how}");
    Ok(())
}

fn sender(of: &Message) -> [u64; 5] {
    [of.thread, of.task, of.user, of.text, of.node]
}

/// Whatever becomes of the message: it is left there, somebody is woken for it, or it is refused.
pub fn a_send_keeps_registers() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    static GOT: AtomicU64 = AtomicU64::new(0);
    let (post, other) = (post()?, post()?);
    let full = message(post, 0, 0);
    let words = [6, 4, 5, 7, 8, 9].map(|register| full.kept[register]);
    let me = task::identity();
    let me = [me.thread, me.task, me.user, me.text, me.node];
    for round in 0..3 {
        // Known from the second round on.
        same!(other.receive(0), Err(Error::TimedOut), "nothing there");
        sends(full, 0, "left there")?;
        sends(message(post, other.0, 0), 0, "with a post for the answer")?;
        sends(message(post, 0, 1), Error::BadArgument.word(), "with memory")?;
        for back in [0, other.0] {
            let came = post.receive(FOR_EVER).map_err(doing("receiving"))?;
            same!((came.op, came.words, came.back), (7, words, back), "round {round}");
            same!(sender(&came), me, "who has sent it, whatever was in the registers");
        }
    }
    let receiver = move || {
        for _ in 0..5 {
            HERE.fetch_add(1, Ordering::SeqCst);
            let came = post.receive(FOR_EVER).map(|message| (message.words, sender(&message)));
            GOT.fetch_add(u64::from(came == Ok((words, me))), Ordering::SeqCst);
        }
    };
    let receiver = thread::spawn(receiver, 0).map_err(doing("starting"))?;
    for round in 1..=5 {
        until(&HERE, round);
        sends(full, 0, "with somebody who waits")?;
    }
    receiver.join().map_err(doing("joining"))?;
    same!(GOT.load(Ordering::SeqCst), 5, "messages that came as they were");
    post.free(true).and_then(|()| other.free(true)).map_err(doing("freeing"))?;
    sends(full, Error::NotFound.word(), "to a post that is gone")
}

/// Nothing of whoever sent is in a register that is not the message's, and nothing at all if none came.
pub fn a_receive_leaves_the_message_only() -> Outcome {
    let post = post()?;
    let me = task::identity();
    for round in 0..3 {
        for ns in [0, FOR_EVER] {
            post.send(7, WORDS, None).map_err(doing("sending"))?;
            let mut registers = message(post, 1, 0);
            registers.changed = [number("post_receive"), ns, 0, 0];
            call(&mut registers);
            let [rbx, rbp, rsi, rdi, r8, r9, r10, r12, r13, r14, r15] = registers.kept;
            same!([r10, r8, r9, r12, r13, r14], WORDS, "words, round {round}");
            same!([rbx, rbp, rsi, r15], [me.thread, me.text | me.node, me.user, me.task], "who has sent it");
            same!((registers.changed[RAX], rdi), (0, 0), "status, and where the answer goes");
            same!(registers.changed[RDX] & !(0xffff << 32), head(7, 0, 0), "head");
        }
        let mut registers = message(post, 1, 0);
        registers.changed = [number("post_receive"), 0, 0, 0];
        call(&mut registers);
        same!([registers.changed[RAX], registers.changed[RDX]], [Error::TimedOut.word(), 0], "nothing there");
        same!(registers.kept, [0; 11], "what is left then");
    }
    post.free(false).map_err(doing("freeing"))
}

const SENDERS: usize = 3;
const EACH: u64 = 300;

/// Several send to one post, more than they may leave there, and one receives: all comes once, in the order of each, with its name.
pub fn messages_of_many_say_who_sent_them() -> Outcome {
    let post = post()?;
    let send = move || {
        for n in 0..EACH {
            while let Err(error) = post.send(1, [n; 6], None) {
                assert_eq!(error, Error::MessageQuota);
                thread::yield_now();
            }
        }
    };
    let senders: Result<Vec<_>, Error> = (0..SENDERS).map(|_| thread::spawn(send, 0)).collect();
    let senders = senders.map_err(doing("starting"))?;
    let me = task::identity();
    let mut next = [0; SENDERS];
    for _ in 0..SENDERS as u64 * EACH {
        let came = post.receive(FOR_EVER).map_err(doing("receiving"))?;
        let from = senders.iter().position(|sender| sender.number() == came.thread);
        let Some(from) = from else { return Err(format!("a stranger's: {came:?}")) };
        same!((came.task, came.text, came.user, came.node), (me.task, me.text, me.user, me.node), "who has sent it");
        same!(came.words, [next[from]; 6], "the next of sender {from}");
        next[from] += 1;
    }
    same!(post.receive(0), Err(Error::TimedOut), "what is left");
    senders.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("joining"))?;
    post.free(false).map_err(doing("freeing"))
}

/// A limit is the same one each time, whichever call fills the post and whichever empties it.
pub fn a_limit_is_the_same_each_time() -> Outcome {
    let post = post()?;
    let (first, _) = flood(post);
    (0..first).try_for_each(|_| post.receive(0).map(drop)).map_err(doing("emptying"))?;
    for round in 0..3 {
        let sent = (0..=first).take_while(|n| post.send(1, [*n; 6], None).is_ok()).count() as u64;
        same!(sent, first, "messages in round {round}");
        same!(post.send(1, WORDS, None), Err(Error::MessageQuota), "one more");
        for n in 0..first {
            let ns = if n % 2 == 0 { 0 } else { FOR_EVER };
            same!(post.receive(ns).map(|message| message.words), Ok([n; 6]), "in their order");
        }
        same!(post.receive(0), Err(Error::TimedOut), "nothing is left");
    }
    post.free(false).map_err(doing("freeing"))
}

/// A thread that rests in a plain receive, after others that found something, is killed: what is sent then is for the next one.
pub fn a_killed_receiver_takes_nothing() -> Outcome {
    static HERE: AtomicU64 = AtomicU64::new(0);
    let post = post()?;
    for round in 1..=60 {
        post.send(1, WORDS, None).map_err(doing("sending"))?;
        post.send(1, WORDS, None).map_err(doing("sending"))?;
        let receiver = move || {
            let two = (0..2).all(|_| post.receive(FOR_EVER).is_ok());
            HERE.fetch_add(u64::from(two), Ordering::SeqCst);
            let _ = post.receive(FOR_EVER);
        };
        let receiver = thread::spawn(receiver, 0).map_err(doing("starting"))?;
        if round % 2 == 0 {
            until(&HERE, round);
        } else {
            // On its way into the wait, or wherever it is: a little later each time.
            for looks in 1_u64.. {
                if HERE.load(Ordering::SeqCst) >= round {
                    break;
                }
                if looks.is_multiple_of(1000) { thread::yield_now() } else { core::hint::spin_loop() }
            }
            (0..round * 20).for_each(|_| core::hint::spin_loop());
        }
        receiver.kill().map_err(doing("killing"))?;
        receiver.join().map_err(doing("joining"))?;
        post.send(2, WORDS, None).map_err(doing("sending"))?;
        same!(post.receive(0).map(|message| message.op), Ok(2), "what was sent afterwards, round {round}");
    }
    post.free(false).map_err(doing("freeing: nobody waits there"))
}

/// What the lists allowed is known to the short way; it is asked again when they change.
pub fn a_list_that_changes_is_asked_again() -> Outcome {
    let (post, answers, me) = (post()?, post()?, task::identity());
    let may = |post: Post, rights: Rights| {
        let rights = (rights | Rights::CHANGE_ACL).bits();
        post.allow(&AclEntry { principal: principal::TASK, rights, id: me.task, text: me.text })
    };
    let allow = |rights: Rights| may(post, rights);
    let refused = |error: Error| error.refusal().map(|refusal| refusal.object);
    let both = Rights::CALL | Rights::READ;
    for round in 0..5 {
        allow(both).map_err(doing("giving both"))?;
        for _ in 0..3 {
            post.send(1, WORDS, None).map_err(doing("sending"))?;
            post.receive(FOR_EVER).map_err(doing("receiving"))?;
        }
        may(answers, Rights::READ).map_err(doing("giving the right to receive answers"))?;
        same!(answers.receive(0), Err(Error::TimedOut), "no answer");
        post.send(2, WORDS, Some(answers)).map_err(doing("sending"))?;
        may(answers, Rights::CALL).map_err(doing("taking the right to receive answers"))?;
        let sent = post.send(3, WORDS, Some(answers)).map_err(refused);
        same!(sent, Err(Some(Object::Section(answers.0, Rights::READ))), "sending for an answer without");
        allow(Rights::READ).map_err(doing("taking the right to send"))?;
        let sent = post.send(3, WORDS, None).map_err(refused);
        same!(sent, Err(Some(Object::Section(post.0, Rights::CALL))), "sending without, round {round}");
        same!(post.receive(0).map(|message| (message.op, message.back)), Ok((2, answers.0)), "receiving with");
        allow(Rights::CALL).map_err(doing("taking the right to receive"))?;
        post.send(4, WORDS, None).map_err(doing("sending"))?;
        for ns in [0, FOR_EVER] {
            let came = post.receive(ns).map_err(refused);
            same!(came.map(drop), Err(Some(Object::Section(post.0, Rights::READ))), "receiving without");
        }
        // Somebody else's right changes nothing for this one, but for what it has to ask again.
        allow(both).and_then(|()| post.allow(&everybody(Rights::CALL))).map_err(doing("giving all"))?;
        post.allow(&everybody(Rights::empty())).map_err(doing("taking everybody's"))?;
        same!(post.receive(FOR_EVER).map(|message| message.op), Ok(4), "round {round}");
    }
    holds!(post.receive(0) == Err(Error::TimedOut), "something is left");
    post.free(false).and_then(|()| answers.free(false)).map_err(doing("freeing"))
}

/// The limit of a call that is refused is none of the next wait, whichever way the call took: the timer is set early enough for the short one.
pub fn a_limit_of_what_was_refused_is_over() -> Outcome {
    let gone = post()?;
    gone.free(false).map_err(doing("freeing"))?;
    let post = post()?;
    let refused: [(&str, fn(Post, Post) -> Result<Message, Error>, Error); 4] = [
        ("one post twice", |post, _| receive_of(&[post, post], 60 * MS), Error::BadArgument),
        ("the post is gone", |post, gone| gone.send_and_receive(1, WORDS, post, 60 * MS), Error::NotFound),
        ("the asker is gone", |post, _| answer_and_receive(1 << 32 | 1, 1, WORDS, post, 60 * MS), Error::NotFound),
        (
            "nothing to lend",
            |post, _| post.send_and_receive_lending(1, WORDS, 1 << 5, post, 60 * MS),
            Error::BadArgument,
        ),
    ];
    for (what, call, error) in refused {
        let sender = move || {
            for (n, ms) in [5, 120].into_iter().enumerate() {
                time::sleep_ns(ms * MS);
                let _ = post.send(n as u32, WORDS, None);
            }
        };
        let sender = thread::spawn(sender, 0).map_err(doing("starting"))?;
        same!(post.receive(50 * MS).map(|message| message.op), Ok(0), "before that: {what}");
        same!(call(post, gone).map(|message| message.op), Err(error), "{what}");
        same!(post.receive(FOR_EVER).map(|message| message.op), Ok(1), "after that: {what}");
        sender.join().map_err(doing("joining"))?;
    }
    post.free(false).map_err(doing("freeing"))
}

//! Memory that is lent with a message goes on when its lender does: so nobody lends in that way what is his for a while only, or what others trust
//! meanwhile (pitfalls: H10, H11).

use crate::attacks::op;
use crate::memory::{data, load, store};
use crate::peer::{self, Peer, own};
use crate::posts::loans::{TO_READ, TO_WRITE, counted};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::rights::principal;
use musubi::rt::gate::Values;
use musubi::rt::post::{self, Message, Post};
use musubi::rt::{Mutex, Trap, section, task, thread};
use musubi::{AclEntry, Error, Rights};

const WORD: u64 = 0x1e27;
const PATIENCE_NS: u64 = 20_000_000_000;
/// What the messages are about.
const LENDS: u32 = 1;

/// Two posts, where anybody may send and receive.
fn posts() -> Result<[Post; 2], String> {
    let open = || {
        let post = Post::any()?;
        post.allow(&everybody(Rights::CALL | Rights::READ)).map(|()| post)
    };
    Ok([open().map_err(doing("a post"))?, open().map_err(doing("a post"))?])
}

fn free(posts: [Post; 2]) -> Outcome {
    posts.into_iter().try_for_each(|post| post.free(true)).map_err(doing("freeing"))
}

/// Has the kernel write where the message says, as who has received it: a record of some words.
fn writes(message: &Message) -> Result<u64, Error> {
    stub::identity(&Trap, message.words[0])
}

/// [`own::HAVE`].
pub fn have(post: u64) -> Result<(), Error> {
    writes(&Post(post).receive(PATIENCE_NS)?).map(drop)
}

/// [`op::LEND_BY_MESSAGE`].
pub fn lend(at: u64, len: u64, to: u64, back: u64) -> Values {
    Values::of(if to == 0 {
        post::cancel(at).map(|()| 0)
    } else {
        Post(to).send_lending(LENDS, [at, len, 0, 0, 0, 0], TO_WRITE, Post(back), 0)
    })
}

/// What was missing, if that is the word of a refusal.
fn missing(word: u64) -> Option<Rights> {
    match Error::from_word(word)?.refusal()?.object {
        Object::Section(_, right) => Some(right),
        _ => None,
    }
}

/// Its lender may call a program that runs on that stack: whoever wrote there would say where that one returns to.
pub fn a_stack() -> Outcome {
    let [to, back] = posts()?;
    let place = [const { AtomicU64::new(WORD) }; 64];
    let (at, len) = (place.as_ptr() as u64, size_of_val(&place) as u64);
    let lends = |lend| to.send_lending(LENDS, [at, len, 0, 0, 0, 0], lend, back, 0);
    // Where that is not refused it is to be seen what comes of it.
    let refused = lends(TO_WRITE);
    if refused.is_err() {
        lends(TO_READ).map_err(doing("lending it for reading"))?;
    }
    let seen: &'static Mutex<(u64, u64)> = Box::leak(Box::new(Mutex::new((0, 0))));
    let other = move || {
        if let Ok(message) = to.receive(PATIENCE_NS) {
            *seen.lock() = (load(message.words[0]), writes(&message).map_or_else(Error::word, |_| 0));
            let _ = post::answer(message.back, LENDS, [0; 6]);
        }
    };
    let other = thread::spawn(other, 0).map_err(doing("a thread"))?;
    back.receive(PATIENCE_NS).map_err(doing("its answer"))?;
    other.join().map_err(doing("join"))?;
    let (read, written) = *seen.lock();
    let is_as_it_was = place.iter().all(|word| word.load(Ordering::SeqCst) == WORD);
    holds!(is_as_it_was, "another thread writes the stack of one who goes on");
    same!((read, missing(written)), (WORD, Some(Rights::WRITE)), "what the other thread may");
    same!(refused, Err(Error::NotSupported), "lending it for writing");
    free([to, back])
}

/// A callee lends what its caller has lent to it for the call, to a thread of its own: that one would have what the caller prepares from then on.
pub fn by_a_callee() -> Outcome {
    let peer = Peer::start()?;
    let [to, back] = posts()?;
    let args = peer.bound.binding().args;
    store(args, WORD);
    same!(peer.call(peer::op::PEEK, &[args]), Ok(WORD & 0xff), "in the call");
    let lends = |at| peer.call(op::LEND_BY_MESSAGE, &[at, PAGE, to.0, back.0]).map_err(doing("lending in a call"));
    let kept = lends(args)?;
    let had = peer.call(peer::op::OWN, &[own::HAVE, to.0]).map_err(doing("the callee's own thread"))?;
    same!(missing(had), Some(Rights::WRITE), "by the callee's own thread");
    same!(load(args), WORD, "what lies there");
    same!(post::cancel(kept), Err(Error::NotFound), "it is not this program's to take back");
    // What is its own it may lend in a call as ever, and take back in the next one.
    let its_own = peer.call(peer::op::ADDRESS_OF_DATA, &[]).map_err(doing("where its data are"))?;
    let loan = lends(its_own)?;
    let message = to.receive(PATIENCE_NS).map_err(doing("what it lends"))?;
    same!((message.words[0], message.back), (its_own, loan), "what it lends");
    let reads = || stub::wait(&Trap, its_own, u64::from(u32::MAX), 0);
    same!(reads(), Err(Error::Changed), "a look at that");
    same!(peer.call(op::LEND_BY_MESSAGE, &[loan, 0, 0, 0]), Ok(0), "it takes that back");
    let after = reads().map_or_else(Error::word, |_| 0);
    same!(missing(after), Some(Rights::READ), "a look at it afterwards");
    free([to, back])?;
    peer.end()
}

/// What one may not do himself nobody may by his loan, and so nothing has to be taken back: no page of what all may read is unmapped, however often somebody
/// lends that, and tries.
pub fn of_what_is_only_read() -> Outcome {
    const ROUNDS: u64 = 16;
    let [to, back] = posts()?;
    let memory = data(PAGE).map_err(doing("create"))?;
    let at = memory.base();
    store(at, WORD);
    section::grant(at, &everybody(Rights::READ)).map_err(doing("letting all read"))?;
    let me = task::identity();
    let rights = Rights::READ | Rights::CHANGE_ACL;
    let mine = AclEntry { principal: principal::TASK, rights: rights.bits(), id: me.task, text: me.text };
    section::grant(at, &mine).map_err(doing("giving up a right"))?;
    let round = || -> Outcome {
        let loan = to.send_lending(LENDS, [at, PAGE, 0, 0, 0, 0], TO_WRITE, back, 0).map_err(doing("lending"))?;
        let message = to.receive(PATIENCE_NS).map_err(doing("receiving"))?;
        let word = writes(&message).map_or_else(Error::word, |_| 0);
        same!(missing(word), Some(Rights::WRITE), "what is not the lender's to write");
        post::cancel(loan).map_err(doing("taking it back"))?;
        same!(load(at), WORD, "what lies there");
        Ok(())
    };
    // Others of this machine do something now and then: the least counts.
    let mut least = [u64::MAX; 3];
    for _ in 0..ROUNDS {
        let before = counted();
        (0..ROUNDS).try_for_each(|_| round())?;
        let after = counted();
        least = core::array::from_fn(|i| least[i].min(after[i].wrapping_sub(before[i])));
    }
    same!(least, [0; 3], "faults, shootdowns, flushes of {ROUNDS} loans that give nothing");
    free([to, back])
}

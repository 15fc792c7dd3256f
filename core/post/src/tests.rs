//! One processor first, then `shuttle`'s interleavings: there a wake-up that is lost is a deadlock, which it reports.

mod accounts;
mod all;
mod deaths;
mod depths;
pub(crate) mod each;
mod known;
mod lenders;
mod lent;
mod limit;
mod lock;
mod machine;
mod model;
mod one;
mod race;
mod refused;
mod rests;
mod rights;
mod several;
mod stays;
mod steps;
mod users;

use crate::{Body, Caller, Config, Holder, Loan, Permit, Pool, Received, Reserve, Sender, Share, Whose};
use abi::{Error, Rights};

/// Posts 1 and 2 are had by number, 3 to 6 are any.
pub(super) const CONFIG: Config = Config {
    posts: 6,
    messages: 8,
    receivers: 8,
    accounts: 4,
    reserve: RESERVE,
    processors: 5,
    rest: || (),
    waits: |_, _| (),
};
const RESERVE: Reserve = Reserve { posts: 0, messages: 2, receivers: 0, accounts: 0 };
pub(super) const SYSTEM: Whose = Whose::System;
pub(super) const TEXT: u64 = 0x4000_0000;
const BOTH: Rights = Rights::CALL.union(Rights::READ);

/// A thread that calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    pub sender: Sender,
    pub receiver: u32,
    pub account: u32,
    pub processor: usize,
}

impl Who {
    pub fn new(pool: &Pool, thread: u64, account: u32) -> Who {
        let sender = Sender { user: 7, task: 20, thread, place: TEXT | 1 };
        let receiver = pool.open_receiver(thread, 0, Whose::System).unwrap();
        // On a processor of its own: two are never in the kernel on the same one.
        Who { sender, receiver, account, processor: thread as usize % 5 }
    }

    pub fn by(&self) -> Caller {
        let Who { sender, receiver, account, processor } = *self;
        Caller { sender, lender: sender, original: TEXT, domain: 1, receiver, account, processor }
    }
}

pub(super) fn allow(pool: &Pool, post: u32) -> Permit {
    pool.permit(post, BOTH, || Ok(())).unwrap()
}

pub(super) fn body(op: u64) -> Body {
    Body { op, words: [op; 6], lend: 0 }
}

/// Once, for what has no other threads.
pub(super) fn alone(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, 1);
}

/// The operation of what was received, and at which post.
pub(super) fn op(received: Received) -> (u32, u64) {
    match received {
        Received::Message(post, message) => (post, message.body.op),
        other => panic!("{other:?}"),
    }
}

/// What is lent to a holder there, which it touches.
pub(super) fn touched(pool: &Pool, holder: Holder, address: u64) -> Option<Loan> {
    pool.lends(holder, address, None).and_then(|question| pool.loan(question, holder, address, |loan| Some(*loan)))
}

/// An account with a small limit.
pub(super) fn account(pool: &Pool, limit: u32) -> u32 {
    pool.open_account(Share::System(limit)).unwrap()
}

pub(super) const NOT_FOUND: Result<u32, Error> = Err(Error::NotFound);

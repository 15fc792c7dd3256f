//! Messages that a device's interrupt is (K1-44): the line keeps the notice, the pool has the rules.

use super::{account, pool, with};
use crate::domain::Domain;
use crate::machine::machine;
use crate::processor::here;
use crate::thread::Thread;
use abi::task::USER_SYSTEM;
use abi::{Error, Rights};
use ::post::{Caller, Notice, Sender, Woken};

/// Binds a message of the device behind section `from` to a post; the owner of the executing text pays for its slot.
pub fn bind(thread: &Thread, d: &Domain, post: u64, op: u64, from: u64) -> Result<Notice, Error> {
    let account = account(&d.text.owner())?;
    let from = Sender { thread: 0, task: 0, user: USER_SYSTEM, place: from | machine().node };
    with(thread, d, &[(post, Rights::READ)], |by, permits| pool().bind(&permits[0], &Caller { account, ..*by }, op, from))
}

/// It has come. Who is to be woken for it.
pub fn notify(notice: &Notice) -> Result<Option<Woken>, Error> {
    pool().notify(notice)
}

pub fn unbind(notice: Notice) {
    pool().unbind(notice, here().index);
}

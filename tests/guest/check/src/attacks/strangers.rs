//! A pager that is a stranger to a server (pitfalls: H9). A client passes memory of a section of its own, whose pager never comes back. A kernel
//! that called the pager beneath the server would leave the server's lock in the hands of somebody who waits for ever.

use crate::memory::{data, store};
use crate::pagers::{Does, own, paged, read};
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::boxed::Box;
use musubi::abi::layout::PAGE;
use musubi::rt::pager::{self, flag};
use musubi::rt::section::{self, invalidate, validate};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] =
    &[("a_clients_pager_beneath_a_server", beneath), ("a_tasks_pager_beneath_a_server", of_the_task)];

/// Another call, which needs the lock.
fn is_free(peer: &'static Peer, good: u64) -> Outcome {
    let other = in_time(move || peer.call(op::COPY_LOCKED, &[good, PAGE]));
    holds!(matches!(other, Some(Ok(1..))), "another call, which needs the lock: {other:?}");
    Ok(())
}

fn scene() -> Result<(&'static Peer, u64), alloc::string::String> {
    let peer: &'static Peer = Box::leak(Box::new(Peer::start()?));
    let good = data(PAGE).map_err(doing("create"))?;
    section::grant(good.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    store(good.base(), 1);
    Ok((peer, good.base()))
}

fn beneath() -> Outcome {
    let (peer, good) = scene()?;
    for flags in [0, flag::VALID_BEFORE] {
        let (bad, own) = paged(2, Does::Loop, flags)?;
        section::grant(bad.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
        for absent in [false, true] {
            if absent {
                pager::take_page(bad.base(), good_scratch()?).map_err(doing("take"))?;
            } else {
                invalidate(bad.base(), PAGE).map_err(doing("invalidate"))?;
            }
            let at = bad.base();
            same!(
                in_time(move || peer.call(op::COPY_LOCKED, &[at, 8])),
                Some(Err(Error::BadAddress)),
                "by a bound call"
            );
            same!(
                in_time(move || peer.plain(op::COPY_LOCKED, &[at, 8])),
                Some(Err(Error::BadAddress)),
                "by a plain call"
            );
            same!(own.calls(), 0, "how often the pager was called");
            is_free(peer, good)?;
        }
        // What is there can be used, and in the client itself its pager is asked.
        same!(peer.call(op::PEEK, &[bad.base() + PAGE]), Ok(2), "a page that is there");
        own.set(Does::Validate);
        invalidate(bad.base() + PAGE, PAGE).map_err(doing("invalidate"))?;
        same!((read(bad.base() + PAGE), own.calls()), (Some(2), 1), "in the client itself");
        bad.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

fn good_scratch() -> Result<u64, alloc::string::String> {
    data(PAGE).map(|section| section.base()).map_err(doing("create"))
}

/// The client has made the page invalid itself, so the faults of its threads there would go to its task's pager, also those in the peer.
fn of_the_task() -> Outcome {
    let (peer, good) = scene()?;
    let bad = data(PAGE).map_err(doing("create"))?;
    section::grant(bad.base(), &everybody(Rights::READ | Rights::WRITE | Rights::CHANGE_ACL))
        .map_err(doing("grant"))?;
    store(bad.base(), 3);
    let (own, gate) = own(Does::Loop)?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    invalidate(bad.base(), PAGE).map_err(doing("invalidate"))?;
    let at = bad.base();
    same!(in_time(move || peer.call(op::COPY_LOCKED, &[at, 8])), Some(Err(Error::BadAddress)), "by a bound call");
    same!(own.calls(), 0, "how often the pager was called");
    is_free(peer, good)?;
    pager::set_for_task(0, 0).map_err(doing("no pager"))?;
    validate(bad.base(), PAGE).map_err(doing("validate"))?;
    bad.delete().map_err(doing("delete"))
}

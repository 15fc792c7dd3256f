//! Posts that are got and given back.

use super::{named, pool, wake, whose};
use crate::domain::Domain;
use crate::machine::{machine, spare_heap_for};
use crate::processor::here;
use crate::section::{New, Section};
use abi::layout::GRANULE;
use abi::post::{ANY, KNOWN_MAX, POSTS_MAX, REFUSE_QUESTIONS, TAKE_QUESTIONS, address, number};
use abi::rights::principal;
use abi::section::kind;
use abi::task::USER_SYSTEM;
use abi::{AclEntry, Error, Rights};
use ::post::Whose;
use core::sync::atomic::Ordering;

/// So many numbers are tried whose names are still on their way out.
const TRIES: u32 = 8;

/// `post_get`.
pub fn get(d: &Domain, wanted: u64) -> Result<u64, Error> {
    let owner = d.text.owner();
    spare_heap_for(&owner)?;
    match wanted {
        ANY => get_any(d, whose(&owner)?),
        1..=KNOWN_MAX if owner.user != USER_SYSTEM => Err(d.subject.refused(abi::refusal::Object::System)),
        1..POSTS_MAX => create(d, pool().get(wanted as u32, whose(&owner)?)?),
        _ => Err(Error::NotFound),
    }
}

/// Where the post that was had last under this number is still on its way out, another number is as good.
fn get_any(d: &Domain, whose: Whose) -> Result<u64, Error> {
    for _ in 0..TRIES {
        match create(d, pool().get_any(whose)?) {
            Err(Error::Exists) => {}
            outcome => return outcome,
        }
    }
    Err(Error::NoMemory)
}

/// The section that a post is to programs.
fn create(d: &Domain, number: u32) -> Result<u64, Error> {
    let rights = Rights::READ | Rights::CALL | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: d.subject.task, text: d.text.base };
    let at = address(machine().node, number.into());
    let new = New { len: 0, reserve: GRANULE, kind: kind::POST, at, room: 0, owner: d.text.owner(), entry, ports: None, live: false };
    let made = Section::create(new).and_then(|section| section.made_by(d)).map(|section| section.base).map_err(|error| {
        // `Dead`: it was made and is deleted again, and so the number is free, or another one's by now.
        if error != Error::Dead {
            let _ = pool().free(number, true, here().index, wake);
        }
        match error {
            // To its maker it is a post.
            Error::SectionQuota | Error::SpaceQuota => Error::PostQuota,
            other => other,
        }
    });
    d.text.owner().about.shows_promised();
    made
}

/// `post_free`.
pub fn free(d: &Domain, post: u64, force: u64) -> Result<u64, Error> {
    let (section, number) = named(post)?;
    match force {
        0 => {}
        1 => return section.delete_if(d, || Ok(())).map(|()| 0),
        REFUSE_QUESTIONS | TAKE_QUESTIONS => return refuse(d, &section, number, force == REFUSE_QUESTIONS),
        _ => return Err(Error::BadArgument),
    }
    // First the name, then the number: who gets that finds the name free.
    section.delete_if(d, || {
        pool().shut(number, false)?;
        section.post.store(false, Ordering::SeqCst);
        Ok(())
    })?;
    pool().empty(number, here().index, wake);
    section.owner().about.shows_promised();
    Ok(0)
}

/// `post_free` that frees nothing: the post goes on, and who asks there is told so, or is not any more.
fn refuse(d: &Domain, section: &Section, number: u32, refuses: bool) -> Result<u64, Error> {
    let state = section.lock_for(d, Rights::CHANGE_ACL)?;
    let told = pool().refuse_questions(number, refuses);
    drop(state);
    told?;
    if refuses {
        pool().end_questions(number, wake);
    }
    Ok(0)
}

/// The section of a post goes.
pub fn deleted(section: &Section) {
    if let Some(number) = number(machine().node, section.base)
        && section.post.swap(false, Ordering::SeqCst)
    {
        let _ = pool().free(number, true, here().index, wake);
        section.owner().about.shows_promised();
    }
}

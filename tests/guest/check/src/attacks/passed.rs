//! What a plain call passes by address is looked up for its callee, and what was found is remembered (pitfalls: H10): until anything changes
//! that it rests on.

use super::op;
use crate::memory::{data, store};
use crate::peer::{Peer, op as peer_op, six};
use crate::report::{Check, Outcome, doing};
use crate::same;
use crate::sections::everybody;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::calls::number;
use musubi::abi::gate::PASSED_FOR_WRITING;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::rt::Bound;
use musubi::rt::bound::result_of;
use musubi::rt::section::{self, Section};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[("what_is_passed_is_known_until_it_changes", until_it_changes)];

/// Asked that often: the first time it is looked up.
const TIMES: usize = 3;
const READ: Rights = Rights::READ;
const BOTH: Rights = Rights::READ.union(Rights::WRITE);

/// More than there are threads that a section knows to have passed it.
const MANY: usize = 1100;

struct Asker {
    peer: Peer,
    /// Where the words of its question lie.
    words: u64,
}

impl Asker {
    fn start() -> Result<Asker, String> {
        let words = data(PAGE).map_err(doing("create"))?.base();
        section::grant(words, &everybody(BOTH)).map_err(doing("grant"))?;
        Ok(Asker { peer: Peer::start()?, words })
    }

    /// What the callee is told of these ranges.
    fn asks(&self, ranges: &[(u64, u64)]) -> Result<u64, Error> {
        self.write(ranges);
        self.peer.plain(op::KERNEL, &[number("may_pass"), self.words])
    }

    /// The same of a caller in between.
    fn asks_for(&self, friend: &Peer, ranges: &[(u64, u64)]) -> Result<u64, Error> {
        self.write(ranges);
        friend.plain(peer_op::RELAY, &[self.peer.gate, op::KERNEL, number("may_pass"), self.words])
    }

    fn write(&self, ranges: &[(u64, u64)]) {
        let words = six(0, &[]);
        (0..words.len() as u64).for_each(|n| store(self.words + 8 * n, 0));
        for ((at, len), n) in ranges.iter().zip(0..) {
            store(self.words + 16 * n, *at);
            store(self.words + 16 * n + 8, *len);
        }
    }

    fn is_told(&self, ranges: &[(u64, u64)], may: bool, when: &str) -> Outcome {
        for time in 0..TIMES {
            same!(self.asks(ranges), Ok(u64::from(may)), "{when}, asked {time} times before");
        }
        Ok(())
    }
}

fn shared() -> Result<u64, String> {
    let base = data(2 * PAGE).map_err(doing("create"))?.base();
    section::grant(base, &everybody(BOTH)).map_err(doing("grant"))?;
    Ok(base)
}

fn until_it_changes() -> Outcome {
    let asker = Asker::start()?;
    let grant = |base, rights| section::grant(base, &everybody(rights)).map_err(doing("grant"));
    let sections = [shared()?, shared()?, shared()?];
    let [one, two, three] = sections;
    let to_write = |len| len | PASSED_FOR_WRITING;
    asker.is_told(&[(one, 1)], true, "a byte")?;
    asker.is_told(&[(one + 1, to_write(2 * PAGE - 1))], true, "all of it")?;
    asker.is_told(&[(one, 2 * PAGE + 1)], false, "beyond its end")?;
    asker.is_told(&[(one, !PASSED_FOR_WRITING)], false, "around the end of the space")?;
    asker.is_told(&[(one, 8), (two, to_write(8))], true, "two")?;
    asker.is_told(&[(one, 8), (two, 8), (three, 8)], true, "three")?;
    asker.is_told(&[(one, 8), (two, 8), (three + 2 * PAGE, 8)], false, "three, one of which is none")?;

    // (The last questions have pushed it out.)
    asker.is_told(&[(one, to_write(8))], true, "written once more")?;
    grant(one, READ)?;
    asker.is_told(&[(one, to_write(8))], false, "written, as only reading is allowed now")?;
    asker.is_told(&[(one, 8), (two, to_write(8))], true, "read")?;
    grant(one, Rights::empty())?;
    asker.is_told(&[(one, 8)], false, "without any right")?;
    asker.is_told(&[(two, 8)], true, "another one")?;
    grant(one, BOTH)?;
    asker.is_told(&[(one, to_write(8))], true, "allowed again")?;

    callers(&asker)?;
    ends(&asker)?;
    asker.peer.end()
}

/// What one caller may have passed on, another one may not.
fn callers(asker: &Asker) -> Outcome {
    let friend = Peer::start()?;
    let start = musubi::start();
    let base = data(PAGE).map_err(doing("create"))?.base();
    let entry = AclEntry { principal: principal::TASK, rights: READ.bits(), id: start.task(), text: asker.peer.text };
    section::grant(base, &entry).map_err(doing("grant"))?;
    for time in 0..TIMES {
        asker.is_told(&[(base, 8)], true, "by who may")?;
        same!(asker.asks_for(&friend, &[(base, 8)]), Ok(0), "by a friend who may not, the {time}. time");
    }
    section::grant(base, &AclEntry { text: friend.text, ..entry }).map_err(doing("grant"))?;
    same!(asker.asks_for(&friend, &[(base, 8)]), Ok(1), "by a friend who may now");
    friend.end()
}

/// Calls that are over are no calls under way: by however many bindings a thread has passed the same memory.
pub fn one_thread_to_many() -> Outcome {
    let asker = Asker::start()?;
    let base = shared()?;
    asker.write(&[(base, 8)]);
    let mut all = Vec::new();
    for n in 0..MANY {
        let bound = Bound::bind(asker.peer.gate, 0).map_err(doing("bind"))?;
        let asks = bound.call(0, six(op::KERNEL, &[number("may_pass"), asker.words])).and_then(result_of);
        same!(asks, Ok(1), "by the {n}. binding");
        all.push(bound);
    }
    all.into_iter().try_for_each(|bound| bound.unbind().map_err(doing("unbind")))?;
    section::delete(base).map_err(doing("delete"))?;
    asker.peer.end()
}

/// A section gets shorter, is sealed, ends, and another one comes to lie there.
fn ends(asker: &Asker) -> Outcome {
    let beside = Section::create_at(PAGE, GRANULE, kind::DATA, 0, 0, 2 * GRANULE).map_err(doing("create with room"))?;
    let base = beside.base() + GRANULE;
    let at = |len| Section::create_at(len, GRANULE, kind::DATA, 0, base, 0).map_err(doing("create there"));
    let mut section = at(2 * PAGE)?;
    section::grant(base, &everybody(BOTH)).map_err(doing("grant"))?;
    asker.is_told(&[(base + PAGE, PASSED_FOR_WRITING | 8)], true, "its second page")?;
    section.resize(PAGE).map_err(doing("resize"))?;
    asker.is_told(&[(base + PAGE, 8)], false, "behind its new end")?;
    asker.is_told(&[(base, PASSED_FOR_WRITING | 8)], true, "its first page")?;
    section.delete().map_err(doing("delete"))?;
    asker.is_told(&[(base, 8)], false, "of a section that was deleted")?;
    let next = at(PAGE)?;
    asker.is_told(&[(base, 8)], false, "of the next one there")?;
    section::grant(base, &everybody(BOTH)).map_err(doing("grant"))?;
    asker.is_told(&[(base, PASSED_FOR_WRITING | 8)], true, "allowed there, too")?;
    let text = next.seal().map_err(doing("seal"))?;
    asker.is_told(&[(text, PASSED_FOR_WRITING | 8)], false, "written in a text")
}

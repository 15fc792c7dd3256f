//! The right to place texts, given, passed on and taken back as any other (docs/decisions/0018). The image says in `etc/placement` that `check` has it;
//! the same program is there as `other`, of which nothing is said.

use crate::info;
use crate::memory::CODE_42;
use crate::peer::Peer;
use crate::refusals::lacks;
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use musubi::abi::info::layout::Section as Record;
use musubi::abi::layout::PAGE;
use musubi::abi::refusal::Object;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{class, kind};
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::rt::{Section, section, task, time};
use musubi::{AclEntry, Error, Rights};

pub const CHECKS: &[Check] = &[
    ("who_has_the_right_places_texts", has),
    ("the_right_is_passed_on_and_taken_back", passed_on),
    ("who_gives_the_right_up_has_it_no_more", given_up),
];

/// The section that stands for the right.
pub fn right() -> Result<u64, String> {
    let base = info::all()?.machine().placing;
    holds!(base != 0, "nothing stands for the right to place texts");
    Ok(base)
}

/// A text of this program's own, which nobody has executed.
fn text() -> Result<u64, String> {
    let mut made = Section::create(PAGE, PAGE, kind::DATA, 0).map_err(doing("create"))?;
    made.bytes_mut()[..CODE_42.len()].copy_from_slice(&CODE_42);
    made.seal().map_err(doing("seal"))
}

fn found(which: impl Fn(&Record) -> bool) -> Result<Option<Record>, String> {
    Ok(info::own()?.sections().find(which))
}

/// Its own texts, in each class; nobody else's.
fn has() -> Outcome {
    for class in [class::PUSR, class::PSYS, class::NSYS] {
        let text = text()?;
        section::place(text, class, 0).map_err(doing("placing"))?;
        same!(found(|one| one.base == text)?.map(|one| one.placed & 0xff), Some(class), "its class");
        section::delete(text).map_err(doing("delete"))?;
    }
    same!(section::place(right()?, class::PSYS, 0), Err(Error::BadArgument), "what is no text");
    let peer = Peer::start()?;
    lacks(section::place(peer.text, class::PSYS, 0), peer.text, Rights::CHANGE_ACL, "another program's text")?;
    peer.end()
}

/// Another program has not got it, may not take it, gets it, may not pass it on, and loses it.
fn passed_on() -> Outcome {
    let right = right()?;
    let child = Command::new(b"bin/other").args(["check", "as", "places"]).spawn().map_err(doing("start"))?;
    let number = child.task;
    let until = |what: &str, which: &dyn Fn(&Record) -> bool| {
        for _ in 0..20_000 {
            if found(|one| one.owner == number && which(one))?.is_some() {
                return Ok(());
            }
            time::sleep_ns(1_000_000);
        }
        Err(format!("the other program never {what}"))
    };
    let give = |rights: Rights| {
        let entry = AclEntry { principal: principal::TASK, rights: rights.bits(), id: number, text: ANY_TEXT };
        section::grant(right, &entry).map_err(doing("changing the list"))
    };
    until("says that it was refused", &|one| one.name.starts_with(REFUSED))?;
    give(Rights::CALL)?;
    until("has a text in supervisor mode", &|one| one.placed & 0xff == class::PSYS)?;
    give(Rights::empty())?;
    let how = child.wait_for(60_000_000_000).map_err(doing("wait"))?;
    same!((how.kind, how.code), (exit::EXITED, 0), "how it ended");
    Ok(())
}

const REFUSED: &[u8] = b"refused\0";

/// The other program. Its status says what was wrong.
pub fn role() -> i32 {
    let Ok(right) = right() else { return 1 };
    let lacked = |error: Error| error.refusal().map(|refusal| refusal.object);
    let wants_call = Some(Object::Section(right, Rights::CALL));
    let Ok(first) = text() else { return 2 };
    if section::place(first, class::PSYS, 0).err().and_then(lacked) != wants_call {
        return 3;
    }
    // It may not write itself into the list.
    let wants_list = Some(Object::Section(right, Rights::CHANGE_ACL));
    if section::grant(right, &everybody(Rights::CALL)).err().and_then(lacked) != wants_list {
        return 4;
    }
    if section::name(first, &REFUSED[..REFUSED.len() - 1]).is_err() {
        return 5;
    }
    let may = |wanted: bool| {
        (0..20_000).any(|_| {
            time::sleep_ns(1_000_000);
            section::place(first, class::PSYS, 0).is_ok() == wanted
        })
    };
    if !may(true) {
        return 6;
    }
    if section::grant(right, &everybody(Rights::CALL)).err().and_then(lacked) != wants_list {
        return 7;
    }
    if !may(false) {
        return 8;
    }
    if section::place(first, class::PUSR, 0).err().and_then(lacked) == wants_call { 0 } else { 9 }
}

fn given_up() -> Outcome {
    let (right, text) = (right()?, text()?);
    section::place(text, class::PSYS, 0).map_err(doing("placing"))?;
    let own = |rights: Rights| AclEntry {
        principal: principal::ANY,
        rights: rights.bits(),
        id: 0,
        text: task::identity().text,
    };
    section::grant(right, &own(Rights::empty())).map_err(doing("giving it up"))?;
    lacks(section::place(text, class::PUSR, 0), right, Rights::CALL, "placing without it")?;
    lacks(section::grant(right, &own(Rights::CALL)), right, Rights::CHANGE_ACL, "taking it again")?;
    section::delete(text).map_err(doing("delete"))
}

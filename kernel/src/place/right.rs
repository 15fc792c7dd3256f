//! Who may ask for supervisor mode (docs/decisions/0018): whoever may call a section in which there is nothing. Its list says who that is, so the
//! right is given, passed on and taken back as any other.

use crate::domain::Domain;
use crate::section::{New, Section, State};
use crate::task::Task;
use abi::layout::{FIRST_TEXT, PAGE};
use abi::refusal::Object;
use abi::rights::principal;
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use alloc::sync::Arc;
use arch::shown::MACHINE;
use core::sync::atomic::Ordering;
use spin::{MutexGuard, Once};

static RIGHT: Once<Arc<Section>> = Once::new();

/// The first program has it, and may pass it on. Boot only.
pub fn set_up(owner: &Arc<Task>) {
    let rights = Rights::CALL.union(Rights::CHANGE_ACL);
    let entry = AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: FIRST_TEXT };
    let new = New { len: PAGE, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner: owner.clone(), entry, ports: None, live: false };
    let section = Section::create(new).expect("room for the right to place texts");
    let mut state = section.state.lock();
    state.name[..9].copy_from_slice(b"placement");
    state.show(&section);
    drop(state);
    MACHINE.placing.store(section.base, Ordering::Release);
    RIGHT.call_once(|| section);
}

/// That the domain has it, as long as this is kept; and the section that stands for it.
///
/// # Errors
/// It has not.
pub fn held(d: &Domain) -> Result<(&'static Arc<Section>, MutexGuard<'static, State>), Error> {
    let right = RIGHT.get().ok_or(Error::NotFound)?;
    if d.in_window {
        return Err(d.subject.refused(Object::Section(right.base, Rights::CALL)));
    }
    Ok((right, right.lock_for(d, Rights::CALL)?))
}

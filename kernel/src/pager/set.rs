//! Who becomes a pager, of a section or of a task (decision 16).

use super::Pager;
use crate::call::own_section;
use crate::domain::Domain;
use crate::sched;
use crate::task::Task;
use abi::pager::LEVEL_TASK;
use abi::refusal::Object;
use abi::section::kind;
use abi::{Error, Rights};
use ::pager::level;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// `section_pager`.
pub fn set(d: &Domain, base: u64, gate: u64, level: u64, flags: u64) -> Result<u64, Error> {
    let section = own_section(d, base)?;
    if section.kind() != kind::DATA {
        return Err(Error::NotSupported);
    }
    let new = match gate {
        0 => None,
        // What lies beside a text in its room is the program's own, which it cannot do without.
        _ if !level::is_level(level) || Arc::ptr_eq(&section.hold, &d.text.hold) => return Err(Error::BadArgument),
        _ => Some(Pager::new(d, gate, level, flags)?),
    };
    let mut state = section.lock_for(d, Rights::CHANGE_ACL)?;
    if state.cloning || state.sealing {
        return Err(Error::Busy);
    }
    if section.kind() != kind::DATA {
        return Err(Error::NotSupported);
    }
    if state.paged.pager.as_ref().is_some_and(|old| old.is_of_another(d)) {
        return Err(Error::Busy);
    }
    let old = core::mem::replace(&mut state.paged.pager, new);
    state.show(&section);
    state.show_not_asked();
    drop(state);
    drop(old);
    Ok(0)
}

/// `task_pager`.
pub fn set_of_task(d: &Domain, task: u64, gate: u64, flags: u64) -> Result<u64, Error> {
    let own = d.text.owner();
    let task = if task == 0 { own.clone() } else { Task::find(task)? };
    let is_personality = task.foreign.get().is_some_and(|foreign| foreign.gate.is_of(&d.text));
    if !Arc::ptr_eq(&task, &own) && !is_personality {
        return Err(d.subject.refused(Object::Task(task.number)));
    }
    let new = if gate == 0 { None } else { Some(Pager::new(d, gate, LEVEL_TASK, flags)?) };
    let mut pager = task.pager.lock();
    if pager.as_ref().is_some_and(|old| old.is_of_another(d)) {
        return Err(Error::Busy);
    }
    let old = core::mem::replace(&mut *pager, new);
    task.paged.store(pager.as_ref().map_or(0, |pager| pager.number), Ordering::SeqCst);
    task.shows_pager(if pager.is_some() { d.text.base } else { 0 });
    let is_noted_otherwise = pager.is_some() != old.is_some();
    drop(pager);
    drop(old);
    if is_noted_otherwise {
        // From now on what they make invalid is noted as the task's, or is not any more.
        sched::in_stretches(task.each_thread(), |thread| thread.inner.lock().last.is_noted_otherwise());
    }
    Ok(0)
}

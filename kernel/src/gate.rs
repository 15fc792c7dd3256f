//! Gates, and what texts are bound to (CUBIX-28, 64). Entry addresses lie in the last page of a text's reserve, where
//! nothing is ever mapped (`docs/decisions/0001`).

use crate::domain::Domain;
use crate::machine::{machine, spare_heap};
use crate::section::{New, Section};
use crate::thread::Thread;
use abi::gate::{BINDINGS_MAX, GATE_STEP, GATES_MAX, flag, grade, why};
use abi::layout::PAGE;
use abi::rights::{ACL_MAX, principal};
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use ::gate::Block;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

const _: () = assert!(GATE_STEP * GATES_MAX == PAGE);

/// Each time that so many more tasks have an entry in the list of an argument section, those that have ended lose theirs.
const LENT_LOOK: usize = 16;

/// A block of gates, found.
pub struct Gate {
    pub text: Arc<Section>,
    pub block: Block,
}

/// What a text is bound to.
pub struct Binding {
    pub target: Arc<Section>,
    pub address: u64,
    pub block: Block,
    args: Option<Arc<Section>>,
    pub args_len: u64,
    /// Whose threads may use it in the callee without more ado.
    task: u64,
    pub caller_stack: bool,
    pub by_kernel: bool,
    ended: AtomicBool,
}

impl Binding {
    /// Base of the argument section; 0 without one.
    pub fn args_base(&self) -> u64 {
        self.args.as_ref().map_or(0, |section| section.base)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The argument section is lent to the callee while a thread of this caller's task executes it, so not beyond a call
    /// (pitfalls, H10). Those of the task that has bound need no more; others come by where the caller is called itself. Errors:
    /// `TooBig`: as many tasks are there as a list has room for. `Dead`: the callee is gone.
    pub fn lend(&self, caller: &Domain) -> Result<(), Error> {
        let (Some(args), task) = (&self.args, caller.subject.task) else { return Ok(()) };
        if task == self.task {
            return Ok(());
        }
        // An entry for a text that is gone would be for whatever comes to lie there.
        if self.target.is_dead() {
            return Err(Error::Dead);
        }
        let (known, ended) = {
            let state = args.state.lock();
            let entries = state.acl.entries();
            let is_lent = |entry: &&AclEntry| entry.principal == principal::TASK && entry.text == self.target.base;
            let known = entries.iter().filter(is_lent).any(|entry| entry.id == task);
            let look = !known && (entries.len().is_multiple_of(LENT_LOOK) || entries.len() >= ACL_MAX);
            let ended = |entry: &&AclEntry| look && is_lent(entry) && machine().tasks.find(entry.id).is_none();
            (known, entries.iter().filter(ended).copied().collect::<Vec<_>>())
        };
        ended.iter().try_for_each(|entry| args.set_entry(&AclEntry { rights: 0, ..*entry }))?;
        if known {
            return Ok(());
        }
        let entry = lent(principal::TASK, task, &self.target);
        args.set_entry(&entry)?;
        if self.target.is_dead() {
            // It may have gone before its name was in a list.
            args.set_entry(&AclEntry { rights: 0, ..entry })?;
            return Err(Error::Dead);
        }
        Ok(())
    }

    pub fn end(&self) {
        if !self.ended.swap(true, Ordering::SeqCst)
            && let Some(args) = &self.args
        {
            args.delete();
        }
    }
}

/// A gate's text, its block, and its place in that.
pub type Found = (Arc<Section>, Block, u64);

/// The block of gates that contains an entry address.
pub fn find_gate(address: u64) -> Option<Found> {
    let text = Section::find(address).filter(|s| s.is_gate_address(address) && !s.is_dead())?;
    let (block, index) = text.gates.lock().find(address)?;
    Some((text, block, index))
}

/// `gate_create`.
pub fn create(domain: &Domain, entry: u64, gates: u64, cookie: u64, flags: u64) -> Result<u64, Error> {
    let text = &domain.text;
    let len = text.state.lock().len;
    if !(text.base..text.base + len).contains(&entry) || domain.in_window {
        return Err(Error::BadAddress);
    }
    if gates == 0 || gates > GATES_MAX || flags & !flag::CALLER_STACK != 0 {
        return Err(Error::BadArgument);
    }
    spare_heap()?;
    text.gates.lock().create(Block { entry, count: gates, cookie, flags })
}

/// `gate_delete`: of the executing text only.
pub fn delete(domain: &Domain, address: u64) -> Result<u64, Error> {
    if !domain.text.is_gate_address(address) || !domain.text.contains(address) {
        return Err(Error::BadAddress);
    }
    domain.text.gates.lock().delete(address)?;
    domain.text.changed();
    Ok(0)
}

/// `gate_bind`.
pub fn bind(thread: &Thread, domain: &Domain, address: u64, args_len: u64, flags: u64) -> Result<abi::gate::Binding, Error> {
    spare_heap()?;
    let (target, block, index) = find_gate(address).ok_or(Error::NotFound)?;
    if index != 0 || flags & !(flag::CALLER_STACK | flag::BY_KERNEL) != 0 || domain.in_window {
        return Err(Error::BadArgument);
    }
    let caller_stack = flags & flag::CALLER_STACK != 0;
    if caller_stack && block.flags & flag::CALLER_STACK == 0 {
        return Err(Error::NotSupported);
    }
    target.check(domain, Rights::CALL)?;
    let text = &domain.text;
    let callee = thread.domain_of(&target);
    let (why, page) = why_by_kernel(domain, &target, callee.as_deref(), flags);
    let grade = if why == why::DIRECT { grade::EPC_H } else { grade::EPC_S };
    let args = (args_len > 0).then(|| make_args(domain, &target, args_len)).transpose()?;
    let (args_base, args_len) = args.as_ref().map_or((0, 0), |s| (s.base, s.state.lock().len));
    let binding = Arc::new(Binding {
        target: target.clone(),
        address,
        block: Block { ..block },
        args,
        args_len,
        task: domain.subject.task,
        caller_stack,
        by_kernel: flags & flag::BY_KERNEL != 0,
        ended: AtomicBool::new(false),
    });
    let mut bindings = text.bindings.lock();
    let number = bindings.iter().position(Option::is_none).unwrap_or(bindings.len());
    if number as u64 >= BINDINGS_MAX {
        drop(bindings);
        binding.end();
        return Err(Error::TooBig);
    }
    if number == bindings.len() {
        bindings.push(None);
    }
    bindings[number] = Some(binding);
    Ok(abi::gate::Binding {
        number: number as u64,
        count: block.count,
        args: args_base,
        args_len,
        grade,
        text: target.base,
        why,
        page,
    })
}

/// Why calls of this domain into the target go through the kernel, and where that was found.
fn why_by_kernel(domain: &Domain, target: &Section, callee: Option<&Domain>, flags: u64) -> (u64, u64) {
    let text = &domain.text;
    let page = |text: &Section| text.state.lock().unclear_at.unwrap_or(0);
    if flags != 0 {
        (why::ASKED, 0)
    } else if domain.task_view.is_none() {
        (why::NO_KEYS, 0)
    } else if !text.is_clear() {
        (why::CALLER_UNCLEAR, page(text))
    } else if !target.is_clear() {
        (why::CALLEE_UNCLEAR, page(target))
    } else if !target.rights(domain).contains(Rights::EXECUTE) {
        (why::NOT_EXECUTABLE, 0)
    } else if [Some(domain), callee].into_iter().flatten().any(|domain| domain.secret.load(Ordering::SeqCst)) {
        (why::SECRET, 0)
    } else {
        (why::DIRECT, 0)
    }
}

/// What a callee may do with memory that is lent to it.
fn lent(principal: u32, id: u64, callee: &Section) -> AclEntry {
    AclEntry { principal, rights: (Rights::READ | Rights::WRITE).bits(), id, text: callee.base }
}

/// A section for what is passed by pointer. The binding text may use it on whatever thread, the bound one on threads of the task that
/// has bound; see [`Binding::lend`].
fn make_args(domain: &Domain, target: &Section, len: u64) -> Result<Arc<Section>, Error> {
    let rights = Rights::READ | Rights::WRITE | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: domain.text.base };
    let owner = domain.text.owner();
    let section = Section::create(New { len, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner, entry, ports: None })?;
    section.set_entry(&lent(principal::TASK, domain.subject.task, target)).inspect_err(|_| section.delete())?;
    if target.is_dead() {
        // It may have gone before its name was in this list: the entry would be for whatever comes to lie there.
        section.delete();
        return Err(Error::Dead);
    }
    Ok(section)
}

/// `gate_unbind`.
pub fn unbind(domain: &Domain, number: u64) -> Result<u64, Error> {
    let binding = {
        let mut bindings = domain.text.bindings.lock();
        bindings.get_mut(number as usize).and_then(Option::take).ok_or(Error::NotFound)?
    };
    binding.end();
    binding.target.changed();
    Ok(0)
}

//! Gates, and what texts are bound to (CUBIX-28, 64). Entry addresses lie in the last page of a text's reserve, where
//! nothing is ever mapped (`docs/decisions/0001`).

use crate::domain::Domain;
use crate::machine::spare_heap;
use crate::section::{New, Section};
use abi::gate::{BINDINGS_MAX, GATE_STEP, GATES_MAX, flag, grade, why};
use abi::layout::PAGE;
use abi::rights::principal;
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use ::gate::Block;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

const _: () = assert!(GATE_STEP * GATES_MAX == PAGE);

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
pub fn bind(domain: &Domain, address: u64, args_len: u64, flags: u64) -> Result<abi::gate::Binding, Error> {
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
    let (why, page) = why_by_kernel(domain, &target, flags);
    let grade = if why == why::DIRECT { grade::EPC_H } else { grade::EPC_S };
    let args = (args_len > 0).then(|| make_args(domain, &target, args_len)).transpose()?;
    let (args_base, args_len) = args.as_ref().map_or((0, 0), |s| (s.base, s.state.lock().len));
    let binding = Arc::new(Binding {
        target: target.clone(),
        address,
        block: Block { ..block },
        args,
        args_len,
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
fn why_by_kernel(domain: &Domain, target: &Section, flags: u64) -> (u64, u64) {
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
    } else {
        (why::DIRECT, 0)
    }
}

/// A section that the binding and the bound text may use, on whatever thread: reached only while executing one of them.
fn make_args(domain: &Domain, target: &Section, len: u64) -> Result<Arc<Section>, Error> {
    let entry = |text: u64, rights: Rights| AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text };
    let both = Rights::READ | Rights::WRITE;
    let owner = domain.text.owner();
    let first = entry(domain.text.base, both | Rights::CHANGE_ACL);
    let section = Section::create(New { len, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner, entry: first, ports: None })?;
    section.set_entry(&entry(target.base, both)).inspect_err(|_| section.delete())?;
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

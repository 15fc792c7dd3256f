//! Gates, and what texts are bound to (CUBIX-28, 64). Entry addresses lie in the last page of a text's reserve, where
//! nothing is ever mapped (`docs/decisions/0001`).

pub mod lent;

use crate::domain::Domain;
use crate::machine::spare_heap_for;
use crate::promise;
use crate::seat;
use crate::section::{New, Section};
use crate::task::Task;
use crate::thread::Thread;
use abi::gate::{BINDINGS_MAX, GATE_STEP, GATES_MAX, flag, grade, why};
use abi::layout::PAGE;
use abi::refusal::Object;
use abi::rights::principal;
use abi::section::kind;
use abi::{AclEntry, Error, Rights};
use ::gate::Block;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const _: () = assert!(GATE_STEP * GATES_MAX == PAGE);

/// A block of gates that is kept beside a task.
pub struct Gate {
    /// Not held: a section knows its task, which may be one that this is kept beside, or one that keeps such a task in turn.
    text: Weak<Section>,
    pub block: Block,
}

impl Gate {
    pub fn new(text: &Arc<Section>, block: Block) -> Gate {
        Gate { text: Arc::downgrade(text), block }
    }

    /// Whether it is this text's.
    pub fn is_of(&self, text: &Arc<Section>) -> bool {
        core::ptr::eq(self.text.as_ptr(), Arc::as_ptr(text))
    }

    /// # Errors
    /// `Dead`.
    pub fn text(&self) -> Result<Arc<Section>, Error> {
        self.text.upgrade().filter(|text| !text.is_dead()).ok_or(Error::Dead)
    }
}

/// What a text is bound to.
pub struct Binding {
    pub target: Arc<Section>,
    pub address: u64,
    pub block: Block,
    args: Option<Arc<Section>>,
    pub args_len: u64,
    /// Whose threads may use it in the callee as long as no call goes wrong; and all to which it is lent.
    task: u64,
    lent: lent::Tasks,
    /// Whose it was then: who pays for it as long as anybody knows it.
    payer: Arc<Task>,
    /// The text that has bound, its base, and which of its bindings this is.
    from: Weak<Section>,
    text: u64,
    number: u64,
    pub caller_stack: bool,
    pub by_kernel: bool,
    ended: AtomicBool,
    /// Nobody begins a call by it any more; and how often it was asked since whether any is under way.
    over: AtomicBool,
    looks: AtomicU32,
}

impl Binding {
    /// Base of the argument section; 0 without one.
    pub fn args_base(&self) -> u64 {
        self.args.as_ref().map_or(0, |section| section.base)
    }

    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// No call is made by it any more, and its argument section goes. Whether it had not ended. Call without locks.
    pub fn end(&self) -> bool {
        if self.ended.swap(true, Ordering::SeqCst) {
            return false;
        }
        // Out of a text of whose end all have heard nobody calls.
        if let Some(text) = self.from.upgrade().filter(|text| !text.is_dead() || !text.is_over()) {
            self.target.unbound(&text, self.number);
        }
        self.over.store(true, Ordering::SeqCst);
        match &self.args {
            Some(args) => args.delete(),
            None => self.leave(),
        }
        true
    }

    /// Another one may have its number: no record and no call leads to where this one did.
    fn leave(&self) {
        let Some(text) = self.from.upgrade() else { return };
        if let Some(place) = text.bindings.lock().get_mut(self.number as usize)
            && place.as_ref().is_some_and(|there| core::ptr::eq(&**there, self))
        {
            *place = None;
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.payer.counts_list(promise::BINDING, 0);
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

/// Refuses who may not come in at the block, whatever the text's list says: anybody, unless it is for all or he `is_scheduler`. A server of the system's is
/// no better than others: it calls gates that it was told of.
pub fn is_open(block: &Block, caller: &Domain, is_scheduler: impl Fn() -> bool) -> Result<(), Error> {
    if block.flags & flag::CALLED_UP == 0 || is_scheduler() { Ok(()) } else { Err(caller.subject.refused(Object::System)) }
}

/// Refuses to call up gates at which others come in, too.
pub fn is_for_upcalls(block: &Block) -> Result<(), Error> {
    if block.flags & flag::CALLED_UP == 0 { Err(Error::BadArgument) } else { Ok(()) }
}

/// `gate_create`.
pub fn create(domain: &Domain, entry: u64, gates: u64, cookie: u64, flags: u64) -> Result<u64, Error> {
    let text = &domain.text;
    let len = text.state.lock().len;
    if !(text.base..text.base + len).contains(&entry) || domain.in_window {
        return Err(Error::BadAddress);
    }
    if gates == 0 || gates > GATES_MAX || flags & !flag::OF_GATES != 0 {
        return Err(Error::BadArgument);
    }
    spare_heap_for(&text.owner())?;
    {
        let mut state = text.state.lock();
        state.has_gates = true;
        state.count_lists();
    }
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
    spare_heap_for(&domain.text.owner())?;
    // A text whose task has ended is bound to no more, though it may not have heard so: who was told `Dead` by it binds anew, and means the next server.
    let (target, block, index) = find_gate(address).filter(|(text, ..)| !text.is_closed()).ok_or(Error::NotFound)?;
    if index != 0 || flags & !(flag::CALLER_STACK | flag::BY_KERNEL) != 0 || domain.in_window {
        return Err(Error::BadArgument);
    }
    let caller_stack = flags & flag::CALLER_STACK != 0;
    if caller_stack && block.flags & flag::CALLER_STACK == 0 {
        return Err(Error::NotSupported);
    }
    target.check(domain, Rights::CALL)?;
    is_open(&block, domain, || seat::is_schedulers(&domain.text))?;
    let text = &domain.text;
    let callee = thread.domain_of(&target);
    let (why, page) = why_by_kernel(domain, &target, callee.as_deref(), flags);
    let grade = if why == why::DIRECT { grade::EPC_H } else { grade::EPC_S };
    // Not the thread's: a text may bind while others' threads execute it, and then it lends to them for a while only.
    let payer = text.owner();
    let task = payer.number;
    let args = (args_len > 0).then(|| make_args(domain, task, &target, args_len)).transpose()?;
    let (args_base, args_len) = args.as_ref().map_or((0, 0), |s| (s.base, s.state.lock().len));
    let lent = args.as_ref().map_or_else(lent::Tasks::default, |_| lent::Tasks::of(task));
    let mut bindings = text.bindings.lock();
    let number = bindings.iter().position(Option::is_none).unwrap_or(bindings.len());
    if number as u64 >= BINDINGS_MAX {
        drop(bindings);
        args.iter().for_each(|args| args.delete());
        return Err(Error::TooBig);
    }
    payer.counts_list(0, promise::BINDING);
    let binding = Arc::new(Binding {
        target: target.clone(),
        address,
        block: Block { ..block },
        args,
        args_len,
        task,
        lent,
        payer,
        from: Arc::downgrade(text),
        text: text.base,
        number: number as u64,
        caller_stack,
        by_kernel: flags & flag::BY_KERNEL != 0,
        ended: AtomicBool::new(false),
        over: AtomicBool::new(false),
        looks: AtomicU32::new(0),
    });
    let is_there = binding.args.as_ref().is_none_or(|args| args.is_lent_by(&binding));
    if is_there {
        if number == bindings.len() {
            bindings.push(None);
        }
        bindings[number] = Some(binding.clone());
    }
    drop(bindings);
    if !is_there || text.is_dead() {
        // Whoever ends it may have looked through its bindings already.
        binding.end();
        return Err(Error::Dead);
    }
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
    } else if domain.supervisor || target.place.is_supervisor() {
        (why::SUPERVISOR, 0)
    } else if !target.rights(domain).contains(Rights::EXECUTE) {
        (why::NOT_EXECUTABLE, 0)
    } else if [Some(domain), callee].into_iter().flatten().any(|domain| domain.is_secret()) {
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
fn make_args(domain: &Domain, task: u64, target: &Section, len: u64) -> Result<Arc<Section>, Error> {
    let rights = Rights::READ | Rights::WRITE | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: domain.text.base };
    let owner = domain.text.owner();
    let section = Section::create(New { len, reserve: 0, kind: kind::DATA, at: 0, room: 0, owner, entry, ports: None, live: false })?;
    section.set_entry(&lent(principal::TASK, task, target)).inspect_err(|_| section.delete())?;
    if target.is_dead() || domain.text.is_dead() {
        // It may have gone before its name was in this list: the entry would be for whatever comes to lie there.
        section.delete();
        return Err(Error::Dead);
    }
    Ok(section)
}

/// `gate_unbind`.
pub fn unbind(domain: &Domain, number: u64) -> Result<u64, Error> {
    let bindings = &domain.text.bindings;
    let binding = bindings.lock().get(number as usize).cloned().flatten().ok_or(Error::NotFound)?;
    if binding.end() { Ok(0) } else { Err(Error::NotFound) }
}

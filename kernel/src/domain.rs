//! A domain: a thread while it executes a text. What it may touch is asked of ACLs and cached in its view.

use crate::claim;
use crate::gate::lent;
use crate::keyed::TaskView;
use crate::machine::{machine, spare_heap_for};
use crate::section::{New, Section};
use crate::task::Task;
use crate::view::View;
use abi::gate::DOORSTEP;
use abi::layout::{PAGE, SPACE_BASE, SPACE_END, WINDOW_END};
use abi::rights::principal;
use abi::section::kind;
use abi::task::{STACK_MAX, USER_NOBODY, USER_SYSTEM};
use abi::{AclEntry, Error, Rights};
use ::acl::Subject;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use keys::Class;
use spin::{Mutex, Once};

pub struct Domain {
    pub subject: Subject,
    /// The user in whose name it asks others.
    pub speaks_for: u64,
    pub text: Arc<Section>,
    /// Its own view, where it lives apart: always without keys, otherwise once it needs one.
    own: Once<Arc<View>>,
    /// The thread's part of its task's view, and the keys of that.
    shared: Option<Arc<View>>,
    pub task_view: Option<Arc<TaskView>>,
    /// It runs in the shared view; it is about to.
    pub keyed: AtomicBool,
    pub joins: AtomicBool,
    /// The class for which it had no key, so that it lives apart.
    pub missed: Mutex<Option<Class>>,
    /// It has touched a secret section, and lives apart for ever (pitfalls, H17).
    pub secret: AtomicBool,
    /// The thread's task, whose window this is.
    pub task: Arc<Task>,
    /// The text is that of the task's window: it sees the window only (pitfalls, R6).
    pub in_window: bool,
    /// The text is placed in supervisor mode: the domain lives apart for ever, in a view of such pages alone.
    pub supervisor: bool,
    /// The stack of this thread for this text: base, and first address beyond it.
    pub stack: (u64, u64),
    /// The section that it was made in, by itself and not by its address, where the thread may have put another one.
    pub stack_section: Option<Arc<Section>>,
    /// Its number among the domains of its thread.
    pub number: u32,
    /// The argument section that the text uses on this thread by address, other than in a call.
    pub held: Mutex<Option<Weak<Section>>>,
}

/// What a domain is made of.
pub struct Parts {
    pub subject: Subject,
    pub text: Arc<Section>,
    pub task: Arc<Task>,
    pub in_window: bool,
    pub supervisor: bool,
    pub stack: (u64, u64),
    pub stack_section: Option<Arc<Section>>,
    pub shared: Option<Arc<View>>,
    pub task_view: Option<Arc<TaskView>>,
}

/// Where an address leads.
pub struct Place {
    pub section: Arc<Section>,
    pub offset: u64,
    /// Protection of the window mapping by which it came.
    pub window: Option<Rights>,
    /// The mapping: `[at, at + len)` shows the section from `from` on.
    pub at: u64,
    pub from: u64,
    pub len: u64,
}

impl Place {
    /// Whether both lead to the same page with the same protection.
    pub fn is_same_page(&self, other: &Place) -> bool {
        Arc::ptr_eq(&self.section, &other.section) && self.offset == other.offset && self.window == other.window
    }
}

impl Domain {
    /// A domain that lives apart, until it is admitted to the shared view.
    pub fn new(parts: Parts, number: u32) -> Domain {
        let Parts { subject, text, task, in_window, supervisor, stack, stack_section, shared, task_view } = parts;
        let author = text.owner().user;
        let speaks_for = if author == USER_SYSTEM || author == subject.user { subject.user } else { USER_NOBODY };
        Domain {
            subject,
            speaks_for,
            text,
            own: Once::new(),
            shared,
            task_view,
            keyed: AtomicBool::new(false),
            joins: AtomicBool::new(false),
            missed: Mutex::new(None),
            secret: AtomicBool::new(false),
            task,
            in_window,
            supervisor,
            stack,
            stack_section,
            number,
            held: Mutex::new(None),
        }
    }

    #[inline]
    pub fn is_keyed(&self) -> bool {
        self.keyed.load(Ordering::SeqCst)
    }

    /// Whether nothing may be fetched in the shared view that it may not execute.
    pub fn is_member(&self) -> bool {
        // In this order: who comes in is keyed first and then about to be no more.
        self.joins.load(Ordering::SeqCst) || self.is_keyed()
    }

    /// The view that it runs in.
    #[inline(always)]
    pub fn view(&self) -> &Arc<View> {
        match &self.shared {
            Some(shared) if self.is_keyed() => shared,
            _ => self.own.get().expect("a domain that lives apart has a view"),
        }
    }

    /// All views that it may run in.
    pub fn views(&self) -> Vec<Arc<View>> {
        self.own.get().into_iter().chain(&self.shared).cloned().collect()
    }

    /// It is of no use any more, and neither is its own view. Call without locks.
    pub fn retire_view(&self) {
        if let Some(view) = self.own.get() {
            view.retire();
        }
    }

    /// The page-table root that it runs with.
    #[inline(always)]
    pub fn root(&self) -> u64 {
        match &self.shared {
            Some(shared) if self.is_keyed() => shared.root(),
            _ => self.own.get().map_or_else(arch::tables::kernel_root, |view| view.root()),
        }
    }

    /// Its own view, made if it had none.
    pub fn own_view(&self) -> Result<Arc<View>, Error> {
        self.own.try_call_once(|| {
            let view = if self.supervisor { View::for_supervisor(&self.task)? } else { View::new(&self.task)? };
            if self.task.foreign.get().is_some() {
                self.task.window.lock().register(&view);
            }
            Ok(view)
        }).cloned()
    }

    /// The section behind an address, as this domain sees the space.
    pub fn locate(&self, address: u64) -> Option<Place> {
        if address < WINDOW_END {
            // Without a personality nothing is there: where keys are, no program of such a task sees what is mapped.
            self.task.foreign.get()?;
            return self.task.window.lock().locate(address);
        }
        if self.in_window || !(SPACE_BASE..SPACE_END).contains(&address) {
            return None;
        }
        let section = Section::find(address)?;
        Some(Place { offset: address - section.base, at: section.base, from: 0, len: section.reserve, window: None, section })
    }
}

/// Makes a domain of a thread: a view, and for native code a stack.
pub fn make(task: &Arc<Task>, thread: u64, number: u32, text: &Arc<Section>, shared: Option<(Arc<View>, Arc<TaskView>)>, stack_len: Option<u64>) -> Result<Arc<Domain>, Error> {
    let subject = Subject { node: machine().node, user: task.user, task: task.number, thread, text: text.base, original: text.original() };
    spare_heap_for(task)?;
    let stack_section = stack_len.map(|len| make_stack(task, thread, text, len)).transpose()?;
    let stack = stack_section.as_ref().map_or((0, 0), |s| (s.base, s.base + s.state.lock().len));
    let (shared, task_view) = shared.unzip();
    let supervisor = text.place.take_up(stack_len.is_none());
    let parts =
        Parts { subject, text: text.clone(), task: task.clone(), in_window: stack_len.is_none(), supervisor, stack, stack_section, shared, task_view };
    let domain = Arc::new(Domain::new(parts, number));
    // Until it is admitted to the shared view, if ever.
    domain.own_view().inspect_err(|_| retire(&domain))?;
    Ok(domain)
}

/// A stack that belongs to one thread in one text. Its topmost word is the doorstep, where a callee returns to.
fn make_stack(task: &Arc<Task>, thread: u64, text: &Section, len: u64) -> Result<Arc<Section>, Error> {
    let len = len.clamp(8 * PAGE, STACK_MAX).next_multiple_of(PAGE);
    let rights = Rights::READ | Rights::WRITE | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::THREAD, rights: rights.bits(), id: thread, text: text.base };
    let stack = Section::create(New { len, reserve: STACK_MAX, kind: kind::STACK, at: 0, room: 0, owner: task.clone(), entry, ports: None, live: false })?;
    let for_system = text.owner().user == USER_SYSTEM;
    if let Some(stack) = &mut stack.state.lock().stack {
        stack.for_system = for_system;
    }
    claim::fill(&stack, len - 16, &DOORSTEP.to_le_bytes()).inspect_err(|_| stack.delete())?;
    Ok(stack)
}

/// The thread will not execute in this domain again: its stack goes.
pub fn retire(domain: &Arc<Domain>) {
    lent::hold_none(domain);
    if let Some(stack) = &domain.stack_section {
        stack.delete();
    }
}

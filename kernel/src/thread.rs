//! Threads: what is scheduled. A thread keeps its number and its task when it calls into another program.

use crate::claim;
use crate::domain::Domain;
use crate::epc::CallFrame;
use crate::machine::{machine, spare_heap};
use crate::processor::here;
use crate::sched::{self, Timeout};
use crate::section::{New, Section};
use crate::task::Task;
use crate::view::View;
use crate::wait::{self, Waiters};
use abi::layout::{DOORSTEP, PAGE};
use abi::rights::principal;
use abi::section::kind;
use abi::task::{CALLEE_GRACE_NS, STACK_DEFAULT, STACK_MAX, ThreadInfo, state};
use abi::{AclEntry, Error, Rights};
use ::acl::Subject;
use ::gate::Frames;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::context::{Area, Registers};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quota::Resource;
use spin::Mutex;

/// Stacks that the kernel makes for a callee.
const CALLEE_STACK: u64 = STACK_DEFAULT;

/// What the thread's lock protects.
pub struct Inner {
    pub area: Area,
    /// Where the thread will return to, innermost last; neither caller nor callee can write it.
    pub frames: Frames<CallFrame>,
    pub domain: Arc<Domain>,
    /// A domain for every text that the thread has executed.
    pub domains: BTreeMap<u64, Arc<Domain>>,
    /// FS and GS bases of the code in the window; native programs have none.
    pub segments: (u64, u64),
    /// Vector state of the window's code while its personality runs.
    pub window_vectors: Option<Area>,
}

/// Whether a thread may run, and what would make it ready again.
pub struct Wait {
    pub state: u64,
    /// Number of the current or last wait: a late waker finds another one.
    pub ticket: u64,
    /// Its time-out, and the processor that keeps it.
    pub timer: Option<(usize, ::sched::Key)>,
}

pub struct Thread {
    pub number: u64,
    pub task: Arc<Task>,
    pub inner: Mutex<Inner>,
    pub wait: Mutex<Wait>,
    /// Its state is in a processor's registers: nobody else may take it up.
    pub on_processor: AtomicBool,
    pub processor: AtomicUsize,
    killed: AtomicBool,
    kill_deadline: AtomicU64,
    exit: Mutex<Option<u64>>,
    pub waiters: Waiters,
    /// The list of word waits that may hold this thread.
    pub word_bucket: AtomicUsize,
    pub time_ns: AtomicU64,
    pub faults: AtomicU64,
}

/// How a new thread begins.
pub enum Begin {
    /// In a native text, with an argument and a stack of its own.
    Native { entry: u64, argument: u64, stack_len: u64 },
    /// In the window, with these registers and segment bases.
    Window { registers: Registers, segments: (u64, u64) },
}

impl Thread {
    /// Makes a thread that waits for [`Thread::start`].
    pub fn create(task: &Arc<Task>, text: &Arc<Section>, begin: Begin) -> Result<Arc<Thread>, Error> {
        if task.is_dead() {
            return Err(Error::Dead);
        }
        task.charge(Resource::Threads, 1)?;
        let number = machine().threads.number();
        let made = match begin {
            Begin::Native { entry, argument, stack_len } => {
                domain(task, number, text, Some(if stack_len == 0 { STACK_DEFAULT } else { stack_len })).map(|domain| {
                    let mut registers = Registers::start(entry, domain.stack.1 - 8);
                    registers.rdi = argument;
                    (domain, registers, (0, 0))
                })
            }
            Begin::Window { registers, segments } => domain(task, number, text, None).map(|domain| (domain, registers, segments)),
        };
        let (domain, registers, segments) = made.inspect_err(|_| task.release(Resource::Threads, 1))?;
        let thread = Arc::new(Thread {
            number,
            task: task.clone(),
            inner: Mutex::new(Inner {
                area: Area::new(registers),
                frames: Frames::new(),
                domains: [(text.base, domain.clone())].into(),
                domain,
                segments,
                window_vectors: None,
            }),
            wait: Mutex::new(Wait { state: state::WAITING, ticket: 0, timer: None }),
            on_processor: AtomicBool::new(false),
            processor: AtomicUsize::new(here().index),
            killed: AtomicBool::new(false),
            kill_deadline: AtomicU64::new(u64::MAX),
            exit: Mutex::default(),
            waiters: Waiters::default(),
            word_bucket: AtomicUsize::new(0),
            time_ns: AtomicU64::new(0),
            faults: AtomicU64::new(0),
        });
        task.threads.lock().insert(number, thread.clone());
        machine().threads.insert(number, thread.clone());
        task.start();
        Ok(thread)
    }

    /// Makes a new thread ready.
    pub fn start(self: &Arc<Thread>) {
        // Whoever ends its task may have been faster: then it is in a queue already.
        let waits = {
            let mut wait = self.wait.lock();
            let waits = wait.state == state::WAITING && wait.ticket == 0;
            if waits {
                wait.state = state::READY;
            }
            waits
        };
        if waits {
            sched::ready(self.clone());
        }
        if self.task.is_dead() {
            self.kill();
        }
    }

    /// Reads the saved registers.
    pub fn registers<T>(&self, read: impl FnOnce(&Registers) -> T) -> T {
        read(self.inner.lock().area.registers())
    }

    /// Puts the result of a call where the caller finds it.
    pub fn answer(&self, result: Result<u64, Error>) {
        answer(self.inner.lock().area.registers_mut(), result);
    }

    pub fn domain(&self) -> Arc<Domain> {
        self.inner.lock().domain.clone()
    }

    /// The thread's domain for a text, made on its first call there.
    pub fn domain_for(&self, inner: &mut Inner, text: &Arc<Section>) -> Result<Arc<Domain>, Error> {
        if let Some(domain) = inner.domains.get(&text.base)
            && Arc::ptr_eq(&domain.text, text)
        {
            return Ok(domain.clone());
        }
        // Texts that have ended since: their stacks and views are of no use any more.
        let gone: Vec<u64> = inner.domains.iter().filter(|(_, d)| d.text.is_dead() && d.active.load(Ordering::Relaxed) == 0).map(|(&base, _)| base).collect();
        for base in gone {
            if let Some(domain) = inner.domains.remove(&base) && !Arc::ptr_eq(&domain, &inner.domain) {
                retire(&domain);
            }
        }
        let domain = domain(&self.task, self.number, text, Some(CALLEE_STACK))?;
        if let Some(old) = inner.domains.insert(text.base, domain.clone()) {
            // An earlier text at the same address, which nobody executes any more.
            retire(&old);
        }
        Ok(domain)
    }

    /// Whether it still waits, and for what it began to wait for with this ticket.
    pub fn is_in_wait(&self, ticket: u64) -> bool {
        let wait = self.wait.lock();
        wait.state == state::WAITING && wait.ticket == ticket
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    pub fn kill_deadline(&self) -> u64 {
        self.kill_deadline.load(Ordering::SeqCst)
    }

    /// Ends the thread as soon as it executes its own task's text; in a callee it has a bounded time (architecture 14).
    pub fn kill(self: &Arc<Thread>) {
        if self.killed.swap(true, Ordering::SeqCst) {
            return;
        }
        let deadline = arch::time::now() + CALLEE_GRACE_NS;
        self.kill_deadline.store(deadline, Ordering::SeqCst);
        let processor = &machine().processors[self.processor.load(Ordering::Relaxed)];
        processor.attend();
        let ticket = {
            let wait = self.wait.lock();
            (wait.state == state::WAITING).then_some(wait.ticket)
        };
        match ticket {
            Some(ticket) if self.in_own_text(&self.inner.lock()) => {
                sched::wake(self, ticket, Err(Error::Killed));
            }
            Some(ticket) => {
                sched::at(deadline, Timeout::Grace(self.clone()));
                // Its callee hears of it at once, and may come back early.
                sched::wake(self, ticket, Err(Error::Killed));
            }
            None => processor.poke(),
        }
    }

    fn in_own_text(&self, inner: &Inner) -> bool {
        inner.frames.depth() == 0 || inner.domain.text.owner().number == self.task.number
    }

    /// Whether a killed thread is where it may be ended.
    pub fn may_end(&self) -> bool {
        self.is_killed() && (arch::time::now() >= self.kill_deadline() || self.in_own_text(&self.inner.lock()))
    }

    /// The time is over even for a callee.
    pub fn grace_over(self: &Arc<Thread>) {
        let wait = self.wait.lock();
        if wait.state == state::WAITING {
            let ticket = wait.ticket;
            drop(wait);
            sched::wake(self, ticket, Err(Error::Killed));
        }
    }

    /// The callee itself has said that it is done with this killed thread.
    pub fn end_of_grace(&self) {
        self.kill_deadline.store(0, Ordering::SeqCst);
        machine().processors[self.processor.load(Ordering::Relaxed)].attend();
    }

    /// Ends the thread, on the processor that it runs on.
    pub fn end(self: &Arc<Thread>, code: u64) {
        {
            let mut wait = self.wait.lock();
            if wait.state == state::ENDED {
                return;
            }
            wait.state = state::ENDED;
        }
        here().attend();
        let domains = {
            let mut inner = self.inner.lock();
            while inner.frames.pop().is_some() {}
            core::mem::take(&mut inner.domains)
        };
        domains.values().for_each(retire);
        drop(domains);
        wait::forget(self);
        *self.exit.lock() = Some(code);
        // First its task knows the code, then the thread is gone: who asks finds one or the other.
        self.task.remember_end(self.number, code);
        machine().threads.remove(self.number);
        self.task.thread_gone(self.number, code);
        self.waiters.wake_all();
    }

    /// The exit code of a thread that has ended.
    pub fn exit_code(&self) -> Option<u64> {
        *self.exit.lock()
    }

    pub fn info(&self) -> ThreadInfo {
        let (text, depth) = {
            let inner = self.inner.lock();
            (inner.domain.text.base, inner.frames.depth() as u64)
        };
        ThreadInfo {
            thread: self.number,
            task: self.task.number,
            state: self.wait.lock().state,
            processor: self.processor.load(Ordering::Relaxed) as u64,
            text,
            depth,
            time: self.time_ns.load(Ordering::Relaxed),
            faults: self.faults.load(Ordering::Relaxed),
        }
    }
}

/// Puts a result into saved registers: `rax` error, `rdx` value.
pub fn answer(registers: &mut Registers, result: Result<u64, Error>) {
    match result {
        Ok(value) => {
            registers.rax = 0;
            registers.rdx = value;
        }
        Err(error) => {
            registers.rax = error.word();
            registers.rdx = 0;
        }
    }
}

/// Makes a domain of a thread: a view, and for native code a stack.
fn domain(task: &Arc<Task>, thread: u64, text: &Arc<Section>, stack_len: Option<u64>) -> Result<Arc<Domain>, Error> {
    let subject = Subject { node: machine().node, user: task.user, task: task.number, thread, text: text.base, original: text.original() };
    spare_heap()?;
    let view = View::new(task)?;
    let stack_section = stack_len.map(|len| make_stack(task, thread, text, len)).transpose()?;
    let stack = stack_section.as_ref().map_or((0, 0), |s| (s.base, s.base + s.state.lock().len));
    if task.foreign.get().is_some() {
        task.window.lock().register(&view);
    }
    Ok(Arc::new(Domain {
        subject,
        text: text.clone(),
        view,
        task: task.clone(),
        in_window: stack_len.is_none(),
        stack,
        stack_section,
        active: AtomicU64::new(0),
        bound: Mutex::default(),
    }))
}

/// A stack that belongs to one thread in one text. Its topmost word is the doorstep, where a callee returns to.
fn make_stack(task: &Arc<Task>, thread: u64, text: &Section, len: u64) -> Result<Arc<Section>, Error> {
    let len = len.clamp(8 * PAGE, STACK_MAX);
    let rights = Rights::READ | Rights::WRITE | Rights::CHANGE_ACL;
    let entry = AclEntry { principal: principal::THREAD, rights: rights.bits(), id: thread, text: text.base };
    let stack = Section::create(New { len, reserve: STACK_MAX, kind: kind::STACK, at: 0, room: 0, owner: task.clone(), entry, ports: None })?;
    let len = stack.state.lock().len;
    claim::fill(&stack, len - 8, &DOORSTEP.to_le_bytes()).inspect_err(|_| stack.delete())?;
    Ok(stack)
}

/// The thread will not execute in this domain again: its stack goes, and its checked bindings, which may lead round in
/// a circle to the domain itself.
fn retire(domain: &Arc<Domain>) {
    if let Some(stack) = &domain.stack_section {
        stack.delete();
    }
    let bound = core::mem::take(&mut *domain.bound.lock());
    drop(bound);
}

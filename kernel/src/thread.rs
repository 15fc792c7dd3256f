//! Threads: what is scheduled. A thread keeps its number and its task when it calls into another program.

mod killed;
pub mod seen;
mod told;

use crate::claim::passed::Passed;
use crate::fault::{Bereft, Handled};
use crate::domain::{self, Domain, retire};
use crate::crossing::{self, Leads, OWN, Stacks};
use crate::epc::More;
use crate::keyed::{self, TaskView};
use crate::info::{self, ThreadSlot, word};
use crate::info::user::OwnThreadSlot;
use crate::machine::machine;
use crate::mbcf::signal::Due;
use crate::pager::{Areas, Asked, OwnPatience, Standing};
use crate::place::Group;
use crate::post;
use crate::processor::here;
use crate::sched::{self, Unfinished};
use crate::seat::NO_SEAT;
use crate::section::Section;
use crate::section::valid::Lasts;
use crate::task::Task;
use crate::view::View;
use crate::wait::{self, Waiters};
use crate::watch::Watches;
use crate::trace;
use abi::trace::kind;
use abi::refusal::Object;
use abi::task::state;
use abi::task::{STACK_DEFAULT, USER_SYSTEM};
use abi::{AclEntry, Error, Rights};
use ::sched::{Called, Life, Phase, Wish};
use alloc::collections::BTreeMap;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::pass::OwnCard;
use arch::shown::MACHINE;
use arch::context::{Area, Registers};
use arch::gate::Gate;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quota::Resource;
use spin::Mutex;

/// Stacks that the kernel makes for a callee.
const CALLEE_STACK: u64 = STACK_DEFAULT;
/// Domains of texts that have ended that a thread gives up at a time.
const SHED_MAX: usize = 16;
/// No more of them when so many records of theirs are to be cleared.
const SHED_RECORDS: u64 = 512;

/// What the thread's lock protects.
pub struct Inner {
    pub area: Area,
    /// Where the thread will return to, and the calls that it may make; neither caller nor callee can write it.
    pub gate: Gate,
    /// What frames do not hold, by depth, innermost last.
    pub more: Vec<(usize, More)>,
    /// Own stacks on which callees run, by the depth of the outermost call that needs the entry, with what that did not give before.
    pub stacks: Vec<(usize, Arc<Section>, AclEntry)>,
    /// Calls on their callers' stacks.
    pub borrowed: Stacks,
    /// The domain that the thread is in, and the depth and record by which the kernel last saw it there.
    pub domain: Arc<Domain>,
    pub seen: (usize, u64),
    /// The key register's value there.
    pub register: u32,
    /// A domain for every text that the thread has executed, by number; and the numbers, by text.
    pub domains: Vec<Option<Arc<Domain>>>,
    /// Those that are of no use any more, until the thread leaves the kernel.
    gone: Vec<Arc<Domain>>,
    pub numbers: BTreeMap<u64, u32>,
    /// The records that lead to a domain, and how far its own records go.
    pub leads: Leads,
    pub reach: BTreeMap<u32, u32>,
    /// The exception that the thread entered the kernel by, if it was in the gate.
    pub vector: u64,
    /// FS and GS bases of the code in the window; native programs have none.
    pub segments: (u64, u64),
    /// Vector state of the window's code while its personality runs.
    pub window_vectors: Option<Area>,
    /// Faults that texts are dealing with, at most one of a call, innermost last.
    pub handled: Vec<Handled>,
    /// Its calls of texts that have ended meanwhile, and of pagers that take too long.
    pub bereft: Bereft,
    /// For pagers that serve it.
    pub areas: Areas,
    pub patience: OwnPatience,
    /// The last sections whose pages it has made invalid or valid.
    pub last: Lasts,
    /// Of the plain call that last asked about pointers.
    pub passed: Option<Passed>,
    /// Its calls with which addresses were passed in sections that could not count them (section/passers.rs), by depth: the record, and how many there were before.
    pub uncounted: BTreeMap<usize, (u64, u64)>,
    /// Which pager was last asked for it.
    pub asked: Option<Box<Asked>>,
}

/// Whether a thread may run, and what would make it ready again.
pub struct Wait {
    pub life: Life,
    /// Number of the current or last wait: a late waker finds another one.
    pub ticket: u64,
    /// Its time-out, and the processor that keeps it.
    pub timer: Option<(usize, ::sched::Key)>,
    /// Likewise what ends it when the callee of a killed thread has had its time.
    pub grace: Option<(usize, ::sched::Key)>,
    /// The timer of its waits for messages.
    pub limit: Option<post::limit::Set>,
    /// The wait that `call_scheduler` may end; 0: none. And whether one was ended before it began.
    pub asleep: u64,
    pub woken: bool,
    /// A message has ended its wait, which its processor has not written down yet.
    pub posted: bool,
}

impl Wait {
    /// What else would have ended a wait that is over, to be [cancelled](sched::cancel).
    pub fn take_timers(&mut self) -> [Option<(usize, ::sched::Key)>; 2] {
        [self.timer.take(), self.grace.take()]
    }
}

pub struct Thread {
    pub number: u64,
    pub task: Arc<Task>,
    /// Its part of the task's view.
    pub shared: Option<Arc<View>>,
    pub inner: Mutex<Inner>,
    pub wait: Mutex<Wait>,
    /// Its state is in a processor's registers: nobody else may take it up.
    pub on_processor: AtomicBool,
    pub processor: AtomicUsize,
    kill: killed::Kill,
    exit: Mutex<Option<u64>>,
    pub waiters: Waiters,
    /// What it has of the pool.
    pub part: post::Part,
    pub watches: Watches,
    /// Somebody watches it, or did.
    pub watched: AtomicBool,
    pub at_word: wait::AtWord,
    pub at_event: wait::AtEvent,
    /// The wait for a group ([`crate::place`]) that it is in, or was last.
    pub awaits_group: AtomicU64,
    pub time_ns: AtomicU64,
    /// While it runs: since when, beyond what is in `time_ns`. Otherwise 0.
    pub running_since: AtomicU64,
    pub faults: AtomicU64,
    /// It will be looked at whether a text has dealt with its faults, and what is [`Inner::bereft`] is over; one is not, in time.
    pub fault_timer: AtomicBool,
    /// The turn by which it was last roused, put aside, since its time was over.
    pub roused: AtomicU64,
    pub is_late: AtomicBool,
    /// A text that it is in has ended.
    pub falls: AtomicBool,
    /// It has domains that are of no use any more.
    sheds: AtomicBool,
    /// The processor whose seat it has or has asked for; [`NO_SEAT`].
    pub seat: AtomicUsize,
    /// The priority that was asked for and that no scheduler has heard of yet.
    pub wish: Wish,
    pub served: Standing,
    pub unfinished: Unfinished,
    /// It is among those of its task that are [about to go](Task::lessen).
    pub goes: AtomicBool,
    /// Programs of signals that are to start.
    pub due: Due,
    /// What the short way from thread to thread keeps of it.
    pub card: OwnCard,
    pub seen: seen::Seen,
    /// The interrupt that has woken it, until it runs.
    pub called: Called,
    /// It is a level of a scheduler (`abi::sched::op::SERVE`).
    pub serves: AtomicBool,
    /// The group of texts that it waits to come into, or has.
    pub group: Mutex<Option<Arc<Group>>>,
    /// What programs read of it: everybody's, its user's.
    shown: ThreadSlot,
    own: OwnThreadSlot,
}

/// How a new thread begins.
pub enum Begin {
    /// In a native text, with an argument and a stack of its own.
    Native { entry: u64, argument: u64, stack_len: u64 },
    /// In the window, with these registers and segment bases.
    Window { registers: Registers, segments: (u64, u64) },
}

impl Inner {
    /// Whether there are domains of texts that have ended, and have not been taken down yet.
    pub fn is_to_shed(&self) -> bool {
        self.gone.iter().any(|domain| domain.text.is_dead())
    }
}

impl Thread {
    /// Makes a thread that waits for [`Thread::start`].
    pub fn create(task: &Arc<Task>, text: &Arc<Section>, begin: Begin) -> Result<Arc<Thread>, Error> {
        task.begins_thread()?;
        let number = machine().threads.number();
        let shared = shared_view(task).inspect_err(|_| task.release(Resource::Threads, 1))?;
        let made = match begin {
            Begin::Native { entry, argument, stack_len } => {
                domain::make(task, number, OWN, text, shared.clone(), Some(if stack_len == 0 { STACK_DEFAULT } else { stack_len })).map(|domain| {
                    let mut registers = Registers::start(entry, domain.stack.1 - 8);
                    registers.rdi = argument;
                    (domain, registers, (0, 0))
                })
            }
            Begin::Window { registers, segments } => {
                domain::make(task, number, OWN, text, shared.clone(), None).map(|domain| (domain, registers, segments))
            }
        };
        let made = made.and_then(|(domain, registers, segments)| match crossing::make_gate(task, &domain) {
            Ok(gate) => Ok((domain, gate, registers, segments)),
            Err(error) => {
                retire(&domain);
                Err(error)
            }
        });
        let (domain, gate, registers, segments) = made.inspect_err(|_| task.release(Resource::Threads, 1))?;
        show(&domain, &gate);
        let thread = Arc::new(Thread {
            number,
            task: task.clone(),
            shared: shared.clone().map(|(view, _)| view),
            inner: Mutex::new(Inner {
                area: Area::new(registers),
                seen: (0, gate.frame(0).record),
                register: arch::gate::REGISTER_PLAIN,
                more: Vec::new(),
                stacks: Vec::new(),
                borrowed: Stacks::default(),
                numbers: [(text.base, OWN)].into(),
                gone: Vec::new(),
                domains: alloc::vec![None, Some(domain.clone())],
                leads: Leads::new(OWN, gate.frame(0).record),
                reach: BTreeMap::new(),
                gate,
                vector: 0,
                domain,
                segments,
                window_vectors: None,
                handled: Vec::new(),
                bereft: Bereft::default(),
                areas: Areas::new(),
                patience: OwnPatience::new(),
                last: Lasts::new(),
                passed: None,
                uncounted: BTreeMap::new(),
                asked: None,
            }),
            wait: Mutex::new(Wait { life: Life::new(), ticket: 0, timer: None, grace: None, limit: None, asleep: 0, woken: false, posted: false }),
            on_processor: AtomicBool::new(false),
            processor: AtomicUsize::new(here().index),
            kill: killed::Kill::default(),
            exit: Mutex::default(),
            waiters: Waiters::default(),
            part: post::Part::default(),
            watches: Watches::default(),
            watched: AtomicBool::new(false),
            at_word: wait::AtWord::default(),
            at_event: wait::AtEvent::default(),
            awaits_group: AtomicU64::new(0),
            time_ns: AtomicU64::new(0),
            running_since: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            fault_timer: AtomicBool::new(false),
            roused: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            falls: AtomicBool::new(false),
            sheds: AtomicBool::new(false),
            seat: AtomicUsize::new(NO_SEAT),
            wish: Wish::new(),
            served: Standing::default(),
            unfinished: Unfinished::default(),
            goes: AtomicBool::new(false),
            due: Due::default(),
            card: OwnCard::new(number, task.number),
            seen: seen::Seen::default(),
            called: Called::default(),
            serves: AtomicBool::new(false),
            group: Mutex::default(),
            shown: info::thread(number, task.number),
            own: task.about.thread(number, text.base),
        });
        thread.shows(state::WAITING);
        task.shows_class(text.place.class_number());
        MACHINE.threads.fetch_add(1, Ordering::Relaxed);
        if let Some((_, task_view)) = &shared {
            task_view.add_thread(&thread);
            let own = thread.inner.lock().domain.clone();
            if task_view.admit(&own) {
                keyed::bring_in(&thread, &own);
            }
        }
        {
            let mut threads = task.threads.lock();
            threads.insert(number, thread.clone());
            task.shown.set(word!(Task, threads), threads.len() as u64);
        }
        machine().threads.insert(number, thread.clone());
        if thread.exit_code().is_some() {
            // Whoever has ended its task has found it there, and not here.
            machine().threads.remove(number);
        }
        trace::note(kind::THREAD, number, task.number);
        task.start();
        Ok(thread)
    }

    /// Makes a new thread ready.
    pub fn start(self: &Arc<Thread>) {
        // Whoever ends its task may have been faster: then it is in a queue already.
        let turn = {
            let mut wait = self.wait.lock();
            if wait.life.phase() == Phase::Waiting && wait.ticket == 0 { wait.life.ready() } else { None }
        };
        if let Some(turn) = turn {
            sched::ready(self.clone(), turn);
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
        let mut inner = self.inner.lock();
        inner.sync();
        inner.domain.clone()
    }

    /// The text that it was started in, until it ends.
    pub fn own_text(&self) -> Option<Arc<Section>> {
        self.inner.lock().domain_number(OWN).ok().map(|own| own.text.clone())
    }

    /// The thread's domain for a text that it has called.
    pub fn domain_of(&self, text: &Section) -> Option<Arc<Domain>> {
        let inner = self.inner.lock();
        inner.numbers.get(&text.base).and_then(|number| inner.domain_number(*number).ok())
    }

    /// Whether this text, or a call out of it, has not returned yet. Of a thread that does not run.
    pub fn executes(&self, text: &Section) -> bool {
        let inner = self.inner.lock();
        let Some(&number) = inner.numbers.get(&text.base) else { return false };
        let leads_there = |depth| inner.gate.record(inner.gate.frame(depth).record).is_some_and(|record| record.domain == number);
        (0..=inner.gate.depth()).any(leads_there)
    }

    /// The thread's domain for a text that it comes into, made on its first call there; not if the text's task has ended. A thread of the system's calls none of a person's: whoever it calls
    /// from there would take it for the system, and servers on threads of their own would call whatever gate a message names.
    pub fn domain_for(&self, inner: &mut Inner, text: &Arc<Section>) -> Result<Arc<Domain>, Error> {
        let owner = text.owner();
        if owner.is_dead() {
            return Err(Error::Dead);
        }
        if let Some(domain) = inner.numbers.get(&text.base).and_then(|&number| inner.domain_number(number).ok())
            && Arc::ptr_eq(&domain.text, text)
        {
            return Ok(domain);
        }
        if self.task.user == USER_SYSTEM && owner.user != USER_SYSTEM {
            return Err(inner.domain.subject.refused(Object::Section(text.base, Rights::CALL)));
        }
        // Texts that have ended since: their stacks and views are of no use any more. Not before everybody has heard who is to hear of that
        // by the number of the domain.
        let ended = |domain: &&Arc<Domain>| domain.text.is_dead() && domain.text.is_over() && !inner.is_inside(domain.number);
        let mut records = 0;
        let is_little = |number: &u32| {
            let before = records;
            // What leads out of it, and what leads there.
            records += inner.records_of(*number) + inner.leads.get(number).map_or(0, |leads| leads.len() as u64);
            before < SHED_RECORDS
        };
        let ended = inner.domains.iter().flatten().filter(ended).map(|domain| domain.number);
        let gone: Vec<u32> = ended.take(SHED_MAX).take_while(is_little).collect();
        for number in gone {
            if number != OWN
                && let Some(domain) = inner.drop_domain(number)
            {
                self.card.leave(number);
                post::domain_gone(self, number);
                if inner.numbers.get(&domain.text.base) == Some(&number) {
                    inner.numbers.remove(&domain.text.base);
                }
                self.leaves(inner, domain);
            }
        }
        let number = inner.free_number()?;
        let shared = inner.domain_number(OWN)?.task_view.clone().and_then(|keys| Some((self.shared.clone()?, keys)));
        let domain = domain::make(&self.task, self.number, number, text, shared, Some(CALLEE_STACK))?;
        show(&domain, &inner.gate);
        if let Err(error) = inner.add_domain(self, number, domain.clone()) {
            self.leaves(inner, domain);
            return Err(error);
        }
        inner.numbers.insert(text.base, number);
        Ok(domain)
    }

    /// A domain is of no use any more. What it has goes when the thread leaves the kernel: others are let in meanwhile, who may want its lock.
    fn leaves(&self, inner: &mut Inner, domain: Arc<Domain>) {
        inner.gone.push(domain);
        self.sheds.store(true, Ordering::SeqCst);
        here().attend();
    }

    /// A thread that rests does not go on by the short way, where nobody would look, if there is something to look at.
    pub fn keep_from_short(&self) {
        self.due.keep_from_short(&self.card);
        if self.falls.load(Ordering::SeqCst) || self.is_killed() {
            self.card.do_not_lie();
        }
    }

    /// Gives back what such domains have. Call without locks.
    pub fn shed(&self) {
        if self.sheds.load(Ordering::SeqCst) {
            self.sheds.store(false, Ordering::SeqCst);
            // The root that is loaded may be one of theirs. On the way out the right one is.
            arch::gate::load_root(arch::tables::kernel_root());
            while let Some(domain) = { self.inner.lock().gone.pop() } {
                retire(&domain);
                sched::breathe();
            }
        }
    }

    /// Whether it still waits, and for what it began to wait for with this ticket.
    pub fn is_in_wait(&self, ticket: u64) -> bool {
        let wait = self.wait.lock();
        wait.life.phase() == Phase::Waiting && wait.ticket == ticket
    }

    /// Whether it does not any more, for certain. Who holds a section's lock may ask: nobody is waited for, who may want that lock.
    pub fn has_left(&self, ticket: u64) -> bool {
        let wait = self.wait.try_lock();
        wait.is_some_and(|wait| wait.life.phase() != Phase::Waiting || wait.ticket != ticket)
    }

    /// Nothing is left of that turn in a queue: it has had it otherwise, and who has given it away comes into one himself, again and again.
    pub fn has_had(&self, turn: u64) {
        let at = machine().processors.get(self.processor.load(Ordering::SeqCst));
        drop(at.and_then(|p| p.queue.withdraw(|(other, of)| *of == turn && other.number == self.number)));
    }

    /// The exit code of a thread that has ended.
    pub fn exit_code(&self) -> Option<u64> {
        *self.exit.lock()
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

/// A thread's part of its task's view, where there are keys.
fn shared_view(task: &Arc<Task>) -> Result<Option<(Arc<View>, Arc<TaskView>)>, Error> {
    let Some(keys) = task.keyed()? else { return Ok(None) };
    Ok(Some((View::of_thread(task, &keys.lower)?, keys)))
}

/// The thread's gate is to be found in the views of the domain.
fn show(domain: &Domain, gate: &Gate) {
    domain.views().iter().for_each(|view| view.show_gate(gate));
}

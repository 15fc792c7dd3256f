//! Tasks: a group of threads with a common identity and quota.

mod charge;
mod told;

pub use told::steady;

use crate::domain::Domain;
use crate::gate::Gate;
use crate::info::{self, TaskSlot, User, word};
use crate::info::user::OwnTaskSlot;
use crate::keyed::TaskView;
use crate::machine::machine;
use crate::pager::Pager;
use crate::post::Purse;
use crate::post::notice::Bell;
use crate::promise::{self, Promise};
use crate::sched;
use crate::section::Section;
use crate::thread::Thread;
use crate::wait::Waiters;
use crate::window::{self, Window};
use crate::trace;
use abi::info::layout::life;
use abi::trace::kind;
use abi::refusal::Object;
use abi::section::NAME_LEN;
use abi::task::{Exit, Limits, USER_SYSTEM, exit};
use abi::{Error, Rights};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use arch::shown::MACHINE;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quota::ends::Ends;
use quota::{Ledger, Resource};
use spin::{Mutex, Once};

/// How deep tasks of persons may be nested.
const DEPTH_MAX: u64 = 32;

/// What a task with a window is served by.
pub struct Foreign {
    pub gate: Gate,
    /// The text that all code in the window counts as. It is the task's own section and goes with it, so it must not be held from here: a
    /// section knows its owner.
    pub text: Weak<Section>,
}

pub struct Task {
    pub number: u64,
    pub user: u64,
    /// The task whose text made it: it may build the window before the first thread runs. 0: nobody's, the first task.
    creator: u64,
    pub name: [u8; NAME_LEN],
    ledger: Mutex<Ledger>,
    /// What this task uses counts for that one, too, if it is not of the system's. So nobody gets more by making others.
    pub payer: Option<Arc<Task>>,
    /// What its user was promised, by which it has what it has.
    pub promise: Promise,
    /// What pays for its messages in queues.
    pub purse: Purse,
    /// Payers above this task.
    depth: u64,
    /// Bases of the sections that it pays for.
    pub sections: Mutex<BTreeSet<u64>>,
    pub threads: Mutex<BTreeMap<u64, Arc<Thread>>>,
    /// Exit codes of threads that nobody has joined yet.
    ended: Mutex<Ends>,
    pub window: Mutex<Window>,
    /// Where faults of its threads go first.
    pub pager: Mutex<Option<Arc<Pager>>>,
    /// Its number, for who only asks that, or 0; changes under the lock.
    pub paged: AtomicU64,
    /// The view of its threads, where the machine has keys; made with the first thread.
    keyed: Mutex<Option<Arc<TaskView>>>,
    pub foreign: Once<Foreign>,
    started: AtomicBool,
    dead: AtomicBool,
    exit: Mutex<Option<Exit>>,
    /// On its way out: below this address as little is left as can be before its last thread has gone.
    lessened: AtomicU64,
    /// Threads that are about to go, each of which has left what there is to do to others; changes with their lock.
    going: AtomicUsize,
    /// Somebody does what is to be done at the end; nobody else may say that it is done.
    finishing: AtomicBool,
    finished: AtomicBool,
    /// Its end may be told: nothing that it used is in use any more, nor what tasks used that it has made and never started.
    told: AtomicBool,
    /// What still uses something of it: itself, and each section on its way out, whoever deletes it.
    uses: AtomicU64,
    /// The task that has made this one and not started it, and has ended: its end is told after this one's.
    maker: Mutex<Option<Arc<Task>>>,
    pub waiters: Waiters,
    pub time_ns: AtomicU64,
    /// What programs read of it: everybody's, its user's. And where its user reads of what it has.
    pub shown: TaskSlot,
    own: OwnTaskSlot,
    pub about: &'static User,
}

impl Task {
    /// A new task without threads. Counts as one of its payer's threads until it is forgotten.
    pub fn create(payer: Option<&Arc<Task>>, creator: u64, user: u64, limits: Limits, name: [u8; NAME_LEN]) -> Result<Arc<Task>, Error> {
        let payer = payer.filter(|payer| payer.user != USER_SYSTEM).cloned();
        let depth = payer.as_ref().map_or(0, |payer| payer.depth + 1);
        if depth > DEPTH_MAX {
            return Err(Error::TooDeep);
        }
        if let Some(payer) = &payer {
            payer.charge(Resource::Threads, 1).map_err(|_| Error::TaskQuota)?;
        }
        let number = machine().tasks.number();
        let (about, words) = (info::of(user), info::name_words(&name));
        info::makes_room();
        about.makes_room(payer.as_deref());
        let shown = info::task(number, payer.as_ref().map_or(0, |payer| payer.number), user, &words);
        let own = about.task(number, &words, [limits.frames, limits.sections, limits.reserve, limits.threads]);
        let task = Arc::new(Task {
            number,
            user,
            creator,
            name,
            ledger: Mutex::new(Ledger::new(limits)),
            payer,
            promise: Promise::default(),
            purse: Purse::default(),
            depth,
            sections: Mutex::default(),
            threads: Mutex::default(),
            ended: Mutex::default(),
            window: Mutex::default(),
            pager: Mutex::default(),
            paged: AtomicU64::new(0),
            keyed: Mutex::default(),
            foreign: Once::new(),
            started: AtomicBool::new(false),
            dead: AtomicBool::new(false),
            exit: Mutex::default(),
            lessened: AtomicU64::new(0),
            going: AtomicUsize::new(0),
            finishing: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            told: AtomicBool::new(false),
            uses: AtomicU64::new(1),
            maker: Mutex::default(),
            waiters: Waiters::default(),
            time_ns: AtomicU64::new(0),
            shown,
            own,
            about,
        });
        promise::begins(&task);
        machine().tasks.insert(number, task.clone());
        trace::begins(&task);
        MACHINE.tasks.fetch_add(1, Ordering::Relaxed);
        about.show();
        Ok(task)
    }

    /// One thread more is to be made, which is charged and for whose records there is room.
    pub fn begins_thread(&self) -> Result<(), Error> {
        if self.is_dead() {
            return Err(Error::Dead);
        }
        info::makes_room();
        self.about.makes_room(Some(self));
        self.charge(Resource::Threads, 1)
    }

    /// The view that its threads share; `None` without keys, and for tasks with a window.
    pub fn keyed(self: &Arc<Task>) -> Result<Option<Arc<TaskView>>, Error> {
        if self.foreign.get().is_some() {
            return Ok(None);
        }
        let mut keyed = self.keyed.lock();
        if keyed.is_none() {
            // Whoever ends it takes what is here after he has begun, and nobody comes after him: it keeps its task.
            if self.finishing.load(Ordering::SeqCst) {
                return Err(Error::Dead);
            }
            *keyed = TaskView::new(self)?;
        }
        Ok(keyed.clone())
    }

    pub fn find(number: u64) -> Result<Arc<Task>, Error> {
        machine().tasks.find(number).ok_or(Error::NotFound)
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Without which there is no system.
    pub fn is_first(&self) -> bool {
        self.creator == 0
    }

    /// Whether somebody of task `asker` may end this one.
    pub fn is_open_to(&self, asker: &Task) -> bool {
        asker.user == USER_SYSTEM || asker.user == self.user
    }

    /// Before its first thread only its creator builds a task; afterwards only its personality changes the window.
    pub fn check_window(&self, domain: &Domain) -> Result<(), Error> {
        let executing = domain.text.owner().number;
        let may = match self.foreign.get() {
            Some(foreign) if self.started.load(Ordering::SeqCst) => foreign.gate.is_of(&domain.text),
            _ => !self.started.load(Ordering::SeqCst) && executing == self.creator,
        };
        if may { Ok(()) } else { Err(domain.subject.refused(Object::Task(self.number))) }
    }

    /// Whether the executing text's task made this one and has not yet started it.
    pub fn check_creator(&self, domain: &Domain) -> Result<(), Error> {
        let is_creator = domain.text.owner().number == self.creator;
        if is_creator { Ok(()) } else { Err(domain.subject.refused(Object::Task(self.number))) }
    }

    /// Whether nobody else has begun to start it: without a personality from now on, if it has none.
    pub fn claims_start(&self) -> bool {
        let _window = self.window.lock();
        !self.started.swap(true, Ordering::SeqCst)
    }

    /// It was not started after all.
    pub fn gives_up_start(self: &Arc<Task>) {
        self.started.store(false, Ordering::SeqCst);
        if is_gone(self.creator) {
            // It may have looked for those that it has not started in between.
            self.exit_with(exit::KILLED, 0);
        }
    }

    /// Its personality, from before its first thread on; `Busy`: it was started. `Exists`: it has another one.
    pub fn gets(&self, foreign: Foreign) -> Result<(), Error> {
        let _window = self.window.lock();
        if self.has_started() {
            return Err(Error::Busy);
        }
        let mut new = Some(foreign);
        self.foreign.call_once(|| new.take().expect("once"));
        if new.is_none() { Ok(()) } else { Err(Error::Exists) }
    }

    pub fn start(&self) {
        self.started.store(true, Ordering::SeqCst);
        if !self.is_dead() {
            self.shown.set(word!(Task, life), life::STARTED);
        }
    }

    /// A text may be given to one that never was: what it made would be nobody's.
    pub fn check_started(&self) -> Result<(), Error> {
        if self.has_started() || self.is_first() { Ok(()) } else { Err(Error::NotSupported) }
    }

    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::SeqCst)
    }

    /// Whether the task is over and owns nothing any more.
    pub fn is_finished(&self) -> bool {
        self.finished.load(Ordering::SeqCst)
    }

    /// How the task ended, once it has.
    pub fn exit_status(&self) -> Option<Exit> {
        if self.told.load(Ordering::SeqCst) { *self.exit.lock() } else { None }
    }

    /// Ends the task: its texts at once, its threads as soon as they are in its own text (or their callees' time is
    /// over), then everything else. The first reason given is the one that is reported.
    pub fn end(self: &Arc<Task>, how: Exit) {
        self.exit.lock().get_or_insert(how);
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shown.set(word!(Task, life), life::ENDING);
        sched::in_stretches(self.own_sections(), |section| section.end_text());
        let threads: Vec<_> = self.threads.lock().values().cloned().collect();
        if threads.is_empty() {
            self.finish();
        }
        sched::in_stretches(threads, |thread| thread.kill());
    }

    /// Ends it from a line of its own that is short: its exit code.
    pub fn exit_with(self: &Arc<Task>, kind: u64, code: u64) {
        self.end(Exit { kind, code, ..Exit::default() });
    }

    /// Ends it with its last thread, which ends by itself: on its way out of the kernel then. Whether it is the last one.
    pub fn ends_with(self: &Arc<Task>, thread: &Arc<Thread>, code: u64) -> bool {
        if self.is_left_to_others(thread) {
            return false;
        }
        self.exit_with(exit::EXITED, code);
        // Somebody else may be at the task's end, and come to it later.
        thread.kill();
        true
    }

    /// Whether other threads are left to do what there is to do when a task ends, of which this one, which ends, does nothing then.
    fn is_left_to_others(&self, thread: &Thread) -> bool {
        let threads = self.threads.lock();
        let going = self.going.load(Ordering::Relaxed);
        let goes = thread.goes.load(Ordering::Relaxed) || threads.len() > going + 1;
        if goes && !thread.goes.swap(true, Ordering::Relaxed) {
            self.going.store(going + 1, Ordering::Relaxed);
        }
        goes
    }

    /// Some of what a task has goes before its last thread does, which asks for this as it ends. Whether there may be more.
    pub fn lessen(self: &Arc<Task>, thread: &Thread) -> bool {
        if self.is_left_to_others(thread) || self.is_first() {
            return false;
        }
        if !self.is_dead() {
            // It was killed alone.
            self.exit_with(exit::EXITED, Error::Killed.word());
        }
        let next = self.sections_from(self.lessened.load(Ordering::Relaxed)).next();
        if let Some(section) = &next {
            thread.lets_go();
            if section.lessen(self) {
                self.lessened.store(section.base + 1, Ordering::Relaxed);
            }
        }
        next.is_some()
    }

    /// Found one by one, so that others are let in between, however many there are.
    fn own_sections(&self) -> impl Iterator<Item = Arc<Section>> {
        self.sections_from(0)
    }

    fn sections_from(&self, mut from: u64) -> impl Iterator<Item = Arc<Section>> {
        core::iter::from_fn(move || {
            loop {
                let base = self.sections.lock().range(from..).next().copied()?;
                from = base + 1;
                // Given away meanwhile, or another one that has come to lie there.
                if let Ok(section) = Section::named(base)
                    && core::ptr::eq(&*section.owner(), self)
                {
                    return Some(section);
                }
            }
        })
    }

    /// A thread has gone. With the last one the task is over.
    pub fn thread_gone(self: &Arc<Task>, thread: u64, code: u64) {
        let last = {
            let mut threads = self.threads.lock();
            if threads.remove(&thread).is_some_and(|gone| gone.goes.load(Ordering::Relaxed)) {
                self.going.fetch_sub(1, Ordering::Relaxed);
            }
            self.shown.set(word!(Task, threads), threads.len() as u64);
            threads.is_empty()
        };
        if last {
            self.exit.lock().get_or_insert(Exit { kind: exit::EXITED, code, ..Exit::default() });
            self.dead.store(true, Ordering::SeqCst);
            self.finish();
        }
    }

    /// The last thread and somebody who ends the task may come here at the same time. One does it all: the other one would find
    /// sections that are being deleted, take them for deleted, and tell of the end while pages and addresses are in use.
    fn finish(self: &Arc<Task>) {
        if self.finishing.swap(true, Ordering::SeqCst) {
            return;
        }
        // Where the last thread has gone by itself. What they were bound to ends with less ado then.
        sched::in_stretches(self.own_sections(), |section| section.end_text());
        for section in self.own_sections() {
            section.delete_of(self);
            // However many it has.
            sched::breathe();
        }
        window::clear(self);
        {
            let mut pager = self.pager.lock();
            self.paged.store(0, Ordering::SeqCst);
            drop(pager.take());
        }
        let keyed = self.keyed.lock().take();
        if let Some(keyed) = keyed {
            keyed.lower.retire();
        }
        let codes = self.ended.lock().clear();
        self.release_codes(codes);
        self.finished.store(true, Ordering::SeqCst);
        // Children of the system's have none of its share.
        if self.user == USER_SYSTEM {
            self.purse.retire();
        }
        // Whoever makes or gives a section from here on sees that we have finished; these came just before.
        self.own_sections().for_each(|section| section.delete_of(self));
        if self.is_first() {
            panic!("the first task has ended: {:?}", self.exit.lock());
        }
        // One that never ran has made none, and the sweep that ends it goes on by itself.
        if self.has_started() || !is_gone(self.creator) {
            sweep(self);
        }
        self.unused();
    }

    /// One of its sections begins to go.
    pub fn used(&self) {
        self.uses.fetch_add(1, Ordering::SeqCst);
    }

    /// What [`used`](Self::used) said is done. The last one tells of the end.
    pub fn unused(self: &Arc<Task>) {
        if self.uses.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        // Who would give something to a task that has ended deletes it, and comes here later.
        if self.told.load(Ordering::SeqCst) {
            return;
        }
        // Whoever looks for it finds it in one of the two, and whoever is told of its end can have it forgotten.
        trace::note(kind::TASK_END, self.number, 0);
        machine().ended.insert(self.number, self.clone());
        machine().tasks.remove(self.number);
        MACHINE.tasks.fetch_sub(1, Ordering::Relaxed);
        self.shown.hide();
        self.own.hide();
        self.keyed.lock().iter().for_each(|keys| keys.hide());
        let maker = {
            let mut maker = self.maker.lock();
            self.told.store(true, Ordering::SeqCst);
            maker.take()
        };
        promise::ends(self);
        self.waiters.wake_all();
        ENDS.ring();
        if let Some(maker) = maker {
            maker.unused();
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(payer) = &self.payer {
            payer.release(Resource::Threads, 1);
        }
    }
}

/// Rung for each end of a task.
pub static ENDS: Bell = Bell::new();

/// Ends what a task that has just finished has made and not started: nobody is left who could. Somebody else may be doing that; the task's
/// end is told when it is done, whoever does it.
fn sweep(task: &Arc<Task>) {
    sched::in_stretches(machine().tasks.all(), |other| {
        if other.creator == task.number && !other.has_started() {
            {
                let mut maker = other.maker.lock();
                if maker.is_none() && !other.told.load(Ordering::SeqCst) {
                    task.used();
                    *maker = Some(task.clone());
                }
            }
            other.exit_with(exit::KILLED, 0);
        }
    });
}

/// Whether a task has finished, or is forgotten already.
pub fn is_gone(number: u64) -> bool {
    machine().tasks.find(number).is_none_or(|task| task.is_finished())
}

/// `task_wait`: finds it while it is there, and until it is forgotten.
pub fn find_ended(number: u64) -> Result<Arc<Task>, Error> {
    let found = machine().tasks.find(number).or_else(|| machine().ended.find(number));
    found.ok_or(Error::NotFound)
}

/// The rights that the executing domain needs to start a thread in a text.
pub fn check_start(domain: &Domain, text: &Section) -> Result<(), Error> {
    if !text.is_text() || text.is_dead() {
        return Err(Error::BadArgument);
    }
    text.check(domain, Rights::CHANGE_ACL)
}

/// Processor time since the last switch goes to the thread and its task.
pub fn account(thread: &Thread, since: u64) {
    thread.has_stopped(arch::time::now().saturating_sub(since));
}

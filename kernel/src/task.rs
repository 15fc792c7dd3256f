//! Tasks: a group of threads with a common identity and quota.

mod charge;
mod end;
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
use crate::section::Section;
use crate::thread::Thread;
use crate::wait::Waiters;
use crate::window::Window;
use crate::trace;
use abi::info::layout::life;
use abi::refusal::Object;
use abi::section::NAME_LEN;
use abi::task::{Exit, Limits, USER_SYSTEM, exit};
use abi::{Error, Rights};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
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
    /// On its way out: below this address all texts have ended; and below this one nothing is left.
    heard: AtomicU64,
    lessened: AtomicU64,
    /// Likewise: of its threads that were killed where they wait those below this number end. Before all were killed nobody does so; changes with their lock.
    roused: AtomicU64,
    /// What the thread has to do besides that has ended this one, and does what there is to do for that.
    next: Mutex<Option<Arc<Task>>>,
    /// There is such a thread, which has not done it all.
    in_hand: AtomicBool,
    /// It has made tasks, some of which it may not have started; those were ended.
    has_made: AtomicBool,
    has_swept: AtomicBool,
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
            heard: AtomicU64::new(0),
            lessened: AtomicU64::new(0),
            roused: AtomicU64::new(u64::MAX),
            next: Mutex::default(),
            in_hand: AtomicBool::new(false),
            has_made: AtomicBool::new(false),
            has_swept: AtomicBool::new(false),
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

    /// It is about to make one. First this is said, then it is there: whoever ends this one looks for it.
    pub fn makes(&self) {
        self.has_made.store(true, Ordering::SeqCst);
    }

    /// Whether the thread that has ended it does what there is to do for that, on its own turns.
    pub fn in_hand(&self) -> &AtomicBool {
        &self.in_hand
    }

    /// A list of tasks in themselves.
    pub fn next(&self) -> &Mutex<Option<Arc<Task>>> {
        &self.next
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
    if !text.is_text() || text.is_closed() {
        return Err(Error::BadArgument);
    }
    text.check(domain, Rights::CHANGE_ACL)
}

/// Processor time since the last switch goes to the thread and its task.
pub fn account(thread: &Thread, since: u64) {
    thread.has_stopped(arch::time::now().saturating_sub(since));
}

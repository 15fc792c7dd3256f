//! What is shown of a user's tasks, threads, sections, posts and keys, to that user and to the system.

use super::{Book, Draft, Growing, NOTHING, NOWHERE, most, nowhere, place as place_of, public, word, words};
use crate::section::Section;
use crate::task::Task;
use crate::thread::Thread;
use crate::{post, promise};
use abi::info::feature;
use abi::info::layout::{EVERYBODY, Keys, OwnTask, OwnThread, Post, Promised, Section as SectionRecord, size, table};
use abi::post::POSTS_MAX;
use abi::rights::{ANY_TEXT, principal};
use abi::task::USER_SYSTEM;
use abi::{AclEntry, Rights};
use ::info::{Slot, Table};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::cpu::has;
use arch::shown::Page;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spin::{Mutex, Once};

/// As many of each as a user's programs may have together (what a shell is given, `servers/init`), of tasks as of threads. Pages for them come as they are needed.
const THREADS: u64 = 4096;
const SECTIONS: u64 = 1 << 16;
/// Users with a section of their own, which is never given back, and of which nobody is charged for the first pages. Others' objects are counted only.
const USERS_MAX: usize = super::USERS;
/// So many pages, and some of the heap.
const PAGES: u64 = 16;

pub type OwnTaskSlot = Slot<{ words::<OwnTask>() }>;
pub type OwnThreadSlot = Slot<{ words::<OwnThread>() }>;
pub type SectionSlot = Slot<{ words::<SectionRecord>() }>;
pub type PostSlot = Slot<{ words::<Post>() }>;
pub type KeysSlot = Slot<{ words::<Keys>() }>;

/// The tables of a user.
pub struct User {
    pub user: u64,
    tasks: Growing<{ words::<OwnTask>() }>,
    threads: Growing<{ words::<OwnThread>() }>,
    sections: Growing<{ words::<SectionRecord>() }>,
    posts: Growing<{ words::<Post>() }>,
    keys: Growing<{ words::<Keys>() }>,
    /// What he was promised, and a lock for who looks that up and writes it.
    promised: &'static Page,
    promising: Mutex<()>,
    book: Book,
    /// Pages that came later, which count as had by the user.
    frames: AtomicU64,
    /// Its place among the users.
    place: Mutex<Option<Slot<{ words::<abi::info::layout::User>() }>>>,
    is_shown: AtomicBool,
}

static USERS: Mutex<Vec<&'static User>> = Mutex::new(Vec::new());
static NOBODY: Once<User> = Once::new();

/// The tables of this user, made for its first task; or for a later one, if there were only frames then that others were promised.
pub fn of(user: u64) -> &'static User {
    let mut users = USERS.lock();
    if let Some(found) = users.iter().find(|one| one.user == user) {
        return found;
    }
    let is_plenty = user == USER_SYSTEM || promise::are_frames_plenty(PAGES) && arch::heap_is_plenty();
    let made = if is_plenty && users.len() < USERS_MAX { User::new(user) } else { None };
    match made {
        Some(made) => {
            let made: &'static User = Box::leak(Box::new(made));
            users.push(made);
            made
        }
        None => NOBODY.call_once(User::nobody),
    }
}

impl User {
    fn new(user: u64) -> Option<User> {
        let mut draft = Draft::new(user, NOTHING.frame())?;
        let promised = Page::lasting()?;
        ::info::fields(&promised.0, word!(Promised, section), &promise::TOLD);
        draft.fixed(table::PROMISED, size::<Promised>(), 1, [promised.frame()]);
        let [tasks, threads] = [most::<Task>(THREADS), most::<Thread>(THREADS)];
        Some(User {
            user,
            tasks: draft.table(table::OWN_TASKS, tasks),
            threads: draft.table(table::OWN_THREADS, threads),
            sections: draft.table(table::SECTIONS, most::<Section>(SECTIONS)),
            posts: draft.table(table::POSTS, most::<Section>(POSTS_MAX)),
            keys: draft.table(table::KEYS, if has(feature::PKU) { tasks } else { 0 }),
            promised,
            promising: Mutex::new(()),
            book: Book::new(Some(draft)),
            frames: AtomicU64::new(0),
            place: Mutex::new(None),
            is_shown: AtomicBool::new(false),
        })
    }

    /// Of users that have none: everybody reads how much there is of theirs.
    fn nobody() -> User {
        fn empty<const N: usize>(table: usize) -> Growing<N> {
            let table = Box::leak(Box::new(Table::new(0, place_of(public().head, table), nowhere())));
            Growing { table, first: 0 }
        }
        let user = EVERYBODY;
        let (book, frames, place) = (Book::new(None), AtomicU64::new(0), Mutex::new(None));
        let is_shown = AtomicBool::new(true);
        let (tasks, threads, sections) = (empty(table::OWN_TASKS), empty(table::OWN_THREADS), empty(table::SECTIONS));
        let (posts, keys) = (empty(table::POSTS), empty(table::KEYS));
        User { user, tasks, threads, sections, posts, keys, promised: &NOWHERE, promising: Mutex::new(()), book, frames, place, is_shown }
    }

    /// Room for the records of what is made next, before it is: `owner` is whose that will be, if there is one already. Call without locks.
    #[inline]
    pub fn makes_room(&self, owner: Option<&Task>) {
        let is_short = self.sections.is_short() || self.posts.is_short() || self.threads.is_short();
        if is_short || self.tasks.is_short() || self.keys.is_short() {
            self.grows(owner);
        }
    }

    /// Where frames are short his promise has to have room for them, as for all that he has.
    #[cold]
    #[inline(never)]
    fn grows(&self, owner: Option<&Task>) {
        let is_his = |owner: &Task| promise::look_for_frames(owner, 0, 1, None).is_ok();
        let may = || self.user == USER_SYSTEM || promise::are_frames_plenty(1) || owner.is_some_and(is_his);
        let mut made = 0;
        self.book.grows(|put| {
            made += self.tasks.grows(&may, put) + self.keys.grows(&may, put);
            made += self.threads.grows(&may, put) + self.sections.grows(&may, put) + self.posts.grows(&may, put);
        });
        if made > 0 {
            self.frames.fetch_add(made, Ordering::Relaxed);
            self.shows_promised();
        }
    }

    /// Frames of his records, but for the first few.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// What he was promised of something, or has of posts, records or accounts, is another amount now.
    pub fn shows_promised(&self) {
        if self.user == USER_SYSTEM || self.user == EVERYBODY {
            return;
        }
        // Who comes last here finds what all have done before.
        let _one = self.promising.lock();
        let ([frames, heap], pool) = (promise::promised_to(self.user), post::promised_to(self.user));
        let ([posts, messages, records, accounts], had) = (pool.map(|one| one.0), pool.map(|one| one.1));
        let words = [frames, heap, posts, messages, records, accounts, had[0], had[1], had[2], had[3]];
        ::info::write(&self.promised.0, |record| {
            ::info::fields(record, word!(Promised, frames), &words.map(u64::from));
            ::info::fields(record, word!(Promised, shown), &[self.frames()]);
        });
    }

    /// Makes the section that its programs read, unless that was done, or it is too early. Where there is no room for it the user has
    /// none. Call without locks.
    pub fn show(&'static self) {
        let Some((_, owner)) = public().shown.get() else { return };
        if self.is_shown.load(Ordering::Relaxed) {
            return;
        }
        let Some(draft) = self.book.draft.lock().take() else { return };
        let entry = |user: u64| AclEntry { principal: principal::USER, rights: Rights::READ.bits(), id: user, text: ANY_TEXT };
        let Some(section) = draft.show(owner, entry(USER_SYSTEM), b"info of a user") else { return };
        self.book.section.call_once(|| section.clone());
        if self.user != USER_SYSTEM && section.state.lock().acl.set(&entry(self.user)).is_err() {
            return;
        }
        let place = public().users.claim(|record| ::info::fields(record, word!(User, user), &[self.user, section.base]));
        *self.place.lock() = Some(place);
        self.is_shown.store(true, Ordering::Relaxed);
    }

    pub fn task(&self, number: u64, name: &[u64; 4], limits: [u64; 4]) -> OwnTaskSlot {
        let slot = self.tasks.claim(|record| ::info::fields(record, word!(OwnTask, number), &[number, name[0], name[1], name[2], name[3]]));
        limits.into_iter().enumerate().for_each(|(at, limit)| slot.set(word!(OwnTask, limits) + at, limit));
        slot
    }

    pub fn keys(&self, task: u64) -> KeysSlot {
        self.keys.claim(|record| ::info::fields(record, word!(Keys, task), &[task]))
    }

    pub fn thread(&self, number: u64, text: u64) -> OwnThreadSlot {
        let slot = self.threads.claim(|record| ::info::fields(record, word!(OwnThread, number), &[number]));
        [word!(OwnThread, text), word!(OwnThread, own_text)].into_iter().for_each(|word| slot.set(word, text));
        slot
    }

    pub fn section(&self, base: u64, reserve: u64, owner: &Task, name: &[u64; 4]) -> SectionSlot {
        let words = [base, reserve, owner.number, name[0], name[1], name[2], name[3]];
        self.sections.claim(|record| ::info::fields(record, word!(Section, base), &words))
    }

    pub fn post(&self, number: u32, base: u64, owner: &Task) -> PostSlot {
        self.posts.claim(|record| ::info::fields(record, word!(Post, number), &[number.into(), base, owner.number]))
    }
}

/// Who has a place in a user's table of sections, and of posts.
pub struct Places {
    pub user: u64,
    pub section: SectionSlot,
    pub post: Option<PostSlot>,
}

impl Places {
    /// For the section at `base` of a task.
    pub fn new(base: u64, reserve: u64, is_post: bool, owner: &Arc<Task>, name: &[u64; 4]) -> Places {
        let number = abi::post::number(crate::machine::machine().node, base).filter(|_| is_post);
        let post = number.map(|number| owner.about.post(number, base, owner));
        Places { user: owner.user, section: owner.about.section(base, reserve, owner, name), post }
    }

    pub fn hide(&self) {
        self.section.hide();
        self.post.iter().for_each(Slot::hide);
    }
}

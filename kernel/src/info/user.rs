//! What is shown of a user's tasks, threads, sections, posts and keys, to that user and to the system.

use super::{Draft, NOTHING, NOWHERE, nowhere, place as place_of, public, word, words};
use crate::{post, promise};
use crate::task::Task;
use abi::info::feature;
use abi::info::layout::{EVERYBODY, Keys, OwnTask, OwnThread, Post, Promised, Section as SectionRecord, size, table};
use abi::rights::{ANY_TEXT, principal};
use abi::task::USER_SYSTEM;
use abi::{AclEntry, Rights};
use ::info::{Slot, Table};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use arch::cpu::has;
use arch::shown::Page;
use core::sync::atomic::{AtomicBool, Ordering};
use spin::{Mutex, Once};

/// Records of each user.
const TASKS: usize = 256;
const THREADS: usize = 1024;
const SECTIONS: usize = 2048;
const SECTIONS_OF_SYSTEM: usize = 4096;
const POSTS: usize = 512;
/// Users with a section of their own, which is never given back: so many, since nobody is charged for it. Others' objects are counted only.
const USERS_MAX: usize = 16;
/// Pages of a person's, at the most: with the head, and the page of what he was promised.
const PAGES: u64 = 2
    + ((TASKS * (words::<OwnTask>() + words::<Keys>()) + THREADS * words::<OwnThread>() + SECTIONS * words::<SectionRecord>() + POSTS * words::<Post>()) / 512) as u64;

pub type OwnTaskSlot = Slot<{ words::<OwnTask>() }>;
pub type OwnThreadSlot = Slot<{ words::<OwnThread>() }>;
pub type SectionSlot = Slot<{ words::<SectionRecord>() }>;
pub type PostSlot = Slot<{ words::<Post>() }>;
pub type KeysSlot = Slot<{ words::<Keys>() }>;

/// The tables of a user.
pub struct User {
    pub user: u64,
    tasks: &'static Table<{ words::<OwnTask>() }>,
    threads: &'static Table<{ words::<OwnThread>() }>,
    sections: &'static Table<{ words::<SectionRecord>() }>,
    posts: &'static Table<{ words::<Post>() }>,
    keys: &'static Table<{ words::<Keys>() }>,
    /// What he was promised, and a lock for who looks that up and writes it.
    promised: &'static Page,
    promising: Mutex<()>,
    draft: Mutex<Option<Draft>>,
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
    let is_made = users.len() < USERS_MAX && promise::are_frames_plenty(PAGES);
    let made = if is_made { User::new(user) } else { None };
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
        let sections = if user == USER_SYSTEM { SECTIONS_OF_SYSTEM } else { SECTIONS };
        Some(User {
            user,
            tasks: draft.table(table::OWN_TASKS, TASKS),
            threads: draft.table(table::OWN_THREADS, THREADS),
            sections: draft.table(table::SECTIONS, sections),
            posts: draft.table(table::POSTS, POSTS),
            keys: draft.table(table::KEYS, if has(feature::PKU) { TASKS } else { 0 }),
            promised,
            promising: Mutex::new(()),
            draft: Mutex::new(Some(draft)),
            place: Mutex::new(None),
            is_shown: AtomicBool::new(false),
        })
    }

    /// Of users that have none: everybody reads how much there is of theirs.
    fn nobody() -> User {
        fn empty<const N: usize>(table: usize) -> &'static Table<N> {
            Box::leak(Box::new(Table::new(Vec::new(), place_of(public().head, table), nowhere())))
        }
        let user = EVERYBODY;
        let (draft, place) = (Mutex::new(None), Mutex::new(None));
        let is_shown = AtomicBool::new(true);
        let (tasks, threads, sections) = (empty(table::OWN_TASKS), empty(table::OWN_THREADS), empty(table::SECTIONS));
        let (posts, keys) = (empty(table::POSTS), empty(table::KEYS));
        User { user, tasks, threads, sections, posts, keys, promised: &NOWHERE, promising: Mutex::new(()), draft, place, is_shown }
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
        ::info::write(&self.promised.0, |record| ::info::fields(record, word!(Promised, frames), &words.map(u64::from)));
    }

    /// Makes the section that its programs read, unless that was done, or it is too early. Where there is no room for it the user has
    /// none. Call without locks.
    pub fn show(&'static self) {
        let Some((_, owner)) = public().shown.get() else { return };
        if self.is_shown.load(Ordering::Relaxed) {
            return;
        }
        let Some(draft) = self.draft.lock().take() else { return };
        let entry = |user: u64| AclEntry { principal: principal::USER, rights: Rights::READ.bits(), id: user, text: ANY_TEXT };
        let Some(section) = draft.show(owner, entry(USER_SYSTEM), b"info of a user") else { return };
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

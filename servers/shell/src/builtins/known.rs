//! What the kernel lets this shell's user read, put together (docs/decisions/0017): no kernel call is made for it.

use crate::io::Io;
use crate::say;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::info::layout::{Keys, OwnTask, OwnThread, Post, Promised, Section, Task};
use musubi::rt::info::{self, Had, Info, ThreadNow};
use musubi::start;

pub struct Known {
    pub all: Info,
    own: Vec<Info>,
}

impl Known {
    /// # Errors
    /// As for `rt::info::all`.
    pub fn look() -> Result<Known, Error> {
        Ok(Known { all: info::all()?, own: info::of_users(start().user()) })
    }

    /// Says so if this user has no section of his own, in which what is for him alone would stand; or if there is more than there is room for.
    pub fn says_what_is_missing(&self, io: &mut Io) {
        if let Some(missing) = missing(!self.own.is_empty(), start().user()) {
            say!(io, "{missing}");
        }
        let places = core::iter::once(&self.all).chain(&self.own).flat_map(|info| info.head().table);
        match places.map(|place| place.left_out).sum() {
            0u64 => {}
            more => say!(
                io,
                "{more} more (tasks, threads, sections and posts) are not shown: there is no room for so many in the info section"
            ),
        }
    }

    /// All tasks, in the order of their numbers.
    pub fn tasks(&self) -> Vec<Task> {
        let mut tasks: Vec<Task> = self.all.tasks().collect();
        tasks.sort_unstable_by_key(|task| task.number);
        tasks
    }

    /// What is only for their user, of those that are this one's.
    pub fn own_tasks(&self) -> BTreeMap<u64, OwnTask> {
        self.own.iter().flat_map(|info| info.own_tasks()).map(|task| (task.number, task)).collect()
    }

    /// Users that were promised something and may be told of, with what they have.
    pub fn promises(&self) -> Vec<(u64, Promised, Had)> {
        let all = self.own.iter().map(|info| (info.head().user, info.promised(), info.had(&self.all)));
        all.filter(|(_, promised, _)| promised.frames > 0 || promised.pool[0] > 0).collect()
    }

    pub fn threads(&self) -> Vec<ThreadNow> {
        self.all.threads_now()
    }

    pub fn own_threads(&self) -> BTreeMap<u64, OwnThread> {
        self.own.iter().flat_map(|info| info.own_threads()).map(|thread| (thread.number, thread)).collect()
    }

    /// In the order of their addresses.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.own.iter().flat_map(|info| info.sections()).collect();
        sections.sort_unstable_by_key(|section| section.base);
        sections
    }

    /// In the order of their numbers.
    pub fn posts(&self) -> Vec<Post> {
        let mut posts: Vec<Post> = self.own.iter().flat_map(|info| info.posts()).collect();
        posts.sort_unstable_by_key(|post| post.number);
        posts
    }

    /// The threads that wait at each post, of this user's, as far as that is written down: a wait that has begun without the kernel
    /// proper is within a turn.
    pub fn receivers(&self) -> BTreeMap<u64, Vec<u64>> {
        let own = self.own_threads();
        let mut all: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for thread in self.threads().iter().filter(|thread| thread.settled) {
            let posts = own.get(&thread.thread).into_iter().flat_map(OwnThread::waits_at);
            posts.for_each(|post| all.entry(post).or_default().push(thread.thread));
        }
        all
    }

    /// In the order of their tasks.
    pub fn keys(&self) -> Vec<Keys> {
        let mut keys: Vec<Keys> = self.own.iter().flat_map(|info| info.keys()).collect();
        keys.sort_unstable_by_key(|keys| keys.task);
        keys
    }

    /// The name of one of this user's sections.
    pub fn section_name(&self, base: u64) -> Option<String> {
        let found = self.own.iter().flat_map(|info| info.sections()).find(|section| base != 0 && section.base == base);
        found.map(|section| musubi::ended::text(&section.name))
    }
}

/// What a user hears who came when all sections of users were given, or there was no memory for his.
fn missing(has_own: bool, user: u64) -> Option<String> {
    (!has_own).then(|| {
        format!("user {user} has no info section, as so many others have one or memory was full when he came: of his programs only what everybody may read is shown")
    })
}

/// A task's name: the system's have one for everybody, a user's own have theirs in the user's section. Others': `-`.
pub fn name(task: &Task, own: Option<&OwnTask>) -> String {
    let name = musubi::ended::text(own.map_or(&task.name, |own| &own.name));
    match (name.is_empty(), task.foreign) {
        (true, _) => String::from("-"),
        (false, 0) => name,
        (false, _) => name + " (Linux)",
    }
}

/// Processor time of each task until now.
pub fn times(tasks: &[Task], threads: &[ThreadNow], all: &Info) -> BTreeMap<u64, u64> {
    let mut times: BTreeMap<u64, u64> = tasks.iter().map(|task| (task.number, task.time)).collect();
    let written: BTreeMap<u64, u64> = all.threads().map(|thread| (thread.number, thread.time)).collect();
    for thread in threads {
        // What its task was not told of yet.
        let besides = thread.time.saturating_sub(written.get(&thread.thread).copied().unwrap_or(thread.time));
        times.entry(thread.task).and_modify(|time| *time += besides);
    }
    times
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn who_has_no_section_is_told() {
        assert_eq!(missing(true, 5), None);
        assert!(missing(false, 1017).is_some_and(|text| text.contains("user 1017 has no info section")));
    }
}

//! Answers that are kept for a while: so many for one post, for one task's posts, and in all.

use alloc::collections::VecDeque;

use super::{Reply, Shares};

/// For one post, for all posts of one task, and for all.
const OF_POST: usize = 64;
const OF_TASK: usize = 512;
const MOST: usize = 4096;

#[derive(Debug)]
pub(super) struct Kept {
    /// Each with the task whose post it is for.
    all: VecDeque<(u64, Reply)>,
    shares: Shares,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { all: VecDeque::new(), shares: Shares::new(OF_TASK, MOST) }
    }
}

impl Kept {
    /// Keeps one, for a post of this task's. Whether there was room.
    pub fn add(&mut self, reply: Reply, task: u64, user: u64) -> bool {
        let of_post = self.all.iter().filter(|(_, one)| one.back == reply.back).count();
        let room = of_post < OF_POST && self.shares.take(task, user);
        if room {
            self.all.push_back((task, reply));
        }
        room
    }

    pub fn has(&self, back: u64, head: u32) -> bool {
        self.all.iter().any(|(_, one)| (one.back, one.head) == (back, head))
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The one whose turn it is, and the task whose post it is for.
    pub fn first(&self) -> Option<&(u64, Reply)> {
        self.all.front()
    }

    /// There is still no room for it where it is to go.
    pub fn put_last(&mut self) {
        self.all.rotate_left(usize::from(!self.all.is_empty()));
    }

    /// It is gone.
    pub fn remove_first(&mut self) {
        if let Some((task, _)) = self.all.pop_front() {
            self.shares.give(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(back: u64, head: u32) -> Reply {
        Reply { back, head, words: [0; 3] }
    }

    #[test]
    fn so_many_of_a_post_of_a_task_and_in_all() {
        let mut kept = Kept::default();
        let posts = |kept: &mut Kept, task: u64, user: u64| {
            let all = (0..100u64).flat_map(|post| (0..100).map(move |n| (task << 32 | post, n)));
            all.filter(|(back, n)| kept.add(reply(*back, *n), task, user)).count()
        };
        assert_eq!((0..100).filter(|n| kept.add(reply(1, *n), 1, 7)).count(), OF_POST);
        assert_eq!(posts(&mut kept, 1, 7), OF_TASK - OF_POST);
        let of_user: usize = (2..100).map(|task| posts(&mut kept, task, 7)).sum();
        assert_eq!(of_user + OF_TASK, MOST / 2, "what is left is for others");
        assert_eq!(posts(&mut kept, 100, 8), OF_TASK);
        while kept.len() > 0 {
            kept.remove_first();
        }
        assert_eq!(posts(&mut kept, 1, 7), OF_TASK, "as before");
    }

    #[test]
    fn the_one_that_cannot_be_sent_waits_behind_the_others() {
        let mut kept = Kept::default();
        (0..3).for_each(|n| assert!(kept.add(reply(1, n), 1, 7)));
        kept.put_last();
        assert_eq!(kept.first().map(|(_, one)| one.head), Some(1));
        kept.remove_first();
        assert!(!kept.has(1, 1) && kept.has(1, 0) && kept.has(1, 2));
        assert_eq!(kept.first().map(|(_, one)| one.head), Some(2));
    }
}

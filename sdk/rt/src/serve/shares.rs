//! How many requests may wait at a server at a time: so many of one task's, and of one user's at most as many as everybody else could
//! have besides. So there is room for whoever comes next, whatever one of them does.

use alloc::collections::BTreeMap;

/// See above.
#[derive(Debug)]
pub struct Shares {
    /// By task: its user, and how many.
    tasks: BTreeMap<u64, (u64, usize)>,
    users: BTreeMap<u64, usize>,
    all: usize,
    each: usize,
    most: usize,
}

impl Shares {
    /// `each` of one task's, `most` in all.
    #[must_use]
    pub const fn new(each: usize, most: usize) -> Shares {
        Shares { tasks: BTreeMap::new(), users: BTreeMap::new(), all: 0, each, most }
    }

    /// Takes room for one more of this task's. Whether there was.
    #[must_use]
    pub fn take(&mut self, task: u64, user: u64) -> bool {
        // Whose it was when it had the first: of one that is ending somebody may say otherwise.
        let user = self.tasks.get(&task).map_or(user, |one| one.0);
        let of_task = self.tasks.get(&task).map_or(0, |one| one.1);
        let of_user = self.users.get(&user).copied().unwrap_or(0);
        // What is left then is no less than what this user has.
        if of_task >= self.each || of_user >= self.most.saturating_sub(self.all) {
            return false;
        }
        self.tasks.insert(task, (user, of_task + 1));
        self.users.insert(user, of_user + 1);
        self.all += 1;
        true
    }

    /// One less.
    pub fn give(&mut self, task: u64) {
        let Some((user, of_task)) = self.tasks.get_mut(&task) else { return };
        let user = *user;
        *of_task -= 1;
        if *of_task == 0 {
            self.tasks.remove(&task);
        }
        if let Some(of_user) = self.users.get_mut(&user) {
            *of_user -= 1;
            if *of_user == 0 {
                self.users.remove(&user);
            }
        }
        self.all -= 1;
    }
}

/// What costs a look at everything, at most every so many ns, whoever asks for it how often.
#[derive(Debug)]
pub struct Seldom {
    every_ns: u64,
    next: u64,
}

impl Seldom {
    #[must_use]
    pub const fn new(every_ns: u64) -> Seldom {
        Seldom { every_ns, next: 0 }
    }

    /// Whether it is time again. Then it is not for a while.
    #[must_use]
    pub fn may(&mut self, now: u64) -> bool {
        let is_time = now >= self.next;
        if is_time {
            self.next = now.saturating_add(self.every_ns);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_time_every_so_often() {
        let mut seldom = Seldom::new(10);
        let times: std::vec::Vec<u64> = (100..=125).filter(|now| seldom.may(*now)).collect();
        assert_eq!(times, [100, 110, 120]);
    }

    #[test]
    fn nobody_takes_what_others_need() {
        let mut shares = Shares::new(4, 64);
        let taken =
            |shares: &mut Shares, user: u64| (0..1000u64).filter(|n| shares.take(user * 1000 + n / 4, user)).count();
        assert_eq!((1..=5).map(|user| taken(&mut shares, user)).collect::<alloc::vec::Vec<_>>(), [32, 16, 8, 4, 2]);
        assert!(!shares.take(9999, 1), "by yet another task");
        // What one gives back is the others', too.
        (0..8).for_each(|n| (0..4).for_each(|_| shares.give(1000 + n)));
        assert_eq!(shares.all, 30);
        assert_eq!(taken(&mut shares, 6), 17);
    }

    #[test]
    fn whose_a_task_is_does_not_change_in_between() {
        let mut shares = Shares::new(4, 64);
        assert!(shares.take(1, 7) && shares.take(1, 0));
        (0..2).for_each(|_| shares.give(1));
        assert!(shares.tasks.is_empty() && shares.users.is_empty() && shares.all == 0);
    }

    #[test]
    fn a_task_has_so_many_and_nothing_is_left_of_it() {
        let mut shares = Shares::new(2, 64);
        assert_eq!([(); 3].map(|()| shares.take(7, 1)), [true, true, false]);
        assert!(shares.take(8, 1));
        shares.give(7);
        assert!(shares.take(7, 1));
        [7, 7, 8].into_iter().for_each(|task| shares.give(task));
        shares.give(8);
        assert!(shares.tasks.is_empty() && shares.users.is_empty());
        assert_eq!(shares.all, 0);
    }
}

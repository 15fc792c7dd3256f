//! Who has started whom, what belongs together, and who may do what to whom. Knows nothing of the machine.

use crate::records::Records;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::section::NAME_LEN;
use musubi::abi::task::{Ended, Exit, USER_SYSTEM};
use musubi::interfaces::processes::{ProcessInfo, group, whom};

/// Ends that are remembered of one parent's children, for when it asks.
const ENDED_MAX: usize = 64;
/// Processes that one parent is starting at a time. A thread that was killed in the middle of it never says what became of its own: the oldest
/// makes room.
const STARTS_MAX: usize = 256;
/// With fewer ends than this nobody looks whether their parents are there.
const FEW: usize = 256;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By {
    pub task: u64,
    pub user: u64,
}

impl By {
    fn may(self, of: &ProcessInfo) -> bool {
        self.user == USER_SYSTEM || self.user == of.user
    }
}

/// What a wait finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Over(u64),
    Running,
}

/// What a start makes, so that it is known by that where nobody tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    pub name: [u8; NAME_LEN],
    pub user: u64,
    /// 0: what the system starts for itself.
    pub payer: u64,
}

/// A process that is being started.
#[derive(Debug)]
struct Start {
    ticket: u64,
    parent: u64,
    user: u64,
    /// [`group::NEW`], or one.
    group: u64,
    made: Made,
    /// Tasks up to this number were there before.
    after: u64,
    /// Its group was ended meanwhile.
    doomed: bool,
    /// Its parent has ended: it is a [`Stray`].
    left: bool,
}

/// Somebody has ended in the middle of starting a process, or the loader has: a task that nobody has told of, and that is what was to be made, is it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stray {
    pub ticket: u64,
    pub parent: u64,
    /// [`group::NEW`], or one.
    pub group: u64,
    /// It is to be ended.
    pub doomed: bool,
    made: Made,
    after: u64,
}

impl Start {
    fn stray(&self) -> Stray {
        let Start { ticket, parent, group, doomed, made, after, .. } = *self;
        Stray { ticket, parent, group, doomed, made, after }
    }
}

#[derive(Debug)]
pub struct Table {
    all: Records,
    starts: Vec<Start>,
    tickets: u64,
    strays: Vec<Stray>,
    /// Somebody has ended them, and they have not heard yet: they start nobody any more.
    killed: BTreeSet<u64>,
    /// Those of them that nobody has seen to yet.
    doomed: Vec<u64>,
    /// With so many ends it is looked whether their parents are there.
    full: usize,
    /// Ends so far: the number of the last one, in the order in which they were heard of.
    ends: u64,
    /// The highest number of a task that was known.
    latest: u64,
}

impl Table {
    pub const fn new() -> Table {
        Table {
            all: Records::new(),
            starts: Vec::new(),
            tickets: 0,
            strays: Vec::new(),
            killed: BTreeSet::new(),
            doomed: Vec::new(),
            full: FEW,
            ends: 0,
            latest: 0,
        }
    }

    /// As it was written down.
    pub fn restore(&mut self, info: ProcessInfo) {
        self.ends = self.ends.max(info.over);
        self.latest = self.latest.max(info.task);
        self.all.restore(info);
    }

    /// As [`Records::unwritten`].
    pub fn unwritten(&self) -> impl Iterator<Item = (u64, Option<&ProcessInfo>)> {
        self.all.unwritten()
    }

    /// As [`Records::is_written`].
    pub fn is_written(&mut self, task: u64, info: Option<&ProcessInfo>) {
        self.all.is_written(task, info);
    }

    /// All that are known.
    pub fn all(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.all.all()
    }

    pub fn get(&self, task: u64) -> Option<&ProcessInfo> {
        self.all.get(task)
    }

    pub fn after(&self, after: u64) -> Option<&ProcessInfo> {
        self.all.after(after).next()
    }

    pub fn running(&self) -> impl Iterator<Item = &ProcessInfo> {
        self.all.all().filter(|one| one.over == 0)
    }

    fn put(&mut self, info: ProcessInfo) {
        self.latest = self.latest.max(info.task);
        self.all.put(info);
    }

    fn remove(&mut self, task: u64) {
        self.all.remove(task);
    }

    /// The group that is meant: for a new process as it stands, for one that is there with its own number for a new group.
    fn group_for(&self, by: By, wanted: u64) -> Result<u64, Error> {
        match wanted {
            group::NEW => Ok(group::NEW),
            group::SAME => Ok(self.group_of(by.task)),
            wanted => match self.running().find(|one| one.group == wanted) {
                None => Err(Error::NotFound),
                Some(one) if one.user != by.user && by.user != USER_SYSTEM => Err(Error::Denied),
                Some(_) => Ok(wanted),
            },
        }
    }

    /// Somebody starts a process. Value: a ticket.
    pub fn begin(&mut self, by: By, wanted: u64, made: Made) -> Result<u64, Error> {
        if self.killed.contains(&by.task) {
            return Err(Error::Killed);
        }
        let group = self.group_for(by, wanted)?;
        let of_parent = || self.starts.iter().filter(|one| one.parent == by.task && !one.left);
        if of_parent().count() >= STARTS_MAX
            && let Some(oldest) = of_parent().map(|one| one.ticket).min()
        {
            self.cancel(oldest);
        }
        self.tickets += 1;
        self.starts.push(Start {
            ticket: self.tickets,
            parent: by.task,
            user: by.user,
            group,
            made,
            after: self.latest.max(by.task),
            doomed: false,
            left: false,
        });
        Ok(self.tickets)
    }

    /// Whether somebody is being started by this one, so that it may be there and is not known yet.
    pub fn is_starting(&self, parent: u64) -> bool {
        self.starts.iter().any(|one| one.parent == parent)
    }

    /// It is to be ended, by whoever takes it.
    pub fn doom(&mut self, task: u64) {
        self.killed.insert(task);
        self.doomed.push(task);
    }

    /// Those who are to be ended.
    pub fn take_doomed(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.doomed)
    }

    /// Whether the group of this start was ended by now.
    pub fn is_doomed(&self, ticket: u64) -> bool {
        self.starts.iter().any(|one| one.ticket == ticket && one.doomed)
    }

    /// It was not started, or is seen to.
    pub fn cancel(&mut self, ticket: u64) {
        self.starts.retain(|one| one.ticket != ticket);
    }

    /// Whoever was to start it has ended in the middle, and left it, or not: what is to be looked for, and given up then.
    pub fn stray(&self, ticket: u64) -> Option<Stray> {
        let one = self.starts.iter().find(|one| one.ticket == ticket && !one.left)?;
        Some(one.stray())
    }

    /// Whether a task can be what was being started: nobody has told of it.
    pub fn is_left_by(&self, stray: &Stray, task: u64, made: Made) -> bool {
        task > stray.after && made == stray.made && self.all.get(task).is_none()
    }

    /// It is: its parent's, in its group. If that was ended since, so is this one.
    pub fn take_in(&mut self, stray: &Stray, task: u64) {
        let Made { name, user, .. } = stray.made;
        self.adopt_in(stray.group, task, stray.parent, user, name);
        if stray.doomed || self.is_doomed(stray.ticket) {
            self.doom(task);
        }
    }

    /// It was started, and may have ended already; `is_there`: it runs, or its end is still to be heard of. Value: whether it is to be ended, as
    /// its group was. `Dead`: whoever has started it has ended.
    pub fn enter(
        &mut self,
        ticket: u64,
        task: u64,
        user: u64,
        name: [u8; NAME_LEN],
        is_there: impl Fn(u64) -> bool,
    ) -> Result<bool, Error> {
        let at = self.starts.iter().position(|one| one.ticket == ticket && !one.left).ok_or(Error::Dead)?;
        let start = self.starts.swap_remove(at);
        let known = match self.all.get(task) {
            Some(known) => *known,
            None if is_there(task) => ProcessInfo { task, user, name, ..ProcessInfo::default() },
            // Whoever waits for any child has been told of its end and has had it forgotten, or others' ends have: it does not begin once more.
            None => return Ok(false),
        };
        let group = if start.group == group::NEW { task } else { start.group };
        self.put(ProcessInfo { parent: start.parent, group, ..known });
        let doomed = start.doomed && known.over == 0;
        if doomed {
            self.doom(task);
        }
        Ok(doomed)
    }

    /// A task that nobody has told of, of whoever pays for it. If that one is being ended, so is this one: it may be known, and ask for
    /// others, before its parent says that it has started it.
    pub fn adopt(&mut self, task: u64, parent: u64, user: u64, name: [u8; NAME_LEN]) {
        if self.adopt_in(self.group_of(parent), task, parent, user, name) && self.killed.contains(&parent) {
            self.doom(task);
        }
    }

    /// The group of those who are started by this one.
    fn group_of(&self, parent: u64) -> u64 {
        self.all.get(parent).map_or(group::NEW, |one| one.group)
    }

    /// The same in a group. Value: whether it was not known.
    pub fn adopt_in(&mut self, group: u64, task: u64, parent: u64, user: u64, name: [u8; NAME_LEN]) -> bool {
        let new = self.all.get(task).is_none();
        if new {
            let group = if group == group::NEW { task } else { group };
            self.put(ProcessInfo { task, parent, group, user, name, ..ProcessInfo::default() });
        }
        new
    }

    /// Those who have been left behind since.
    pub fn take_strays(&mut self) -> Vec<Stray> {
        core::mem::take(&mut self.strays)
    }

    /// A task has ended; `lives` says whether others have not. Value: whether its end is for this table: what the system has started for
    /// itself is told to whoever has.
    pub fn over(&mut self, end: &Ended, lives: impl Fn(u64) -> bool) -> bool {
        self.parent_gone(end.task);
        if self.all.get(end.task).is_none() {
            if end.payer == 0 {
                return end.began == 0;
            }
            // (What the system has made for somebody and not begun was no process.)
            if !lives(end.payer) || end.began == 0 && end.user == USER_SYSTEM {
                return true;
            }
            self.adopt_in(self.group_of(end.payer), end.task, end.payer, end.user, end.name);
        }
        self.end(end.task, end.exit, lives);
        true
    }

    /// A process has ended.
    pub fn end(&mut self, task: u64, exit: Exit, lives: impl Fn(u64) -> bool) {
        let Some(&known) = self.all.get(task) else { return };
        if !lives(known.parent) {
            return self.remove(task);
        }
        if known.over == 0 {
            self.ends += 1;
            self.put(ProcessInfo { over: self.ends, exit, ..known });
        }
        let of_parent = || self.all.of_parent(known.parent).filter(|one| one.over != 0);
        if of_parent().count() > ENDED_MAX {
            let oldest = of_parent().min_by_key(|one| one.over).map(|one| one.task);
            oldest.into_iter().for_each(|oldest| self.remove(oldest));
        }
        self.sweep(lives);
    }

    /// Nobody asks for the ends of its children any more.
    fn parent_gone(&mut self, parent: u64) {
        self.killed.remove(&parent);
        for one in self.starts.iter_mut().filter(|one| one.parent == parent && !one.left) {
            one.left = true;
            self.strays.push(one.stray());
        }
        let ended = self.all.of_parent(parent).filter(|one| one.over != 0);
        let ended: Vec<u64> = ended.map(|one| one.task).collect();
        ended.into_iter().for_each(|task| self.remove(task));
    }

    /// Throws out ends whose parents have gone unseen. The next time is when there are twice as many as are left.
    fn sweep(&mut self, lives: impl Fn(u64) -> bool) {
        let ended = self.all.all().filter(|one| one.over != 0);
        let ended: Vec<(u64, u64)> = ended.map(|one| (one.task, one.parent)).collect();
        if ended.len() < self.full {
            return;
        }
        let before = ended.len();
        let gone: Vec<u64> = ended.into_iter().filter(|one| !lives(one.1)).map(|one| one.0).collect();
        self.full = FEW.max(2 * (before - gone.len()));
        gone.into_iter().for_each(|task| self.remove(task));
    }

    /// What somebody finds who waits.
    pub fn awaited(&self, by: By, whom: u64) -> Result<Found, Error> {
        if whom != whom::CHILD && whom & whom::GROUP == 0 {
            let one = self.all.get(whom).ok_or(Error::NotFound)?;
            return match one.over {
                _ if !by.may(one) => Err(Error::Denied),
                0 => Ok(Found::Running),
                _ => Ok(Found::Over(whom)),
            };
        }
        let group = whom & !whom::GROUP;
        let mut children = self.all.of_parent(by.task).filter(|one| whom == whom::CHILD || one.group == group);
        let over = children.clone().filter(|one| one.over != 0).min_by_key(|one| one.over);
        let found = over.map(|one| Found::Over(one.task));
        found.or_else(|| children.next().map(|_| Found::Running)).ok_or(Error::NotFound)
    }

    /// Who is in a group that somebody wants to end. From now on they start nobody, and who is being started there is ended then.
    pub fn end_group(&mut self, by: By, group: u64) -> Result<Vec<u64>, Error> {
        let members: Vec<ProcessInfo> = self.running().filter(|one| one.group == group).copied().collect();
        let may_start = |start: &Start| start.group != group || by.user == USER_SYSTEM || by.user == start.user;
        if members.iter().any(|one| !by.may(one)) || !self.starts.iter().all(may_start) {
            return Err(Error::Denied);
        }
        let mut doomed = self.starts.iter_mut().filter(|start| start.group == group).peekable();
        if members.is_empty() && doomed.peek().is_none() {
            return Err(Error::NotFound);
        }
        doomed.for_each(|start| start.doomed = true);
        self.killed.extend(members.iter().map(|one| one.task));
        // Whoever asks goes last: it may be one of them.
        let (own, others): (Vec<u64>, Vec<u64>) = members.iter().map(|one| one.task).partition(|task| *task == by.task);
        Ok(others.into_iter().chain(own).collect())
    }

    pub fn forget(&mut self, by: By, task: u64) -> Result<(), Error> {
        let one = self.all.get(task).ok_or(Error::NotFound)?;
        if one.parent != by.task {
            return Err(Error::Denied);
        }
        if one.over == 0 {
            return Err(Error::Busy);
        }
        self.remove(task);
        Ok(())
    }

    /// Value: the group. `Killed`: the one who joins is being ended, or who brings it; then it is, too.
    pub fn join(&mut self, by: By, task: u64, wanted: u64) -> Result<u64, Error> {
        let one = *self.all.get(task).ok_or(Error::NotFound)?;
        if one.over != 0 {
            return Err(Error::NotFound);
        }
        if task != by.task && one.parent != by.task {
            return Err(Error::Denied);
        }
        if self.killed.contains(&by.task) && !self.killed.contains(&task) {
            self.doom(task);
        }
        if self.killed.contains(&task) {
            return Err(Error::Killed);
        }
        let group = match self.group_for(by, wanted)? {
            group::NEW => task,
            group => group,
        };
        self.put(ProcessInfo { group, ..one });
        Ok(group)
    }

    /// Whether somebody may say what a process may use: those that it descends from.
    pub fn may_limit(&self, by: By, task: u64) -> Result<(), Error> {
        let mut one = self.all.get(task).ok_or(Error::NotFound)?;
        if by.user == USER_SYSTEM {
            return Ok(());
        }
        // Parents have smaller numbers, so this comes to an end.
        while one.parent != by.task {
            one = self.all.get(one.parent).filter(|parent| parent.task < one.task).ok_or(Error::Denied)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

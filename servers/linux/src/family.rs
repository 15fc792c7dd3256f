//! Who has started whom by `fork`, which programs belong together, and who has ended without anybody having asked how (`wait4`).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::answer::{End, Errno, errno, fail};

/// A program, from its start until its parent knows of its end.
#[derive(Clone, Copy, Debug)]
struct Member {
    /// 0: nobody here waits for it.
    parent: u64,
    group: u64,
    session: u64,
    /// The signal that is ending it.
    killed: Option<End>,
    end: Option<End>,
}

/// Whom a parent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Any,
    One(u64),
    Group(u64),
}

/// All programs, by task.
#[derive(Debug, Default)]
pub struct Family {
    members: BTreeMap<u64, Member>,
}

impl Family {
    /// A program that another system has started: it leads a group and a session of its own.
    pub fn enter(&mut self, task: u64) {
        self.members.insert(task, Member { parent: 0, group: task, session: task, killed: None, end: None });
    }

    /// A program that another one has started belongs where that one does.
    pub fn born(&mut self, parent: u64, task: u64) {
        let (group, session) = self.members.get(&parent).map_or((task, task), |of| (of.group, of.session));
        self.members.insert(task, Member { parent, group, session, killed: None, end: None });
    }

    /// It has never been.
    pub fn remove(&mut self, task: u64) {
        self.members.remove(&task);
    }

    /// It is being ended so, however its thread takes note of that.
    pub fn kill(&mut self, task: u64, end: End) {
        if let Some(member) = self.members.get_mut(&task) {
            member.killed.get_or_insert(end);
        }
    }

    /// A program has ended. `is_asked`: whether a parent wants to know how. Value: the parent that lives.
    pub fn end(&mut self, task: u64, end: End, is_asked: impl FnOnce(u64) -> bool) -> Option<u64> {
        let parent = self.members.get(&task).filter(|member| member.end.is_none())?.parent;
        self.members.retain(|_, member| member.parent != task || member.end.is_none());
        for orphan in self.members.values_mut().filter(|member| member.parent == task) {
            orphan.parent = 0;
        }
        let waits = self.is_alive(parent) && is_asked(parent);
        match self.members.get_mut(&task) {
            Some(member) if waits => member.end = member.killed.or(Some(end)),
            _ => drop(self.members.remove(&task)),
        }
        self.is_alive(parent).then_some(parent)
    }

    fn is_alive(&self, task: u64) -> bool {
        self.members.get(&task).is_some_and(|member| member.end.is_none())
    }

    /// How many of its children have ended without its having asked how.
    #[must_use]
    pub fn unasked(&self, parent: u64) -> usize {
        self.members.values().filter(|member| member.parent == parent && member.end.is_some()).count()
    }

    /// A child of these that has ended, which is told once. `None`: all of them live.
    ///
    /// # Errors
    /// `ECHILD`: there are none.
    pub fn take(&mut self, parent: u64, which: Which) -> Result<Option<(u64, End)>, Errno> {
        let mut any = false;
        let mut ended = None;
        for (task, member) in self.members.iter().filter(|(_, member)| member.parent == parent) {
            let meant = match which {
                Which::Any => true,
                Which::One(one) => one == *task,
                Which::Group(group) => group == member.group,
            };
            any |= meant;
            ended = ended.or(member.end.filter(|_| meant).map(|end| (*task, end)));
        }
        match ended {
            Some((task, _)) => drop(self.members.remove(&task)),
            None if any => {}
            None => return fail(errno::ECHILD),
        }
        Ok(ended)
    }

    /// The parent that has started it, if that lives.
    #[must_use]
    pub fn parent(&self, task: u64) -> Option<u64> {
        self.members.get(&task).map(|member| member.parent).filter(|parent| *parent != 0)
    }

    /// # Errors
    /// `ESRCH`.
    pub fn group(&self, task: u64) -> Result<u64, Errno> {
        self.members.get(&task).map(|member| member.group).ok_or(Errno(errno::ESRCH))
    }

    /// # Errors
    /// `ESRCH`.
    pub fn session(&self, task: u64) -> Result<u64, Errno> {
        self.members.get(&task).map(|member| member.session).ok_or(Errno(errno::ESRCH))
    }

    /// Who lives in a group.
    #[must_use]
    pub fn in_group(&self, group: u64) -> Vec<u64> {
        self.members.iter().filter(|(_, of)| of.group == group && of.end.is_none()).map(|(task, _)| *task).collect()
    }

    /// `setpgid`, by `who`, of itself or a child.
    ///
    /// # Errors
    /// `ESRCH`; `EPERM` for one that leads a session, or is of another one, and for a group of another one.
    pub fn set_group(&mut self, who: u64, task: u64, group: u64) -> Result<(), Errno> {
        let member = *self.members.get(&task).ok_or(Errno(errno::ESRCH))?;
        if task != who && member.parent != who {
            return fail(errno::ESRCH);
        }
        let session = self.session(who)?;
        let is_there = self.members.values().any(|other| other.group == group && other.session == session);
        if member.group == group {
            return Ok(());
        }
        if member.session == task || member.session != session || group != task && !is_there {
            return fail(errno::EPERM);
        }
        self.members.insert(task, Member { group, ..member });
        Ok(())
    }

    /// `setsid`.
    ///
    /// # Errors
    /// `EPERM` for one that leads a group.
    pub fn set_session(&mut self, task: u64) -> Result<(), Errno> {
        if self.members.values().any(|other| other.group == task) {
            return fail(errno::EPERM);
        }
        let member = *self.members.get(&task).ok_or(Errno(errno::ESRCH))?;
        self.members.insert(task, Member { group: task, session: task, ..member });
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Whom a miss goes to (architecture, section 14): the task's pager, then the section's; and why to nobody.

use crate::level;
use abi::pager::{LEVEL_TASK, why};

/// A pager that could be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Of the section; of a task's pager [`LEVEL_TASK`].
    pub level: u64,
    /// Its text has not ended.
    pub lives: bool,
    /// It is the system's, or of the same task as the text that has the fault: not a stranger to it.
    pub known: bool,
}

/// A page that is not to be used, and whoever has something to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// It was made invalid.
    pub invalid: bool,
    /// The pager of the thread's task, if the fault concerns it: the page was made invalid by the task itself, or lies in its window.
    pub task: Option<Candidate>,
    pub section: Option<Candidate>,
    /// The thread is in a call: the text is a callee, and somebody else waits for it.
    pub in_call: bool,
    /// The level of the innermost pager that the thread is being served by.
    pub innermost: Option<u64>,
    /// The text decides for a processor, and must not wait.
    pub decides: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Task,
    Section,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ask(Who),
    /// It is nobody's business: an error as it was without pagers.
    Nobody,
    /// Somebody's, but he cannot be asked here: one of [`why`].
    Refused(u64),
}

impl Miss {
    /// Whom to ask; with `declined`, after that one has said that the page is none of his.
    #[must_use]
    pub fn whom(&self, declined: Option<Who>) -> Outcome {
        let order = [(Who::Task, self.task.filter(|_| self.invalid)), (Who::Section, self.section)];
        let left = order.into_iter().skip(match declined {
            None => 0,
            Some(Who::Task) => 1,
            Some(Who::Section) => 2,
        });
        for (who, candidate) in left {
            let Some(candidate) = candidate else { continue };
            return match self.refusal(candidate) {
                Some(why) => Outcome::Refused(why),
                None => Outcome::Ask(who),
            };
        }
        if declined.is_some() { Outcome::Refused(why::DECLINED) } else { Outcome::Nobody }
    }

    fn refusal(&self, of: Candidate) -> Option<u64> {
        if !of.lives {
            Some(why::DEAD)
        } else if self.decides || self.in_call && !of.known {
            // Nobody waits for a stranger with another's lock in his hands (pitfalls, H9).
            Some(why::STRANGER)
        } else if !level::may_fault(self.innermost, of.level.min(LEVEL_TASK)) {
            Some(why::LEVEL)
        } else {
            None
        }
    }
}

//! What a task has the pool's things for, and pays with for messages that wait in queues.

use super::{HEAP_EACH, pool};
use crate::info::User;
use crate::task::Task;
use abi::Error;
use abi::task::USER_SYSTEM;
use ::post::{Share, Whose};
use spin::Once;

/// Its user's part, and its own account. Each of them is had when it is first needed.
#[derive(Default)]
pub struct Purse {
    user: Once<(u32, &'static User)>,
    account: Once<u32>,
}

impl Purse {
    /// Its task is over: whoever still knows it, a client for one that has not called since, keeps nothing from others.
    pub fn retire(&self) {
        if let Some(account) = self.account.get() {
            pool().retire_account(*account);
        }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        if let Some(account) = self.account.get() {
            pool().close_account(*account);
        }
        if let Some((user, about)) = self.user.get() {
            pool().close_user(*user);
            about.shows_promised();
        }
    }
}

/// For whom what the programs of `task` have is had.
pub fn whose(task: &Task) -> Result<Whose, Error> {
    if task.user == USER_SYSTEM {
        return Ok(Whose::System);
    }
    let user = task.purse.user.try_call_once(|| {
        let number = pool().open_user(task.user)?;
        task.about.shows_promised();
        Ok((number, task.about))
    });
    user.map(|(number, _)| Whose::User(*number))
}

/// Who pays for what `task` leaves in queues.
pub fn account(task: &Task) -> Result<u32, Error> {
    task.purse.account.try_call_once(|| {
        let share = match (&task.payer, whose(task)?) {
            (Some(payer), _) => Share::Of(account(payer)?),
            (None, Whose::System) => Share::System((arch::heap_size() / HEAP_EACH) as u32 / 64),
            (None, Whose::User(user)) => Share::User(user),
        };
        let account = pool().open_account(share)?;
        task.about.shows_promised();
        Ok(account)
    }).copied()
}

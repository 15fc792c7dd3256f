//! What a task has to pay with for messages that wait in queues.

use super::{HEAP_EACH, pool};
use crate::task::Task;
use abi::Error;
use abi::task::USER_SYSTEM;
use ::post::Share;
use spin::Once;

/// A task's account; 0: it could not be had.
#[derive(Default)]
pub struct Purse(Once<u32>);

impl Purse {
    /// Its task is over: whoever still knows it, a client for one that has not called since, keeps nothing from others.
    pub fn retire(&self) {
        if let Some(account) = self.0.get() {
            pool().retire_account(*account);
        }
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        if let Some(account) = self.0.get() {
            pool().close_account(*account);
        }
    }
}

/// Who pays for what `task` leaves in queues.
pub fn account(task: &Task) -> Result<u32, Error> {
    task.purse.0.try_call_once(|| {
        let all = (arch::heap_usage().0 / HEAP_EACH) as u32;
        match &task.payer {
            Some(payer) => pool().open_account(Share::Of(account(payer)?), all / 16),
            None if task.user == USER_SYSTEM => pool().open_account(Share::System, all / 64),
            None => pool().open_account(Share::User, all / 16),
        }
    }).copied()
}

//! What was typed, until somebody reads it; and who is in the foreground.

use crate::lines::Lines;
use crate::output::Output;
use alloc::vec;
use alloc::vec::Vec;
use musubi::abi::task::USER_SYSTEM;
use musubi::interfaces::console::mode;
use musubi::processes::{self, ProcessInfo};
use musubi::rt::serve::away;
use musubi::rt::{Condition, Mutex, section, task};
use musubi::{Caller, Error};

/// Whose text it is that init has named; while that one is not there, it is the first one that sets a mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Controller {
    task: u64,
    text: u64,
}

impl Controller {
    /// Whether this text, which is that task's, is it, or is from now on; `owner` says whose a text is, while it is there.
    fn may(&mut self, text: u64, owner: impl Fn(u64) -> Option<u64>, lives: impl Fn(u64) -> bool) -> bool {
        if self.task != 0 && lives(self.task) {
            return owner(text) == Some(self.task);
        }
        if self.text != text {
            if self.text != 0 && owner(self.text).is_some() {
                return false;
            }
            self.text = text;
        }
        true
    }
}

pub struct Input {
    lines: Mutex<Lines>,
    arrived: Condition,
    /// Those that `^C` ends.
    foreground: Mutex<Vec<u64>>,
    /// The text that sets modes.
    controller: Mutex<Controller>,
    at_end: bool,
}

impl Input {
    /// `at_end`: nothing will ever be typed.
    pub fn new(at_end: bool) -> Input {
        Input {
            lines: Mutex::new(Lines::new()),
            arrived: Condition::new(),
            foreground: Mutex::new(Vec::new()),
            controller: Mutex::default(),
            at_end,
        }
    }

    /// A byte from the serial line or the keyboard.
    pub fn arrive(&self, byte: u8, output: &Output) {
        let effect = {
            let mut lines = self.lines.lock();
            let effect = lines.take(byte);
            // Before anybody has read it, and answers.
            if !effect.echo.is_empty() {
                output.echo(&effect.echo);
            }
            effect
        };
        self.arrived.notify_all();
        if effect.interrupt {
            let all = core::mem::take(&mut *self.foreground.lock());
            all.into_iter().for_each(|whom| {
                let _ = processes::kill(whom);
            });
        }
    }

    /// Waits for up to `max` bytes; none at the end of the input.
    pub fn read(&self, caller: &Caller, max: usize) -> Result<Vec<u8>, Error> {
        if self.at_end || max == 0 {
            return Ok(Vec::new());
        }
        let mut part = vec![0; max.min(4096)];
        if let Some(n) = self.lines.lock().give(&mut part) {
            part.truncate(n);
            return Ok(part);
        }
        let away = away(caller)?;
        let mut lines = self.lines.lock();
        loop {
            if let Some(n) = lines.give(&mut part) {
                part.truncate(n);
                return Ok(part);
            }
            match self.arrived.wait(&mut lines, away.patience_ns()) {
                Err(Error::TimedOut) => away.goes_on()?,
                waited => waited?,
            }
        }
    }

    pub fn set_mode(&self, caller: &Caller, how: u64) -> Result<(), Error> {
        self.control(caller)?;
        if how != mode::COOKED && how != mode::RAW {
            return Err(Error::BadArgument);
        }
        self.lines.lock().set_raw(how == mode::RAW);
        self.arrived.notify_all();
        Ok(())
    }

    pub fn foreground(&self, caller: &Caller, whom: u64) -> Result<(), Error> {
        self.control(caller)?;
        if whom == 0 {
            self.foreground.lock().clear();
            return Ok(());
        }
        // This program may end anybody: it does so for the controller only where that may, too.
        let meant = |one: &ProcessInfo| one.task == whom || processes::of_group(one.group) == whom;
        if !processes::list()?.iter().any(|one| meant(one) && one.user == caller.user) {
            return Err(Error::Denied);
        }
        let mut foreground = self.foreground.lock();
        if !foreground.contains(&whom) {
            foreground.push(whom);
        }
        Ok(())
    }

    /// Whoever was faster than the one that init names loses it to that one.
    pub fn is_controlled_by(&self, caller: &Caller, task: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM {
            return Err(Error::Denied);
        }
        *self.controller.lock() = Controller { task, text: 0 };
        Ok(())
    }

    fn control(&self, caller: &Caller) -> Result<(), Error> {
        let owner = |text| section::info(text).ok().filter(|info| info.base == text).map(|info| info.owner);
        let may = self.controller.lock().may(caller.text, owner, |task| task::info(task).is_some());
        if may { Ok(()) } else { Err(Error::Denied) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_named_is_the_only_one() {
        // The text 10 * n is the task n's.
        let owner = |text: u64| Some(text / 10);
        let mut controller = Controller::default();
        assert!(controller.may(30, owner, |_| true) && !controller.may(40, owner, |_| true), "the first one");
        assert!(controller.may(40, |text| (text == 40).then_some(4), |_| true), "the next one");
        controller = Controller { task: 7, text: 0 };
        assert!(!controller.may(40, owner, |_| true) && controller.may(70, owner, |_| true));
        assert!(controller.may(40, owner, |task| task != 7), "when it has ended");
        assert!(!controller.may(40, owner, |_| true), "nothing of that stays");
    }
}

//! What was typed, until somebody reads it; and who is in the foreground.

use crate::lines::Lines;
use crate::output::Output;
use alloc::vec;
use alloc::vec::Vec;
use musubi::interfaces::console::mode;
use musubi::processes::{self, ProcessInfo};
use musubi::rt::serve::away;
use musubi::rt::{Condition, Mutex, section};
use musubi::{Caller, Error};

pub struct Input {
    lines: Mutex<Lines>,
    arrived: Condition,
    /// Those that `^C` ends.
    foreground: Mutex<Vec<u64>>,
    /// The text that sets modes: the first that did, while it lives.
    controller: Mutex<u64>,
    at_end: bool,
}

impl Input {
    /// `at_end`: nothing will ever be typed.
    pub fn new(at_end: bool) -> Input {
        Input {
            lines: Mutex::new(Lines::new()),
            arrived: Condition::new(),
            foreground: Mutex::new(Vec::new()),
            controller: Mutex::new(0),
            at_end,
        }
    }

    /// A byte from the serial line or the keyboard.
    pub fn arrive(&self, byte: u8, output: &Output) {
        let effect = self.lines.lock().take(byte);
        self.arrived.notify_all();
        if !effect.echo.is_empty() {
            output.echo(&effect.echo);
        }
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

    fn control(&self, caller: &Caller) -> Result<(), Error> {
        let mut controller = self.controller.lock();
        if *controller != caller.text {
            let lives = *controller != 0 && section::info(*controller).is_ok_and(|info| info.base == *controller);
            if lives {
                return Err(Error::Denied);
            }
            *controller = caller.text;
        }
        Ok(())
    }
}

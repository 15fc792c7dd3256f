//! What others ask of the supervisor: how servers are, and to stop, start or move one.

use super::Supervisor;
use crate::system::SCHEDULERS;
use alloc::format;
use core::sync::atomic::Ordering;
use musubi::abi::section::class;
use musubi::abi::task::{USER_PERSON, USER_SYSTEM};
use musubi::interfaces::servers::{RECORD, ServerInfo, Servers, act, state};
use musubi::rt::serve::away;
use musubi::rt::{fault, time};
use musubi::{Caller, Error};
use zerocopy::IntoBytes;

impl Servers for Supervisor {
    fn status(&self, index: u64, record: &mut [u8; RECORD], text: &mut [u8]) -> Result<u64, Error> {
        let (info, said) = {
            let all = self.all.lock();
            let one = usize::try_from(index).ok().and_then(|index| all.get(index)).ok_or(Error::NotFound)?;
            let info = ServerInfo {
                state: one.state,
                task: one.task,
                restarts: one.starts.saturating_sub(1),
                since: one.since,
                text: one.place.text,
                needed: one.server.needed.into(),
            };
            (info, format!("{}\0{}", one.server.name, one.why).into_bytes())
        };
        fault::copy_out(record, info.as_bytes())?;
        let len = said.len().min(text.len());
        fault::copy_out(text, &said[..len])?;
        Ok(len as u64)
    }

    fn act(&self, caller: &Caller, name: &str, what: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM && caller.user != USER_PERSON {
            return Err(Error::Denied);
        }
        let mut all = self.all.lock();
        let index = all.iter().position(|one| one.server.name == name).ok_or(Error::NotFound)?;
        let one = &mut all[index];
        let before = one.starts;
        // One that is being stopped is there only for a moment more.
        let what = if what == act::START && one.is_up() && one.stopped { act::RESTART } else { what };
        match what {
            act::STOP if one.server.needed => return Err(Error::Refused),
            act::STOP if one.is_down() => return Ok(()),
            act::STOP => {
                one.stopped = true;
                one.end(what);
            }
            act::KILL if one.is_down() => return Err(Error::Dead),
            act::START if one.is_up() => {}
            act::RESTART | act::KILL if one.is_up() => {
                // Whoever has asked for a stop that has not come yet hears of it.
                one.stopped = false;
                one.end(what);
            }
            act::START | act::RESTART | act::KILL => {
                one.stopped = false;
                one.hurry = true;
                // It goes on from here, and not from what it was.
                one.state = state::WAITING;
            }
            _ => return Err(Error::BadArgument),
        }
        self.changed.notify_all();
        drop(all);
        let away = away(caller)?;
        let mut all = self.all.lock();
        loop {
            let one = &all[index];
            match what {
                act::STOP if one.state == state::STOPPED => return Ok(()),
                act::STOP if one.state == state::GIVEN_UP => return Ok(()),
                act::STOP if !one.stopped => return Err(Error::Changed),
                act::STOP => {}
                _ if one.is_down() => return Err(Error::Dead),
                act::START if one.state == state::RUNNING => return Ok(()),
                act::RESTART | act::KILL if one.starts > before => return Ok(()),
                _ => {}
            }
            match self.changed.wait(&mut all, away.patience_ns()) {
                Err(Error::TimedOut) => away.goes_on()?,
                waited => waited?,
            }
        }
    }

    fn place(&self, caller: &Caller, name: &str, class: u64, exclusion: u64) -> Result<(), Error> {
        if caller.user != USER_SYSTEM && caller.user != USER_PERSON {
            return Err(Error::Denied);
        }
        let is_one = (class as usize) < class::WORDS.len() && (exclusion == 0 || class == class::NSYS);
        is_one.then_some(()).ok_or(Error::BadArgument)?;
        let mut all = self.all.lock();
        if let Some(one) = all.iter_mut().find(|one| one.server.name == name) {
            one.placed = Some((class, exclusion));
            let name = one.server.name;
            drop(all);
            return self.act(caller, name, act::RESTART);
        }
        let name = SCHEDULERS.iter().find(|one| **one == name).ok_or(Error::NotFound)?;
        self.orders.lock().push((name, class, exclusion));
        let mine = self.ordered.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.notify_all();
        drop(all);
        let away = away(caller)?;
        let mut all = self.all.lock();
        while self.carried_out.load(Ordering::SeqCst) < mine {
            match self.changed.wait(&mut all, away.patience_ns()) {
                Err(Error::TimedOut) => away.goes_on()?,
                waited => waited?,
            }
        }
        Ok(())
    }

    fn wait(&self, caller: &Caller, gate: u64, ns: u64) -> Result<(), Error> {
        let until = if ns == u64::MAX { u64::MAX } else { time::now_ns().saturating_add(ns) };
        let away = away(caller)?;
        let mut all = self.all.lock();
        let there = |one: &super::Record| (one.place.text..one.place.end).contains(&gate);
        let index = all.iter().position(there).ok_or(Error::NotFound)?;
        loop {
            let one = &all[index];
            match one.state {
                state::RUNNING => return Ok(()),
                _ if one.is_down() => return Err(Error::Dead),
                _ => match until.saturating_sub(time::now_ns()) {
                    0 => return Err(Error::TimedOut),
                    left => match self.changed.wait(&mut all, left.min(away.patience_ns())) {
                        Err(Error::TimedOut) => away.goes_on()?,
                        waited => waited?,
                    },
                },
            }
        }
    }
}

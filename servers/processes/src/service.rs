//! What is asked for.

use crate::ends::{is_laid_out, is_there, lives, look_again};
use crate::seen::Seen;
use crate::table::{By, Found, Made, Table};
use crate::waiting::Waiting;
use alloc::collections::BTreeSet;
use core::sync::atomic::AtomicBool;
use musubi::abi::gate::record::{BY_LINE, BY_POST};
use musubi::abi::section::NAME_LEN;
use musubi::abi::task::{Exit, Limits, USER_NOBODY, USER_SYSTEM};
use musubi::interfaces::loader::LoaderService;
use musubi::interfaces::processes::{LIMITS, ProcessInfo, Processes, RECORD, whom};
use musubi::interfaces::request::{LEN_MAX, Request};
use musubi::ledger::Ledger;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::serve::{away, defer};
use musubi::rt::{Condition, Mutex, Once, fault, section, task, time};
use musubi::{Caller, Error};
use zerocopy::{FromBytes, IntoBytes};

/// How long somebody waits at a time for a start that is under way, and how often: its thread may have ended in the middle.
const ENTRY_NS: u64 = 5_000_000;
const ENTRY_TRIES: u32 = 2000;
/// The same on a thread of this program's, of which there are not many that may wait: then its caller is to try again.
const ENTRY_TRIES_AT_POST: u32 = 4;

pub struct Service {
    /// Who changes what is written down has this in hand until it is: what changes next is written down next. To read nobody needs it.
    pub changing: Mutex<()>,
    /// For moments: nobody has it in hand while he calls another program.
    pub table: Mutex<Table>,
    pub seen: Seen,
    /// Something has ended.
    pub changed: Condition,
    /// Something has been started, or was not.
    pub entered: Condition,
    pub waiting: Waiting,
    pub ledger: Once<Ledger>,
    /// Something is not written down: there was no room.
    pub unwritten: AtomicBool,
    pub loader: Once<LoaderService>,
    pub ends: Once<Post>,
}

impl Service {
    pub const fn new() -> Service {
        Service {
            changing: Mutex::new(()),
            table: Mutex::new(Table::new()),
            seen: Seen::new(),
            changed: Condition::new(),
            entered: Condition::new(),
            waiting: Waiting::new(),
            ledger: Once::new(),
            unwritten: AtomicBool::new(false),
            loader: Once::new(),
            ends: Once::new(),
        }
    }

    fn loader(&self) -> Result<&'static LoaderService, Error>
    where
        Self: 'static,
    {
        let find = || match musubi::names::server("loader")? {
            gate if is_of_system(gate) => Ok(LoaderService::new(gate)),
            _ => Err(Error::NoServer),
        };
        self.loader.get_or_try(find)
    }

    /// Waits until a task is known that runs already, while whoever has started it has not come back from that.
    fn await_entry(&self, caller: &Caller, task: u64) -> Result<(), Error> {
        let by_message = is_by_message(caller);
        let is_known = |table: &Table| {
            table.get(task).is_some() || !task::info(task).is_some_and(|info| table.is_starting(info.payer))
        };
        if is_known(&self.table.lock()) {
            return Ok(());
        }
        // Others are served meanwhile, by whichever way it is being started.
        let _away = away(caller)?;
        let mut table = self.table.lock();
        for n in 0..ENTRY_TRIES {
            if is_known(&table) {
                break;
            }
            if by_message && n == ENTRY_TRIES_AT_POST {
                return Err(Error::Busy);
            }
            if self.entered.wait(&mut table, ENTRY_NS) == Err(Error::Killed) {
                return Err(Error::Killed);
            }
        }
        Ok(())
    }

    /// A task that was made without this program is a process as soon as somebody asks for it.
    fn know(&self, caller: &Caller, task: u64) -> Result<(), Error> {
        self.await_entry(caller, task)?;
        let is_known = || self.table.lock().get(task).is_some();
        if is_known() {
            return Ok(());
        }
        let changing = self.changing.lock();
        if is_known() {
            return Ok(());
        }
        // It is there, or has ended and was not looked at yet (which takes the lock); in this order, as it may end meanwhile.
        let running = task::info(task).filter(|info| !is_laid_out(info)).map(|info| (info.payer, info.user, info.name));
        let found = running.or_else(|| {
            let end = task::ended(task.checked_sub(1)?).ok().filter(|end| end.task == task && end.began != 0)?;
            Some((end.payer, end.user, end.name))
        });
        if let Some((payer, user, name)) = found.filter(|found| found.0 != 0) {
            self.change(&changing, |table| table.adopt(task, payer, user, name));
            self.write_down(&changing);
            drop(changing);
            // It may have ended in between.
            if !lives(task) {
                self.look_again();
            }
        }
        Ok(())
    }

    /// Has it looked for what has ended, and who is to be.
    pub fn look_again(&self) {
        self.ends.get().into_iter().for_each(|post| look_again(*post));
    }

    /// Ends one task of the same user's. Whether it was there.
    fn end(&self, by: By, task: u64) -> Result<bool, Error> {
        let Some(info) = task::info(task) else { return Ok(false) };
        if by.user != USER_SYSTEM && by.user != info.user {
            return Err(Error::Denied);
        }
        match task::kill(task) {
            Ok(()) => Ok(true),
            Err(Error::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Whether it runs on a thread of this program's.
fn is_by_message(caller: &Caller) -> bool {
    caller.flags & (BY_POST | BY_LINE) != 0
}

fn by(caller: &Caller) -> By {
    By { task: caller.task, user: caller.user }
}

/// Whether a gate may be called by a thread of the system's: in a machine without a server its name may be a person's. (Where there is nothing just now the
/// name stands for one that is being restarted, so it is.)
fn is_of_system(gate: u64) -> bool {
    let owner = section::info(gate).ok().and_then(|text| task::info(text.owner));
    owner.is_none_or(|owner| owner.user == USER_SYSTEM)
}

/// What people call the program of a path.
fn base_name(path: &[u8]) -> [u8; NAME_LEN] {
    let last = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    let mut name = [0; NAME_LEN];
    let len = last.len().min(NAME_LEN);
    name[..len].copy_from_slice(&last[..len]);
    name
}

/// What is to come of a request, as the kernel says it of a task.
fn made_for(caller: &Caller, request: &Request) -> Made {
    let payer = if request.payer == 0 { caller.task } else { request.payer };
    // Nobody is charged for what the system has started for itself.
    let is_charged = |payer: u64| task::info(payer).is_some_and(|one| one.user != USER_SYSTEM);
    let payer = if caller.user != USER_SYSTEM || is_charged(payer) { payer } else { 0 };
    Made { name: base_name(&request.path), user: request.user, payer }
}

/// As others may know it.
fn told(info: &ProcessInfo, by: By) -> ProcessInfo {
    let same = by.user == USER_SYSTEM || by.user == info.user;
    ProcessInfo { exit: if same { info.exit } else { Exit::default() }, ..*info }
}

impl Processes for Service {
    fn spawn(&self, caller: &Caller, request: &[u8], group: u64, reason: &mut [u8]) -> Result<u64, Error> {
        if request.len() > LEN_MAX {
            return Err(Error::TooBig);
        }
        // A copy: the caller's other threads could change it between check and use.
        let mut request = Request::decode(&fault::copy_in(request)?)?;
        let is_system = caller.user == USER_SYSTEM;
        // Who speaks for nobody has nobody to pay for him once his call is over.
        if caller.user == USER_NOBODY || !is_system && (request.user != caller.user || request.payer != 0) {
            return Err(Error::Denied);
        }
        // On a thread of this program's nobody would pay.
        if is_by_message(caller) && request.payer == 0 {
            request.payer = caller.task;
        }
        self.await_entry(caller, caller.task)?;
        // A server that takes part in it may be away for seconds.
        let away = away(caller)?;
        let made = made_for(caller, &request);
        let ticket = self.table.lock().begin(by(caller), group, made)?;
        let mut line = [0; 256];
        let started = SERVICE.loader().and_then(|loader| loader.spawn(&request.try_encode()?, &mut line));
        drop(away);
        let task = match started {
            Ok(task) => task,
            Err(error) => {
                // The loader may have ended in the middle: what it has left is among the caller's children.
                let stray = if error == Error::Dead { self.table.lock().stray(ticket) } else { None };
                match stray {
                    Some(stray) => self.find_stray(stray),
                    None => {
                        self.table.lock().cancel(ticket);
                        self.entered.notify_all();
                    }
                }
                let len = reason.len().min(line.len());
                fault::copy_out(reason, &line[..len])?;
                return Err(error);
            }
        };
        let doomed = {
            // With this in hand: nobody takes an end from the kernel meanwhile.
            let changing = self.changing.lock();
            let name = base_name(&request.path);
            let entered = self.change(&changing, |table| table.enter(ticket, task, request.user, name, is_there));
            if !self.write_down(&changing) {
                // The next one finds it among its parent's children.
                return Err(Error::Dead);
            }
            match entered {
                Ok(doomed) => doomed,
                // Its sender has ended: it would be nobody's.
                Err(_) if is_there(task) => {
                    self.table.lock().doom(task);
                    true
                }
                Err(_) => false,
            }
        };
        self.entered.notify_all();
        // On a thread of this program's: the caller may be ended at any moment, and its callee a second later.
        if doomed || !lives(task) {
            self.look_again();
        }
        Ok(task)
    }

    fn wait(&self, caller: &Caller, who: u64, timeout: u64) -> Result<u64, Error> {
        let by = by(caller);
        if who != whom::CHILD && who & whom::GROUP == 0 {
            self.know(caller, who)?;
        }
        let until = if timeout == FOR_EVER { FOR_EVER } else { time::now_ns().saturating_add(timeout) };
        let mut table = self.table.lock();
        let mut asked = false;
        loop {
            if let Found::Over(task) = table.awaited(by, who)? {
                return Ok(task);
            }
            let left = if until == FOR_EVER { FOR_EVER } else { until.saturating_sub(time::now_ns()) };
            if left == 0 {
                return Err(Error::TimedOut);
            }
            if !asked && is_by_message(caller) {
                asked = true;
                if let Some(request) = defer(caller)? {
                    // With the table in hand: what ends from now on finds it.
                    if self.waiting.add(by, who, until, request) && until != FOR_EVER {
                        // Who tells them waits for the next one to be told.
                        self.look_again();
                    }
                    return Ok(0);
                }
            }
            self.changed.wait(&mut table, left)?;
        }
    }

    fn status(&self, caller: &Caller, task: u64, record: &mut [u8; RECORD]) -> Result<(), Error> {
        let info = self.seen.get(task).ok_or(Error::NotFound)?;
        fault::copy_out(record, told(&info, by(caller)).as_bytes())
    }

    fn forget(&self, caller: &Caller, task: u64) -> Result<(), Error> {
        let changing = self.changing.lock();
        let outcome = self.change(&changing, |table| table.forget(by(caller), task));
        if self.write_down(&changing) { outcome } else { Err(Error::Dead) }
    }

    fn kill(&self, caller: &Caller, who: u64) -> Result<u64, Error> {
        let by = by(caller);
        if who == whom::CHILD {
            return Err(Error::BadArgument);
        }
        if who & whom::GROUP == 0 {
            return if self.end(by, who)? { Ok(1) } else { Err(Error::NotFound) };
        }
        let group = who & !whom::GROUP;
        let mut members = self.table.lock().end_group(by, group)?;
        let (mut count, mut seen) = (0, BTreeSet::new());
        // Who was not killed yet may have brought in another one meanwhile.
        while !members.is_empty() {
            for task in core::mem::take(&mut members) {
                count += u64::from(self.end(by, task)?);
                seen.insert(task);
            }
            let now = self.table.lock().end_group(by, group).unwrap_or_default();
            members.extend(now.into_iter().filter(|task| !seen.contains(task)));
        }
        Ok(count)
    }

    fn join(&self, caller: &Caller, task: u64, group: u64) -> Result<u64, Error> {
        let task = if task == 0 { caller.task } else { task };
        self.know(caller, task)?;
        let changing = self.changing.lock();
        let outcome = self.change(&changing, |table| table.join(by(caller), task, group));
        if !self.write_down(&changing) {
            // The next one has it in the group where it was.
            return Err(Error::Dead);
        }
        drop(changing);
        // Who waits for the group that it has left, or for it in this one, finds something else now.
        if matches!(outcome, Ok(_) | Err(Error::Killed)) {
            self.look_again();
        }
        outcome
    }

    fn next(&self, caller: &Caller, after: u64, record: &mut [u8; RECORD]) -> Result<u64, Error> {
        let info = *self.table.lock().after(after).ok_or(Error::NotFound)?;
        fault::copy_out(record, told(&info, by(caller)).as_bytes())?;
        Ok(info.task)
    }

    fn limit(&self, caller: &Caller, task: u64, limits: &[u8; LIMITS]) -> Result<(), Error> {
        let asked = Limits::read_from_bytes(&fault::copy_in(limits)?).map_err(|_| Error::BadArgument)?;
        self.know(caller, task)?;
        self.table.lock().may_limit(by(caller), task)?;
        let own = task::info(caller.task).ok_or(Error::Dead)?.limits;
        let at_most = |asked: u64, own: u64| if caller.user == USER_SYSTEM { asked } else { asked.min(own) };
        let limits = Limits {
            frames: at_most(asked.frames, own.frames),
            sections: at_most(asked.sections, own.sections),
            reserve: at_most(asked.reserve, own.reserve),
            threads: at_most(asked.threads, own.threads),
        };
        task::limit(task, &limits)
    }
}

pub static SERVICE: Service = Service::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_ends_of_paths() {
        assert!(base_name(b"/bin/check").starts_with(b"check\0"));
        assert!(base_name(b"x").starts_with(b"x\0"));
        assert_eq!(base_name(&[b'y'; 99]), [b'y'; NAME_LEN]);
    }
}

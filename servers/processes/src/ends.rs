//! What has ended: the kernel says so by a message, and keeps how until it is written down here.

use crate::service::Service;
use crate::table::{Found, Made, Stray, Table};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::rights::principal;
use musubi::abi::task::{Ended, Exit, TaskInfo, USER_SYSTEM, exit};
use musubi::interfaces::processes::ProcessInfo;
use musubi::ledger::Ledger;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::sync::MutexGuard;
use musubi::rt::{task, time};
use musubi::{AclEntry, Error, Rights};
use zerocopy::{FromBytes, IntoBytes};

/// [`Service::changing`], in hand.
pub type Changing<'a> = MutexGuard<'a, ()>;

/// Operation of the messages.
const END: u32 = 1;

/// Whether a task is there and has not ended.
pub fn lives(number: u64) -> bool {
    task::info(number).is_some()
}

/// What has ended and is not forgotten.
fn ends() -> impl Iterator<Item = Ended> {
    let mut after = 0;
    core::iter::from_fn(move || {
        let end = task::ended(after).ok()?;
        after = end.task;
        Some(end)
    })
}

/// Whether it runs, or has ended and that is not forgotten. (In this order: it may end meanwhile.)
pub fn is_there(number: u64) -> bool {
    let is_kept = |before| task::ended(before).is_ok_and(|end| end.task == number);
    lives(number) || number.checked_sub(1).is_some_and(is_kept)
}

/// A post for ends, where any thread in this text may say that there is one.
pub fn post() -> Result<Post, Error> {
    let post = Post::any()?;
    let rights = (Rights::CALL | Rights::READ).bits();
    post.allow(&AclEntry { principal: principal::ANY, rights, id: 0, text: musubi::start().text() })?;
    Ok(post)
}

/// Something has ended that is known only now.
pub fn look_again(post: Post) {
    // If there is no room, others are there that have it looked.
    let _ = post.send(END, [0; 6], None);
}

/// Whether it is one of the system's that never begins, in which a program is laid out for somebody: nobody's process, and in use until whoever has made it ends it.
pub fn is_laid_out(one: &TaskInfo) -> bool {
    one.user == USER_SYSTEM && one.threads == 0
}

impl Service {
    /// What the one before knew, and what has happened since it did.
    pub fn remember(&self, ledger: &Ledger) -> Result<(), Error> {
        let changing = self.changing.lock();
        ledger.each(|_, record| {
            let info = ProcessInfo::read_from_bytes(record).map_err(|_| Error::BadArgument)?;
            self.table.lock().restore(info);
            Ok(())
        })?;
        self.seen.begins(&self.table.lock());
        // Whoever was being started when it ended.
        self.change(&changing, |table| {
            for one in task::list().filter(|one| one.payer != 0 && !is_laid_out(one)) {
                table.adopt(one.task, one.payer, one.user, one.name);
            }
        });
        self.write_down(&changing);
        drop(changing);
        self.look();
        // An end that was written nowhere: this should not be, and is at least told.
        let changing = self.changing.lock();
        self.change(&changing, |table| {
            let gone: Vec<u64> = table.running().map(|one| one.task).filter(|one| !is_there(*one)).collect();
            for one in gone {
                task::log(&format!("processes: how {one} has ended was written nowhere\n"));
                table.end(one, Exit { kind: exit::KILLED, ..Exit::default() }, lives);
            }
        });
        self.write_down(&changing);
        Ok(())
    }

    /// What is done to the table is told from now on, and is to be written down.
    pub fn change<T>(&self, _: &Changing<'_>, what: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.lock();
        let value = what(&mut table);
        self.seen.follows(&table);
        value
    }

    /// Has kept what has changed. What finds no room is tried again
    /// each time. Value: whether this program is still the one that is asked: otherwise the next one knows nothing of it, and nobody may be told.
    pub fn write_down(&self, _: &Changing<'_>) -> bool {
        let Some(ledger) = self.ledger.get() else { return true };
        let kept = self.write_to(ledger);
        if kept == Err(Error::Dead) {
            return false;
        }
        // Said once for each time that there is none.
        if let (Err(error), false) = (kept, self.unwritten.swap(kept.is_err(), Ordering::Relaxed)) {
            task::log(&format!("processes: not all is written down: {error}\n"));
        }
        true
    }

    fn write_to(&self, ledger: &Ledger) -> Result<(), Error> {
        let unwritten = || self.table.lock().unwritten().next().map(|(task, info)| (task, info.copied()));
        while let Some((task, info)) = unwritten() {
            let key = format!("{task}");
            match &info {
                Some(info) => ledger.keep(&key, info.as_bytes())?,
                None => ledger.forget(&key)?,
            }
            self.table.lock().is_written(task, info.as_ref());
        }
        Ok(())
    }

    /// Takes over what has ended, and tells who waits. On one thread only.
    fn look(&self) {
        for end in ends() {
            let changing = self.changing.lock();
            let (mine, strays) = self.change(&changing, |table| (table.over(&end, lives), table.take_strays()));
            let is_written = self.write_down(&changing);
            // Only now: had this program ended before, the next one would see it again. And with this in hand: whoever hears of it may
            // have it forgotten, and then nobody may find it a second time.
            if mine && is_written {
                let _ = task::forget(end.task);
            }
            drop(changing);
            strays.into_iter().for_each(|stray| self.find_stray(stray));
        }
        let all_doomed = self.table.lock().take_doomed();
        for doomed in all_doomed {
            // It may have ended by itself.
            let _ = task::kill(doomed);
        }
        self.changed.notify_all();
        self.waiting.look(time::now_ns(), |by, whom| {
            if !lives(by.task) {
                return Some(Err(Error::Dead));
            }
            match self.table.lock().awaited(by, whom) {
                Ok(Found::Over(task)) => Some(Ok(task)),
                Ok(Found::Running) => None,
                Err(error) => Some(Err(error)),
            }
        });
    }

    /// Whoever started it has ended, with all its threads, or has come back from the loader, which has: so it is there by now, or has been, or never comes. What has
    /// not begun ends with the loader. Of several that it can be it is the first one: whoever has started the others tells of them.
    pub fn find_stray(&self, stray: Stray) {
        let changing = self.changing.lock();
        let found = self.change(&changing, |table| {
            let is_it = |task, payer, user, name| table.is_left_by(&stray, task, Made { name, user, payer });
            let running = task::list().find(|one| one.threads != 0 && is_it(one.task, one.payer, one.user, one.name));
            // Of the system's own an end is for this program only if it knows of it. (It may end meanwhile: in this order.)
            let over = ends().find(|end| end.began != 0 && is_it(end.task, end.payer, end.user, end.name));
            let found = running.map(|one| one.task).into_iter().chain(over.map(|end| end.task)).min();
            if let Some(task) = found {
                table.take_in(&stray, task);
            }
            table.cancel(stray.ticket);
            found
        });
        self.write_down(&changing);
        drop(changing);
        self.entered.notify_all();
        // It may be over, or is to be.
        if found.is_some() {
            self.look_again();
        }
    }

    /// For ever.
    pub fn hear(&self, post: Post) -> ! {
        if let Err(error) = task::ends_to(post, END) {
            panic!("no word of ends: {error}");
        }
        loop {
            let next = self.waiting.next();
            let limit = if next == u64::MAX { FOR_EVER } else { next.saturating_sub(time::now_ns()).max(1) };
            match post.receive(limit) {
                // A look too many does no harm.
                Ok(_) | Err(Error::TimedOut) => {}
                Err(error) => panic!("no word of ends: {error}"),
            }
            self.look();
        }
    }
}

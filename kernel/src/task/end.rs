//! How a task ends. What takes long of that goes by parts, on the turns of who has ended it, of its own last thread, or of both.

use super::{ENDS, Task};
use crate::info::word;
use crate::machine::machine;
use crate::promise;
use crate::sched;
use crate::section::Section;
use crate::thread::Thread;
use crate::trace;
use crate::window;
use abi::Error;
use abi::info::layout::life;
use abi::task::{Exit, USER_SYSTEM, exit};
use abi::trace::kind;
use alloc::sync::Arc;
use arch::cpu;
use arch::shown::MACHINE;
use core::sync::atomic::Ordering;

/// Sections that are given back at a stretch, if nobody else has a turn.
const SECTIONS_AT_ONCE: usize = 8;
/// Of those that wait in their own text so many end at a time, each on a turn of its own: others who are ready wait for all of these turns.
const THREADS_AT_ONCE: usize = 16;

impl Task {
    /// Ends the task: its threads as soon as they are in its own text (or their callees' time is over), its texts one after another, then everything
    /// else. Nobody comes into one of them any more who has not been there. The first reason given is the one that is reported.
    pub fn end(self: &Arc<Task>, how: Exit) {
        self.exit.lock().get_or_insert(how);
        if self.dead.swap(true, Ordering::SeqCst) {
            return;
        }
        self.shown.set(word!(Task, life), life::ENDING);
        sched::in_stretches(self.each_thread(), |thread| thread.kill_with_task());
        {
            let _threads = self.threads.lock();
            self.roused.store(0, Ordering::Relaxed);
        }
        self.rouse(THREADS_AT_ONCE);
        while !self.end_some() {
            sched::breathe();
            if sched::is_due() && sched::leaves_the_end_of(self) {
                return;
            }
        }
    }

    /// So many more of its threads end that were killed with it and are left where they wait: the first ones when it does, and another one after each thread that
    /// has gone. Call without locks.
    pub fn rouse(&self, most: usize) {
        let (mut more, mut stretch) = (most, sched::Stretch::default());
        while more > 0 {
            let Some(thread) = self.next_to_rouse() else { return };
            more -= usize::from(thread.goes_with_task());
            if stretch.is_over_after(1) {
                sched::breathe();
            }
        }
    }

    fn next_to_rouse(&self) -> Option<Arc<Thread>> {
        let threads = self.threads.lock();
        let (number, thread) = threads.range(self.roused.load(Ordering::Relaxed)..).next()?;
        self.roused.store(number + 1, Ordering::Relaxed);
        Some(thread.clone())
    }

    /// Ends it from a line of its own that is short: its exit code.
    pub fn exit_with(self: &Arc<Task>, kind: u64, code: u64) {
        self.end(Exit { kind, code, ..Exit::default() });
    }

    /// Ends it with its last thread, which ends by itself: on its way out of the kernel then. Whether it is the last one.
    pub fn ends_with(self: &Arc<Task>, thread: &Arc<Thread>, code: u64) -> bool {
        if self.is_left_to_others(thread) {
            return false;
        }
        self.exit_with(exit::EXITED, code);
        // Somebody else may be at the task's end, and come to it later.
        thread.kill();
        true
    }

    /// Whether other threads are left to do what there is to do when a task ends, of which this one, which ends, does nothing then.
    fn is_left_to_others(&self, thread: &Thread) -> bool {
        let threads = self.threads.lock();
        let going = self.going.load(Ordering::Relaxed);
        let goes = thread.goes.load(Ordering::Relaxed) || threads.len() > going + 1;
        if goes && !thread.goes.swap(true, Ordering::Relaxed) {
            self.going.store(going + 1, Ordering::Relaxed);
        }
        goes
    }

    /// A part of what there is to do for who ends it. Whether that was all: what it has goes with its last thread, if it has one.
    pub fn end_some(self: &Arc<Task>) -> bool {
        if !self.end_texts() {
            return false;
        }
        if !self.threads.lock().is_empty() {
            return true;
        }
        if !self.is_first() && !self.gives_back() {
            return false;
        }
        self.finish();
        true
    }

    /// Some of what a task has goes before its last thread does, which asks for this as it ends. Whether there may be more.
    pub fn lessen(self: &Arc<Task>, thread: &Thread) -> bool {
        if self.is_left_to_others(thread) || self.is_first() {
            return false;
        }
        thread.lets_go();
        if !self.is_dead() {
            // It was killed alone.
            self.exit_with(exit::EXITED, Error::Killed.word());
        }
        if !self.end_texts() || !self.gives_back() {
            return true;
        }
        let sweeps = self.has_made.load(Ordering::SeqCst) && !self.has_swept.swap(true, Ordering::Relaxed);
        if sweeps {
            sweep(self);
        }
        sweeps
    }

    /// Some of its sections hear of its end: one text, or as many others as there is time for. Whether all have, and everybody who is to hear of that. Who has
    /// been in a text may come into it until then, and finds all that it had.
    fn end_texts(&self) -> bool {
        let mut stretch = sched::Stretch::default();
        for section in self.sections_from(self.heard.load(Ordering::Relaxed)) {
            section.end_text();
            if !section.is_over() {
                // Somebody else is at that, on another processor.
                cpu::relax();
                return false;
            }
            self.heard.fetch_max(section.base + 1, Ordering::Relaxed);
            if section.is_text() || stretch.is_over_after(1) {
                return false;
            }
        }
        true
    }

    /// Some of its sections go, or become shorter. Whether there are no more.
    fn gives_back(&self) -> bool {
        for _ in 0..SECTIONS_AT_ONCE {
            let Some(section) = self.sections_from(self.lessened.load(Ordering::Relaxed)).next() else { return true };
            if section.lessen(self) {
                self.lessened.fetch_max(section.base + 1, Ordering::Relaxed);
            }
            sched::breathe();
            if sched::is_due() {
                break;
            }
        }
        false
    }

    /// Its threads, found one by one, so that others are let in between, however many there are; also those that come meanwhile.
    pub fn each_thread(&self) -> impl Iterator<Item = Arc<Thread>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let (number, thread) = self.threads.lock().range(from..).next().map(|(number, thread)| (*number, thread.clone()))?;
            from = number + 1;
            Some(thread)
        })
    }

    /// Likewise.
    fn own_sections(&self) -> impl Iterator<Item = Arc<Section>> {
        self.sections_from(0)
    }

    fn sections_from(&self, mut from: u64) -> impl Iterator<Item = Arc<Section>> {
        core::iter::from_fn(move || {
            loop {
                let base = self.sections.lock().range(from..).next().copied()?;
                from = base + 1;
                // Given away meanwhile, or another one that has come to lie there.
                if let Ok(section) = Section::named(base)
                    && core::ptr::eq(&*section.owner(), self)
                {
                    return Some(section);
                }
            }
        })
    }

    /// A thread has gone. With the last one the task is over.
    pub fn thread_gone(self: &Arc<Task>, thread: u64, code: u64) {
        let last = {
            let mut threads = self.threads.lock();
            if threads.remove(&thread).is_some_and(|gone| gone.goes.load(Ordering::Relaxed)) {
                self.going.fetch_sub(1, Ordering::Relaxed);
            }
            self.shown.set(word!(Task, threads), threads.len() as u64);
            threads.is_empty()
        };
        if last {
            self.exit.lock().get_or_insert(Exit { kind: exit::EXITED, code, ..Exit::default() });
            self.dead.store(true, Ordering::SeqCst);
            self.finish();
        }
    }

    /// The last thread and somebody who ends the task may come here at the same time. One does it all: the other one would find
    /// sections that are being deleted, take them for deleted, and tell of the end while pages and addresses are in use.
    fn finish(self: &Arc<Task>) {
        if self.finishing.swap(true, Ordering::SeqCst) {
            return;
        }
        // What nobody had a turn for (who ends in a seat), and what has come since.
        sched::in_stretches(self.own_sections(), |section| section.end_text());
        for section in self.own_sections() {
            section.delete_of(self);
            // However many it has.
            sched::breathe();
        }
        window::clear(self);
        {
            let mut pager = self.pager.lock();
            self.paged.store(0, Ordering::SeqCst);
            drop(pager.take());
        }
        let keyed = self.keyed.lock().take();
        if let Some(keyed) = keyed {
            keyed.lower.retire();
        }
        let codes = self.ended.lock().clear();
        self.release_codes(codes);
        self.finished.store(true, Ordering::SeqCst);
        // Children of the system's have none of its share.
        if self.user == USER_SYSTEM {
            self.purse.retire();
        }
        // Whoever makes or gives a section from here on sees that we have finished; these came just before.
        self.own_sections().for_each(|section| section.delete_of(self));
        if self.is_first() {
            panic!("the first task has ended: {:?}", self.exit.lock());
        }
        // Those that came last.
        if self.has_made.load(Ordering::SeqCst) {
            sweep(self);
        }
        self.unused();
    }

    /// One of its sections begins to go.
    pub fn used(&self) {
        self.uses.fetch_add(1, Ordering::SeqCst);
    }

    /// What [`used`](Self::used) said is done. The last one tells of the end.
    pub fn unused(self: &Arc<Task>) {
        if self.uses.fetch_sub(1, Ordering::SeqCst) != 1 {
            return;
        }
        // Who would give something to a task that has ended deletes it, and comes here later.
        if self.told.load(Ordering::SeqCst) {
            return;
        }
        // Whoever looks for it finds it in one of the two, and whoever is told of its end can have it forgotten.
        trace::note(kind::TASK_END, self.number, 0);
        machine().ended.insert(self.number, self.clone());
        machine().tasks.remove(self.number);
        MACHINE.tasks.fetch_sub(1, Ordering::Relaxed);
        self.shown.hide();
        self.own.hide();
        self.keyed.lock().iter().for_each(|keys| keys.hide());
        let maker = {
            let mut maker = self.maker.lock();
            self.told.store(true, Ordering::SeqCst);
            maker.take()
        };
        promise::ends(self);
        self.waiters.wake_all();
        ENDS.ring();
        if let Some(maker) = maker {
            maker.unused();
        }
    }
}

/// Ends what a task that ends has made and not started: nobody is left who could. Somebody else may be doing that; the task's
/// end is told when it is done, whoever does it.
fn sweep(task: &Arc<Task>) {
    sched::in_stretches(machine().tasks.all(), |other| {
        if other.creator == task.number && !other.has_started() {
            {
                let mut maker = other.maker.lock();
                if maker.is_none() && !other.told.load(Ordering::SeqCst) {
                    task.used();
                    *maker = Some(task.clone());
                }
            }
            other.exit_with(exit::KILLED, 0);
        }
    });
}

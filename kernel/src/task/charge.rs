//! What a task is charged, and all that pay for it.

use super::Task;
use crate::promise;
use abi::Error;
use abi::task::Limits;
use quota::{Beside, Resource, Weight, Weights};

impl Task {
    /// Charges this task and its payers: all or none. Frames only as long as nobody else was promised them, so that whoever has them charged can take them.
    #[inline(always)]
    pub fn charge(&self, what: Resource, amount: u64) -> Result<(), Error> {
        if what == Resource::Frames && !promise::are_frames_plenty(amount) { self.charge_few(amount) } else { self.enter(what, amount) }
    }

    /// First it is looked for them: what is charged, and refused then, would be others' for that moment.
    #[cold]
    #[inline(never)]
    fn charge_few(&self, frames: u64) -> Result<(), Error> {
        promise::look_for_frames(self, 0, frames, None)?;
        self.enter(Resource::Frames, frames)?;
        // Others may have looked at the same time.
        if frames > promise::AT_ONCE { self.look_for_frames(frames) } else { Ok(()) }
    }

    /// The same of frames of which somebody else keeps `shared`. `from`: another task pays for them so far.
    pub fn charge_shared(&self, frames: u64, shared: u64, from: Option<&Task>) -> Result<(), Error> {
        let own = frames - shared;
        let are_plenty = promise::are_frames_plenty(own);
        if !are_plenty {
            promise::look_for_frames(self, 0, own, from)?;
        }
        self.enter(Resource::Frames, frames)?;
        self.counts(Beside::Shared, 0, shared);
        if are_plenty || own <= promise::AT_ONCE {
            return Ok(());
        }
        promise::look_for_frames(self, own, 0, from).inspect_err(|_| {
            self.counts(Beside::Shared, shared, 0);
            self.release(Resource::Frames, frames);
        })
    }

    /// Charges frames even where the quota is used up: what a program needs to go on at all. `is_needed`: even if others were promised them.
    pub fn charge_beyond(&self, frames: u64, is_needed: bool) -> Result<(), Error> {
        let mut task = Some(self);
        while let Some(payer) = task {
            let mut ledger = payer.ledger.lock();
            ledger.charge_beyond(Resource::Frames, frames);
            payer.shows_use(Resource::Frames, &ledger);
            drop(ledger);
            task = payer.payer.as_deref();
        }
        if is_needed || promise::are_frames_plenty(frames) { Ok(()) } else { self.look_for_frames(frames) }
    }

    #[cold]
    fn look_for_frames(&self, frames: u64) -> Result<(), Error> {
        promise::look_for_frames(self, frames, 0, None).inspect_err(|_| self.release(Resource::Frames, frames))
    }

    fn enter(&self, what: Resource, amount: u64) -> Result<(), Error> {
        let mut task = Some(self);
        while let Some(payer) = task {
            let mut ledger = payer.ledger.lock();
            if let Err(error) = ledger.charge(what, amount) {
                drop(ledger);
                self.release_below(payer, what, amount);
                return Err(error);
            }
            payer.shows_use(what, &ledger);
            drop(ledger);
            task = payer.payer.as_deref();
        }
        Ok(())
    }

    pub fn release(&self, what: Resource, amount: u64) {
        let mut task = Some(self);
        while let Some(payer) = task {
            payer.give_back(what, amount);
            task = payer.payer.as_deref();
        }
    }

    /// Takes a charge back from this task and its payers below `end`.
    fn release_below(&self, end: &Task, what: Resource, amount: u64) {
        let mut task = self;
        while !core::ptr::eq(task, end) {
            task.give_back(what, amount);
            match task.payer.as_deref() {
                Some(payer) => task = payer,
                None => return,
            }
        }
    }

    fn give_back(&self, what: Resource, amount: u64) {
        let mut ledger = self.ledger.lock();
        ledger.release(what, amount);
        self.shows_use(what, &ledger);
    }

    /// The one that pays for it in the end, and for which nobody does.
    pub fn root(&self) -> &Task {
        let mut task = self;
        while let Some(payer) = task.payer.as_deref() {
            task = payer;
        }
        task
    }

    /// A list of one of its objects takes so many bytes of the kernel's heap at the most, and not as many as before.
    #[inline]
    pub fn counts_list(&self, before: u64, now: u64) {
        self.counts(Beside::Lists, before, now);
    }

    /// Of its frames somebody else keeps so many, and not as many as before.
    #[inline]
    pub fn counts_shared(&self, before: u64, now: u64) {
        self.counts(Beside::Shared, before, now);
    }

    fn counts(&self, what: Beside, before: u64, now: u64) {
        if before != now {
            let root = self.root();
            let mut ledger = root.ledger.lock();
            ledger.counts(what, before, now);
            root.shows_besides(&ledger);
        }
    }

    /// Its frames, and what all that it has takes of the kernel's heap. Of a root.
    pub fn weight(&self, of: &Weights) -> (u64, Weight) {
        let ledger = self.ledger.lock();
        (ledger.own_frames(), ledger.weight(of))
    }

    /// `task_limit`.
    pub fn limit(&self, to: &Limits) {
        let mut ledger = self.ledger.lock();
        ledger.limit(to);
        self.shows_limits(&ledger);
    }

    /// What a child gets that asks for this: at most what this task may have itself, which 0 stands for.
    pub fn limits_for(&self, asked: &Limits) -> Limits {
        let own = self.ledger.lock().limits();
        let pick = |asked: u64, own: u64| if asked == 0 { own } else { asked.min(own) };
        Limits {
            frames: pick(asked.frames, own.frames),
            sections: pick(asked.sections, own.sections),
            reserve: pick(asked.reserve, own.reserve),
            threads: pick(asked.threads, own.threads),
        }
    }
}

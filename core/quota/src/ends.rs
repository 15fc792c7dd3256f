//! Codes of threads that have ended and that nobody has joined yet.

use alloc::collections::BTreeMap;

/// So many cost nothing: every task may keep these.
pub const FREE: u64 = 64;
/// So many more cost a frame of the task's: a code takes 32 bytes of the kernel's heap at most.
pub const PER_FRAME: u64 = 128;

/// The codes of one task, by the thread's number. Kept until they are asked for: as many as it may have threads, so that none of those
/// that were there at one time is lost. Beyond that, and where the task has no frame left, the oldest is forgotten: it may be of a
/// thread that nobody wants to join.
#[derive(Debug, Default)]
pub struct Ends {
    codes: BTreeMap<u64, u64>,
    frames: u64,
}

impl Ends {
    /// Keeps a code. `most`: threads that the task may have; `charge` charges it a frame, if it has one left.
    pub fn keep(&mut self, thread: u64, code: u64, most: u64, charge: impl FnOnce() -> bool) {
        let kept = self.codes.len() as u64;
        let has_room = kept < most.max(FREE)
            && (kept < FREE + self.frames * PER_FRAME || {
                let charged = charge();
                self.frames += u64::from(charged);
                charged
            });
        if !has_room {
            self.codes.pop_first();
        }
        self.codes.insert(thread, code);
    }

    /// Takes the code of a thread, and the frames that are to be given back.
    pub fn take(&mut self, thread: u64) -> (Option<u64>, u64) {
        let code = self.codes.remove(&thread);
        let needed = (self.codes.len() as u64).saturating_sub(FREE).div_ceil(PER_FRAME);
        let back = self.frames - needed.min(self.frames);
        self.frames -= back;
        (code, back)
    }

    /// Forgets all; the frames that are to be given back.
    pub fn clear(&mut self) -> u64 {
        core::mem::take(self).frames
    }
}

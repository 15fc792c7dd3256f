//! The frames of the calls that a thread is in.

use abi::Error;
use abi::gate::DEPTH_MAX;
use alloc::vec::Vec;

/// A thread's protected call stack. A frame says where its call returns to.
#[derive(Clone, Debug)]
pub struct Frames<F> {
    frames: Vec<F>,
}

impl<F> Default for Frames<F> {
    fn default() -> Frames<F> {
        Frames::new()
    }
}

impl<F> Frames<F> {
    /// The stack of a thread that is in no call.
    pub const fn new() -> Frames<F> {
        Frames { frames: Vec::new() }
    }

    /// Enters a call.
    ///
    /// # Errors
    /// `TooDeep` if the thread is in `DEPTH_MAX` calls already; the frame is gone and nothing else has changed.
    pub fn push(&mut self, frame: F) -> Result<(), Error> {
        if self.frames.len() >= DEPTH_MAX {
            return Err(Error::TooDeep);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Leaves the innermost call.
    pub fn pop(&mut self) -> Option<F> {
        self.frames.pop()
    }

    /// The frame of the innermost call.
    pub fn top(&self) -> Option<&F> {
        self.frames.last()
    }

    /// How many calls the thread is in.
    pub fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Leaves the innermost call because its callee is dead, and every further one whose frame returns into what is
    /// `dead` too. Returns the frame that can be returned into, and how many were dropped above it; `None`, and no frame
    /// is left, if nothing that called lives.
    ///
    /// `dead` sees each frame that it drops, from the innermost on, and the living one last.
    pub fn unwind(&mut self, mut dead: impl FnMut(&F) -> bool) -> Option<(F, usize)> {
        let mut dropped = 0;
        loop {
            let frame = self.frames.pop()?;
            if !dead(&frame) {
                return Some((frame, dropped));
            }
            dropped += 1;
        }
    }
}

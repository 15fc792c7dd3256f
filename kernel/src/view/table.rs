//! What pays for the tables of a view.

use super::View;
use abi::Error;
use arch::frames::Frame;
use arch::shown::MACHINE;
use core::sync::atomic::Ordering;
use quota::Resource;

impl View {
    /// Memory for one more table.
    pub(super) fn table(&self) -> Option<Frame> {
        self.task.charge(Resource::Frames, 1).or_else(|why| self.charge_beyond(why)).ok()?;
        self.charged.fetch_add(1, Ordering::Relaxed);
        MACHINE.views.fetch_add(1, Ordering::Relaxed);
        let frame = Frame::zeroed();
        if frame.is_none() {
            self.returned(1);
        }
        frame
    }

    #[cold]
    #[inline(never)]
    fn charge_beyond(&self, why: Error) -> Result<(), Error> {
        let is_needed = self.charged.load(Ordering::Relaxed) < self.least;
        if !is_needed && (why != Error::MemoryQuota || self.beyond.load(Ordering::Relaxed) >= self.beyond_max) {
            return Err(why);
        }
        self.task.charge_beyond(1, is_needed)?;
        self.beyond.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// So many are free.
    pub(super) fn returned(&self, tables: u64) {
        if tables == 0 {
            return;
        }
        // In one step: tables are freed outside of its lock, by several processors. (Those beyond its quota go first.)
        let _ = self.beyond.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |beyond| Some(beyond.saturating_sub(tables)));
        self.charged.fetch_sub(tables, Ordering::Relaxed);
        self.task.release(Resource::Frames, tables);
        MACHINE.views.fetch_sub(tables, Ordering::Relaxed);
    }
}

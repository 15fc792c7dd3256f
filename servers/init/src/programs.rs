//! What the loader has to know: where programs are found, who runs those for Linux, and which are executed in what class. It is told when it is started,
//! in its environment, and when something changes.

use alloc::format;
use alloc::vec::Vec;
use musubi::Error;
use musubi::interfaces::loader::{FILES, LINUX, LoaderClient, PLACED};
use musubi::rt::Mutex;

/// A program, its class and its group.
pub type Order = (&'static str, u64, u64);

#[derive(Default)]
struct Known {
    /// Where the loader stands, as soon as there has been one; nobody else is told.
    loader: u64,
    files: u64,
    linux: u64,
    placed: Vec<Order>,
}

/// Whoever tells the loader has this, so that it hears the latest last. One that is not there is not waited for: whoever starts the next one wants this, too.
pub struct Programs(Mutex<Known>);

impl Known {
    fn tell(&self) -> Result<(), Error> {
        if self.loader == 0 {
            return Ok(());
        }
        let loader = LoaderClient::bind_with_args(self.loader, 4096)?;
        let told = || -> Result<(), Error> {
            if self.files != 0 {
                loader.use_files(self.files)?;
            }
            loader.use_linux(self.linux)?;
            self.placed.iter().try_for_each(|(name, class, group)| loader.place_as(name, *class, *group))
        };
        let told = told();
        loader.unbind().and(told)
    }

    fn place(&mut self, order: Order) {
        self.placed.retain(|one| one.0 != order.0);
        self.placed.push(order);
    }

    fn variables(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let gates = [(FILES, self.files), (LINUX, self.linux)];
        all.extend(
            gates.into_iter().filter(|one| one.1 != 0).map(|(name, gate)| format!("{name}={gate}").into_bytes()),
        );
        all.extend(
            self.placed.iter().map(|(name, class, group)| format!("{PLACED}{name}={class} {group}").into_bytes()),
        );
        all
    }
}

impl Programs {
    pub const fn new() -> Programs {
        Programs(Mutex::new(Known { loader: 0, files: 0, linux: 0, placed: Vec::new() }))
    }

    fn change(&self, change: impl FnOnce(&mut Known)) {
        let mut known = self.0.lock();
        change(&mut known);
        // If it has ended, or is not there yet, the next one finds it in its environment.
        let _ = known.tell();
    }

    pub fn are_found_by(&self, files: u64) {
        self.change(|known| known.files = files);
    }

    /// 0: by nobody.
    pub fn of_linux_by(&self, linux: u64) {
        self.change(|known| known.linux = linux);
    }

    pub fn are_placed(&self, order: Order) {
        self.change(|known| known.place(order));
    }

    /// There is a loader: it is told what has changed since it was started.
    pub fn are_started_by(&self, loader: u64) {
        self.change(|known| known.loader = loader);
    }

    /// What the next loader finds in its environment.
    pub fn variables(&self) -> Vec<Vec<u8>> {
        self.0.lock().variables()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_loader_is_told_what_was_said_last() {
        let mut known = Known { files: 7, ..Known::default() };
        known.place(("sched-fast", 1, 0));
        known.place(("sched-initial", 1, 0));
        known.place(("sched-fast", 2, 9));
        let wanted = [&b"FILES=7"[..], b"PLACED_sched-initial=1 0", b"PLACED_sched-fast=2 9"];
        assert_eq!(known.variables(), wanted);
    }
}

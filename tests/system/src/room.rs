//! How many machines run beside each other on the host.

use machine::Options;
use std::sync::{Condvar, Mutex};

/// Processors of all machines that run at the same time; a machine with more runs alone. More would compete for the two
/// processors of a small host so much that a processor of a machine does not run for longer than the system under test waits for
/// one; with fewer the host would be idle while machines wait.
const PROCESSORS: u32 = 6;

/// What is left of the host.
pub struct Room {
    free: Mutex<u32>,
    freed: Condvar,
}

/// A machine's part of the host, until it is dropped.
pub struct Place<'a> {
    room: &'a Room,
    processors: u32,
}

impl Room {
    pub fn new() -> Self {
        Self { free: Mutex::new(PROCESSORS), freed: Condvar::new() }
    }

    /// Waits until a machine with these options has a place.
    pub fn enter(&self, options: &Options) -> Place<'_> {
        // Where the clock counts instructions one thread of the host runs all processors.
        let wanted = if options.icount { 1 } else { options.cpus() };
        let processors = wanted.min(PROCESSORS);
        let free = self.free.lock().expect("nobody panics with it");
        let mut free = self.freed.wait_while(free, |free| *free < processors).expect("nobody panics with it");
        *free -= processors;
        Place { room: self, processors }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().expect("nobody panics with it") += self.processors;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpus: u32, icount: bool) -> Options {
        Options { cpus: Some(cpus), icount, ..Options::default() }
    }

    #[test]
    fn machines_share_the_host_up_to_its_room() {
        let room = Room::new();
        let left = || *room.free.lock().unwrap();
        let two = room.enter(&machine(2, false));
        let by_the_clock = room.enter(&machine(8, true));
        assert_eq!(left(), PROCESSORS - 3);
        drop((two, by_the_clock));
        let alone = room.enter(&machine(32, false));
        assert_eq!(left(), 0);
        drop(alone);
        assert_eq!(left(), PROCESSORS);
    }
}

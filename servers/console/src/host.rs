//! The way to the host in an `exec`: see `abi::boot::output`.

use core::sync::atomic::AtomicU32;
use musubi::Error;
use musubi::abi::boot::output::{BEGIN, BEGUN, HEAD, IN_MEMORY, READ, SLOT, SLOTS, slot};
use musubi::rt::section::{Device, Ports};
use musubi::rt::{Mutex, sync};

/// Parts up to this length are written to the console byte by byte: that takes no longer than the way by memory, and
/// depends on nothing that the host does meanwhile.
const SHORT: usize = 64;
/// How often it is looked whether the host has read on, while all slots are in use.
const LOOK_NS: u64 = 200_000;

pub struct ToHost(Mutex<Way>);

struct Way {
    console: Ports,
    memory: Option<Device>,
    /// Parts that went by memory.
    sent: u64,
    /// What the host will say when it counts from 0, as this program does: until then slots may hold what another one has sent.
    awaited: Option<u8>,
}

impl ToHost {
    pub fn new(console: Ports, memory: Option<Device>) -> ToHost {
        let awaited = memory.as_ref().map(|memory| memory.read(BEGUN as u64).wrapping_add(1));
        let _ = console.write_bytes(0, &head(BEGIN, 0));
        ToHost(Mutex::new(Way { console, memory, sent: 0, awaited }))
    }

    /// Sends bytes of a stream. Each part of them is whole before somebody else's comes.
    pub fn write(&self, stream: u8, bytes: &[u8]) -> Result<(), Error> {
        static NEVER: AtomicU32 = AtomicU32::new(0);
        for part in bytes.chunks(SLOT) {
            // Waited for without the lock: a caller may be ended meanwhile.
            while !self.0.lock().send(stream, part)? {
                if let Err(error @ (Error::Killed | Error::Dead)) = sync::wait(&NEVER, 0, LOOK_NS) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Way {
    /// Value: whether there was room.
    fn send(&mut self, stream: u8, part: &[u8]) -> Result<bool, Error> {
        match &mut self.memory {
            Some(memory) if part.len() > SHORT => {
                if self.awaited.is_some_and(|awaited| memory.read(BEGUN as u64) != awaited) {
                    return Ok(false);
                }
                self.awaited = None;
                if in_use(self.sent, memory.read(READ as u64)) >= SLOTS {
                    return Ok(false);
                }
                memory.write(slot(self.sent) as u64, part);
                self.console.write_bytes(0, &head(stream | IN_MEMORY, part.len()))?;
                self.sent += 1;
            }
            _ => self.console.write_bytes(0, &[&head(stream, part.len()), part].concat())?,
        }
        Ok(true)
    }
}

fn head(kind: u8, len: usize) -> [u8; HEAD] {
    let [low, high, ..] = len.to_le_bytes();
    [kind, low, high]
}

/// How many slots the host has not read yet.
fn in_use(sent: u64, read: u8) -> usize {
    usize::from((sent as u8).wrapping_sub(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_counted_round() {
        assert_eq!(in_use(0, 0), 0);
        assert_eq!(in_use(300, 44), 0);
        assert_eq!(in_use(256 + 3, 250), 9);
        assert_eq!(head(2 | IN_MEMORY, 0x1234), [0x82, 0x34, 0x12]);
    }
}

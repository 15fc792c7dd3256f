//! What a guest prints, as it comes from its console and the memory shared with it: see `abi::boot::output`.

use abi::boot::output::{BEGIN, BEGUN, HEAD, IN_MEMORY, MEMORY, READ, SLOT, slot};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One of the guest's streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Output,
    Errors,
}

/// Takes what the console brings apart, in whatever pieces it comes.
pub(crate) struct Parts {
    memory: File,
    /// What came and is not a whole part yet.
    rest: Vec<u8>,
    /// Parts that came by memory.
    read: u64,
    /// Consoles that have begun.
    begun: u8,
}

/// Makes the file of the memory that guest and host share.
pub(crate) fn make_memory(path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).create_new(true).open(path);
    let file = file.with_context(|| format!("cannot make {}", path.display()))?;
    file.set_len(MEMORY as u64).context("cannot make the shared memory")?;
    Ok(file)
}

impl Parts {
    pub(crate) fn new(memory: File) -> Self {
        Self { memory, rest: Vec::new(), read: 0, begun: 0 }
    }

    /// Hands on each part that is complete, in order. An error is one of the guest's console or of this host: after it
    /// nothing that comes makes sense.
    pub(crate) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Stream, &[u8])) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(&[kind, low, high]) = self.rest[at..].first_chunk::<HEAD>() {
            let len = usize::from(u16::from_le_bytes([low, high]));
            if [kind, low, high] == [BEGIN, 0, 0] {
                at += HEAD;
                self.read = 0;
                self.begun = self.begun.wrapping_add(1);
                // First what it counts from, then that it may.
                self.memory.write_all_at(&[0], READ as u64).context("shared memory")?;
                self.memory.write_all_at(&[self.begun], BEGUN as u64).context("shared memory")?;
                continue;
            }
            let stream = match kind & !IN_MEMORY {
                1 => Stream::Output,
                2 => Stream::Errors,
                _ => anyhow::bail!("the guest's console speaks of a stream {kind}"),
            };
            ensure!(len <= SLOT, "the guest's console speaks of a part of {len} bytes");
            if kind & IN_MEMORY != 0 {
                at += HEAD;
                let mut part = [0; SLOT];
                self.memory.read_exact_at(&mut part[..len], slot(self.read) as u64).context("shared memory")?;
                self.read += 1;
                each(stream, &part[..len]);
                // Now the guest may use the slot again.
                self.memory.write_all_at(&[self.read as u8], READ as u64).context("shared memory")?;
            } else {
                let Some(part) = self.rest.get(at + HEAD..at + HEAD + len) else { break };
                each(stream, part);
                at += HEAD + len;
            }
        }
        self.rest.drain(..at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::boot::output::SLOTS;

    fn parts() -> (tempfile::TempDir, File, Parts) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory");
        let parts = Parts::new(make_memory(&path).unwrap());
        (dir, File::options().read(true).write(true).open(path).unwrap(), parts)
    }

    #[test]
    fn parts_come_in_order_however_they_are_cut() {
        let (_dir, memory, mut parts) = parts();
        memory.write_all_at(b"from memory", slot(0) as u64).unwrap();
        memory.write_all_at(b"again", slot(1) as u64).unwrap();
        let bytes = b"\x01\x02\x00hi\x82\x0b\x00\x02\x03\x00\x01\x00\xff\x81\x05\x00\x01\x00\x00";
        let mut got = Vec::new();
        for byte in bytes {
            parts.take(&[*byte], |stream, part| got.push((stream, part.to_vec()))).unwrap();
        }
        let out = |bytes: &[u8]| (Stream::Output, bytes.to_vec());
        let err = |bytes: &[u8]| (Stream::Errors, bytes.to_vec());
        assert_eq!(got, [out(b"hi"), err(b"from memory"), err(b"\x01\x00\xff"), out(b"again"), out(b"")]);
        let mut read = [0];
        memory.read_exact_at(&mut read, READ as u64).unwrap();
        assert_eq!(read, [2], "the guest is told what was read");
    }

    #[test]
    fn another_console_begins_with_the_first_slot() {
        let (_dir, memory, mut parts) = parts();
        for console in 1..=300u32 {
            for n in 0..3 {
                memory.write_all_at(&[n], slot(n.into()) as u64).unwrap();
            }
            let mut got = Vec::new();
            let sent = b"\x03\x00\x00\x81\x01\x00\x81\x01\x00\x81\x01\x00";
            parts.take(sent, |_, part| got.extend_from_slice(part)).unwrap();
            assert_eq!(got, [0, 1, 2], "console {console}");
            let mut said = [0; 2];
            memory.read_exact_at(&mut said, 0).unwrap();
            assert_eq!((said[READ], said[BEGUN]), (3, console as u8));
        }
    }

    #[test]
    fn slots_go_round() {
        let (_dir, memory, mut parts) = parts();
        for n in 0..3 * SLOTS as u64 + 5 {
            memory.write_all_at(&n.to_le_bytes(), slot(n) as u64).unwrap();
            let mut got = 0;
            parts.take(&[0x81, 8, 0], |_, part| got = u64::from_le_bytes(part.try_into().unwrap())).unwrap();
            assert_eq!(got, n);
        }
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for bytes in [[0, 1, 0], [3, 1, 0], [0x80, 1, 0], [0x81, 1, 0x40], [1, 0xff, 0xff]] {
            let (_dir, _memory, mut parts) = parts();
            assert!(parts.take(&bytes, |_, _| ()).is_err(), "{bytes:x?}");
        }
    }
}

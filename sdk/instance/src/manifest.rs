//! Reads the boot manifest: it comes from the kernel, but damage must be found here and not later.

use alloc::vec::Vec;
use musubi::abi::boot::{DeviceRecord, FileRecord, Manifest as Header};
use zerocopy::FromBytes;

/// What came with the image.
#[derive(Debug)]
pub struct Manifest {
    /// The members of the boot pack: their names, and where they lie.
    pub files: Vec<(&'static [u8], FileRecord)>,
    pub devices: Vec<DeviceRecord>,
    /// The words of `./musubi exec`.
    pub exec: Vec<&'static [u8]>,
}

impl Manifest {
    /// `None` if the bytes are no manifest.
    #[must_use]
    pub fn read(bytes: &'static [u8]) -> Option<Manifest> {
        let (header, mut rest) = Header::read_from_prefix(bytes).ok()?;
        let bytes = bytes.get(..usize::try_from(header.len).ok()?)?;
        let part = |offset: u64, len: u64| {
            let end = offset.checked_add(len)?;
            bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
        };
        let mut files = Vec::new();
        for _ in 0..header.files {
            let (record, after) = FileRecord::read_from_prefix(rest).ok()?;
            files.push((part(record.name_offset, record.name_len)?, record));
            rest = after;
        }
        let mut devices = Vec::new();
        for _ in 0..header.devices {
            let (record, after) = DeviceRecord::read_from_prefix(rest).ok()?;
            devices.push(record);
            rest = after;
        }
        let words = part(header.exec_offset, header.exec_len)?;
        let words = words.strip_suffix(&[0]).unwrap_or(words);
        let exec = if header.exec_len == 0 { Vec::new() } else { words.split(|&b| b == 0).collect() };
        Some(Manifest { files, devices, exec })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use musubi::abi::boot::device;
    use zerocopy::IntoBytes;

    fn sample() -> Vec<u8> {
        let names = b"bin/init/data";
        let words = b"echo\0a b\0\0";
        let start = (size_of::<Header>() + 2 * size_of::<FileRecord>() + size_of::<DeviceRecord>()) as u64;
        let file =
            |at, len| FileRecord { section: 1, len: 2, name_offset: start + at, name_len: len, mtime: 3, flags: 0 };
        let mut header = Header {
            len: 0,
            files: 2,
            devices: 1,
            exec_offset: start + names.len() as u64,
            exec_len: words.len() as u64,
            boot_time: 0,
            build_id: 0,
        };
        header.len = header.exec_offset + header.exec_len;
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(file(0, 8).as_bytes());
        bytes.extend_from_slice(file(8, 5).as_bytes());
        let port = DeviceRecord { kind: device::SERIAL, section: 9, a: 0, b: 0, c: 0, d: 0 };
        bytes.extend_from_slice(port.as_bytes());
        bytes.extend_from_slice(names);
        bytes.extend_from_slice(words);
        bytes
    }

    #[test]
    fn reads_files_devices_and_words() {
        let manifest = Manifest::read(sample().leak()).unwrap();
        assert_eq!(manifest.files.iter().map(|f| f.0).collect::<Vec<_>>(), [&b"bin/init"[..], b"/data"]);
        assert_eq!(manifest.devices[0].section, 9);
        assert_eq!(manifest.exec, [&b"echo"[..], b"a b", b""]);
    }

    #[test]
    fn damage_is_found() {
        let bytes = sample().leak();
        (0..bytes.len()).for_each(|n| assert!(Manifest::read(&bytes[..n]).is_none(), "{n}"));
        for at in 0..size_of::<Header>() + 2 * size_of::<FileRecord>() {
            let mut wrong = bytes.to_vec();
            wrong[at] = 0xff;
            let _ = Manifest::read(wrong.leak());
        }
    }
}

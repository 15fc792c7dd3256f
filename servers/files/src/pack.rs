//! The files that came with the image, at their places in the tree: the system's own, and what a person has put in.

use crate::service::Files;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::boot::{NAME_LEN, flag};
use musubi::abi::task::{USER_PERSON, USER_SYSTEM};
use musubi::interfaces::pack::{PackClient, PackInfo, RECORD};
use tree::{Kind, Status};
use zerocopy::FromBytes;

/// Gives every file its place.
pub fn install(files: &Files) -> Result<(), Error> {
    let pack = PackClient::bind_with_args(musubi::names::lookup("pack")?, 4096)?;
    let (mut record, mut name) = ([0; RECORD], [0; NAME_LEN]);
    for index in 0.. {
        let len = match pack.take(index, &mut record, &mut name) {
            Ok(len) => (len as usize).min(NAME_LEN),
            Err(Error::NotFound) => break,
            Err(error) => return Err(error),
        };
        let info = PackInfo::read_from_bytes(&record).map_err(|_| Error::BadArgument)?;
        // A name that no path leads to is left out; it is not worth a machine that does not start.
        if let Err(error) = place(files, &name[..len], &info) {
            let name = name[..len].escape_ascii();
            musubi::rt::task::log(&alloc::format!("files: {name}: {error}\n"));
        }
    }
    let shared =
        Status { number: 0, kind: Kind::Directory, owner: USER_SYSTEM, mode: 0o777, mtime: crate::service::now() };
    match files.install(b"tmp", shared) {
        Err(error) if error != Error::Exists => Err(error),
        _ => pack.unbind(),
    }
}

fn place(files: &Files, path: &[u8], info: &PackInfo) -> Result<(), Error> {
    let has = |flag: u32| info.flags & u64::from(flag) != 0;
    let owner = if has(flag::PUT) { USER_PERSON } else { USER_SYSTEM };
    let mode = if has(flag::EXECUTABLE) { 0o755 } else { 0o644 };
    let of = Status { number: 0, kind: Kind::File, owner, mode, mtime: info.mtime };
    let ends: Vec<usize> = path.iter().enumerate().filter(|(at, b)| **b == b'/' && *at > 0).map(|(at, _)| at).collect();
    for end in ends {
        match files.install(&path[..end], Status { kind: Kind::Directory, mode: 0o755, ..of }) {
            Err(error) if error != Error::Exists && error != Error::BadArgument => return Err(error),
            _ => {}
        }
    }
    files.install(path, of)?.content(|content, _| content.set_pack(info.section, info.len))
}

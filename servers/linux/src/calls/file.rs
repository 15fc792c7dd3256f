//! Opening, closing and doubling descriptors.

use alloc::sync::Arc;
use alloc::vec::Vec;
use linux_raw_sys::general as linux;
use musubi::interfaces::files::how;

use crate::answer::{Answer, Errno, Stop, errno, fail};
use crate::descriptors::{Description, Name, Object, OnExec, Pipe};
use crate::machine::Machine;
use crate::process::Call;
use crate::tree::{self, Device, Entry, Node};

/// Flags of `open` that have their effect here, or that ask for less than is given anyway (files are in memory: nothing
/// is cached apart, nothing blocks, no access time is kept).
const KNOWN: u32 = linux::O_ACCMODE
    | linux::O_CREAT
    | linux::O_EXCL
    | linux::O_TRUNC
    | linux::O_APPEND
    | linux::O_NONBLOCK
    | linux::O_NOCTTY
    | linux::O_LARGEFILE
    | linux::O_DIRECTORY
    | linux::O_NOFOLLOW
    | linux::O_NOATIME
    | linux::O_CLOEXEC
    | linux::O_SYNC
    | LARGEFILE;
/// The kernel's own value; the constant of the headers is 0 on this processor.
const LARGEFILE: u32 = 0o100_000;
/// The one flag of `close_range` that is implemented; not in `linux-raw-sys`.
const CLOSE_RANGE_CLOEXEC: u32 = 4;
/// What `fcntl` may change.
const CHANGEABLE: u32 = linux::O_APPEND | linux::O_NONBLOCK | linux::O_NOATIME;

pub fn open<M: Machine>(call: &mut Call<'_, M>, path: u64, flags: u32, mode: u32) -> Answer {
    openat(call, linux::AT_FDCWD, path, flags, mode)
}

pub fn creat<M: Machine>(call: &mut Call<'_, M>, path: u64, mode: u32) -> Answer {
    openat(call, linux::AT_FDCWD, path, linux::O_CREAT | linux::O_WRONLY | linux::O_TRUNC, mode)
}

pub fn openat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, flags: u32, mode: u32) -> Answer {
    let asked = call.path(path)?;
    if flags & !KNOWN != 0 {
        return call.refuse("open flags", u64::from(flags & !KNOWN), errno::EINVAL);
    }
    let makes = flags & linux::O_CREAT != 0;
    let description = match call.find(directory, &asked) {
        Ok(_) if makes && flags & linux::O_EXCL != 0 => return fail(errno::EEXIST),
        Ok((path, entry)) => describe(call, &path, entry, flags)?,
        Err(Errno(errno::ENOENT)) if makes && asked.ends_with(b"/") => return fail(errno::EISDIR),
        Err(Errno(errno::ENOENT)) if makes => {
            let path = call.walk(directory, &asked)?.path;
            if call.process.tree.owns(&path) {
                return fail(errno::EROFS);
            }
            let mode = mode & !*call.process.umask.lock();
            open_file(call, &path, flags, mode)?
        }
        Err(errno) => return Err(errno.into()),
    };
    let on_exec = OnExec::from_flag(flags & linux::O_CLOEXEC != 0);
    let added = call.process.descriptors.lock().add(description.clone(), 0, on_exec);
    if added.is_err() {
        call.discard(Some(description));
    }
    Ok(added? as u64)
}

/// What stays of the flags of `open`.
fn kept(flags: u32) -> u32 {
    flags & !(linux::O_CLOEXEC | linux::O_CREAT | linux::O_EXCL | linux::O_TRUNC | linux::O_NOCTTY)
}

/// Opens a file, or makes it.
fn open_file<M: Machine>(call: &Call<'_, M>, path: &[u8], flags: u32, mode: u32) -> Result<Arc<Description>, Stop> {
    let has = |flag: u32, asked: u64| if flags & flag != 0 { asked } else { 0 };
    let access = match flags & linux::O_ACCMODE {
        linux::O_RDONLY => how::READ,
        linux::O_WRONLY => how::WRITE,
        _ => how::READ | how::WRITE,
    };
    // Whoever throws away what is there must be allowed to write.
    let asked = access
        | has(linux::O_CREAT, how::CREATE)
        | has(linux::O_EXCL, has(linux::O_CREAT, how::NEW))
        | has(linux::O_TRUNC, how::EMPTY | how::WRITE);
    let (open, entry) = call.machine().file_open(path, asked | how::mode(mode.into())).map_err(Errno::of_file)?;
    Ok(Description::new(Object::File(open), path, entry.inode, kept(flags)))
}

/// Makes an open file of what a path led to.
fn describe<M: Machine>(call: &Call<'_, M>, path: &[u8], entry: Entry, flags: u32) -> Result<Arc<Description>, Stop> {
    let writes = flags & linux::O_ACCMODE != linux::O_RDONLY;
    if flags & linux::O_DIRECTORY != 0 && entry.node != Node::Directory {
        return fail(errno::ENOTDIR);
    }
    let object = match entry.node {
        Node::Directory if writes => return fail(errno::EISDIR),
        Node::Directory => Object::Directory(names(call, path)?),
        Node::File(_) => return open_file(call, path, flags, 0),
        Node::Device(Device::Terminal) => {
            let terminal = |stream: &&abi::start::StreamRef| call.machine().stream_terminal(**stream).is_some();
            let streams = &call.process.streams;
            let (input, output) = (streams.iter().find(terminal), streams.iter().rfind(terminal));
            let (Some(input), Some(output)) = (input, output) else { return fail(errno::ENXIO) };
            Object::Stream { input: *input, output: *output, terminal: true }
        }
        Node::Device(device) => Object::Device(device),
        // As on Linux, the name of a descriptor that is not open leads nowhere.
        Node::Descriptor(fd) => return call.description(fd).map_err(|_| Stop::Error(Errno(errno::ENOENT))),
        // `find` follows it.
        Node::Program => return fail(errno::ENOENT),
    };
    Ok(Description::new(object, path, entry.inode, kept(flags)))
}

/// What is in a directory: this server's own names are in the root, too.
fn names<M: Machine>(call: &Call<'_, M>, path: &[u8]) -> Result<Vec<Name>, Errno> {
    let own = call.process.tree.list(path).into_iter().map(|(name, entry)| Name { name, entry });
    if call.process.tree.owns(path) {
        return Ok(own.collect());
    }
    let mut names = call.machine().file_list(path)?;
    let own: Vec<Name> = own.filter(|own| names.iter().all(|other| other.name != own.name)).collect();
    names.extend(own);
    names.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(names)
}

pub fn close<M: Machine>(call: &mut Call<'_, M>, fd: i32) -> Answer {
    let closed = call.process.descriptors.lock().close(fd)?;
    call.discard(Some(closed));
    Ok(0)
}

pub fn close_range<M: Machine>(call: &mut Call<'_, M>, first: u32, last: u32, flags: u32) -> Answer {
    if flags & !CLOSE_RANGE_CLOEXEC != 0 {
        return call.refuse("close_range flags", u64::from(flags), errno::EINVAL);
    }
    if first > last {
        return fail(errno::EINVAL);
    }
    let mut closed = Vec::new();
    {
        let mut descriptors = call.process.descriptors.lock();
        let end = (last as usize).min(descriptors.limit()) as i32;
        for fd in (first.min(i32::MAX as u32) as i32)..=end {
            // Numbers that are not open are passed over.
            match flags {
                0 => closed.extend(descriptors.close(fd).ok()),
                _ => drop(descriptors.set_on_exec(fd, OnExec::Close)),
            }
        }
    }
    closed.into_iter().for_each(|description| call.discard(Some(description)));
    Ok(0)
}

pub fn dup<M: Machine>(call: &mut Call<'_, M>, fd: i32) -> Answer {
    duplicate(call, fd, 0, OnExec::Keep)
}

fn duplicate<M: Machine>(call: &Call<'_, M>, fd: i32, least: i32, on_exec: OnExec) -> Answer {
    let mut descriptors = call.process.descriptors.lock();
    let description = descriptors.get(fd)?.clone();
    Ok(descriptors.add(description, least, on_exec)? as u64)
}

pub fn dup2<M: Machine>(call: &mut Call<'_, M>, from: i32, to: i32) -> Answer {
    let before = {
        let mut descriptors = call.process.descriptors.lock();
        descriptors.get(from)?;
        if from == to { None } else { descriptors.replace(from, to, OnExec::Keep)? }
    };
    call.discard(before);
    Ok(to as u64)
}

pub fn dup3<M: Machine>(call: &mut Call<'_, M>, from: i32, to: i32, flags: u32) -> Answer {
    if from == to || flags & !linux::O_CLOEXEC != 0 {
        return fail(errno::EINVAL);
    }
    let before = call.process.descriptors.lock().replace(from, to, OnExec::from_flag(flags != 0))?;
    call.discard(before);
    Ok(to as u64)
}

pub fn fcntl<M: Machine>(call: &mut Call<'_, M>, fd: i32, command: u32, argument: u64) -> Answer {
    let open = call.description(fd)?;
    match command {
        linux::F_DUPFD => duplicate(call, fd, argument as i32, OnExec::Keep),
        linux::F_DUPFD_CLOEXEC => duplicate(call, fd, argument as i32, OnExec::Close),
        linux::F_GETFD => {
            let on_exec = call.process.descriptors.lock().on_exec(fd)?;
            Ok(if on_exec == OnExec::Close { u64::from(linux::FD_CLOEXEC) } else { 0 })
        }
        linux::F_SETFD => {
            let on_exec = OnExec::from_flag(argument as u32 & linux::FD_CLOEXEC != 0);
            call.process.descriptors.lock().set_on_exec(fd, on_exec)?;
            Ok(0)
        }
        linux::F_GETFL => Ok(u64::from(open.flags() | LARGEFILE)),
        linux::F_SETFL => {
            open.set_flags(open.flags() & !CHANGEABLE | argument as u32 & CHANGEABLE);
            Ok(0)
        }
        _ => call.refuse("fcntl", u64::from(command), errno::EINVAL),
    }
}

pub fn ftruncate<M: Machine>(call: &mut Call<'_, M>, fd: i32, len: i64) -> Answer {
    let open = call.description(fd)?;
    let len = u64::try_from(len).map_err(|_| Errno(errno::EINVAL))?;
    match &open.object {
        Object::File(file) if open.flags() & linux::O_ACCMODE != linux::O_RDONLY => {
            call.machine().file_resize(file.number(), len).map_err(Errno::of_file)?;
            Ok(0)
        }
        _ => fail(errno::EINVAL),
    }
}

pub fn pipe<M: Machine>(call: &mut Call<'_, M>, fds: u64) -> Answer {
    pipe2(call, fds, 0)
}

pub fn pipe2<M: Machine>(call: &mut Call<'_, M>, fds: u64, flags: u32) -> Answer {
    if flags & !(linux::O_CLOEXEC | linux::O_NONBLOCK) != 0 {
        return call.refuse("pipe2 flags", u64::from(flags), errno::EINVAL);
    }
    let pipe = Arc::new(Pipe::default());
    let on_exec = OnExec::from_flag(flags & linux::O_CLOEXEC != 0);
    let kept = flags & linux::O_NONBLOCK;
    let reader = Description::new(Object::PipeReader(pipe.clone()), b"", 0, kept | linux::O_RDONLY);
    let writer = Description::new(Object::PipeWriter(pipe), b"", 0, kept | linux::O_WRONLY);
    let (first, second) = {
        let mut descriptors = call.process.descriptors.lock();
        let first = descriptors.add(reader, 0, on_exec)?;
        match descriptors.add(writer, 0, on_exec) {
            Ok(second) => (first, second),
            Err(errno) => {
                descriptors.close(first)?;
                return Err(errno.into());
            }
        }
    };
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_le_bytes());
    bytes[4..].copy_from_slice(&second.to_le_bytes());
    if let Err(errno) = call.write(fds, &bytes) {
        let mut descriptors = call.process.descriptors.lock();
        descriptors.close(first)?;
        descriptors.close(second)?;
        return Err(errno.into());
    }
    Ok(0)
}

/// The inode of a description's directory, for `..`.
#[must_use]
pub fn parent_inode<M: Machine>(call: &Call<'_, M>, path: &[u8]) -> u64 {
    call.find(linux::AT_FDCWD, tree::parent(path)).map_or(0, |found| found.1.inode)
}

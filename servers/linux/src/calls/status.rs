//! What is known of a file: `stat` and its relatives, `access`, `statfs`.

use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, errno, fail};
use crate::descriptors::{Description, Object};
use crate::machine::Machine;
use crate::process::Call;
use crate::record;
use crate::tree::{Device, Entry, Mode, Node};

const BLOCK: u64 = 4096;
/// The device number of the file server.
const DEVICE: u32 = 1;
/// `f_type`: "musu".
const MAGIC: i64 = 0x6d75_7375;
/// No devices of a disk, no access times.
const ST_FLAGS: i64 = 0x4 | 0x400;

/// What `stat` says, before it is put into one of the two structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub inode: u64,
    pub mode: u32,
    pub links: u32,
    pub size: u64,
    pub mtime: i64,
    pub owner: u32,
    /// Major and minor number of a device.
    pub rdev: (u32, u32),
}

impl Status {
    #[must_use]
    pub fn of(entry: Entry) -> Status {
        let Mode { bits, owner, mtime } = entry.mode;
        let status = Status { inode: entry.inode, links: 1, owner: owner as u32, mtime, ..Status::default() };
        match entry.node {
            Node::Directory => Status { mode: linux::S_IFDIR | bits, links: 2, size: BLOCK, ..status },
            Node::File(file) => Status { mode: linux::S_IFREG | bits, size: file.len, ..status },
            Node::Device(device) => device_status(status, device),
            Node::Program | Node::Descriptor(_) => Status { mode: linux::S_IFLNK | 0o777, ..status },
        }
    }

    /// Of what is open and no file, of which the file server knows more.
    #[must_use]
    pub fn of_open(open: &Description) -> Status {
        let status = Status { inode: open.inode, links: 1, ..Status::default() };
        match &open.object {
            Object::File(_) => Status { mode: linux::S_IFREG, ..status },
            Object::Directory(_) => Status::of(Entry::own(open.inode, Node::Directory)),
            Object::Device(device) => device_status(status, *device),
            Object::Stream { terminal: true, .. } => device_status(status, Device::Terminal),
            Object::Stream { .. } | Object::PipeReader(_) | Object::PipeWriter(_) => {
                Status { mode: linux::S_IFIFO | 0o600, ..status }
            }
        }
    }

    /// The bytes of `struct stat`.
    #[must_use]
    pub fn stat(&self) -> [u8; size_of::<linux::stat>()] {
        let time = self.mtime as u64;
        record!(linux::stat {
            st_dev: u64::from(DEVICE),
            st_ino: self.inode,
            st_nlink: u64::from(self.links),
            st_mode: self.mode,
            st_uid: self.owner,
            st_gid: self.owner,
            st_rdev: u64::from(self.rdev.0) << 8 | u64::from(self.rdev.1),
            st_size: self.size as i64,
            st_blksize: BLOCK as i64,
            st_blocks: self.blocks() as i64,
            st_atime: time,
            st_mtime: time,
            st_ctime: time,
        })
    }

    /// The bytes of `struct statx`.
    #[must_use]
    pub fn statx(&self) -> [u8; size_of::<linux::statx>()] {
        record!(linux::statx {
            stx_mask: linux::STATX_BASIC_STATS,
            stx_blksize: BLOCK as u32,
            stx_nlink: self.links,
            stx_mode: self.mode as u16,
            stx_uid: self.owner,
            stx_gid: self.owner,
            stx_ino: self.inode,
            stx_size: self.size,
            stx_blocks: self.blocks(),
            stx_atime.tv_sec: self.mtime,
            stx_ctime.tv_sec: self.mtime,
            stx_mtime.tv_sec: self.mtime,
            stx_rdev_major: self.rdev.0,
            stx_rdev_minor: self.rdev.1,
            stx_dev_minor: DEVICE,
        })
    }

    /// In units of 512 bytes, whatever the size of a block.
    fn blocks(&self) -> u64 {
        self.size.div_ceil(BLOCK) * (BLOCK / 512)
    }
}

/// Devices have Linux' numbers.
fn device_status(status: Status, device: Device) -> Status {
    let (rdev, mode) = match device {
        Device::Null => ((1, 3), 0o666),
        Device::Zero => ((1, 5), 0o666),
        Device::Full => ((1, 7), 0o666),
        Device::Random => ((1, 9), 0o666),
        Device::Terminal => ((5, 0), 0o620),
    };
    Status { mode: linux::S_IFCHR | mode, rdev, ..status }
}

/// What is known of something open. Of a directory that is what its path leads to now.
fn open_status<M: Machine>(call: &Call<'_, M>, open: &Description) -> Result<Status, Errno> {
    match &open.object {
        Object::File(file) => Ok(Status::of(call.machine().file_status(file.number())?)),
        Object::Directory(_) => {
            let now = call.find(linux::AT_FDCWD, &open.path).ok().filter(|found| found.1.inode == open.inode);
            Ok(now.map_or_else(|| Status::of_open(open), |found| Status::of(found.1)))
        }
        _ => Ok(Status::of_open(open)),
    }
}

/// What a call of the family means by (directory, path, flags).
fn status<M: Machine>(call: &Call<'_, M>, directory: i32, path: u64, flags: u32) -> Result<Status, Errno> {
    let path = if path == 0 && flags & linux::AT_EMPTY_PATH != 0 { Vec::new() } else { call.path(path)? };
    if path.is_empty() && flags & linux::AT_EMPTY_PATH != 0 {
        if directory == linux::AT_FDCWD {
            return call.find(directory, b".").map(|(_, entry)| Status::of(entry));
        }
        return open_status(call, &*call.description(directory)?);
    }
    if flags & linux::AT_SYMLINK_NOFOLLOW != 0 {
        let entry = call.walk(directory, &path)?.entry.ok_or(Errno(errno::ENOENT))?;
        return Ok(Status::of(entry));
    }
    let (_, entry) = call.find(directory, &path)?;
    match entry.node {
        Node::Descriptor(fd) => {
            let open = call.description(fd).map_err(|_| Errno(errno::ENOENT))?;
            open_status(call, &open)
        }
        _ => Ok(Status::of(entry)),
    }
}

pub fn stat<M: Machine>(call: &mut Call<'_, M>, path: u64, buffer: u64) -> Answer {
    newfstatat(call, linux::AT_FDCWD, path, buffer, 0)
}

pub fn lstat<M: Machine>(call: &mut Call<'_, M>, path: u64, buffer: u64) -> Answer {
    newfstatat(call, linux::AT_FDCWD, path, buffer, linux::AT_SYMLINK_NOFOLLOW)
}

pub fn fstat<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64) -> Answer {
    let status = open_status(call, &*call.description(fd)?)?;
    call.write(buffer, &status.stat())?;
    Ok(0)
}

const STAT_FLAGS: u32 = linux::AT_EMPTY_PATH | linux::AT_SYMLINK_NOFOLLOW | linux::AT_NO_AUTOMOUNT;

pub fn newfstatat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, buffer: u64, flags: u32) -> Answer {
    if flags & !STAT_FLAGS != 0 {
        return call.refuse("newfstatat flags", u64::from(flags), errno::EINVAL);
    }
    let status = status(call, directory, path, flags)?;
    call.write(buffer, &status.stat())?;
    Ok(0)
}

/// All that is asked for is always known, and nothing is known better by asking again.
pub fn statx<M: Machine>(
    call: &mut Call<'_, M>,
    directory: i32,
    path: u64,
    flags: u32,
    _mask: u32,
    buffer: u64,
) -> Answer {
    if flags & !(STAT_FLAGS | linux::AT_STATX_SYNC_TYPE) != 0 {
        return call.refuse("statx flags", u64::from(flags), errno::EINVAL);
    }
    let status = status(call, directory, path, flags)?;
    call.write(buffer, &status.statx())?;
    Ok(0)
}

pub fn access<M: Machine>(call: &mut Call<'_, M>, path: u64, mode: u32) -> Answer {
    faccessat2(call, linux::AT_FDCWD, path, mode, 0)
}

pub fn faccessat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, mode: u32) -> Answer {
    faccessat2(call, directory, path, mode, 0)
}

pub fn faccessat2<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, mode: u32, flags: u32) -> Answer {
    if mode & !(linux::R_OK | linux::W_OK | linux::X_OK) != 0 {
        return fail(errno::EINVAL);
    }
    if flags & !(linux::AT_EACCESS | linux::AT_SYMLINK_NOFOLLOW | linux::AT_EMPTY_PATH) != 0 {
        return call.refuse("faccessat2 flags", u64::from(flags), errno::EINVAL);
    }
    let status = status(call, directory, path, flags)?;
    if matches!(status.mode & linux::S_IFMT, linux::S_IFREG | linux::S_IFDIR) {
        let known = Mode { bits: status.mode, owner: status.owner.into(), mtime: 0 };
        return if known.allows(call.process.user, mode) { Ok(0) } else { fail(errno::EACCES) };
    }
    if mode & linux::X_OK != 0 && status.mode & 0o111 == 0 {
        return fail(errno::EACCES);
    }
    Ok(0)
}

pub fn statfs<M: Machine>(call: &mut Call<'_, M>, path: u64, buffer: u64) -> Answer {
    let path = call.path(path)?;
    call.find(linux::AT_FDCWD, &path)?;
    write_statfs(call, buffer)
}

pub fn fstatfs<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64) -> Answer {
    call.description(fd)?;
    write_statfs(call, buffer)
}

fn write_statfs<M: Machine>(call: &Call<'_, M>, buffer: u64) -> Answer {
    let memory = call.machine().memory();
    let bytes = record!(linux::statfs {
        f_type: MAGIC,
        f_bsize: BLOCK as i64,
        f_blocks: (memory.total / BLOCK) as i64,
        f_bfree: (memory.free / BLOCK) as i64,
        f_bavail: (memory.free / BLOCK) as i64,
        f_namelen: crate::tree::NAME_MAX as i64,
        f_frsize: BLOCK as i64,
        f_flags: ST_FLAGS,
    });
    call.write(buffer, &bytes)?;
    Ok(0)
}

#[cfg(test)]
mod tests;

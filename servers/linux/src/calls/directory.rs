//! Directories and names. There are no links but one name for each file.

use alloc::vec::Vec;
use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, errno, fail};
use crate::calls::file::parent_inode;
use crate::descriptors::Object;
use crate::machine::{Clock, Machine};
use crate::process::Call;
use crate::tree::{Entry, Node};

const HERE: i32 = linux::AT_FDCWD;

pub fn getcwd<M: Machine>(call: &mut Call<'_, M>, buffer: u64, len: u64) -> Answer {
    let mut path = call.process.directory.lock().clone();
    path.push(0);
    if len < path.len() as u64 {
        return fail(errno::ERANGE);
    }
    call.write(buffer, &path)?;
    Ok(path.len() as u64)
}

pub fn chdir<M: Machine>(call: &mut Call<'_, M>, path: u64) -> Answer {
    let path = call.path(path)?;
    let (path, entry) = call.find(HERE, &path)?;
    if entry.node != Node::Directory {
        return fail(errno::ENOTDIR);
    }
    *call.process.directory.lock() = path;
    Ok(0)
}

pub fn fchdir<M: Machine>(call: &mut Call<'_, M>, fd: i32) -> Answer {
    let open = call.description(fd)?;
    if !matches!(open.object, Object::Directory(_)) {
        return fail(errno::ENOTDIR);
    }
    *call.process.directory.lock() = open.path.clone();
    Ok(0)
}

pub fn readlink<M: Machine>(call: &mut Call<'_, M>, path: u64, buffer: u64, len: i64) -> Answer {
    readlinkat(call, HERE, path, buffer, len)
}

pub fn readlinkat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, buffer: u64, len: i64) -> Answer {
    let len = usize::try_from(len).ok().filter(|&len| len > 0).ok_or(Errno(errno::EINVAL))?;
    let path = call.path(path)?;
    let target = match call.walk(directory, &path)?.entry.ok_or(Errno(errno::ENOENT))?.node {
        Node::Program => call.process.program.lock().path.clone(),
        Node::Descriptor(fd) => {
            let open = call.description(fd).map_err(|_| Errno(errno::ENOENT))?;
            if open.path.is_empty() { b"pipe:[0]".to_vec() } else { open.path.clone() }
        }
        _ => return fail(errno::EINVAL),
    };
    let cut = &target[..target.len().min(len)];
    call.write(buffer, cut)?;
    Ok(cut.len() as u64)
}

/// The type of a node in a directory.
fn kind(node: Node) -> u8 {
    (match node {
        Node::Directory => linux::DT_DIR,
        Node::File(_) => linux::DT_REG,
        Node::Device(_) => linux::DT_CHR,
        Node::Program | Node::Descriptor(_) => linux::DT_LNK,
    }) as u8
}

/// A `struct linux_dirent64`: its length is a multiple of 8. `next` is the position after it.
#[must_use]
pub fn directory_entry(entry: Entry, next: u64, name: &[u8]) -> alloc::vec::Vec<u8> {
    let fixed = core::mem::offset_of!(linux::linux_dirent64, d_name);
    let len = (fixed + name.len() + 1).next_multiple_of(8);
    let mut bytes = alloc::vec![0; len];
    bytes[..8].copy_from_slice(&entry.inode.to_le_bytes());
    bytes[8..16].copy_from_slice(&next.to_le_bytes());
    bytes[core::mem::offset_of!(linux::linux_dirent64, d_reclen)..][..2].copy_from_slice(&(len as u16).to_le_bytes());
    bytes[core::mem::offset_of!(linux::linux_dirent64, d_type)] = kind(entry.node);
    bytes[fixed..fixed + name.len()].copy_from_slice(name);
    bytes
}

pub fn getdents64<M: Machine>(call: &mut Call<'_, M>, fd: i32, buffer: u64, len: u32) -> Answer {
    let open = call.description(fd)?;
    let Object::Directory(names) = &open.object else { return fail(errno::ENOTDIR) };
    let mut position = open.position.lock();
    let dot = Entry::own(open.inode, Node::Directory);
    let dot_dot = Entry::own(parent_inode(call, &open.path), Node::Directory);
    let own: [(&[u8], Entry); 2] = [(b".", dot), (b"..", dot_dot)];
    let all = own.into_iter().chain(names.iter().map(|n| (n.name.as_slice(), n.entry)));
    let mut bytes = alloc::vec::Vec::new();
    let mut next = *position;
    for (name, entry) in all.skip(usize::try_from(*position).unwrap_or(usize::MAX)) {
        let record = directory_entry(entry, next + 1, name);
        if bytes.len() + record.len() > len as usize {
            if bytes.is_empty() {
                return fail(errno::EINVAL);
            }
            break;
        }
        bytes.extend_from_slice(&record);
        next += 1;
    }
    call.write(buffer, &bytes)?;
    *position = next;
    Ok(bytes.len() as u64)
}

/// The path of a name that is to be made; this server's own names are there already, and no others are made below them.
fn new<M: Machine>(call: &Call<'_, M>, directory: i32, path: u64) -> Result<Vec<u8>, Errno> {
    let place = call.walk(directory, &call.path(path)?)?;
    match place.entry {
        Some(_) => fail(errno::EEXIST),
        None if call.process.tree.owns(&place.path) => fail(errno::EROFS),
        None => Ok(place.path),
    }
}

/// What a path leads to that is to be changed, and is not this server's own.
fn old<M: Machine>(call: &Call<'_, M>, directory: i32, path: &[u8]) -> Result<(Vec<u8>, Entry), Errno> {
    let place = call.walk(directory, path)?;
    let entry = place.entry.ok_or(Errno(errno::ENOENT))?;
    if call.process.tree.owns(&place.path) { fail(errno::EROFS) } else { Ok((place.path, entry)) }
}

/// The same for a path in the program's memory.
fn named<M: Machine>(call: &Call<'_, M>, directory: i32, path: u64) -> Result<(Vec<u8>, Entry), Errno> {
    old(call, directory, &call.path(path)?)
}

/// What an open file or directory has as its name: the file server knows modes and times by names. `ENOENT` if another has that name by now.
fn opened<M: Machine>(call: &Call<'_, M>, fd: i32) -> Result<(Vec<u8>, Entry), Errno> {
    let open = call.description(fd)?;
    let (path, entry) = old(call, HERE, &open.path)?;
    if entry.inode == open.inode { Ok((path, entry)) } else { fail(errno::ENOENT) }
}

fn done(outcome: Result<(), abi::Error>) -> Answer {
    Ok(outcome.map(|()| 0).map_err(Errno::of_file)?)
}

pub fn rename<M: Machine>(call: &mut Call<'_, M>, from: u64, to: u64) -> Answer {
    renameat2(call, HERE, from, HERE, to, 0)
}

pub fn renameat<M: Machine>(call: &mut Call<'_, M>, directory: i32, from: u64, to_directory: i32, to: u64) -> Answer {
    renameat2(call, directory, from, to_directory, to, 0)
}

pub fn renameat2<M: Machine>(
    call: &mut Call<'_, M>,
    directory: i32,
    from: u64,
    to_directory: i32,
    to: u64,
    flags: u32,
) -> Answer {
    if flags & !linux::RENAME_NOREPLACE != 0 {
        return call.refuse("renameat2 flags", flags.into(), errno::EINVAL);
    }
    let (from, _) = named(call, directory, from)?;
    let to = call.walk(to_directory, &call.path(to)?)?;
    if to.entry.is_some() && flags & linux::RENAME_NOREPLACE != 0 {
        return fail(errno::EEXIST);
    }
    if call.process.tree.owns(&to.path) {
        return fail(errno::EROFS);
    }
    done(call.machine().file_rename(&from, &to.path))
}

pub fn mkdir<M: Machine>(call: &mut Call<'_, M>, path: u64, mode: u32) -> Answer {
    mkdirat(call, HERE, path, mode)
}

pub fn mkdirat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, mode: u32) -> Answer {
    let path = new(call, directory, path)?;
    let mode = mode & !*call.process.umask.lock();
    done(call.machine().directory_make(&path, mode & 0o777))
}

pub fn rmdir<M: Machine>(call: &mut Call<'_, M>, path: u64) -> Answer {
    unlinkat(call, HERE, path, linux::AT_REMOVEDIR)
}

pub fn link<M: Machine>(call: &mut Call<'_, M>, from: u64, to: u64) -> Answer {
    linkat(call, HERE, from, HERE, to, 0)
}

/// A file has one name.
pub fn linkat<M: Machine>(
    call: &mut Call<'_, M>,
    from_directory: i32,
    from: u64,
    directory: i32,
    to: u64,
    _flags: u32,
) -> Answer {
    named(call, from_directory, from)?;
    new(call, directory, to)?;
    fail(errno::EPERM)
}

pub fn unlink<M: Machine>(call: &mut Call<'_, M>, path: u64) -> Answer {
    unlinkat(call, HERE, path, 0)
}

pub fn unlinkat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, flags: u32) -> Answer {
    if flags & !linux::AT_REMOVEDIR != 0 {
        return call.refuse("unlinkat flags", flags.into(), errno::EINVAL);
    }
    let asked = call.path(path)?;
    if flags & linux::AT_REMOVEDIR == 0 {
        return done(call.machine().file_remove(&old(call, directory, &asked)?.0));
    }
    match asked.rsplit(|&c| c == b'/').next() {
        Some(b".") => fail(errno::EINVAL),
        Some(b"..") => fail(errno::ENOTEMPTY),
        _ => done(call.machine().directory_remove(&old(call, directory, &asked)?.0)),
    }
}

pub fn symlink<M: Machine>(call: &mut Call<'_, M>, target: u64, path: u64) -> Answer {
    symlinkat(call, target, HERE, path)
}

/// The file server has no symbolic links.
pub fn symlinkat<M: Machine>(call: &mut Call<'_, M>, _target: u64, directory: i32, path: u64) -> Answer {
    new(call, directory, path)?;
    fail(errno::EPERM)
}

pub fn chmod<M: Machine>(call: &mut Call<'_, M>, path: u64, mode: u32) -> Answer {
    fchmodat(call, HERE, path, mode)
}

pub fn fchmodat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, mode: u32) -> Answer {
    let found = named(call, directory, path)?;
    set_mode(call, &found, mode)
}

pub fn fchmod<M: Machine>(call: &mut Call<'_, M>, fd: i32, mode: u32) -> Answer {
    let found = opened(call, fd)?;
    set_mode(call, &found, mode)
}

fn set_mode<M: Machine>(call: &Call<'_, M>, (path, entry): &(Vec<u8>, Entry), mode: u32) -> Answer {
    may_own(call, entry)?;
    done(call.machine().file_set_mode(path, mode & 0o777))
}

/// What only the owner may do.
fn may_own<M: Machine>(call: &Call<'_, M>, entry: &Entry) -> Result<(), Errno> {
    let own = [entry.mode.owner, abi::task::USER_SYSTEM].contains(&call.process.user);
    if own { Ok(()) } else { fail(errno::EPERM) }
}

pub fn chown<M: Machine>(call: &mut Call<'_, M>, path: u64, user: u32, group: u32) -> Answer {
    fchownat(call, HERE, path, user, group, 0)
}

pub fn fchownat<M: Machine>(
    call: &mut Call<'_, M>,
    directory: i32,
    path: u64,
    user: u32,
    _group: u32,
    _flags: u32,
) -> Answer {
    let (_, entry) = named(call, directory, path)?;
    set_owner(call, &entry, user)
}

pub fn fchown<M: Machine>(call: &mut Call<'_, M>, fd: i32, user: u32, _group: u32) -> Answer {
    let (_, entry) = opened(call, fd)?;
    set_owner(call, &entry, user)
}

/// Files stay with whoever made them: only what changes nothing is done.
fn set_owner<M: Machine>(call: &Call<'_, M>, entry: &Entry, user: u32) -> Answer {
    may_own(call, entry)?;
    if [u64::from(u32::MAX), entry.mode.owner].contains(&user.into()) { Ok(0) } else { fail(errno::EPERM) }
}

/// Files keep the time of their last change only, in seconds.
pub fn utimensat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, times: u64, _flags: u32) -> Answer {
    let path = match path {
        0 => opened(call, directory)?.0,
        _ => named(call, directory, path)?.0,
    };
    let now = call.machine().clock(Clock::Since1970) / 1_000_000_000;
    let seconds = match times {
        0 => now,
        // The second of two `struct timespec`, each of two words.
        _ => {
            let word = |at: u64| times.checked_add(at).ok_or(Errno(errno::EFAULT)).and_then(|at| call.read_word(at));
            match (word(16)?, word(24)?) {
                (_, nanoseconds) if nanoseconds == u64::from(linux::UTIME_OMIT) => return Ok(0),
                (_, nanoseconds) if nanoseconds == u64::from(linux::UTIME_NOW) => now,
                (_, nanoseconds) if nanoseconds >= 1_000_000_000 => return fail(errno::EINVAL),
                (seconds, _) => seconds,
            }
        }
    };
    done(call.machine().file_set_time(&path, seconds as i64))
}

//! Directories and names. Files are read only as yet, so what would change one says `EROFS`, after the checks that Linux
//! makes first.

use linux_raw_sys::general as linux;

use crate::answer::{Answer, Errno, errno, fail};
use crate::calls::file::parent_inode;
use crate::descriptors::Object;
use crate::machine::Machine;
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
    let dot = Entry { inode: open.inode, node: Node::Directory };
    let dot_dot = Entry { inode: parent_inode(&call.process.tree, &open.path), node: Node::Directory };
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

/// What is there would be changed or removed.
fn change<M: Machine>(call: &Call<'_, M>, directory: i32, path: u64) -> Answer {
    let path = call.path(path)?;
    call.find(directory, &path)?;
    fail(errno::EROFS)
}

/// Something would be made that is not there.
fn make<M: Machine>(call: &Call<'_, M>, directory: i32, path: u64) -> Answer {
    let path = call.path(path)?;
    match call.walk(directory, &path)?.entry {
        Some(_) => fail(errno::EEXIST),
        None => fail(errno::EROFS),
    }
}

pub fn rename<M: Machine>(call: &mut Call<'_, M>, from: u64, _to: u64) -> Answer {
    change(call, HERE, from)
}

pub fn renameat<M: Machine>(call: &mut Call<'_, M>, directory: i32, from: u64, _to_directory: i32, _to: u64) -> Answer {
    change(call, directory, from)
}

pub fn renameat2<M: Machine>(
    call: &mut Call<'_, M>,
    directory: i32,
    from: u64,
    _to_directory: i32,
    _to: u64,
    _flags: u32,
) -> Answer {
    change(call, directory, from)
}

pub fn mkdir<M: Machine>(call: &mut Call<'_, M>, path: u64, _mode: u32) -> Answer {
    make(call, HERE, path)
}

pub fn mkdirat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, _mode: u32) -> Answer {
    make(call, directory, path)
}

pub fn rmdir<M: Machine>(call: &mut Call<'_, M>, path: u64) -> Answer {
    change(call, HERE, path)
}

pub fn link<M: Machine>(call: &mut Call<'_, M>, _from: u64, to: u64) -> Answer {
    make(call, HERE, to)
}

pub fn linkat<M: Machine>(
    call: &mut Call<'_, M>,
    _from_directory: i32,
    _from: u64,
    directory: i32,
    to: u64,
    _flags: u32,
) -> Answer {
    make(call, directory, to)
}

pub fn unlink<M: Machine>(call: &mut Call<'_, M>, path: u64) -> Answer {
    change(call, HERE, path)
}

pub fn unlinkat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, _flags: u32) -> Answer {
    change(call, directory, path)
}

pub fn symlink<M: Machine>(call: &mut Call<'_, M>, _target: u64, path: u64) -> Answer {
    make(call, HERE, path)
}

pub fn symlinkat<M: Machine>(call: &mut Call<'_, M>, _target: u64, directory: i32, path: u64) -> Answer {
    make(call, directory, path)
}

pub fn chmod<M: Machine>(call: &mut Call<'_, M>, path: u64, _mode: u32) -> Answer {
    change(call, HERE, path)
}

pub fn fchmodat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, _mode: u32) -> Answer {
    change(call, directory, path)
}

pub fn chown<M: Machine>(call: &mut Call<'_, M>, path: u64, _user: u32, _group: u32) -> Answer {
    change(call, HERE, path)
}

pub fn fchownat<M: Machine>(
    call: &mut Call<'_, M>,
    directory: i32,
    path: u64,
    _user: u32,
    _group: u32,
    _flags: u32,
) -> Answer {
    change(call, directory, path)
}

pub fn utimensat<M: Machine>(call: &mut Call<'_, M>, directory: i32, path: u64, _times: u64, _flags: u32) -> Answer {
    if path == 0 {
        call.description(directory)?;
        return fail(errno::EROFS);
    }
    change(call, directory, path)
}

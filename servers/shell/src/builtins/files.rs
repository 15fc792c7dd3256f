//! Files: what there is, and what is in them.

use super::table::Table;
use super::{misused, text};
use crate::io::Io;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::files::{File, is_directory};
use musubi::interfaces::files::{FileInfo, how};
use musubi::{Error, files, why};

/// Bytes copied at a time.
const PART: usize = 64 << 10;

/// Says what has gone wrong. Value: 1.
fn failed(io: &Io, command: &[u8], path: &[u8], error: Error) -> i32 {
    io.complain(text(command), format_args!("{}: {}", path.escape_ascii(), why(error)));
    1
}

/// Does something to each path. Value: 1 if any of it failed.
fn each(words: &[Vec<u8>], io: &Io, mut what: impl FnMut(&[u8]) -> Result<(), Error>) -> i32 {
    let Some((command, paths)) = words.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return misused(words, io);
    };
    paths.iter().fold(0, |status, path| match what(path) {
        Ok(()) => status,
        Err(error) => failed(io, command, path, error),
    })
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// `drwxr-xr-x`, with the person's three letters and everybody's.
fn mode(info: &FileInfo) -> String {
    let kind = if is_directory(info) { 'd' } else { '-' };
    let letters = |bits: u64| {
        ["r", "w", "x"].iter().enumerate().map(move |(i, l)| if bits >> (2 - i) & 1 == 1 { *l } else { "-" })
    };
    core::iter::once(kind).chain(letters(info.mode >> 6).chain(letters(info.mode)).flat_map(str::chars)).collect()
}

pub fn ls(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let path: &[u8] = words.get(1).map_or(b"/", |w| w);
    let all = files::find(path).and_then(|info| match is_directory(&info) {
        false => Ok(Vec::from([(path.to_vec(), info)])),
        true => {
            let names = files::list(path)?.into_iter();
            // What went away meanwhile is not there.
            Ok(names.filter_map(|n| Some((n.name.clone(), files::find(&joined(path, &n.name)).ok()?))).collect())
        }
    });
    let all: Vec<(Vec<u8>, FileInfo)> = match all {
        Ok(all) => all,
        Err(error) => return failed(io, b"ls", path, error),
    };
    let mut table = Table::new(&["mode", "length", "section", "name"], &[1]);
    for (name, file) in &all {
        let name = String::from_utf8_lossy(name).into_owned();
        table.row([mode(file), format!("{}", file.len), format!("{:#x}", file.section), name]);
    }
    table.print(io);
    0
}

/// Copies a file to wherever `write` puts it. Its length counts as it is when it is opened.
fn copy(path: &[u8], mut write: impl FnMut(u64, &[u8]) -> Result<(), Error>) -> Result<FileInfo, Error> {
    let (file, info) = File::open(path, how::READ)?;
    let mut part = alloc::vec![0; PART];
    let mut at = 0;
    while at < info.len {
        let most = usize::try_from(info.len - at).unwrap_or(PART).min(PART);
        match file.read(at, &mut part[..most])? {
            0 => break,
            n => {
                write(at, &part[..n])?;
                at += n as u64;
            }
        }
    }
    Ok(info)
}

pub fn cat(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut status = 0;
    let input = [b"-".to_vec()];
    let paths = if words.len() == 1 { &input[..] } else { &words[1..] };
    for path in paths {
        let done = if path == b"-" {
            io.read_all(|io, bytes| io.write(bytes)).map_err(|e| (&b"input"[..], e))
        } else {
            copy(path, |_, bytes| io.write(bytes)).map(drop).map_err(|e| (&path[..], e))
        };
        if let Err((name, error)) = done {
            status = failed(io, b"cat", name, error);
        }
    }
    status
}

/// Where something goes that is to have the name, or lie in the directory, `target`.
fn place(from: &[u8], target: &[u8]) -> Vec<u8> {
    let from = from.strip_suffix(b"/").unwrap_or(from);
    let name = from.rsplit(|&b| b == b'/').next().unwrap_or(from);
    match files::find(target) {
        Ok(info) if is_directory(&info) => joined(target.strip_suffix(b"/").unwrap_or(target), name),
        _ => target.to_vec(),
    }
}

/// For `cp` and `mv`: several need a directory to go to.
fn to_target(words: &[Vec<u8>], io: &Io, what: impl Fn(&[u8], &[u8]) -> Result<(), Error>) -> i32 {
    let [command, paths @ .., target] = words else { return misused(words, io) };
    if paths.is_empty() {
        return misused(words, io);
    }
    if paths.len() > 1 && !files::find(target).is_ok_and(|info| is_directory(&info)) {
        return failed(io, command, target, Error::NotADirectory);
    }
    paths.iter().fold(0, |status, path| match what(path, &place(path, target)) {
        Ok(()) => status,
        Err(error) => failed(io, command, path, error),
    })
}

pub fn cp(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    to_target(words, io, |from, to| {
        let info = files::find(from)?;
        if is_directory(&info) {
            return Err(Error::IsADirectory);
        }
        if files::find(to).is_ok_and(|target| target.number == info.number) {
            return Err(Error::Exists);
        }
        let (file, _) = File::open(to, how::WRITE | how::CREATE | how::EMPTY | how::mode(info.mode))?;
        copy(from, |at, bytes| file.write_all(at, bytes)).map(drop)
    })
}

pub fn mv(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    to_target(words, io, |from, to| files::rename(from, to))
}

pub fn mkdir(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    each(words, io, |path| files::make_directory(path, 0o755))
}

pub fn rmdir(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    each(words, io, files::remove_directory)
}

pub fn rm(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let deep = words.get(1).is_some_and(|word| word == b"-r");
    let mut words = words.to_vec();
    if deep {
        words.remove(1);
    }
    each(&words, io, |path| match files::remove(path) {
        Err(Error::IsADirectory) if deep => remove_all(path),
        other => other,
    })
}

/// A directory with all that is in it, from the inside outwards.
fn remove_all(path: &[u8]) -> Result<(), Error> {
    let mut below = files::tree(path);
    below.sort_unstable_by_key(|path| core::cmp::Reverse(path.len()));
    for name in below {
        let at = joined(path, &name);
        match files::remove(&at) {
            Err(Error::IsADirectory) => files::remove_directory(&at)?,
            other => other?,
        }
    }
    files::remove_directory(path)
}

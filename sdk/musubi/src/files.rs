//! Files: sections with names. Reading needs no call once it is known where a file lies.

use alloc::vec::Vec;
use interfaces::files::{DIRECTORY, END, ENTRY, FileInfo, FilesService, RECORD, how};
use rt::abi::start::StreamRef;
use rt::{Error, Once, Rights};
use zerocopy::{FromBytes, FromZeros};

pub use interfaces::files::{NAME_MAX, PATH_MAX};

/// Most bytes passed in one call: two calls fit into the argument section, with their paths.
const PART: usize = 64 << 10;
const ARGS: u64 = 256 << 10;

static CLIENT: Once<FilesService> = Once::new();

fn client() -> Result<&'static FilesService, Error> {
    CLIENT.get_or_try(|| Ok(FilesService::new_with_args(crate::names::server("files")?, ARGS)))
}

fn record(bytes: &[u8; RECORD]) -> FileInfo {
    FileInfo::read_from_bytes(bytes).unwrap_or_else(|_| FileInfo::new_zeroed())
}

/// What a path leads to.
///
/// # Errors
/// `NotFound`; what the server answers.
pub fn find(path: &[u8]) -> Result<FileInfo, Error> {
    let mut bytes = [0; RECORD];
    client()?.look(path, &mut bytes)?;
    Ok(record(&bytes))
}

/// What a path leads to for somebody.
///
/// # Errors
/// `NotFound`; `Denied` if he does not come there, or if another person asks; what the server answers.
pub fn find_for(user: u64, path: &[u8]) -> Result<FileInfo, Error> {
    let mut bytes = [0; RECORD];
    client()?.look_for(user, path, &mut bytes)?;
    Ok(record(&bytes))
}

/// Whether it is a directory.
#[must_use]
pub fn is_directory(info: &FileInfo) -> bool {
    info.mode & DIRECTORY != 0
}

/// A file's bytes, where they lie. They stay as long as nobody removes, cuts or writes the file; who depends on that opens it
/// ([`File`]).
///
/// # Errors
/// `NotFound`; a refusal if this program may not read it.
pub fn open(path: &[u8]) -> Result<&'static [u8], Error> {
    let file = find(path)?;
    if is_directory(&file) {
        return Err(Error::IsADirectory);
    }
    rt::section::view(file.section, file.len).ok_or_else(|| rt::section::why_not(file.section, Rights::READ))
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub name: Vec<u8>,
    pub number: u64,
    pub is_directory: bool,
}

/// What is in a directory, by name.
///
/// # Errors
/// What the server answers.
pub fn list(path: &[u8]) -> Result<Vec<Name>, Error> {
    let mut names: Vec<Name> = Vec::new();
    let mut part = alloc::vec![0; 8 << 10];
    loop {
        let after = names.last().map(|last| last.name.clone()).unwrap_or_default();
        let len = client()?.list(path, &after, &mut part)? as usize;
        let mut rest = part.get(..len).ok_or(Error::BadArgument)?;
        if rest.is_empty() {
            return Ok(names);
        }
        while let Some((head, after)) = rest.split_first_chunk::<ENTRY>() {
            let [number @ .., kind, len] = *head;
            let (name, after) = after.split_at_checked(usize::from(len)).ok_or(Error::BadArgument)?;
            names.push(Name { name: name.to_vec(), number: u64::from_le_bytes(number), is_directory: kind != 0 });
            rest = after;
        }
    }
}

/// All that is below a directory, by paths relative to it.
#[must_use]
pub fn tree(path: &[u8]) -> Vec<Vec<u8>> {
    let (mut found, mut open) = (Vec::new(), Vec::from([Vec::new()]));
    while let Some(below) = open.pop() {
        let at = [path, b"/", &below[..]].concat();
        for name in list(&at).unwrap_or_default() {
            let path = if below.is_empty() { name.name } else { [&below[..], b"/", &name.name].concat() };
            if name.is_directory {
                open.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

/// # Errors
/// What the server answers.
pub fn make_directory(path: &[u8], mode: u64) -> Result<(), Error> {
    client()?.make_directory(path, mode)
}

/// # Errors
/// What the server answers.
pub fn remove(path: &[u8]) -> Result<(), Error> {
    client()?.remove(path)
}

/// # Errors
/// What the server answers.
pub fn remove_directory(path: &[u8]) -> Result<(), Error> {
    client()?.remove_directory(path)
}

/// # Errors
/// What the server answers.
pub fn rename(from: &[u8], to: &[u8]) -> Result<(), Error> {
    client()?.rename(from, to)
}

/// # Errors
/// What the server answers.
pub fn set_mode(path: &[u8], mode: u64) -> Result<(), Error> {
    client()?.set_mode(path, mode)
}

/// # Errors
/// What the server answers.
pub fn set_time(path: &[u8], mtime: i64) -> Result<(), Error> {
    client()?.set_time(path, mtime)
}

/// Frames that this person's files take.
///
/// # Errors
/// What the server answers.
pub fn used() -> Result<u64, Error> {
    client()?.used()
}

/// An open file, until it is dropped.
#[derive(Debug)]
pub struct File {
    number: u64,
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = client().and_then(|client| client.close(self.number));
    }
}

impl File {
    /// Closes it, and says if that failed.
    ///
    /// # Errors
    /// What the server answers; or it could not be asked (a quota, no memory): then the file is still open ([`File::from_number`]).
    pub fn close(self) -> Result<(), Error> {
        let number = self.into_number();
        client()?.close(number)
    }

    /// Opens as `asked` (of `interfaces::files::how`).
    ///
    /// # Errors
    /// What the server answers.
    pub fn open(path: &[u8], asked: u64) -> Result<(File, FileInfo), Error> {
        let mut bytes = [0; RECORD];
        let number = client()?.open(path, asked, &mut bytes)?;
        Ok((File { number }, record(&bytes)))
    }

    /// Makes a file, or empties the one that is there.
    ///
    /// # Errors
    /// What the server answers.
    pub fn create(path: &[u8]) -> Result<File, Error> {
        let asked = how::WRITE | how::READ | how::CREATE | how::EMPTY | how::mode(0o644);
        File::open(path, asked).map(|(file, _)| file)
    }

    /// # Errors
    /// What the server answers.
    pub fn status(&self) -> Result<FileInfo, Error> {
        let mut bytes = [0; RECORD];
        client()?.status(self.number, &mut bytes)?;
        Ok(record(&bytes))
    }

    /// Reads some bytes at an offset. Value: how many; 0 at the end.
    ///
    /// # Errors
    /// What the server answers.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let len = buffer.len().min(PART);
        client()?.read(self.number, at, &mut buffer[..len]).map(|n| (n as usize).min(len))
    }

    /// Writes some bytes at an offset. Value: how many.
    ///
    /// # Errors
    /// What the server answers.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<usize, Error> {
        let len = bytes.len().min(PART);
        client()?.write(self.number, at, &bytes[..len]).map(|n| (n as usize).min(len))
    }

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// `Quota`, with a part written; what the server answers.
    pub fn write_all(&self, mut at: u64, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            let n = self.some(at, bytes)?;
            at += n as u64;
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Writes all bytes at the end.
    ///
    /// # Errors
    /// As [`File::write_all`].
    pub fn append(&self, mut bytes: &[u8]) -> Result<(), Error> {
        while !bytes.is_empty() {
            bytes = &bytes[self.some(END, bytes)?..];
        }
        Ok(())
    }

    /// Writes at least one of some bytes.
    fn some(&self, at: u64, bytes: &[u8]) -> Result<usize, Error> {
        self.write(at, bytes).and_then(|n| if n == 0 { Err(Error::Quota) } else { Ok(n) })
    }

    /// # Errors
    /// What the server answers.
    pub fn resize(&self, len: u64) -> Result<(), Error> {
        client()?.resize(self.number, len)
    }

    /// The file as a stream, which other programs can be given, until [`File`] is dropped or the stream closed.
    ///
    /// # Errors
    /// What the server answers.
    pub fn stream(&self) -> Result<StreamRef, Error> {
        Ok(StreamRef { gate: client()?.streams()?, id: self.number })
    }

    /// The same, for whoever closes the stream.
    ///
    /// # Errors
    /// What the server answers.
    pub fn into_stream(self) -> Result<StreamRef, Error> {
        let stream = self.stream()?;
        self.into_number();
        Ok(stream)
    }

    /// The server's number for it. It stays open.
    #[expect(clippy::must_use_candidate, reason = "who has the number already only wants it to stay open")]
    pub fn into_number(self) -> u64 {
        let number = self.number;
        core::mem::forget(self);
        number
    }

    /// What [`File::into_number`] was.
    #[must_use]
    pub fn from_number(number: u64) -> File {
        File { number }
    }
}

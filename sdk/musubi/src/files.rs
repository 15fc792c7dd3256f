//! Files: sections with names.

use alloc::vec::Vec;
use interfaces::files::{FileInfo, FilesClient, RECORD};
use rt::{Error, Once, Rights};
use zerocopy::{FromBytes, FromZeros};

/// Longest name of a file that is listed whole.
const NAME_MAX: usize = 256;

static CLIENT: Once<FilesClient> = Once::new();

fn client() -> Result<&'static FilesClient, Error> {
    CLIENT.get_or_try(|| FilesClient::bind_with_args(crate::names::lookup("files")?, 8192))
}

fn record(bytes: &[u8; RECORD]) -> FileInfo {
    FileInfo::read_from_bytes(bytes).unwrap_or_else(|_| FileInfo::new_zeroed())
}

/// Where a file is.
///
/// # Errors
/// `NotFound`; what the server answers.
pub fn find(path: &[u8]) -> Result<FileInfo, Error> {
    let mut bytes = [0; RECORD];
    client()?.lookup(path, &mut bytes)?;
    Ok(record(&bytes))
}

/// A file's bytes, where they lie.
///
/// # Errors
/// `NotFound`; a refusal if this program may not read it.
pub fn open(path: &[u8]) -> Result<&'static [u8], Error> {
    let file = find(path)?;
    rt::section::view(file.section, file.len).ok_or_else(|| rt::section::why_not(file.section, Rights::READ))
}

/// All files with their names.
///
/// # Errors
/// What the server answers.
pub fn list() -> Result<Vec<(Vec<u8>, FileInfo)>, Error> {
    let mut files = Vec::new();
    let (mut bytes, mut name) = ([0; RECORD], [0; NAME_MAX]);
    loop {
        match client()?.list(files.len() as u64, &mut bytes, &mut name) {
            Ok(len) => files.push((name[..(len as usize).min(NAME_MAX)].to_vec(), record(&bytes))),
            Err(Error::NotFound) => return Ok(files),
            Err(e) => return Err(e),
        }
    }
}

//! Paths and names: bytes. A path begins at the root whether or not it begins with a slash.

use abi::Error;

/// Longest name and longest path, in bytes.
pub const NAME_MAX: usize = 255;
pub const PATH_MAX: usize = 4096;

/// # Errors
/// `TooBig`, `BadArgument` (a NUL), `NotFound` (nothing at all).
pub fn check(path: &[u8]) -> Result<(), Error> {
    if path.is_empty() {
        return Err(Error::NotFound);
    }
    if path.len() > PATH_MAX || path.split(|&b| b == b'/').any(|name| name.len() > NAME_MAX) {
        return Err(Error::TooBig);
    }
    if path.contains(&0) { Err(Error::BadArgument) } else { Ok(()) }
}

/// A path as what comes before its last name, and that name: nothing, if a slash is the last.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    path.split_at(path.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1))
}

/// A path as what comes before its last name, that name, and whether a slash follows it.
///
/// # Errors
/// `BadArgument` if it ends with `.`, `..` or nothing, which can neither be made nor taken away.
pub fn last(path: &[u8]) -> Result<(&[u8], &[u8], bool), Error> {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    let (path, slash) = (&path[..end], end < path.len());
    let (before, name) = split(path);
    if matches!(name, b"" | b"." | b"..") { Err(Error::BadArgument) } else { Ok((before, name, slash)) }
}

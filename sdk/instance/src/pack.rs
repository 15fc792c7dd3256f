//! The members of the boot pack by name, and by where they lie.

use crate::manifest::Manifest;
use crate::placement::Known;
use musubi::abi::boot::flag;
use musubi::rt::section;

/// A member, as it is called there.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    pub number: usize,
    pub name: &'static [u8],
    /// By `--put`.
    pub is_put: bool,
    /// Base address; 0 for an empty file.
    pub section: u64,
    pub len: u64,
}

impl Member {
    /// What is in it, if this program may read that.
    #[must_use]
    pub fn bytes(&self) -> Option<&'static [u8]> {
        section::view(self.section, self.len)
    }

    /// As placements know it: by its own name, wherever somebody has moved its file.
    #[must_use]
    pub fn known(&self) -> Known<'static> {
        Known { name: base_name(self.name), is_put: self.is_put }
    }
}

impl Manifest {
    /// A member by its path.
    #[must_use]
    pub fn find(&self, path: &[u8]) -> Option<Member> {
        let exactly = |name: &[u8]| self.files.iter().position(|f| f.0 == name);
        let number = exactly(path).or_else(|| self.files.iter().position(|f| plain(f.0) == plain(path)))?;
        self.member(number)
    }

    /// The same by where it lies.
    #[must_use]
    pub fn at(&self, base: u64) -> Option<Member> {
        let number = self.files.iter().position(|f| f.1.section == base && base != 0)?;
        self.member(number)
    }

    /// The same by its number.
    #[must_use]
    pub fn member(&self, number: usize) -> Option<Member> {
        let (name, record) = self.files.get(number)?;
        let is_put = record.flags & u64::from(flag::PUT) != 0;
        Some(Member { number, name, is_put, section: record.section, len: record.len })
    }
}

/// A path without what says nothing where there is one directory.
fn plain(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
        path = rest;
    }
    path
}

/// What people call the program of a path.
#[must_use]
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_dots_and_slashes_say_nothing() {
        assert_eq!(plain(b"/./bin/x"), b"bin/x");
        assert_eq!(plain(b".hidden"), b".hidden");
    }

    #[test]
    fn a_program_is_called_by_the_last_part_of_its_path() {
        assert_eq!(base_name(b"bin/hello"), b"hello");
        assert_eq!(base_name(b"hello"), b"hello");
    }
}

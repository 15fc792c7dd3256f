//! Where the kernel takes locks.

use anyhow::{Context, Result, ensure};
use std::fmt;
use std::ops::Range;

/// Whose lock it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A post's.
    Post,
    Other,
}

impl Kind {
    const ALL: [(Self, &'static str); 2] = [(Self::Post, "post"), (Self::Other, "other")];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Addresses of all instructions of the functions that take a lock, wherever these were inlined. They change no other word with a
/// locked instruction, so such a one there is an attempt to take a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Locks(Vec<(Range<u64>, Kind)>);

impl Locks {
    /// Ranges of the same kind may overlap; none takes locks of two.
    pub fn new(mut ranges: Vec<(Range<u64>, Kind)>) -> Self {
        ranges.retain(|(range, _)| !range.is_empty());
        ranges.sort_unstable_by_key(|(range, _)| range.start);
        let mut apart: Vec<(Range<u64>, Kind)> = Vec::new();
        for (range, kind) in ranges {
            match apart.last_mut() {
                Some((last, same)) if *same == kind && range.start <= last.end => last.end = last.end.max(range.end),
                _ => apart.push((range, kind)),
            }
        }
        Self(apart)
    }

    /// Whose lock a locked instruction at this address is about to take.
    pub fn kind(&self, address: u64) -> Option<Kind> {
        let at = self.0.partition_point(|(range, _)| range.end <= address);
        self.0.get(at).filter(|(range, _)| range.contains(&address)).map(|(_, kind)| *kind)
    }

    /// Reads what was written.
    pub fn read(text: &str) -> Result<Self> {
        let ranges = text.lines().map(|line| range(line).with_context(|| format!("no range of addresses: {line}")));
        Ok(Self::new(ranges.collect::<Result<_>>()?))
    }
}

fn range(line: &str) -> Result<(Range<u64>, Kind)> {
    let mut words = line.split(' ');
    let mut word = || words.next().context("it ends early");
    let (start, end) = (u64::from_str_radix(word()?, 16)?, u64::from_str_radix(word()?, 16)?);
    let name = word()?;
    let (kind, _) = Kind::ALL.into_iter().find(|(_, known)| *known == name).context("no kind of lock")?;
    ensure!(words.next().is_none(), "it goes on after its end");
    Ok((start..end, kind))
}

impl fmt::Display for Locks {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|(range, kind)| writeln!(f, "{:x} {:x} {}", range.start, range.end, kind.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks() -> Locks {
        let post = [0x50..0x60, 0x10..0x20, 0x14..0x18, 0x70..0x70].map(|range| (range, Kind::Post));
        let other = [0x20..0x28, 0x28..0x30].map(|range| (range, Kind::Other));
        Locks::new([&post[..], &other[..]].concat())
    }

    #[test]
    fn addresses_are_found_in_their_ranges() {
        let of = |kind| (0..0x80).filter(|address| locks().kind(*address) == Some(kind)).collect::<Vec<u64>>();
        assert_eq!(of(Kind::Post), (0x10..0x20).chain(0x50..0x60).collect::<Vec<u64>>());
        assert_eq!(of(Kind::Other), (0x20..0x30).collect::<Vec<u64>>());
        assert_eq!(Locks::default().kind(0), None);
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Locks::read(&locks().to_string()).unwrap(), locks());
        assert_eq!(Locks::read("").unwrap(), Locks::default());
        for bad in ["10", "10 20", "10 x post", "10 20 mine", "10 20 post 30"] {
            assert!(Locks::read(bad).is_err(), "{bad}");
        }
    }
}

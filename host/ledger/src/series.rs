//! Which numbers there are: `CUBIX-64`, `SSS-U3`, `K1-M1`.

use std::fmt;

/// One of the four designs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum System {
    Cubix,
    Sss,
    Ninja,
    K1,
}

impl System {
    pub const ALL: [System; 4] = [System::Cubix, System::Sss, System::Ninja, System::K1];

    /// The word before the dash.
    pub fn prefix(self) -> &'static str {
        match self {
            System::Cubix => "CUBIX",
            System::Sss => "SSS",
            System::Ninja => "NINJA",
            System::K1 => "K1",
        }
    }

    /// What a person may type for it, in any case.
    pub fn parse(word: &str) -> Option<System> {
        match word.to_ascii_lowercase().as_str() {
            "cubix" => Some(System::Cubix),
            "sss" | "sss-core" => Some(System::Sss),
            "ninja" => Some(System::Ninja),
            "k1" => Some(System::K1),
            _ => None,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            System::Cubix => "Cubix",
            System::Sss => "SSS-CORE",
            System::Ninja => "NINJA",
            System::K1 => "K1",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Requirement,
    /// What the design left open, or a defect that it names.
    Unfinished,
    Measurement,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Requirement, Kind::Unfinished, Kind::Measurement];

    fn letter(self) -> &'static str {
        match self {
            Kind::Requirement => "",
            Kind::Unfinished => "U",
            Kind::Measurement => "M",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Kind::Requirement => "requirement",
            Kind::Unfinished => "unfinished",
            Kind::Measurement => "measurement",
        })
    }
}

/// All numbers of one kind of one system run from 1 to `last`.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    pub system: System,
    pub kind: Kind,
    pub last: u32,
}

const fn series(system: System, kind: Kind, last: u32) -> Series {
    Series { system, kind, last }
}

/// What must be in the ledger: no more and no less.
pub const SERIES: [Series; 12] = [
    series(System::Cubix, Kind::Requirement, 64),
    series(System::Cubix, Kind::Unfinished, 13),
    series(System::Cubix, Kind::Measurement, 7),
    series(System::Sss, Kind::Requirement, 121),
    series(System::Sss, Kind::Unfinished, 14),
    series(System::Sss, Kind::Measurement, 6),
    series(System::Ninja, Kind::Requirement, 39),
    series(System::Ninja, Kind::Unfinished, 8),
    series(System::Ninja, Kind::Measurement, 9),
    series(System::K1, Kind::Requirement, 50),
    series(System::K1, Kind::Unfinished, 12),
    series(System::K1, Kind::Measurement, 4),
];

/// `SSS-U3` is { Sss, Unfinished, 3 }. Sorts in the order of [`SERIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    pub system: System,
    pub kind: Kind,
    pub n: u32,
}

impl Number {
    /// Exactly the written form: no leading zeros, no other case.
    pub fn parse(text: &str) -> Option<Number> {
        let (prefix, rest) = text.split_once('-')?;
        let system = System::ALL.into_iter().find(|s| s.prefix() == prefix)?;
        let (kind, digits) = match rest.as_bytes().first()? {
            b'U' => (Kind::Unfinished, &rest[1..]),
            b'M' => (Kind::Measurement, &rest[1..]),
            _ => (Kind::Requirement, rest),
        };
        let number = Number { system, kind, n: digits.parse().ok()? };
        (number.to_string() == text).then_some(number)
    }

    pub fn expected() -> impl Iterator<Item = Number> {
        SERIES.into_iter().flat_map(|s| (1..=s.last).map(move |n| Number { system: s.system, kind: s.kind, n }))
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}-{}{}", self.system.prefix(), self.kind.letter(), self.n))
    }
}

//! Patterns: `*`, `?`, `[a-z]`. Within a part of a path they stand for other bytes than `/`, and not for a dot that it
//! begins with.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// What one byte of a name, or for a star any number of them, may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Byte(u8),
    Any,
    Star,
    /// One of these ranges, or none of them.
    Set {
        not: bool,
        ranges: Vec<(u8, u8)>,
    },
}

/// Reads a set behind its `[`. Value: the set and what follows; `None` if it has no end.
pub fn set(text: &[u8]) -> Option<(Part, &[u8])> {
    let not = matches!(text.first(), Some(b'!' | b'^'));
    let text = if not { &text[1..] } else { text };
    // A `]` right at the beginning is one of the set.
    let end = 1 + text.iter().skip(1).position(|&b| b == b']')?;
    let (mut inner, rest) = (&text[..end], &text[end + 1..]);
    if inner.iter().any(|b| b.is_ascii_whitespace() || b"/'\"\\$`;&|<>()".contains(b)) {
        return None;
    }
    let mut ranges = Vec::new();
    while let [first, after @ ..] = inner {
        (ranges, inner) = match after {
            [b'-', last, after @ ..] => ([ranges, Vec::from([(*first, *last)])].concat(), after),
            _ => ([ranges, Vec::from([(*first, *first)])].concat(), after),
        };
    }
    Some((Part::Set { not, ranges }, rest))
}

impl Part {
    fn takes(&self, byte: u8, begins: bool) -> bool {
        let free = byte != b'/' && !(begins && byte == b'.');
        match self {
            Part::Byte(own) => *own == byte,
            Part::Any | Part::Star => free,
            Part::Set { not, ranges } => free && ranges.iter().any(|r| (r.0..=r.1).contains(&byte)) != *not,
        }
    }
}

/// Whether the pattern stands for the whole name.
fn matches(pattern: &[Part], name: &[u8]) -> bool {
    let begins = |at: usize| at == 0 || name[at - 1] == b'/';
    let (mut p, mut n) = (0, 0);
    // The last star, and how far it reaches. Earlier ones need not be tried again: neither can pass a `/`.
    let mut star: Option<(usize, usize)> = None;
    loop {
        match pattern.get(p) {
            Some(Part::Star) => {
                if name.get(n) == Some(&b'.') && begins(n) {
                    return false;
                }
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some(part) if name.get(n).is_some_and(|&byte| part.takes(byte, begins(n))) => {
                (p, n) = (p + 1, n + 1);
                continue;
            }
            None if n == name.len() => return true,
            _ => {}
        }
        match star {
            Some((at, reach)) if name.get(reach).is_some_and(|&byte| byte != b'/') => {
                star = Some((at, reach + 1));
                (p, n) = (at + 1, reach + 1);
            }
            _ => return false,
        }
    }
}

/// A path without what says nothing where there is one directory to start from.
fn plain(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./").or_else(|| path.strip_prefix(b"/")) {
        path = rest;
    }
    path
}

/// The paths that a pattern stands for, in order, written as the pattern begins. Files have paths; the folders are those
/// that they name.
pub fn expand<'a>(pattern: &[Part], files: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut paths: BTreeSet<&[u8]> = BTreeSet::new();
    for file in files.map(plain) {
        paths.insert(file);
        paths.extend(file.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| &file[..at]));
    }
    let literal: Vec<u8> = pattern.iter().map_while(|p| if let Part::Byte(b) = p { Some(*b) } else { None }).collect();
    let lead = literal.len() - plain(&literal).len();
    let found = paths.into_iter().filter(|path| matches(&pattern[lead..], path));
    found.map(|path| [&literal[..lead], path].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn parts(mut text: &[u8]) -> Vec<Part> {
        let mut out = Vec::new();
        while let Some((&byte, rest)) = text.split_first() {
            let (part, rest) = match byte {
                b'*' => (Part::Star, rest),
                b'?' => (Part::Any, rest),
                b'[' => set(rest).unwrap_or((Part::Byte(byte), rest)),
                _ => (Part::Byte(byte), rest),
            };
            out.push(part);
            text = rest;
        }
        out
    }

    #[test]
    fn whole_names() {
        let is = |pattern: &str, name: &str| matches(&parts(pattern.as_bytes()), name.as_bytes());
        for (pattern, name) in [
            ("*", "notes"),
            ("*", ""),
            ("n*s", "notes"),
            ("*t*e*", "notes"),
            ("?ot[a-f]s", "notes"),
            ("[!a-m]*", "notes"),
            ("bin/*", "bin/hello"),
            ("*/*", "bin/hello"),
            ("*o*/h*o", "foo/hello"),
            (".*", ".hidden"),
            ("a/.*", "a/.x"),
            ("[]]", "]"),
            ("**a", "baa"),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("*", "bin/hello"),
            ("*", ".hidden"),
            ("?hidden", ".hidden"),
            ("[.]hidden", ".hidden"),
            ("a/*", "a/.x"),
            ("?", "/"),
            ("n*x", "notes"),
            ("*a*b", "xbxa"),
            ("no", "notes"),
            ("[a-m]*", "notes"),
            ("b*o", "bin/hello"),
        ] {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn paths_are_written_as_the_pattern_begins() {
        let files = ["bin/hello", "bin/spin", "/etc/passwd", "notes", ".hidden"];
        let all = |pattern: &str| -> Vec<String> {
            let found = expand(&parts(pattern.as_bytes()), files.iter().map(|f| f.as_bytes()));
            found.into_iter().map(|path| String::from_utf8(path).unwrap()).collect()
        };
        assert_eq!(all("*"), ["bin", "etc", "notes"]);
        assert_eq!(all("bin/*i*"), ["bin/spin"]);
        assert_eq!(all("/*/p*"), ["/etc/passwd"]);
        assert_eq!(all("./b??"), ["./bin"]);
        assert_eq!(all("x*"), [""; 0]);
    }

    #[test]
    fn sets_end() {
        assert!(set(b"abc").is_none() && set(b"").is_none() && set(b"!").is_none() && set(b"a b]").is_none());
        let (part, rest) = set(b"^a-cx]y").unwrap();
        assert_eq!(part, Part::Set { not: true, ranges: Vec::from([(b'a', b'c'), (b'x', b'x')]) });
        assert_eq!(rest, b"y");
    }
}

//! The commands that every shell has.

use super::{misused, number, text};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::vec::Vec;
use musubi::rt::time;

pub fn echo(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let silent_end = words.get(1).is_some_and(|w| w == b"-n");
    let mut line = words[1 + usize::from(silent_end)..].join(&b' ');
    if !silent_end {
        line.push(b'\n');
    }
    i32::from(io.write(&line).is_err())
}

pub fn env(shell: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    for mut entry in shell.environment() {
        entry.push(b'\n');
        let _ = io.write(&entry);
    }
    0
}

pub fn history(shell: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    for (i, line) in shell.history.iter().enumerate() {
        say!(io, "{:4}  {line}", i + 1);
    }
    0
}

pub fn exit(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let status = match words {
        [_] => shell.status,
        [_, word] => match number(word) {
            Some(n) => (n & 0xff) as i32,
            None => return misused(words, io),
        },
        _ => return misused(words, io),
    };
    shell.leaving = Some(status);
    status
}

/// Seconds with up to nine decimals, in nanoseconds.
fn seconds(word: &str) -> Option<u64> {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    if part.len() > 9 || (whole.is_empty() && part.is_empty()) || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? * 10u64.pow(9 - part.len() as u32) };
    whole.checked_mul(1_000_000_000)?.checked_add(part)
}

pub fn sleep(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    match words {
        [_, word] => match seconds(text(word)) {
            Some(ns) => {
                time::sleep_ns(ns);
                0
            }
            None => misused(words, io),
        },
        _ => misused(words, io),
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn seconds_with_a_point() {
        assert_eq!(seconds("2"), Some(2_000_000_000));
        assert_eq!(seconds("0.25"), Some(250_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!([seconds(""), seconds("."), seconds("-1"), seconds("1.x"), seconds("99999999999999")], [None; 5]);
    }
}

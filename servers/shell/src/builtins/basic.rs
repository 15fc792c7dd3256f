//! The commands that every shell has.

use super::{misused, number, text};
use crate::batch;
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::vec::Vec;
use musubi::{clock, why};

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

/// The lines of a file, in this shell.
pub fn batch(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    match words {
        [_, file, given @ ..] => batch::run(shell, file, given),
        _ => misused(words, io),
    }
}

pub fn shift(shell: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let count = match words {
        [_] => Some(1),
        [_, word] => number(word).filter(|count| i64::try_from(*count).is_ok()),
        _ => None,
    };
    let Some(count) = count else { return misused(words, io) };
    match shell.shift(count) {
        Ok(()) => 0,
        Err(why) => {
            io.complain("shift", format_args!("{why}"));
            1
        }
    }
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
            Some(ns) => match clock::sleep(ns) {
                Ok(()) => 0,
                Err(e) => {
                    io.complain("sleep", format_args!("{}", why(e)));
                    1
                }
            },
            None => misused(words, io),
        },
        _ => misused(words, io),
    }
}

/// What time it is, and how long the machine has been on.
pub fn date(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    match clock::now() {
        Ok((boot, unix)) => {
            say!(io, "{} UTC, {} since boot", moment(unix / 1_000_000_000), super::table::time(boot));
            0
        }
        Err(e) => {
            io.complain("date", format_args!("{}", why(e)));
            1
        }
    }
}

/// Seconds since 1970 as people write them.
fn moment(seconds: u64) -> alloc::string::String {
    let (days, rest) = (seconds / 86400, seconds % 86400);
    // Years that begin with March: the day that is sometimes there is the last one.
    let since = days + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, era * 400 + year) } else { (month - 9, era * 400 + year + 1) };
    alloc::format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::{moment, seconds};

    #[test]
    fn moments_as_people_write_them() {
        assert_eq!(moment(0), "1970-01-01 00:00:00");
        assert_eq!(moment(951_782_400 + 3661), "2000-02-29 01:01:01");
        assert_eq!(moment(4_107_542_399), "2100-02-28 23:59:59");
        assert_eq!(moment(4_107_542_400), "2100-03-01 00:00:00");
        assert_eq!(moment(1_795_305_600), "2026-11-22 00:00:00");
    }

    #[test]
    fn seconds_with_a_point() {
        assert_eq!(seconds("2"), Some(2_000_000_000));
        assert_eq!(seconds("0.25"), Some(250_000_000));
        assert_eq!(seconds(".5"), Some(500_000_000));
        assert_eq!([seconds(""), seconds("."), seconds("-1"), seconds("1.x"), seconds("99999999999999")], [None; 5]);
    }
}

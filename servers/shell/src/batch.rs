//! Lines from a file (SSS-71).

use crate::parse::{self, Piece, Word};
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::interfaces::files::how;
use musubi::{Error, ended, files::File, why};

/// Files that run each other, at a time.
const DEEPEST: usize = 16;
/// A longer file is no batch.
const MOST: u64 = 1 << 20;
/// So much of a file says what runs it.
const HEAD: usize = 128;

/// Where the shell is in a batch.
#[derive(Clone, Debug)]
pub struct Place {
    pub file: String,
    pub line: usize,
}

/// A command with the lines that it goes on in, and the number of its first line.
fn commands(text: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut all: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut open = false;
    for (at, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        match all.last_mut() {
            Some((_, before)) if open => before.extend_from_slice(line),
            _ => all.push((at + 1, line.to_vec())),
        }
        open = all.last().is_some_and(|(_, command)| parse::is_open(command));
    }
    all
}

/// Runs the lines of a file in this shell, with words of its own if it is given any. Value: the status of the last command.
pub fn run(shell: &mut Shell, path: &[u8], words: &[Vec<u8>]) -> i32 {
    let shown = String::from_utf8_lossy(path).into_owned();
    if shell.places.len() >= DEEPEST {
        shell.complain(&shown, format_args!("{DEEPEST} files run each other already"));
        return 2;
    }
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            shell.complain(&shown, format_args!("{}", why(error)));
            return if error == Error::NotFound { ended::NOT_FOUND } else { ended::REFUSED };
        }
    };
    shell.status = 0;
    let before = (!words.is_empty()).then(|| core::mem::replace(&mut shell.words, words.to_vec()));
    shell.places.push(Place { file: shown, line: 0 });
    for (line, command) in commands(&text) {
        if let Some(place) = shell.places.last_mut() {
            place.line = line;
        }
        shell.line(&command);
        // What was ended by `^C` ends what runs it.
        if shell.leaving.is_some() || shell.interactive && shell.status == ended::KILLED {
            break;
        }
    }
    shell.places.pop();
    if let Some(before) = before {
        shell.words = before;
    }
    shell.status
}

fn read(path: &[u8]) -> Result<Vec<u8>, Error> {
    let (file, info) = File::open(path, how::READ)?;
    if info.len > MOST {
        return Err(Error::TooBig);
    }
    let mut text = alloc::vec![0; info.len as usize];
    let mut done = 0;
    while done < text.len() {
        match file.read(done as u64, &mut text[done..])? {
            0 => break,
            n => done += n,
        }
    }
    text.truncate(done);
    Ok(text)
}

/// What runs a file that is a batch, by its first line: `#!INTERPRETER [WORD]`.
pub fn interpreter(path: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (file, _) = File::open(path, how::READ).ok()?;
    let mut head = [0; HEAD];
    let len = file.read(0, &mut head).ok()?;
    words_of(head.get(..len)?)
}

fn words_of(head: &[u8]) -> Option<Vec<Vec<u8>>> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let words: Vec<Vec<u8>> =
        line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect();
    (!words.is_empty()).then_some(words)
}

impl Shell {
    /// Says what is wrong, and in which line of which file.
    pub fn complain(&self, who: &str, what: core::fmt::Arguments<'_>) {
        musubi::eprintln!("{}: {what}", self.named(who));
    }

    /// The value of `$#` and the like; what was not given is empty. Nothing: it is the name of a variable.
    pub fn parameter(&self, name: &[u8]) -> Option<Vec<u8>> {
        Some(match name {
            b"#" => format!("{}", self.words.len()).into_bytes(),
            // Where only one word can stand.
            b"*" | b"@" => self.words.join(&b' '),
            b"0" => self.places.last().map_or_else(|| b"shell".to_vec(), |place| place.file.clone().into_bytes()),
            _ if name.iter().all(u8::is_ascii_digit) => {
                let number: Option<usize> = core::str::from_utf8(name).ok()?.parse().ok();
                let word = number.and_then(|number| self.words.get(number.checked_sub(1)?));
                word.cloned().unwrap_or_default()
            }
            _ => return None,
        })
    }

    /// A word; with `$@` in it as many as that stands for, none of them where it is alone and nothing was given.
    pub fn apart(&self, word: &Word) -> Vec<Word> {
        let mut all = Vec::new();
        let mut last = Word::new();
        for piece in word {
            if *piece != Piece::Variable(b"@".to_vec()) {
                last.push(piece.clone());
                continue;
            }
            for (at, given) in self.words.iter().enumerate() {
                if at > 0 {
                    all.push(core::mem::take(&mut last));
                }
                last.push(Piece::Text(given.clone()));
            }
        }
        if !last.is_empty() {
            all.push(last);
        }
        all
    }

    /// Takes away the first of the words that were given.
    pub fn shift(&mut self, count: u64) -> Result<(), String> {
        let there = self.words.len();
        match usize::try_from(count).ok().filter(|count| *count <= there) {
            Some(count) => {
                self.words.drain(..count);
                Ok(())
            }
            None => Err(format!("{count}: more than there are words ({there})")),
        }
    }

    /// A command, with where it stands.
    pub fn named(&self, who: &str) -> String {
        self.places.last().map_or_else(|| who.into(), |place| format!("{}:{}: {who}", place.file, place.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_number_of_their_first_line() {
        let text = b"#!bin/shell\necho a &&\n  echo b\n\necho 'c\nd'\necho \\\ne\nlast";
        let got: Vec<(usize, String)> =
            commands(text).into_iter().map(|(n, c)| (n, String::from_utf8_lossy(&c).into_owned())).collect();
        let wanted = [
            (1, "#!bin/shell\n"),
            (2, "echo a &&\n  echo b\n"),
            (4, "\n"),
            (5, "echo 'c\nd'\n"),
            (7, "echo \\\ne\n"),
            (9, "last"),
        ];
        assert_eq!(got, wanted.map(|(n, c)| (n, String::from(c))));
    }

    #[test]
    fn what_runs_a_file() {
        let words = |head: &[u8]| words_of(head).map(|w| w.join(&b'|'));
        assert_eq!(words(b"#!/bin/shell\necho"), Some(b"/bin/shell".to_vec()));
        assert_eq!(words(b"#! bin/busybox sh \nx"), Some(b"bin/busybox|sh".to_vec()));
        assert_eq!([words(b"#!\n"), words(b"echo"), words(b"")], [None, None, None]);
    }
}

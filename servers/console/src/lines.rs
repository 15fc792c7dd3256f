//! The line discipline: keys in, lines out.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes that wait for a reader; more are dropped.
const MAX: usize = 64 << 10;

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const CTRL_U: u8 = 21;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;

#[derive(Debug, Default)]
pub struct Lines {
    raw: bool,
    /// The line being typed.
    line: Vec<u8>,
    ready: VecDeque<u8>,
    /// `^D` was typed at the start of a line: the next reader sees the end.
    end: bool,
}

/// What to do besides.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub echo: Vec<u8>,
    /// Kill the foreground.
    pub interrupt: bool,
}

fn echo(bytes: &[u8]) -> Effect {
    Effect { echo: bytes.to_vec(), interrupt: false }
}

impl Lines {
    pub fn new() -> Lines {
        Lines::default()
    }

    pub fn set_raw(&mut self, raw: bool) {
        self.raw = raw;
        self.end = false;
        self.submit();
    }

    fn submit(&mut self) {
        let room = MAX.saturating_sub(self.ready.len());
        self.ready.extend(self.line.drain(..).take(room));
    }

    /// A key was pressed.
    pub fn take(&mut self, byte: u8) -> Effect {
        if self.raw {
            self.line.push(byte);
            self.submit();
            return Effect::default();
        }
        match byte {
            b'\r' | b'\n' => {
                self.line.push(b'\n');
                self.submit();
                echo(b"\n")
            }
            BACKSPACE | DELETE => self.erase().map_or_else(Effect::default, |()| echo(b"\x08 \x08")),
            CTRL_U => {
                let mut out = Vec::new();
                while self.erase().is_some() {
                    out.extend_from_slice(b"\x08 \x08");
                }
                echo(&out)
            }
            CTRL_D => {
                self.end = self.line.is_empty();
                self.submit();
                Effect::default()
            }
            CTRL_C => {
                self.line.clear();
                Effect { echo: b"^C\n".to_vec(), interrupt: true }
            }
            b'\t' | b' '..=0xff if self.line.len() < MAX => {
                self.line.push(byte);
                echo(&[byte])
            }
            _ => Effect::default(),
        }
    }

    /// Takes the last character away, all its bytes.
    fn erase(&mut self) -> Option<()> {
        while self.line.pop()? & 0xc0 == 0x80 {}
        Some(())
    }

    /// What a reader gets: up to a line; `None` if it must wait; 0 at the end.
    pub fn give(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let mut n = 0;
        while n < buffer.len()
            && let Some(byte) = self.ready.pop_front()
        {
            buffer[n] = byte;
            n += 1;
            if byte == b'\n' && !self.raw {
                break;
            }
        }
        if n == 0 && !core::mem::take(&mut self.end) {
            return None;
        }
        Some(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(lines: &mut Lines, keys: &[u8]) -> Vec<u8> {
        keys.iter().flat_map(|&k| lines.take(k).echo).collect()
    }

    fn read(lines: &mut Lines) -> Option<Vec<u8>> {
        let mut buffer = [0; 100];
        lines.give(&mut buffer).map(|n| buffer[..n].to_vec())
    }

    #[test]
    fn lines_are_edited_and_read_one_by_one() {
        let mut lines = Lines::new();
        assert_eq!(typed(&mut lines, b"ab\x7fc"), b"ab\x08 \x08c");
        assert_eq!(read(&mut lines), None);
        typed(&mut lines, b"\rnext\r");
        assert_eq!(read(&mut lines).unwrap(), b"ac\n");
        assert_eq!(read(&mut lines).unwrap(), b"next\n");
        assert_eq!(read(&mut lines), None);
    }

    #[test]
    fn a_character_of_many_bytes_is_erased_whole() {
        let mut lines = Lines::new();
        typed(&mut lines, "x結\x7f\r".as_bytes());
        assert_eq!(read(&mut lines).unwrap(), b"x\n");
    }

    #[test]
    fn control_keys() {
        let mut lines = Lines::new();
        typed(&mut lines, b"part\x04");
        assert_eq!(read(&mut lines).unwrap(), b"part", "^D hands over what there is");
        typed(&mut lines, b"\x04");
        assert_eq!(read(&mut lines).unwrap(), b"", "and is the end at the start of a line");
        assert_eq!(read(&mut lines), None, "once");
        typed(&mut lines, b"gone");
        assert_eq!(lines.take(3), Effect { echo: b"^C\n".to_vec(), interrupt: true });
        typed(&mut lines, b"all\x15ok\n");
        assert_eq!(read(&mut lines).unwrap(), b"ok\n");
    }

    #[test]
    fn raw_gives_every_key() {
        let mut lines = Lines::new();
        lines.set_raw(true);
        assert_eq!(lines.take(3), Effect::default());
        typed(&mut lines, b"\x1b[A\r");
        assert_eq!(read(&mut lines).unwrap(), b"\x03\x1b[A\r");
    }
}

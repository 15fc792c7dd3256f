//! Editing a line: keys in, a line or an event out. The screen is drawn from the state alone.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Lines remembered.
const HISTORY_MAX: usize = 500;

#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Nothing,
    /// Draw the line again.
    Changed,
    /// The line is complete.
    Line(String),
    /// `^C`.
    Cancelled,
    /// `^D` on an empty line.
    End,
    /// `^L`.
    Clear,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Started,
    /// Within `ESC [`: its digits.
    Sequence(u32),
}

#[derive(Debug, Default)]
pub struct Editor {
    line: Vec<char>,
    cursor: usize,
    history: Vec<String>,
    /// Place in the history; its length: the line being written.
    place: usize,
    /// The line being written while an older one is shown.
    draft: Vec<char>,
    escape: Escape,
    /// Bytes of a character that is not complete.
    partial: Vec<u8>,
}

impl Editor {
    pub fn new() -> Editor {
        Editor::default()
    }

    pub fn history(&self) -> &[String] {
        &self.history
    }

    pub fn key(&mut self, byte: u8) -> Event {
        match core::mem::take(&mut self.escape) {
            Escape::None => self.plain(byte),
            Escape::Started if byte == b'[' || byte == b'O' => {
                self.escape = Escape::Sequence(0);
                Event::Nothing
            }
            Escape::Started => Event::Nothing,
            Escape::Sequence(n) if byte.is_ascii_digit() => {
                self.escape = Escape::Sequence(n.saturating_mul(10).saturating_add(u32::from(byte - b'0')));
                Event::Nothing
            }
            // `ESC [ 1 ; 5 C` and the like: the modifier is left out of account.
            Escape::Sequence(_) if byte == b';' => {
                self.escape = Escape::Sequence(0);
                Event::Nothing
            }
            Escape::Sequence(n) => self.sequence(n, byte),
        }
    }

    fn plain(&mut self, byte: u8) -> Event {
        match byte {
            0x1b => self.escape = Escape::Started,
            b'\r' | b'\n' => return self.submit(),
            1 => return self.go(0),
            2 => return self.go(self.cursor.saturating_sub(1)),
            5 => return self.go(self.line.len()),
            6 => return self.go(self.cursor + 1),
            3 => {
                self.reset();
                return Event::Cancelled;
            }
            4 if self.line.is_empty() => return Event::End,
            4 => return self.remove(self.cursor, self.cursor + 1),
            8 | 127 => return self.remove(self.cursor.saturating_sub(1), self.cursor),
            11 => return self.remove(self.cursor, self.line.len()),
            12 => return Event::Clear,
            14 => return self.step(1),
            16 => return self.step(-1),
            21 => return self.remove(0, self.cursor),
            23 => return self.remove(self.word_start(), self.cursor),
            b'\t' => return self.insert(' '),
            0x20..=0x7e | 0x80.. => return self.character(byte),
            _ => {}
        }
        Event::Nothing
    }

    fn sequence(&mut self, number: u32, last: u8) -> Event {
        match (last, number) {
            (b'A', _) => self.step(-1),
            (b'B', _) => self.step(1),
            (b'C', _) => self.go(self.cursor + 1),
            (b'D', _) => self.go(self.cursor.saturating_sub(1)),
            (b'H', _) | (b'~', 1 | 7) => self.go(0),
            (b'F', _) | (b'~', 4 | 8) => self.go(self.line.len()),
            (b'~', 3) => self.remove(self.cursor, self.cursor + 1),
            _ => Event::Nothing,
        }
    }

    fn character(&mut self, byte: u8) -> Event {
        self.partial.push(byte);
        match core::str::from_utf8(&self.partial) {
            Ok(text) => {
                let c = text.chars().next().unwrap_or(' ');
                self.partial.clear();
                self.insert(c)
            }
            Err(e) if e.error_len().is_some() => {
                self.partial.clear();
                Event::Nothing
            }
            Err(_) => Event::Nothing,
        }
    }

    fn insert(&mut self, c: char) -> Event {
        self.line.insert(self.cursor, c);
        self.cursor += 1;
        Event::Changed
    }

    fn go(&mut self, to: usize) -> Event {
        self.cursor = to.min(self.line.len());
        Event::Changed
    }

    fn remove(&mut self, from: usize, to: usize) -> Event {
        let to = to.min(self.line.len());
        self.line.drain(from.min(to)..to);
        self.cursor = from.min(self.line.len());
        Event::Changed
    }

    fn word_start(&self) -> usize {
        let before = &self.line[..self.cursor];
        let end = before.iter().rposition(|c| *c != ' ').map_or(0, |i| i + 1);
        before[..end].iter().rposition(|c| *c == ' ').map_or(0, |i| i + 1)
    }

    /// Goes through the history.
    fn step(&mut self, by: isize) -> Event {
        let Some(to) = self.place.checked_add_signed(by).filter(|&to| to <= self.history.len()) else {
            return Event::Nothing;
        };
        if self.place == self.history.len() {
            self.draft = self.line.clone();
        }
        self.place = to;
        self.line = self.history.get(to).map_or_else(|| self.draft.clone(), |line| line.chars().collect());
        self.cursor = self.line.len();
        Event::Changed
    }

    fn reset(&mut self) {
        self.line.clear();
        self.cursor = 0;
        self.partial.clear();
        self.place = self.history.len();
    }

    fn submit(&mut self) -> Event {
        let line: String = self.line.iter().collect();
        if !line.trim().is_empty() && self.history.last() != Some(&line) {
            self.history.push(line.clone());
            if self.history.len() > HISTORY_MAX {
                self.history.remove(0);
            }
        }
        self.reset();
        Event::Line(line)
    }

    /// What shows the prompt, the line and the cursor on a terminal of `columns`. A line that does not fit is shown in
    /// part, with the cursor in it.
    pub fn draw(&self, prompt: &str, columns: usize) -> String {
        let room = columns.saturating_sub(prompt.chars().count() + 1).max(8);
        let first = (self.cursor + 1).saturating_sub(room);
        let shown: String = self.line.iter().skip(first).take(room).collect();
        let back = shown.chars().count() - (self.cursor - first).min(shown.chars().count());
        let mut out = format!("\r{prompt}{shown}\x1b[K");
        if back > 0 {
            out.push_str(&format!("\x1b[{back}D"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, keys: &str) -> Vec<Event> {
        keys.bytes().map(|b| editor.key(b)).collect()
    }

    fn line(editor: &mut Editor, keys: &str) -> String {
        match typed(editor, keys).pop() {
            Some(Event::Line(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn moving_and_erasing() {
        let mut e = Editor::new();
        assert_eq!(line(&mut e, "world\x01hello \x05!\r"), "hello world!");
        assert_eq!(line(&mut e, "one two  three\x17\x17x\r"), "one x");
        assert_eq!(line(&mut e, "abc\x1b[D\x1b[D\x1b[3~\x7fX\r"), "Xc");
        assert_eq!(line(&mut e, "gone\x15left\x1b[H\x0b\x1b[Fx\r"), "x");
        assert_eq!(line(&mut e, "結び\x7fx\x1b[1;5Dy\r"), "結yx");
    }

    #[test]
    fn history_keeps_the_draft() {
        let mut e = Editor::new();
        line(&mut e, "first\r");
        line(&mut e, "second\r");
        line(&mut e, "second\r");
        assert_eq!(e.history(), ["first", "second"]);
        assert_eq!(line(&mut e, "dra\x1b[A\x1b[A\x1b[A\x1b[B\x1b[Bft\r"), "draft");
        assert_eq!(line(&mut e, "\x1b[A\x1b[A!\r"), "second!");
    }

    #[test]
    fn events() {
        let mut e = Editor::new();
        assert_eq!(e.key(4), Event::End);
        assert_eq!(typed(&mut e, "x\x03"), [Event::Changed, Event::Cancelled]);
        assert_eq!(e.key(12), Event::Clear);
        assert_eq!(line(&mut e, "\x1b[99~\r"), "");
    }

    #[test]
    fn the_cursor_is_always_shown() {
        let mut e = Editor::new();
        typed(&mut e, "0123456789abcdef");
        assert_eq!(e.draw("> ", 13), "\r> 789abcdef\x1b[K");
        e.key(1);
        assert_eq!(e.draw("> ", 13), "\r> 0123456789\x1b[K\x1b[10D");
    }
}

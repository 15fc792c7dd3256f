//! Rust source with code and comments told apart, which is all that the rules about `unsafe` need.

/// `code` has the source's lines with comments and the insides of literals blanked; `comments` the comments' text.
#[derive(Debug)]
pub struct Source {
    pub code: Vec<String>,
    pub comments: Vec<String>,
}

enum Part {
    Code,
    Comment,
    /// Of a literal: neither.
    Literal,
}

impl Source {
    pub fn new(text: &str) -> Source {
        let mut source = Source { code: vec![String::new()], comments: vec![String::new()] };
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while at < chars.len() {
            let (length, part) = piece(&chars, at);
            for c in &chars[at..at + length] {
                source.put(*c, &part);
            }
            at += length;
        }
        source
    }

    fn put(&mut self, c: char, part: &Part) {
        if c == '\n' {
            self.code.push(String::new());
            self.comments.push(String::new());
            return;
        }
        let (code, comment) = match part {
            Part::Code => (c, ' '),
            Part::Comment => (' ', c),
            Part::Literal => (' ', ' '),
        };
        self.code.last_mut().expect("there is a line").push(code);
        self.comments.last_mut().expect("there is a line").push(comment);
    }

    /// Where `word` stands as a whole word of code: (line from 0, column in characters of that line's code).
    pub fn find_word(&self, word: &str) -> Vec<(usize, usize)> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut found = Vec::new();
        for (line, code) in self.code.iter().enumerate() {
            for (column, _) in code.match_indices(word) {
                let before = code[..column].chars().next_back();
                let after = code[column + word.len()..].chars().next();
                if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
                    found.push((line, column));
                }
            }
        }
        found
    }

    /// The code after a place, over the ends of lines, as far as anybody needs to look.
    pub fn after(&self, line: usize, column: usize) -> String {
        let mut rest = self.code[line][column..].to_string();
        for code in self.code.iter().skip(line + 1).take(3) {
            rest.push(' ');
            rest.push_str(code);
        }
        rest.trim_start().to_string()
    }
}

/// How long the piece that begins at `at` is, and what it is. Code is taken in small pieces.
fn piece(chars: &[char], at: usize) -> (usize, Part) {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => (rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()), Part::Comment),
        ['/', '*', ..] => (block_comment(rest), Part::Comment),
        ['"', ..] => (1 + quoted(&rest[1..]), Part::Literal),
        ['\'', ..] => match char_literal(rest) {
            Some(length) => (length, Part::Literal),
            None => (1, Part::Code), // a lifetime
        },
        [first, ..] if first.is_alphanumeric() || *first == '_' => {
            let word = rest.iter().position(|c| !(c.is_alphanumeric() || *c == '_')).unwrap_or(rest.len());
            let name: String = rest[..word].iter().collect();
            if matches!(name.as_str(), "r" | "br" | "cr")
                && let Some(length) = raw_string(&rest[word..])
            {
                return (word + length, Part::Literal);
            }
            (word, Part::Code)
        }
        _ => (1, Part::Code),
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (at, depth) = (at + 2, depth + 1),
            ['*', '/', ..] => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length up to and with the closing quotation mark.
fn quoted(rest: &[char]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `#"..."#` after the r, with any number of `#`; None for `r#name`.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|c| **c == '#').count();
    (rest.get(hashes) == Some(&'"')).then_some(())?;
    let mut end = vec!['"'];
    end.extend(vec!['#'; hashes]);
    let body = hashes + 1;
    let close = rest[body..].windows(end.len()).position(|w| w == end.as_slice());
    Some(close.map_or(rest.len(), |close| body + close + end.len()))
}

fn char_literal(rest: &[char]) -> Option<usize> {
    match rest {
        ['\'', '\\', _, tail @ ..] => Some(3 + tail.iter().position(|c| *c == '\'')? + 1),
        ['\'', c, '\'', ..] if *c != '\'' => Some(3),
        _ => None,
    }
}

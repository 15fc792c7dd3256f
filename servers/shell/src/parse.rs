//! From a line to commands. What is put in for variables is not split into words.

use crate::glob::{self, Part};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(Vec<u8>),
    /// `$NAME`, `${NAME}`, `$?`; `$1`, `${10}`, `$#`, `$@`, `$*`.
    Variable(Vec<u8>),
    /// Not a byte, and how it was typed.
    Pattern(Part, Vec<u8>),
}

pub type Word = Vec<Piece>;

/// Which stream of a command is a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    Input,
    Output,
    /// At the end of what is there.
    Append,
    Errors,
    ErrorsAppend,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// `NAME=value` before the words. Without words they are for the shell itself.
    pub assignments: Vec<(Vec<u8>, Word)>,
    pub words: Vec<Word>,
    /// Files in the place of streams.
    pub redirects: Vec<(Redirect, Word)>,
}

/// When a pipeline runs, seen from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    IfTrue,
    IfFalse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipeline {
    pub when: When,
    /// Never empty, and neither is one of them.
    pub commands: Vec<Command>,
    /// Nobody waits for it.
    pub background: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    Assignment(Vec<u8>, Word),
    Operator(&'static str),
}

/// Longer ones before those that they begin with.
const OPERATORS: [&str; 18] =
    ["&&", "||", ";", "&>", "&", "|", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">", "2>>", "2>&", "2>|", "2>"];

/// What redirections mean.
const REDIRECTS: [(&str, Redirect); 5] = [
    ("2>>", Redirect::ErrorsAppend),
    ("2>", Redirect::Errors),
    ("<", Redirect::Input),
    (">>", Redirect::Append),
    (">", Redirect::Output),
];

/// Words that other shells read as the beginning or a part of something greater.
const KEYWORDS: [&str; 18] = [
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "select",
    "{", "}", "!", "[[",
];

/// # Errors
/// One line that says what is wrong.
pub fn parse(line: &[u8]) -> Result<Vec<Pipeline>, String> {
    let mut pipelines = Vec::new();
    let mut commands: Vec<Command> = Vec::new();
    let mut command = Command::default();
    let mut when = When::Always;
    let mut redirect = None;
    for token in tokens(line)? {
        let operator = match token {
            Token::Word(word) if redirect.is_some() => {
                command.redirects.extend(redirect.take().map(|to| (to, word)));
                continue;
            }
            Token::Word(word) => {
                command.words.push(word);
                continue;
            }
            Token::Assignment(name, value) => {
                command.assignments.push((name, value));
                continue;
            }
            Token::Operator(operator) => operator,
        };
        if redirect.is_some() {
            return Err(format!("`{operator}` where the name of a file is expected"));
        }
        if let Some((_, to)) = REDIRECTS.iter().find(|known| known.0 == operator) {
            redirect = Some(*to);
            continue;
        }
        if operator.contains(['<', '>']) {
            return Err(absent(operator, "there are only `<`, `>`, `>>`, `2>` and `2>>` with a file"));
        }
        if command == Command::default() {
            // A lone `;` at the end or between is nothing to worry about.
            if operator == ";" && commands.is_empty() && when == When::Always {
                continue;
            }
            return Err(format!("`{operator}` without a command before it"));
        }
        commands.push(core::mem::take(&mut command));
        if operator == "|" {
            continue;
        }
        let background = operator == "&";
        pipelines.push(Pipeline { when, commands: core::mem::take(&mut commands), background });
        when = match operator {
            "&&" => When::IfTrue,
            "||" => When::IfFalse,
            _ => When::Always,
        };
    }
    if redirect.is_some() {
        return Err("the line ends where the name of a file is expected".into());
    }
    if command != Command::default() {
        commands.push(command);
        pipelines.push(Pipeline { when, commands, background: false });
    } else if !commands.is_empty() || when != When::Always {
        return Err("the line ends where a command is expected".into());
    }
    Ok(pipelines)
}

/// What is said of quotes whose end does not come.
const OPEN: [&str; 2] = ["a `'` is not closed", "a `\"` is not closed"];

/// Whether the command goes on in the next line: within quotes, behind a backslash, or where another command must come.
pub fn is_open(text: &[u8]) -> bool {
    match tokens_and_end(text) {
        Err(why) => OPEN.contains(&why.as_str()),
        Ok((_, End::Comment)) => false,
        Ok((tokens, End::Command)) => {
            is_joined(text) || matches!(tokens.last(), Some(Token::Operator("&&" | "||" | "|")))
        }
    }
}

/// Whether the last line ends with a backslash that does not stand for itself.
fn is_joined(text: &[u8]) -> bool {
    let line = text.strip_suffix(b"\n").unwrap_or_default();
    line.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// What the last line ends with.
enum End {
    Command,
    Comment,
}

fn tokens(line: &[u8]) -> Result<Vec<Token>, String> {
    tokens_and_end(line).map(|(tokens, _)| tokens)
}

fn tokens_and_end(line: &[u8]) -> Result<(Vec<Token>, End), String> {
    let mut out = Vec::new();
    let mut rest = line;
    let mut end = End::Command;
    loop {
        let Some(&first) = rest.first() else { return Ok((out, end)) };
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
            // The end of a line ends a command, except where one must still come.
            if first == b'\n' && matches!(out.last(), Some(Token::Word(_) | Token::Assignment(..))) {
                out.push(Token::Operator(";"));
            }
            continue;
        }
        if let Some(after) = rest.strip_prefix(b"\\\n") {
            rest = after;
            continue;
        }
        if first == b'#' {
            // To the end of the line.
            let length = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            rest = &rest[length..];
            if rest.len() <= 1 {
                end = End::Comment;
            }
            continue;
        }
        if let Some(operator) = OPERATORS.iter().find(|o| rest.starts_with(o.as_bytes())) {
            rest = &rest[operator.len()..];
            out.push(Token::Operator(operator));
            continue;
        }
        let begins = !matches!(out.last(), Some(Token::Word(_)));
        let (token, after) = word(rest, begins)?;
        out.push(token);
        rest = after;
    }
}

/// Why something is refused that other shells understand.
fn absent(what: &str, why: &str) -> String {
    format!("`{what}`: {why}")
}

/// Whether a variable can have this name.
fn is_name(name: &[u8]) -> bool {
    let fits = |(i, b): (usize, &u8)| *b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit());
    !name.is_empty() && name.iter().enumerate().all(fits)
}

/// What the shell itself gives a value: the last status, and the words of a batch, all of them, how many, or one.
fn is_parameter(name: &[u8]) -> bool {
    matches!(name, b"?" | b"#" | b"@" | b"*") || !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

/// A word under construction.
#[derive(Default)]
struct Builder {
    /// Of an assignment.
    name: Option<Vec<u8>>,
    pieces: Word,
    text: Vec<u8>,
    /// Quotes make a word even of nothing, and keep it from being anything but a word.
    quoted: bool,
}

impl Builder {
    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(core::mem::take(&mut self.text)));
        }
    }

    /// A `$` and what follows. Value: what follows that.
    fn variable<'a>(&mut self, rest: &'a [u8]) -> Result<&'a [u8], String> {
        let (name, after) = match rest.first() {
            Some(b'(') if rest.starts_with(b"((") => return Err(absent("$((", "arithmetic is not there yet")),
            Some(b'(') => return Err(absent("$(", "commands within commands are not there yet")),
            Some(b) if is_parameter(&[*b]) => rest.split_at(1),
            Some(b'{') => {
                let end = rest.iter().position(|&b| b == b'}').ok_or("`${` without `}`")?;
                let name = &rest[1..end];
                if !is_parameter(name) && !is_name(name) {
                    let shown = String::from_utf8_lossy(&rest[..=end]);
                    return Err(absent(&format!("${shown}"), "only a name or a number can stand between `${` and `}`"));
                }
                (name, &rest[end + 1..])
            }
            Some(b) if b"$!-".contains(b) => {
                let shown = format!("${}", char::from(*b));
                return Err(absent(&shown, "there are only $NAME, $?, $#, $@, $* and the words $0, $1, ${10}"));
            }
            _ => {
                let end = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        if name.is_empty() {
            self.text.push(b'$');
        } else {
            self.end_text();
            self.pieces.push(Piece::Variable(name.to_vec()));
        }
        Ok(after)
    }

    fn pattern(&mut self, part: Part, typed: &[u8]) {
        self.end_text();
        self.pieces.push(Piece::Pattern(part, typed.to_vec()));
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.text.is_empty() && !self.quoted
    }

    /// Whether all so far is text without quotes.
    fn is_bare(&self) -> bool {
        self.name.is_none() && self.pieces.is_empty() && !self.quoted
    }

    fn finish(mut self, begins: bool) -> Result<Token, String> {
        if begins && self.is_bare() && KEYWORDS.iter().any(|k| k.as_bytes() == self.text) {
            let shown = String::from_utf8_lossy(&self.text);
            return Err(absent(&shown, "not there; `;` `&&` `||` join commands, `|` and `&` run them side by side"));
        }
        self.end_text();
        if self.pieces.is_empty() && (self.quoted || self.name.is_some()) {
            self.pieces.push(Piece::Text(Vec::new()));
        }
        Ok(match self.name {
            Some(name) => Token::Assignment(name, self.pieces),
            None => Token::Word(self.pieces),
        })
    }
}

fn ends_word(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b";&|<>".contains(&byte)
}

/// The word that a line begins with, and what follows. `begins`: it may be the first of a command.
fn word(line: &[u8], begins: bool) -> Result<(Token, &[u8]), String> {
    let mut word = Builder::default();
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        if ends_word(byte) {
            break;
        }
        let from = rest;
        rest = after;
        match byte {
            b'\'' => {
                let end = rest.iter().position(|&b| b == b'\'').ok_or(OPEN[0])?;
                word.text.extend_from_slice(&rest[..end]);
                word.quoted = true;
                rest = &rest[end + 1..];
            }
            b'"' => {
                word.quoted = true;
                rest = double_quoted(&mut word, rest)?;
            }
            b'\\' => {
                let (&next, after) = rest.split_first().ok_or("a `\\` at the end of the line")?;
                // The end of a line that goes on is nothing.
                if next != b'\n' {
                    word.text.push(next);
                    word.quoted = true;
                }
                rest = after;
            }
            b'$' => rest = word.variable(rest)?,
            b'`' => return Err(absent("`", "commands within commands are not there yet")),
            b'(' | b')' => {
                let shown = char::from(byte);
                return Err(format!("`{shown}`: subshells and functions are not there yet (quote it if you mean it)"));
            }
            b'~' if word.is_empty() && rest.first().is_none_or(|&b| b == b'/' || ends_word(b)) => {
                return Err(absent("~", "there are no home folders (quote it if you mean it)"));
            }
            b'=' if begins && word.is_bare() && is_name(&word.text) => {
                word.name = Some(core::mem::take(&mut word.text));
            }
            b'*' => word.pattern(Part::Star, b"*"),
            b'?' => word.pattern(Part::Any, b"?"),
            b'[' => match glob::set(rest) {
                Some((set, after)) => {
                    word.pattern(set, &from[..from.len() - after.len()]);
                    rest = after;
                }
                None => word.text.push(byte),
            },
            _ => word.text.push(byte),
        }
    }
    Ok((word.finish(begins)?, rest))
}

fn double_quoted<'a>(word: &mut Builder, mut rest: &'a [u8]) -> Result<&'a [u8], String> {
    loop {
        let (&byte, after) = rest.split_first().ok_or(OPEN[1])?;
        rest = after;
        match byte {
            b'"' => return Ok(rest),
            b'$' => rest = word.variable(rest)?,
            b'`' => return Err(absent("`", "commands within commands are not there yet")),
            b'\\' if matches!(rest.first(), Some(b'"' | b'\\' | b'$' | b'`')) => {
                word.text.push(rest[0]);
                rest = &rest[1..];
            }
            _ => word.text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests;

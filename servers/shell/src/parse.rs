//! From a line to commands. What is put in for variables is not split into words.

use alloc::string::String;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(Vec<u8>),
    /// `$NAME`, `${NAME}`, `$?`.
    Variable(Vec<u8>),
}

pub type Word = Vec<Piece>;

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
    /// Commands, each a list of words; never empty.
    pub commands: Vec<Vec<Word>>,
    /// Nobody waits for it.
    pub background: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    Operator(&'static str),
}

const OPERATORS: [&str; 7] = ["&&", "||", ";", "&", "|", "<", ">"];

/// # Errors
/// One line that says what is wrong.
pub fn parse(line: &[u8]) -> Result<Vec<Pipeline>, String> {
    let mut pipelines = Vec::new();
    let mut commands: Vec<Vec<Word>> = Vec::new();
    let mut words: Vec<Word> = Vec::new();
    let mut when = When::Always;
    for token in tokens(line)? {
        let operator = match token {
            Token::Word(word) => {
                words.push(word);
                continue;
            }
            Token::Operator(operator) => operator,
        };
        if operator == "<" || operator == ">" {
            return Err(alloc::format!("`{operator}`: redirections are not there yet"));
        }
        if words.is_empty() {
            // A lone `;` at the end or between is nothing to worry about.
            if operator == ";" && commands.is_empty() && when == When::Always {
                continue;
            }
            return Err(alloc::format!("`{operator}` without a command before it"));
        }
        commands.push(core::mem::take(&mut words));
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
    if !words.is_empty() {
        commands.push(words);
        pipelines.push(Pipeline { when, commands, background: false });
    } else if !commands.is_empty() || when != When::Always {
        return Err("the line ends where a command is expected".into());
    }
    Ok(pipelines)
}

fn tokens(line: &[u8]) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = line;
    loop {
        let Some(&first) = rest.first() else { return Ok(out) };
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
            // The end of a line ends a command, except where one must still come.
            if first == b'\n' && matches!(out.last(), Some(Token::Word(_))) {
                out.push(Token::Operator(";"));
            }
            continue;
        }
        if first == b'#' {
            // To the end of the line.
            let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            rest = &rest[end..];
            continue;
        }
        if let Some(operator) = OPERATORS.iter().find(|o| rest.starts_with(o.as_bytes())) {
            rest = &rest[operator.len()..];
            out.push(Token::Operator(operator));
            continue;
        }
        let (word, after) = word(rest)?;
        out.push(Token::Word(word));
        rest = after;
    }
}

/// A word under construction.
struct Builder {
    pieces: Word,
    text: Vec<u8>,
    /// Quotes make a word even of nothing.
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
        let (name, after) = if rest.first() == Some(&b'(') {
            return Err("`$(`: commands within commands are not there yet".into());
        } else if rest.first() == Some(&b'?') {
            rest.split_at(1)
        } else if let Some(inner) = rest.strip_prefix(b"{") {
            let end = inner.iter().position(|&b| b == b'}').ok_or("`${` without `}`")?;
            (&inner[..end], &inner[end + 1..])
        } else {
            let end = rest.iter().position(|b| !(b.is_ascii_alphanumeric() || *b == b'_')).unwrap_or(rest.len());
            rest.split_at(end)
        };
        if name.is_empty() {
            self.text.push(b'$');
        } else {
            self.end_text();
            self.pieces.push(Piece::Variable(name.to_vec()));
        }
        Ok(after)
    }
}

fn word(line: &[u8]) -> Result<(Word, &[u8]), String> {
    let mut word = Builder { pieces: Vec::new(), text: Vec::new(), quoted: false };
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\'' => {
                let end = rest.iter().position(|&b| b == b'\'').ok_or("a `'` is not closed")?;
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
                word.text.push(next);
                rest = after;
            }
            b'$' => rest = word.variable(rest)?,
            b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'<' | b'>' => {
                word.end_text();
                return Ok((finish(word), &line[line.len() - rest.len() - 1..]));
            }
            _ => word.text.push(byte),
        }
    }
    word.end_text();
    Ok((finish(word), rest))
}

fn finish(mut word: Builder) -> Word {
    if word.pieces.is_empty() && word.quoted {
        word.pieces.push(Piece::Text(Vec::new()));
    }
    word.pieces
}

fn double_quoted<'a>(word: &mut Builder, mut rest: &'a [u8]) -> Result<&'a [u8], String> {
    loop {
        let (&byte, after) = rest.split_first().ok_or("a `\"` is not closed")?;
        rest = after;
        match byte {
            b'"' => return Ok(rest),
            b'$' => rest = word.variable(rest)?,
            b'\\' if matches!(rest.first(), Some(b'"' | b'\\' | b'$')) => {
                word.text.push(rest[0]);
                rest = &rest[1..];
            }
            _ => word.text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Word {
        Vec::from([Piece::Text(s.into())])
    }

    fn words(line: &str) -> Vec<Word> {
        parse(line.as_bytes()).unwrap().remove(0).commands.remove(0)
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(
            words(r#"a 'b  c' "d'e" f\ g '' "x\"y" h'i'"j""#),
            [text("a"), text("b  c"), text("d'e"), text("f g"), text(""), text("x\"y"), text("hij"),]
        );
        assert_eq!(words(r#"'$x \n'"#), [text(r"$x \n")]);
    }

    #[test]
    fn variables() {
        let word = &words(r#"a"$B-${C}"$?$"#)[0];
        let variable = |s: &str| Piece::Variable(s.into());
        let t = |s: &str| Piece::Text(s.into());
        assert_eq!(*word, [t("a"), variable("B"), t("-"), variable("C"), variable("?"), t("$")]);
    }

    #[test]
    fn connectors_and_pipes() {
        let all = parse(b"a|b && c || d; e & f # not this ; x").unwrap();
        let whens: Vec<_> = all.iter().map(|p| (p.when, p.commands.len(), p.background)).collect();
        assert_eq!(
            whens,
            [
                (When::Always, 2, false),
                (When::IfTrue, 1, false),
                (When::IfFalse, 1, false),
                (When::Always, 1, true),
                (When::Always, 1, false),
            ]
        );
        assert_eq!(parse(b"  ;; # nothing").unwrap(), []);
        assert_eq!(parse(b"a;").unwrap().len(), 1);
        assert_eq!(parse(b"a\\;b").unwrap().len(), 1);
        assert_eq!(parse(b"\na # b\n\nc 'd\ne' &&\nf &\ng\n").unwrap().len(), 4, "lines are commands");
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for line in ["'a", "\"a", "a\\", "| a", "a |", "a && ", "&& a", "a > b", "a $(b)", "${x", "a || ; b"] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_pass_through() {
        let all = parse(b"echo \xff\xfe").unwrap();
        assert_eq!(all[0].commands[0][1], [Piece::Text(Vec::from([0xff, 0xfe]))]);
    }
}

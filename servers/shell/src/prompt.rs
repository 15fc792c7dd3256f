//! The conversation with a person.

use crate::edit::{Editor, Event};
use crate::shell::Shell;
use crate::terminal;
use musubi::stream;

const PROMPT: &str = "musubi> ";

/// Reads and runs lines until the input ends. Value: the exit status.
pub fn run(shell: &mut Shell) -> i32 {
    let console = stream::input().is_console();
    shell.interactive = console;
    if console {
        musubi::println!("Musubi. An address is enough: try `tour`, or `help`.");
    }
    let mut editor = Editor::new();
    loop {
        shell.report_jobs();
        let line = if console { read_edited(&mut editor) } else { read_plain() };
        let Some(line) = line else {
            return shell.finish();
        };
        shell.history = editor.history().to_vec();
        shell.line(line.as_bytes());
        if let Some(status) = shell.leaving {
            return status;
        }
    }
}

fn read_edited(editor: &mut Editor) -> Option<alloc::string::String> {
    terminal::raw();
    let columns = terminal::columns();
    musubi::print!("{}", editor.draw(PROMPT, columns));
    let line = loop {
        let mut keys = [0; 64];
        let n = stream::input().read(&mut keys).ok().filter(|&n| n > 0)?;
        let mut done = None;
        let mut draw = false;
        for &key in &keys[..n] {
            // What was pasted behind a line's end belongs to the next line; keys are few, so it is simply kept.
            match editor.key(key) {
                Event::Nothing => {}
                Event::Changed => draw = true,
                Event::Line(line) => {
                    done = Some(match done.take() {
                        None => line,
                        Some(earlier) => alloc::format!("{earlier}\n{line}"),
                    })
                }
                Event::Cancelled => {
                    musubi::println!("^C");
                    draw = true;
                }
                Event::End => {
                    musubi::println!();
                    terminal::cooked();
                    return None;
                }
                Event::Clear => {
                    musubi::print!("\x1b[H\x1b[2J");
                    draw = true;
                }
            }
        }
        if let Some(line) = done {
            if draw {
                musubi::print!("\r{PROMPT}{line}\x1b[K");
            }
            break line;
        }
        if draw {
            musubi::print!("{}", editor.draw(PROMPT, columns));
        }
    };
    musubi::println!();
    terminal::cooked();
    Some(line)
}

/// A line of an input that nobody types.
fn read_plain() -> Option<alloc::string::String> {
    let mut line = alloc::vec::Vec::new();
    let mut byte = [0];
    loop {
        match stream::input().read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => break,
            Ok(1) => line.push(byte[0]),
            _ if line.is_empty() => return None,
            _ => break,
        }
    }
    Some(alloc::string::String::from_utf8_lossy(&line).into_owned())
}

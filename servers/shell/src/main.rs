#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod batch;
mod builtins;
mod edit;
mod glob;
mod io;
mod parse;
mod pipeline;
mod prompt;
mod shell;
mod terminal;

use alloc::vec::Vec;
use musubi::Start;
use shell::Shell;

musubi::program!(run);

fn run(start: &Start) -> i32 {
    let args: Vec<&'static [u8]> = start.args().skip(1).collect();
    let mut shell = Shell::new(start);
    match args.split_first() {
        Some((&b"-c", rest)) => {
            let line = rest.join(&b' ');
            shell.line(&line);
            shell.finish()
        }
        Some((&b"-w", words)) => {
            let words: Vec<Vec<u8>> = words.iter().map(|w| w.to_vec()).collect();
            if !words.is_empty() {
                shell.command(&words);
            }
            shell.finish()
        }
        Some((other, _)) if other.starts_with(b"-") => {
            musubi::eprintln!("shell: unknown argument {}", other.escape_ascii());
            2
        }
        Some((file, words)) => {
            let words: Vec<Vec<u8>> = words.iter().map(|w| w.to_vec()).collect();
            shell.status = batch::run(&mut shell, file, &words);
            shell.finish()
        }
        None => prompt::run(&mut shell),
    }
}

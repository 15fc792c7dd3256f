//! `musubi-clear FILE...`: one line for each. Status 1: one is not clear; 2: one could not be read.

#![forbid(unsafe_code)]

use clear::{XCR0, judge, pages};
use scan::Rules;
use std::process::ExitCode;

fn main() -> ExitCode {
    let files: Vec<_> = std::env::args_os().skip(1).collect();
    let Ok(rules) = Rules::for_xcr0(XCR0) else { return ExitCode::from(2) };
    if files.is_empty() {
        eprintln!("musubi-clear: which files? musubi-clear FILE...");
        return ExitCode::from(2);
    }
    let mut status = 0;
    for file in files {
        let name = file.display();
        let bytes = std::fs::read(&file).map_err(|error| error.to_string());
        match bytes.and_then(|bytes| pages(&bytes).map_err(|refusal| refusal.to_string())) {
            Err(why) => {
                eprintln!("musubi-clear: {name}: {why}");
                status = 2;
            }
            Ok(pages) => match judge(&pages, rules) {
                None => println!("{name}: {} executable pages, clear", pages.len()),
                Some(why) => {
                    println!("{name}: {} executable pages, not clear: {why}", pages.len());
                    status = status.max(1);
                }
            },
        }
    }
    ExitCode::from(status)
}

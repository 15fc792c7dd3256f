//! How often programs send that were not written to be measured (K1-U7): what has come to each post while one ran, as the kernel tells in the info section, and what
//! part of all instructions that may be at most.

use crate::report::{Case, Report};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::info::layout::table;
use musubi::abi::start::StreamRef;
use musubi::command::Command;
use musubi::rt::info::Info;
use musubi::rt::post::{FOR_EVER, Post};
use musubi::rt::{info, time};
use musubi::{Error, eprintln};

/// Messages to oneself, each left in a post and received by a call of its own: of all ways the longest that has a name.
const MESSAGES: u64 = 1000;

/// `bench during NAME TIMES PROGRAM [ARGUMENT...]`: its main function. What the program prints is nobody's.
pub fn during(name: &str, times: &str, program: &[&str]) -> i32 {
    match run(name, times, program) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("bench: during {name}: {why}");
            1
        }
    }
}

fn run(name: &str, times: &str, program: &[&str]) -> Result<(), String> {
    let times: u64 = times.parse().map_err(|_| "how often?")?;
    let (path, arguments) = program.split_first().ok_or("which program?")?;
    let one = one_message().map_err(|e| format!("a message to oneself: {e}"))?;
    let silent = Command::new(path.as_bytes()).args(arguments).stream(1, StreamRef::default());
    let about = info::all().map_err(|e| format!("the info section: {e}"))?;
    let (before, began) = (sent(&about), time::ticks());
    for _ in 0..times {
        silent.spawn().and_then(|child| Ok(child.wait()?)).map_err(|refused| format!("{path}: {refused}"))?;
    }
    let took = time::ticks() - began;
    let sent: Vec<u64> = sent(&about).iter().zip(before).map(|(after, before)| after.wrapping_sub(before)).collect();
    let report = Report::new("talks", true, false);
    let all: u64 = sent.iter().sum();
    let case = Case { case: name, way: "all", bytes: 0 };
    report.average(case, took, times);
    report.count(case, "messages", all);
    for (post, messages) in sent.iter().enumerate().filter(|(_, messages)| **messages > 0) {
        report.count(Case { way: &format!("post-{post}"), ..case }, "messages", *messages);
    }
    report.count(case, "permille", 1000 * all * one / took.max(1));
    Ok(())
}

/// What has come to each post since it was made.
pub fn sent(about: &Info) -> Vec<u64> {
    (0..about.table(table::POST_COUNTS).room).map(|post| about.post_counts(post).sent()).collect()
}

/// What one takes.
pub fn one_message() -> Result<u64, Error> {
    let post = Post::any()?;
    let to_and_fro = || post.send(1, [1; 6], None).and_then(|()| post.receive(FOR_EVER).map(drop));
    to_and_fro()?;
    let began = time::ticks();
    let outcome = (0..MESSAGES).try_for_each(|_| to_and_fro());
    let took = time::ticks() - began;
    post.free(true)?;
    outcome.map(|()| took / MESSAGES)
}

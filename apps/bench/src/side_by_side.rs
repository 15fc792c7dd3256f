//! One thread and one for each processor in turn, by the clock: a service that computes, and operations on files of their own. After each pair
//! nothing is done for a while, so that the host can find out how much it gives just then.

use crate::pool::Posts;
use crate::report::{Case, Report};
use crate::{files, service};
use alloc::format;
use alloc::string::String;
use musubi::eprintln;
use musubi::rt::{task, time};

const PAIRS: usize = 12;
const PAUSE_NS: u64 = 400_000_000;

/// Its main function.
pub fn run() -> i32 {
    match measure() {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("bench: side-by-side: {why}");
            1
        }
    }
}

fn measure() -> Result<(), String> {
    if time::ticks_are_instructions() {
        return Err("processors do not run at once where instructions are counted".into());
    }
    let processors = task::processors().count() as u64;
    let report = Report::new("side-by-side", true, false);
    let way = format!("{processors}-threads");
    let tell = |case: &str, gained| {
        report.count(Case { case, way: &way, bytes: 0 }, "permille", gained);
        time::sleep_ns(PAUSE_NS);
    };
    let posts = Posts::new().map_err(|e| format!("posts: {e}"))?;
    tell("begin", 0);
    for _ in 0..PAIRS {
        tell("service", service::gained(&posts, processors)?);
    }
    posts.free().map_err(|e| format!("freeing: {e}"))?;
    files::side_by_side(processors, PAIRS, tell)
}

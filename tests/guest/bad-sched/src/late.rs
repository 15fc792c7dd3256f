//! A high level that ends, faults, loops or sleeps after a while, above the usual fast level.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod misbehave;

use board::Board;
use misbehave::misbehave;
use musubi::Start;
use musubi::abi::sched::event;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};

musubi::program!(run);

/// Calls on one processor that it answers before it goes wrong. Two threads that compute make a hundred in a second.
const GOOD: u32 = 20;

fn run(start: &Start) -> i32 {
    let mode: &'static str = start.words().next().unwrap_or("end");
    let board =
        musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| sched::words(sched.board()?));
    let Some(board) = board.ok().and_then(Board::new) else { return 1 };
    for processor in 1..task::processors().count() {
        let _ = thread::spawn(move || serve(board, processor, mode), 0);
    }
    serve(board, 0, mode)
}

/// It changes nobody's priority, and raises nobody.
fn serve(board: Board<'static>, processor: usize, mode: &str) -> ! {
    let desk = board.desk(processor);
    desk.set_high(task::identity().thread);
    sched::serve();
    let mut answers = 0;
    loop {
        if desk.is_wanted() {
            answers += 1;
            if answers > GOOD {
                misbehave(mode);
            }
            let asked = desk.begin();
            while desk.receive().is_some() {}
            desk.done(asked);
        } else if desk.seen(event::READY) == 0 {
            time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
}

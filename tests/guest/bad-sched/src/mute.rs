//! A high level of the initial version that chooses in turn, and after a while does not answer any more.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

mod misbehave;

use board::{Board, Chosen, Ready, USUAL};
use misbehave::misbehave;
use musubi::abi::sched::event;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

/// Answers before it goes wrong.
const GOOD: u32 = 200;

fn run(start: &Start) -> i32 {
    let mode: &'static str = start.words().next().unwrap_or("loop");
    let boards = musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| {
        let board = |base| Board::new(sched::words(base)?).ok_or(Error::BadAddress);
        Ok([board(sched.board()?)?, board(sched.private()?)?])
    });
    let Ok(boards) = boards else { return 1 };
    for processor in 1..task::processors().count() {
        let _ = thread::spawn(move || serve(boards, processor, mode), 0);
    }
    serve(boards, 0, mode)
}

fn serve([shown, own]: [Board<'static>; 2], processor: usize, mode: &str) -> ! {
    let (desk, buffer, queue) = (shown.desk(processor), shown.buffer(processor), own.queue(processor));
    desk.set_high(task::identity().thread);
    sched::serve();
    let mut answers = 0;
    loop {
        if buffer.is_asked() {
            while let Some([kind, thread, turn, _]) = buffer.receive() {
                if kind as u32 == event::READY {
                    queue.push(Ready { thread, turn }, USUAL);
                }
            }
            answers += 1;
            if answers > GOOD {
                misbehave(mode);
            }
            let (thread, turn) = queue.pop().map_or((0, 0), |(ready, _)| (ready.thread, ready.turn));
            buffer.answer(Chosen { thread, turn, ns: if thread == 0 { 2_000_000 } else { 10_000_000 } });
        } else if desk.seen(event::READY) == 0 {
            time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
}

//! A high level of the initial version that chooses in turn, and after a while does not answer any more.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::collections::VecDeque;
use board::{Board, Chosen};
use musubi::Start;
use musubi::abi::sched::event;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{probe, sched, task, thread, time};

musubi::program!(run);

/// Answers before it goes wrong.
const GOOD: u32 = 200;

fn run(start: &Start) -> i32 {
    let mode: &'static str = start.words().next().unwrap_or("loop");
    let board =
        musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| sched::words(sched.board()?));
    let Some(board) = board.ok().and_then(Board::new) else { return 1 };
    for processor in 1..task::processors().count() {
        let _ = thread::spawn(move || serve(board, processor, mode), 0);
    }
    serve(board, 0, mode)
}

fn serve(board: Board<'static>, processor: usize, mode: &str) -> ! {
    let (desk, buffer) = (board.desk(processor), board.buffer(processor));
    desk.set_high(task::identity().thread);
    let (mut ready, mut answers) = (VecDeque::new(), 0);
    loop {
        if buffer.is_asked() {
            while let Some([kind, thread, turn, _]) = buffer.receive() {
                if kind as u32 == event::READY {
                    ready.push_back((thread, turn));
                }
            }
            answers += 1;
            if answers > GOOD {
                misbehave(mode);
            }
            let (thread, turn) = ready.pop_front().unwrap_or((0, 0));
            buffer.answer(Chosen { thread, turn, ns: if thread == 0 { 2_000_000 } else { 5_000_000 } });
        } else if desk.seen(event::READY) == 0 {
            time::sleep_ns(1_000_000);
            continue;
        }
        thread::yield_now();
    }
}

fn misbehave(mode: &str) {
    match mode {
        "end" => task::exit(3),
        "fault" => drop(probe::read(0x1000)),
        "sleep" => time::sleep_ns(1_000_000_000_000),
        _ => loop {
            core::hint::spin_loop();
        },
    }
}

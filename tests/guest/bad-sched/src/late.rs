//! A high level that ends, faults, loops or sleeps after a while, above the usual fast level.
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

use board::Board;
use musubi::Start;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{probe, sched, task, thread, time};

musubi::program!(run);

fn run(start: &Start) -> i32 {
    time::sleep_ns(300_000_000);
    match start.words().next() {
        Some("fault") => {
            probe::read(0x1000);
        }
        Some("loop") => on_all(|| {
            loop {
                core::hint::spin_loop();
            }
        }),
        Some("sleep") => on_all(|| thread::park()),
        _ => {}
    }
    3
}

/// On each processor as the high level there, which is called and never done.
fn on_all(hang: fn() -> !) {
    let board =
        musubi::names::lookup("sched").and_then(SchedClient::bind).and_then(|sched| sched::words(sched.board()?));
    let Some(board) = board.ok().and_then(Board::new) else { return };
    let body = move |processor: usize| {
        board.desk(processor).set_high(task::identity().thread);
        hang()
    };
    for processor in 1..task::processors().count() {
        let _ = thread::spawn(move || body(processor), 0);
    }
    body(0)
}

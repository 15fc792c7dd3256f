#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod calm;
mod names;
mod told;
mod torn;

use board::{Board, Ready, USUAL};
use calm::calm;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::sched::{EVENTS, Event, RING_FIRST, event};
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{Trap, probe, sched, task, thread, time};
use musubi::{Error, Start};

musubi::program!(run);

/// Decisions before it goes wrong.
const GOOD: u32 = 60;
/// When it began to name nobody.
static SINCE: AtomicU64 = AtomicU64::new(0);

fn run(start: &Start) -> i32 {
    let mut words = start.words();
    let mode: &'static str = words.next().unwrap_or("loop");
    let good = Good { decisions: GOOD, until: calm(words.next()) };
    let board = match board() {
        Ok(board) => board,
        Err(error) => return error.word() as i32,
    };
    for processor in 1..task::processors().count() as u64 {
        let _ = thread::spawn(move || thread::exit(serve(board, processor, mode, good).word()), 0);
    }
    serve(board, 0, mode, good).word() as i32
}

fn board() -> Result<Board<'static>, Error> {
    let client = musubi::names::lookup("sched").and_then(SchedClient::bind)?;
    Board::new(sched::words(client.board()?)?).ok_or(Error::BadAddress)
}

/// As long as it decides as it should.
#[derive(Clone, Copy)]
struct Good {
    decisions: u32,
    until: u64,
}

fn serve(board: Board<'static>, processor: u64, mode: &str, good: Good) -> Error {
    match decide(board, processor, mode, good) {
        Ok(()) => Error::NotFound,
        Err(error) => error,
    }
}

/// In turn; who is ready stands on the board, where it is to be seen when this has failed.
fn decide(board: Board<'static>, processor: u64, mode: &str, good: Good) -> Result<(), Error> {
    let (queue, desk) = (board.queue(processor as usize), board.desk(processor as usize));
    if processor == 0 && mode.starts_with("passing") {
        torn::offer(mode)?;
    }
    let expected = if mode == "hears" { told::expected()? } else { &[] };
    let ring = sched::words(stub::scheduler_set(&Trap, processor)?)?;
    let mut head = 0;
    stub::thread_next(&Trap, 0, 0, u64::MAX)?;
    for decision in 0.. {
        let tail = ring[0].load(Ordering::Acquire) >> 32;
        while head != tail {
            let at = RING_FIRST as usize / 8 + (head % u64::from(EVENTS)) as usize * size_of::<Event>() / 8;
            if mode == "strange" {
                // As it would be with a kernel that has kinds of events which this level does not know.
                desk.saw(ring[at].load(Ordering::Relaxed) as u32 + 100);
            }
            if ring[at].load(Ordering::Relaxed) as u32 == event::READY {
                let [thread, turn] = [1, 2].map(|word| ring[at + word].load(Ordering::Relaxed));
                if !queue.push(Ready { thread, turn }, USUAL) {
                    return Err(Error::TooBig);
                }
            }
            if mode == "hears" {
                told::hear(expected, [0, 1, 2, 3].map(|word| ring[at + word].load(Ordering::Relaxed)));
            }
            head += 1;
        }
        // Nobody writes the other half of this word while the scheduler decides; if somebody did, it would be read again.
        ring[0].store(tail << 32 | head, Ordering::Release);
        if decision >= good.decisions && time::now_ns() >= good.until {
            let next = queue.first(USUAL as usize).map(|(next, _)| next);
            match misbehave(mode, processor, ring, next) {
                // What has happened meanwhile is to be read first: again.
                Err(Error::Busy) => continue,
                other => other?,
            }
        }
        let answer = match queue.pop() {
            Some((next, place)) => {
                names::remember(processor, next);
                (stub::thread_next(&Trap, next.thread, next.turn, 5_000_000), Some((next, place)))
            }
            None => (stub::thread_next(&Trap, 0, 0, 20_000_000), None),
        };
        match answer {
            (Ok(_) | Err(Error::Changed), _) => {}
            (Err(Error::Busy), again) => _ = again.map(|(next, place)| queue.put(next, place)),
            (Err(error), _) => return Err(error),
        }
    }
    Ok(())
}

fn misbehave(mode: &str, processor: u64, ring: &[AtomicU64], next: Option<Ready>) -> Result<(), Error> {
    match mode {
        // It does what it should, here.
        "strange" | "hears" | "passing-fault" | "passing-loop" => Ok(()),
        "loop" => loop {
            core::hint::spin_loop();
        },
        "wrong" => stub::thread_next(&Trap, 1 << 60, 1, u64::MAX).map(drop),
        "turn" => match next {
            Some(Ready { thread, turn }) => stub::thread_next(&Trap, thread, turn + 1000, u64::MAX).map(drop),
            None => Ok(()),
        },
        "fault" => {
            probe::read(0x1000);
            Ok(())
        }
        "waits" | "elsewhere" => names::unavailable(processor, mode == "waits"),
        "nobody" => {
            // A kernel that puts up with it would say nothing for ever.
            let since = SINCE
                .compare_exchange(0, time::now_ns(), Ordering::SeqCst, Ordering::SeqCst)
                .unwrap_or_else(|since| since);
            if since != 0 && time::now_ns() > since + 3_000_000_000 {
                task::exit(3);
            }
            // For a moment, or for long.
            stub::thread_next(&Trap, 0, 0, if processor % 2 == 0 { 1 } else { 5_000_000 })?;
            Err(Error::Busy)
        }
        "exit" => thread::exit(3),
        "wait" => {
            time::sleep_ns(1_000_000_000);
            Ok(())
        }
        "ring" => {
            ring[0].fetch_add(7, Ordering::SeqCst);
            stub::thread_next(&Trap, 0, 0, u64::MAX).map(drop)
        }
        "peek" => {
            let client = musubi::names::lookup("sched").and_then(SchedClient::bind)?;
            let shown = sched::words(client.board()?)?;
            if client.private() != Err(Error::Denied) {
                task::exit(4);
            }
            // Until the high level has said where its memory is.
            let address = shown.last().map_or(0, |word| word.load(Ordering::Acquire));
            if address != 0 {
                probe::read(address);
            }
            Ok(())
        }
        // What it says is not what it does: `end`.
        _ => task::exit(3),
    }
}

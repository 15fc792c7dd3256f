#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "musubi", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod torn;

use board::{Board, Ready, USUAL};
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::layout::GRANULE;
use musubi::abi::sched::{EVENTS, Event, RING_FIRST, event};
use musubi::abi::task::cause;
use musubi::interfaces::sched::SchedClient;
use musubi::rt::{Trap, probe, sched, section, task, thread, time};
use musubi::{Error, Rights, Start};

musubi::program!(run);

/// What programs of the test read, and must not.
const REFUSED: u64 = 4096;
/// Decisions before it goes wrong.
const GOOD: u32 = 60;

fn run(start: &Start) -> i32 {
    let mode: &'static str = start.words().next().unwrap_or("loop");
    let board = match board() {
        Ok(board) => board,
        Err(error) => return error.word() as i32,
    };
    for processor in 1..task::processors().count() as u64 {
        let _ = thread::spawn(move || thread::exit(serve(board, processor, mode).word()), 0);
    }
    serve(board, 0, mode).word() as i32
}

fn board() -> Result<Board<'static>, Error> {
    let client = musubi::names::lookup("sched").and_then(SchedClient::bind)?;
    Board::new(sched::words(client.board()?)?).ok_or(Error::BadAddress)
}

fn serve(board: Board<'static>, processor: u64, mode: &str) -> Error {
    match decide(board, processor, mode) {
        Ok(()) => Error::NotFound,
        Err(error) => error,
    }
}

/// In turn; who is ready stands on the board, where it is to be seen when this has failed.
fn decide(board: Board<'static>, processor: u64, mode: &str) -> Result<(), Error> {
    let (queue, desk) = (board.queue(processor as usize), board.desk(processor as usize));
    if processor == 0 && mode.starts_with("passing") {
        torn::offer(mode)?;
    }
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
                hear([0, 1, 2, 3].map(|word| ring[at + word].load(Ordering::Relaxed)));
            }
            head += 1;
        }
        // Nobody writes the other half of this word while the scheduler decides; if somebody did, it would be read again.
        ring[0].store(tail << 32 | head, Ordering::Release);
        if decision >= GOOD {
            let next = queue.first(USUAL as usize).map(|(next, _)| next);
            match misbehave(mode, ring, next) {
                // What has happened meanwhile is to be read first: again.
                Err(Error::Busy) => continue,
                other => other?,
            }
        }
        let answer = match queue.pop() {
            Some((next, place)) => (stub::thread_next(&Trap, next.thread, next.turn, 5_000_000), Some((next, place))),
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

/// Ends when it hears of a refused access to the page at [`REFUSED`], with status 10 if all is as it should be and the thread is still there, with 13 if it is
/// not and its text can be gone, too; with 12 if something is told otherwise. (11 would say that the high level does not answer.)
fn hear([kind, thread, address, b]: [u64; 4]) {
    if kind as u32 != event::EXCEPTION || address != REFUSED {
        return;
    }
    let (text, right) = (b & !(GRANULE - 1), b % GRANULE);
    let is_right = thread != 0 && kind >> 32 == cause::NO_SECTION && right == Rights::READ.bits().into();
    // First: a program's text is there as long as its threads are.
    let has_text = section::owner(text).is_ok();
    task::exit(match (is_right, thread::info(thread)) {
        (true, Some(_)) if has_text => 10,
        (true, None) => 13,
        _ => 12,
    });
}

fn misbehave(mode: &str, ring: &[core::sync::atomic::AtomicU64], next: Option<Ready>) -> Result<(), Error> {
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

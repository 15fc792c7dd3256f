//! ITC as a transport: the same server, the same methods, on a thread of the server's.

use crate::deaths::{no_more_lost, settled};
use crate::memory::{data, store};
use crate::peer::{Peer, op, six};
use crate::report::{Check, Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use musubi::abi::info::Memory;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::interfaces::colour_map::ColourMapClient;
use musubi::rt::bound::result_of;
use musubi::rt::later::Later;
use musubi::rt::{Bound, section, task, thread, time};
use musubi::{Error, Rights, names};

pub const CHECKS: &[Check] = &[
    ("the_client_chooses", the_client_chooses),
    ("a_list_is_walked_by_its_head", a_list_is_walked_by_its_head),
    ("answers_are_collected_later", answers_are_collected_later),
    ("pointers_are_checked", pointers_are_checked),
    ("a_method_that_faults", a_method_that_faults),
    ("a_server_that_ends", a_server_that_ends),
    ("clients_that_end_harm_nobody", clients_that_end_harm_nobody),
    ("lines_are_limited", lines_are_limited),
    ("a_line_is_one_threads", a_line_is_one_threads),
];

/// The gate behind the peer's only method.
const OPENER: u64 = 1;

fn line(peer: &Peer) -> Result<Bound, String> {
    Bound::bind_line(peer.gate, PAGE, OPENER).map_err(doing("a line"))
}

fn call(line: &Bound, what: u64, words: &[u64]) -> Result<u64, Error> {
    line.call(0, six(what, words)).and_then(result_of)
}

/// One that opens a line to the peer at a gate and ends, in some way.
pub fn role(how: &str, gate: u64) -> i32 {
    let Ok(line) = Bound::bind_line(gate, PAGE, OPENER) else { return 1 };
    let posted: Vec<_> = (0..8).map_while(|_| Later::of(&line).begin(false, 0, six(op::ADD, &[1]), []).ok()).collect();
    match how {
        // With the section that the server's thread is working on, and answers that nobody collects.
        "unbind" => {
            core::mem::forget(posted);
            i32::from(musubi::abi::calls::stub::gate_unbind(&musubi::rt::Trap, line.binding().number).is_err())
        }
        "exit" => task::exit(0),
        "scribble" => {
            if let Ok(words) = musubi::rt::sched::words(line.binding().args) {
                for (n, word) in (0u64..).zip(words).take(400) {
                    word.store(n.wrapping_mul(0x9e37_79b9_7f4a_7c15), core::sync::atomic::Ordering::Relaxed);
                }
            }
            time::sleep_ns(1_000_000);
            core::mem::forget(posted);
            0
        }
        _ => 2,
    }
}

fn colour_map() -> Result<(musubi::command::Child, u64), String> {
    let name = format!("colour-map-{}", musubi::start().task());
    let child = Command::new(b"bin/colour-map").arg(name.as_bytes()).spawn().map_err(doing("colour-map"))?;
    Ok((child, names::await_name(&name, 20_000_000_000).map_err(doing("its name"))?))
}

/// The same picture by both, and by posted calls.
fn the_client_chooses() -> Outcome {
    let (child, gate) = colour_map()?;
    let mut table = [0; 256];
    (0u8..=255).zip(&mut table).for_each(|(i, entry)| *entry = i.wrapping_mul(7) ^ 0x5a);
    let picture: Vec<u8> = (0..8192u32).map(|n| (n * 31 >> 3) as u8).collect();
    let mapped: Vec<u8> = picture.iter().map(|pixel| table[usize::from(*pixel)]).collect();
    let epc = ColourMapClient::bind(gate).map_err(doing("bind"))?;
    let itc = ColourMapClient::bind_itc(gate, 64 << 10).map_err(doing("bind_itc"))?;
    for (way, client) in [("EPC", &epc), ("ITC", &itc)] {
        same!(client.bound().line().is_some(), way == "ITC", "a line");
        let mut own = picture.clone();
        client.map(&mut own, &table).map_err(doing(way))?;
        holds!(own == mapped, "by {way}, copied: not the right picture");
        let (mut lent, mut there) =
            (client.alloc(8192).map_err(doing("a loan"))?, client.alloc(256).map_err(doing("a loan"))?);
        lent.copy_from_slice(&picture);
        there.copy_from_slice(&table);
        let by = (&*there).try_into().map_err(|_| "256 bytes")?;
        let posted = client.later().map(&mut lent, by).map_err(doing("post"))?;
        posted.wait().map_err(doing("collect"))?;
        holds!(*lent == mapped[..], "by {way}, posted: not the right picture");
    }
    // With each call, by one binding.
    for round in 0..4u8 {
        for (way, client) in [("ITC", &itc), ("EPC", &itc.by_gate())] {
            same!(client.bound().line().is_some(), way == "ITC", "a line");
            let mut own = picture.clone();
            client.map(&mut own, &table).map_err(doing(way))?;
            holds!(own == mapped, "by {way} in round {round}: not the right picture");
        }
    }
    // A line is one thread's; the gate is everybody's.
    let shared = Arc::new(itc);
    let other = shared.clone();
    let asks = move || {
        let both = (other.mapped(), other.by_gate().mapped());
        drop(other);
        thread::exit(u64::from(both != (Err(Error::Busy), Ok(12 * 8192))));
    };
    let status = thread::spawn(asks, 0).and_then(|one| one.join()).map_err(doing("another thread"))?;
    same!(status, 0, "whether the same calls differ on another thread");
    let itc = Arc::into_inner(shared).ok_or("somebody else has the client")?;
    same!(epc.mapped(), Ok(12 * 8192), "pixels of all ways");
    let mut own = [0; 16];
    same!(itc.later().map(&mut own, &table).err(), Some(Error::BadAddress), "posting what is not lent");
    itc.unbind().map_err(doing("unbind"))?;
    child.kill().map_err(doing("kill"))
}

/// CUBIX-6: by whoever serves it, without a copy.
fn a_list_is_walked_by_its_head() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let list = data(4 * PAGE).map_err(doing("create"))?;
    section::grant(list.base(), &everybody(Rights::READ)).map_err(doing("grant"))?;
    // Every third place of the section, round and round: a list that is not in order.
    let places = 4 * PAGE / 16;
    let at = |n: u64| list.base() + n * 7 % places * 16;
    let mut sum = 0;
    for n in 0..200 {
        store(at(n), n * n + 3);
        store(at(n) + 8, if n == 199 { 0 } else { at(n + 1) });
        sum += n * n + 3;
    }
    let line = line(&peer)?;
    same!(peer.call(op::SUM_LIST, &[at(0)]), Ok(sum), "the sum by EPC");
    same!(peer.plain(op::SUM_LIST, &[at(0)]), Ok(sum), "the sum by a plain call");
    same!(call(&line, op::SUM_LIST, &[at(0)]), Ok(sum), "the sum by ITC");
    // By EPC it is this thread that walks, by ITC the server's; the text is the server's in both.
    let me = task::identity().thread;
    let [walks, text] = peer.pair(op::WHO).map_err(doing("who"))?;
    same!((walks, text), (me, peer.text), "who executes a call by EPC");
    let [walks, text] = line.call(0, six(op::WHO, &[])).map_err(doing("who"))?;
    holds!(walks != me && text == peer.text, "ITC runs on thread {walks} in text {text:#x}");
    peer.end()
}

fn answers_are_collected_later() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let line = line(&peer)?;
    for round in 0..20 {
        let posted: Result<Vec<_>, _> =
            (0..16).map(|_| Later::of(&line).begin(false, 0, six(op::ADD, &[1]), [])).collect();
        let mut posted = posted.map_err(doing("post"))?;
        same!(Later::of(&line).begin(false, 0, six(op::ADD, &[1]), []).err(), Some(Error::Busy), "one more");
        if round % 2 == 1 {
            posted.reverse();
        }
        let answers: Result<Vec<_>, _> = posted.into_iter().map(|p| p.wait().and_then(result_of)).collect();
        let mut answers = answers.map_err(doing("collect"))?;
        if round % 2 == 1 {
            answers.reverse();
        }
        let expected: Vec<u64> = (1..=16).map(|n| round * 17 + n).collect();
        same!(answers, expected, "the sums of round {round}");
        same!(call(&line, op::ADD, &[1]), Ok(round * 17 + 17), "a call between");
    }
    // One that nobody collects is waited for, and forgotten.
    drop(Later::of(&line).begin(false, 0, six(op::ADD, &[1]), []).map_err(doing("post"))?);
    same!(call(&line, op::ADD, &[0]), Ok(20 * 17 + 1), "the sum");
    peer.end()
}

/// A pointer to what only the server may read is refused, on whichever thread the method runs.
fn pointers_are_checked() -> Outcome {
    let (child, gate) = colour_map()?;
    let itc = ColourMapClient::bind_itc(gate, 4096).map_err(doing("bind_itc"))?;
    let shared = data(PAGE).map_err(doing("create"))?;
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let there = itc.alloc(256).map_err(doing("a loan"))?;
    let text = section::info(gate).map_err(doing("its text"))?.base;
    let line = itc.bound().binding().args;
    for (name, at) in
        [("its text", text), ("a shared section", shared.base()), ("nothing", 8), ("the line itself", line)]
    {
        let outcome = itc.bound().call(0, [at, 16, there.address(), 0, 0, 0]).and_then(result_of);
        same!(outcome, Err(Error::Refused), "a pointer to {name}");
    }
    child.kill().map_err(doing("kill"))
}

fn a_method_that_faults() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let line = line(&peer)?;
    for n in 1..=20 {
        same!(call(&line, op::FAULT, &[]), Err(Error::Faulted), "fault {n}");
        same!(call(&line, op::ADD, &[1]), Ok(n), "the call after it");
    }
    same!(line.call(7, [0; 6]), Err(Error::BadArgument), "a gate that is not there");
    same!(call(&line, 9999, &[]), Err(Error::NoSuchCall), "an operation that is not there");
    // The thread of the line ends; the server does not.
    same!(call(&line, op::THREAD_EXIT, &[0]), Err(Error::Dead), "a method that ends its thread");
    same!(call(&line, op::ADD, &[1]), Err(Error::Dead), "the line after that");
    same!(peer.call(op::ADD, &[0]), Ok(20), "the server");
    peer.end()
}

fn a_server_that_ends() -> Outcome {
    for how in ["exit", "killed"] {
        let peer = Peer::start_with_lines()?;
        let line = line(&peer)?;
        let flags = data(PAGE).map_err(doing("create"))?;
        section::grant(flags.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        if how == "exit" {
            same!(call(&line, op::EXIT, &[1]), Err(Error::Dead), "a call in which the server exits");
        } else {
            let child = peer.child;
            let killer = thread::spawn(
                move || {
                    time::sleep_ns(5_000_000);
                    let _ = child.kill();
                },
                0,
            );
            same!(call(&line, op::LOOP, &[flags.base()]), Err(Error::Dead), "a call in which the server is killed");
            killer.map_err(doing("thread"))?.join().map_err(doing("join"))?;
        }
        same!(call(&line, op::ADD, &[1]), Err(Error::Dead), "the call after that");
        line.unbind().map_err(doing("unbind"))?;
        let _ = peer.child.wait_for(20_000_000_000);
        peer.bound.unbind().map_err(doing("unbind"))?;
        flags.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// Programs that open a line and are gone, with all that the server's thread was using.
fn clients_that_end_harm_nobody() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let gate = format!("{}", peer.gate);
    let once = |n: usize| -> Outcome {
        let how = ["unbind", "exit", "scribble"][n % 3];
        let exit = crate::sections::role(&["lines", how, &gate])?;
        same!(exit.code, 0, "the client's status ({how})");
        peer.call(op::ADD, &[0]).map(drop).map_err(doing("the server"))
    };
    (0..24).try_for_each(once)?;
    // How much the server's heap needs depends on how many lines are there at once, and the last threads may still be on
    // their way out. What is lost is lost each time.
    let mut lost = Ok(());
    for _ in 0..4 {
        let before = settled()?;
        (0..30).try_for_each(once)?;
        let after = settled()?;
        let all = |m: &Memory| (m.sections, m.tasks, m.threads);
        lost = if all(&after) == all(&before) {
            // Tables of views grow by a page for each 2 MiB of addresses: less than for one client of fifteen.
            no_more_lost(&before, &after, 2 * PAGE)
        } else {
            Err(format!("sections, tasks, threads: {:?}, before {:?}", all(&after), all(&before)))
        };
        if lost.is_ok() {
            break;
        }
    }
    lost?;
    same!(call(&line(&peer)?, op::ADD, &[0]).is_ok(), true, "a line after all that");
    peer.end()
}

fn lines_are_limited() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let lines: Result<Vec<_>, String> = (0..4).map(|_| line(&peer)).collect();
    let lines = lines?;
    same!(Bound::bind_line(peer.gate, PAGE, OPENER).err(), Some(Error::Busy), "one more of a task");
    for line in &lines {
        call(line, op::ADD, &[1]).map_err(doing("one of them"))?;
    }
    for line in lines {
        line.unbind().map_err(doing("unbind"))?;
    }
    let until = time::now_ns() + 20_000_000_000;
    loop {
        match Bound::bind_line(peer.gate, PAGE, OPENER) {
            Ok(line) => {
                call(&line, op::ADD, &[1]).map_err(doing("a line after them"))?;
                break;
            }
            Err(Error::Busy) if time::now_ns() < until => time::sleep_ns(1_000_000),
            Err(e) => return Err(format!("a line after them: {e}")),
        }
    }
    let plain = Peer::start()?;
    let refused = Bound::bind_line(plain.gate, PAGE, OPENER).err();
    holds!(refused.is_some(), "a line of a server that offers none");
    plain.end()?;
    peer.end()
}

fn a_line_is_one_threads() -> Outcome {
    let peer = Peer::start_with_lines()?;
    let line: &'static Bound = alloc::boxed::Box::leak(alloc::boxed::Box::new(line(&peer)?));
    let told: &'static core::sync::atomic::AtomicU64 = alloc::boxed::Box::leak(alloc::boxed::Box::default());
    let other = thread::spawn(
        || {
            let word = call(line, op::ADD, &[1]).map_or_else(Error::word, |_| 0);
            told.store(word, core::sync::atomic::Ordering::SeqCst);
        },
        0,
    );
    other.map_err(doing("thread"))?.join().map_err(doing("join"))?;
    same!(told.load(core::sync::atomic::Ordering::SeqCst), Error::Busy.word(), "another thread's call");
    same!(call(line, op::ADD, &[1]), Ok(1), "the line's own thread's");
    peer.end()
}

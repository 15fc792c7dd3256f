//! Queues (SSS-80 to 97, 103, 104).

use super::only;
use crate::memory::{data, load, store};
use crate::report::{Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::PAGE;
use musubi::abi::mbcf::{DATA_MAX, FifoWords, STRUCTURE_ALIGN, fifo_flag, magic, option, status};
use musubi::rt::mbcf::{Queue, Sent};
use musubi::rt::section::{self};
use musubi::rt::{Section, Trap, fault, task, thread};
use musubi::{Error, Rights};

/// A queue in a section of its own, with a buffer of so many bytes a page behind its structure.
fn queue(len: u64, with_sender: bool) -> Result<(Section, Queue), String> {
    let section = data(8 * PAGE).map_err(doing("create"))?;
    let at = section.base();
    let queue = Queue::init(at, at + PAGE, at + PAGE + len, with_sender).map_err(doing("fifo_init"))?;
    Ok((section, queue))
}

/// What is seen in memory.
fn seen(at: u64) -> FifoWords {
    FifoWords { start: load(at), end: load(at + 8), read: load(at + 16), flags: load(at + 24), write: load(at + 32) }
}

fn taken(queue: Queue) -> Result<Option<Vec<u8>>, String> {
    let mut bytes = [0; DATA_MAX as usize + 64];
    let len = queue.read(&mut bytes).map_err(doing("fifo_read"))?;
    Ok(len.map(|len| bytes[..len].to_vec()))
}

fn record(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (n * 31 + at) as u8).collect()
}

pub fn arrive() -> Outcome {
    let (section, queue) = queue(4 * PAGE, false)?;
    let at = section.base();
    let begin =
        FifoWords { start: at + PAGE, end: at + 5 * PAGE, read: at + PAGE, flags: magic::FIFO, write: at + PAGE };
    same!(seen(at), begin, "a new queue");
    same!(taken(queue)?, None, "what is in it");
    for len in [0, 1, 4, 7, 8, 9, 100, 1023, DATA_MAX as usize] {
        let wanted = record(len, len);
        let before = seen(at).write;
        same!(queue.append(&wanted), Ok(Sent::Registered), "a record of {len} bytes");
        holds!(seen(at).write != before && seen(at).read == before, "arrival is not seen in memory");
        same!(taken(queue)?, Some(wanted), "that record");
        same!(seen(at).read, seen(at).write, "what is seen of an empty queue");
    }
    let mut small = [0; 8];
    same!(queue.append(&[3; 9]), Ok(Sent::Registered), "one more");
    same!(queue.read(&mut small), Err(Error::TooBig), "one for which there is no room at the reader's");
    same!(taken(queue)?, Some(alloc::vec![3; 9]), "it is still there");
    same!(stub::mbcf_fifo(&Trap, at, at, DATA_MAX + 1, 0, 0), Err(Error::TooBig), "a longer record");
    // Another program's record (SSS-80), which could not be read nor written where it is now.
    section::grant(at, &everybody(Rights::CALL)).map_err(doing("grant"))?;
    let exit = run_role(&["mbcf", "send", &format!("{at}"), "5", "100"])?;
    same!(exit.code, 0, "how the sender ended");
    for n in 0..5 {
        same!(taken(queue)?, Some(record(n, 100)), "record {n} of another program");
    }
    Ok(())
}

pub fn go_round() -> Outcome {
    // Sizes that do not divide the buffer, over borders of pages.
    for (size, len) in [(PAGE + 24, 40), (2 * PAGE - 8, 1001), (64, 13), (16, 0)] {
        let (section, queue) = queue(size, false)?;
        let (mut sent, mut read) = (0, 0);
        for round in 0..400 {
            while queue.append(&record(sent, len)).map_err(doing("append"))? == Sent::Registered {
                sent += 1;
            }
            for _ in 0..1 + round % 3 {
                let Some(got) = taken(queue)? else { break };
                same!(got, record(read, len), "record {read} in a buffer of {size}");
                read += 1;
            }
        }
        while let Some(got) = taken(queue)? {
            same!(got, record(read, len), "record {read} in a buffer of {size}");
            read += 1;
        }
        same!(read, sent, "records in a buffer of {size}");
        holds!(sent >= 400, "only {sent} records went round");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// SSS-88 to 90: a record for which there is no room is cancelled whole, and its sender hears of it if it asked.
pub fn full() -> Outcome {
    let (section, queue) = queue(64, false)?;
    let at = section.base();
    let report = at + 6 * PAGE;
    let from = at + 7 * PAGE;
    let append = |len, options| {
        store(report, 50);
        stub::mbcf_fifo(&Trap, at, from, len, options, report).map(|value| (value, load(report)))
    };
    same!(append(24, option::STATUS), Ok((status::DONE, status::DONE)), "the first");
    let (before, bytes) = (seen(at), (0..8).map(|n| load(at + PAGE + 8 * n)).collect::<Vec<_>>());
    same!(append(24, option::STATUS), Ok((status::CANCELLED, status::CANCELLED)), "one without room");
    same!(append(24, 0), Ok((status::CANCELLED, 50)), "one that is not reported");
    same!(seen(at), before, "the queue after that");
    same!((0..8).map(|n| load(at + PAGE + 8 * n)).collect::<Vec<_>>(), bytes, "the buffer");
    // The first was cancelled and the second is in: no order.
    same!(append(8, 0), Ok((status::DONE, 50)), "a smaller one");
    same!(append(64, option::STATUS), Err(Error::TooBig), "one for which there never is room");
    same!(load(report), status::FAILED, "its report");
    same!(
        (taken(queue)?.map(|r| r.len()), taken(queue)?.map(|r| r.len()), taken(queue)?),
        (Some(24), Some(8), None),
        "what is in it"
    );
    Ok(())
}

pub fn rights() -> Outcome {
    let (section, queue) = queue(PAGE, false)?;
    let at = section.base();
    for given in
        [Rights::empty(), Rights::READ, Rights::READ | Rights::WRITE, Rights::CALL, Rights::READ | Rights::CALL]
    {
        only(at, given)?;
        let sent = queue.append(b"some");
        same!(sent == Ok(Sent::Registered), given.contains(Rights::CALL), "a record with {given}: {sent:?}");
        let mut to = [0; 8];
        let read = queue.read(&mut to);
        same!(read.is_ok(), given.contains(Rights::READ), "reading with {given}: {read:?}");
    }
    // SSS-84: for reading only, to everybody. The kernel alone changes it.
    only(at, Rights::READ | Rights::CALL)?;
    same!(queue.append(b"some"), Ok(Sent::Registered), "a record");
    let before = seen(at);
    // SAFETY: the check's own section; a store that is not allowed is an error.
    let bytes = unsafe { core::slice::from_raw_parts_mut(at as *mut u8, 8) };
    holds!(fault::copy_out(bytes, &[0; 8]).is_err(), "the structure can be written");
    holds!(stub::mbcf_store(&Trap, at, 0, 0, 0).is_err(), "an operation has written the structure");
    same!(seen(at), before, "the structure");
    same!(taken(queue)?, Some(b"some".to_vec()), "the record");
    // Who may not change the list makes none and ends none.
    let me = task::identity();
    let entry = musubi::AclEntry {
        principal: musubi::abi::rights::principal::TASK,
        rights: (Rights::READ | Rights::WRITE | Rights::CALL).bits(),
        id: me.task,
        text: me.text,
    };
    section::grant(at, &entry).map_err(doing("grant"))?;
    holds!(
        Queue::init(at + 64, at + PAGE, at + 2 * PAGE, false).is_err_and(|e| e.refusal().is_some()),
        "a queue without the right"
    );
    holds!(queue.end().is_err_and(|e| e.refusal().is_some()), "its end without the right");
    Ok(())
}

/// SSS-82: only what was initialised is a queue, whatever it looks like.
pub fn forged() -> Outcome {
    let (section, queue) = queue(PAGE, false)?;
    let at = section.base();
    let words = seen(at);
    let copy = at + 128;
    for (n, word) in [words.start, words.end, words.read, words.flags, words.write].into_iter().enumerate() {
        store(copy + 8 * n as u64, word);
    }
    same!(Queue::at(copy).append(b"some"), Err(Error::NotFound), "a copy of a structure");
    same!(Queue::at(copy).read(&mut [0; 8]), Err(Error::NotFound), "reading from a copy");
    for off in [1, 8, 32, 63] {
        same!(Queue::at(at + off).append(b"some"), Err(Error::BadAddress), "an address that is not aligned");
        same!(Queue::init(at + off, at + PAGE, at + 2 * PAGE, false).err(), Some(Error::BadAddress), "a queue there");
    }
    let init =
        |start: u64, end: u64, flags| stub::fifo_init(&Trap, copy, at.wrapping_add(start), at.wrapping_add(end), flags);
    for (start, end) in [(PAGE, PAGE), (PAGE, PAGE + 8), (PAGE + 4, 2 * PAGE), (2 * PAGE, PAGE), (PAGE, 0)] {
        same!(init(start, end, 0), Err(Error::BadArgument), "a buffer from {start:#x} to {end:#x}");
    }
    let other = data(PAGE).map_err(doing("create"))?.base();
    same!(stub::fifo_init(&Trap, copy, other, other + PAGE, 0), Err(Error::BadAddress), "a buffer in another section");
    for (start, end) in [(PAGE, 9 * PAGE), (0, PAGE), (PAGE.wrapping_neg(), PAGE)] {
        same!(init(start, end, 0), Err(Error::BadAddress), "a buffer from {start:#x} to {end:#x}");
    }
    same!(init(PAGE, 2 * PAGE, !fifo_flag::SENDER), Err(Error::BadArgument), "flags that there are not");
    let code = forged as *const () as u64 & !63;
    holds!(Queue::init(code, code + 64, code + 128, false).is_err(), "a queue in code");
    // Whatever is written over a structure changes nothing but the picture.
    same!(queue.append(b"one"), Ok(Sent::Registered), "a record");
    (0..8).for_each(|n| store(at + 8 * n, other));
    same!(queue.append(b"two"), Ok(Sent::Registered), "a record after the structure was spoilt");
    same!(load(other), 0, "what a forged structure points to");
    same!(
        (taken(queue)?, taken(queue)?, taken(queue)?),
        (Some(b"one".to_vec()), Some(b"two".to_vec()), None),
        "the records"
    );
    // A length in the buffer that cannot be.
    for wrong in [u64::MAX, 9, PAGE, u64::MAX - 15] {
        same!(queue.append(b"12345678"), Ok(Sent::Registered), "a record");
        store(seen(at).read, wrong);
        same!(queue.read(&mut [0; 64]), Err(Error::Changed), "a length of {wrong:#x}");
        same!(taken(queue)?, None, "what is left");
    }
    queue.end().map_err(doing("end"))?;
    same!(queue.append(b"some"), Err(Error::NotFound), "a queue that was ended");
    same!(queue.end(), Err(Error::NotFound), "its second end");
    // One whose buffer the section no longer has.
    let far = Queue::init(at, at + 6 * PAGE, at + 7 * PAGE, false).map_err(doing("fifo_init"))?;
    let clone = Section::clone_of(at, 0, 0, 0).map_err(doing("clone"))?;
    let mut section = section;
    section.resize(6 * PAGE).map_err(doing("resize"))?;
    same!(far.append(b"some"), Err(Error::NotFound), "a queue without its buffer");
    same!(Queue::at(clone.base()).append(b"some"), Err(Error::NotFound), "a clone's");
    section.delete().map_err(doing("delete"))?;
    same!(far.append(b"some"), Err(Error::NotFound), "a queue that is gone");
    Ok(())
}

/// SSS-117: who sends is said by the kernel.
pub fn senders() -> Outcome {
    let (section, queue) = queue(PAGE, true)?;
    let at = section.base();
    let me = task::identity();
    same!(queue.append(b"mine"), Ok(Sent::Registered), "a record");
    let own = taken(queue)?.unwrap_or_default();
    let words = |bytes: &[u8]| -> Vec<u64> {
        bytes.chunks_exact(8).take(5).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
    };
    same!(words(&own), [me.node, me.user, me.task, me.thread, me.text], "who has sent it");
    same!(own.get(40..), Some(&b"mine"[..]), "what was sent");
    section::grant(at, &everybody(Rights::CALL)).map_err(doing("grant"))?;
    let words_of = words(&own);
    let pretended: Vec<String> = words_of.iter().map(|word| format!("{word}")).collect();
    let mut role = alloc::vec!["mbcf", "pretend"];
    let name = format!("{at}");
    role.push(&name);
    role.extend(pretended.iter().map(String::as_str));
    let exit = run_role(&role)?;
    let other = taken(queue)?.unwrap_or_default();
    same!(exit.code, words(&other).get(2).map_or(0, |task| task & 0xff), "the task that another program says it is");
    holds!(words(&other)[2] != me.task && words(&other)[3] != me.thread, "another program sends as this one");
    same!(words(&other[40..]), words_of, "what it has pretended, as mere data");
    Ok(())
}

static AT: AtomicU64 = AtomicU64::new(0);
static GOT: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];
static WRONG: AtomicU64 = AtomicU64::new(0);
static ALL: AtomicU64 = AtomicU64::new(0);

/// Four threads send and two read, all at once (SSS-85, 86): each record is read once and whole.
pub fn many() -> Outcome {
    const EACH: u64 = 500;
    let (section, _) = queue(1000, false)?;
    AT.store(section.base(), Ordering::SeqCst);
    thread::together(6, |n| {
        let queue = Queue::at(AT.load(Ordering::SeqCst));
        if n < 4 {
            for count in 1..=EACH {
                let len = 16 + (count * 13 % 200) as usize;
                let mut data = alloc::vec![n as u8 + 1; len];
                data[..8].copy_from_slice(&count.to_le_bytes());
                while queue.append(&data) != Ok(Sent::Registered) {
                    thread::yield_now();
                }
            }
            return;
        }
        let mut data = [0; 256];
        while ALL.load(Ordering::SeqCst) < 4 * EACH {
            match queue.read(&mut data) {
                Ok(Some(len)) => {
                    let count = u64::from_le_bytes(data[..8].try_into().unwrap_or_default());
                    let whole =
                        len == 16 + (count * 13 % 200) as usize && data[8..len].iter().all(|byte| *byte == data[8]);
                    let from = usize::from(data[8]).wrapping_sub(1);
                    WRONG.fetch_add(u64::from(!whole || from >= 4), Ordering::SeqCst);
                    GOT[from % 4].fetch_add(count, Ordering::SeqCst);
                    ALL.fetch_add(1, Ordering::SeqCst);
                }
                _ => thread::yield_now(),
            }
        }
    })
    .map_err(doing("threads"))?;
    let got: Vec<u64> = GOT.iter().map(|sum| sum.load(Ordering::SeqCst)).collect();
    same!(got, [EACH * (EACH + 1) / 2; 4], "the numbers of each sender's records, summed");
    same!((WRONG.load(Ordering::SeqCst), ALL.load(Ordering::SeqCst)), (0, 4 * EACH), "records that were torn, and all");
    same!(taken(Queue::at(section.base()))?, None, "what is left");
    Ok(())
}

/// SSS-91 to 97, 103, 104.
pub fn ordered() -> Outcome {
    let (section, queue) = queue(64, false)?;
    let at = section.base();
    let (report, from) = (at + 6 * PAGE, at + 7 * PAGE);
    let normal = |packet| {
        store(report + 16, 50);
        let value = stub::mbcf_fifoe_normal(&Trap, at, from, 24, packet, option::STATUS, report);
        value.map(|value| (value, load(report), load(report + 16)))
    };
    let stopped = || seen(at).flags & fifo_flag::STOPPED != 0;
    same!(normal(1), Ok((status::DONE, status::DONE, 50)), "the first");
    let before = seen(at);
    same!(normal(2), Ok((status::STOPPED, status::STOPPED, 2)), "the second");
    same!((stopped(), seen(at).write, seen(at).read), (true, before.write, before.read), "the queue");
    same!(normal(3), Ok((status::CANCELLED, status::CANCELLED, 50)), "the third");
    same!(queue.again(&[2; 24], 2), Ok(Sent::Stopped), "the second, still without room");
    holds!(taken(queue)?.is_some(), "the first is not there");
    same!(normal(3), Ok((status::CANCELLED, status::CANCELLED, 50)), "the third, now that there is room");
    same!(queue.again(&[3; 24], 3), Ok(Sent::Cancelled), "the third, sent again before the second");
    same!(queue.again(&[2; 24], 2), Ok(Sent::Registered), "the second, sent again");
    same!(stopped(), false, "whether anybody is stopped");
    same!(
        (taken(queue)?, normal(3).map(|told| told.0)),
        (Some(alloc::vec![2; 24]), Ok(status::DONE)),
        "the second, and the third"
    );
    holds!(taken(queue)?.is_some(), "the third is not there");
    same!(queue.again(&[4; 24], 4), Ok(Sent::Registered), "one sent again to a queue that goes");
    same!((taken(queue)?, taken(queue)?), (Some(alloc::vec![4; 24]), None), "it is there once");
    // Plain records and ordered ones, in one queue.
    same!(
        (queue.append(b"plain"), queue.append_in_order(b"next", 5)),
        (Ok(Sent::Registered), Ok(Sent::Registered)),
        "both"
    );
    same!((taken(queue)?, taken(queue)?), (Some(b"plain".to_vec()), Some(b"next".to_vec())), "both are read");
    // Four programs at once, each in its order, though the queue is full most of the time (SSS-103).
    section::grant(at, &everybody(Rights::CALL)).map_err(doing("grant"))?;
    let name = format!("{at}");
    let mut children = Vec::new();
    for n in 0..4 {
        let words = ["check", "as", "mbcf", "in-order", &name, &format!("{n}"), "200"];
        let child = musubi::command::Command::new(b"bin/check").args(words).spawn().map_err(doing("sender"))?;
        children.push(child);
    }
    let mut next = [0_u64; 4];
    while next != [200; 4] {
        let Some(got) = taken(queue)? else {
            thread::yield_now();
            continue;
        };
        let (who, packet) = (usize::from(got[0]), u64::from(got[1]));
        same!(packet, next[who], "the next record of program {who}");
        next[who] += 1;
    }
    for child in children {
        same!(child.wait_for(60_000_000_000).map_err(doing("a sender's end"))?.code, 0, "how a sender ended");
    }
    same!((taken(queue)?, stopped()), (None, false), "what is left");
    Ok(())
}

/// SSS-81: as many as one likes, each on its own; they are paid for, and what was paid comes back.
pub fn thousand() -> Outcome {
    let section = data(64 * PAGE).map_err(doing("create"))?;
    let at = section.base();
    let used = || task::info(task::own()).map_or(0, |info| info.used.frames);
    // All pages that they lie in are there before.
    (0..64).for_each(|page| store(at + page * PAGE, 0));
    let before = used();
    let all: Vec<Queue> = (0..1000)
        .map(|n| at + n * 2 * STRUCTURE_ALIGN)
        .map(|here| Queue::init(here, here + STRUCTURE_ALIGN, here + 2 * STRUCTURE_ALIGN, false))
        .collect::<Result<_, _>>()
        .map_err(doing("fifo_init"))?;
    let paid = used() - before;
    holds!(paid >= 1000 / 16, "a thousand queues cost {paid} frames");
    for (n, queue) in all.iter().enumerate() {
        same!(queue.append(&(n as u64).to_le_bytes()), Ok(Sent::Registered), "a record for queue {n}");
    }
    for (n, queue) in all.iter().enumerate() {
        same!(taken(*queue)?, Some((n as u64).to_le_bytes().to_vec()), "the record of queue {n}");
    }
    for queue in &all[..500] {
        queue.end().map_err(doing("end"))?;
    }
    holds!(used() < before + paid, "half of them cost as much as all");
    section.delete().map_err(doing("delete"))?;
    holds!(used() < before, "{} frames are paid for afterwards, {before} with the section", used());
    Ok(())
}

/// Another program that sends.
pub fn role(what: &str, words: &[&str]) -> i32 {
    let at = |n: usize| words.get(n).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    let queue = Queue::at(at(0));
    match what {
        "send" => {
            let sent = (0..at(1) as usize).all(|n| queue.append(&record(n, at(2) as usize)) == Ok(Sent::Registered));
            // It may not look at what it has sent to.
            i32::from(!sent || queue.read(&mut [0; 256]).is_ok() || stub::mbcf_load(&Trap, at(0), 0, 0).is_ok())
        }
        "pretend" => {
            // As its data, what another sender's would look like.
            let words: Vec<u64> = (1..6).map(at).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let _ = queue.append(&bytes);
            (task::own() & 0xff) as i32
        }
        "in-order" => {
            for packet in 0..at(2) {
                let data = [at(1) as u8, packet as u8];
                let mut has_stopped = false;
                loop {
                    let sent =
                        if has_stopped { queue.again(&data, packet) } else { queue.append_in_order(&data, packet) };
                    match sent {
                        Ok(Sent::Registered) => break,
                        Ok(Sent::Stopped) => has_stopped = true,
                        Ok(Sent::Cancelled) => return 1,
                        // Later, then.
                        Err(Error::Busy) => {}
                        Err(_) => return 2,
                    }
                    thread::yield_now();
                }
            }
            0
        }
        _ => 2,
    }
}

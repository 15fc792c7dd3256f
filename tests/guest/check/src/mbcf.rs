//! Memory operations on the own node (SSS-44 to 49): what each does, with which rights, and what its issuer is told.

mod computing;
mod queues;
pub mod signals;

use crate::memory::{data, load, store};
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::{Entry, Kernel, MBCF_COUNT, TABLE, stub};
use musubi::abi::layout::PAGE;
use musubi::abi::mbcf::{DATA_MAX, Report, option, status};
use musubi::abi::rights::principal;
use musubi::rt::mbcf::{add, compare_swap, read, write};
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, Trap, task, thread};
use musubi::{AclEntry, Error, Rights};

pub use queues::role;

pub const CHECKS: &[Check] = &[
    ("memory_operations_do_what_they_say", commands),
    ("memory_operations_need_rights", rights),
    ("memory_operations_report", reports),
    ("memory_operations_never_wait", absent),
    ("memory_operations_bad_arguments", bad),
    ("words_are_changed_undivided", undivided),
    ("records_arrive", queues::arrive),
    ("records_go_round", queues::go_round),
    ("a_full_queue_cancels", queues::full),
    ("queues_need_the_right_to_call", queues::rights),
    ("structures_that_are_none", queues::forged),
    ("senders_are_told_by_the_kernel", queues::senders),
    ("many_senders_one_queue", queues::many),
    ("ordered_queues_stop_and_go_on", queues::ordered),
    ("a_thousand_queues", queues::thousand),
    ("signals_start_programs", signals::start_types),
    ("signals_need_the_right_to_call", signals::rights),
    ("registers_outlive_a_signal", computing::registers),
    ("signals_that_come_meanwhile", signals::conditions),
    ("signals_wait_for_a_calls_return", signals::in_calls),
    ("signals_among_calls", signals::among_calls),
    ("signals_to_who_waits", signals::waiting),
    ("a_thousand_signals", signals::thousand),
];

/// From now on this program may do only that with a section, besides changing the list.
pub fn only(base: u64, rights: Rights) -> Result<(), String> {
    let me = task::identity();
    let rights = (rights | Rights::CHANGE_ACL).bits();
    section::grant(base, &AclEntry { principal: principal::TASK, rights, id: me.task, text: me.text })
        .map_err(doing("grant"))
}

fn two() -> Result<(Section, Section), String> {
    Ok((data(4 * PAGE).map_err(doing("create"))?, data(4 * PAGE).map_err(doing("create"))?))
}

fn commands() -> Outcome {
    same!(TABLE.iter().filter(|row| row.entry == Entry::Mbcf).count(), MBCF_COUNT, "operations in the table");
    let (own, far) = two()?;
    let (own, far) = (own.base(), far.base());
    let bytes = |address, len| -> Result<Vec<u8>, String> {
        let mut bytes = alloc::vec![0; len];
        read(address, &mut bytes).map_err(doing("read")).map(|()| bytes)
    };
    // Over the border of two pages, on both sides, and not at whole words.
    let pattern: Vec<u8> = (0..DATA_MAX).map(|n| (n * 7 + n / 256) as u8).collect();
    for (at, len) in [(0, 1), (PAGE - 3, 7), (2 * PAGE - 500, DATA_MAX as usize), (5, 0)] {
        write(far + at, &pattern[..len]).map_err(doing("write"))?;
        same!(bytes(far + at, len)?, pattern[..len].to_vec(), "what was written at {at:#x}");
    }
    store(own, 0x1122_3344_5566_7788);
    same!(stub::mbcf_copy(&Trap, far + 3 * PAGE - 4, own, 8, 0, 0), Ok(0), "a copy");
    same!(bytes(far + 3 * PAGE - 4, 8)?, 0x1122_3344_5566_7788_u64.to_le_bytes().to_vec(), "what was copied");
    // Within one section, onto itself.
    write(far, &pattern[..600]).map_err(doing("write"))?;
    same!(stub::mbcf_copy(&Trap, far + 100, far, 500, 0, 0), Ok(0), "a copy upwards");
    same!(bytes(far + 100, 500)?, pattern[..500].to_vec(), "what was copied upwards");
    write(far + PAGE - 300, &pattern[..600]).map_err(doing("write"))?;
    same!(stub::mbcf_copy(&Trap, far + PAGE - 250, far + PAGE - 300, 600, 0, 0), Ok(0), "one over a border");
    same!(bytes(far + PAGE - 250, 600)?, pattern[..600].to_vec(), "what was copied over the border");
    write(far + PAGE - 250, &pattern[..600]).map_err(doing("write"))?;
    same!(stub::mbcf_copy(&Trap, far + PAGE - 300, far + PAGE - 250, 600, 0, 0), Ok(0), "one downwards");
    same!(bytes(far + PAGE - 300, 600)?, pattern[..600].to_vec(), "what was copied downwards");
    same!(stub::mbcf_fill(&Trap, far + 1, 0x1ab, 15, 0, 0), Ok(0), "a filling");
    same!((load(far + 8), load(far) >> 8), (0xabab_abab_abab_abab, 0xab_abab_abab_abab), "what was filled");
    let word = far + PAGE + 8;
    same!(stub::mbcf_store(&Trap, word, 5, 0, 0), Ok(0), "a store");
    same!((stub::mbcf_load(&Trap, word, 0, 0), load(word)), (Ok(5), 5), "a load");
    same!((stub::mbcf_swap(&Trap, word, 9, 0, 0), load(word)), (Ok(5), 9), "a swap");
    same!((add(word, u64::MAX), load(word)), (Ok(9), 8), "an addition");
    same!((compare_swap(word, 9, 1), load(word)), (Ok(8), 8), "a comparison that fails");
    same!((compare_swap(word, 8, 1), load(word)), (Ok(8), 1), "one that does not");
    same!((stub::mbcf_set_bits(&Trap, word, 0xf0, 0, 0), load(word)), (Ok(0), 0xf1), "bits set");
    same!((stub::mbcf_clear_bits(&Trap, word, 0x31, 0, 0), load(word)), (Ok(0), 0xc0), "bits cleared");
    // What a clone shares stays the clone's.
    let clone = Section::clone_of(far, 0, 0, 0).map_err(doing("clone"))?;
    same!(add(word, 1), Ok(0xc0), "an addition beside a clone");
    same!((load(word), load(clone.base() + PAGE + 8)), (0xc1, 0xc0), "the word and the clone's");
    Ok(())
}

/// Each operation that touches memory, with its words: the tried address first. Whether it reads, and writes there.
type Tried = (&'static str, fn(u64, u64) -> [u64; 6], Rights);

const TRIED: &[Tried] = &[
    ("mbcf_write", |at, own| [at, own, 8, 0, 0, 0], Rights::WRITE),
    ("mbcf_write", |at, own| [own, at, 8, 0, 0, 0], Rights::READ),
    ("mbcf_read", |at, own| [at, own, 8, 0, 0, 0], Rights::READ),
    ("mbcf_read", |at, own| [own, at, 8, 0, 0, 0], Rights::WRITE),
    ("mbcf_fill", |at, _| [at, 0, 8, 0, 0, 0], Rights::WRITE),
    ("mbcf_copy", |at, own| [at, own, 8, 0, 0, 0], Rights::WRITE),
    ("mbcf_copy", |at, own| [own, at, 8, 0, 0, 0], Rights::READ),
    ("mbcf_store", |at, _| [at, 0, 0, 0, 0, 0], Rights::WRITE),
    ("mbcf_load", |at, _| [at, 0, 0, 0, 0, 0], Rights::READ),
    ("mbcf_swap", |at, _| [at, 0, 0, 0, 0, 0], Rights::WRITE),
    ("mbcf_add", |at, _| [at, 0, 0, 0, 0, 0], Rights::WRITE),
    ("mbcf_compare_swap", |at, _| [at, 77, 0, 0, 0, 0], Rights::WRITE),
    ("mbcf_set_bits", |at, _| [at, 1, 0, 0, 0, 0], Rights::WRITE),
    ("mbcf_clear_bits", |at, _| [at, 1, 0, 0, 0, 0], Rights::WRITE),
    // Where the report is to be.
    ("mbcf_load", |at, own| [own, option::STATUS, at, 0, 0, 0], Rights::WRITE),
];

fn make(name: &str, words: [u64; 6]) -> Result<u64, Error> {
    let number = TABLE.iter().find(|row| row.name == name).map_or(0, |row| row.number);
    Trap.enter_light(number, words)
}

fn rights() -> Outcome {
    let (own, far) = two()?;
    let (own, far) = (own.base(), far.base());
    for &(name, words, needed) in TRIED {
        for given in [Rights::empty(), Rights::READ, Rights::CALL, Rights::READ | Rights::WRITE] {
            only(far, Rights::READ | Rights::WRITE)?;
            store(far, 77);
            store(own, 1);
            only(far, given)?;
            let allowed = given.contains(needed) && (needed != Rights::WRITE || given.contains(Rights::READ));
            let done = make(name, words(far, own));
            same!(done.is_ok(), allowed, "{name} with {given} where it takes {needed}: {done:?}");
            holds!(allowed || done.is_err_and(|e| e.refusal().is_some()), "{name} with {given} says {done:?}");
            only(far, Rights::READ | Rights::WRITE)?;
            holds!(allowed || (load(far), load(own)) == (77, 1), "{name} with {given} has changed something");
        }
    }
    Ok(())
}

fn reports() -> Outcome {
    let (own, far) = two()?;
    let (own, far) = (own.base(), far.base());
    let at = own + 64;
    let report = |set: Report| {
        [set.status, set.error, set.packet]
            .into_iter()
            .enumerate()
            .for_each(|(n, word)| store(at + 8 * n as u64, word));
    };
    let reported = || (load(at), load(at + 8), load(at + 16));
    let untouched = Report { status: 50, error: 51, packet: 52, reserved: 0 };
    let was = (50, 51, 52);
    let refused = Error::BadAddress.word();
    for (options, good, bad) in [
        (0, was, was),
        (option::BARRIER, was, was),
        (option::STATUS, (status::DONE, 51, 52), (status::FAILED, 51, 52)),
        (option::ERROR, was, (50, refused, 52)),
        (option::STATUS | option::ERROR | option::BARRIER, (status::DONE, 51, 52), (status::FAILED, refused, 52)),
    ] {
        for _ in 0..3 {
            report(untouched);
            same!(stub::mbcf_add(&Trap, far, 1, options, at).is_ok(), true, "an addition with {options}");
            same!(reported(), good, "the report of one that is done, with {options}");
            report(untouched);
            same!(stub::mbcf_add(&Trap, far + 1, 1, options, at), Err(Error::BadAddress), "one that is refused");
            same!(reported(), bad, "its report, with {options}");
        }
    }
    // Each kind of error is reported as it is answered.
    only(far, Rights::READ)?;
    let errors = [
        stub::mbcf_store(&Trap, far, 1, option::ERROR, at),
        stub::mbcf_fifo(&Trap, far, own, 8, option::ERROR, at),
        stub::mbcf_fifo(&Trap, own + 2 * PAGE, own, 8, option::ERROR, at),
        stub::mbcf_write(&Trap, 8, own, 8, option::ERROR, at),
        stub::mbcf_write(&Trap, own, own, DATA_MAX + 1, option::ERROR, at),
    ];
    for (n, error) in errors.into_iter().enumerate() {
        holds!(error.is_err(), "operation {n} was not refused");
    }
    same!(load(at + 8), Error::TooBig.word(), "the last of them");
    // One that could not be reported is not done.
    store(own, 4);
    for at in [at + 8, far, 0, own + 4 * PAGE] {
        same!(stub::mbcf_store(&Trap, own, 5, option::STATUS, at).is_err(), true, "a report at {at:#x}");
        same!(load(own), 4, "the word after it");
    }
    same!(stub::mbcf_store(&Trap, own, 5, option::BARRIER, 1), Ok(0), "an address that nothing is written to");
    Ok(())
}

fn absent() -> Outcome {
    let (own, far) = two()?;
    let (own, far) = (own.base(), far.base());
    store(far + PAGE, 77);
    invalidate(far + PAGE, PAGE).map_err(doing("invalidate"))?;
    for &(name, words, _) in TRIED {
        same!(make(name, words(far + PAGE, own)), Err(Error::Absent), "{name} of an invalid page");
    }
    // Nothing was done to the part of it that is there.
    store(far + PAGE - 8, 3);
    same!(write(far + PAGE - 8, &[9; 16]), Err(Error::Absent), "half of it on an invalid page");
    same!(load(far + PAGE - 8), 3, "the other half");
    validate(far + PAGE, PAGE).map_err(doing("validate"))?;
    same!((load(far + PAGE), add(far + PAGE, 1)), (77, Ok(77)), "the page after it");
    Ok(())
}

fn bad() -> Outcome {
    let (own, far) = two()?;
    let (own, far) = (own.base(), far.base());
    let kernel = 0xffff_8000_0010_0000_u64;
    for at in [0, 8, far + 4 * PAGE, kernel, u64::MAX - 7, 1 << 47, musubi::abi::gate::GATE_BASE] {
        for &(name, words, _) in TRIED {
            let done = make(name, words(at, own));
            holds!(done.is_err(), "{name} at {at:#x} says {done:?}");
        }
    }
    for at in 1..8 {
        same!(stub::mbcf_load(&Trap, far + at, 0, 0), Err(Error::BadAddress), "a word at {at}");
    }
    same!(write(far + 4 * PAGE - 4, &[1; 8]), Err(Error::BadAddress), "beyond the end");
    same!(stub::mbcf_write(&Trap, far, own, DATA_MAX + 1, 0, 0), Err(Error::TooBig), "too much");
    same!(stub::mbcf_fill(&Trap, far, 0, u64::MAX, 0, 0), Err(Error::TooBig), "far too much");
    same!(stub::mbcf_fill(&Trap, far, 0, 8, 8, 0), Err(Error::BadArgument), "an option that there is not");
    // Code can be read and not written.
    let code = bad as *const () as u64;
    same!(stub::mbcf_copy(&Trap, own, code, 8, 0, 0), Ok(0), "reading code");
    holds!(stub::mbcf_copy(&Trap, code, own, 8, 0, 0).is_err(), "code was written");
    Ok(())
}

fn undivided() -> Outcome {
    static AT: AtomicU64 = AtomicU64::new(0);
    const EACH: u64 = 2000;
    let section = data(PAGE).map_err(doing("create"))?;
    AT.store(section.base(), Ordering::SeqCst);
    thread::together(4, |n| {
        let at = AT.load(Ordering::SeqCst);
        for round in 0..EACH {
            // By operations, and by the processor's own instructions.
            if n == 0 {
                crate::memory::word(at).fetch_add(1, Ordering::SeqCst);
            } else {
                while add(at, 1).is_err() {}
            }
            if round % 64 == 0 {
                thread::yield_now();
            }
        }
    })
    .map_err(doing("threads"))?;
    same!(load(section.base()), 4 * EACH, "the sum");
    Ok(())
}

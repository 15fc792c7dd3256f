//! Faults like the one before, which take the short way to the pager and back: whatever it does then, all is as by the long way.

use super::{Does, Own, own, paged, read, soon};
use crate::memory::{data, load, store, word};
use crate::report::{Outcome, doing};
use crate::sections::everybody;
use crate::{holds, same};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use musubi::abi::frame::reason;
use musubi::abi::layout::PAGE;
use musubi::command::Command;
use musubi::rt::pager::{self, TRIES, answer, flag};
use musubi::rt::section::{self, invalidate};
use musubi::rt::{guard, probe, task, thread, time};
use musubi::{Error, Rights};

impl Own {
    /// From now on it answers this, and does nothing.
    fn answers(&self, value: u64) {
        self.at.store(value, Ordering::SeqCst);
        self.set(Does::Answer);
    }
}

/// Faults until they take the short way.
fn warm(base: u64, own: &Own) -> Outcome {
    own.set(Does::Validate);
    for round in 0..3 {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        same!((read(base), own.calls()), (Some(1), 1), "round {round}");
    }
    invalidate(base, PAGE).map_err(doing("invalidate"))
}

/// All answers and errors, after faults that went well and after one another.
pub fn whatever() -> Outcome {
    let (section, own) = paged(2, Does::Validate, 0)?;
    let base = section.base();
    for does in [Does::Nothing, Does::Refuse, Does::Decline, Does::Fault] {
        warm(base, own)?;
        own.set(does);
        let asked = if does == Does::Nothing { u64::from(TRIES) } else { 1 };
        for round in 0..3 {
            same!((read(base), own.calls()), (None, asked), "a pager that does {does:?}, round {round}");
        }
    }
    warm(base, own)?;
    own.answers(answer::VALID);
    for round in 0..5 {
        same!((read(base), own.calls()), (Some(1), 1), "the kernel makes it valid, round {round}");
        same!((read(base), own.calls()), (Some(1), 0), "and it is, round {round}");
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
    }
    for value in [2, 1 << 20, u64::MAX] {
        own.answers(value);
        same!((read(base), own.calls()), (None, 1), "an answer that there is not: {value:#x}");
    }
    own.answers(answer::VALID);
    store(base, 5);
    same!((load(base), load(base + PAGE), own.calls()), (5, 2, 1), "a store");
    section.delete().map_err(doing("delete"))
}

/// What a pager may not do by a call the kernel does not do for it either.
pub fn valid_by_right() -> Outcome {
    // A page that is not there is not made by being valid.
    let section = data(2 * PAGE).map_err(doing("create"))?;
    let (its, gate) = own(Does::Answer)?;
    pager::set(section.base(), gate, 1, 0).map_err(doing("pager"))?;
    its.answers(answer::VALID);
    for round in 0..3 {
        same!((read(section.base()), its.calls()), (None, u64::from(TRIES)), "an absent page, round {round}");
    }
    section.delete().map_err(doing("delete"))?;
    // A task's pager.
    let section = data(PAGE).map_err(doing("create"))?;
    store(section.base(), 1);
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    for round in 0..3 {
        invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
        same!((read(section.base()), its.calls()), (Some(1), 1), "a task's pager, round {round}");
    }
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    section.delete().map_err(doing("delete"))?;
    // One that may not any more.
    let (section, own) = paged(1, Does::Validate, 0)?;
    let base = section.base();
    warm(base, own)?;
    own.answers(answer::VALID);
    gives_up(base)?;
    for round in 0..3 {
        same!((read(base), own.calls()), (None, u64::from(TRIES)), "without the right, round {round}");
    }
    // Nor is it valid before a task's pager that may not.
    let section = data(PAGE).map_err(doing("create"))?;
    store(section.base(), 1);
    pager::set_for_task(gate, flag::VALID_BEFORE).map_err(doing("valid before"))?;
    its.answers(answer::DONE);
    for round in 0..3 {
        invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
        same!((read(section.base()), its.calls()), (Some(1), 1), "valid before, round {round}");
    }
    invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
    gives_up(section.base())?;
    for round in 0..3 {
        same!(
            (read(section.base()), its.calls()),
            (None, u64::from(TRIES)),
            "valid before without the right, round {round}"
        );
    }
    pager::set_for_task(0, 0).map_err(doing("no task pager"))
}

/// Nobody may change this list any more.
fn gives_up(base: u64) -> Outcome {
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let mine = section::acl(base).map_err(doing("acl"))?;
    for entry in mine.iter().filter(|entry| Rights::from_bits_truncate(entry.rights).contains(Rights::CHANGE_ACL)) {
        let rights = (Rights::READ | Rights::WRITE).bits();
        section::grant(base, &musubi::abi::AclEntry { rights, ..*entry }).map_err(doing("give up"))?;
    }
    Ok(())
}

/// SSS-58: a task's pager is asked by the short way, too: as long as it is the task's, for what is invalid, and what it does not know is the section's.
pub fn by_a_tasks() -> Outcome {
    let (section, second) = paged(2, Does::Validate, 0)?;
    let base = section.base();
    let (first, gate) = own(Does::Validate)?;
    let (other, its_gate) = own(Does::Validate)?;
    let expect = |what: &str, found: Option<u64>, calls: [u64; 3]| -> Outcome {
        for round in 0..4 {
            invalidate(base, PAGE).map_err(doing("invalidate"))?;
            let asked = (read(base), [first.calls(), other.calls(), second.calls()]);
            same!(asked, (found, calls), "{what}, round {round}: calls of the task's, another one's, the section's");
        }
        Ok(())
    };
    expect("without one", Some(1), [0, 0, 1])?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    expect("the task's", Some(1), [1, 0, 0])?;
    pager::set_for_task(its_gate, 0).map_err(doing("another task pager"))?;
    expect("another one", Some(1), [0, 1, 0])?;
    other.set(Does::Decline);
    expect("it declines", Some(1), [0, 1, 1])?;
    other.set(Does::Refuse);
    expect("it refuses", None, [0, 1, 0])?;
    other.set(Does::Fault);
    expect("it has a fault", None, [0, 1, 0])?;
    other.answers(answer::VALID);
    expect("the kernel makes it valid", Some(1), [0, 1, 0])?;
    pager::set_for_task(its_gate, flag::VALID_BEFORE).map_err(doing("valid before"))?;
    other.answers(answer::DONE);
    expect("made valid before", Some(1), [0, 1, 0])?;
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    expect("without one again", Some(1), [0, 0, 1])?;
    // A page that is not there is not the task's affair.
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    expect("the task's", Some(1), [1, 0, 0])?;
    let scratch = data(PAGE).map_err(doing("create"))?;
    pager::take_page(base, scratch.base()).map_err(doing("take"))?;
    section::validate(base, PAGE).map_err(doing("validate"))?;
    second.answers(answer::DONE);
    same!((read(base), first.calls(), second.calls()), (None, 0, u64::from(TRIES)), "an absent page");
    pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
    scratch.delete().map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

/// A pager by the short way whose own faults take it, too.
pub fn nested() -> Outcome {
    let (low, below) = paged(1, Does::Validate, 0)?;
    let (high, _) = paged(1, Does::Validate, 0)?;
    let (above, gate) = own(Does::Reads)?;
    pager::set(high.base(), gate, 2, 0).map_err(doing("level 2"))?;
    above.at.store(low.base(), Ordering::SeqCst);
    let both_absent = || {
        [low.base(), high.base()].into_iter().try_for_each(|base| invalidate(base, PAGE)).map_err(doing("invalidate"))
    };
    for round in 0..6 {
        both_absent()?;
        same!((read(high.base()), above.calls(), below.calls()), (Some(1), 1, 1), "round {round}");
    }
    for round in 0..4 {
        invalidate(high.base(), PAGE).map_err(doing("invalidate"))?;
        same!(
            (read(high.base()), above.calls(), below.calls()),
            (Some(1), 1, 0),
            "the lower one is valid, round {round}"
        );
    }
    // Served by the short way it needs what is not below it.
    warm(low.base(), below)?;
    below.at.store(high.base(), Ordering::SeqCst);
    below.set(Does::Reads);
    for round in 0..4 {
        both_absent()?;
        same!(
            (read(low.base()), above.calls(), below.calls()),
            (None, 0, 1),
            "a page that is not below, round {round}"
        );
    }
    below.set(Does::Validate);
    same!(read(low.base()), Some(1), "afterwards");
    low.delete().map_err(doing("delete"))?;
    high.delete().map_err(doing("delete"))
}

/// Two sections of one pager are missed in turn, by loads and stores: it is told of the right one, until somebody else is asked for one of them, or one is
/// gone.
pub fn in_turn() -> Outcome {
    let (mut first, mut second) = (data(2 * PAGE).map_err(doing("create"))?, data(2 * PAGE).map_err(doing("create"))?);
    let (own, gate) = own(Does::Validate)?;
    for (section, n) in [(&mut first, 1), (&mut second, 3)] {
        (0..2).for_each(|page| store(section.base() + page * PAGE, n + page));
        pager::set(section.base(), gate, 1, 0).map_err(doing("pager"))?;
    }
    let (one, two) = (first.base(), second.base());
    let absent = || [one, two].into_iter().try_for_each(|base| invalidate(base, 2 * PAGE)).map_err(doing("invalidate"));
    for round in 0..6 {
        absent()?;
        let when = format!("round {round}");
        same!((read(one), read(two), own.calls()), (Some(1), Some(3), 2), "{when}");
        store(one + PAGE, 2);
        store(two + PAGE, 4);
        same!((load(one + PAGE), load(two + PAGE), own.calls()), (2, 4, 2), "stores, {when}");
    }
    // Another one's by now.
    let (others, gate) = self::own(Does::Validate)?;
    pager::set(one, gate, 1, 0).map_err(doing("another pager"))?;
    for round in 0..3 {
        absent()?;
        same!(
            (read(one), read(two), own.calls(), others.calls()),
            (Some(1), Some(3), 1, 1),
            "two pagers, round {round}"
        );
    }
    // It may only be read from now on.
    let mine = section::acl(two).map_err(doing("acl"))?;
    for entry in &mine {
        let rights = entry.rights & !Rights::WRITE.bits();
        section::grant(two, &musubi::abi::AclEntry { rights, ..*entry }).map_err(doing("give up"))?;
    }
    for round in 0..3 {
        absent()?;
        let wrote = guard::run(|| probe::write(two));
        same!((read(one), wrote, read(two)), (Some(1), Err(Error::Faulted), Some(3)), "read only, round {round}");
        same!((own.calls(), others.calls()), (1, 1), "who was asked, round {round}");
    }
    first.delete().map_err(doing("delete"))?;
    same!(read(one), None, "what is gone");
    absent_and_read(two, own)?;
    second.delete().map_err(doing("delete"))
}

/// The same with more sections than a thread keeps.
pub fn in_turn_of_many() -> Outcome {
    for count in 3..=5u64 {
        let (own, gate) = own(Does::Validate)?;
        let sections: Result<Vec<_>, _> = (0..count).map(|_| data(2 * PAGE)).collect();
        let sections = sections.map_err(doing("create"))?;
        for (section, n) in sections.iter().zip(1..) {
            (0..2).for_each(|page| store(section.base() + page * PAGE, n + page));
            pager::set(section.base(), gate, 1, 0).map_err(doing("pager"))?;
        }
        for round in 0..6 {
            for section in &sections {
                invalidate(section.base(), 2 * PAGE).map_err(doing("invalidate"))?;
            }
            for (section, n) in sections.iter().zip(1..) {
                let base = section.base();
                same!((read(base), own.calls()), (Some(n), 1), "section {n} of {count}, round {round}");
                same!(own.told()[..2], [base, 0], "what the pager was told, round {round}");
                store(base + PAGE, n + 1);
                same!((load(base + PAGE), own.calls()), (n + 1, 1), "a store to section {n} of {count}, round {round}");
            }
        }
        for section in sections {
            section.delete().map_err(doing("delete"))?;
        }
    }
    Ok(())
}

fn absent_and_read(base: u64, own: &Own) -> Outcome {
    for round in 0..3 {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        same!((read(base), own.calls()), (Some(3), 1), "after the other one's end, round {round}");
    }
    Ok(())
}

/// Threads that have gone the short way and are killed in their pager, or whose pager takes too long.
pub fn ended() -> Outcome {
    let (section, own) = paged(1, Does::Validate, 0)?;
    let base = section.base();
    for round in 0..4 {
        let way = if round % 2 == 0 { Does::Sleep } else { Does::Loop };
        let one = thread::spawn(
            move || {
                let ready = warm(base, own);
                own.set(way);
                thread::exit(if ready.is_ok() { load(base) } else { 99 })
            },
            0,
        );
        let one = one.map_err(doing("a thread"))?;
        // Its faults are told apart by what was set before.
        while !own.is(way) || own.calls() == 0 {
            time::sleep_ns(1_000_000);
        }
        time::sleep_ns(5_000_000);
        one.kill().map_err(doing("kill"))?;
        own.set(Does::Validate);
        holds!(soon(move || one.join())?.is_ok(), "a thread that was killed in its pager");
        same!(soon(move || read(base))?, Some(1), "the page in round {round}");
        own.calls();
    }
    // Nobody has waited for a pager for a while: somebody has to look from now on, though nothing else happens on this processor.
    let own_thread = {
        warm(base, own)?;
        time::sleep_ns(2 * pager::TIME_NS + 1_000_000_000);
        own.set(Does::Loop);
        let got = read(base);
        own.set(Does::Validate);
        (got, read(base))
    };
    same!(own_thread, (None, Some(1)), "a pager that loops, and after that");
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    own.calls();
    // Too long: between one and two times the limit.
    let given_up = soon(move || {
        warm(base, own)?;
        own.set(Does::Sleep);
        let got = read(base);
        own.set(Does::Validate);
        Ok::<_, String>((got, read(base)))
    })??;
    same!(given_up, (None, Some(1)), "a pager that sleeps, and after that");
    section.delete().map_err(doing("delete"))
}

/// Several threads make pages invalid and touch them, each many times, and all by the short way where nobody is in between.
pub fn crowd() -> Outcome {
    for (does, flags) in [(Does::Validate, 0), (Does::Answer, 0), (Does::Nothing, flag::VALID_BEFORE)] {
        let (section, own) = paged(2, does, flags)?;
        own.at.store(answer::VALID, Ordering::SeqCst);
        let base = section.base();
        let run = move |n: u64| {
            let wrong = (0..300u64).find(|round| {
                let page = base + (n + round) % 2 * PAGE;
                invalidate(page, PAGE).is_err() || load(page) != (n + round) % 2 + 1
            });
            thread::exit(wrong.map_or(0, |round| round + 1))
        };
        let threads: Result<Vec<_>, _> = (0..4).map(|n| thread::spawn(move || run(n), 0)).collect();
        let threads = threads.map_err(doing("threads"))?;
        let ended = soon(move || threads.into_iter().map(|one| one.join()).collect::<Vec<_>>())?;
        holds!(ended.iter().all(|one| *one == Ok(0)), "pager {does:?}: {ended:?}");
        holds!(own.calls() > 0, "nobody was asked");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// A thread that another program's pager serves is seen where it had its fault, whichever way it went there.
pub fn seen() -> Outcome {
    for served_before in [0, 4] {
        let (section, own) = paged(1, Does::Validate, 0)?;
        let words = data(PAGE).map_err(doing("create"))?;
        let (base, turn) = (section.base(), words.base());
        for base in [base, turn] {
            section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        }
        // The pager is this text, on threads of others.
        let here =
            musubi::abi::AclEntry { text: musubi::start().text(), ..everybody(Rights::READ | Rights::CHANGE_ACL) };
        section::grant(base, &here).map_err(doing("grant"))?;
        let args = ["check", "as", "served", &format!("{base}"), &format!("{turn}")].map(String::from);
        let child = Command::new(b"bin/check").args(args).spawn().map_err(doing("a program"))?;
        let next = |round: u64| -> Outcome {
            invalidate(base, PAGE).map_err(doing("invalidate"))?;
            word(turn).store(round, Ordering::SeqCst);
            Ok(())
        };
        for round in 1..=served_before {
            next(round)?;
            while word(turn + 8).load(Ordering::SeqCst) < round {
                time::sleep_ns(1_000_000);
            }
        }
        own.set(Does::Sleep);
        own.calls();
        next(LAST)?;
        while own.calls() == 0 {
            time::sleep_ns(1_000_000);
        }
        let its = task::threads().find(|one| one.task == child.task).ok_or("its thread")?;
        let frame = thread::registers(its.thread).map_err(doing("looking"))?;
        own.set(Does::Validate);
        same!(frame.reason, reason::STOPPED, "after {served_before} faults, a thread that is being served");
        let owner = section::info(frame.rip).map_err(doing("where it is"))?.owner;
        same!(owner, child.task, "whose text it executes, after {served_before} faults");
        same!(child.wait().map(|exit| exit.code), Ok(0), "how it ended");
    }
    Ok(())
}

/// No round after this.
const LAST: u64 = 99;

/// Reads a page of somebody else's pager, once for each turn that it is given.
pub fn served(base: u64, turn: u64) -> i32 {
    let mut done = 0;
    while done < LAST {
        let now = word(turn).load(Ordering::SeqCst);
        if now == done {
            time::sleep_ns(500_000);
            continue;
        }
        if load(base) != 1 {
            return 1;
        }
        done = now;
        word(turn + 8).store(done, Ordering::SeqCst);
    }
    0
}

//! Pagers that err, fault, end, loop and want too much: the thread that has the fault hears of it, and goes on where it deals with that.

use super::{Does, own, paged, read, soon};
use crate::memory::{await_word, data, load, store, word};
use crate::report::{Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use core::sync::atomic::Ordering;
use musubi::abi::calls::stub;
use musubi::abi::frame::Frame;
use musubi::abi::layout::PAGE;
use musubi::abi::section::flag;
use musubi::abi::task::{cause, exit};
use musubi::command::Command;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::pager::{self, LEVEL_MAX, TRIES, why};
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, Trap, task, thread, time};
use musubi::{Error, Rights, ended};

pub fn answers() -> Outcome {
    let (section, own) = paged(2, Does::Nothing, 0)?;
    let base = section.base();
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    for _ in 0..3 {
        same!((read(base), own.calls()), (None, u64::from(TRIES)), "answers without a page");
    }
    own.set(Does::Refuse);
    same!((read(base), own.calls()), (None, 1), "a refusal");
    own.set(Does::Decline);
    same!((read(base), own.calls()), (None, 1), "not its page");
    own.set(Does::Validate);
    same!((read(base), own.calls()), (Some(1), 1), "and after that");
    section.delete().map_err(doing("delete"))?;
    for (does, wanted) in [
        (Does::Nothing, why::NOT_VALID),
        (Does::Refuse, why::REFUSED),
        (Does::Decline, why::DECLINED),
        (Does::Fault, why::FAULTED),
    ] {
        let how = run_role(&["bad-pager", &format!("{}", does as u64)])?;
        same!(
            (how.kind, how.cause, how.code),
            (exit::FAULT, cause::PAGER, wanted),
            "how a program ends whose pager does {does:?}"
        );
    }
    Ok(())
}

/// The task's pager cuts the section short and declines; the section's own one is next, for a page that is beyond the end by then.
pub fn cut() -> Outcome {
    for flags in [0, pager::flag::VALID_BEFORE] {
        let (section, of_section) = paged(2, Does::Validate, flags)?;
        let (of_task, gate) = own(Does::Cut)?;
        let at = section.base() + PAGE;
        pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
        invalidate(at, PAGE).map_err(doing("invalidate"))?;
        let found = read(at);
        pager::set_for_task(0, 0).map_err(doing("no task pager"))?;
        same!((found, of_task.calls()), (None, 1), "what is beyond the end");
        same!((read(section.base()), of_section.calls() < 2), (Some(1), true), "what is not");
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// A program whose pager does this.
pub fn role(does: u64) -> i32 {
    let all = [Does::Nothing, Does::Refuse, Does::Decline, Does::Fault];
    let Some(does) = all.into_iter().find(|one| *one as u64 == does) else { return 2 };
    let Ok((section, _)) = paged(1, does, 0) else { return 3 };
    let _ = invalidate(section.base(), PAGE);
    load(section.base());
    4
}

pub fn faults() -> Outcome {
    let (section, own) = paged(2, Does::Fault, 0)?;
    let base = section.base();
    invalidate(base, 2 * PAGE).map_err(doing("invalidate"))?;
    for _ in 0..10 {
        same!((read(base), own.calls()), (None, 1), "a pager that faults");
    }
    own.set(Does::Validate);
    same!((read(base), own.calls()), (Some(1), 1), "and after that");
    section.delete().map_err(doing("delete"))
}

/// Another program's pages, whose pager ends: before it is asked, and meanwhile.
pub fn ends() -> Outcome {
    let own_copy = data(PAGE).map_err(doing("create"))?;
    let how = run_role(&["ending-pager", &format!("{}", own_copy.base())])?;
    same!((how.kind, how.code), (exit::EXITED, 0), "how the pager's program ended");
    own_copy.delete().map_err(doing("delete"))
}

/// A gate that is taken back is a pager that has ended.
pub fn ending() -> i32 {
    let run = || -> Outcome {
        let section = data(PAGE).map_err(doing("create"))?;
        let own: &'static super::Own = alloc::boxed::Box::leak(alloc::boxed::Box::new(super::Own::new()));
        let gates = musubi::interfaces::pager::pager_serve(own).map_err(doing("gates"))?;
        pager::set(section.base(), gates.address(), 1, 0).map_err(doing("pager"))?;
        gates.close().map_err(doing("close"))?;
        same!((read(section.base()), own.calls()), (None, 0), "after its gate");
        let (other, gate) = super::own(Does::Supply)?;
        let scratch = data(PAGE).map_err(doing("create"))?;
        other.at.store(scratch.base(), Ordering::SeqCst);
        pager::set(section.base(), gate, 1, 0).map_err(doing("another pager"))?;
        same!((read(section.base()), other.calls()), (Some(1), 1), "with another one");
        Ok(())
    };
    i32::from(run().inspect_err(|why| musubi::eprintln!("{why}")).is_err())
}

/// Pitfalls, R4: a pager has faults on sections of lower levels only, so a chain ends.
pub fn levels() -> Outcome {
    let (low, below) = paged(1, Does::Validate, 0)?;
    let (high, above) = paged(1, Does::Reads, 0)?;
    let gate = super::own(Does::Reads)?;
    pager::set(high.base(), gate.1, 2, 0).map_err(doing("level 2"))?;
    let above = {
        let _ = above;
        gate.0
    };
    above.at.store(low.base(), Ordering::SeqCst);
    for base in [low.base(), high.base()] {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
    }
    same!((read(high.base()), above.calls(), below.calls()), (Some(1), 1, 1), "a pager with a fault on a lower level");
    // The lower one would need a page of the higher one: an error there, and not a wait for itself.
    below.at.store(high.base(), Ordering::SeqCst);
    below.set(Does::Reads);
    for base in [low.base(), high.base()] {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
    }
    same!((read(low.base()), above.calls(), below.calls()), (None, 0, 1), "a pager with a fault on a higher level");
    // Nor one of its own.
    below.at.store(low.base(), Ordering::SeqCst);
    same!((read(low.base()), below.calls()), (None, 1), "a pager with a fault on its own page");
    below.set(Does::Validate);
    same!(read(low.base()), Some(1), "afterwards");
    low.delete().map_err(doing("delete"))?;
    high.delete().map_err(doing("delete"))
}

pub fn refusals() -> Outcome {
    let (section, _) = paged(1, Does::Validate, 0)?;
    let base = section.base();
    let (_, gate) = own(Does::Validate)?;
    for level in [0, LEVEL_MAX + 1, u64::MAX] {
        same!(pager::set(base, gate, level, 0), Err(Error::BadArgument), "level {level}");
    }
    same!(pager::set(base, gate, 1, 1 << 20), Err(Error::BadArgument), "an unknown flag");
    same!(pager::set(base, base, 1, 0), Err(Error::NotFound), "no gate");
    same!(pager::set_for_task(base, 0), Err(Error::NotFound), "no gate for the task");
    same!(pager::set(8, gate, 1, 0), Err(Error::NotFound), "no section");
    let text = section::info(refusals as *const () as u64).map_err(doing("info"))?.base;
    same!(pager::set(text, gate, 1, 0), Err(Error::NotSupported), "a text");
    // The program's own data, which its pager cannot do without.
    static WORD: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(1);
    let of_program = section::info(&raw const WORD as u64).map_err(doing("info"))?.base;
    holds!(of_program != text, "data in the text");
    same!(pager::set(of_program, gate, 1, 0), Err(Error::BadArgument), "the program's own data");
    same!(Section::clone_of(base, flag::AS_DATA, 0, 0).map(drop), Err(Error::NotSupported), "a clone");
    let strangers = section::list().find(|info| info.rights == 0 && info.kind == 0).ok_or("no stranger's section")?;
    holds!(pager::set(strangers.base, gate, 1, 0).is_err_and(|e| e.refusal().is_some()), "a stranger's section");
    same!(section.seal().map(drop), Err(Error::NotSupported), "a text with a pager");
    section::delete(base).map_err(doing("delete"))
}

/// Threads that ask and that wait are killed: nobody stands still, and the page can be asked for again.
pub fn killed() -> Outcome {
    let (section, own) = paged(1, Does::Sleep, 0)?;
    let base = section.base();
    for round in 0..4 {
        own.set(if round % 2 == 0 { Does::Sleep } else { Does::Loop });
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        let threads: Result<alloc::vec::Vec<_>, _> =
            (0..4).map(|_| thread::spawn(move || thread::exit(load(base)), 0)).collect();
        let threads = threads.map_err(doing("threads"))?;
        while own.calls() == 0 {
            time::sleep_ns(1_000_000);
        }
        time::sleep_ns(10_000_000);
        threads.iter().try_for_each(|one| one.kill()).map_err(doing("kill"))?;
        own.set(Does::Validate);
        let ended = soon(move || threads.into_iter().map(|one| one.join()).collect::<alloc::vec::Vec<_>>())?;
        holds!(ended.iter().all(Result::is_ok), "{ended:?}");
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        same!(soon(move || read(base))?, Some(1), "the page in round {round}");
        own.calls();
    }
    section.delete().map_err(doing("delete"))
}

/// Who waits for a page that a pager is being asked for, and is killed, keeps nothing until the answer comes.
pub fn killed_keep_nothing() -> Outcome {
    const MANY: u64 = 64;
    let (section, own) = paged(1, Does::Sleep, 0)?;
    let base = section.base();
    let touches = || thread::spawn(move || thread::exit(load(base)), 0).map_err(doing("a thread"));
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    let asks = touches()?;
    while own.calls() == 0 {
        time::sleep_ns(1_000_000);
    }
    // What the first ones take for good is taken by some that do not wait.
    let killed = |waits: bool| -> Result<u64, alloc::string::String> {
        let sleeps = || thread::spawn(|| time::sleep_ns(u64::MAX), 0).map_err(doing("a thread"));
        let one = |_| if waits { touches() } else { sleeps() };
        let threads: alloc::vec::Vec<_> = (0..MANY).map(one).collect::<Result<_, _>>()?;
        time::sleep_ns(10_000_000);
        threads.iter().try_for_each(|one| one.kill()).map_err(doing("kill"))?;
        threads.into_iter().try_for_each(|one| one.join().map(drop)).map_err(doing("join"))?;
        task::memory().map(|memory| memory.free).map_err(doing("memory"))
    };
    let before = killed(false)?;
    let lost = before.saturating_sub(killed(true)?);
    holds!(lost < MANY * PAGE, "{MANY} threads that were killed keep {lost} bytes");
    same!(own.calls(), 0, "how often the pager was asked meanwhile");
    asks.kill().map_err(doing("kill"))?;
    own.set(Does::Validate);
    soon(move || asks.join())?.map_err(doing("join"))?;
    same!(soon(move || read(base))?, Some(1), "the page");
    section.delete().map_err(doing("delete"))
}

/// A program that touches another one's page is killed while the pager is asked on its thread, which then answers as it should: the page is nobody's any
/// more to wait for.
pub fn client_is_killed() -> Outcome {
    let (section, own) = paged(1, Does::Sleep, 0)?;
    let base = section.base();
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    for round in 0..4 {
        own.set(Does::Sleep);
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        let words = ["check", "as", "touches", &format!("{base}")];
        let client = Command::new(b"bin/check").args(words).spawn().map_err(doing("a client"))?;
        while own.calls() == 0 {
            time::sleep_ns(1_000_000);
        }
        client.kill().map_err(doing("kill"))?;
        time::sleep_ns(20_000_000);
        own.set(Does::Validate);
        same!(soon(move || read(base))?, Some(1), "the page in round {round}");
        let how = client.wait_for(20_000_000_000).map_err(doing("the client's end"))?;
        same!(how.kind, exit::KILLED, "how the client ended");
        own.calls();
    }
    section.delete().map_err(doing("delete"))
}

/// One that loops and one that waits: after a time the access is an error.
pub fn late() -> Outcome {
    for does in [Does::Loop, Does::Sleep] {
        let (section, own) = paged(1, does, 0)?;
        let base = section.base();
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        let began = time::now_ns();
        same!(soon(move || read(base))?, None, "a pager that does {does:?}");
        let took = time::now_ns() - began;
        holds!(took >= pager::TIME_NS, "it was given up after {took} ns");
        own.set(Does::Validate);
        same!(read(base), Some(1), "and after that");
        validate(base, PAGE).map_err(doing("validate"))?;
        section.delete().map_err(doing("delete"))?;
    }
    Ok(())
}

/// Of what a pager that is killed and its clients share: where its section is, how often it was asked, who is ready, and whether they are to begin.
const SECTION: u64 = 0;
const ASKED: u64 = 8;
const READY: u64 = 16;
const GO: u64 = 24;

/// It comes back to nobody.
struct Stays {
    shared: u64,
    loops: bool,
}

impl Pager for Stays {
    fn fault(&self, _: u64, _: u64, _: u64, _: u64) -> Result<u64, Error> {
        word(self.shared + ASKED).fetch_add(1, Ordering::SeqCst);
        loop {
            if !self.loops {
                time::sleep_ns(1_000_000_000);
            }
        }
    }
}

/// A program that is the pager of a section of everybody's until it is killed.
pub fn dying(shared: u64, loops: u64, flags: u64) -> i32 {
    let run = || -> Outcome {
        let section = data(CLIENTS * PAGE).map_err(doing("create"))?;
        section::grant(section.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
        (0..CLIENTS).for_each(|page| store(section.base() + page * PAGE, 1));
        let stays: &'static Stays = Box::leak(Box::new(Stays { shared, loops: loops == 1 }));
        let gates = pager_serve(stays).map_err(doing("gates"))?;
        pager::set(section.base(), gates.address(), 1, flags).map_err(doing("pager"))?;
        invalidate(section.base(), CLIENTS * PAGE).map_err(doing("invalidate"))?;
        store(shared + SECTION, section.base());
        thread::park()
    };
    i32::from(run().inspect_err(|why| musubi::eprintln!("{why}")).is_err())
}

/// What a client of it does: an access, which ends it; one that its own entry hears of; a call.
const CLIENTS: u64 = 3;
const OTHERWISE: i32 = 100;

/// Ends with what it is told.
extern "C" fn told(frame: &mut Frame) -> ! {
    task::exit(if frame.cause == cause::PAGER { frame.code as i32 } else { OTHERWISE })
}

/// The client of this number.
pub fn left(shared: u64, number: u64) -> i32 {
    if number == 1 && stub::fault_entry(&Trap, told as *const () as u64, 0).is_err() {
        return OTHERWISE;
    }
    word(shared + READY).fetch_add(1, Ordering::SeqCst);
    await_word(shared + GO);
    let at = load(shared + SECTION) + number * PAGE;
    match number {
        2 => stub::identity(&Trap, at).map_or_else(|error| error.word() as i32, |_| OTHERWISE),
        _ => {
            load(at);
            OTHERWISE
        }
    }
}

/// The pager's program is killed while it is asked, wherever it is: whoever has asked hears just that.
pub fn killed_meanwhile() -> Outcome {
    let shared = data(PAGE).map_err(doing("create"))?;
    section::grant(shared.base(), &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let start = |words: &[&str]| {
        let words = ["check", "as"].iter().chain(words).copied();
        Command::new(b"bin/check").args(words).spawn().map_err(doing("a program"))
    };
    let at = format!("{}", shared.base());
    let until = |word: u64, count: u64| -> Outcome {
        let end = time::now_ns() + 60_000_000_000;
        while load(shared.base() + word) < count {
            holds!(time::now_ns() < end, "word {word} is {}, not {count}", load(shared.base() + word));
            time::sleep_ns(1_000_000);
        }
        Ok(())
    };
    for flags in [0, pager::flag::VALID_BEFORE] {
        for loops in ["0", "1"] {
            [SECTION, ASKED, READY, GO].into_iter().for_each(|word| store(shared.base() + word, 0));
            let pager = start(&["dying-pager", &at, loops, &format!("{flags}")])?;
            until(SECTION, 1)?;
            let base = load(shared.base() + SECTION);
            let one = |n: u64| start(&["left-by-its-pager", &at, &format!("{n}")]);
            let clients = [one(0)?, one(1)?, one(2)?];
            until(READY, CLIENTS)?;
            store(shared.base() + GO, 1);
            until(ASKED, CLIENTS)?;
            pager.kill().map_err(doing("kill"))?;
            let ends = clients.map(|one| one.wait_for(60_000_000_000));
            let [by_access, by_entry, by_call] = ends;
            let how = by_access.map_err(doing("the end of who has made an access"))?;
            same!(
                (how.kind, how.cause, how.code, how.section),
                (exit::FAULT, cause::PAGER, why::DEAD, base),
                "by an access"
            );
            let said = ended::describe(&how, |_| None);
            holds!(said.contains(why::text(why::DEAD)), "what people are told: {said}");
            let how = by_entry.map_err(doing("the end of who has an entry"))?;
            same!((how.kind, how.code), (exit::EXITED, why::DEAD), "what an entry is told");
            let how = by_call.map_err(doing("the end of who has made a call"))?;
            same!((how.kind, how.code), (exit::EXITED, Error::Absent.word()), "what a call answers");
            let how = pager.wait_for(60_000_000_000).map_err(doing("the pager's end"))?;
            same!(how.kind, exit::KILLED, "how the pager's program ended");
        }
    }
    shared.delete().map_err(doing("delete"))
}

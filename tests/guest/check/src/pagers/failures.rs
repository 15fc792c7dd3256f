//! Pagers that err, fault, end, loop and want too much: the thread that has the fault hears of it, and goes on where it deals with that.

use super::{Does, own, paged, read, soon};
use crate::memory::{data, load};
use crate::report::{Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::format;
use core::sync::atomic::Ordering;
use musubi::Error;
use musubi::abi::layout::PAGE;
use musubi::abi::section::flag;
use musubi::abi::task::{cause, exit};
use musubi::rt::pager::{self, LEVEL_MAX, TRIES, why};
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, thread, time};

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
        invalidate(at, PAGE).map_err(doing("invalidate"))?;
        pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
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

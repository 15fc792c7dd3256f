//! Pagers outside the kernel (SSS-57 to 60, CUBIX-20): this program is the pager of its own sections, and of its own task.

mod again;
mod beyond;
mod failures;
mod missed;
mod pages;
mod whose;

use crate::memory::{data, load, store, word};
use crate::report::{Check, Outcome, doing, in_time};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::info::layout::IN_VAIN;
use musubi::abi::layout::PAGE;
use musubi::abi::task::exit;
use musubi::interfaces::pager::{Pager, pager_serve};
use musubi::rt::info::{self, Info};
use musubi::rt::pager::{self, answer, flag, miss};
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, Trap, fault, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("a_pager_validates", validates),
    ("a_page_is_valid_before_its_pager", valid_before),
    ("two_tasks_two_pagers_one_address", two_tasks),
    ("a_tasks_pager_is_asked_for_its_own", whose::of_its_own),
    ("who_has_made_a_page_invalid_is_paid_for", whose::paid),
    ("a_pager_declines", declines),
    ("one_asks_and_the_others_wait", waiters),
    ("registers_outlive_a_pager", registers),
    ("pages_are_supplied_and_taken", pages::supplied),
    ("clean_pages_and_dirty_ones", pages::clean),
    ("pages_are_paid_for", pages::paid),
    ("supplying_is_refused", pages::refusals),
    ("the_kernel_asks_a_pager", pages::by_the_kernel),
    ("light_calls_ask_a_pager", missed::queues),
    ("light_calls_of_many_ask_a_pager", missed::by_many),
    ("calls_of_signals_ask_a_pager", missed::signals),
    ("calls_of_messages_ask_a_pager", missed::messages),
    ("bad_answers", failures::answers),
    ("cut_short_while_it_is_asked", failures::cut),
    ("a_pager_has_a_fault", failures::faults),
    ("a_pager_ends", failures::ends),
    ("who_has_asked_is_killed", failures::client_is_killed),
    ("a_pager_is_killed_while_it_is_asked", failures::killed_meanwhile),
    ("pagers_of_lower_levels", failures::levels),
    ("what_cannot_have_a_pager", failures::refusals),
    ("who_waits_for_a_page_is_killed", failures::killed),
    ("who_waited_for_a_page_keeps_nothing", failures::killed_keep_nothing),
    ("a_pager_takes_too_long", failures::late),
    ("a_pager_waits_in_a_callee", beyond::late),
    ("a_pager_waits_in_a_server", beyond::in_a_server),
    ("again_whatever_the_pager_does", again::whatever),
    ("valid_as_the_pager_may_make_it", again::valid_by_right),
    ("again_by_a_tasks_pager", again::by_a_tasks),
    ("again_by_pagers_of_pagers", again::nested),
    ("again_and_ended", again::ended),
    ("again_in_turn", again::in_turn),
    ("again_in_turn_of_many", again::in_turn_of_many),
    ("again_by_many", again::crowd),
    ("who_is_served_is_seen", again::seen),
    ("pagers_are_counted", counted),
];

/// What a pager of a check does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Does {
    Validate,
    /// From the scratch section, whose page is filled with the offset before.
    Supply,
    Nothing,
    /// Answers what is at [`Own::at`].
    Answer,
    Refuse,
    Decline,
    Fault,
    Loop,
    Sleep,
    /// Validates after 20 ms.
    Late,
    /// Reads at [`Own::at`], and validates.
    Reads,
    /// Cuts the section short before the page, and declines.
    Cut,
}

pub struct Own {
    does: AtomicU64,
    calls: AtomicU64,
    told: [AtomicU64; 4],
    pub at: AtomicU64,
}

impl Own {
    fn new() -> Own {
        let zero = || AtomicU64::new(0);
        Own { does: zero(), calls: zero(), told: [const { AtomicU64::new(0) }; 4], at: zero() }
    }

    fn is(&self, does: Does) -> bool {
        self.does.load(Ordering::SeqCst) == does as u64
    }

    pub fn set(&self, does: Does) {
        self.does.store(does as u64, Ordering::SeqCst);
    }

    /// How often it was asked since the last time.
    pub fn calls(&self) -> u64 {
        self.calls.swap(0, Ordering::SeqCst)
    }

    /// What it was told the last time.
    pub fn told(&self) -> [u64; 4] {
        core::array::from_fn(|at| self.told[at].load(Ordering::SeqCst))
    }
}

impl Pager for Own {
    fn fault(&self, section: u64, offset: u64, right: u64, miss: u64) -> Result<u64, Error> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        [section, offset, right, miss]
            .into_iter()
            .zip(&self.told)
            .for_each(|(word, at)| at.store(word, Ordering::SeqCst));
        let page = section + offset / PAGE * PAGE;
        if self.is(Does::Refuse) {
            return Err(Error::Denied);
        } else if self.is(Does::Decline) {
            return Err(Error::NotSupported);
        } else if self.is(Does::Nothing) {
            return Ok(answer::DONE);
        } else if self.is(Does::Answer) {
            return Ok(self.at.load(Ordering::SeqCst));
        } else if self.is(Does::Fault) {
            load(8);
        } else if self.is(Does::Supply) {
            let scratch = self.at.load(Ordering::SeqCst);
            store(scratch, offset / PAGE + 1);
            return pager::supply_page(page, scratch, pager::supply::CLEAN).map(|()| answer::DONE);
        } else if self.is(Does::Cut) {
            stub::section_resize(&Trap, section, offset / PAGE * PAGE)?;
            return Err(Error::NotSupported);
        } else if self.is(Does::Reads) {
            load(self.at.load(Ordering::SeqCst));
        } else if self.is(Does::Late) {
            time::sleep_ns(20_000_000);
        }
        while self.is(Does::Loop) {}
        while self.is(Does::Sleep) {
            time::sleep_ns(1_000_000_000);
        }
        validate(page, PAGE).map(|()| answer::DONE)
    }
}

/// A pager of this program, and its gate.
pub fn own(does: Does) -> Result<(&'static Own, u64), String> {
    let own: &'static Own = Box::leak(Box::new(Own::new()));
    own.set(does);
    let gates = pager_serve(own).map_err(doing("gates"))?;
    Ok((own, gates.address()))
}

/// A section whose pages hold their numbers and 1, and its pager.
pub fn paged(pages: u64, does: Does, flags: u64) -> Result<(Section, &'static Own), String> {
    let section = data(pages * PAGE).map_err(doing("create"))?;
    (0..pages).for_each(|page| store(section.base() + page * PAGE, page + 1));
    let (own, gate) = own(does)?;
    pager::set(section.base(), gate, 1, flags).map_err(doing("pager"))?;
    Ok((section, own))
}

/// What can be read at an address, if it can.
pub fn read(address: u64) -> Option<u64> {
    // SAFETY: a check's own section; if it cannot be read that is an error, not undefined.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, 8) };
    fault::copy_in(bytes).ok()?.try_into().ok().map(u64::from_le_bytes)
}

fn validates() -> Outcome {
    let (section, own) = paged(700, Does::Validate, 0)?;
    let base = section.base();
    for round in 0..3 {
        invalidate(base, 700 * PAGE).map_err(doing("invalidate"))?;
        for page in [0, 1, 511, 512, 699] {
            let at = base + page * PAGE;
            same!(load(at), page + 1, "page {page}, round {round}");
            same!(
                own.told(),
                [base, page * PAGE, u64::from(Rights::READ.bits()), miss::INVALID],
                "what the pager was told"
            );
            same!(own.calls(), 1, "how often it was asked");
            store(at, page + 1);
            same!(own.calls(), 0, "a store to a valid page");
        }
        // A plain store: an emulator with one processor calls the store of an exchange a read (caveats).
        word(base + 2 * PAGE + 16).store(5, Ordering::Release);
        let wanted = [base, 2 * PAGE + 16, u64::from((Rights::READ | Rights::WRITE).bits()), miss::INVALID];
        holds!(
            own.told()[..2] == wanted[..2] && own.told()[2] & u64::from(Rights::WRITE.bits()) != 0,
            "told of a store: {:x?}",
            own.told()
        );
        same!(
            (own.calls(), load(base + 2 * PAGE + 16), load(base + 2 * PAGE)),
            (1, 5, 3),
            "a store that was made once more"
        );
    }
    validate(base, 700 * PAGE).map_err(doing("validate"))?;
    same!((0..700).map(|page| load(base + page * PAGE)).sum::<u64>(), 700 * 701 / 2, "all pages afterwards");
    same!(own.calls(), 0, "valid pages");
    let info = section::info(base).map_err(doing("info"))?;
    same!(
        (info.pager, info.level),
        (section::info(base_of_text()).map_err(doing("info"))?.base, 1),
        "what is told of it"
    );
    pager::end(base).map_err(doing("end"))?;
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    same!(read(base), None, "without a pager");
    same!(own.calls(), 0, "the pager that was");
    section.delete().map_err(doing("delete"))
}

fn base_of_text() -> u64 {
    base_of_text as *const () as u64
}

/// SSS-60: with an empty pager the store succeeds.
fn valid_before() -> Outcome {
    let (section, own) = paged(4, Does::Nothing, flag::VALID_BEFORE)?;
    let base = section.base();
    invalidate(base, 4 * PAGE).map_err(doing("invalidate"))?;
    (0..4).for_each(|page| store(base + page * PAGE + 8, page));
    same!(own.calls(), 4, "how often it was asked");
    same!((load(base + 3 * PAGE), load(base + 3 * PAGE + 8)), (4, 3), "what is there");
    section.delete().map_err(doing("delete"))?;
    // Absent pages are zeroes then.
    let section = data(2 * PAGE).map_err(doing("create"))?;
    let (own, gate) = self::own(Does::Nothing)?;
    pager::set(section.base(), gate, 1, flag::VALID_BEFORE).map_err(doing("pager"))?;
    same!((load(section.base()), own.told()[3], own.calls()), (0, miss::ABSENT, 1), "an absent page");
    section.delete().map_err(doing("delete"))
}

/// SSS-58: two tasks fault at the same address, and each one's pager sees its own task's faults only.
fn two_tasks() -> Outcome {
    let section = data(2 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    section::grant(base, &everybody(Rights::READ | Rights::WRITE | Rights::CHANGE_ACL)).map_err(doing("grant"))?;
    let (own, gate) = own(Does::Validate)?;
    same!(asked_of_task(), Some((0, 0)), "what is told of a task without a pager");
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    for round in 0..3 {
        invalidate(base, 2 * PAGE).map_err(doing("invalidate"))?;
        store(base, 7);
        same!(own.calls(), 1, "this task's fault");
        same!(asked_of_task(), Some((2 * round + 1, 0)), "what is told of the task's pager");
        let how = run_role(&["task-pager", &format!("{base}")])?;
        same!((how.kind, how.code), (exit::EXITED, 0), "how the other task ended");
        same!(own.calls(), 0, "faults of the other task");
        // The other one has left it invalid: that is no affair of this one's pager, and the page beside it is.
        same!((read(base), own.calls()), (None, 0), "a page that the other one has made invalid");
        same!((load(base + PAGE), own.calls()), (0, 1), "the page beside it");
        same!(asked_of_task(), Some((2 * round + 2, 0)), "what is told of it then");
        validate(base, PAGE).map_err(doing("validate"))?;
        same!((load(base), own.calls()), (8, 0), "what the other one has stored");
    }
    own.set(Does::Refuse);
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    holds!(read(base).is_none(), "a page that the pager refuses is read");
    same!(asked_of_task(), Some((7, 1)), "what is told of a pager that refuses");
    pager::set_for_task(0, 0).map_err(doing("no pager"))?;
    same!(asked_of_task(), Some((0, 0)), "what is told without a pager");
    section.delete().map_err(doing("delete"))
}

/// How often the pager of this task's threads was asked, and in vain.
fn asked_of_task() -> Option<(u64, u64)> {
    let about = info::of_users(musubi::start().user());
    let own = about.iter().flat_map(Info::own_tasks).find(|one| one.number == task::own())?;
    Some((own.asked & ((1 << IN_VAIN) - 1), own.asked >> IN_VAIN))
}

/// Has its pager asked three times, and stays for so many ms.
pub fn asks(ms: u64) -> i32 {
    let run = || -> Outcome {
        let section = data(PAGE).map_err(doing("create"))?;
        store(section.base(), 1);
        let (_, gate) = own(Does::Validate)?;
        pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
        for _ in 0..3 {
            invalidate(section.base(), PAGE).map_err(doing("invalidate"))?;
            same!(load(section.base()), 1, "the page");
        }
        time::sleep_ns(ms * 1_000_000);
        Ok(())
    };
    i32::from(run().inspect_err(|why| musubi::eprintln!("{why}")).is_err())
}

/// A task with a pager of its own.
pub fn role(base: u64) -> i32 {
    let run = || -> Outcome {
        let (own, gate) = own(Does::Validate)?;
        pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        let before = load(base);
        same!((own.calls(), own.told()[0]), (1, base), "this task's fault");
        store(base, before + 1);
        invalidate(base, PAGE).map_err(doing("invalidate"))
    };
    i32::from(run().inspect_err(|why| musubi::eprintln!("{why}")).is_err())
}

/// The task's pager is asked first; what it does not know is the section's pager's.
fn declines() -> Outcome {
    let (section, second) = paged(2, Does::Validate, 0)?;
    let base = section.base();
    let (first, gate) = own(Does::Decline)?;
    pager::set_for_task(gate, 0).map_err(doing("task pager"))?;
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    same!((load(base), first.calls(), second.calls()), (1, 1, 1), "declined by the first");
    first.set(Does::Validate);
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    same!((load(base), first.calls(), second.calls()), (1, 1, 0), "served by the first");
    (first.set(Does::Decline), second.set(Does::Decline));
    invalidate(base, PAGE).map_err(doing("invalidate"))?;
    same!((read(base), first.calls(), second.calls()), (None, 1, 1), "declined by both");
    pager::set_for_task(0, 0).map_err(doing("no pager"))?;
    same!((read(base), second.calls()), (None, 1), "declined by the only one");
    section.delete().map_err(doing("delete"))
}

/// Pitfalls, R4: many threads need the same page, and its pager takes its time.
fn waiters() -> Outcome {
    let (section, own) = paged(2, Does::Late, 0)?;
    let base = section.base();
    for round in 0..5 {
        invalidate(base, 2 * PAGE).map_err(doing("invalidate"))?;
        let threads: Result<Vec<_>, _> =
            (0..8).map(|n| thread::spawn(move || thread::exit(load(base + n % 2 * PAGE)), 0)).collect();
        for (n, one) in threads.map_err(doing("threads"))?.into_iter().enumerate() {
            same!(one.join(), Ok(n as u64 % 2 + 1), "thread {n}, round {round}");
        }
        same!(own.calls(), 2, "how often it was asked for two pages");
    }
    section.delete().map_err(doing("delete"))
}

/// SSS-12: how often a section's pager is asked, and in vain, is read without a call: by the long way to it and by the short one.
fn counted() -> Outcome {
    let (section, own) = paged(2, Does::Validate, 0)?;
    let base = section.base();
    let about = info::of_users(musubi::start().user());
    let told = || {
        let found = about.iter().flat_map(Info::sections).find(|one| one.base == base);
        found.map(|one| (one.asked & ((1 << IN_VAIN) - 1), one.asked >> IN_VAIN))
    };
    same!(told(), Some((0, 0)), "before the first fault");
    let (mut asked, mut in_vain) = (0, 0);
    for does in [Does::Validate, Does::Refuse, Does::Nothing, Does::Fault, Does::Validate] {
        own.set(does);
        for _ in 0..4 {
            invalidate(base, PAGE).map_err(doing("invalidate"))?;
            in_vain += u64::from(read(base).is_none());
            asked += own.calls();
        }
        same!(told(), Some((asked, in_vain)), "after a pager that does {does:?}");
    }
    same!(in_vain, 12, "what was in vain");
    pager::end(base).map_err(doing("end"))?;
    same!(told(), Some((0, 0)), "without a pager");
    section.delete().map_err(doing("delete"))
}

/// All registers that can be named, across a load at `at`.
fn across(at: u64) -> Outcome {
    let general = [3u64, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37].map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let vectors = [41.5f64, 43.25, 47.125, -53.5];
    let (mut g, mut v) = (general, vectors);
    let loaded: u64;
    #[cfg(target_os = "musubi")]
    // SAFETY: one load, of a word of the check's own section.
    unsafe {
        core::arch::asm!(
            "mov {at}, [{at}]",
            at = inout(reg) at => loaded,
            inout("rcx") g[0], inout("rdx") g[1], inout("rsi") g[2], inout("rdi") g[3], inout("r8") g[4], inout("r9") g[5],
            inout("r10") g[6], inout("r11") g[7], inout("r12") g[8], inout("r13") g[9], inout("r14") g[10],
            inout("xmm0") v[0], inout("xmm7") v[1], inout("xmm8") v[2], inout("xmm15") v[3],
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(target_os = "musubi"))]
    {
        (g, v, loaded) = (g, v, at);
    }
    same!((g, v), (general, vectors), "registers");
    same!(loaded, 1, "what was loaded");
    Ok(())
}

/// Whatever the pager does with its registers, the thread has its own.
fn registers() -> Outcome {
    let (section, own) = paged(1, Does::Validate, 0)?;
    let base = section.base();
    for _ in 0..20 {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        across(base)?;
        same!(own.calls(), 1, "how often it was asked");
    }
    section.delete().map_err(doing("delete"))
}

pub use again::served as served_role;
pub use beyond::{of_who_ends, role as beyond_role};
pub use failures::{dying as dying_role, ending as ending_role, left as left_role, role as bad_role};
pub use whose::role as whose_role;

/// Done in time, or not at all.
fn soon<T: Send + 'static>(what: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    in_time(what).ok_or_else(|| String::from("it stands still"))
}

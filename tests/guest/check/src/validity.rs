//! Pages made invalid and valid again (SSS-41, SSS-42): for whoever sees them, on every processor, by the kernel too; and what is in
//! them stays.

use crate::memory::{CODE_42, call, data, load, store};
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::{everybody, role as run_role};
use crate::{holds, same};
use alloc::format;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::frame::{Frame, reason};
use musubi::abi::info::feature;
use musubi::abi::layout::PAGE;
use musubi::abi::section::{SectionInfo, flag};
use musubi::abi::task::{cause, exit};
use musubi::rt::section::{self, invalidate, validate};
use musubi::rt::{Section, Trap, fault, guard, task, thread};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("an_invalid_page_keeps_what_is_in_it", keeps),
    ("a_page_that_nobody_has_used", unused),
    ("invalid_for_other_programs", for_others),
    ("invalid_for_many_programs", for_many),
    ("invalid_on_all_processors", on_all),
    ("invalid_for_the_kernel", for_the_kernel),
    ("clones_of_invalid_pages", clones),
    ("shorter_and_longer", shorter),
    ("validity_is_refused", refusals),
    ("a_handler_makes_a_page_valid", by_a_handler),
    ("an_invalid_page_of_a_text", of_a_text),
    ("an_invalid_page_of_a_stack", of_a_stack),
];

/// What can be read at an address, if it can.
fn read(address: u64) -> Option<u64> {
    // SAFETY: the check's own section; if it cannot be read that is an error, not undefined.
    let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, 8) };
    let bytes = fault::copy_in(bytes).ok()?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// Whether it could be written there.
fn write(address: u64, value: u64) -> bool {
    // SAFETY: as above; nobody else has a reference.
    let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, 8) };
    fault::copy_out(bytes, &value.to_le_bytes()).is_ok()
}

/// Pages that hold their numbers.
fn numbered(pages: u64) -> Result<Section, alloc::string::String> {
    let section = data(pages * PAGE).map_err(doing("create"))?;
    (0..pages).for_each(|page| store(section.base() + page * PAGE, page + 1));
    Ok(section)
}

fn invalid(base: u64) -> Result<u64, alloc::string::String> {
    Ok(section::info(base).map_err(doing("info"))?.invalid)
}

fn keeps() -> Outcome {
    let section = numbered(1030)?;
    let base = section.base();
    // One; some; over the border between two tables; more than one call does.
    for (first, count) in [(3, 1), (1, 2), (510, 4), (5, 1020), (0, 1030)] {
        for round in 0..3 {
            invalidate(base + first * PAGE, count * PAGE).map_err(doing("invalidate"))?;
            same!(invalid(base)?, count, "how many are invalid");
            for page in 0..1030 {
                let there = !(first..first + count).contains(&page);
                let at = base + page * PAGE;
                same!(read(at), there.then_some(page + 1), "page {page} of {first} and {count} more, round {round}");
                same!(write(at, page + 1), there, "a store to page {page}");
            }
            validate(base + first * PAGE, count * PAGE).map_err(doing("validate"))?;
            same!(invalid(base)?, 0, "how many are still invalid");
            for page in 0..1030 {
                same!(read(base + page * PAGE), Some(page + 1), "page {page} afterwards");
                holds!(write(base + page * PAGE, page + 1), "page {page} cannot be written afterwards");
            }
        }
    }
    // Twice is as once, and valid pages stay valid.
    for _ in 0..2 {
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        same!(read(base), None, "an invalid page");
    }
    for _ in 0..2 {
        validate(base, 2 * PAGE).map_err(doing("validate"))?;
        same!(read(base), Some(1), "a valid page");
    }
    section.delete().map_err(doing("delete"))
}

fn unused() -> Outcome {
    let section = data(4 * PAGE).map_err(doing("create"))?;
    let base = section.base();
    invalidate(base + PAGE, 2 * PAGE).map_err(doing("invalidate"))?;
    let seen: Vec<_> = (0..4).map(|page| read(base + page * PAGE)).collect();
    same!(seen, [Some(0), None, None, Some(0)], "pages that were never used");
    same!(section::info(base).map_err(doing("info"))?.resident, 2, "pages that there are");
    validate(base, 4 * PAGE).map_err(doing("validate"))?;
    same!(read(base + PAGE), Some(0), "one that is valid again");
    section.delete().map_err(doing("delete"))
}

fn for_others() -> Outcome {
    let section = numbered(2)?;
    let (base, second) = (section.base(), section.base() + PAGE);
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let peer = Peer::start()?;
    for round in 0..20 {
        same!(peer.call(op::PEEK, &[second]), Ok(2), "a callee's look, round {round}");
        same!(peer.plain(op::PEEK, &[second]), Ok(2), "the same in a plain call");
        invalidate(second, PAGE).map_err(doing("invalidate"))?;
        same!(peer.call(op::PEEK, &[base]), Ok(1), "a callee's look at the other page");
        same!(peer.call(op::PEEK, &[second]), Err(Error::Faulted), "a callee's look at an invalid page");
        same!(peer.plain(op::PEEK, &[second]), Err(Error::Faulted), "the same in a plain call");
        same!(peer.call(op::POKE, &[second, 7]), Err(Error::Faulted), "a callee's store to it");
        // It may use the section, but it is not its own.
        same!(peer.call(op::VALIDATE, &[second, PAGE]).is_err(), true, "a validation by somebody else");
        same!(read(second), None, "the page after that");
        validate(second, PAGE).map_err(doing("validate"))?;
    }
    invalidate(second, PAGE).map_err(doing("invalidate"))?;
    let how = run_role(&["peek", &format!("{second:#x}")])?;
    same!(
        (how.kind, how.cause, how.address, how.section),
        (exit::FAULT, cause::INVALID, second, base),
        "how a program ends that looks at it"
    );
    section.delete().map_err(doing("delete"))
}

/// So many that a call has not time for all pages at once. (With keys they see it in one view.)
fn for_many() -> Outcome {
    const PAGES: u64 = 512;
    const PEERS: usize = 6;
    let section = numbered(PAGES)?;
    let base = section.base();
    section::grant(base, &everybody(Rights::READ | Rights::WRITE)).map_err(doing("grant"))?;
    let peers: Vec<Peer> = (0..PEERS).map(|_| Peer::start()).collect::<Result<_, _>>()?;
    for (n, peer) in peers.iter().enumerate() {
        same!(peer.call(op::PEEK, &[base + n as u64 * PAGE]), Ok(n as u64 + 1), "what a callee sees, {n}");
    }
    let has_keys = task::processors().any(|one| one.features & feature::PKU != 0);
    for does in [stub::page_invalidate, stub::page_validate] {
        let done = does(&Trap, base, PAGES * PAGE).map_err(doing("a call for all"))?;
        holds!(done % PAGE == 0 && (PAGE..=PAGES * PAGE).contains(&done), "it says that it has done {done}");
        holds!(done < PAGES * PAGE || has_keys, "it did all at once");
    }
    invalidate(base, PAGES * PAGE).map_err(doing("invalidate"))?;
    for (n, peer) in peers.iter().enumerate() {
        for page in [n as u64, PAGES - 1] {
            same!(peer.call(op::PEEK, &[base + page * PAGE]), Err(Error::Faulted), "page {page} for callee {n}");
        }
    }
    validate(base, PAGES * PAGE).map_err(doing("validate"))?;
    for (n, peer) in peers.iter().enumerate() {
        // It looks at a byte.
        same!(peer.call(op::PEEK, &[base + (PAGES - 2) * PAGE]), Ok((PAGES - 1) & 0xff), "a last page for callee {n}");
    }
    section::free(base, PAGES * PAGE).map_err(doing("free"))?;
    same!(section::info(base).map(|info| info.resident), Ok(0), "pages that are left");
    peers.into_iter().try_for_each(|peer| peer.child.kill().map_err(doing("kill")))?;
    section.delete().map_err(doing("delete"))
}

/// Threads read and write a page all the time. When the call has returned nobody can.
fn on_all() -> Outcome {
    /// How often it went and came back: odd while it is gone.
    static TURN: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    let section = numbered(1)?;
    let base = section.base();
    let works = move |writes: bool| {
        let (mut wrong, mut accesses) = (0, 0_u32);
        while !DONE.load(Ordering::Relaxed) {
            let turn = TURN.load(Ordering::SeqCst);
            let could = if writes { write(base, 1) } else { read(base).is_some() };
            // It may have come back in between.
            wrong += u64::from(turn % 2 == 1 && could && TURN.load(Ordering::SeqCst) == turn);
            SEEN.fetch_add(u64::from(could), Ordering::Relaxed);
            accesses += 1;
            if accesses.is_multiple_of(64) {
                // Or else each step would have to wait for the end of everybody's quantum.
                thread::yield_now();
            }
        }
        thread::exit(wrong)
    };
    let threads: Result<Vec<_>, _> = (0..8).map(|n| thread::spawn(move || works(n % 2 == 0), 0)).collect();
    let threads = threads.map_err(doing("threads"))?;
    for _ in 0..200 {
        let before = SEEN.load(Ordering::Relaxed);
        invalidate(base, PAGE).map_err(doing("invalidate"))?;
        TURN.fetch_add(1, Ordering::SeqCst);
        (0..3).for_each(|_| thread::yield_now());
        TURN.fetch_add(1, Ordering::SeqCst);
        validate(base, PAGE).map_err(doing("validate"))?;
        while SEEN.load(Ordering::Relaxed) == before {
            thread::yield_now();
        }
    }
    DONE.store(true, Ordering::SeqCst);
    for one in threads {
        same!(one.join(), Ok(0), "accesses to an invalid page");
    }
    section.delete().map_err(doing("delete"))
}

fn for_the_kernel() -> Outcome {
    let section = numbered(2)?;
    let out = section.base();
    invalidate(out, PAGE).map_err(doing("invalidate"))?;
    let tell = |out| stub::section_info(&Trap, section.base(), out);
    same!(tell(out), Err(Error::BadAddress), "what the kernel was to write to an invalid page");
    same!(tell(out + PAGE - 8), Err(Error::BadAddress), "what was to begin there");
    same!(stub::section_name(&Trap, out, out, 8), Err(Error::BadAddress), "what it was to read there");
    same!(stub::wake(&Trap, out, 1), Err(Error::BadAddress), "a word to wait at");
    validate(out, PAGE).map_err(doing("validate"))?;
    same!(read(out), Some(1), "what is there afterwards");
    same!(tell(out), Ok(out), "what the kernel writes to a valid page");
    holds!(core::mem::size_of::<SectionInfo>() > 16, "it is longer than that");
    section.delete().map_err(doing("delete"))
}

/// A clone has what the pages held, and all of its own are valid. What is shared is copied before a store.
fn clones() -> Outcome {
    let section = numbered(3)?;
    let base = section.base();
    holds!((0..3).all(|page| write(base + page * PAGE, page + 1)), "a store before");
    invalidate(base + PAGE, PAGE).map_err(doing("invalidate"))?;
    let clone = Section::clone_of(base, flag::AS_DATA, 0, 0).map_err(doing("clone"))?;
    same!(load(clone.base() + PAGE), 2, "the clone's page");
    same!(read(base + PAGE), None, "the page itself");
    validate(base + PAGE, PAGE).map_err(doing("validate"))?;
    holds!(write(base + PAGE, 77), "a store afterwards");
    same!((load(clone.base() + PAGE), read(base + PAGE)), (2, Some(77)), "the clone's page and this one after a store");
    invalidate(clone.base(), PAGE).map_err(doing("invalidate the clone's"))?;
    same!((read(clone.base()), read(base)), (None, Some(1)), "the clone's page is invalid, this one is not");
    clone.delete().map_err(doing("delete"))?;
    section.delete().map_err(doing("delete"))
}

fn shorter() -> Outcome {
    let mut section = numbered(600)?;
    let base = section.base();
    invalidate(base, 600 * PAGE).map_err(doing("invalidate"))?;
    section.resize(100 * PAGE).map_err(doing("shorter"))?;
    same!(invalid(base)?, 100, "how many are invalid");
    section.resize(600 * PAGE).map_err(doing("longer"))?;
    same!((read(base + 99 * PAGE), read(base + 100 * PAGE)), (None, Some(0)), "the old end and what is new");
    validate(base, 600 * PAGE).map_err(doing("validate"))?;
    same!(read(base + 99 * PAGE), Some(100), "the old end afterwards");
    section.delete().map_err(doing("delete"))
}

fn refusals() -> Outcome {
    let section = numbered(4)?;
    let base = section.base();
    for call in [stub::page_invalidate::<Trap>, stub::page_validate::<Trap>] {
        for (at, len) in
            [(base + 8, PAGE), (base, 0), (base, 5 * PAGE), (base + 4 * PAGE, PAGE), (base, u64::MAX), (base, !0xfff)]
        {
            same!(call(&Trap, at, len), Err(Error::BadAddress), "{len:#x} bytes from {at:#x}");
        }
        same!(call(&Trap, PAGE, PAGE), Err(Error::NotFound), "where there is no section");
        // The file server's text, say: everybody's, but not for this.
        let system = section::list().find(|info| {
            info.owner != musubi::start().task()
                && info.rights & 1 != 0
                && info.rights & u64::from(Rights::CHANGE_ACL.bits()) == 0
        });
        let system = system.ok_or("there is nothing of the system's that can be seen")?;
        let refused = call(&Trap, system.base, PAGE).is_err_and(|error| error.refusal().is_some());
        holds!(refused, "a page of section {:#x} was not refused", system.base);
        // So many at once, and no more.
        let large = data(2000 * PAGE).map_err(doing("a large one"))?;
        let done = call(&Trap, large.base(), 2000 * PAGE);
        holds!(
            matches!(done, Ok(done) if done % PAGE == 0 && (PAGE..2000 * PAGE).contains(&done)),
            "2000 pages: {done:?}"
        );
        large.delete().map_err(doing("delete"))?;
    }
    let post = stub::post_get(&Trap, musubi::abi::post::ANY).map_err(doing("a post"))?;
    same!(stub::page_invalidate(&Trap, post, PAGE), Err(Error::NotSupported), "a post");
    stub::post_free(&Trap, post, 1).map_err(doing("free"))?;
    same!(read(base), Some(1), "what was not made invalid");
    section.delete().map_err(doing("delete"))
}

fn by_a_handler() -> Outcome {
    let how = run_role(&["validity"])?;
    same!((how.kind, how.code), (exit::EXITED, 0), "how the program ended");
    Ok(())
}

/// A program that makes pages valid when they are wanted.
pub fn role() -> i32 {
    static FAULTS: AtomicU64 = AtomicU64::new(0);
    extern "C" fn handler(frame: &mut Frame) -> ! {
        FAULTS.fetch_add(1, Ordering::Relaxed);
        let page = frame.address / PAGE * PAGE;
        let mended = frame.reason == reason::FAULT && validate(page, PAGE).is_ok();
        let _ = stub::fault_return(&Trap, core::ptr::from_mut(frame) as u64, mended.into());
        loop {
            core::hint::spin_loop();
        }
    }
    let Ok(section) = numbered(16) else { return 2 };
    let base = section.base();
    if stub::fault_entry(&Trap, handler as *const () as u64, 0).is_err() || invalidate(base, 16 * PAGE).is_err() {
        return 3;
    }
    for round in 0..2 {
        for page in 0..16 {
            if load(base + page * PAGE) != page + 1 + round {
                return 4;
            }
            store(base + page * PAGE, page + 2 + round);
        }
        if round == 0 && invalidate(base, 16 * PAGE).is_err() {
            return 5;
        }
    }
    if FAULTS.load(Ordering::Relaxed) == 32 { 0 } else { 6 }
}

/// What the code at an address says, if it can be executed.
fn execute(address: u64) -> Result<u64, Error> {
    guard::run(|| call(address))
}

/// A text of two pages, each with code at its beginning.
fn code() -> Result<u64, Error> {
    let mut code = data(2 * PAGE)?;
    for page in code.bytes_mut().chunks_mut(PAGE as usize) {
        page[..CODE_42.len()].copy_from_slice(&CODE_42);
    }
    code.seal()
}

/// It is neither executed nor read, here and by others, and the page beside it is.
fn of_a_text() -> Outcome {
    let text = code().map_err(doing("a text"))?;
    let second = text + PAGE;
    section::grant(text, &everybody(Rights::READ)).map_err(doing("grant"))?;
    let peer = Peer::start()?;
    for round in 0..20 {
        same!((execute(second), execute(text)), (Ok(42), Ok(42)), "both pages, round {round}");
        same!(peer.call(op::PEEK, &[second]), Ok(0xb8), "what another program reads, round {round}");
        invalidate(second, PAGE).map_err(doing("invalidate"))?;
        same!((invalid(text)?, execute(second)), (1, Err(Error::Faulted)), "the invalid page, round {round}");
        same!((read(second), execute(text)), (None, Ok(42)), "reading it, and the other page, round {round}");
        same!(peer.call(op::PEEK, &[second]), Err(Error::Faulted), "another program, round {round}");
        same!(execute(second), Err(Error::Faulted), "once more, round {round}");
        validate(second, PAGE).map_err(doing("validate"))?;
        same!(invalid(text)?, 0, "how many are still invalid");
    }
    // The first access after that is a fetch, by a thread that has never seen it.
    invalidate(text, 2 * PAGE).map_err(doing("invalidate both"))?;
    let fetches = |valid| {
        let body = move || thread::exit(execute(second).unwrap_or(0));
        let how = thread::spawn(body, 0).and_then(|other| other.join());
        same!(how, Ok(if valid { 42 } else { 0 }), "another thread, valid: {valid}");
        Ok(())
    };
    fetches(false)?;
    validate(text, 2 * PAGE).map_err(doing("validate both"))?;
    fetches(true)?;
    same!(execute(second), Ok(42), "afterwards");
    let how = run_role(&["invalid", "0"])?;
    let right = u64::from(Rights::EXECUTE.bits());
    same!((how.kind, how.cause, how.right), (exit::FAULT, cause::INVALID, right), "how a program ends that goes there");
    peer.end()?;
    section::delete(text).map_err(doing("delete"))
}

/// Of the thread's own stack, in the middle of what it uses; nobody else's.
fn of_a_stack() -> Outcome {
    on_own_stack()?;
    static WHERE: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicBool = AtomicBool::new(false);
    let body = || {
        let words = [const { AtomicU64::new(0) }; 1024];
        let came = on_own_stack();
        WHERE.store(words.as_ptr() as u64 / PAGE * PAGE, Ordering::SeqCst);
        while !DONE.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        if let Err(why) = &came {
            musubi::eprintln!("{why}");
        }
        thread::exit(came.is_err().into())
    };
    let other = thread::spawn(body, 0).map_err(doing("a thread"))?;
    while WHERE.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let at = WHERE.load(Ordering::SeqCst);
    let refused = [stub::page_invalidate(&Trap, at, PAGE), stub::page_validate(&Trap, at, PAGE)]
        .map(|outcome| outcome.is_err_and(|error| error.refusal().is_some()));
    DONE.store(true, Ordering::SeqCst);
    same!(other.join(), Ok(0), "another thread on its own stack (why is on the error stream)");
    same!(refused, [true; 2], "whether another thread's page was refused");
    let how = run_role(&["invalid", "1"])?;
    same!((how.kind, how.cause), (exit::FAULT, cause::INVALID), "how a program ends that calls down there");
    Ok(())
}

#[inline(never)]
fn on_own_stack() -> Outcome {
    // A whole page lies in these.
    let words = [const { AtomicU64::new(5) }; 1024];
    let at = (words.as_ptr() as u64).next_multiple_of(PAGE);
    let base = section::info(at).map_err(doing("info"))?.base;
    for round in 0..20 {
        store(at, round);
        invalidate(at, PAGE).map_err(doing("invalidate"))?;
        let seen = (invalid(base)?, read(at), read(at + PAGE - 8), write(at, 9));
        let told = stub::section_info(&Trap, at, at);
        validate(at, PAGE).map_err(doing("validate"))?;
        same!(seen, (1, None, None, false), "the invalid page, round {round}");
        same!(told, Err(Error::BadAddress), "what the kernel was to write there, round {round}");
        same!((invalid(base)?, load(at), read(at + PAGE - 8)), (0, round, Some(5)), "afterwards, round {round}");
    }
    core::hint::black_box(&words);
    Ok(())
}

/// A program that goes where its own page is invalid: of a text, of its stack.
pub fn falls(stack: bool) -> i32 {
    #[inline(never)]
    fn deep() -> u64 {
        let words = [const { AtomicU64::new(1) }; 4096];
        core::hint::black_box(&words).iter().map(|word| word.load(Ordering::Relaxed)).sum()
    }
    let word = AtomicU64::new(0);
    if stack {
        let below = (word.as_ptr() as u64 - 5 * PAGE) / PAGE * PAGE;
        if invalidate(below, PAGE).is_err() {
            return 2;
        }
        return deep() as i32;
    }
    match code().and_then(|text| invalidate(text, PAGE).map(|()| text)) {
        Ok(text) => call(text) as i32,
        Err(_) => 2,
    }
}

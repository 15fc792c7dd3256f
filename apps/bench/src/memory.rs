//! Pages made invalid and valid again by light entry (SSS-41, SSS-42, SSS-M4), in one view and in more, on one processor and on more; and real
//! pages had, looked at and given back (SSS-37, SSS-M3).

use crate::pool;
use crate::report::{Case, Report};
use crate::rounds::Plan;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use musubi::abi::layout::PAGE;
use musubi::abi::rights::{ANY_TEXT, principal};
use musubi::abi::section::{kind, real};
use musubi::command::{Child, Command};
use musubi::rt::post::Post;
use musubi::rt::section::{self, alloc, alloc_as, free, invalidate, validate};
use musubi::rt::{Section, probe, task, thread, time};
use musubi::{AclEntry, Rights};

const ROUNDS: usize = 300;
const WARM: usize = 64;
/// Of 1, 16 and 512 pages.
const SIZES: [u64; 3] = [PAGE, 16 * PAGE, 512 * PAGE];
/// The paper's.
const REAL: [u64; 5] = [PAGE, 4 * PAGE, 16 * PAGE, 64 * PAGE, 256 * PAGE];
/// A large page's, which is also had as small ones.
const LARGE: u64 = 2 << 20;
/// So long the other programs have to look at all pages.
const PATIENCE_NS: u64 = 10_000_000_000;

pub fn run(report: &Report) -> Result<(), String> {
    let most = SIZES[SIZES.len() - 1];
    let shown = Section::create(most, most, kind::DATA, 0).map_err(|e| format!("a section: {e}"))?;
    if task::processors().count() > 1 {
        return on_processors(report, shown.base(), most);
    }
    let everybody = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: ANY_TEXT };
    section::grant(shown.base(), &everybody).map_err(|e| format!("a list: {e}"))?;
    let seen = Post::any().map_err(|e| format!("a post: {e}"))?;
    seen.allow(&AclEntry { rights: Rights::CALL.bits(), ..everybody }).map_err(|e| format!("its list: {e}"))?;
    real(report)?;
    large(report, &everybody)?;
    touch(shown.base(), most);
    measure(report, "light", shown.base());
    in_turn(report, shown.base())?;
    anew(report, shown.base());
    let first = viewer(seen, shown.base(), most)?;
    measure(report, "light-2-views", shown.base());
    let second = viewer(seen, shown.base(), most)?;
    measure(report, "light-3-views", shown.base());
    pool::end(first)?;
    pool::end(second)?;
    seen.free(true).map_err(|e| format!("freeing: {e}"))
}

/// A thread keeps the last three sections whose pages it has made invalid or valid: what it takes where there are two in turn, three, or one more than
/// are kept. What choosing one takes is taken off.
fn in_turn(report: &Report, base: u64) -> Result<(), String> {
    let made = || Section::create(PAGE, PAGE, kind::DATA, 0).map_err(|e| format!("a section: {e}"));
    let others = [made()?, made()?, made()?];
    others.iter().for_each(|other| touch(other.base(), PAGE));
    let all: Vec<u64> = [base].into_iter().chain(others.iter().map(Section::base)).collect();
    let done = |outcome: Result<(), _>| outcome.expect("a page of an own section");
    for (way, count) in [("light-two-in-turn", 2), ("light-three-in-turn", 3), ("light-four-in-turn", 4)] {
        let some = &all[..count];
        let turn = Cell::new(0);
        // Whose turn it is comes first: it was done there longest ago.
        let each = |does: &dyn Fn(u64)| (turn.get()..turn.get() + count).for_each(|at| does(some[at % count]));
        let valid = || each(&|base| done(validate(base, PAGE)));
        let invalid = || each(&|base| done(invalidate(base, PAGE)));
        let next = || {
            let at = turn.get();
            turn.set(if at + 1 == count { 0 } else { at + 1 });
            core::hint::black_box(some[at])
        };
        let choosing = Plan::new(ROUNDS).ticks(|| _ = next());
        let case = |case| Case { case, way, bytes: PAGE as usize };
        let mut rounds = Plan::new(ROUNDS).first(&valid).measure(|| done(invalidate(next(), PAGE)));
        rounds.ticks = rounds.ticks.less(choosing);
        report.case(case("page_invalidate"), &rounds, &[]);
        let mut rounds = Plan::new(ROUNDS).first(&invalid).measure(|| done(validate(next(), PAGE)));
        rounds.ticks = rounds.ticks.less(choosing);
        report.case(case("page_validate"), &rounds, &[]);
        valid();
    }
    others.into_iter().try_for_each(|other| other.delete().map_err(|e| format!("deleting: {e}")))
}

/// The first time after the section's list was changed, when the thread is asked anew whether it may.
fn anew(report: &Report, base: u64) {
    let done = |outcome: Result<(), _>| outcome.expect("a page of an own section");
    let entry = |rights: Rights| AclEntry { principal: principal::ANY, rights: rights.bits(), id: 0, text: ANY_TEXT };
    let changed =
        || [Rights::empty(), Rights::READ].into_iter().for_each(|rights| done(section::grant(base, &entry(rights))));
    let case = |case| Case { case, way: "light-list-changed", bytes: PAGE as usize };
    let valid = || {
        done(validate(base, PAGE));
        touch(base, PAGE);
        changed();
        touch(base, PAGE);
    };
    let rounds = Plan::new(ROUNDS).first(&valid).measure(|| done(invalidate(base, PAGE)));
    report.case(case("page_invalidate"), &rounds, &[]);
    let invalid = || {
        valid();
        done(invalidate(base, PAGE));
        changed();
    };
    let rounds = Plan::new(ROUNDS).first(&invalid).measure(|| done(validate(base, PAGE)));
    report.case(case("page_validate"), &rounds, &[]);
    valid();
}

/// The same while threads of this program execute on one further processor and on two, which have to forget what is made invalid.
fn on_processors(report: &Report, base: u64, len: u64) -> Result<(), String> {
    touch(base, len);
    measure(report, "light", base);
    let (here, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut others = Vec::new();
    for way in ["light-2-processors", "light-3-processors"].into_iter().take(task::processors().count() - 1) {
        let (seen, until) = (here.clone(), stop.clone());
        let executes = move || {
            touch(base, len);
            seen.fetch_add(1, Ordering::SeqCst);
            while !until.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        };
        others.push(thread::spawn(executes, 0).map_err(|e| format!("a thread: {e}"))?);
        while here.load(Ordering::SeqCst) < others.len() {
            time::sleep_ns(1_000_000);
        }
        measure(report, way, base);
    }
    stop.store(true, Ordering::Relaxed);
    others.into_iter().try_for_each(|other| other.join().map(drop)).map_err(|e| format!("a thread: {e}"))
}

/// Had, one byte of each page looked at, and given back.
fn real(report: &Report) -> Result<(), String> {
    let most = REAL[REAL.len() - 1];
    let section = Section::create(most, most, kind::DATA, 0).map_err(|e| format!("a section: {e}"))?;
    let base = section.base();
    for len in REAL {
        let both = || {
            alloc(base, len).expect("whole pages of an own section");
            touch(base, len);
            free(base, len).expect("what was had just now");
        };
        let rounds = if len > 16 * PAGE { 100 } else { ROUNDS };
        report.case(
            Case { case: "alloc+free", way: "light", bytes: len as usize },
            &Plan::new(rounds).measure(both),
            &[],
        );
    }
    section.delete().map_err(|e| format!("deleting: {e}"))
}

/// 2 MiB as small pages and as a large one: had, looked at and given back; looked at by a view that does not know it; and made invalid and valid.
fn large(report: &Report, everybody: &AclEntry) -> Result<(), String> {
    for (way, attributes) in [("light-small", 0), ("light-large", real::SIZE_2M)] {
        let section = Section::create(LARGE, LARGE, kind::DATA, 0).map_err(|e| format!("a section: {e}"))?;
        let base = section.base();
        let case = |case| Case { case, way, bytes: LARGE as usize };
        let have = || alloc_as(base, LARGE, attributes).expect("whole pages of an own section");
        let both = || {
            have();
            touch(base, LARGE);
            free(base, LARGE).expect("what was had just now");
        };
        report.case(case("alloc+free"), &Plan::new(ROUNDS / 10).measure(both), &[]);
        have();
        let forget = || {
            for rights in [Rights::READ, Rights::empty()] {
                section::grant(base, &AclEntry { rights: rights.bits(), ..*everybody }).expect("an own section");
            }
        };
        report.case(case("touch"), &Plan::new(ROUNDS / 10).first(&forget).measure(|| touch(base, LARGE)), &[]);
        validity(report, way, base, LARGE);
        section.delete().map_err(|e| format!("deleting: {e}"))?;
    }
    Ok(())
}

fn measure(report: &Report, way: &str, base: u64) {
    SIZES.into_iter().for_each(|len| validity(report, way, base, len));
}

fn validity(report: &Report, way: &str, base: u64, len: u64) {
    let done = |what: Result<(), musubi::Error>| what.expect("whole pages of an own section");
    let case = |case| Case { case, way, bytes: len as usize };
    let valid = || {
        done(validate(base, len));
        touch(base, len);
    };
    let before = told();
    let invalid = Plan::new(ROUNDS).warm(WARM).first(&valid).measure(|| done(invalidate(base, len)));
    report.case(case("page_invalidate"), &invalid, &[]);
    // To the nearest: one that is in the kernel just then has forgotten without being interrupted.
    let rounds = (WARM + ROUNDS) as u64;
    report.count(case("page_invalidate"), "processors-told", (told() - before + rounds / 2) / rounds);
    let again = || {
        valid();
        done(invalidate(base, len));
    };
    report.case(case("page_validate"), &Plan::new(ROUNDS).first(&again).measure(|| done(validate(base, len))), &[]);
}

/// How often a processor was interrupted to forget something.
fn told() -> u64 {
    task::processors().map(|processor| processor.shootdowns).sum()
}

fn touch(base: u64, len: u64) {
    (base..base + len).step_by(PAGE as usize).for_each(|at| _ = probe::read(at));
}

/// Another program that has looked at all pages: they are in its view, too.
pub fn viewer(seen: Post, base: u64, len: u64) -> Result<Child, String> {
    let words = [seen.0, base, len].map(|word| format!("{word}"));
    let command =
        words.iter().fold(Command::new(b"bin/bench").arg(b"view"), |command, word| command.arg(word.as_bytes()));
    let child = command.spawn().map_err(|e| format!("bin/bench: {e}"))?;
    seen.receive(PATIENCE_NS).map_err(|e| format!("a program looks at pages: {e}"))?;
    Ok(child)
}

/// Its main function.
pub fn view(words: [&str; 3]) -> i32 {
    let [Ok(seen), Ok(base), Ok(len)] = words.map(str::parse) else { return 2 };
    touch(base, len);
    if Post(seen).send(0, [0; 6], None).is_err() {
        return 1;
    }
    time::sleep_ns(u64::MAX);
    0
}

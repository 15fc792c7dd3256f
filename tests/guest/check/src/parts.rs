//! What takes long goes by parts, between which others have their turns (architecture, section 14, bounded calls): whoever is in the middle of it may be
//! killed there, and others see what is done so far.

use crate::deaths::{no_more_lost, settled, settled_with};
use crate::memory::{data, load, store};
use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::rights::principal;
use musubi::abi::section::kind;
use musubi::abi::task::{Limits, exit};
use musubi::command::Command;
use musubi::rt::post::Post;
use musubi::rt::section::{self, Section, alloc};
use musubi::rt::thread::{self, Thread};
use musubi::rt::{Bound, Trap, task, time};
use musubi::{AclEntry, Error, Rights};

pub mod late;
mod later;
mod two;
mod views;

pub const CHECKS: &[Check] = &[
    ("a_section_is_deleted_by_parts", deleted),
    ("two_delete_a_section_by_parts", two::delete_at_once),
    ("a_section_is_cut_by_parts", cut),
    ("a_text_is_looked_through_by_parts", sealed),
    ("much_memory_of_a_program_that_ends", ends),
    ("what_is_deleted_goes_by_parts_with_who_deletes_it", rest),
    ("what_others_wait_for_is_given_back_first", crate::pagers::of_who_ends),
    ("many_sections_are_asked_about_by_parts", asked),
    ("a_page_changes_in_all_of_many_views", views::a_page_changes_in_all),
    ("who_ends_begins_no_signals_program", late::begins_nothing),
    ("a_call_beside_a_clone_is_made_again", later::made_again),
];

/// So much that it takes several quanta.
const LONG: u64 = 160 << 20;
/// What goes without being called for goes faster: so much that it takes more than a quantum on any host.
const LONGER: u64 = 2 * LONG;
const TEXT: u64 = 48 << 20;
const TRIES: usize = 20;
/// So often is enough.
const SEEN: usize = 5;
/// Texts, posts and other sections beside.
const MANY: u64 = 60;
/// Threads, more than end at a time.
const WAITING: u64 = 40;
/// What there may be more afterwards: programs lie elsewhere each time, and views have a table more for that now and then.
const MOST: u64 = 24 * PAGE;
const PATIENCE_NS: u64 = 20_000_000_000;

fn filled(len: u64) -> Result<Section, String> {
    let section = data(len).map_err(doing("create"))?;
    alloc(section.base(), len).map_err(doing("alloc"))?;
    Ok(section)
}

/// A thread is at this; whether it was seen to be in the middle, where it is killed.
fn in_the_middle(work: impl FnOnce() + Send + 'static, is_in_it: impl Fn() -> bool) -> Result<bool, String> {
    let done = Arc::new(AtomicBool::new(false));
    let thread = spawn(work, &done)?;
    while !is_in_it() && !done.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    let seen = is_in_it();
    match thread.kill() {
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(format!("kill: {error}")),
    }
    thread.join().map_err(doing("join"))?;
    Ok(seen)
}

/// Killed where it waits, or in the kernel: whoever is killed with the heap's lock leaves that to nobody.
fn spawn(work: impl FnOnce() + Send + 'static, done: &Arc<AtomicBool>) -> Result<Thread, String> {
    let done = done.clone();
    let body = move || {
        work();
        done.store(true, Ordering::SeqCst);
        thread::park()
    };
    thread::spawn(body, 0).map_err(doing("thread"))
}

fn len_of(base: u64) -> Option<u64> {
    section::info(base).map(|info| info.len).ok()
}

/// Who deletes it is killed in the middle: a part of it is left, becomes no longer, and whoever may deletes it.
fn deleted() -> Outcome {
    let before = settled()?;
    let mut times = 0;
    for _ in 0..TRIES {
        let section = filled(LONG)?;
        let base = section.base();
        core::mem::forget(section);
        let is_partly = move || len_of(base).is_some_and(|len| len < LONG);
        in_the_middle(move || _ = section::delete(base), is_partly)?;
        let Some(len) = len_of(base) else { continue };
        times += usize::from(len < LONG);
        if len < LONG {
            same!(stub::section_resize(&Trap, base, LONG), Err(Error::Busy), "what is being deleted becomes longer");
            holds!(len.is_multiple_of(2 << 20), "{len} bytes are left");
        }
        section::delete(base).map_err(doing("delete what is left"))?;
        same!(len_of(base), None, "the length of what is deleted");
    }
    holds!(times > 0, "nobody had a turn while a section was deleted, {TRIES} times");
    settled_with(|after| no_more_lost(&before, after, MOST)).map(drop)
}

/// The same where it becomes shorter: what is left can be used, and become longer again.
fn cut() -> Outcome {
    let mut times = 0;
    for _ in 0..TRIES {
        let section = filled(LONG)?;
        let base = section.base();
        let is_partly = move || len_of(base).is_some_and(|len| len < LONG && len > PAGE);
        times += usize::from(in_the_middle(move || _ = stub::section_resize(&Trap, base, PAGE), is_partly)?);
        let len = len_of(base).ok_or("it has gone")?;
        store(base + len - PAGE, 1);
        stub::section_resize(&Trap, base, LONG).map_err(doing("resize"))?;
        store(base + LONG - PAGE, 1);
        same!(len_of(base), Some(LONG), "the length in the end");
        section.delete().map_err(doing("delete"))?;
    }
    holds!(times > 0, "nobody had a turn while a section became shorter, {TRIES} times");
    Ok(())
}

/// A text is looked through for what writes the key register. Nobody else seals it meanwhile, whoever does so afterwards goes on, and what there is is found.
fn sealed() -> Outcome {
    const WRPKRU: [u8; 3] = [0x0f, 0x01, 0xef];
    let (mut times, mut refused) = (0, 0);
    for _ in 0..TRIES {
        let mut section = Section::create(TEXT, TEXT + PAGE, kind::DATA, 0).map_err(doing("create"))?;
        alloc(section.base(), TEXT).map_err(doing("alloc"))?;
        let end = TEXT as usize;
        section.bytes_mut()[end - WRPKRU.len()..].copy_from_slice(&WRPKRU);
        let base = section.base();
        core::mem::forget(section);
        // Its length stays while it is looked through.
        let is_in_it = || stub::section_resize(&Trap, base, TEXT) == Err(Error::Busy);
        let thread = spawn(move || _ = stub::section_seal(&Trap, base), &Arc::default())?;
        let kind = || section::info(base).map(|info| info.kind).map_err(doing("info"));
        while !is_in_it() && kind()? == kind::DATA {
            thread::yield_now();
        }
        match stub::section_seal(&Trap, base) {
            Err(Error::Busy) => refused += 1,
            Err(Error::BadArgument) => {}
            other => return Err(format!("a second one seals it meanwhile: {other:?}")),
        }
        let _ = thread.kill();
        thread.join().map_err(doing("join"))?;
        if kind()? == kind::DATA {
            times += 1;
            holds!(is_in_it(), "it can be written to again");
            stub::section_seal(&Trap, base).map_err(doing("seal"))?;
        }
        let info = section::info(base).map_err(doing("info"))?;
        same!(
            (info.kind, info.unclear),
            (kind::TEXT, base + TEXT - PAGE),
            "kind, and where it could write the key register"
        );
        section::delete(base).map_err(doing("delete"))?;
    }
    holds!(times > 0 && refused > 0, "{times} killed in the middle, {refused} refused meanwhile");
    Ok(())
}

/// Its end is told when all that it had is given back, by whatever its last thread ends.
fn ends() -> Outcome {
    let post = Post::any().map_err(doing("post"))?;
    let everybody = AclEntry { principal: principal::ANY, rights: Rights::CALL.bits(), id: 0, text: 0 };
    post.allow(&everybody).map_err(doing("its list"))?;
    // The first one grows what has to grow.
    for (n, (way, kind, code)) in
        [(0, exit::KILLED, 0), (0, exit::KILLED, 0), (1, exit::EXITED, 7), (2, exit::EXITED, 8)].into_iter().enumerate()
    {
        let before = settled()?;
        let words = [post.0, way].map(|word| format!("{word}"));
        let command = Command::new(b"bin/check").arg(b"as").arg(b"hoard");
        let command = words.iter().fold(command, |command, word| command.arg(word.as_bytes()));
        let child = command.spawn().map_err(|why| format!("a program: {why}"))?;
        post.receive(PATIENCE_NS).map_err(doing("a program with much memory"))?;
        if way == 0 {
            child.kill().map_err(doing("kill"))?;
        }
        let ended = child.wait().map_err(doing("wait"))?;
        same!((ended.kind, ended.code), (kind, code), "how it has ended by way {way}");
        if n > 0 {
            settled_with(|after| no_more_lost(&before, after, MOST)).map_err(|why| format!("by way {way}: {why}"))?;
        }
    }
    post.free(true).map_err(doing("free"))
}

/// Something long, its base, and what ends it.
type Ends = (u64, Box<dyn FnOnce() + Send>);

/// What a text, an argument section and what a program had that never ran have goes when nobody finds them any more, on the turns of who has ended them:
/// killed in the middle he does the rest of it.
fn rest() -> Outcome {
    each_rest("a text", &|| {
        let section = Section::create(LONGER, LONGER + PAGE, kind::DATA, 0).map_err(doing("create"))?;
        alloc(section.base(), LONGER).map_err(doing("alloc"))?;
        let base = section.seal().map_err(doing("seal"))?;
        Ok((base, Box::new(move || _ = section::delete(base))))
    })?;
    each_rest("an argument section", &|| {
        let bound = Bound::bind(musubi::start().names(), LONGER).map_err(doing("bind"))?;
        let (args, number) = (bound.binding().args, bound.binding().number);
        core::mem::forget(bound);
        alloc(args, LONGER).map_err(doing("alloc"))?;
        Ok((args, Box::new(move || _ = stub::gate_unbind(&Trap, number))))
    })?;
    each_rest("what a task had that never ran", &|| {
        let task = task::create(&Limits::default(), musubi::start().user(), b"never runs").map_err(doing("task"))?;
        let section = filled(LONG)?;
        let base = section.base();
        core::mem::forget(section);
        section::give(base, task).map_err(doing("give"))?;
        Ok((base, Box::new(move || _ = stub::task_end(&Trap, task, 0))))
    })
}

fn each_rest(what: &str, begin: &dyn Fn() -> Result<Ends, String>) -> Outcome {
    // The first one grows what has to grow.
    let (_, ends) = begin()?;
    ends();
    let before = settled()?;
    let mut times = 0;
    for _ in 0..TRIES {
        if times == SEEN {
            break;
        }
        let (base, ends) = begin()?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let whole = len_of(base);
        let is_partly = move || len_of(base) != whole && !over.load(Ordering::SeqCst);
        let work = move || {
            ends();
            is_over.store(true, Ordering::SeqCst);
        };
        times += usize::from(in_the_middle(work, is_partly)?);
        same!(len_of(base), None, "the length of {what}, afterwards");
    }
    holds!(times > 0, "nobody had a turn while {what} ended, {TRIES} times");
    settled_with(|after| no_more_lost(&before, after, MOST)).map(drop).map_err(|why| format!("{what}: {why}"))
}

/// Whoever asks about as many sections as there are hears the same wherever others have their turns in between.
fn asked() -> Outcome {
    const ROW: u64 = 64;
    const ENTRIES: u64 = 200;
    let first = Section::create_at(GRANULE, GRANULE, kind::DATA, 0, 0, ROW * GRANULE).map_err(doing("create"))?;
    let mut row = Vec::from([first]);
    for n in 1..ROW {
        let next = Section::create_at(GRANULE, GRANULE, kind::DATA, 0, row[0].base() + n * GRANULE, 0);
        row.push(next.map_err(doing("create"))?);
    }
    for one in &row {
        for n in 0..ENTRIES {
            let nobody =
                AclEntry { principal: principal::THREAD, rights: Rights::READ.bits(), id: 1 << 40 | n, text: 0 };
            section::grant(one.base(), &nobody).map_err(doing("grant"))?;
        }
    }
    let (base, len) = (row[0].base(), ROW * GRANULE);
    let stop = Arc::new(AtomicBool::new(false));
    let until = stop.clone();
    let ready = move || {
        while !until.load(Ordering::SeqCst) {
            thread::yield_now();
        }
    };
    let beside = thread::spawn(ready, 0).map_err(doing("thread"))?;
    let until = time::now_ns() + 300_000_000;
    let mut wrong = 0;
    while time::now_ns() < until {
        let may = |len, right| section::may(base, len, right, section::Who::Own);
        wrong += u64::from(!may(len, Rights::READ));
        // What lies behind them is not theirs, nor is any of it to be executed.
        wrong += u64::from(may(len + 1, Rights::READ)) + u64::from(may(len, Rights::EXECUTE));
        wrong += section::list().filter(|info| (base..base + len).contains(&info.base)).count() as u64 ^ ROW;
    }
    stop.store(true, Ordering::SeqCst);
    beside.join().map_err(doing("join"))?;
    same!(wrong, 0, "wrong answers");
    row.into_iter().try_for_each(Section::delete).map_err(doing("delete"))
}

/// A thread that waits until its program ends.
fn waits(n: u64) {
    match n % 3 {
        0 => thread::park(),
        1 => time::sleep_ns(u64::MAX),
        _ => _ = Post::any().and_then(|post| post.receive(u64::MAX)),
    }
}

/// A program with much memory that ends: killed, by its exit, or with its last thread; or that is killed where it touches `base`.
pub fn hoard(post: u64, way: u64, len: u64, base: u64) -> i32 {
    // Much of everything else, too: each text is heard of, and each thing goes, by itself.
    let text = || Section::create(PAGE, 2 * PAGE, kind::DATA, 0)?.seal().map(drop);
    let all = || text().and_then(|()| Post::any().map(drop)).and_then(|()| data(PAGE).map(core::mem::forget));
    if len == 0 && (0..MANY).any(|_| all().is_err()) {
        return 4;
    }
    // It would not end with the first one.
    if len == 0 && way < 2 && (0..WAITING).any(|n| thread::spawn(move || waits(n), 0).map(core::mem::forget).is_err()) {
        return 5;
    }
    let Ok(_long) = filled(if len == 0 { LONG } else { len }) else { return 1 };
    if Post(post).send(0, [0; 6], None).is_err() {
        return 2;
    }
    match way {
        0 => thread::park(),
        1 => 7,
        3 => load(base) as i32,
        _ => {
            time::sleep_ns(1_000_000);
            let _ = stub::thread_exit(&Trap, 8);
            3
        }
    }
}

//! The info sections (SSS-1, 12, 76): what is read there is true, whole, one's own, and written by the kernel alone.

mod counts;
mod load;
mod promised;
mod room;

use crate::memory::data;
use crate::peer::{Peer, op};
use crate::report::{Check, Outcome, doing};
use crate::sections::role as run_role;
use crate::{holds, same};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use musubi::abi::calls::stub;
use musubi::abi::info::feature;
use musubi::abi::info::layout::{Head, Key, MAGIC, VERSION, life, table};
use musubi::abi::layout::{GRANULE, PAGE};
use musubi::abi::post::{Body, SEVERAL_MAX};
use musubi::abi::rights::{AclEntry, principal};
use musubi::abi::task::{USER_SYSTEM, cause, exit, state};
use musubi::command::Command;
use musubi::rt::info::{self, Info};
use musubi::rt::post::{self, FOR_EVER, Post, receive_of};
use musubi::rt::{Trap, mbcf, section, task, thread, time};
use musubi::{Error, Rights};

pub const CHECKS: &[Check] = &[
    ("info_has_a_head", head),
    ("no_record_is_torn_under_load", load::whole),
    ("info_is_written_by_the_kernel_alone", written),
    ("another_users_info_is_closed", closed),
    ("info_says_what_calls_say", the_same),
    ("processors_count", processors),
    ("messages_and_operations_are_counted", messages),
    ("threads_are_seen", threads),
    ("a_killed_tasks_record_goes", goes),
    ("sections_are_seen", sections),
    ("posts_are_seen", posts),
    ("posts_count_what_comes", counts::of_posts),
    ("receivers_are_seen", receivers),
    ("keys_are_seen", keys),
    ("what_a_user_was_promised_is_seen", promised::is_seen),
    ("reading_info_takes_no_call", no_call),
    ("reading_makes_no_page", room::reading_makes_none),
    ("all_that_a_user_has_is_seen", room::is_there_for_all),
];

/// What the kernel shows this check's user of its own: one section.
pub fn own() -> Result<Info, String> {
    let mut all = info::of_users(musubi::start().user());
    same!(all.len(), 1, "sections that a person's program reads of users");
    Ok(all.remove(0))
}

pub fn all() -> Result<Info, String> {
    info::all().map_err(doing("the info section"))
}

fn head() -> Outcome {
    let check = |head: Head, user: u64, tables: &[usize]| {
        same!((head.magic, head.version, head.user), (MAGIC, VERSION, user), "head");
        for (which, place) in head.table.iter().enumerate() {
            same!(place.offset != 0, tables.contains(&which), "table {which} of user {user:#x}");
            holds!(place.offset + place.size * place.room <= head.len, "table {which} ends behind the section");
            holds!(place.used <= place.room && place.left_out == 0, "table {which}: {place:?}");
        }
        Ok(())
    };
    check(all()?.head(), u64::MAX, &[0, 1, 2, 3, 4, 5, 6, 11])?;
    check(own()?.head(), musubi::start().user(), &[7, 8, 9, 10, 12, 13])
}

fn written() -> Outcome {
    let base = stub::running(&Trap).map_err(doing("its base"))?;
    let len = all()?.head().len;
    let mut tried = Vec::from([(base, len)]);
    tried.extend(all()?.users().filter(|one| one.user == musubi::start().user()).map(|one| (one.section, 2 * PAGE)));
    same!(tried.len(), 2, "sections that this user may read");
    for (base, len) in tried {
        holds!(section::may(base, 2 * PAGE, Rights::READ, section::Who::Own), "reading {base:#x}");
        holds!(!section::may(base, PAGE, Rights::CHANGE_ACL, section::Who::Own), "changing the list of {base:#x}");
        for at in (base..base + len).step_by(PAGE as usize).take(12) {
            let how = run_role(&["poke", &format!("{at:#x}")])?;
            same!((how.kind, how.cause, how.address), (exit::FAULT, cause::DENIED, at), "a store at {at:#x}");
        }
    }
    Ok(())
}

fn closed() -> Outcome {
    let user = musubi::start().user();
    holds!(user != USER_SYSTEM, "this check is a person's");
    let system = all()?.users().find(|one| one.user == USER_SYSTEM).ok_or("the system has no section")?;
    let how = run_role(&["peek", &format!("{:#x}", system.section + PAGE)])?;
    same!((how.kind, how.cause, how.section), (exit::FAULT, cause::DENIED, system.section), "reading the system's");
    let me = task::identity();
    for one in all()?.tasks() {
        // Everybody reads the names of the system's programs, and nobody else's.
        same!(one.name[0] != 0, one.user == USER_SYSTEM, "task {} has a name for everybody", one.number);
    }
    let mine = own()?;
    let name = mine.own_tasks().find(|one| one.number == me.task).map(|one| musubi::ended::text(&one.name));
    same!(name, Some(String::from("check")), "this one's name, for its user");
    let users: BTreeSet<u64> = mine
        .sections()
        .filter_map(|one| all().ok()?.tasks().find(|task| task.number == one.owner))
        .map(|task| task.user)
        .collect();
    same!(users, BTreeSet::from([user]), "users whose sections this one reads of");
    Ok(())
}

/// Of two persons each reads about himself (decision 0017). Value: the other persons' sections, which this one cannot read.
pub fn of_others(user: u64) -> Result<Vec<u64>, String> {
    let mut others = Vec::new();
    for one in all()?.users() {
        let may = section::may(one.section, 2 * PAGE, Rights::READ, section::Who::Own);
        same!(may, one.user == user, "whether user {user} reads about user {}", one.user);
        others.extend((one.user != user && one.user != USER_SYSTEM).then_some(one.section));
    }
    let named: BTreeSet<u64> = all()?.tasks().filter(|one| one.name[0] != 0).map(|one| one.user).collect();
    same!(named, BTreeSet::from([USER_SYSTEM]), "whose programs' names everybody reads");
    let mine: Vec<u64> = own()?.own_tasks().map(|one| one.number).collect();
    holds!(mine.contains(&task::own()), "user {user}'s tasks are told to be {mine:?}");
    let of_mine = all()?.tasks().find(|one| one.user != user && mine.contains(&one.number));
    holds!(of_mine.is_none(), "user {user} reads about {of_mine:?}");
    Ok(others)
}

fn the_same() -> Outcome {
    let me = task::identity();
    let told = task::info(me.task).ok_or("this task is not listed")?;
    let seen = all()?.tasks().find(|one| one.number == me.task).ok_or("this task is not seen")?;
    let mine = own()?.own_tasks().find(|one| one.number == me.task).ok_or("it is not seen by its user")?;
    same!(
        (seen.payer, seen.user, seen.threads, seen.life),
        (told.payer, told.user, told.threads, life::STARTED),
        "task"
    );
    let (used, limits) = (told.used, told.limits);
    // Pages and page tables come with each step of this check: what is read lies between what was told before and after.
    same!(mine.used[1..], [used.sections, used.reserve, used.threads], "what is used");
    let later = task::info(me.task).ok_or("this task is not listed any more")?.used;
    holds!((used.frames..=later.frames).contains(&mine.used[0]), "{} frames, not {used:?} to {later:?}", mine.used[0]);
    same!(mine.limits, [limits.frames, limits.sections, limits.reserve, limits.threads], "limits");
    let listed: BTreeSet<u64> = task::list().filter(|one| one.user == 0).map(|one| one.task).collect();
    let shown: BTreeSet<u64> = all()?.tasks().filter(|one| one.user == 0).map(|one| one.number).collect();
    same!(shown, listed, "the system's tasks");
    for one in own()?.sections().filter(|one| one.owner == me.task) {
        let told = section::info(one.base).map_err(doing("info"))?;
        same!(
            (one.len, one.reserve, one.kind & 0xff, one.kind >> 8 & 0xff_ffff, one.name),
            (told.len, told.reserve, told.kind, told.entries, told.name),
            "section {:#x}",
            one.base
        );
    }
    Ok(())
}

fn processors() -> Outcome {
    let sum = || task::processors().map(|one| one.entries).sum::<u64>();
    let before = sum();
    for _ in 0..1000 {
        let _ = stub::get_taskid(&Trap);
    }
    holds!(sum() >= before + 1000, "{} entries in 1000 calls", sum() - before);
    let lights = || all().map(|all| all.processors().map(|(_, one)| one.stays).sum::<u64>());
    let before = lights()?;
    for _ in 0..1000 {
        let _ = stub::get_taskid_light(&Trap);
    }
    holds!(lights()? >= before + 1000, "{} light calls of 1000", lights()? - before);
    let idle = || all().map(|all| all.processors().map(|(_, one)| one.idle_ns).sum::<u64>());
    let (before, now) = (idle()?, all()?.now());
    time::sleep_ns(20_000_000);
    holds!(idle()? > before, "nobody was idle while this thread slept");
    let passed = all()?.now() - now;
    holds!(passed >= 20_000_000, "20 ms by the kernel are {passed} ns by what is read");
    Ok(())
}

/// Each once, however it goes: to who waits, or into the pool and out of it; what is refused not at all. (The system's servers have some of
/// their own meanwhile.)
fn messages() -> Outcome {
    const TIMES: u64 = 1000;
    let counts = || task::processors().fold([0, 0], |sum, one| [sum[0] + one.messages, sum[1] + one.operations]);
    let counted = |what: &dyn Fn() -> Result<(), Error>| {
        let before = counts();
        (0..TIMES).try_for_each(|_| what()).map_err(doing("a round"))?;
        let now = counts();
        Ok::<_, String>([now[0] - before[0], now[1] - before[1]])
    };
    let is = |count: u64, times: u64, what: &str| {
        let wanted = times * TIMES..=times * TIMES + TIMES / 2;
        if wanted.contains(&count) { Ok(()) } else { Err(format!("{count} of {}: {what}", times * TIMES)) }
    };
    let post = Post::any().map_err(doing("getting a post"))?;
    let asked = Post::any().map_err(doing("getting a post"))?;
    let own = counted(&|| post.send(1, [0; 6], None).and_then(|()| post.receive(0).map(drop)))?;
    is(own[0], 1, "messages to oneself")?;
    is(own[1], 0, "operations meanwhile")?;
    let many = counted(&|| {
        post.send_copies(&Body::default(), 3).and_then(|_| (0..3).try_for_each(|_| post.receive(0).map(drop)))
    })?;
    is(many[0], 3, "copies to oneself")?;
    let server = thread::spawn(
        move || {
            let mut next = asked.receive(FOR_EVER);
            while let Ok(message) = next
                && message.op != 0
            {
                next = post::answer_and_receive(message.back, 0, message.words, asked, FOR_EVER);
            }
        },
        0,
    )
    .map_err(doing("thread"))?;
    let questions = counted(&|| asked.ask(1, [0; 6], FOR_EVER).map(drop))?;
    is(questions[0], 2, "questions and their answers")?;
    asked.send(0, [0; 6], None).map_err(doing("the last"))?;
    server.join().map_err(doing("join"))?;

    let base = data(PAGE).map_err(doing("create"))?.base();
    let added = counted(&|| mbcf::add(base, 1).map(drop))?;
    is(added[1], 1, "memory operations")?;
    is(added[0], 0, "messages meanwhile")?;
    let refused = counted(&|| mbcf::add(base + 2 * GRANULE, 1).map_or(Ok(()), |_| Err(Error::Faulted)))?;
    is(refused[1], 0, "refused operations")?;
    [post, asked].iter().try_for_each(|one| one.free(false)).map_err(doing("freeing posts"))
}

/// What is seen of a thread, sooner or later.
fn comes_to(thread: u64, wanted: &[u64]) -> Outcome {
    let mut last = None;
    for _ in 0..2000 {
        last = all()?.threads_now().into_iter().find(|one| one.thread == thread).map(|one| one.state);
        if last.is_some_and(|state| wanted.contains(&state)) {
            return Ok(());
        }
        time::sleep_ns(1_000_000);
    }
    Err(format!("thread {thread} is in state {last:?}, never in {wanted:?}"))
}

fn threads() -> Outcome {
    let me = task::identity();
    let here = all()?.threads_now().into_iter().find(|one| one.thread == me.thread).ok_or("this thread is not seen")?;
    same!((here.task, here.state), (me.task, state::RUNNING), "this thread");
    let word = Arc::new(AtomicU32::new(0));
    let seen = word.clone();
    let waits = thread::spawn(
        move || {
            while seen.load(Ordering::SeqCst) == 0 {
                let _ = stub::wait(&Trap, seen.as_ptr() as u64, 0, u64::MAX);
            }
            while seen.load(Ordering::SeqCst) == 1 {
                core::hint::spin_loop();
            }
        },
        0,
    )
    .map_err(doing("a thread"))?;
    let number = waits.number();
    comes_to(number, &[state::WAITING])?;
    let ran =
        |of: u64| all().map(|all| all.threads_now().iter().find(|one| one.thread == of).map_or(0, |one| one.time));
    let before = ran(number)?;
    word.store(1, Ordering::SeqCst);
    let _ = stub::wake(&Trap, word.as_ptr() as u64, 1);
    comes_to(number, &[state::RUNNING, state::READY])?;
    time::sleep_ns(50_000_000);
    holds!(ran(number)? > before, "it has run, and {before} ns are what is seen");
    word.store(2, Ordering::SeqCst);
    waits.join().map_err(doing("join"))?;
    holds!(!all()?.threads().any(|one| one.number == number), "a thread that has ended is seen");
    holds!(!own()?.own_threads().any(|one| one.number == number), "its user sees it");
    Ok(())
}

fn goes() -> Outcome {
    let child = Command::new(b"bin/check").args(["check", "as", "park"]).spawn().map_err(doing("start"))?;
    let number = child.task;
    // Where there are keys it has a record of those, too.
    let has_keys = task::processors().any(|one| one.features & feature::PKU != 0);
    let keys = || own().map(|own| !has_keys || own.keys().any(|one| one.task == number));
    let is_seen = || -> Result<[bool; 4], String> {
        Ok([
            all()?.tasks().any(|one| one.number == number),
            all()?.threads().any(|one| one.task == number),
            own()?.own_tasks().any(|one| one.number == number) && keys()?,
            own()?.sections().any(|one| one.owner == number),
        ])
    };
    same!(is_seen()?, [true; 4], "what is seen of a program: task, thread, its user's, sections");
    child.kill().map_err(doing("kill"))?;
    same!(child.wait_for(10_000_000_000).map_err(doing("wait"))?.kind, exit::KILLED, "how it ended");
    same!(is_seen()?, [false; 4], "what is seen of it afterwards");
    Ok(())
}

fn sections() -> Outcome {
    let count = all()?.machine().sections;
    let mut made = data(64 * PAGE).map_err(doing("create"))?;
    let base = made.base();
    let look = || own().map(|own| own.sections().find(|one| one.base == base));
    let one = look()?.ok_or("a new section is not seen")?;
    same!((one.len, one.charged, one.owner), (64 * PAGE, 0, task::identity().task), "a new section");
    holds!(all()?.machine().sections > 0 && count > 0, "the machine has sections");
    let free = all()?.machine().free;
    made.bytes_mut().fill(1);
    same!(look()?.map(|one| one.charged), Some(64), "its pages, once they are written");
    holds!(all()?.machine().free < free, "memory is as free as before");
    section::name(base, b"a section to be seen").map_err(doing("name"))?;
    same!(look()?.map(|one| musubi::ended::text(&one.name)), Some(String::from("a section to be seen")), "name");
    made.resize(2 * PAGE).map_err(doing("resize"))?;
    same!(look()?.map(|one| (one.len, one.charged)), Some((2 * PAGE, 2)), "when it is shorter");
    made.delete().map_err(doing("delete"))?;
    same!(look()?, None, "a section that was deleted");
    Ok(())
}

fn posts() -> Outcome {
    let post = Post::any().map_err(doing("a post"))?;
    let look = || own().map(|own| own.posts().find(|one| one.base == post.0));
    let one = look()?.ok_or("a new post is not seen")?;
    same!(one.owner, task::identity().task, "owner");
    let depth = || all().map(|all| all.messages(one.number));
    for op in 1..=3 {
        same!(depth()?, u64::from(op) - 1, "messages that wait");
        post.send(op, [0; 6], None).map_err(doing("send"))?;
    }
    post.receive(0).map_err(doing("receive"))?;
    same!(depth()?, 2, "messages that wait when one was received");
    let at = post.0;
    stub::post_free(&Trap, at, 1).map_err(doing("free"))?;
    same!(own()?.posts().find(|one| one.base == at), None, "a post that was freed");
    same!(depth()?, 0, "messages in a post that was freed");
    Ok(())
}

/// Until this thread is seen to wait at these posts, and it is written down that it waits.
fn waits_at(thread: u64, posts: &[u64]) -> Outcome {
    let mut last = None;
    for _ in 0..2000 {
        let settled = all()?.threads_now().iter().any(|one| one.thread == thread && one.settled);
        last = own()?.own_threads().find(|one| one.number == thread).map(|one| one.waits_at().collect::<Vec<_>>());
        if settled && last.as_deref() == Some(posts) {
            return Ok(());
        }
        time::sleep_ns(1_000_000);
    }
    Err(format!("thread {thread} waits at {last:?}, never at {posts:?}"))
}

/// At one post, at as many as there can be, for an answer, and for something else.
fn receivers() -> Outcome {
    let posts: Result<Vec<Post>, _> = (0..SEVERAL_MAX).map(|_| Post::any()).collect();
    let posts = posts.map_err(doing("posts"))?;
    let numbers: Result<Vec<u64>, String> = posts
        .iter()
        .map(|post| {
            own()?.posts().find(|one| one.base == post.0).map(|one| one.number).ok_or("a post is not seen".into())
        })
        .collect();
    let (numbers, theirs) = (numbers?, posts.clone());
    let word = Arc::new(AtomicU32::new(0));
    let seen = word.clone();
    let waits = thread::spawn(
        move || {
            let _ = theirs[0].receive(u64::MAX);
            let _ = theirs[1].receive(u64::MAX - 1);
            let _ = receive_of(&theirs, u64::MAX);
            let _ = theirs[2].ask(1, [0; 6], u64::MAX);
            while seen.load(Ordering::SeqCst) == 0 {
                let _ = stub::wait(&Trap, seen.as_ptr() as u64, 0, u64::MAX);
            }
        },
        0,
    )
    .map_err(doing("a thread"))?;
    let number = waits.number();
    for (at, wanted) in [(0, &numbers[..1]), (1, &numbers[1..2]), (7, &numbers[..])] {
        waits_at(number, wanted)?;
        posts[at].send(1, [0; 6], None).map_err(doing("send"))?;
    }
    waits_at(number, &[])?;
    let question = posts[2].receive(u64::MAX).map_err(doing("receive"))?;
    post::answer(question.back, 1, [0; 6]).map_err(doing("answer"))?;
    waits_at(number, &[])?;
    word.store(1, Ordering::SeqCst);
    let _ = stub::wake(&Trap, word.as_ptr() as u64, 1);
    waits.join().map_err(doing("join"))?;
    posts.into_iter().try_for_each(|post| post.free(true)).map_err(doing("free"))
}

/// Of this program's own view, where there are keys: what is counted is what `task_list` says, and its own memory has one.
fn keys() -> Outcome {
    let me = task::identity().task;
    let look = || own().map(|own| own.keys().find(|one| one.task == me));
    let has_keys = task::processors().any(|one| one.features & feature::PKU != 0);
    let Some(keys) = look()?.filter(|_| has_keys) else {
        same!((look()?, has_keys), (None, false), "keys of a machine without");
        return Ok(());
    };
    let mut made = data(PAGE).map_err(doing("create"))?;
    // A class that nobody had so far: for this text and the peer's.
    let peer = Peer::start()?;
    same!(peer.call(op::ADD, &[1]), Ok(1), "a call");
    let entry = AclEntry { principal: principal::ANY, rights: Rights::READ.bits(), id: 0, text: peer.text };
    section::grant(made.base(), &entry).map_err(doing("grant"))?;
    made.bytes_mut().fill(1);
    let now = look()?.ok_or("they are not seen any more")?;
    let told = task::info(me).ok_or("this task is not listed")?.keys;
    same!(
        (now.misses, now.given, now.evicted, now.looks),
        (told.misses, told.given, told.evicted, told.looks),
        "counts"
    );
    holds!(now.given > keys.given, "{} keys were given, as before", now.given);
    let held = now.key.iter().filter(|key| key.entries != 0).count() as u64;
    holds!(held > 1 && held <= now.given - now.evicted, "{held} keys are held, {} were given", now.given);
    let mine = |key: &Key| key.text == peer.text || key.text == task::identity().text;
    holds!(now.key.iter().any(mine), "no key for this text: {:x?}", now.key);
    made.delete().map_err(doing("delete"))
}

/// Records of every table, and the kernel is entered for nothing that this thread does.
fn no_call() -> Outcome {
    let look = || -> Result<usize, String> {
        let (all, own) = (all()?, own()?);
        let posts: Vec<u64> = own.posts().map(|post| post.number).collect();
        let wait: u64 = posts.iter().map(|post| all.post_counts(*post).waiting + all.messages(*post)).sum();
        core::hint::black_box((wait, own.had(&all).frames, all.head(), own.head(), all.machine(), all.now()));
        let of_everybody = all.processors().count() + all.running().count() + all.users().count() + all.seats().count();
        let of_things = all.tasks().count() + all.threads().count() + all.interrupts().count();
        let of_own = own.own_tasks().count() + own.own_threads().count() + own.sections().count() + own.keys().count();
        Ok(of_everybody + of_things + of_own + posts.len() + all.threads_now().len())
    };
    // What pages and room it needs is there then.
    for _ in 0..3 {
        look()?;
    }
    // Others enter it besides, and the clock: at best nobody does. On several processors somebody may all the time.
    let most = if task::processors().count() == 1 { 0 } else { 3 };
    let mut least = u64::MAX;
    for _ in 0..50 {
        let entries =
            || all().map(|all| all.processors().map(|(_, one)| one.entries + one.stays + one.crossings).sum::<u64>());
        let before = entries()?;
        holds!(look()? > table::COUNT, "there is little to see");
        least = least.min(entries()? - before);
    }
    holds!(least <= most, "at least {least} entries for each look");
    Ok(())
}

//! Servers that end and are there again: where they stood, with what was sent to them, and with their callers none the wiser where
//! the interface says so (docs/decisions/0011).

mod again;
mod apart;
mod kills;
mod load;

use crate::report::{Check, Outcome, doing};
use crate::{holds, same};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use musubi::command::Command;
use musubi::ended;
use musubi::files::{self, File};
use musubi::interfaces::clock::ClockService;
use musubi::interfaces::console::{ConsoleService, mode};
use musubi::interfaces::counter::CounterClient;
use musubi::interfaces::files::how;
use musubi::interfaces::keyboard::KeyboardService;
use musubi::interfaces::linux::LinuxService;
use musubi::interfaces::pipes::{PipesClient, PipesService};
use musubi::interfaces::stream::StreamService;
use musubi::rt::{Answers, Bound, Mutex, section, task, thread, time};
use musubi::servers::{self, Server, acts as act, state};
use musubi::{Error, names};

pub use kills::{others, role, sections_of_all};

pub const CHECKS: &[Check] = &[
    ("it_comes_back_where_it_stood", it_comes_back),
    ("who_may_repeat_does_not_notice", who_may_repeat),
    ("who_may_repeat_beside_others_does_not_notice", who_may_repeat_beside_others),
    ("who_may_not_repeat_is_told", who_may_not_repeat),
    ("who_may_repeat_by_post_does_not_notice", again::asked_by_post),
    ("who_asks_by_post_whom_somebody_stops_is_told", again::stopped),
    ("who_asks_and_waits_whom_somebody_stops_is_told", again::stopped_by_question),
    ("what_a_message_names_is_lent_to_the_next", again::lent_to_the_next),
    ("who_may_not_repeat_by_post_is_told", again::not_asked_again),
    ("what_was_sent_is_served_by_the_next", what_was_sent),
    ("names_outlive_their_service", names_outlive),
    ("a_stranger_does_not_get_its_name", a_stranger),
    ("who_ends_again_and_again_comes_back", again_and_again),
    ("what_is_needed_is_not_given_up", needed),
    ("files_are_lost_and_said_to_be", files_are_lost),
    ("the_next_loader_knows_what_the_one_before_was_told", next_loader),
    ("drivers_and_personality", drivers),
    ("the_next_console_is_the_shells", next_console),
    ("what_cannot_be_asked_for", refused),
    ("the_last_wish_counts", last_wish),
    ("who_stays_bound_keeps_nothing", stays_bound),
    ("a_fault_in_one_leaves_the_others", apart::a_fault_in_one),
    ("a_few_kills_under_load", || kills::under_load(4)),
];

/// A server as it is now.
fn server(name: &str) -> Result<Server, String> {
    let all = servers::list().map_err(doing("the list of servers"))?;
    all.into_iter().find(|one| one.name == name).ok_or_else(|| format!("no server {name}"))
}

fn have(name: &str, what: u64) -> Outcome {
    servers::act(name, what).map_err(|e| format!("{name}, {what}: {e}"))
}

fn running(name: &str) -> Outcome {
    same!(server(name)?.info.state, state::RUNNING, "the state of {name}");
    Ok(())
}

fn gate(name: &str) -> Result<u64, String> {
    names::lookup(name).map_err(doing(name))
}

/// Another task, at the same addresses. Who was bound to the one before hears so, and may bind again.
fn it_comes_back() -> Outcome {
    for name in
        ["pipes", "keyboard", "linux", "files", "loader", "processes", "clock", "memory", "console", "sched", "names"]
    {
        // The name service has none; its gate is known to everybody.
        let stands = || if name == "names" { Ok(musubi::start().names()) } else { gate(name) };
        let (before, at) = (server(name)?, stands()?);
        let bound = Bound::bind(at, 0).map_err(doing("bind"))?;
        have(name, act::RESTART)?;
        let after = server(name)?;
        same!((after.info.state, after.info.text), (state::RUNNING, before.info.text), "{name} afterwards");
        same!(after.info.restarts, before.info.restarts + 1, "how often {name} was restarted");
        same!(after.why, "restarted", "why {name} has ended");
        holds!(after.info.task != before.info.task, "{name} is the same task");
        same!(stands()?, at, "where {name} stands");
        same!(section::info(at).map(|info| info.owner), Ok(after.info.task), "who answers for {name}");
        same!(bound.call(0, [0; 6]), Err(Error::Dead), "a binding to the {name} before");
        bound.unbind().map_err(doing("unbind"))?;
        Bound::bind(at, 0).and_then(Bound::unbind).map_err(|e| format!("bind to the next {name}: {e}"))?;
    }
    Ok(())
}

/// Programs that have not called since are bound to servers that have ended: the next ones have what those had to send with.
fn stays_bound() -> Outcome {
    // Each of the system's programs is promised a sixty-fourth of the pool.
    const TIMES: usize = 70;
    let at = gate("clock")?;
    let mut all = Vec::new();
    for n in 0..TIMES {
        all.push(Bound::bind(at, 0).map_err(|e| format!("bind to the one before number {n}: {e}"))?);
        have("clock", act::RESTART).map_err(|why| format!("number {n}: {why}"))?;
    }
    all.into_iter().try_for_each(Bound::unbind).map_err(doing("unbind"))
}

/// Threads that call all the while: each of their calls is answered, whatever happens to whom they call.
fn who_may_repeat() -> Outcome {
    const KILLS: usize = 12;
    let pipes: &'static PipesService = Box::leak(Box::new(PipesService::new(gate("pipes")?)));
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let calls: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let streams = pipes.streams().map_err(doing("streams"))?;
    let caller = |once: fn(&PipesService, u64) -> Result<(), Error>| {
        let body = move || {
            while !over.load(Ordering::SeqCst) {
                if let Err(error) = once(pipes, streams) {
                    thread::exit(error.word());
                }
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        thread::spawn(body, 0).map_err(doing("thread"))
    };
    let same_streams = |pipes: &PipesService, streams: u64| match pipes.streams()? {
        found if found == streams => Ok(()),
        _ => Err(Error::Changed),
    };
    let known = |_: &PipesService, _: u64| names::lookup("pipes").map(drop);
    let threads = [caller(same_streams)?, caller(known)?];
    for n in 0..KILLS {
        // Some calls in between: otherwise nobody might call.
        let seen = calls.load(Ordering::SeqCst);
        while calls.load(Ordering::SeqCst) < seen + 20 && !threads.is_empty() {
            thread::yield_now();
        }
        have(if n % 2 == 0 { "pipes" } else { "names" }, act::RESTART)?;
    }
    over.store(true, Ordering::SeqCst);
    for one in threads {
        same!(one.join(), Ok(0), "what a caller was told");
    }
    Ok(())
}

/// One waits in a server, by a binding that its program has let go of and has another one for; then the server ends.
fn who_may_repeat_beside_others() -> Outcome {
    let clock: &'static ClockService = Box::leak(Box::new(ClockService::new(gate("clock")?)));
    let until = time::now_ns() + 2_000_000_000;
    let waits = move || thread::exit(clock.wait_until(until).err().map_or(0, Error::word));
    let waiter = thread::spawn(waits, 0).map_err(doing("thread"))?;
    // Until it waits inside.
    time::sleep_ns(200_000_000);
    clock.service().unbind();
    clock.wait_until(0).map_err(doing("another binding to the same server"))?;
    have("clock", act::RESTART)?;
    same!(waiter.join(), Ok(0), "what the one was told that waited");
    holds!(time::now_ns() >= until, "it waited for less");
    Ok(())
}

/// A writer that waits for room, when the server ends with the pipe.
fn who_may_not_repeat() -> Outcome {
    let pipes = PipesService::new(gate("pipes")?);
    let streams: &'static StreamService =
        Box::leak(Box::new(StreamService::new(pipes.streams().map_err(doing("streams"))?)));
    let pipe = pipes.make().map_err(doing("a pipe"))?;
    let written: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let writer = move || loop {
        match streams.write(pipe + 1, &[7; 4096]) {
            Ok(n) => written.fetch_add(n, Ordering::SeqCst),
            Err(error) => thread::exit(error.word()),
        };
    };
    let writer = thread::spawn(writer, 0).map_err(doing("thread"))?;
    // As much as a pipe holds: then it waits inside, or is about to.
    while written.load(Ordering::SeqCst) < 64 << 10 {
        thread::yield_now();
    }
    have("pipes", act::RESTART)?;
    let told = writer.join().map_err(doing("join"))?;
    holds!(
        told == Error::Dead.word() || told == Error::NotFound.word(),
        "the writer was told {:?}",
        Error::from_word(told)
    );
    same!(streams.write(pipe + 1, &[7]), Err(Error::NotFound), "a pipe of the server before");
    // A reader: what a first read may have taken is not asked for once more.
    for n in 0.. {
        let pipe = pipes.make().map_err(doing("a pipe"))?;
        let body = move || thread::exit(streams.read(pipe, &mut [0; 8]).err().map_or(0, Error::word));
        let reader = thread::spawn(body, 0).map_err(doing("thread"))?;
        // Until it waits inside, on a host that is not too busy.
        time::sleep_ns(20_000_000 << n);
        have("pipes", act::RESTART)?;
        let told = reader.join().map_err(doing("join"))?;
        if told == Error::Dead.word() {
            break;
        }
        holds!(told == Error::NotFound.word() && n < 6, "the reader was told {:?}", Error::from_word(told));
    }
    let pipe = pipes.make().map_err(doing("a pipe"))?;
    same!(streams.write(pipe + 1, b"new"), Ok(3), "a pipe of this one");
    Ok(())
}

/// The post is not the server's.
fn what_was_sent() -> Outcome {
    let client = PipesClient::bind(gate("pipes")?).map_err(doing("bind"))?;
    let answers = Answers::new().map_err(doing("a post for answers"))?;
    let posts = client.by_post(&answers).map_err(doing("by_post"))?;
    let streams = client.streams().map_err(doing("streams"))?;
    same!(posts.streams().and_then(|one| one.wait()), Ok(streams), "a message to the first");
    have("pipes", act::STOP)?;
    same!(server("pipes")?.info.state, state::STOPPED, "its state");
    let sent: Result<Vec<_>, Error> = (0..5).map(|_| posts.streams()).collect();
    let mut sent = sent.map_err(doing("sending to nobody"))?;
    same!(sent[0].wait_for(30_000_000), Err(Error::TimedOut), "there is no server now");
    same!(names::lookup("pipes"), Err(Error::NotFound), "its name meanwhile");
    same!(PipesService::new(client.bound().gate()).streams(), Err(Error::Dead), "who would wait for it");
    have("pipes", act::START)?;
    for one in sent {
        same!(one.wait(), Ok(streams), "what was in the queue");
    }
    same!(posts.streams().and_then(|one| one.wait()), Ok(streams), "a message to the second");
    same!(answers.strangers(), 0, "other messages");
    running("pipes")
}

fn names_outlive() -> Outcome {
    let mine = format!("outlives-{}", musubi::start().task());
    let child = Command::new(b"bin/counter").arg(mine.as_bytes()).spawn().map_err(doing("counter"))?;
    let at = names::await_name(&mine, 20_000_000_000).map_err(doing("its name"))?;
    let before = names::list().map_err(doing("names"))?;
    for n in 0..3 {
        have("names", if n == 0 { act::KILL } else { act::RESTART })?;
        same!(names::list(), Ok(before.clone()), "all names");
        same!(names::lookup(&mine), Ok(at), "the counter's");
        same!(CounterClient::bind(at).and_then(|counter| counter.add(1)), Ok(n + 1), "the counter");
    }
    child.kill().map_err(doing("kill"))?;
    child.wait().map_err(doing("wait"))?;
    have("names", act::RESTART)?;
    same!(names::lookup(&mine), Err(Error::NotFound), "the name of one that has ended");
    Ok(())
}

/// While a server is being restarted its name is its own.
fn a_stranger() -> Outcome {
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let got: &'static AtomicU64 = Box::leak(Box::new(AtomicU64::new(0)));
    let gates = musubi::rt::Gates::export(crate::quota::Nothing, 1).map_err(doing("gates"))?;
    let thief = move || {
        while !over.load(Ordering::SeqCst) {
            if names::publish("pipes", &gates) != Err(Error::Exists) {
                got.fetch_add(1, Ordering::SeqCst);
            }
        }
    };
    let thief = thread::spawn(thief, 0).map_err(doing("thread"))?;
    for _ in 0..10 {
        have("pipes", act::RESTART)?;
    }
    over.store(true, Ordering::SeqCst);
    thief.join().map_err(doing("join"))?;
    same!(got.load(Ordering::SeqCst), 0, "how often a stranger got the name");
    Ok(())
}

/// Kills that are no matter of anybody's wishes, one after the other: there is another server each time, where it stood.
fn again_and_again() -> Outcome {
    const TIMES: u64 = 9;
    let (at, before) = (gate("clock")?, server("clock")?.info.restarts);
    for n in 1..=TIMES {
        have("clock", act::KILL).map_err(|why| format!("death {n}: {why}"))?;
    }
    let there = server("clock")?;
    let said = (there.info.state, there.info.restarts - before, there.why.as_str());
    same!(said, (state::RUNNING, TIMES, "killed"), "what is said of it");
    same!(gate("clock")?, at, "where it stands");
    // So that it comes back at once for others.
    have("clock", act::RESTART)
}

fn needed() -> Outcome {
    for _ in 0..10 {
        have("files", act::KILL)?;
    }
    running("files")?;
    programs_start()
}

/// By the loader, the file server and the name service.
fn programs_start() -> Outcome {
    it_starts(b"bin/check")
}

fn it_starts(path: &[u8]) -> Outcome {
    let words: [&[u8]; 4] = [b"check", b"as", b"status", b"7"];
    let child = Command::new(path).args(words).spawn().map_err(|why| format!("a program: {why}"))?;
    same!(child.wait().map(|exit| ended::status(&exit)), Ok(7), "a program's status");
    Ok(())
}

/// Where files are: a program that did not come with the image is found, laid out and started.
fn next_loader() -> Outcome {
    const COPY: &[u8] = b"/tmp/copy-of-check";
    let came = files::find(b"/bin/check").map_err(doing("find"))?;
    let bytes = section::view(came.section, came.len).ok_or("it may not be read")?;
    let copy = File::create(COPY).map_err(doing("create"))?;
    copy.write_all(0, bytes).map_err(doing("write"))?;
    drop(copy);
    files::set_mode(COPY, 0o755).map_err(doing("set_mode"))?;
    for what in [act::RESTART, act::KILL, act::RESTART] {
        have("loader", what)?;
        it_starts(COPY)?;
        programs_start()?;
    }
    files::remove(COPY).map_err(doing("remove"))
}

fn files_are_lost() -> Outcome {
    let file = File::create(b"/tmp/before").map_err(doing("create"))?;
    file.write_all(0, b"text").map_err(doing("write"))?;
    have("files", act::RESTART)?;
    same!(files::find(b"/tmp/before").map(drop), Err(Error::NotFound), "a file of the server before");
    same!(file.read(0, &mut [0; 4]), Err(Error::NotFound), "one that was open");
    // Numbers of before are nobody's now.
    let others: Result<Vec<File>, Error> = (0..40)
        .map(|n| File::open(format!("/tmp/other{n}").as_bytes(), how::READ | how::WRITE | how::CREATE).map(|one| one.0))
        .collect();
    let others = others.map_err(doing("other files"))?;
    same!(file.write(0, b"text"), Err(Error::NotFound), "one that was open, when others are");
    drop(others);
    holds!(files::find(b"/bin/check").is_ok(), "what came with the image is not there");
    programs_start()
}

fn drivers() -> Outcome {
    let keyboard = KeyboardService::new_with_args(gate("keyboard")?, 4096);
    keyboard.probe().map_err(doing("a probe of the keyboard"))?;
    have("keyboard", act::RESTART)?;
    keyboard.probe().map_err(doing("a probe of the next keyboard"))?;
    let linux = LinuxService::new_with_args(gate("linux")?, 4096);
    have("linux", act::RESTART)?;
    same!(linux.unknown(u64::MAX), Ok((0, 0)), "what the next personality knows");
    have("sched", act::RESTART)?;
    running("sched")?;
    // Who was chosen decides again soon, and nobody does where nobody was.
    crate::sched::with("share", || {
        for after in 0..12 {
            have("sched", act::RESTART)?;
            if after > 0 {
                // Its levels are being started.
                time::sleep_ns(after * 500_000);
                have("loader", act::RESTART)?;
            }
            decides("share (")?;
        }
        Ok(())
    })?;
    have("sched", act::RESTART)?;
    holds!(crate::sched::lines(0)?[0].starts_with("none"), "a scheduler that nobody has chosen");
    Ok(())
}

/// Waits for a scheduler that was chosen before.
fn decides(scheduler: &str) -> Outcome {
    let until = time::now_ns() + 10_000_000_000;
    while !crate::sched::lines(0)?.first().is_some_and(|line| line.starts_with(scheduler)) {
        holds!(time::now_ns() < until, "the scheduler of before was not started again");
        time::sleep_ns(5_000_000);
    }
    Ok(())
}

/// Whoever is faster than the shell does not get what `^C` ends, and raw keys.
fn next_console() -> Outcome {
    let console = ConsoleService::new_with_args(gate("console")?, 4096);
    for round in 0..3 {
        have("console", act::RESTART)?;
        for _ in 0..20 {
            same!(console.set_mode(mode::RAW), Err(Error::Denied), "the mode, round {round}");
            same!(console.foreground(0), Err(Error::Denied), "the foreground, round {round}");
        }
        same!(console.is_controlled_by(task::identity().task), Err(Error::Denied), "saying so oneself");
    }
    Ok(())
}

/// Who wants a server started has been heard, and another one who wants it stopped comes before it is.
fn last_wish() -> Outcome {
    const TIMES: u64 = 30;
    have("pipes", act::STOP)?;
    for n in 0..TIMES {
        let started = Arc::new(Mutex::new(None));
        let answer = started.clone();
        let starter = move || *answer.lock() = Some(servers::act("pipes", act::START));
        let starter = thread::spawn(starter, 0).map_err(doing("thread"))?;
        time::sleep_ns(n % 6 * 50_000);
        let stopped = servers::act("pipes", act::STOP);
        starter.join().map_err(doing("join"))?;
        let started = started.lock().take();
        same!(stopped, Ok(()), "the stop that came later, {n}");
        holds!(matches!(started, Some(Ok(()) | Err(Error::Dead))), "the start before it, {n}: {started:?}");
        have("pipes", act::STOP)?;
        same!(server("pipes")?.info.state, state::STOPPED, "the state then, {n}");
    }
    have("pipes", act::START)?;
    running("pipes")
}

fn refused() -> Outcome {
    same!(servers::act("nobody", act::RESTART), Err(Error::NotFound), "a server that is none");
    same!(servers::act("pipes", 99), Err(Error::BadArgument), "something that cannot be asked for");
    for name in ["names", "loader", "files", "console"] {
        same!(servers::act(name, act::STOP), Err(Error::Refused), "stopping {name}");
    }
    have("pipes", act::START)?;
    running("pipes")?;
    // Somebody else's gate is not waited for.
    let client = musubi::rt::Service::new(gate("servers")? + 0x800, 0);
    same!(client.call_with(true, 0, [0; 6], []), Err(Error::Dead), "a gate that is nobody's");
    Ok(())
}

//! Programs that nobody here wrote, unmodified: Debian's busybox (K1-U6). What a shell's script takes of all processors together from its start until its end is known, what of
//! that is for messages, and, where processors take turns, how many times as much several programs do as one. `apps.txt` has the scripts, which Linux is given, too.

use crate::report::{Case, Report};
use crate::rounds::Plan;
use crate::service::beside_one;
use crate::stand::{self, Stand};
use crate::talks;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::task::exit;
use musubi::command::Command;
use musubi::rt::{info, task, time};

const LIST: &str = include_str!("apps.txt");
const BUSYBOX: &str = "bin/busybox";
const WAY: &str = "busybox";
/// Rounds of a case, after one to warm up. Each takes millions of instructions.
const ROUNDS: usize = 3;
/// Programs at once, beside one who counts: so many of the machine's processors have nothing else to do, and some more for shells and what starts the others.
const AT_ONCE: [usize; 2] = [2, 4];
const PLACES: usize = 6;

/// Names, and what the shell is told.
fn scripts() -> impl Iterator<Item = (&'static str, &'static str)> {
    LIST.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'))
}

pub fn run(report: &Report) -> Result<(), String> {
    let mut cases = scripts();
    let (name, prepare) = cases.next().ok_or("there are no scripts")?;
    shell(prepare).map_err(|e| format!("{name}: {e} (is there a {BUSYBOX}?)"))?;
    if time::ticks_are_instructions() && stand::places(task::processors().count()) >= PLACES {
        return side_by_side(report);
    }
    let message = talks::one_message().map_err(|e| format!("a message to oneself: {e}"))?;
    cases.try_for_each(|(case, script)| measure(report, case, script, message))
}

/// `message`: what one takes at most.
fn measure(report: &Report, name: &str, script: &str, message: u64) -> Result<(), String> {
    let about = info::all().map_err(|e| format!("the info section: {e}"))?;
    let sent = || talks::sent(&about).iter().fold(0u64, |all, post| all.wrapping_add(*post));
    let mut outcome = shell(script);
    let before = sent();
    let rounds = Plan::new(ROUNDS).warm(0).measure(|| outcome = outcome.and_then(|()| shell(script)));
    let messages = sent().wrapping_sub(before) / ROUNDS as u64;
    outcome.map_err(|e| format!("{name}: {e}"))?;
    let case = Case { case: name, way: WAY, bytes: 0 };
    report.case(case, &rounds, &[]);
    report.count(case, "messages", messages);
    // By a clock that is no count it would be a part of what the host does.
    if time::ticks_are_instructions() {
        report.count(case, "permille", 1000 * messages * message / rounds.ticks.summary().median.max(1));
    }
    Ok(())
}

/// Runs it, until its end is known.
fn shell(script: &str) -> Result<(), Error> {
    let command = Command::new(BUSYBOX.as_bytes()).args(["busybox", "sh", "-c", script]);
    let ended = command.spawn().map_err(|refused| refused.error)?.wait()?;
    if (ended.kind, ended.code) == (exit::EXITED, 0) { Ok(()) } else { Err(Error::Faulted) }
}

/// What so many programs do in the time of one, as if all processors ran at once: each alone, and started by one that shares work out.
fn side_by_side(report: &Report) -> Result<(), String> {
    // Who prints wakes others, so not before all is known.
    let mut known = Vec::new();
    for count in AT_ONCE {
        let failed = |what: &str, why: String| format!("{count} programs {what}: {why}");
        let gained = beside_one(count, each).map_err(|why| failed("at once", why))?;
        // So many have done so many times as much.
        known.push(("sha256sum", format!("{count}-programs"), gained * count as u64));
        let gained = beside_one(count, shared).map_err(|why| failed("by xargs", why))?;
        known.push(("gzip-by-xargs", format!("{count}-at-once"), gained));
    }
    for (case, way, gained) in known {
        report.count(Case { case, way: &way, bytes: 0 }, "permille-side-by-side", gained);
    }
    Ok(())
}

/// So many programs, each with a file of its own.
fn each(stand: &'static Stand, count: usize) -> Result<u64, Error> {
    beats(stand, count, |number| {
        let data = format!("/tmp/apps/data{}", number + 1);
        format!("busybox sha256sum {data} {data} {data} {data} > /dev/null")
    })
}

/// Four programs, so many of them at a time.
fn shared(stand: &'static Stand, count: usize) -> Result<u64, Error> {
    beats(stand, 1, move |_| {
        format!(
            "cd /tmp/apps; echo data1 data2 data3 data4 | busybox xargs -n 1 -P {count} busybox gzip -c > /dev/null"
        )
    })
}

/// From when so many scripts begin until the last one has ended. They find processors that have nothing to do: those of who works here.
fn beats(
    stand: &'static Stand,
    count: usize,
    script: impl Fn(usize) -> String + Send + Sync + 'static,
) -> Result<u64, Error> {
    let [before, after] = stand.run(count, move |number| shell(&script(number)), || stand.beats())?;
    Ok(after - before)
}

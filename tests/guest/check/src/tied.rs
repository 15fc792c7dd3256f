//! Whether the test that is named of each of the kernel's calls (`abi/tests/tested.txt`) makes that call (SSS-32): each runs here once with the trace on,
//! by which every call takes the full entry. Whether it passes is for its own stage to say.

use crate::report::{Outcome, doing, run_apart};
use crate::sections::role as run_role;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use musubi::abi::calls::number;
use musubi::abi::trace::{RECORDS, kind};
use musubi::rt::trace::Trace;
use musubi::rt::{Mutex, info, thread, time};
use musubi::{println, trace};

const TESTED: &str = include_str!("../../../../abi/tests/tested.txt");
/// Tests for which another machine is needed, one that switches the trace itself, and one whose call is made only where a moment comes nearer: only by their names.
const APART: [&str; 3] = ["ports_by_light_calls", "strangers_neither_read_nor_switch_it", "a_moment_is_waited_for"];
/// How long the machine is looked at while nobody does anything.
const QUIET_NS: u64 = 300_000_000;
/// What is recorded is fetched so often, mostly before it is overwritten; and where it was, the test runs again.
const EVERY_NS: u64 = 1_000_000;
const TRIES: usize = 3;

/// How often, by the number of the call.
type Times = BTreeMap<u64, u64>;

fn of(times: &Times, call: u64) -> u64 {
    times.get(&call).copied().unwrap_or(0)
}

/// What was called while something was done.
struct Seen {
    /// On threads of tasks that had not begun before, in whatever text: as far as it was fetched in time.
    own: Times,
    /// By all.
    all: Times,
}

fn meanwhile(trace: &Trace, what: impl FnOnce()) -> Result<Seen, String> {
    let newest = info::all().map_err(doing("tasks"))?.tasks().map(|one| one.number).max().unwrap_or(0);
    let count = || trace.handlers().map(|(by, _, times)| (by, times)).collect::<Times>();
    let (before, mut readers) = (count(), trace.from_now());
    let (over, own) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Times::new())));
    let (is_over, kept) = (over.clone(), own.clone());
    let fetches = thread::spawn(
        move || loop {
            let last = is_over.load(Ordering::SeqCst);
            for reader in &mut readers {
                // No more than there is room for: this one writes, too.
                for event in core::iter::from_fn(|| reader.take()).take(RECORDS as usize) {
                    if event.kind == kind::ENTER && event.task > newest {
                        *kept.lock().entry(event.handler).or_default() += 1;
                    }
                }
            }
            if last {
                return;
            }
            time::sleep_ns(EVERY_NS);
        },
        0,
    );
    what();
    over.store(true, Ordering::SeqCst);
    fetches.map_err(doing("a thread"))?.join().map_err(doing("join"))?;
    let all = count().into_iter().map(|(by, times)| (by, times - of(&before, by))).collect();
    let own = core::mem::take(&mut *own.lock());
    Ok(Seen { own, all })
}

/// The tests in their order, each with its calls.
fn tests() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut tests: Vec<(&str, Vec<&str>)> = Vec::new();
    for (call, test) in TESTED.lines().filter_map(|line| line.split_once(' ')) {
        let name = test.rsplit("::").next().unwrap_or(test);
        match tests.iter_mut().find(|one| one.0 == name) {
            Some((_, calls)) => calls.push(call),
            None => tests.push((name, Vec::from([call]))),
        }
    }
    tests
}

/// Says of each call whether its test has made it, of all tests that are checks of a group, or of those that are named. Value: the exit status.
pub fn run(names: &[&str], group: impl Fn(&str) -> Option<&'static str>) -> i32 {
    let judged = trace::on().map_err(doing("the trace")).and_then(|trace| judge(&trace, names, group));
    let off = trace::off().map_err(doing("the trace"));
    match judged.and_then(|bad| off.map(|()| bad)) {
        Ok(bad) => i32::from(bad),
        Err(why) => {
            println!("FAILED: {why}");
            1
        }
    }
}

fn judge(trace: &Trace, names: &[&str], group: impl Fn(&str) -> Option<&'static str>) -> Result<bool, String> {
    let quiet = meanwhile(trace, || time::sleep_ns(QUIET_NS))?;
    let mut nothing: Outcome = Ok(());
    // As often as a program makes it that does nothing, and whoever starts it and sees it end.
    let usual = meanwhile(trace, || nothing = run_role(&["status", "0"]).map(drop))?;
    nothing?;
    let is_made = |seen: &Seen, call: u64| {
        let by_test = of(&seen.own, call) > of(&usual.own, call);
        // By a server's own threads, for the test: not where they do so for others or by themselves all the time.
        by_test || of(&quiet.all, call) == 0 && of(&seen.all, call) > of(&usual.all, call)
    };
    let mut bad = false;
    for (test, calls) in tests() {
        let is_meant = if names.is_empty() { !APART.contains(&test) } else { names.contains(&test) };
        let Some(group) = group(test).filter(|_| is_meant) else { continue };
        let mut left = calls.clone();
        for _ in 0..TRIES {
            let mut how = Ok(None);
            let seen = meanwhile(trace, || how = run_apart(group, test))?;
            left.retain(|call| !is_made(&seen, number(call)));
            if left.is_empty() {
                break;
            }
            println!("{test}, which has come to {how:?}, was not seen to make {left:?}");
        }
        for call in calls {
            let said = if left.contains(&call) { "FAILED" } else { "ok" };
            println!("{said} {call}");
        }
        bad |= !left.is_empty();
    }
    Ok(bad)
}

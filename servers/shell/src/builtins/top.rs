//! Who uses the processors, again and again.

use super::known::{Known, name, times};
use super::table::{Table, bytes, time};
use super::{misused, number, text};
use crate::io::Io;
use crate::shell::Shell;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::abi::layout::PAGE;
use musubi::rt::time::sleep_ns;
use musubi::{Error, why};

/// From one picture to the next.
const EACH_NS: u64 = 1_000_000_000;
/// Rows that fit beside the head on the smallest screen.
const ROWS: usize = 16;
const BAR: u64 = 20;

/// What had been used when it was last looked at.
struct Before {
    at: u64,
    idle: Vec<u64>,
    times: BTreeMap<u64, u64>,
}

/// `top [COUNT]`: so many pictures, one below the other; without a number 10, each in place of the one before.
pub fn top(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let (count, clears) = match words {
        [_] => (10, true),
        [_, word] => match number(word).filter(|count| (1..=1000).contains(count)) {
            Some(count) => (count, false),
            None => {
                io.complain("top", format_args!("{}: not a number from 1 to 1000", text(word)));
                return 2;
            }
        },
        _ => return misused(words, io),
    };
    match show(count, clears, io) {
        Ok(()) => 0,
        Err(e) => {
            io.complain("top", format_args!("{}", why(e)));
            1
        }
    }
}

fn show(count: u64, clears: bool, io: &mut Io) -> Result<(), Error> {
    let known = Known::look()?;
    let mut before = look(&known);
    for at in 0..count {
        sleep_ns(if at == 0 { EACH_NS / 5 } else { EACH_NS });
        let now = look(&known);
        let mut out = String::new();
        if clears {
            out.push_str("\x1b[2J\x1b[H");
        } else if at > 0 {
            out.push('\n');
        }
        out.push_str(&picture(&known, &before, &now));
        if io.write(out.as_bytes()).is_err() {
            break;
        }
        before = now;
    }
    Ok(())
}

fn look(known: &Known) -> Before {
    let (tasks, threads) = (known.tasks(), known.threads());
    let now = known.all.now();
    let idle = known.all.processors().map(|(_, counts)| counts.idle_ns).collect();
    Before { at: now, idle, times: times(&tasks, &threads, &known.all) }
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100 / whole.max(1)).min(100)
}

fn picture(known: &Known, before: &Before, now: &Before) -> String {
    let passed = now.at.saturating_sub(before.at).max(1);
    let machine = known.all.machine();
    let mut out = format!(
        "up {}   {} tasks, {} threads, {} sections   memory {} of {} free\n",
        time(now.at),
        machine.tasks,
        machine.threads,
        machine.sections,
        bytes(machine.free * PAGE),
        bytes(machine.total * PAGE)
    );
    let running: Vec<u64> = known.all.running().collect();
    for (place, (cpu, _)) in known.all.processors().enumerate() {
        let idle = |of: &Before| of.idle.get(place).copied().unwrap_or(0);
        // One that has been idle all the time counts that when the time is over.
        let is_idle = running.get(cpu).is_none_or(|thread| *thread == 0);
        let rested = if is_idle && idle(now) == idle(before) {
            passed
        } else {
            idle(now).saturating_sub(idle(before)).min(passed)
        };
        let busy = percent(passed - rested, passed);
        let full = (busy * BAR / 100) as usize;
        let bar = "#".repeat(full) + &".".repeat(BAR as usize - full);
        out.push_str(&format!("cpu {cpu:<2} [{bar}] {busy:>3}%\n"));
    }
    let own = known.own_tasks();
    let mut rows: Vec<_> = known
        .tasks()
        .into_iter()
        .map(|task| {
            let time = |of: &Before| of.times.get(&task.number).copied().unwrap_or(0);
            (time(now).saturating_sub(time(before)), time(now), task)
        })
        .collect();
    rows.sort_by_key(|(used, all, _)| core::cmp::Reverse((*used, *all)));
    let mut table = Table::new(&["task", "user", "threads", "cpu", "time", "memory", "name"], &[0, 1, 2, 3, 4, 5]);
    for (used, all, task) in rows.iter().take(ROWS) {
        let own = own.get(&task.number);
        table.row([
            format!("{}", task.number),
            format!("{}", task.user),
            format!("{}", task.threads),
            format!("{}%", used * 100 / passed),
            time(*all),
            own.map_or_else(|| String::from("-"), |own| bytes(own.used[0] * PAGE)),
            name(task, own),
        ]);
    }
    out + "\n" + &table.text()
}

//! Memory, processors, the switch.

use super::known::Known;
use super::misused;
use super::table::{Table, bytes, time};
use crate::io::Io;
use crate::say;
use crate::shell::Shell;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use musubi::Error;
use musubi::abi::info::feature;
use musubi::abi::layout::PAGE;
use musubi::interfaces::linux::LinuxService;
use musubi::interfaces::memory::MemoryService;
use musubi::interfaces::power::PowerClient;
use musubi::rt::task;
use musubi::why;

pub fn mem(_: &mut Shell, words: &[Vec<u8>], io: &mut Io) -> i32 {
    let show = match words {
        [_] => memory,
        [_, word] if word == b"-k" => keys,
        [_, word] if word == b"-s" => kept_free,
        _ => return misused(words, io),
    };
    match show(io) {
        Ok(()) => 0,
        Err(e) => {
            io.complain("mem", format_args!("{}", why(e)));
            1
        }
    }
}

/// What the kernel knows.
fn memory(io: &mut Io) -> Result<(), Error> {
    let (memory, known) = (task::memory()?, Known::look()?);
    say!(io, "memory    {} of {} free", bytes(memory.free), bytes(memory.total));
    say!(
        io,
        "kernel    heap {} of {}, views {}, records {}",
        bytes(memory.kernel_heap_used),
        bytes(memory.kernel_heap),
        bytes(memory.views),
        bytes(memory.records)
    );
    say!(io, "objects   {} sections, {} tasks, {} threads", memory.sections, memory.tasks, memory.threads);
    promises(&known, io);
    let mut table =
        Table::new(&["task", "memory", "of", "addresses", "of", "sections", "of", "name"], &[0, 1, 2, 3, 4, 5, 6]);
    // What others' programs use is for them to know.
    for t in known.own_tasks().values() {
        let ([frames, sections, reserve, _], [frames_max, sections_max, reserve_max, _]) = (t.used, t.limits);
        table.row([
            format!("{}", t.number),
            bytes(frames * PAGE),
            bytes(frames_max.saturating_mul(PAGE)),
            bytes(reserve),
            bytes(reserve_max),
            format!("{sections}"),
            format!("{sections_max}"),
            musubi::ended::text(&t.name),
        ]);
    }
    table.print(io);
    known.says_what_is_missing(io);
    Ok(())
}

/// What users were promised, and have of it.
fn promises(known: &Known, io: &mut Io) {
    let machine = known.all.machine();
    let (owed, heap) = (bytes(machine.owed * PAGE), bytes(machine.owed_heap));
    say!(io, "owed      {owed} of memory, {heap} of the heap: promised to users who may still come for it");
    for (user, promised, had) in known.promises() {
        let (memory, heap) = (bytes(promised.frames * PAGE), bytes(promised.heap));
        let (has, most) = (bytes(had.frames * PAGE), bytes(had.most));
        say!(io, "promised  to user {user}: {memory} of memory (has {has}), {heap} of the heap (has at most {most}),");
        let [posts, messages, records, accounts] =
            core::array::from_fn(|at| format!("{} (has {})", promised.pool[at], promised.pool_had[at]));
        say!(io, "          posts {posts}, messages {messages}, records of threads {records}, accounts {accounts}");
    }
    say!(io, "");
}

/// What the memory server keeps free, and who gives pages back for it.
fn kept_free(io: &mut Io) -> Result<(), Error> {
    let server = musubi::names::server("memory").map(MemoryService::new)?;
    let (kept, given) = server.state()?;
    say!(io, "kept free {} if possible, {} given back so far", bytes(kept), bytes(given * PAGE));
    for (task, given) in (0..).map_while(|at| server.pager(at).ok().filter(|one| one.0 != 0)) {
        say!(io, "          task {task} has given {} back", bytes(given * PAGE));
    }
    Ok(())
}

/// The processor's first key that classes of sections can have.
const FIRST_KEY: usize = 2;

/// Which classes of sections have which protection keys, in each task's view, and how often that was of use or missed.
fn keys(io: &mut Io) -> Result<(), Error> {
    let known = Known::look()?;
    let (all, own) = (known.keys(), known.own_tasks());
    let name = |task: u64| own.get(&task).map(|task| musubi::ended::text(&task.name)).unwrap_or_default();
    let mut counts = Table::new(&["task", "misses", "given", "lost", "looks", "name"], &[0, 1, 2, 3, 4]);
    let mut table = Table::new(&["task", "key", "uses", "heat", "entries", "text", "name"], &[0, 1, 2, 3, 4]);
    for keys in &all {
        let [task, misses, given, evicted, looks] =
            [keys.task, keys.misses, keys.given, keys.evicted, keys.looks].map(|n| format!("{n}"));
        counts.row([task, misses, given, evicted, looks, name(keys.task)]);
        for (at, key) in keys.key.iter().enumerate().filter(|(_, key)| key.entries != 0) {
            let [task, uses, heat, entries] = [keys.task, key.uses, key.heat, key.entries].map(|n| format!("{n}"));
            let (text, name) = match key.text {
                0 => (String::from("all"), String::new()),
                text => (format!("{text:#x}"), known.section_name(text).unwrap_or_default()),
            };
            table.row([task, format!("{}", at + FIRST_KEY), uses, heat, entries, text, name]);
        }
    }
    known.says_what_is_missing(io);
    if all.is_empty() {
        say!(io, "no task has protection keys");
        return Ok(());
    }
    counts.print(io);
    say!(io, "");
    table.print(io);
    Ok(())
}

pub fn cpus(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut table = Table::new(
        &[
            "cpu",
            "thread",
            "entries",
            "calls",
            "switches",
            "views",
            "faults",
            "interrupts",
            "shootdowns",
            "messages",
            "operations",
            "idle",
        ],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    let mut features = 0;
    for p in task::processors() {
        features = p.features;
        let count = |n: u64| format!("{n}");
        table.row([
            count(p.index),
            if p.thread == 0 { "idle".into() } else { count(p.thread) },
            count(p.entries),
            count(p.epc),
            count(p.switches),
            count(p.view_switches),
            count(p.faults),
            count(p.interrupts),
            count(p.shootdowns),
            count(p.messages),
            count(p.operations),
            time(p.idle),
        ]);
    }
    table.print(io);
    let all = [
        (feature::SMEP, "smep"),
        (feature::SMAP, "smap"),
        (feature::PKU, "pku"),
        (feature::X2APIC, "x2apic"),
        (feature::PCID, "pcid"),
        (feature::FSGSBASE, "fsgsbase"),
        (feature::AVX, "avx"),
        (feature::UMIP, "umip"),
        (feature::RDTSCP, "rdtscp"),
    ];
    let found: Vec<&str> = all.iter().filter(|f| features & f.0 != 0).map(|f| f.1).collect();
    say!(io, "features: {}", found.join(" "));
    0
}

pub fn linux_unknown(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let list = || -> Result<Vec<String>, Error> {
        let linux = LinuxService::new_with_args(musubi::names::server("linux")?, 4096);
        let mut lines = Vec::new();
        let mut line = [0; 256];
        loop {
            match linux.refused(lines.len() as u64, &mut line) {
                Ok(len) => lines.push(String::from_utf8_lossy(&line[..(len as usize).min(line.len())]).into_owned()),
                Err(Error::NotFound) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(lines)
    };
    match list() {
        Ok(lines) if lines.is_empty() => say!(io, "none so far"),
        Ok(lines) => say!(io, "{}", lines.join("\n")),
        Err(e) => {
            io.complain("linux-unknown", format_args!("{}", why(e)));
            return 1;
        }
    }
    0
}

pub fn poweroff(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let off = musubi::names::lookup("power").and_then(PowerClient::bind).and_then(|power| power.off(0));
    match off {
        Ok(()) => musubi::rt::thread::park(),
        Err(e) => {
            io.complain("poweroff", format_args!("{}", why(e)));
            1
        }
    }
}

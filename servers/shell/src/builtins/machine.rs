//! Memory, processors, the switch.

use super::known::Known;
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

pub fn mem(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let memory = match task::memory() {
        Ok(memory) => memory,
        Err(e) => {
            io.complain("mem", format_args!("{}", why(e)));
            return 1;
        }
    };
    say!(io, "memory    {} of {} free", bytes(memory.free), bytes(memory.total));
    say!(
        io,
        "kernel    heap {} of {}, views {}",
        bytes(memory.kernel_heap_used),
        bytes(memory.kernel_heap),
        bytes(memory.views)
    );
    pressure(io);
    say!(io, "objects   {} sections, {} tasks, {} threads\n", memory.sections, memory.tasks, memory.threads);
    let mut table =
        Table::new(&["task", "memory", "of", "addresses", "of", "sections", "of", "name"], &[0, 1, 2, 3, 4, 5, 6]);
    // What others' programs use is for them to know.
    let own = Known::look().map(|known| known.own_tasks()).unwrap_or_default();
    for t in own.values() {
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
    0
}

/// What the memory server keeps free, and who gives pages back for it.
fn pressure(io: &mut Io) {
    let Ok(server) = musubi::names::lookup("memory").map(MemoryService::new) else { return };
    let Ok((kept, given)) = server.state() else { return };
    say!(io, "kept free {} if possible, {} given back so far", bytes(kept), bytes(given * PAGE));
    for (task, given) in (0..).map_while(|at| server.pager(at).ok().filter(|one| one.0 != 0)) {
        say!(io, "          task {task} has given {} back", bytes(given * PAGE));
    }
}

pub fn cpus(_: &mut Shell, _: &[Vec<u8>], io: &mut Io) -> i32 {
    let mut table = Table::new(
        &["cpu", "thread", "entries", "calls", "switches", "views", "faults", "interrupts", "shootdowns", "idle"],
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
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

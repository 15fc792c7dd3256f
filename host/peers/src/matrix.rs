//! Every figure that a peer owes. One that is missing, or stands there twice, makes the whole run worthless: the guest
//! may have lost lines.

use crate::figures::{Report, Subject};
use crate::linux::System;
use anyhow::{Result, ensure};
use measure::{ASYNC, PROGRAMS};

pub const BENCHES: [&str; 10] =
    ["calls", "sizes", "colours", "spawn", "sched", "pool", "entry", "memory", "pager", PROGRAMS];

/// Processors of further machines in which programs are measured.
const PROCESSORS: [u32; 2] = [2, 4];
/// The programs, or several of them: the names of `apps/bench/src/apps.txt`.
const APPS: [&str; 8] =
    ["sha256sum", "sort", "gzip", "awk", "pipeline", "script", "sha256sum-4-at-once", "gzip-by-xargs"];

/// Without data, and the patterns of the paper with them; and each with several messages under way.
const NULL: [&str; 2] = ["NullProc", "NullProc-async"];
const PATTERNS: [&str; 6] =
    ["ArgNoRtn", "ArgRtn_NoCopy", "ArgRtn_Copy", "ArgNoRtn-async", "ArgRtn_NoCopy-async", "ArgRtn_Copy-async"];
const BYTES: [u64; 5] = [64, 2 << 10, 4 << 10, 8 << 10, 1 << 20];
/// Memory that is had and given back, and that is made invalid and valid.
const REAL: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const VALID: [u64; 3] = [4 << 10, 64 << 10, 2 << 20];
/// Ways, their asynchronous messages, and what a message takes at most.
const WAYS: [(&str, Async, u64); 7] = [
    ("pipe", Async::All, u64::MAX),
    ("unix", Async::All, u64::MAX),
    ("tcp", Async::All, u64::MAX),
    ("udp", Async::All, 65_000),
    ("shm-futex", Async::All, u64::MAX),
    // The library does not send by UDP what it is not to wait for.
    ("sunrpc-udp", Async::None, 9_000),
    ("sunrpc-tcp", Async::WithoutResult, u64::MAX),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Async {
    None,
    /// Only such as return nothing.
    WithoutResult,
    All,
}

impl Async {
    fn has(self, case: &str) -> bool {
        !case.ends_with(ASYNC)
            || match self {
                Async::None => false,
                Async::WithoutResult => !case.starts_with("ArgRtn"),
                Async::All => true,
            }
    }
}

/// Behind the name of a way: under the default policy, where all else is under SCHED_FIFO.
const OTHER: &str = "-other";

/// What a system is asked for, and whether it applies.
pub fn owed(system: System, bench: &str) -> Vec<(Subject, bool)> {
    let subject = |case: &str, bytes, way: &str| Subject {
        bench: bench.into(),
        case: case.into(),
        bytes,
        system: system.name().into(),
        way: way.into(),
    };
    let plain =
        |list: &[(&str, &str)]| list.iter().map(|(case, way)| (subject(case, 0, way), true)).collect::<Vec<_>>();
    let by_all_ways = |cases: &[&str], bytes: u64| {
        let mut owed = Vec::new();
        for (way, asynchronous, most) in WAYS {
            let cases = cases.iter().filter(|case| asynchronous.has(case));
            for case in cases {
                owed.push((subject(case, bytes, way), bytes <= most));
                if system == System::Best {
                    owed.push((subject(case, bytes, &format!("{way}{OTHER}")), bytes <= most));
                }
            }
        }
        owed
    };
    match bench {
        "calls" => {
            let mut owed = by_all_ways(&NULL, 0);
            owed.extend(plain(&[
                ("no-such-call", "system-call"),
                ("getppid", "system-call"),
                ("clock", "system-call"),
                ("clock", "vdso"),
                ("exception", "sigsegv"),
            ]));
            owed
        }
        "sizes" => {
            let mut owed = by_all_ways(&NULL, 0);
            owed.extend(BYTES.iter().flat_map(|bytes| by_all_ways(&PATTERNS, *bytes)));
            owed
        }
        "colours" => BYTES.iter().flat_map(|bytes| by_all_ways(&["ColourMap"], *bytes)).collect(),
        "entry" => plain(&[("get_taskid", "getppid"), ("sleep0", "sched_yield"), ("sleep0-x2", "sched_yield")]),
        "memory" => {
            let of = |case: &'static str, way: &'static str, sizes: &'static [u64]| {
                sizes.iter().map(move |bytes| (case, *bytes, way))
            };
            let all = of("alloc+free", "mmap", &REAL).chain(of("page_invalidate", "mprotect", &VALID)).chain(of(
                "page_validate",
                "mprotect",
                &VALID,
            ));
            all.map(|(case, bytes, way)| (subject(case, bytes, way), true)).collect()
        }
        "spawn" => plain(&[("spawn", "fork+exec"), ("spawn", "vfork+exec"), ("fork", "fork")]),
        "sched" => {
            let mut owed =
                plain(&[("futex-ping-pong", "threads-fifo"), ("yield", "threads-fifo"), ("yield", "processes-fifo")]);
            // Under linux-best everything is SCHED_FIFO.
            if system == System::Default {
                owed.extend(plain(&[("futex-ping-pong", "threads")]));
            }
            owed
        }
        "pool" => {
            let ways = ["pipe", "unix-dgram"].into_iter();
            let others = |way: &str| (system == System::Best).then(|| format!("{way}{OTHER}"));
            let ways = ways.flat_map(|way| [Some(way.to_string()), others(way)]).flatten();
            ways.map(|way| (subject("ping-pong", 48, &way), true)).collect()
        }
        PROGRAMS => plain(&APPS.map(|case| (case, "busybox"))),
        "pager" => plain(&[("round-trip", "sigsegv+mprotect"), ("round-trip", "userfaultfd")]),
        _ => Vec::new(),
    }
}

/// Machines in which benchmarks are measured: how many processors each has, and which are measured there.
pub fn machines<'b>(benches: &[&'b str]) -> Vec<(u32, Vec<&'b str>)> {
    let programs: Vec<&str> = benches.iter().copied().filter(|bench| *bench == PROGRAMS).collect();
    let further = PROCESSORS.into_iter().filter(|_| !programs.is_empty()).map(|cpus| (cpus, programs.clone()));
    [(1, benches.to_vec())].into_iter().chain(further).collect()
}

/// Holds a report of one system against what it owes.
pub fn check(report: &Report, system: System, benches: &[&str]) -> Result<()> {
    let owed: Vec<_> = benches.iter().flat_map(|bench| owed(system, bench)).collect();
    for (subject, applies) in &owed {
        let figures = report.figures.iter().filter(|figure| Subject::of(figure) == *subject).count();
        let skipped = report.skipped.iter().filter(|skipped| skipped.subject == *subject).count();
        let wanted = if *applies { (1, 0) } else { (0, 1) };
        ensure!((figures, skipped) == wanted, "{figures} figures and {skipped} excuses for {subject}");
    }
    let said = report.figures.len() + report.skipped.len();
    ensure!(said == owed.len(), "{said} lines about {} subjects", owed.len());
    ensure!(report.about.len() == 1, "the peer does not say what it is");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{About, Skipped};
    use measure::{Figure, Source};
    use std::path::Path;

    fn complete(system: System, benches: &[&str]) -> Report {
        let about = About {
            system: system.name().into(),
            release: "6".into(),
            version: "#1".into(),
            command_line: String::new(),
        };
        let mut report = Report { about: vec![about], ..Report::default() };
        for (subject, applies) in benches.iter().flat_map(|bench| owed(system, bench)) {
            if applies {
                let Subject { bench, case, bytes, system, way } = subject;
                let (unit, source) = ("instructions".into(), Source::Measured);
                let (cpus, value, min, max, n) = (1, 2, 1, 3, 9);
                let figure = Figure { bench, case, bytes, system, way, cpus, unit, value, min, max, n, source };
                report.figures.push(figure);
            } else {
                report.skipped.push(Skipped { subject, skipped: "too much".into() });
            }
        }
        report
    }

    #[test]
    fn what_is_owed_is_all_there_once() {
        for system in System::ALL {
            let good = complete(system, &BENCHES);
            check(&good, system, &BENCHES).unwrap();
            let mut less = good.clone();
            less.figures.remove(17);
            assert!(check(&less, system, &BENCHES).is_err());
            let mut twice = good.clone();
            twice.figures[3] = twice.figures[4].clone();
            assert!(check(&twice, system, &BENCHES).is_err());
            let mut more = good.clone();
            more.figures[0].way = "telepathy".into();
            assert!(check(&more, system, &BENCHES).is_err());
            let mut silent = good.clone();
            silent.about.clear();
            assert!(check(&silent, system, &BENCHES).is_err());
        }
        assert!(check(&complete(System::Best, &BENCHES), System::Default, &BENCHES).is_err());
    }

    #[test]
    fn programs_are_those_that_run_here() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let list = std::fs::read_to_string(top.join(crate::program::APPS)).unwrap();
        let lines = list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
        let names: Vec<&str> = lines.map(|(name, _)| name).collect();
        assert_eq!((names[0], &names[1..]), ("prepare", &APPS[..]));
        assert_eq!(machines(&["calls"]), [(1, vec!["calls"])]);
        let programs = vec![PROGRAMS];
        assert_eq!(machines(&["calls", PROGRAMS])[1..], [(2, programs.clone()), (4, programs)]);
    }

    #[test]
    fn a_datagram_takes_no_mebibyte() {
        let owed = owed(System::Default, "sizes");
        let not: Vec<_> = owed.iter().filter(|(_, applies)| !applies).map(|(s, _)| (s.way.as_str(), s.bytes)).collect();
        assert_eq!(not, [[("udp", 1 << 20); 6].as_slice(), &[("sunrpc-udp", 1 << 20); 3]].concat());
        assert_eq!(owed.len(), 6 * 2 + 1 + 5 * (5 * 6 + 4 + 3));
        assert_eq!(super::owed(System::Best, "sizes").len(), 2 * owed.len());
        let pictures = super::owed(System::Default, "colours");
        assert_eq!((pictures.len(), pictures.iter().filter(|(_, applies)| !applies).count()), (5 * 7, 2));
    }
}

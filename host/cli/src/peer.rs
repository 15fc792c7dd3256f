//! `./musubi bench-peer`: Linux, measured on the machine that Musubi is measured on.

use crate::args::PeerArgs;
use anyhow::Result;
use build::Workspace;
use machine::Wish;
use peers::{Clock, Report};

pub fn measure(workspace: &Workspace, args: &PeerArgs) -> Result<u8> {
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let benches = if names.is_empty() { &peers::BENCHES } else { names.as_slice() };
    let clock = if args.wall { Clock::Nanoseconds } else { Clock::Instructions };
    let wish = if args.kvm { Wish::Kvm } else { Wish::Tcg };
    let report = peers::linux(workspace, benches, clock, wish, &mut |what| eprintln!("musubi: {what}"))?;
    if args.json {
        report.lines()?.iter().for_each(|line| println!("{line}"));
    } else {
        print(&report);
    }
    Ok(0)
}

/// A table for people.
fn print(report: &Report) {
    for about in &report.about {
        println!("{}: Linux {}, {}\n    {}", about.system, about.release, about.version, about.command_line);
    }
    println!(
        "{:<14} {:<6} {:<16} {:>8} {:<15} {:>10} {:>10} {:>10}",
        "system", "bench", "case", "bytes", "way", "median", "least", "most"
    );
    for figure in &report.figures {
        let s = &figure.subject;
        println!(
            "{:<14} {:<6} {:<16} {:>8} {:<15} {:>10} {:>10} {:>10}",
            s.system, s.bench, s.case, s.bytes, s.way, figure.value, figure.min, figure.max
        );
    }
    for skipped in &report.skipped {
        println!("does not apply: {} ({})", skipped.subject, skipped.skipped);
    }
    if let Some(figure) = report.figures.first() {
        println!("all in {}, measured in this run", figure.unit);
    }
}

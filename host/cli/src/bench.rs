//! `./musubi bench`: our figures, published ones, and those of another system, measured in the same run.

use crate::args::{BenchArgs, BenchPeerArgs};
use crate::{parts, print, say};
use anyhow::Result;
use build::Workspace;
use machine::Wish;
use measure::{Bench, Figure, Ours, Paper, Peer, Setup, Table, count};
use peers::{About, Clock, Report};

/// Measures, and prints figures as they were measured and as they were published. Without the peer that belongs beside them they
/// are printed all the same, and the status says that it is missing.
pub fn run(workspace: &Workspace, args: &BenchArgs) -> Result<u8> {
    let (bench, parts) = (args.bench(), parts(workspace)?);
    let plugin = workspace.host_library("musubi-plugin")?;
    let untold = bench.untold.then(|| workspace.untold_kernel()).transpose()?;
    let setup =
        Setup { parts: &parts, plugin: Some(&plugin), untold: untold.as_deref(), kvm: args.kvm, pku: !args.no_pku };
    let ours = Ours::measure(&setup, &bench)?;
    ours.notes.iter().for_each(|note| say(note));
    let papers = Paper::all()?;
    let mut figures = ours.figures;
    for paper in &papers {
        figures.extend(paper.beside(&figures)?);
    }
    let (mut status, mut about, mut peer) = (0, Vec::new(), args.peer());
    match theirs(workspace, peer, &bench, Clock::Instructions) {
        Ok(report) => {
            report.notes.iter().for_each(|note| say(note));
            figures.extend(report.figures);
            about = report.about;
        }
        Err(error) => {
            say(&format!("the peer could not be run, so nothing is compared: {error:#}"));
            status = 1;
            peer = Peer::None;
        }
    }
    let wall = if args.wall() { wall(workspace, &setup, &bench, peer)? } else { Vec::new() };
    let about: Vec<String> = [setup.about(&bench)].into_iter().chain(about.iter().map(what)).collect();
    let text = if args.json {
        // Not figures, so not among them.
        about.iter().for_each(|about| say(about));
        lines(&[figures, wall].concat())
    } else {
        let table = Table { bench: &bench, figures: &figures, papers: &papers, wall: &wall };
        about.iter().fold(table.to_string(), |text, about| format!("{text}\n{about}\n"))
    };
    Ok(status.max(print(&text)?))
}

/// Wall time, by turns with the peer's.
fn wall(workspace: &Workspace, setup: &Setup, bench: &Bench, peer: Peer) -> Result<Vec<Figure>> {
    say("wall time: each machine is booted twice");
    let mut figures = Ours::wall(setup, bench)?;
    let theirs = theirs(workspace, peer, bench, Clock::Nanoseconds)?;
    figures.extend(Ours::wall(setup, bench)?);
    let mut figures = Figure::merged(figures);
    figures.extend(theirs.figures);
    Ok(figures)
}

/// What the peer says to a benchmark of ours.
fn theirs(workspace: &Workspace, peer: Peer, bench: &Bench, clock: Clock) -> Result<Report> {
    match peer {
        Peer::None => Ok(Report::default()),
        Peer::Linux => {
            // The same messages and pictures, under other names.
            let theirs = if bench.name == "ipc" { &["sizes", "colours"][..] } else { &[bench.name] };
            let mut report = peers::linux(workspace, theirs, clock, Wish::Tcg, &mut progress)?;
            report.figures.iter_mut().for_each(|figure| figure.bench = bench.name.into());
            Ok(report)
        }
    }
}

/// Measures only the peer.
pub fn peer(workspace: &Workspace, args: &BenchPeerArgs) -> Result<u8> {
    let names: Vec<&str> = args.names.iter().map(String::as_str).collect();
    let benches = if names.is_empty() { &peers::BENCHES } else { names.as_slice() };
    let clock = if args.wall { Clock::Nanoseconds } else { Clock::Instructions };
    let wish = if args.kvm { Wish::Kvm } else { Wish::Tcg };
    let report = peers::linux(workspace, benches, clock, wish, &mut progress)?;
    report.notes.iter().for_each(|note| say(note));
    if args.json {
        report.about.iter().for_each(|about| say(&what(about)));
        print(&lines(&report.figures))
    } else {
        print(&rows(&report, clock))
    }
}

fn progress(what: &str) {
    say(what);
}

/// For programs.
fn lines(figures: &[Figure]) -> String {
    figures.iter().map(|figure| figure.line() + "\n").collect()
}

/// Which system it is.
fn what(about: &About) -> String {
    let About { system, release, version, command_line } = about;
    format!("{system}: Linux {release}, {version}; started with: {command_line}")
}

/// A row for each figure.
fn rows(report: &Report, clock: Clock) -> String {
    let mut text: String = report.about.iter().map(|about| what(about) + "\n").collect();
    let unit = match clock {
        Clock::Instructions => "instructions, counted by QEMU (TCG, -icount): exact, and not time",
        Clock::Nanoseconds => {
            "nanoseconds of this host. Under TCG a switch of address spaces costs microseconds, which it does not on a \
             processor: compare with nothing but this run"
        }
    };
    text += &format!("In {unit}.\n\n");
    let mut row = |cells: [&str; 12]| {
        let [system, bench, case, bytes, way, cpus, median, least, most, entries, views, locked] = cells;
        text += &format!(
            "{system:<13} {bench:<7} {case:<19} {bytes:>7} {way:<16} {cpus:>4} {median:>9} {least:>9} {most:>9} {entries:>14} {views:>13} \
             {locked:>10}\n"
        );
    };
    let counts = [count::ENTRIES, count::VIEWS, count::LOCKED];
    let [entries, views, locked] = counts;
    row(["system", "bench", "case", "bytes", "way", "cpus", "median", "least", "most", entries, views, locked]);
    let is_count = |figure: &Figure| {
        [&count::ALL[..], &count::TOUCHED, &[count::WITHIN, count::EXECUTED]].concat().contains(&figure.unit.as_str())
    };
    // What was counted stands behind its figure.
    for rows in report.figures.chunk_by(|_, next| is_count(next)) {
        let Figure { bench, case, bytes, system, way, cpus, value, min, max, .. } = &rows[0];
        let [bytes, value, min, max] = [bytes, value, min, max].map(u64::to_string);
        let cpus = cpus.to_string();
        let counted = |unit| rows[1..].iter().find(|f| f.unit == unit).map_or("-".into(), |f| f.value.to_string());
        let [entries, views, locked] = counts.map(counted);
        row([system, bench, case, &bytes, way, &cpus, &value, &min, &max, &entries, &views, &locked]);
    }
    for skipped in &report.skipped {
        text += &format!("does not apply: {} ({})\n", skipped.subject, skipped.skipped);
    }
    text
}

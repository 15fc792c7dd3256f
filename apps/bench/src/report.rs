//! What is printed: lines for people, or a JSON object a line for programs.

use crate::bars::held;
use crate::rounds::{COUNTED, Rounds};
use crate::samples::{Samples, Summary};
use alloc::format;
use musubi::println;
use musubi::rt::{task, time};

pub struct Report {
    bench: &'static str,
    json: bool,
    unit: &'static str,
    cpus: usize,
    /// Of each case people are told what the longest round took, and nothing else.
    longest: bool,
    /// If nanoseconds are told: ticks and nanoseconds when it began, for the rate between them.
    began: Option<(u64, u64)>,
}

/// Behind a unit: of one of many rounds that were made at a stretch.
const AVERAGE: &str = "-on-average";
/// Behind a unit: what 99 of a hundred rounds do not exceed, if there are so many.
const LATE: &str = "-p99";
const MANY: usize = 100;
/// Instructions that no round takes more of, on one processor, whatever comes in the middle of it (K1-44).
const INTERRUPTED: u64 = 450_000;
/// So long the rate of the ticks is measured at least: the clock has steps.
const LEAST_NS: u64 = 20_000_000;

/// What is measured, and how: the words that a figure is found by.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub case: &'a str,
    pub way: &'a str,
    /// Of data that are passed.
    pub bytes: usize,
}

/// How long a way into the kernel has taken at most, and mostly, of so many times; and how long it may.
#[derive(Clone, Copy)]
pub struct Longest {
    pub ticks: u64,
    pub usual: u64,
    pub times: u64,
    pub bar: u64,
}

impl Report {
    /// `wall`: nanoseconds are told instead of ticks.
    pub fn new(bench: &'static str, json: bool, wall: bool) -> Report {
        let instructions = !wall && time::ticks_are_instructions();
        if !json && !instructions && !wall {
            println!("{bench}: ticks of the time-stamp counter; start the machine with --icount to count instructions");
        }
        Report {
            bench,
            json,
            unit: match (wall, instructions) {
                (true, _) => "nanoseconds",
                (_, true) => "instructions",
                _ => "ticks",
            },
            cpus: task::processors().count(),
            longest: false,
            began: wall.then(|| (time::ticks(), time::now_ns())),
        }
    }

    /// The same benchmark's, which is about the longest rounds.
    pub fn of_longest(&self) -> Report {
        Report { longest: true, ..*self }
    }

    /// What another program is told that tells of the same, too.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let json = self.json.then_some("--json");
        json.into_iter().chain(self.began.is_some().then_some("--wall"))
    }

    /// So many rounds, or if time is told at least as many as it takes to say how long one of a hundred is.
    pub fn enough(&self, rounds: usize) -> usize {
        if self.began.is_some() { rounds.max(MANY) } else { rounds }
    }

    /// Prints a case; `steps` are the names of the steps that it tells of itself.
    pub fn case(&self, case: Case, rounds: &Rounds, steps: &[&str]) {
        self.rounds(case, rounds, 1);
        self.steps_and_counts(case, rounds, steps, 1);
    }

    /// Rounds whose length is all that is known here.
    pub fn samples(&self, case: Case, ticks: &Samples) {
        self.length(case, ticks.summary());
    }

    /// Rounds of `calls` calls that are under way together: what one of them comes to, of all that was counted.
    pub fn posted(&self, case: Case, rounds: &Rounds, calls: u64) {
        self.rounds(case, rounds, calls);
        self.steps_and_counts(case, rounds, &[], calls);
    }

    /// How long rounds of so many calls were. Where the longest is told one in the middle of which an interrupt came is told by itself: that has a row
    /// of its own, and whoever runs next has his.
    fn rounds(&self, case: Case, rounds: &Rounds, calls: u64) {
        if !self.longest || self.json {
            return self.length(case, rounds.ticks.summary().part(calls));
        }
        let name = format!("{} by {}", case.case, case.way);
        let bar = held(&name, self.cpus).unwrap_or(0);
        let [quiet, others] = rounds.by_entries().map(|rounds| rounds.summary().part(calls));
        self.round(&name, quiet, bar);
        if others.n > 0 {
            self.round(&format!("{name}, interrupted"), others, bar.max(self.cpus as u64 * INTERRUPTED));
        }
    }

    /// A line for the rounds of a short way.
    fn round(&self, name: &str, summary: Summary, bar: u64) {
        let Summary { median: usual, greatest: ticks, n, .. } = summary;
        self.handler(name, "a round, by a short way", Longest { ticks, usual, times: n as u64, bar });
    }

    /// How long rounds were that were looked at one by one; where that is time and there are many, how long one of a hundred is, too.
    fn length(&self, case: Case, summary: Summary) {
        self.figure(case, self.unit, summary);
        if self.began.is_some() && summary.n >= MANY {
            self.figure(case, &format!("{}{LATE}", self.unit), Summary::of(summary.late, summary.n));
        }
    }

    fn steps_and_counts(&self, case: Case, rounds: &Rounds, steps: &[&str], calls: u64) {
        for (step, samples) in steps.iter().zip(&rounds.steps) {
            self.figure(Case { case: &format!("{}/{step}", case.case), ..case }, self.unit, samples.summary());
        }
        for (unit, samples) in COUNTED.iter().zip(&rounds.counts) {
            self.figure(case, unit, samples.summary().part(calls));
        }
    }

    /// What one of the `n` calls of a round comes to.
    pub fn per_call(&self, case: Case, rounds: &Rounds, n: u64) {
        self.figure(case, &format!("{}-per-call", self.unit), rounds.ticks.summary().part(n));
    }

    /// What the longest round took.
    pub fn longest(&self, case: Case, rounds: &Rounds) {
        let longest = Summary::of(rounds.ticks.summary().greatest, 1);
        self.figure(case, &format!("{}-at-most", self.unit), longest);
    }

    /// The longest that a way into the kernel has taken, and what bounds it.
    pub fn handler(&self, name: &str, bound: &str, longest: Longest) {
        let Longest { ticks, usual, times, bar } = longest;
        if !self.json {
            return println!(
                "{name:<24} {times:>8} times, {bound:<40} at most {ticks:>9}, mostly {usual:>9} of {bar:>9}"
            );
        }
        let of = Case { case: name, way: bound, bytes: 0 };
        self.figure(of, &format!("{}-at-most", self.unit), Summary::of(ticks, times as usize));
        self.bar(of, bar);
    }

    /// A way into the kernel of which nothing is known here, and why.
    pub fn not_measured(&self, name: &str, why: &str) {
        if !self.json {
            println!("{name:<24} is not measured: {why}");
        }
    }

    /// What such a way is held to, in instructions.
    fn bar(&self, of: Case, bar: u64) {
        if self.unit == "instructions" {
            self.figure(of, "instructions-bar", Summary::of(bar, 1));
        }
    }

    /// What one of `n` operations comes to that took so many ticks of all processors together.
    pub fn per_operation(&self, case: Case, ticks: u64, n: u64) {
        self.figure(case, self.unit, Summary::of(ticks / n.max(1), n as usize));
    }

    /// What one of `n` rounds comes to that were made at a stretch, with whatever came between them.
    pub fn average(&self, case: Case, ticks: u64, n: u64) {
        self.figure(case, &format!("{}{AVERAGE}", self.unit), Summary::of(ticks / n.max(1), n as usize));
    }

    /// One round of so many messages (or whatever it consists of), which others have made: what was counted in it. By the clock the average says all.
    pub fn at_a_stretch(&self, case: Case, messages: u64, round: &Rounds) {
        if self.began.is_none() {
            self.case(case, round, &[]);
            self.count(case, "messages", messages);
        }
    }

    /// What was done once.
    pub fn once(&self, case: Case, ticks: u64) {
        self.figure(case, self.unit, Summary::of(ticks, 1));
    }

    /// Something that was counted over all rounds.
    pub fn count(&self, case: Case, unit: &str, value: u64) {
        self.figure(case, unit, Summary::of(value, 1));
    }

    /// Ticks in the unit that is told.
    fn told(&self, ticks: Summary) -> Summary {
        let Some((first, began)) = self.began else { return ticks };
        let (passed, ns) = loop {
            let (passed, ns) = (time::ticks() - first, time::now_ns().saturating_sub(began));
            if ns >= LEAST_NS {
                break (u128::from(passed.max(1)), u128::from(ns));
            }
        };
        ticks.map(|ticks| (u128::from(ticks) * ns / passed) as u64)
    }

    fn figure(&self, of: Case, unit: &str, summary: Summary) {
        let Case { case, way, bytes } = of;
        if self.longest && !self.json {
            if unit == self.unit && !case.contains('/') {
                let name = format!("{case} by {way}");
                self.round(&name, summary, held(&name, self.cpus).unwrap_or(0));
            }
            return;
        }
        let summary = if unit.starts_with(self.unit) { self.told(summary) } else { summary };
        let Summary { median: value, least: min, greatest: max, n, .. } = summary;
        let (bench, cpus) = (self.bench, self.cpus);
        if self.json {
            println!(
                "{{\"bench\":\"{bench}\",\"case\":\"{case}\",\"bytes\":{bytes},\"system\":\"musubi\",\"way\":\"{way}\",\
                 \"cpus\":{cpus},\"unit\":\"{unit}\",\"value\":{value},\"min\":{min},\"max\":{max},\"n\":{n},\
                 \"source\":\"measured\"}}"
            );
            if self.longest
                && unit == self.unit
                && let Some(bar) = held(&format!("{case} by {way}"), self.cpus)
            {
                self.bar(of, bar);
            }
        } else if (unit == self.unit || unit.ends_with(AVERAGE)) && !case.contains('/') {
            println!("{case} of {bytes} bytes by {way}: {value} {unit} (least {min}, most {max}, {n} rounds)");
        } else {
            let what = case.split_once('/').map_or(unit, |(_, step)| step);
            println!("    {what:<48} {value:>9}");
        }
    }
}

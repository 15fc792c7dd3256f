//! One number, and everything that says what it is: a line for programs.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub bench: String,
    /// What is done; with a slash behind it, one step of it.
    pub case: String,
    /// Of data that are passed.
    pub bytes: u64,
    /// Whose figure it is: [`MUSUBI`], a peer, a system of a paper.
    pub system: String,
    /// By which of the system's ways.
    pub way: String,
    pub cpus: u32,
    pub unit: String,
    /// The median of the rounds, with the least and the greatest.
    pub value: u64,
    pub min: u64,
    pub max: u64,
    /// How many rounds; 0: a paper that does not say.
    pub n: u64,
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// In this run.
    Measured,
    /// Published.
    Paper,
}

pub const MUSUBI: &str = "musubi";

/// Behind the name of a case: several calls or messages are under way before an answer is collected. A round is then so many of
/// them; its length, and what else was counted, are told as what one comes to.
pub const ASYNC: &str = "-async";
pub const ASYNC_CALLS: u64 = 8;

/// Of what was counted in a round of a case: what one of its calls comes to, rounded.
pub fn of_one_call(case: &str, counted: u64) -> u64 {
    let calls = if case.ends_with(ASYNC) { ASYNC_CALLS } else { 1 };
    (counted + calls / 2) / calls
}

/// Units of what a round takes.
pub mod unit {
    pub const INSTRUCTIONS: &str = "instructions";
    /// Of a real processor.
    pub const CYCLES: &str = "cycles";
    /// What the guest calls the ticks of its time-stamp counter when they are not instructions.
    pub const TICKS: &str = "ticks";
    /// Behind another unit: of one of many rounds at a stretch, which nobody looks at one by one.
    pub const AVERAGE: &str = "-on-average";
    pub const MICROSECONDS: &str = "microseconds";
    pub const NANOSECONDS: &str = "nanoseconds";
    /// What 99 of a hundred rounds do not exceed.
    pub const LATE: &str = "nanoseconds-p99";
}

/// Units of what else is counted in a round.
pub mod count {
    pub const ENTRIES: &str = "kernel-entries";
    pub const VIEWS: &str = "view-switches";
    pub const KEYS: &str = "key-writes";
    pub const FLUSHES: &str = "tlb-flushes";
    /// Told to schedulers outside the kernel.
    pub const EVENTS: &str = "sched-events";
    pub const COPIES: &str = "copies";
    pub const COPIED: &str = "copied-bytes";
    pub const LOCKED: &str = "locked-ops";
    /// Locks of the kernel that were taken, or found taken; and of these the locks of posts.
    pub const LOCKS: &str = "locks";
    pub const POST_LOCKS: &str = "post-locks";
    /// Turns of loops that wait for another processor.
    pub const SPINS: &str = "spins";
    /// Lines of a cache and pages that a round touches, each the first time, or again where it would have been lost: CUBIX-33. Looked at in one benchmark only,
    /// as it takes long.
    pub const LINES: &str = "cache-lines";
    pub const PAGES: &str = "tlb-pages";
    pub const TOUCHED: [&str; 2] = [LINES, PAGES];
    /// Of the kernel's locks, those that were taken while another one was held. Likewise, and on one processor.
    pub const WITHIN: &str = "locks-within";
    /// In the order in which they are shown.
    pub const ALL: [&str; 11] =
        [ENTRIES, VIEWS, KEYS, FLUSHES, EVENTS, COPIES, COPIED, LOCKED, LOCKS, POST_LOCKS, SPINS];
    /// What all processors executed, where a round's length has what they slept in it, too; seen from outside.
    pub const EXECUTED: &str = "instructions-executed";
    /// Of programs, in the order in which they are shown: beside that, messages and what part of all instructions they take at most.
    pub const OF_PROGRAMS: [&str; 3] = [EXECUTED, MESSAGES, PERMILLE];
    /// Of rounds of many calls, in the order in which they are shown: what one call comes to, the longest round, how many calls went
    /// without the kernel, and how often over all rounds a class of sections had no key, got one, and lost one.
    pub const OF_MANY: [&str; 6] =
        ["instructions-per-call", "instructions-at-most", "hits-permille", "keys-missed", "keys-given", "keys-taken"];
    /// What is not the length of a round.
    pub const PLAIN: [&str; 10] =
        ["switches", "rounds", PERMILLE, BESIDE, BY_WALL, MESSAGES, "per-message", TOLD, TELLING, BAR];
    /// Of all rounds, or of a case that is one: how many messages, or other operations.
    pub const MESSAGES: &str = "messages";
    /// How long a way into the kernel may take.
    pub const BAR: &str = "instructions-bar";
    /// Other processors that were interrupted, and had to forget something.
    /// How much longer it takes than on a kernel that tells programs nothing, in thousandths.
    pub const TELLING: &str = "permille-for-info";
    pub const TOLD: &str = "processors-told";
    /// A ratio in thousandths: how many times as fast as one alone, by what was counted.
    pub const PERMILLE: &str = "permille";
    /// The same by the time of a processor that counts beside them, so that it includes what they wait for.
    pub const BESIDE: &str = "permille-side-by-side";
    /// The same by a clock of the host, on processors that run at once.
    pub const BY_WALL: &str = "permille-by-wall";
}

impl Figure {
    /// Reads the lines that a guest printed, all of which must be figures.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let line = |line: &str| serde_json::from_str(line).with_context(|| format!("not a figure: {line}"));
        text.lines().map(line).collect()
    }

    /// The line for programs.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("numbers and strings become JSON")
    }

    /// The case, and the step if it is one.
    pub fn case_and_step(&self) -> (&str, Option<&str>) {
        self.case.split_once('/').map_or((&self.case, None), |(case, step)| (case, Some(step)))
    }

    /// Whether it says what a whole round takes.
    pub fn is_total(&self) -> bool {
        self.case_and_step().1.is_none()
            && !count::ALL
                .iter()
                .chain(&count::OF_MANY)
                .chain(&count::PLAIN)
                .chain(&count::TOUCHED)
                .chain(&[count::WITHIN])
                .chain(&[unit::LATE, count::EXECUTED])
                .any(|u| *u == self.unit)
    }

    /// Whether each of its rounds could be seen from outside.
    pub fn has_rounds(&self) -> bool {
        self.is_total() && !self.unit.ends_with(unit::AVERAGE)
    }

    /// Makes one figure of those of the same subject and unit from several rounds: the least of all, the greatest of all, and the
    /// median of the rounds' medians.
    pub fn merged(rounds: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut groups: Vec<Vec<Self>> = Vec::new();
        for figure in rounds {
            match groups.iter_mut().find(|group| group[0].is_same(&figure)) {
                Some(group) => group.push(figure),
                None => groups.push(vec![figure]),
            }
        }
        groups.into_iter().map(together).collect()
    }

    fn is_same(&self, other: &Self) -> bool {
        let subject = |f: &Self| (f.bench.clone(), f.case.clone(), f.system.clone(), f.way.clone(), f.unit.clone());
        self.bytes == other.bytes && self.cpus == other.cpus && subject(self) == subject(other)
    }

    /// Whether both are about the same case, passing as many bytes.
    pub fn is_about(&self, other: &Self) -> bool {
        self.case_and_step().0 == other.case_and_step().0 && self.bytes == other.bytes
    }
}

fn together(mut group: Vec<Figure>) -> Figure {
    group.sort_by_key(|figure| figure.value);
    let (low, high) = (&group[(group.len() - 1) / 2], &group[group.len() / 2]);
    Figure {
        value: low.value.midpoint(high.value),
        min: group.iter().map(|figure| figure.min).min().unwrap_or(0),
        max: group.iter().map(|figure| figure.max).max().unwrap_or(0),
        n: group.iter().map(|figure| figure.n).sum(),
        ..low.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"bench":"ipc","case":"NullProc","bytes":8192,"system":"musubi","way":"epc-h","cpus":1,"unit":"instructions","value":78,"min":78,"max":81,"n":1000,"source":"measured"}"#;

    #[test]
    fn a_line_is_read_and_written_as_it_is() {
        let figures = Figure::read(LINE).unwrap();
        assert_eq!((figures[0].value, figures[0].source), (78, Source::Measured));
        assert_eq!(figures[0].line(), LINE);
        assert!(figures[0].is_total());
    }

    #[test]
    fn what_is_not_a_figure_is_refused() {
        for (from, to) in [
            (LINE, "hello"),
            (LINE, "{}"),
            (LINE, ""),
            ("\"n\":1000,", ""),
            ("\"n\"", "\"m\":1,\"n\""),
            ("measured", "rumour"),
            ("78,", "-1,"),
        ] {
            let bad = LINE.replace(from, to);
            assert!(Figure::read(&format!("{LINE}\n{bad}\n")).is_err(), "{bad}");
        }
    }

    #[test]
    fn rounds_come_to_one_figure() {
        let round = |value: u64, min: u64, way: &str| Figure {
            value,
            min,
            max: value + 9,
            n: 5,
            way: way.into(),
            ..Figure::read(LINE).unwrap().remove(0)
        };
        let rounds = [round(100, 90, "epc-h"), round(500, 400, "epc-s"), round(140, 80, "epc-h")];
        let merged = Figure::merged(rounds.clone());
        assert_eq!(merged.len(), 2);
        let Figure { value, min, max, n, .. } = merged[0];
        assert_eq!((value, min, max, n), (120, 80, 149, 10));
        assert_eq!(merged[1], rounds[1]);
    }

    #[test]
    fn steps_and_counts_are_no_totals() {
        let mut figure = Figure::read(LINE).unwrap().remove(0);
        figure.case = "NullProc/kernel".into();
        assert_eq!((figure.case_and_step(), figure.is_total()), (("NullProc", Some("kernel")), false));
        assert!(figure.is_about(&Figure::read(LINE).unwrap()[0]));
        (figure.case, figure.unit) = ("NullProc".into(), count::LOCKED.into());
        assert!(!figure.is_total());
    }
}

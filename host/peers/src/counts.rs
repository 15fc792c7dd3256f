//! What else a round took, counted from outside by `host/plugin`.

use anyhow::{Context, Result, ensure};
use measure::{Figure, PROGRAMS, TOUCHED, TOUCHED_BY, count, executed, of_one_call};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tally::{Case, Costly, Round};
use tempfile::TempDir;

/// The plugin for one machine, and where it writes to.
pub struct Counter {
    dir: TempDir,
    /// Whether lines and pages are looked at.
    touched: bool,
    /// Whether there are several processors.
    several: bool,
}

impl Counter {
    /// With the library of `host/plugin`, for these benchmarks on so many processors.
    pub fn new(plugin: &Path, benches: &[&str], cpus: u32) -> Result<Self> {
        let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
        symlink(plugin, dir.path().join("plugin.so")).context("cannot link to the plugin")?;
        Ok(Self { dir, touched: benches.contains(&TOUCHED_BY), several: cpus > 1 })
    }

    /// Arguments for QEMU.
    pub fn lead(&self) -> Vec<OsString> {
        // QEMU takes a comma for the end, and two for a comma.
        let path = |path: PathBuf| path.display().to_string().replace(',', ",,");
        // Each program has an address space to itself.
        let touched = if self.touched { ",touched=many" } else { "" };
        let entries = if self.several { ",entries=each" } else { "" };
        let argument =
            format!("{},out={}{touched}{entries}", path(self.dir.path().join("plugin.so")), path(self.out()));
        vec!["-plugin".into(), argument.into()]
    }

    fn out(&self) -> PathBuf {
        self.dir.path().join("tally")
    }

    /// The cases in their order; `None` where this QEMU took no such plugin.
    pub fn cases(&self) -> Result<Option<Vec<Case>>> {
        fs::read_to_string(self.out()).ok().map(|text| tally::read(&text)).transpose()
    }
}

/// Figures of what was counted in the rounds of each figure, behind it.
pub fn join(figures: Vec<Figure>, cases: &[Case]) -> Result<Vec<Figure>> {
    ensure!(figures.len() == cases.len(), "{} cases were told, and {} were seen", figures.len(), cases.len());
    let mut all = Vec::new();
    for (figure, case) in figures.into_iter().zip(cases) {
        ensure!(case.len() == figure.n, "{}: {} rounds were told, and {} were seen", figure.case, figure.n, case.len());
        all.push(figure.clone());
        if figure.bench == PROGRAMS {
            all.push(executed(&figure, case)?);
        }
        // Linux swaps GS at a switch, too, so swaps do not say how often it is entered.
        let touched = TOUCHED.into_iter().filter(|_| figure.bench == TOUCHED_BY);
        let counts = [
            (count::ENTRIES, Costly::Entry),
            (count::VIEWS, Costly::RootWrite),
            (count::KEYS, Costly::KeyWrite),
            (count::FLUSHES, Costly::PageFlush),
            (count::LOCKED, Costly::Locked),
            (count::COPIES, Costly::Copy),
            (count::COPIED, Costly::Copied),
        ];
        // Of several processors nobody sees which of them copies what.
        let is_seen = |(unit, _): &(&str, Costly)| figure.cpus == 1 || ![count::COPIES, count::COPIED].contains(unit);
        for (unit, costly) in counts.into_iter().chain(touched).filter(is_seen) {
            let counted = |round: &Round| of_one_call(&figure.case, round.count(costly));
            let (value, min, max) = case.summary(counted).context("no rounds")?;
            all.push(Figure { unit: unit.into(), value, min, max, ..figure.clone() });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{Source, unit};
    use tally::KERNEL;

    fn figure(case: &str, n: u64) -> Figure {
        let (bench, system, way) = ("calls".into(), "linux-best".into(), "pipe".into());
        let (unit, source) = (unit::INSTRUCTIONS.into(), Source::Measured);
        let (case, bytes, cpus, value, min, max) = (case.into(), 0, 1, 9000, 9000, 9000);
        Figure { bench, case, bytes, system, way, cpus, unit, value, min, max, n, source }
    }

    fn case(n: u64) -> Case {
        let mut counts = [0; Costly::ALL.len()];
        (counts[Costly::Swap as usize], counts[Costly::RootWrite as usize]) = (8, 2);
        (counts[Costly::Copy as usize], counts[Costly::Entry as usize]) = (4, 2);
        let steps = Some(vec![(5, 100), (KERNEL, 4000), (6, 200), (KERNEL, 4600), (5, 100)]);
        // A round of many steps.
        let long = Round { instructions: 90_000, counts, steps: None };
        Case { rounds: vec![(n - 1, Round { instructions: 9000, counts, steps }), (1, long)] }
    }

    #[test]
    fn counts_stand_behind_their_figure() {
        let all = join(vec![figure("NullProc", 200), figure("no-such-call", 200)], &[case(200), case(200)]).unwrap();
        let told: Vec<(&str, &str, u64)> = all.iter().map(|f| (f.case.as_str(), f.unit.as_str(), f.value)).collect();
        let of = |case| {
            [
                (case, unit::INSTRUCTIONS, 9000),
                (case, count::ENTRIES, 2),
                (case, count::VIEWS, 2),
                (case, count::KEYS, 0),
                (case, count::FLUSHES, 0),
                (case, count::LOCKED, 0),
                (case, count::COPIES, 4),
                (case, count::COPIED, 0),
                (case, count::LINES, 0),
                (case, count::PAGES, 0),
            ]
        };
        assert_eq!(told, [of("NullProc"), of("no-such-call")].concat());
    }

    /// As their length is, and as ours are.
    #[test]
    fn counts_of_messages_under_way_together_are_of_one() {
        let mut together = case(200);
        let counts = &mut together.rounds[0].1.counts;
        (counts[Costly::Entry as usize], counts[Costly::Copied as usize]) = (20, 8 * 64);
        let all = join(vec![figure("NullProc-async", 200)], &[together]).unwrap();
        let of = |unit| all.iter().find(|figure| figure.unit == unit).map(|figure| figure.value);
        let counted = [unit::INSTRUCTIONS, count::ENTRIES, count::VIEWS, count::COPIED].map(of);
        assert_eq!(counted, [Some(9000), Some(3), Some(0), Some(64)]);
    }

    #[test]
    fn of_several_processors_no_copies_are_told() {
        let sort = Figure { bench: PROGRAMS.into(), cpus: 2, ..figure("sort", 200) };
        let all = join(vec![sort], &[case(200)]).unwrap();
        let units: Vec<&str> = all.iter().map(|figure| figure.unit.as_str()).collect();
        let counted = [count::ENTRIES, count::VIEWS, count::KEYS, count::FLUSHES, count::LOCKED];
        assert_eq!(units, [&[unit::INSTRUCTIONS, count::EXECUTED], &counted[..]].concat());
    }

    #[test]
    fn what_was_told_and_what_was_seen_must_agree() {
        assert!(join(vec![figure("NullProc", 200)], &[]).is_err());
        assert!(join(vec![figure("NullProc", 200)], &[case(199)]).is_err());
    }
}

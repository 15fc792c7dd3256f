//! Published figures, to stand beside ours.

use crate::figure::{Figure, Source};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A table of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub source: String,
    pub machine: String,
    unit: String,
    cases: Vec<String>,
    bytes: Vec<u64>,
    /// Systems on several processors, and on how many.
    #[serde(default)]
    cpus: BTreeMap<String, u32>,
    /// By system and way, a number for each case.
    rows: BTreeMap<String, BTreeMap<String, Vec<Number>>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Exact(u64),
    /// `"<N"`
    Below(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    table: Vec<Paper>,
}

impl Paper {
    /// All that we have.
    pub fn all() -> Result<Vec<Self>> {
        Self::parse(include_str!("../paper.toml")).context("host/measure/paper.toml")
    }

    fn parse(text: &str) -> Result<Vec<Self>> {
        let papers = toml::from_str::<File>(text)?.table;
        for paper in &papers {
            let numbers = paper.rows.values().flat_map(BTreeMap::values).map(Vec::len);
            ensure!(numbers.chain([paper.bytes.len()]).all(|n| n == paper.cases.len()), "a row is as long as `cases`");
            paper.figures("")?;
        }
        Ok(papers)
    }

    /// Its figures, as those of a benchmark.
    pub fn figures(&self, bench: &str) -> Result<Vec<Figure>> {
        let mut figures = Vec::new();
        for (system, ways) in &self.rows {
            for (way, numbers) in ways {
                for (at, number) in numbers.iter().enumerate() {
                    let (min, value) = number.range()?;
                    figures.push(Figure {
                        bench: bench.into(),
                        case: self.cases[at].clone(),
                        bytes: self.bytes[at],
                        system: system.clone(),
                        way: way.clone(),
                        cpus: self.cpus.get(system).copied().unwrap_or(1),
                        unit: self.unit.clone(),
                        value,
                        min,
                        max: value,
                        n: 0,
                        source: Source::Paper,
                    });
                }
            }
        }
        Ok(figures)
    }

    /// Whether it tells of this figure's system.
    pub fn has(&self, figure: &Figure) -> bool {
        figure.source == Source::Paper && self.rows.contains_key(&figure.system)
    }

    /// Those of its figures that are about one of `ours`.
    pub fn beside(&self, ours: &[Figure]) -> Result<Vec<Figure>> {
        let Some(first) = ours.first() else { return Ok(Vec::new()) };
        let mut figures = self.figures(&first.bench)?;
        figures.retain(|figure| ours.iter().any(|own| own.is_about(figure)));
        Ok(figures)
    }
}

impl Number {
    /// The least that it can be, and the most.
    fn range(&self) -> Result<(u64, u64)> {
        match self {
            Self::Exact(number) => Ok((*number, *number)),
            Self::Below(text) => match text.strip_prefix('<').and_then(|number| number.parse().ok()) {
                Some(number) => Ok((0, number)),
                None => bail!("{text:?} is not a number nor \"<NUMBER\""),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_own_comparisons_come_out() {
        // "About five times faster than Unix, three times faster than Mach", with data that are copied.
        let papers = Paper::all().unwrap();
        let figures = papers[0].figures("sizes").unwrap();
        let value = |system: &str, way: &str, case: &str| {
            let found = figures.iter().find(|f| f.system == system && f.way == way && f.case == case);
            found.unwrap_or_else(|| panic!("no {case} of {system} by {way}")).value as f64
        };
        let ours = value("cubix386", "epc-s", "ArgRtn_Copy");
        assert!((value("bsd/386-1.1", "udp", "ArgRtn_Copy") / ours - 5.2).abs() < 0.05);
        assert!((value("mach-2.5", "mig", "ArgRtn_Copy") / ours - 3.1).abs() < 0.05);
        let below = figures.iter().find(|f| f.way == "epc-h" && f.case == "NullProc").unwrap();
        assert_eq!((below.min, below.value, below.source), (0, 1, Source::Paper));
        assert_eq!(figures.len(), 7 * 4);
    }

    #[test]
    fn a_table_with_a_hole_is_refused() {
        let table = |row: &str| {
            format!(
                "[[table]]\nsource='x'\nmachine='y'\nunit='z'\ncases=['A','B']\nbytes=[0,8]\n[table.rows.s]\nw={row}\n"
            )
        };
        assert_eq!(Paper::parse(&table("[1, '<2']")).unwrap().len(), 1);
        for bad in ["[1]", "[1, 2, 3]", "[1, '2']", "[1, '<x']", "[1, -2]"] {
            assert!(Paper::parse(&table(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_we_measure_is_set_beside() {
        let paper = &Paper::all().unwrap()[0];
        let mut own = paper.figures("calls").unwrap();
        own.retain(|figure| figure.case == "NullProc" && figure.way == "epc-s");
        let beside = paper.beside(&own).unwrap();
        assert_eq!(beside.len(), 7);
        assert!(beside.iter().all(|figure| figure.case == "NullProc" && figure.bench == "calls"));
        assert!(paper.beside(&[]).unwrap().is_empty());
    }
}

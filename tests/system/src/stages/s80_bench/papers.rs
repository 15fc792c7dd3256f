//! SSS-M2 to M5: what SSS-CORE's papers say stands beside ours in the tables that people get, whether or not a peer was measured.

use super::{Runs, find};
use anyhow::{Context, Result, ensure};
use measure::{Bench, Paper, Table, unit};

/// A benchmark, a case and a way of it, and what was published of it: the number, by which way.
const OF_ONE_SIZE: [(&str, &str, &str, u64, &str); 5] = [
    ("entry", "get_taskid", "light", 1120, "light"),
    ("entry", "get_taskid", "full", 7200, "full"),
    ("entry", "sleep0", "full", 22_050, "full"),
    ("entry", "sleep0-x2", "full", 47_500, "full"),
    ("pager", "round-trip", "validated-before", 20_760, "validated-before"),
];
/// The same of several sizes, from that of a page on: by light calls here.
const BY_SIZE: [(&str, &str, &[u64], &str); 3] = [
    ("memory", "alloc+free", &[43_400, 49_270, 72_680, 159_430, 530_260], "full"),
    ("memory", "page_invalidate", &[6100, 25_910], "light"),
    ("memory", "page_validate", &[6140, 28_740], "light"),
];
const PAGE: u64 = 4096;
/// How many times as long as the light entry the full one took, in the paper.
const RATIO: &str = "6.43";

/// Without a peer.
pub fn stand_beside_ours(runs: &Runs) -> Result<()> {
    for name in ["entry", "memory", "pager"] {
        let ours = runs.of(name)?;
        let (bench, papers) = (Bench::find(name).context("there is no such benchmark")?, Paper::all()?);
        let mut figures = ours.figures.clone();
        for paper in &papers {
            figures.extend(paper.beside(&figures)?);
        }
        let table = Table { bench: &bench, figures: &figures, papers: &papers, wall: &[] }.to_string();
        stand(name, &table, |case, way, bytes| Ok(find(ours, case, way, bytes, unit::INSTRUCTIONS)?.value))?;
    }
    Ok(())
}

/// In this table of a benchmark; `own` says what we took.
pub fn stand(bench: &str, table: &str, own: impl Fn(&str, &str, u64) -> Result<u64>) -> Result<()> {
    let lines: Vec<String> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let has = |begins: &str, ends: &str| {
        let found = lines.iter().filter(|line| line.starts_with(begins) && line.ends_with(ends)).count();
        ensure!(found == 1, "{found} rows begin with {begins:?} and end with {ends:?} in\n{table}");
        Ok(())
    };
    for (_, case, way, number, by) in OF_ONE_SIZE.iter().filter(|row| row.0 == bench) {
        let own = own(case, way, 0)?;
        has(&format!("{case} 0 {way} {own} "), &format!(" {number} nanoseconds (sss-core {by})"))?;
    }
    for (_, case, numbers, by) in BY_SIZE.iter().filter(|row| row.0 == bench) {
        // (Measured on several machines; the papers' is of one processor.)
        let own = own(case, "light", PAGE)?;
        has(&format!("{case} light 1 musubi {own} "), &format!(" {} nanoseconds (sss-core {by})", numbers[0]))?;
        let all = numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
        has(&format!("{case} {by} 1 sss-core {all} "), " nanoseconds")?;
    }
    if bench == "entry" {
        has("SSS-M2: ", &format!(" {RATIO}"))?;
    }
    Ok(())
}

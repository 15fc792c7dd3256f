//! Cases that are measured with several sizes: a table for each, with a row for each way of each system, on machines with as many processors, and a
//! column for each size; of wall time in the same form. What was published has rows like them.

use super::{NOTHING, Table, paper, published_number, published_unit};
use crate::figure::{Figure, MUSUBI, Source};
use crate::peer::Peer;

/// The size at which the papers measured: where only one is shown, it is this one, if it is there.
const PAPERS: u64 = 8192;
/// Which that is, for people.
pub const ONE: &str = "8192 bytes, or of the least where these were not measured";
/// Ends the names of a peer's ways that were measured under its default policy; they stand in one row with the others, each size
/// by whichever was faster, and this mark says which.
pub const OTHER: &str = "-other";
pub const MARK: &str = "*";

/// What a row is of: a way of a system, on so many processors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way<'t> {
    pub system: &'t str,
    pub name: &'t str,
    pub cpus: u32,
}

impl<'t> Way<'t> {
    fn of(figure: &'t Figure) -> Self {
        Way { system: &figure.system, name: way_and_mark(figure).0, cpus: figure.cpus }
    }
}

/// Sizes of a case, in order.
pub fn sizes(table: &Table, case: &str) -> Vec<u64> {
    let mut sizes: Vec<u64> = table.totals().filter(|figure| figure.case == case).map(|figure| figure.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Of several sizes the one that is shown.
pub fn shown(sizes: &[u64]) -> u64 {
    sizes.iter().copied().find(|size| *size == PAPERS).or(sizes.first().copied()).unwrap_or(0)
}

/// Whether there are cases of several sizes.
pub fn applies(table: &Table) -> bool {
    table.totals().any(|figure| sizes(table, &figure.case).len() > 1)
}

/// The cases, in the order in which they were measured.
pub fn cases<'t>(table: &'t Table) -> Vec<&'t str> {
    let mut cases: Vec<&str> = Vec::new();
    for figure in table.totals() {
        if !cases.contains(&figure.case.as_str()) {
            cases.push(&figure.case);
        }
    }
    cases
}

/// The tables, each with its head.
pub fn tables(table: &Table) -> Vec<Vec<Vec<String>>> {
    cases(table).into_iter().map(|case| rows(table, case)).collect()
}

/// The tables of wall time: what the papers published is no time of this host, and how far rounds differ is told instead.
pub fn wall_tables(table: &Table) -> Vec<Vec<Vec<String>>> {
    cases(table).into_iter().map(|case| wall_rows(table, case)).collect()
}

fn head(table: &Table, sizes: &[u64], last: &[&str]) -> Vec<String> {
    let cpus = table.has_many_machines().then_some("cpus");
    let mut head: Vec<String> = ["case", "way"].into_iter().chain(cpus).chain(["system"]).map(String::from).collect();
    head.extend(sizes.iter().map(u64::to_string));
    head.extend(Peer::SYSTEMS.map(|system| format!("to {system}")));
    head.extend(last.iter().map(|word| word.to_string()));
    head
}

/// The cells before those of sizes.
fn words(table: &Table, case: &str, way: Way) -> Vec<String> {
    let cpus = table.has_many_machines().then(|| way.cpus.to_string());
    [case.to_string(), way.name.into()].into_iter().chain(cpus).chain([way.system.into()]).collect()
}

/// A row up to the ratios, and the figure that these are of. The peers have one processor: what was measured on more is not compared.
fn row<'t>(table: &'t Table, case: &str, way: Way, sizes: &[u64]) -> (Vec<String>, Option<&'t Figure>) {
    let mut row = words(table, case, way);
    row.extend(sizes.iter().map(|size| cell(table, case, way, *size)));
    let figure = figure(table, case, way, shown(sizes));
    let own = figure.filter(|own| own.system == MUSUBI);
    row.extend(Peer::SYSTEMS.map(|of| {
        let both = own.and_then(|own| Some((table.peer(own, of).filter(|peer| peer.cpus == own.cpus)?, own)));
        both.map_or(NOTHING.into(), |(peer, own)| ratio(peer, own))
    }));
    (row, figure)
}

fn wall_rows(table: &Table, case: &str) -> Vec<Vec<String>> {
    let sizes = sizes(table, case);
    let mut rows = vec![head(table, &sizes, &["least", "p99"])];
    for way in ways(table, case) {
        let (mut row, figure) = row(table, case, way, &sizes);
        row.push(figure.map_or(NOTHING.into(), |figure| figure.min.to_string()));
        let late = figure.and_then(|figure| table.late(figure));
        row.push(late.map_or(NOTHING.into(), |late| late.value.to_string()));
        rows.push(row);
    }
    rows
}

fn rows(table: &Table, case: &str) -> Vec<Vec<String>> {
    let sizes = sizes(table, case);
    let mut rows = vec![head(table, &sizes, &["paper"])];
    for way in ways(table, case) {
        let (mut row, own) = row(table, case, way, &sizes);
        let beside = own.and_then(|own| table.published(own).filter(|_| own.cpus == table.bench.cpus));
        row.push(beside.map_or(NOTHING.into(), paper));
        rows.push(row);
    }
    rows.extend(published(table, case, &sizes));
    rows
}

/// What was published of a case: a row for each way of each system, and of what the numbers are.
fn published(table: &Table, case: &str, sizes: &[u64]) -> Vec<Vec<String>> {
    let all = || table.figures.iter().filter(|figure| figure.source == Source::Paper && figure.case == case);
    let mut known: Vec<(Way, &str)> = Vec::new();
    for figure in all() {
        let row = (Way::of(figure), figure.unit.as_str());
        if !known.contains(&row) {
            known.push(row);
        }
    }
    let row = |(way, unit): (Way, &str)| {
        let mut row = words(table, case, way);
        row.extend(sizes.iter().map(|size| {
            let found = all().find(|f| (Way::of(f), f.unit.as_str(), f.bytes) == (way, unit, *size));
            found.map_or(NOTHING.into(), published_number)
        }));
        row.extend(Peer::SYSTEMS.map(|_| NOTHING.to_string()));
        row.push(published_unit(unit).into());
        row
    };
    known.into_iter().map(row).collect()
}

/// Systems and their ways of a case, ours first, each once for each number of processors.
pub fn ways<'t>(table: &'t Table, case: &str) -> Vec<Way<'t>> {
    let mut ways: Vec<Way> = Vec::new();
    for system in [MUSUBI].into_iter().chain(Peer::SYSTEMS) {
        for figure in table.figures.iter().filter(|f| f.is_total() && f.case == case && f.system == system) {
            let way = Way::of(figure);
            if !ways.contains(&way) {
                ways.push(way);
            }
        }
    }
    ways
}

/// The figure of a way, under whichever policy it is least. (Without data it is the same case whatever size is said.)
pub fn figure<'t>(table: &'t Table, case: &str, way: Way, bytes: u64) -> Option<&'t Figure> {
    let same = |f: &&Figure| f.source == Source::Measured && f.is_total() && f.case == case && f.bytes == bytes;
    table.figures.iter().filter(same).filter(|f| Way::of(f) == way).min_by_key(|f| f.value)
}

/// A figure's way, whatever the policy, and the mark if it is not the usual one.
pub fn way_and_mark(figure: &Figure) -> (&str, &'static str) {
    figure.way.strip_suffix(OTHER).map_or((&figure.way, ""), |way| (way, MARK))
}

fn cell(table: &Table, case: &str, way: Way, bytes: u64) -> String {
    let Some(figure) = figure(table, case, way, bytes) else { return NOTHING.into() };
    format!("{}{}", figure.value, way_and_mark(figure).1)
}

fn ratio(peer: &Figure, own: &Figure) -> String {
    format!("{:.1}", peer.value as f64 / own.value.max(1) as f64)
}

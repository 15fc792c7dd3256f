//! What was counted beside the length of a round: ours, and behind it what was counted of a peer's, by each of its ways.

use super::{NOTHING, Table, by_size};
use crate::figure::{Figure, MUSUBI};

/// The head, then the rows of each case; of several sizes one is shown. Whose a row is stands there where there are others'.
pub fn rows(table: &Table, units: &[&str]) -> Vec<Vec<String>> {
    let many = has_peers(table, units);
    let system = |name: &str| many.then(|| name.to_string());
    let head = table.head().into_iter().chain(system("system"));
    let mut rows = vec![head.chain(units.iter().map(|unit| unit.to_string())).collect::<Vec<_>>()];
    for case in by_size::cases(table) {
        for own in table.shown().filter(|own| own.case == case) {
            let words = table.words(own).into_iter().chain(system(MUSUBI));
            rows.extend(counted(table, own, units).map(|cells| words.chain(cells).collect()));
        }
        for figure in theirs(table, case) {
            let (way, mark) = by_size::way_and_mark(figure);
            let mut words = table.words(figure);
            words[2] = format!("{way}{mark}");
            let words = words.into_iter().chain(system(&figure.system));
            rows.extend(counted(table, figure, units).map(|cells| words.chain(cells).collect()));
        }
    }
    rows
}

/// Whether any of it was counted of a peer.
pub fn has_peers(table: &Table, units: &[&str]) -> bool {
    by_size::cases(table)
        .into_iter()
        .any(|case| theirs(table, case).any(|figure| counted(table, figure, units).is_some()))
}

/// A peer's totals of a case, by each way once, of the size that is shown.
fn theirs<'t>(table: &'t Table, case: &'t str) -> impl Iterator<Item = &'t Figure> {
    let bytes = by_size::shown(&by_size::sizes(table, case));
    let ways = by_size::ways(table, case).into_iter().filter(|way| way.system != MUSUBI);
    ways.filter_map(move |way| by_size::figure(table, case, way, bytes))
}

/// What was counted in the rounds of a total; `None` if nothing was.
fn counted(table: &Table, total: &Figure, units: &[&str]) -> Option<Vec<String>> {
    let of = |unit: &&str| {
        let is_its = |f: &&Figure| {
            f.unit == **unit
                && (&f.system, &f.case, &f.way) == (&total.system, &total.case, &total.way)
                && (f.bytes, f.cpus) == (total.bytes, total.cpus)
        };
        table.figures.iter().find(is_its)
    };
    let found: Vec<Option<&Figure>> = units.iter().map(of).collect();
    let cell = |figure: &Option<&Figure>| figure.map_or(NOTHING.into(), |figure| figure.value.to_string());
    found.iter().any(Option::is_some).then(|| found.iter().map(cell).collect())
}

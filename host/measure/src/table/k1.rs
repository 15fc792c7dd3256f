//! The table of the K1 paper (K1-M1): rounds at a stretch, with a message to the clock at each tick and without; ours on each
//! machine, the peer's by each of its ways, and the paper's.

use super::NOTHING;
use super::compared::{WITH, WITHOUT};
use crate::figure::{Figure, MUSUBI, Source, unit};
use crate::peer::Peer;

pub const ABOUT: &str = "K1-M1: a round of ten thousand at a stretch, without messages to a clock server and with (a peer's: the \
                         median, without)";

/// A row for each system, way and number of processors; the first row is the head.
pub fn rows(figures: &[Figure]) -> Vec<Vec<String>> {
    let mut rows = vec![["system", "way", "cpus", "without", "with", "unit"].map(String::from).to_vec()];
    let totals = || figures.iter().filter(|figure| figure.is_total());
    for one in totals().filter(|f| f.case == WITHOUT) {
        let same = |f: &&Figure| {
            f.case == WITH && (&f.system, &f.way, f.cpus, f.source) == (&one.system, &one.way, one.cpus, one.source)
        };
        rows.push(row(one, totals().find(same)));
    }
    let has_ours = rows.len() > 1;
    let of_peers = |f: &&Figure| Peer::SYSTEMS.contains(&f.system.as_str()) && f.case == "ping-pong" && has_ours;
    rows.extend(totals().filter(of_peers).map(|one| row(one, None)));
    // Ours first, then the peers, then the papers.
    let rank = |row: &Vec<String>| match row[0].as_str() {
        "system" => 0,
        MUSUBI => 1,
        system if Peer::SYSTEMS.contains(&system) => 2,
        _ => 3,
    };
    rows.sort_by_key(rank);
    rows
}

fn row(one: &Figure, with: Option<&Figure>) -> Vec<String> {
    let shown = |f: &Figure| match f.unit.as_str() {
        unit::MICROSECONDS => format!("{:.3}", f.value as f64 / 1000.0),
        _ => f.value.to_string(),
    };
    let of = if one.source == Source::Paper {
        "ms (paper)"
    } else {
        one.unit.strip_suffix(unit::AVERAGE).unwrap_or(&one.unit)
    };
    let with = with.map_or(NOTHING.into(), shown);
    vec![one.system.clone(), one.way.clone(), one.cpus.to_string(), shown(one), with, of.into()]
}

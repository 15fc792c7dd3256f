//! What one message takes, of those that `pool` sends to and fro.

use super::{NOTHING, Table};
use crate::figure::{Figure, MUSUBI, count};

const BENCH: &str = "pool";
/// Its cases, and how many messages a round of each has.
const MESSAGES: [(&str, u64); 2] = [("ping-pong", 2), ("queued", 1)];
const UNITS: [&str; 5] = [count::ENTRIES, count::POST_LOCKS, count::LOCKS, count::COPIES, count::SPINS];

/// A row for each way on each machine.
pub fn rows(table: &Table) -> Vec<Vec<String>> {
    let mut rows = vec![[table.head(), UNITS.map(String::from).to_vec()].concat()];
    for own in table.totals().filter(|own| own.bench == BENCH) {
        let Some((_, messages)) = MESSAGES.iter().find(|(case, _)| *case == own.case) else { continue };
        let each = |unit| {
            let same = |f: &&Figure| f.system == MUSUBI && f.unit == unit && f.case == own.case;
            let found = table.figures.iter().filter(same).find(|f| f.way == own.way && f.cpus == own.cpus);
            found.map_or(NOTHING.into(), |figure| (figure.value as f64 / *messages as f64).to_string())
        };
        rows.push([table.words(own), UNITS.map(each).to_vec()].concat());
    }
    rows
}

//! What one message takes, of those that `pool` and `messages` send to and fro, and of many at once.

use super::{NOTHING, Table};
use crate::figure::{Figure, MUSUBI, count};

const BENCHES: [&str; 2] = ["pool", "messages"];
/// Its cases, and how many messages a round of each has.
const MESSAGES: [(&str, u64); 9] = [
    ("ping-pong", 2),
    ("queued", 1),
    ("backs", 32),
    ("two-woken", 4),
    ("told", 2),
    ("lending-question", 2),
    ("lending", 2),
    ("send-many", 8),
    ("answer", 2),
];
/// Behind a case: one round of all messages, or other operations, whose number is a figure.
const ALL: &str = "-all";
const UNITS: [&str; 6] = [count::ENTRIES, count::POST_LOCKS, count::LOCKS, count::WITHIN, count::COPIES, count::SPINS];

/// A row for each way on each machine.
pub fn rows(table: &Table) -> Vec<Vec<String>> {
    let mut rows = vec![[table.head(), UNITS.map(String::from).to_vec()].concat()];
    let known = table
        .totals()
        .filter(|own| BENCHES.contains(&own.bench.as_str()))
        .filter_map(|own| MESSAGES.iter().find(|(case, _)| *case == own.case).map(|(_, messages)| (own, *messages)));
    let told = table.figures.iter().filter(|own| own.unit == count::MESSAGES && own.case.ends_with(ALL));
    for (own, messages) in known.chain(told.map(|own| (own, own.value))) {
        let same = |f: &&Figure| f.system == MUSUBI && (&f.case, &f.way, f.cpus) == (&own.case, &own.way, own.cpus);
        let each = |unit| {
            let found = table.figures.iter().filter(same).find(|f| f.unit == unit);
            // Of many to four places.
            let of_one = |value: u64| (10_000.0 * value as f64 / messages.max(1) as f64).round() / 10_000.0;
            found.map_or(NOTHING.into(), |figure| of_one(figure.value).to_string())
        };
        rows.push([table.words(own), UNITS.map(each).to_vec()].concat());
    }
    rows
}

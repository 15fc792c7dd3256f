//! What messages take that lend memory which nobody touches (docs/decisions/0009).

use super::Told;
use anyhow::{Result, ensure};
use measure::{count, unit};

/// Most instructions, locks and copies of such and of what is said to it: a question, which goes the short way, and a plain message, which does not.
const MOST: [(&str, u64, u64, u64); 2] = [("lending-question", 1_200, 4, 1), ("lending", 10_000, 48, 3)];

/// Lent are so many bytes: nothing grows with them.
const WAYS: [&str; 2] = ["pool", "4-mib"];

pub fn few_that_lend(told: &Told) -> Result<()> {
    for (way, (case, most, most_locks, most_copies)) in WAYS.into_iter().flat_map(|way| MOST.map(|row| (way, row))) {
        let units = [unit::INSTRUCTIONS, count::LOCKS, count::COPIES, count::WITHIN];
        let taken = units.map(|unit| told.value(case, way, 1, unit)).into_iter().collect::<Result<Vec<u64>>>()?;
        ensure!(
            taken[0] <= most && taken[1] <= most_locks && taken[2] <= most_copies && taken[3] == 0,
            "{case} by {way}: instructions, locks, copies, locks within another {taken:?}"
        );
    }
    Ok(())
}

//! What messages take by the long way where no scheduler sits and nothing is lent: a plain one whose sender goes on before it waits, and a question's answer by a call
//! of its own (docs/decisions/0009).

use super::Told;
use anyhow::{Result, ensure};
use measure::{count, unit};

/// Most instructions, locks and copies of such and of what comes back.
const MOST: [(&str, &str, u64, u64, u64); 2] = [("told", "pool", 7_000, 34, 2), ("answer", "woken", 6_500, 36, 2)];

pub fn few_that_go_on(told: &Told) -> Result<()> {
    for (case, way, most, most_locks, most_copies) in MOST {
        let units = [unit::INSTRUCTIONS, count::LOCKS, count::WITHIN, count::COPIES];
        let taken = units.map(|unit| told.value(case, way, 1, unit)).into_iter().collect::<Result<Vec<u64>>>()?;
        ensure!(
            taken[0] <= most && taken[1] <= most_locks && taken[2] == 0 && taken[3] <= most_copies,
            "{case} by {way}: instructions, locks, locks within another, copies {taken:?}"
        );
    }
    Ok(())
}

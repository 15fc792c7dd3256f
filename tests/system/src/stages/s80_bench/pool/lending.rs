//! What messages take that lend memory which nobody touches (docs/decisions/0009).

use super::Told;
use anyhow::{Result, ensure};
use measure::{count, unit};

/// Most instructions, locks and copies of such and of what is said to it: a question, which goes the short way, and a plain message, which does not.
const MOST: [(&str, u64, u64, u64); 2] = [("lending-question", 1_200, 4, 1), ("lending", 16_000, 80, 3)];

pub fn few_that_lend(told: &Told) -> Result<()> {
    for (case, most, most_locks, most_copies) in MOST {
        let taken = [unit::INSTRUCTIONS, count::LOCKS, count::COPIES].map(|unit| told.value(case, "pool", 1, unit));
        let [each, locks, copies] = taken;
        let (each, locks, copies) = (each?, locks?, copies?);
        ensure!(
            each <= most && locks <= most_locks && copies <= most_copies,
            "{case}: {each} instructions, {locks} locks, {copies} copies"
        );
    }
    Ok(())
}

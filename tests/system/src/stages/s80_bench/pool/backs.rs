//! What messages take that are answered at many posts in turn, all of whose permits have one place (docs/decisions/0009).

use super::Told;
use anyhow::{Result, ensure};
use measure::{count, unit};

/// Messages to and fro in a round, and how many instructions each may take more than `pool`'s, both of whose permits are at hand.
const BACKS: u64 = 16;
const MOST_OF_ANOTHER: u64 = 900;

/// Each message is as one of `pool` otherwise.
pub fn as_one_of_pool(told: &Told, cpus: u32) -> Result<()> {
    let units = [count::ENTRIES, count::LOCKS, count::POST_LOCKS, count::COPIES, count::SPINS, unit::INSTRUCTIONS];
    let [backs, pool] = ["backs", "ping-pong"].map(|case| {
        let taken = units.map(|unit| told.value(case, "pool", cpus, unit));
        taken.into_iter().collect::<Result<Vec<u64>>>()
    });
    let (backs, pool) = (backs?, pool?);
    let all: Vec<u64> = pool.iter().map(|of_one| of_one * BACKS).collect();
    ensure!(
        backs[..5] == all[..5] && backs[5] <= (pool[5] + MOST_OF_ANOTHER) * BACKS,
        "backs, {cpus} processors: entries, locks, locks of posts, copies, spins, instructions {backs:?}, of one {pool:?}"
    );
    Ok(())
}

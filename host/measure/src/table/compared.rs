//! The comparisons of the papers (K1-M2 to M4, CUBIX-M7, SSS-M2), from their figures and from ours.

use super::NOTHING;
use crate::figure::{Figure, MUSUBI};
use crate::found::BY_NUMBER;

/// A figure: whose, in which case and by which way. Of ours also on how many processors; 0: the most that there are.
type Which = (&'static str, &'static str, &'static str, u32);

/// What is compared: a name, and twice what is divided by what, for us and for the paper.
type Row = (&'static str, [Which; 2], [Which; 2]);

pub const WITHOUT: &str = "ping-pong-without-clock";
pub const WITH: &str = "ping-pong-with-clock";
/// The paper's table of its schedulers.
const CUBIX: &str = "cubix386-sched";
const SWITCHES: [Which; 2] = [(CUBIX, "switch", "itc-initial", 1), (CUBIX, "switch", "itc-improved", 1)];
/// Of the same function.
const TASKID: &str = "get_taskid";
const SSS: &str = "sss-core";
const ROWS: [Row; 7] = [
    (
        "SSS-M2: get_taskid by the full entry to by the light one",
        [(MUSUBI, TASKID, "full", 1), (MUSUBI, TASKID, "light", 1)],
        [(SSS, TASKID, "full", 1), (SSS, TASKID, "light", 1)],
    ),
    (
        "K1-M2: posts to rendezvous",
        [(MUSUBI, "ping-pong", "pool", 1), (MUSUBI, "ping-pong", "rendezvous", 1)],
        [("k1/sp", WITHOUT, "pool", 1), ("minix", WITHOUT, "rendezvous", 1)],
    ),
    (
        "K1-M2: posts to a rendezvous that found its task by number",
        [(MUSUBI, "ping-pong", "pool", 1), (MUSUBI, BY_NUMBER, "rendezvous", 1)],
        [("k1/sp", WITHOUT, "pool", 1), ("minix", WITHOUT, "rendezvous", 1)],
    ),
    (
        "K1-M3: with messages to the clock to without",
        [(MUSUBI, WITH, "pool", 1), (MUSUBI, WITHOUT, "pool", 1)],
        [("k1/sp", WITH, "pool", 1), ("k1/sp", WITHOUT, "pool", 1)],
    ),
    (
        "K1-M4: the most processors to one",
        [(MUSUBI, WITH, "pool", 0), (MUSUBI, WITH, "pool", 1)],
        [("k1/mp", WITH, "pool", 0), ("k1/sp", WITH, "pool", 1)],
    ),
    (
        "CUBIX-M7: a switch in the initial version to one in the improved, both by the kernel",
        [(MUSUBI, "switch", "itc-initial", 1), (MUSUBI, "switch", "itc-improved-by-kernel", 1)],
        SWITCHES,
    ),
    (
        "CUBIX-M7: the same to one that calls the scheduler by EPC",
        [(MUSUBI, "switch", "itc-initial", 1), (MUSUBI, "switch", "itc-improved", 1)],
        SWITCHES,
    ),
];

/// A row for each comparison of which we have our side; the first row is the head.
pub fn rows(figures: &[Figure]) -> Vec<Vec<String>> {
    let head = ["compared", "musubi", "paper"].map(String::from).to_vec();
    let known = ROWS.iter().filter_map(|(name, ours, papers)| {
        let shown = |ratio: f64| format!("{ratio:.2}");
        let paper = ratio(figures, papers).map_or(NOTHING.into(), shown);
        Some(vec![name.to_string(), shown(ratio(figures, ours)?), paper])
    });
    [head].into_iter().chain(known).collect()
}

fn ratio(figures: &[Figure], [over, under]: &[Which; 2]) -> Option<f64> {
    Some(find(figures, over)? / find(figures, under)?)
}

fn find(figures: &[Figure], &(system, case, way, cpus): &Which) -> Option<f64> {
    let same = |f: &&Figure| f.system == system && f.case == case && f.way == way && f.is_total();
    let found = figures.iter().filter(same).filter(|f| cpus == 0 || f.cpus == cpus).max_by_key(|f| f.cpus)?;
    (found.value > 0).then_some(found.value as f64)
}

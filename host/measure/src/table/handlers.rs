//! The longest stretch of each way into the kernel, the longest first.

use super::columns;
use crate::figure::{Figure, MUSUBI, count};
use std::fmt;

/// The benchmark.
pub const NAME: &str = "handlers";
/// Behind the unit of its figures.
const UNIT: &str = "-at-most";

/// The longest stretch of a short way, from the steps of a case's rounds that went the usual way, if they go into the kernel.
pub fn short(total: &Figure, steps: &[Figure]) -> Option<Figure> {
    let in_kernel = |step: &&Figure| step.case_and_step().1.is_some_and(|name| name.starts_with("kernel"));
    let step = steps.iter().filter(in_kernel).max_by_key(|step| step.max)?;
    let (unit, way) = (format!("{}{UNIT}", total.unit), format!("the short way {}", total.way));
    Some(Figure { unit, way, value: step.max, min: step.min, max: step.max, n: step.n, ..total.clone() })
}

pub fn show(figures: &[Figure], f: &mut fmt::Formatter) -> fmt::Result {
    let mut own: Vec<&Figure> = figures.iter().filter(|one| one.system == MUSUBI && one.unit.ends_with(UNIT)).collect();
    own.sort_by_key(|one| (std::cmp::Reverse(one.value), one.case.clone()));
    // Of a short way its whole round is held to it.
    let bar = |of: &Figure| {
        let mut bars = figures.iter().filter(|one| one.unit == count::BAR && one.case == of.case);
        bars.find(|one| of.way.ends_with(&one.way)).map_or_else(|| "-".into(), |one| one.value.to_string())
    };
    let mut rows = vec![["case", "longest", "bar", "times", "way"].map(String::from).to_vec()];
    rows.extend(
        own.iter()
            .map(|one| vec![one.case.clone(), one.value.to_string(), bar(one), one.n.to_string(), one.way.clone()]),
    );
    writeln!(
        f,
        "handlers: the longest that each way into the kernel takes with interrupts off at a stretch\n\
         In instructions, counted by QEMU (TCG, -icount): exact, and not time. `bar`: how long it may take. `way`: what bounds it.\n"
    )?;
    columns(f, &rows)
}

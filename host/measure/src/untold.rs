//! What it costs that programs are told what the kernel knows (`bench info`): the same on a kernel that writes nothing of it.

use crate::figure::{Figure, count};
use anyhow::{Context, Result, ensure};

/// Behind a way: on the kernel that tells nothing.
pub const UNTOLD: &str = "-untold";

/// Both, and after each total how much longer it takes where programs are told, in thousandths. What the kernel counts is not there where it tells
/// nothing.
///
/// # Errors
/// They are not of the same cases.
pub fn beside(told: Vec<Figure>, untold: Vec<Figure>) -> Result<Vec<Figure>> {
    let totals = |figures: &[Figure]| figures.iter().filter(|figure| figure.is_total()).count();
    ensure!(totals(&told) == totals(&untold), "{} and {} cases", totals(&told), totals(&untold));
    let mut all = Vec::new();
    for figure in told {
        let is_total = figure.is_total();
        all.push(figure.clone());
        if !is_total {
            continue;
        }
        let same = |f: &&Figure| f.is_total() && f.case == figure.case && f.way == figure.way && f.unit == figure.unit;
        let without = untold.iter().find(same).with_context(|| format!("{} is not there untold", figure.line()))?;
        all.push(Figure { way: format!("{}{UNTOLD}", figure.way), ..without.clone() });
        let more = figure.value.saturating_sub(without.value) * 1000;
        let value = more.div_ceil(without.value.max(1));
        all.push(Figure { unit: count::TELLING.into(), value, min: value, max: value, n: 1, ..figure });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{MUSUBI, Source, unit};

    fn figure(way: &str, value: u64) -> Figure {
        Figure {
            bench: "info".into(),
            case: "NullProc".into(),
            bytes: 0,
            system: MUSUBI.into(),
            way: way.into(),
            cpus: 1,
            unit: unit::INSTRUCTIONS.into(),
            value,
            min: value,
            max: value,
            n: 5,
            source: Source::Measured,
        }
    }

    #[test]
    fn both_and_the_difference() {
        let all = beside(vec![figure("a", 203), figure("b", 96)], vec![figure("a", 200), figure("b", 97)]).unwrap();
        let told: Vec<_> = all.iter().map(|f| (f.way.as_str(), f.unit.as_str(), f.value)).collect();
        let expected = [
            ("a", unit::INSTRUCTIONS, 203),
            ("a-untold", unit::INSTRUCTIONS, 200),
            ("a", count::TELLING, 15),
            ("b", unit::INSTRUCTIONS, 96),
            ("b-untold", unit::INSTRUCTIONS, 97),
            ("b", count::TELLING, 0),
        ];
        assert_eq!(told, expected);
        assert!(beside(vec![figure("a", 1)], vec![figure("b", 1)]).is_err());
        assert!(beside(vec![figure("a", 1)], vec![]).is_err());
    }
}

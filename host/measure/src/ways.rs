//! The kernel's ways in and out, told apart from what it does between (`bench entry`).

use crate::figure::Figure;
use anyhow::{Context, Result};
use elf::ElfBytes;
use std::ops::Range;

/// Where they lie, from the kernel's file: `entry.S` to `light.S`.
///
/// # Errors
/// It does not say so.
pub fn find(file: &[u8]) -> Result<Range<u64>> {
    let elf = ElfBytes::<elf::endian::LittleEndian>::minimal_parse(file).context("the kernel is not an ELF file")?;
    let (symbols, names) = elf.symbol_table()?.context("the kernel has no symbols")?;
    let at = |wanted: &str| {
        let mut found = symbols.iter().filter(|symbol| names.get(symbol.st_name as usize).is_ok_and(|n| n == wanted));
        found.next().map(|symbol| symbol.st_value).with_context(|| format!("the kernel has no symbol {wanted}"))
    };
    Ok(at("ways_begin")?..at("ways_end")?)
}

/// The benchmark whose steps they are.
pub const BENCH: &str = "entry";

/// Of a round that goes into the kernel once: its way in and its way out, as cases of their own.
pub fn figures(total: &Figure, steps: &[Figure]) -> Vec<Figure> {
    let of = |step: &str| steps.iter().find(|figure| figure.case_and_step().1 == Some(step));
    let case = |case: &str, found: &Figure| Figure { case: case.into(), way: total.way.clone(), ..found.clone() };
    match (of("way there"), of("way back")) {
        (Some(there), Some(back)) => vec![case("enter", there), case("leave", back)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{MUSUBI, Source, unit};

    #[test]
    fn one_way_in_and_one_out() {
        let figure = |case: &str, value| Figure {
            bench: BENCH.into(),
            case: case.into(),
            bytes: 0,
            system: MUSUBI.into(),
            way: "light".into(),
            cpus: 1,
            unit: unit::INSTRUCTIONS.into(),
            value,
            min: value,
            max: value,
            n: 5,
            source: Source::Measured,
        };
        let steps =
            ["x/caller there", "x/way there", "x/kernel", "x/way back"].map(|case| figure(case, case.len() as u64));
        let told: Vec<_> = figures(&figure("x", 60), &steps).into_iter().map(|f| (f.case, f.value)).collect();
        assert_eq!(told, [("enter".to_string(), 11), ("leave".to_string(), 10)]);
        assert!(figures(&figure("x", 60), &steps[..3]).is_empty(), "who does not come back");
    }
}

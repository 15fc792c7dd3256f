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

/// By a personality; and by something that the program has waited for, however long that took.
const FOREIGN: &str = "foreign";
const INTERRUPT: &str = "interrupt";

/// Which is first asked whether it is like the one before, for the short way to a pager: the way in goes on behind that.
const FAULT: &str = "fault";

/// Whether a step is part of what is measured. (By an interrupt the program's own are not, in whatever class it runs.)
pub fn is_part(step: &Figure) -> bool {
    let is_waited = step.way.strip_prefix(INTERRUPT).is_some_and(|class| class.is_empty() || class.starts_with('-'));
    !is_waited || !step.case_and_step().1.is_some_and(|name| name.starts_with("caller"))
}

/// The ways in and out of a round that goes into the kernel once, as cases of their own; or that is served by a personality, to which the kernel goes
/// on and from which it comes back at the end, whatever that has asked the kernel meanwhile.
pub fn figures(total: &Figure, steps: &[Figure]) -> Vec<Figure> {
    let is_way = |figure: &&Figure| figure.case_and_step().1.is_some_and(|step| step.starts_with("way"));
    let ways: Vec<&Figure> = steps.iter().filter(is_way).collect();
    let case = |case: &str, found: &Figure| Figure { case: case.into(), way: total.way.clone(), ..found.clone() };
    match (&ways[..], total.way.as_str()) {
        ([enter, leave], _) | ([enter, _, leave], FAULT) => vec![case("enter", enter), case("leave", leave)],
        ([enter, to, .., from, leave], FOREIGN) => vec![
            case("enter", enter),
            case("leave-to-personality", to),
            case("enter-from-personality", from),
            case("leave", leave),
        ],
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
        let asked =
            ["x/way 1", "x/kernel 1", "x/way 2", "x/kernel 2", "x/way 3"].map(|case| figure(case, case.len() as u64));
        assert!(figures(&figure("x", 60), &asked).is_empty(), "there is one way in");
        assert_eq!(figures(&Figure { way: FAULT.into(), ..figure("x", 60) }, &asked).len(), 2);
        let foreign = Figure { way: FOREIGN.into(), ..figure("x", 60) };
        let twice =
            ["x/way 1", "x/way 2", "x/callee", "x/way 3", "x/way 4", "x/way 5", "x/way 6"].map(|case| figure(case, 5));
        let told: Vec<String> = figures(&foreign, &twice).into_iter().map(|f| f.case).collect();
        assert_eq!(told, ["enter", "leave-to-personality", "enter-from-personality", "leave"]);
        assert!(figures(&figure("x", 60), &twice).is_empty(), "two entries of the program's own");
        let waited = Figure { way: INTERRUPT.into(), ..figure("x/caller there", 9) };
        assert!(!is_part(&waited) && is_part(&figure("x/caller there", 9)));
        assert!(!is_part(&Figure { way: "interrupt-psys".into(), ..waited }), "in supervisor mode, too");
    }
}

//! What the paper's table of its schedulers tells (CUBIX-M7), from what was seen of a round: one switch between threads,
//! and the ways to the fast scheduler and from it.

use crate::figure::Figure;
use anyhow::{Result, anyhow};

/// A round: a thread passes on to another and gets it back.
const ROUND: &str = "switch-and-back";
/// How the text of the threads is called among the steps.
const THREADS: &str = "caller";

/// Figures of the parts of each round that was told. `seen`: rounds were seen from outside, so that steps are known.
///
/// # Errors
/// The steps of a round are not those of a switch by a scheduler outside the kernel: then its parts are not known, and the table
/// would lack rows without saying so.
pub fn parts(figures: &[Figure], seen: bool) -> Result<Vec<Figure>> {
    let rounds = figures.iter().filter(|figure| figure.is_total() && figure.case == ROUND);
    let parts: Result<Vec<Vec<Figure>>> = rounds.map(|round| parts_of(round, figures, seen)).collect();
    Ok(parts?.concat())
}

fn parts_of(round: &Figure, figures: &[Figure], seen: bool) -> Result<Vec<Figure>> {
    let half = Figure {
        case: "switch".into(),
        value: round.value / 2,
        min: round.min / 2,
        max: round.max / 2,
        ..round.clone()
    };
    // The kernel's round robin has no such parts.
    if !seen || !round.way.starts_with("itc") {
        return Ok(vec![half]);
    }
    let steps = figures.iter().filter(|figure| figure.way == round.way && figure.unit == round.unit);
    let steps: Vec<(&str, &Figure)> = steps
        .filter_map(|figure| match figure.case_and_step() {
            (ROUND, Some(step)) => Some((step.split(' ').next().unwrap_or(step), figure)),
            _ => None,
        })
        .collect();
    let told: Vec<&str> = steps.iter().map(|(step, _)| *step).collect();
    let odd = || anyhow!("{}: the steps of a round are not those of two switches: {}", round.way, told.join(", "));
    let is_text = |step: &str| !matches!(step, "kernel" | "gate");
    let texts: Vec<usize> = (0..steps.len()).filter(|at| is_text(told[*at])).collect();
    // What lies between one text and the next, of the first switch: until the threads' text comes again.
    let again = texts.iter().skip(1).position(|at| told[*at] == THREADS).ok_or_else(odd)? + 1;
    let stretches: Vec<&[(&str, &Figure)]> =
        texts[..=again].windows(2).map(|pair| &steps[pair[0] + 1..pair[1]]).collect();
    let sum = |case: &str, steps: &[(&str, &Figure)]| {
        let sum = |what: fn(&Figure) -> u64| steps.iter().map(|(_, figure)| what(figure)).sum();
        Figure { case: case.into(), value: sum(|f| f.value), min: sum(|f| f.min), max: sum(|f| f.max), ..round.clone() }
    };
    let Some((to, others)) = stretches.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(odd());
    };
    // The last that led through the kernel: before it the scheduler may have been told to look once more, and after it the thread
    // may come back from the scheduler by the gate.
    let from = others.iter().rfind(|stretch| stretch.iter().any(|(step, _)| *step == "kernel")).ok_or_else(odd)?;
    Ok(vec![half, sum("call_scheduler", to), sum("thread_next", from)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::{MUSUBI, Source, unit};

    fn figure(case: &str, value: u64) -> Figure {
        Figure {
            bench: "sched".into(),
            case: case.into(),
            bytes: 0,
            system: MUSUBI.into(),
            way: "itc-improved".into(),
            cpus: 1,
            unit: unit::INSTRUCTIONS.into(),
            value,
            min: value,
            max: value,
            n: 10,
            source: Source::Measured,
        }
    }

    fn round(steps: &[&str]) -> Vec<Figure> {
        let mut figures = vec![figure(ROUND, 1001)];
        figures.extend((1..).zip(steps).map(|(n, step)| figure(&format!("{ROUND}/{step}"), n)));
        figures
    }

    #[test]
    fn parts_are_what_lies_between_texts() {
        let found = |steps: &[&str]| -> Vec<(String, u64)> {
            parts(&round(steps), true).unwrap().into_iter().map(|f| (f.case, f.value)).collect()
        };
        let expected = |to, from| {
            [("switch", 500), ("call_scheduler", to), ("thread_next", from)]
                .map(|(case, n)| (case.to_string(), n))
                .to_vec()
        };
        let improved =
            ["caller 1", "kernel 1", "scheduler 1", "gate", "kernel 2", "caller 2", "kernel 3", "scheduler 2"];
        assert_eq!(found(&improved), expected(2, 4 + 5));
        let direct = ["caller 1", "gate 1", "scheduler 1", "kernel 1", "scheduler 2", "gate 2", "caller 2", "gate 3"];
        assert_eq!(found(&direct), expected(2, 4));
        // Asked twice, because something came in between; and by way of the high level.
        let twice = ["caller 1", "kernel 1", "scheduler 1", "kernel 2", "scheduler 2", "kernel 3", "caller 2"];
        assert_eq!(found(&twice), expected(2, 6));
        let initial = [
            "caller 1",
            "kernel",
            "scheduler 1",
            "kernel",
            "high-level",
            "kernel",
            "scheduler 2",
            "kernel",
            "caller 2",
        ];
        assert_eq!(found(&initial), expected(2, 8));
    }

    #[test]
    fn without_steps_only_the_switch_is_known() {
        assert_eq!(parts(&round(&[]), false).unwrap().len(), 1);
        assert!(parts(&[figure("NullProc", 5)], true).unwrap().is_empty());
        let in_turn: Vec<Figure> = round(&["caller 1", "kernel", "caller 2"])
            .into_iter()
            .map(|f| Figure { way: "in-turn".into(), ..f })
            .collect();
        assert_eq!(parts(&in_turn, true).unwrap().len(), 1);
    }

    #[test]
    fn odd_steps_are_an_error() {
        for odd in [
            &[][..],
            &["caller 1"],
            &["caller 1", "kernel", "caller 2"],
            &["caller 1", "gate", "scheduler", "gate", "caller 2"],
        ] {
            assert!(parts(&round(odd), true).is_err(), "{odd:?}");
        }
    }
}

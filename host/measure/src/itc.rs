//! What the paper's table of its schedulers tells (CUBIX-M7), from what was seen of a round: one switch between threads,
//! and the ways to the fast scheduler and from it.

use crate::figure::Figure;

/// A round: a thread passes on to another and gets it back.
const ROUND: &str = "switch-and-back";
/// How the text of the threads is called among the steps.
const THREADS: &str = "caller";

/// Figures of the parts of each round that was told.
pub fn parts(figures: &[Figure]) -> Vec<Figure> {
    let rounds = figures.iter().filter(|figure| figure.is_total() && figure.case == ROUND);
    rounds.flat_map(|round| parts_of(round, figures)).collect()
}

fn parts_of(round: &Figure, figures: &[Figure]) -> Vec<Figure> {
    let steps = figures.iter().filter(|figure| figure.way == round.way && figure.unit == round.unit);
    let steps: Vec<(&str, &Figure)> = steps
        .filter_map(|figure| match figure.case_and_step() {
            (ROUND, Some(step)) => Some((step.split(' ').next().unwrap_or(step), figure)),
            _ => None,
        })
        .collect();
    let is_text = |step: &&str| !matches!(*step, "kernel" | "gate");
    let texts: Vec<usize> = (0..steps.len()).filter(|at| is_text(&steps[*at].0)).collect();
    // What lies between one text and the next.
    let between = |wanted: fn(&str, &str) -> bool| {
        let pair = texts.windows(2).find(|pair| wanted(steps[pair[0]].0, steps[pair[1]].0))?;
        Some(&steps[pair[0] + 1..pair[1]])
    };
    let sum = |case: &str, steps: &[(&str, &Figure)]| {
        let sum = |what: fn(&Figure) -> u64| steps.iter().map(|(_, figure)| what(figure)).sum();
        Figure { case: case.into(), value: sum(|f| f.value), min: sum(|f| f.min), max: sum(|f| f.max), ..round.clone() }
    };
    let half = Figure {
        case: "switch".into(),
        value: round.value / 2,
        min: round.min / 2,
        max: round.max / 2,
        ..round.clone()
    };
    let to = between(|from, to| from == THREADS && to != THREADS).map(|steps| sum("call_scheduler", steps));
    // Where threads call the scheduler themselves, the next one is in the same text.
    let from =
        between(|from, to| from != THREADS && (to == THREADS || to == from)).map(|steps| sum("thread_next", steps));
    [Some(half), to, from].into_iter().flatten().collect()
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

    #[test]
    fn parts_are_what_lies_between_texts() {
        let steps =
            ["caller 1", "kernel 1", "callee 1", "gate", "kernel 2", "caller 2", "kernel 3", "callee 2", "kernel 4"];
        let mut figures = vec![figure(ROUND, 1001)];
        figures.extend((1..).zip(steps).map(|(n, step)| figure(&format!("{ROUND}/{step}"), n)));
        let found: Vec<(String, u64)> = parts(&figures).into_iter().map(|f| (f.case, f.value)).collect();
        let expected = [("switch", 500), ("call_scheduler", 2), ("thread_next", 4 + 5)];
        assert_eq!(found, expected.map(|(case, value)| (case.to_string(), value)));
        let direct = ["caller 1", "gate 1", "callee 1", "kernel 1", "callee 2", "gate 2", "caller 2"];
        let mut figures = vec![figure(ROUND, 10)];
        figures.extend((1..).zip(direct).map(|(n, step)| figure(&format!("{ROUND}/{step}"), n)));
        let found: Vec<u64> = parts(&figures).into_iter().map(|f| f.value).collect();
        assert_eq!(found, [5, 2, 4]);
        assert_eq!(parts(&figures[..1]).len(), 1, "without steps only the switch is known");
        assert!(parts(&[figure("NullProc", 5)]).is_empty());
    }
}

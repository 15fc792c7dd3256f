//! Names for the steps of a round that was seen from outside: who had control, one after the other.

use abi::gate::GATE_BASE;
use tally::{KERNEL, REGION_BITS, WAYS};

/// Names of the texts that control came to, in the order in which it came to them first: in a call, and where threads
/// are switched.
const CALL: &[&str] = &["caller", "callee", "third"];
const SWITCH: &[&str] = &["caller", "scheduler", "callee"];
/// The same where the scheduler asks its high level.
const INITIAL: &[&str] = &["caller", "scheduler", "high-level", "callee"];

/// The names of steps, each with its length. What control comes to again is told apart by "there" and "back", or by
/// numbers if it is more than twice. `way` is how the round went.
pub fn named(steps: &[(u64, u64)], way: &str) -> Vec<(String, u64)> {
    let names_of_texts = match way {
        "itc-initial" => INITIAL,
        way if way.starts_with("itc") => SWITCH,
        _ => CALL,
    };
    let mut texts: Vec<u64> = Vec::new();
    let names: Vec<&str> = steps
        .iter()
        .map(|&(region, _)| match region {
            KERNEL => "kernel",
            WAYS => "way",
            region if region == GATE_BASE >> REGION_BITS => "gate",
            region => {
                let at = texts.iter().position(|text| *text == region).unwrap_or_else(|| {
                    texts.push(region);
                    texts.len() - 1
                });
                names_of_texts.get(at).copied().unwrap_or("further")
            }
        })
        .collect();
    let times = |names: &[&str], wanted: &str| names.iter().filter(|name| **name == wanted).count();
    let name = |at: usize| match (times(&names, names[at]), times(&names[..at], names[at])) {
        (1, _) => names[at].to_string(),
        (2, 0) => format!("{} there", names[at]),
        (2, _) => format!("{} back", names[at]),
        (_, before) => format!("{} {}", names[at], before + 1),
    };
    steps.iter().enumerate().map(|(at, &(_, n))| (name(at), n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(steps: &[u64]) -> Vec<String> {
        let steps: Vec<(u64, u64)> = steps.iter().map(|region| (*region, 1)).collect();
        named(&steps, "epc-h").into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn who_is_come_to_twice_is_gone_there_and_back() {
        let gate = GATE_BASE >> REGION_BITS;
        assert_eq!(
            names(&[5, gate, KERNEL, 9, gate, KERNEL, gate, 5]),
            ["caller there", "gate 1", "kernel there", "callee", "gate 2", "kernel back", "gate 3", "caller back"]
        );
        assert_eq!(names(&[5, KERNEL, 5]), ["caller there", "kernel", "caller back"]);
        assert_eq!(names(&[5, 7, 9]), ["caller", "callee", "third"]);
        assert_eq!(named(&[(5, 30)], "epc-h"), [("caller".to_string(), 30)]);
    }

    #[test]
    fn between_threads_there_is_a_scheduler() {
        let steps: Vec<(u64, u64)> = [5, KERNEL, 6, KERNEL, 7].map(|region| (region, 1)).into();
        let names: Vec<String> = named(&steps, "itc-improved").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["caller", "kernel there", "scheduler", "kernel back", "callee"]);
        let initial = named(&[(5, 1), (6, 1), (7, 1), (8, 1)], "itc-initial");
        let names: Vec<String> = initial.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["caller", "scheduler", "high-level", "callee"]);
    }

    #[test]
    fn who_is_come_to_more_often_is_numbered() {
        assert_eq!(
            names(&[KERNEL, 5, KERNEL, 5, KERNEL]),
            ["kernel 1", "caller there", "kernel 2", "caller back", "kernel 3"]
        );
    }
}

//! What the guest program `check` says: `ok NAME`, `FAILED NAME: why` or `skipped NAME: why`, a line for each check.

use crate::lab::Failure;
use machine::{Finished, Outcome};

/// A check's name and how it went.
pub type Found = (&'static str, Result<(), Failure>);

/// A result for every name that was asked for, and one for the machine as a whole.
pub fn judge(group: &'static str, line: &str, names: &[&'static str], finished: &Finished) -> Vec<Found> {
    let out = String::from_utf8_lossy(&finished.out);
    let err = String::from_utf8_lossy(&finished.err);
    let mut found: Vec<Found> = names.iter().map(|name| (*name, of(&out, &err, name))).collect();
    let bad = found.iter().any(|(_, result)| result.as_ref().is_err_and(Failure::is_failed));
    let strangers: Vec<&str> = out.lines().filter(|line| !names.iter().any(|name| is_about(line, name))).collect();
    let status = finished.outcome.status();
    let mut complaints = Vec::new();
    if status != u8::from(bad) {
        complaints.push(format!("status {status}: {:?}", finished.outcome));
    }
    if !strangers.is_empty() {
        complaints.push(format!("lines that are nobody's:\n{}", strangers.join("\n")));
    }
    let whole = if complaints.is_empty() {
        Ok(())
    } else {
        // The kernel may have come to its end by what was tried.
        let failure = if matches!(finished.outcome, Outcome::Panicked | Outcome::Died(_)) {
            Failure::Told
        } else {
            Failure::Failed
        };
        Err(failure(format!(
            "command: {line}\n{}\nstandard error:\n{}\nconsole:\n{}",
            complaints.join("\n"),
            err,
            finished.tail(60),
        )))
    };
    found.push((group, whole));
    found
}

/// The results of the names that were asked for, and one that says whether any is missing.
pub fn complete(group: &'static str, names: &[&'static str], mut found: Vec<Found>) -> Vec<Found> {
    found.retain(|(name, _)| names.contains(name));
    let missing: Vec<&str> = names.iter().copied().filter(|name| !found.iter().any(|(had, _)| had == name)).collect();
    let whole =
        if missing.is_empty() { Ok(()) } else { Err(Failure::Failed(format!("no result for {}", missing.join(", ")))) };
    found.push((group, whole));
    found
}

fn is_about(line: &str, name: &str) -> bool {
    line.strip_prefix("ok ") == Some(name) || ["FAILED ", "skipped "].iter().any(|word| why(line, word, name).is_some())
}

fn why<'a>(line: &'a str, word: &str, name: &str) -> Option<&'a str> {
    line.strip_prefix(word)?.strip_prefix(name)?.strip_prefix(": ")
}

/// A check has passed if it says so, once, and does not say anything else. Why it failed is on the error stream. One that has found that this
/// machine has nothing that it could try has not passed.
fn of(out: &str, err: &str, name: &str) -> Result<(), Failure> {
    let said = || err.lines().take(20).map(|line| format!("\n{line}")).collect::<String>();
    let about: Vec<&str> = out.lines().filter(|line| is_about(line, name)).collect();
    match about.as_slice() {
        [] => Err(Failure::Failed("the machine ended before it, or it said nothing".into())),
        [line] => match (why(line, "FAILED ", name), why(line, "skipped ", name)) {
            (Some(why), _) => Err(Failure::Told(format!("{why}{}", said()))),
            (_, Some(why)) => Err(Failure::Skipped(why.into())),
            _ => Ok(()),
        },
        several => Err(Failure::Failed(several.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn judged(out: &str, status: u8) -> Vec<bool> {
        let finished = Finished {
            outcome: Outcome::Exited(status),
            out: out.into(),
            err: Vec::new(),
            console: String::new(),
            took: Duration::ZERO,
        };
        judge("group", "check group", &["a", "ab"], &finished).into_iter().map(|(_, result)| result.is_ok()).collect()
    }

    #[test]
    fn every_name_has_a_result_and_the_machine_has_one() {
        assert_eq!(judged("ok a\nok ab\n", 0), [true, true, true]);
        assert_eq!(judged("ok a\nFAILED ab: x\n", 1), [true, false, true]);
    }

    #[test]
    fn what_is_not_said_has_failed() {
        assert_eq!(judged("ok a\n", 1), [true, false, true]);
        assert_eq!(judged("ok a\n", 0), [true, false, false]);
        assert_eq!(judged("ok a\nok ab\n", 125), [true, true, false]);
    }

    #[test]
    fn what_was_not_tried_has_not_passed() {
        assert_eq!(judged("skipped a: no keys\nok ab\n", 0), [false, true, true]);
        assert_eq!(judged("skipped a: no keys\nok ab\n", 1), [false, true, false]);
        assert!(matches!(of("skipped a: no keys\n", "", "a"), Err(Failure::Skipped(why)) if why == "no keys"));
    }

    #[test]
    fn nothing_else_is_said() {
        assert_eq!(judged("ok a\nok ab\nok abc\n", 0), [true, true, false]);
        assert_eq!(judged("ok a\nFAILED a: after all\nok ab\n", 1), [false, true, true]);
    }
}

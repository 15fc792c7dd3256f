//! `./musubi test`: every stage in turn, cheapest first, and one verdict.

mod programs;

use crate::requirements;
use anyhow::{Context, Result, ensure};
use build::{Package, Role, Workspace};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;
use verdict::{Mark, Results};

const STAGES: [&str; 3] = ["house", "host", "system"];
/// What runs only when it is named, and what that stands for: `peers` fetches a kernel, `naive` builds one for each rule.
const BY_NAME: [(&str, &str); 2] = [("peers", "system::peers::linux"), ("naive", "system::naive")];
/// So much of why tests failed is said once more at the end: of each so many lines, none longer than that, so that one's log does not hide another's.
const REPORT_LINES: usize = 100;
const LINES_OF_EACH: usize = 20;
const LONGEST_LINE: usize = 240;
const SYSTEM_PACKAGE: &str = "musubi-system-tests";

/// The word for the long ones, too.
const ALL: &str = "all";

/// Runs the stages named, or all; returns the status of the front tool. Of the system tests some can be chosen by the
/// beginning of their names. `pku`: whether machines have protection keys; without them a test that has variants runs in
/// those without keys, and what is about keys is skipped.
pub fn run(workspace: &Workspace, wanted: &[String], pku: bool) -> Result<u8> {
    for word in wanted {
        ensure!(
            STAGES.contains(&stage_of(word)) || word == "bare" || word == ALL || stands_for(word).is_some(),
            "there is no stage {word}; there are {}, all, peers, naive, and of system parts like system::s10_boot",
            STAGES.join(", ")
        );
    }
    if wanted.iter().any(|word| word == "bare") {
        ensure!(pku, "bare takes no --no-pku: it is the whole of ./musubi test, which has both");
        return bare(workspace);
    }
    let wanted: Vec<String> = wanted.iter().map(|word| stands_for(word).unwrap_or(word).into()).collect();
    let wanted = wanted.as_slice();
    let long = wanted.iter().any(|word| word == ALL);
    ensure!(!long || wanted.len() == 1, "all is all: nothing is named beside it");
    let full = wanted.is_empty() || long;
    let packages = workspace.packages()?;
    let (mut results, mut reports) = (Results::default(), Vec::new());
    for stage in STAGES {
        if !full && !wanted.iter().any(|word| stage_of(word) == stage) {
            continue;
        }
        println!("{stage}");
        let (start, passed, failed) = (Instant::now(), results.count(Mark::Ok), results.count(Mark::Failed));
        let outcome = match stage {
            "house" => house(workspace, &packages, &mut results),
            "host" => programs::run(workspace, &packages, Role::Host, &mut results),
            _ => system(workspace, wanted, pku, &mut results, &mut reports),
        };
        if let Err(error) = outcome {
            println!("{error:#}");
            results.add(&format!("{stage}::(the stage itself)"), Mark::Failed);
        }
        let (passed, failed) = (results.count(Mark::Ok) - passed, results.count(Mark::Failed) - failed);
        println!("{stage}: {passed} passed, {failed} failed, {:.0} s", start.elapsed().as_secs_f64());
    }
    let file = workspace.results()?.join(if pku { "results.txt" } else { "results-no-pku.txt" });
    results.write(&file)?;
    if full && pku {
        // The one rule of the house that needs the results of all the others, also of those about keys.
        let problems = requirements::check(workspace, &file)?;
        problems.iter().for_each(|problem| println!("ledger: {problem}"));
        let mark = if problems.is_empty() { Mark::Ok } else { Mark::Failed };
        results.add("house::named_tests_ran", mark);
        results.write(&file)?;
    }
    // Once more: thousands of lines may lie between, and who keeps the end of the output wants to know why.
    reports.iter().for_each(|line| println!("{line}"));
    for name in results.failed() {
        println!("failed: {name}");
    }
    let left = results.count(Mark::Long);
    if left > 0 {
        println!("{left} that take long have not run: ./musubi test all");
    }
    println!("{}", results.summary());
    Ok(u8::from(!results.good()))
}

fn stands_for(word: &str) -> Option<&'static str> {
    BY_NAME.iter().find(|(name, _)| *name == word).map(|(_, stage)| *stage)
}

/// The stage that a word of the command line belongs to.
fn stage_of(word: &str) -> &str {
    if word.starts_with("system::") { "system" } else { word }
}

/// The format, if there is a formatter, and the architecture as a test.
fn house(workspace: &Workspace, packages: &[Package], results: &mut Results) -> Result<()> {
    let there = Command::new("rustfmt").arg("--version").output().is_ok_and(|output| output.status.success());
    let format = if there {
        let output = workspace.cargo().args(["fmt", "--all", "--", "--check", "-l"]).output().context("cargo fmt")?;
        for file in String::from_utf8_lossy(&output.stdout).lines() {
            println!("not formatted: {file}");
        }
        if output.status.success() { Mark::Ok } else { Mark::Failed }
    } else {
        Mark::Skipped
    };
    results.add("house::format", format);
    programs::run(workspace, packages, Role::House, results)
}

/// The whole of `./musubi test` on a bare Debian, which takes long and needs root: only when asked for.
fn bare(workspace: &Workspace) -> Result<u8> {
    let script = workspace.top().join("tests/bare-machine.sh");
    let ended = Command::new("/bin/sh").arg(script).status().context("/bin/sh does not start")?;
    Ok(u8::from(!ended.success()))
}

/// The tests that boot. What they say about failures goes into `reports`, too.
fn system(
    workspace: &Workspace,
    wanted: &[String],
    pku: bool,
    results: &mut Results,
    reports: &mut Vec<String>,
) -> Result<()> {
    workspace.build()?;
    let program = workspace.host_program(SYSTEM_PACKAGE)?;
    let mut command = Command::new(program);
    command.args((!pku).then_some("--no-pku")).args(wanted.iter().any(|word| word == ALL).then_some("--all"));
    if !wanted.iter().any(|word| word == "system") {
        command.args(wanted.iter().filter(|word| stage_of(word) == "system"));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("the system tests do not start")?;
    let out = child.stdout.take().context("it has a standard output")?;
    let before = results.count(Mark::Failed);
    let (mut left, mut unsteady) = (0, Vec::new());
    for line in BufReader::new(out).lines() {
        let line = line?;
        println!("{line}");
        if let Some((name, mark)) = system_line(&line) {
            match mark {
                Some(mark) => results.add(name, mark),
                None => unsteady.push(format!("unsteady: {name}")),
            }
            left = if mark == Some(Mark::Failed) { LINES_OF_EACH } else { 0 };
        }
        if left > 0 && reports.len() < REPORT_LINES {
            reports.push(line.chars().take(LONGEST_LINE).collect());
            left -= 1;
        }
    }
    reports.extend(unsteady);
    let ended = child.wait()?;
    ensure!(ended.success() || results.count(Mark::Failed) > before, "the system tests ended early: {ended}");
    Ok(())
}

/// `system::STAGE::NAME[VARIANT] ok (1.3 s)`; no mark for one that is `unsteady`: it will have another line.
fn system_line(line: &str) -> Option<(&str, Option<Mark>)> {
    let (name, rest) = line.strip_prefix("system::").and_then(|_| line.split_once(' '))?;
    match rest.split(' ').next()? {
        "unsteady" => Some((name, None)),
        word => Some((name, Some(Mark::parse(word)?))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_system_tests_are_read() {
        let line = "system::s10_boot::echo[cpus=2,pku] ok (1.3 s)";
        assert_eq!(system_line(line), Some(("system::s10_boot::echo[cpus=2,pku]", Some(Mark::Ok))));
        assert_eq!(
            system_line("system::s10_boot::echo FAILED (1.3 s)"),
            Some(("system::s10_boot::echo", Some(Mark::Failed)))
        );
        assert_eq!(system_line("system::s10_boot::echo unsteady (1.3 s)"), Some(("system::s10_boot::echo", None)));
        assert_eq!(system_line("    system::s10_boot::echo ok"), None);
    }
}

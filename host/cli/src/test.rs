//! `./musubi test`: every stage in turn, cheapest first, and one verdict.

use crate::requirements;
use anyhow::{Context, Result, ensure};
use build::{Package, Role, Workspace};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;
use verdict::{Heading, Mark, Reader, Results};

const STAGES: [&str; 3] = ["house", "host", "system"];
/// What `peers` stands for: it runs only when it is named, since it fetches a kernel.
const PEERS: &str = "system::peers::linux";
/// So much of why tests failed is said once more at the end.
const REPORT_LINES: usize = 100;
const SYSTEM_PACKAGE: &str = "musubi-system-tests";

/// Runs the stages named, or all; returns the status of the front tool. Of the system tests some can be chosen by the
/// beginning of their names. `pku`: whether machines have protection keys; without them a test that has variants runs in
/// those without keys, and what is about keys is skipped.
pub fn run(workspace: &Workspace, wanted: &[String], pku: bool) -> Result<u8> {
    for word in wanted {
        ensure!(
            STAGES.contains(&stage_of(word)) || word == "bare" || word == "peers",
            "there is no stage {word}; there are {}, peers, and of system parts like system::s10_boot",
            STAGES.join(", ")
        );
    }
    if wanted.iter().any(|word| word == "bare") {
        ensure!(pku, "bare takes no --no-pku: it is the whole of ./musubi test, which has both");
        return bare(workspace);
    }
    let wanted: Vec<String> =
        wanted.iter().map(|word| if word == "peers" { PEERS.into() } else { word.clone() }).collect();
    let wanted = wanted.as_slice();
    let full = wanted.is_empty();
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
            "host" => libtests(workspace, &packages, Role::Host, &mut results),
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
    println!("{}", results.summary());
    Ok(u8::from(!results.good()))
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
    libtests(workspace, packages, Role::House, results)
}

/// The tests of all packages of one role, by `cargo test`.
fn libtests(workspace: &Workspace, packages: &[Package], role: Role, results: &mut Results) -> Result<()> {
    let chosen: Vec<&Package> = packages
        .iter()
        .filter(|package| if role == Role::Host { package.is_tested_on_host() } else { package.role() == role })
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let cargo = |args: &[&str]| {
        let mut command = workspace.cargo();
        command.arg("test").args(args).env("CARGO_TERM_COLOR", "never").stdin(Stdio::null());
        for package in &chosen {
            command.args(["-p", &package.name]);
        }
        command
    };
    let names = names(workspace, cargo(&["--no-run", "--message-format=json-render-diagnostics"]), &chosen, role)?;
    let prefix = |heading: Heading| match heading {
        Heading::Program(path) => names.get(path).cloned(),
        Heading::Doc(library) => names.get(library).map(|name| format!("{name}::doc")),
    };
    let prefix = |heading: Heading| prefix(heading).unwrap_or_else(|| format!("{}::{heading:?}", word(role)));

    // One pipe for both streams, so that headings and results come in their order.
    let (from, to) = std::io::pipe()?;
    let mut command = cargo(&["--no-fail-fast"]);
    let mut child = command.stdout(to.try_clone()?).stderr(to).spawn().context("cargo does not start")?;
    // It holds the pipe's other end: without this the reading below would never end.
    drop(command);
    let failed = results.count(Mark::Failed);
    let mut reader = Reader::new(results, &prefix);
    for line in BufReader::new(from).split(b'\n') {
        if let Some(shown) = reader.line(&String::from_utf8_lossy(&line?)) {
            println!("{shown}");
        }
    }
    if let Some(shown) = reader.end() {
        println!("{shown}");
    }
    let ended = child.wait()?;
    let silent = !ended.success() && results.count(Mark::Failed) == failed;
    ensure!(!silent, "cargo test failed though no test did: {ended}");
    Ok(())
}

fn word(role: Role) -> &'static str {
    if role == Role::House { "house" } else { "host" }
}

/// Builds the tests. The result says how the names of tests begin, by the path of a test program as cargo prints it
/// and by the name of a library.
fn names(
    workspace: &Workspace,
    mut build: Command,
    chosen: &[&Package],
    role: Role,
) -> Result<HashMap<String, String>> {
    let output = build.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    ensure!(output.status.success(), "the tests do not build");
    let top = workspace.top().canonicalize()?;
    let mut names = HashMap::new();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let (Some(manifest), Some(target)) = (message["manifest_path"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        let package = chosen.iter().find(|package| top.join(&package.dir).join("Cargo.toml").as_os_str() == manifest);
        let Some(package) = package else { continue };
        let mut name = match role {
            Role::House => "house".to_string(),
            _ => format!("host::{}", package.short()),
        };
        let is = |kind: &str| message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
        if is("lib") || is("proc-macro") {
            names.insert(target.to_string(), name.clone());
        }
        if is("test") && role == Role::Host {
            name = format!("{name}::{target}");
        }
        if let Some(program) = message["executable"].as_str() {
            // cargo prints the path from its working folder.
            let short = program.strip_prefix(&format!("{}/", top.display())).unwrap_or(program);
            names.insert(short.to_string(), name);
        }
    }
    Ok(names)
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
    command.args((!pku).then_some("--no-pku"));
    if !wanted.iter().any(|word| word == "system") {
        command.args(wanted.iter().filter(|word| stage_of(word) == "system"));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("the system tests do not start")?;
    let out = child.stdout.take().context("it has a standard output")?;
    let before = results.count(Mark::Failed);
    let (mut failing, mut unsteady) = (false, Vec::new());
    for line in BufReader::new(out).lines() {
        let line = line?;
        println!("{line}");
        if let Some((name, mark)) = system_line(&line) {
            match mark {
                Some(mark) => results.add(name, mark),
                None => unsteady.push(format!("unsteady: {name}")),
            }
            failing = mark.is_none_or(|mark| mark == Mark::Failed);
        }
        if failing && reports.len() < REPORT_LINES {
            reports.push(line);
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

//! A kernel without one of its rules: a piece of its source is replaced by what a naive implementation would have there, it is built, boots,
//! makes calls, and the check that is there for the rule fails. One that is missed by no check would be a rule that nobody has tried to
//! break (docs/book/holes.md). Each takes a build, so they run only as `./musubi test naive`.

mod attacks;
mod ends;
mod gate;
mod keys;
mod memory;
mod stopped;

use crate::case::{ABOUT_KEYS, Case, File, function};
use crate::lab::{Failure, Lab};
use crate::variant::PLACEMENT;
use anyhow::{Context, Result, bail, ensure};
use build::Edit;
use machine::{Finished, Options, Outcome};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// A rule, by what it is that is missing.
struct Rule {
    /// The hole that it closes (pitfalls), the requirement, or what it is for.
    about: &'static str,
    name: &'static str,
    edit: Edit,
    /// In another place, for the same.
    also: Option<Edit>,
    /// Whether it only matters where there are protection keys.
    of_keys: bool,
    /// Whether the machine has none, for where there are some another rule stands behind it.
    without_keys: bool,
    /// Processors of the machine.
    cpus: u32,
    /// Whether its clock counts instructions.
    icount: bool,
    /// What is in the machine in place of something else.
    files: fn() -> Vec<File>,
    /// The package of a program, which is built from the same source, and in the machine in its own place: the rule is one of programs.
    program: Option<(&'static str, &'static str)>,
    told: Told,
}

/// Who tells.
#[derive(Clone, Copy)]
enum Told {
    /// This check of this group says FAILED.
    Check(&'static str, &'static str),
    /// A command line, which comes to something else; for people, what tries that.
    Line(&'static str, &'static str, Good),
}

/// What a command line comes to where the rule is kept.
#[derive(Clone, Copy)]
enum Good {
    Status(u8),
    Says(&'static [&'static str]),
}

impl Good {
    fn is(self, finished: &Finished) -> bool {
        match self {
            Good::Status(status) => finished.outcome.status() == status,
            Good::Says(texts) => {
                let out = String::from_utf8_lossy(&finished.out);
                texts.iter().all(|text| out.contains(text))
            }
        }
    }
}

impl Told {
    fn line(&self) -> String {
        match self {
            Told::Check(group, check) => format!("check {group} {check}"),
            Told::Line(_, line, _) => (*line).into(),
        }
    }
}

static FOLDER: Mutex<()> = Mutex::new(());
const PATIENCE: Duration = Duration::from_secs(150);
/// By which the mutant shows that it lacks nothing else.
const CALLS: &str = "plain_and_bound";
/// Machines that are started until one tells: what two processors do at once goes well by chance.
const MACHINES: usize = 3;

const fn rule(
    about: &'static str,
    name: &'static str,
    file: &'static str,
    [from, to]: [&'static str; 2],
    [group, check]: [&'static str; 2],
) -> Rule {
    Rule {
        about,
        name,
        edit: Edit { file, from, to },
        also: None,
        of_keys: false,
        without_keys: false,
        cpus: 2,
        icount: false,
        files: Vec::new,
        program: None,
        told: Told::Check(group, check),
    }
}

const fn also(file: &'static str, [from, to]: [&'static str; 2], rule: Rule) -> Rule {
    Rule { also: Some(Edit { file, from, to }), ..rule }
}

/// Told by a program for Linux, which ends with this status where the rule is kept. (What is said instead of a group is not asked for.)
const fn by_linux(files: fn() -> Vec<File>, status: u8, rule: Rule) -> Rule {
    Rule { files, ..by_line("/tmp/attack", Good::Status(status), rule) }
}

/// Told by a line for the shell, which says all this where the rule is kept.
const fn by_the_shell(line: &'static str, says: &'static [&'static str], rule: Rule) -> Rule {
    by_line(line, Good::Says(says), rule)
}

const fn by_line(line: &'static str, good: Good, rule: Rule) -> Rule {
    let Told::Check(_, name) = rule.told else { return rule };
    Rule { told: Told::Line(name, line, good), ..rule }
}

const fn of_keys(rule: Rule) -> Rule {
    Rule { of_keys: true, ..rule }
}

const fn without_keys(rule: Rule) -> Rule {
    Rule { without_keys: true, ..rule }
}

const fn on(cpus: u32, rule: Rule) -> Rule {
    Rule { cpus, ..rule }
}

/// Of what each program has from the SDK, told by `check` itself.
const fn of_programs(rule: Rule) -> Rule {
    Rule { program: Some(("musubi-check", "bin/check")), ..rule }
}

/// Where something has to happen at one instruction.
const fn counted(rule: Rule) -> Rule {
    Rule { icount: true, ..on(1, rule) }
}

/// With a driver that does what one must not in place of the keyboard's.
const fn by_a_driver(rule: Rule) -> Rule {
    Rule { files: || vec![File::Ours { program: "bad-driver", guest: "bin/keyboard" }], ..rule }
}

/// In an image that has `check` in supervisor mode, if it asks.
const fn placed(rule: Rule) -> Rule {
    Rule { files: || vec![File::Made { guest: PLACEMENT, data: "check\n".into(), executable: false }], ..rule }
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    [gate::RULES, stopped::RULES, keys::RULES, memory::RULES, ends::RULES, attacks::RULES].into_iter().flatten()
}

pub fn cases() -> Vec<Case> {
    rules().map(|rule| function(rule.name, move |lab, options| is_missed(rule, lab, options)).by_stage()).collect()
}

fn is_missed(rule: &Rule, lab: &Lab, options: &Options) -> Result<(), Failure> {
    if rule.of_keys && !options.pku {
        return Err(Failure::Skipped(ABOUT_KEYS.into()));
    }
    let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
    let kernel = read(&lab.parts().kernel)?;
    let mut files = (rule.files)();
    let (mutant, program) = {
        // They are built in one folder.
        let _one = FOLDER.lock().expect("nobody panics with the folder");
        let edits: Vec<&Edit> = [Some(&rule.edit), rule.also.as_ref()].into_iter().flatten().collect();
        let edited = lab.workspace().edited(&edits)?;
        match rule.program {
            None => (read(&edited.build_kernel()?)?, None),
            Some((package, guest)) => {
                let data = read(&edited.build_program(package)?)?;
                (kernel.clone(), Some(File::Made { guest, data, executable: true }))
            }
        }
    };
    let pku = options.pku && !rule.without_keys;
    let options = Options { cpus: Some(rule.cpus), icount: rule.icount, pku, ..options.clone() };
    let line = format!("check calls {CALLS}; {}", rule.told.line());
    let run =
        |kernel: &[u8], files: &[File]| lab.exec_with(kernel, &options, files, &[line.clone().into_bytes()], PATIENCE);
    let whole = run(&kernel, &files)?;
    ensure_passes(rule, &whole)?;
    files.extend(program);
    let mut finished = run(&mutant, &files)?;
    for _ in 1..MACHINES {
        if is_told(rule, &finished).is_ok() {
            break;
        }
        finished = run(&mutant, &files)?;
    }
    let how = is_told(rule, &finished)
        .with_context(|| format!("{}, by {}\n{}", rule.about, rule.told.line(), finished.tail(20)))?;
    println!("    without {}: {how}", rule.name);
    Ok(())
}

fn says(finished: &Finished, word: &str, check: &str) -> bool {
    let line = format!("{word} {check}");
    let begins = |said: &str| said.strip_prefix(&line).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    String::from_utf8_lossy(&finished.out).lines().any(begins)
}

/// It is not the way of running that it fails by.
fn ensure_passes(rule: &Rule, finished: &Finished) -> Result<()> {
    let is_good = says(finished, "ok", CALLS)
        && match rule.told {
            Told::Check(_, check) => says(finished, "ok", check),
            Told::Line(_, _, good) => good.is(finished),
        };
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    ensure!(is_good, "it fails with the rule, too: {:?}\n{out}{err}", finished.outcome);
    Ok(())
}

/// How it is told: calls are made, and then the check says what is wrong, or the machine dies at it. Not that nothing came of it in time, or that
/// it was not even begun, for which there are other reasons.
fn is_told(rule: &Rule, finished: &Finished) -> Result<String> {
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    ensure!(says(finished, "ok", CALLS), "not even calls are made: {:?}\n{out}{err}", finished.outcome);
    if let Outcome::Panicked | Outcome::Died(_) = finished.outcome {
        return Ok(format!("the machine: {:?}", finished.outcome));
    }
    match rule.told {
        Told::Check(_, check) => {
            let failed = format!("FAILED {check}: ");
            let said = out.lines().find_map(|line| line.strip_prefix(&failed));
            let hangs =
                matches!(finished.outcome, Outcome::TimedOut) && said.is_none() || said == Some("it did not end");
            ensure!(!hangs, "it hangs, which says nothing: {out}{err}");
            let Some(said) = said else { bail!("nobody tells: {:?}\n{out}{err}", finished.outcome) };
            ensure!(!said.starts_with("not started"), "it was not tried: {out}{err}");
            let why = err.lines().find(|line| line.starts_with(&format!("{check}: "))).unwrap_or(said);
            Ok(why.into())
        }
        Told::Line(name, _, good) => {
            ensure!(!matches!(finished.outcome, Outcome::TimedOut), "it hangs, which says nothing: {out}{err}");
            ensure!(!good.is(finished), "nobody tells: {:?}\n{out}{err}", finished.outcome);
            Ok(format!("{name}: {:?}", finished.outcome))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages::{s60_attacks, s65_gate, s66_mutants};

    fn top() -> &'static str {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../..")
    }

    /// The list of docs/naive.md.
    fn table() -> String {
        let mut text = String::from(
            "# Rules left out\n\nEach kernel of `./musubi test naive` lacks one rule ([holes](book/holes.md)), and somebody tells. Written by a test: \
             `MUSUBI_WRITE=1 ./musubi test host`.\n\n| About | Without | In | Told by |\n|---|---|---|---|\n",
        );
        let number = |about: &str| about.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(u32::MAX);
        let mut all: Vec<&Rule> = rules().collect();
        all.sort_by_key(|rule| (!rule.about.starts_with('H'), number(rule.about), rule.about, rule.name));
        for rule in all {
            let told = match rule.told {
                Told::Check(group, check) => format!("`{group}`: `{check}`"),
                Told::Line(name, ..) if rule.told.line() == "/tmp/attack" => format!("`system::s65_gate::{name}`"),
                Told::Line(name, ..) => format!("`system::s60_attacks::{name}`"),
            };
            let keys = match (rule.of_keys, rule.without_keys) {
                (true, _) => " (keys)",
                (_, true) => " (no keys)",
                _ => "",
            };
            text += &format!("| {} | `{}`{keys} | `{}` | {told} |\n", rule.about, rule.name, rule.edit.file);
        }
        text
    }

    #[test]
    fn the_docs_have_each_rule() {
        let path = format!("{}/docs/naive.md", top());
        if std::env::var_os("MUSUBI_WRITE").is_some() {
            std::fs::write(&path, table()).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(there == table(), "docs/naive.md is not what the rules say: MUSUBI_WRITE=1 ./musubi test host");
    }

    /// What is no attack, or one that no single rule left out lets come through.
    const NO_RULE: [(&str, &str); 10] = [
        ("calls_on_a_stack_that_is_cloned", "no single rule left out has the machine stand still"),
        ("reasons_of_the_callee_are_told", "about what people are told"),
        ("every_address_in_the_table_is_tried", "about the table of the others"),
        ("heard_on_two", "the same on more processors"),
        ("heard_on_four", "the same on more processors"),
        ("eight_processors", "the same on more processors"),
        ("in_short_on_three", "the same on more processors"),
        ("in_short_on_five", "the same on more processors"),
        ("in_short_on_six", "the same on more processors"),
        ("in_short_on_seven", "the same on more processors"),
    ];

    /// Whoever adds an attack says which kernel it would succeed on.
    #[test]
    fn every_attack_succeeds_somewhere() {
        let mut told: std::collections::BTreeSet<&str> = s66_mutants::checks().collect();
        told.extend(rules().map(|rule| match rule.told {
            Told::Check(_, check) => check,
            Told::Line(name, ..) => name,
        }));
        let excused: Vec<&str> = NO_RULE.iter().map(|row| row.0).collect();
        let groups = [s60_attacks::cases(), s65_gate::cases()].into_iter().flatten().map(|case| case.names());
        // A group is named, too, before its checks.
        let tried = groups.flat_map(|names| if names.len() > 1 { names[1..].to_vec() } else { names });
        let missing: Vec<&str> = tried.filter(|name| !told.contains(name) && !excused.contains(name)).collect();
        assert!(
            missing.is_empty(),
            "no rule of docs/naive.md, and none of the gate's, lets these succeed: {missing:?}"
        );
    }

    #[test]
    fn names_are_names() {
        let mut seen = std::collections::BTreeSet::new();
        for rule in rules() {
            assert!(seen.insert(rule.name), "{} twice", rule.name);
        }
    }

    /// Whoever changes a line that keeps a rule says here which one keeps it now.
    #[test]
    fn every_rule_is_where_it_is_said_to_be() {
        for edit in rules().flat_map(|rule| [Some(&rule.edit), rule.also.as_ref()]).flatten() {
            let text = std::fs::read_to_string(format!("{}/{}", top(), edit.file)).unwrap();
            edit.apply(&text).unwrap();
        }
    }
}

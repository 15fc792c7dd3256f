//! Linux programs that have handlers for their faults: `tests/linux/faults.c`, which prints on the host what it is to print here.

use crate::case::File;
use crate::checks::Found;
use crate::lab::{Failure, Lab};
use anyhow::{Context, ensure};
use machine::Options;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// From the top of the project.
const SOURCE: &str = "tests/linux/faults.c";

/// Name, and what the program is told to do. (Exceptions of vector instructions the emulator does not have.)
const ACTS: &[(&str, &str)] = &[
    ("a_handler_lets_the_access_be_made_again", "mend"),
    ("a_handler_steps_over_an_instruction", "step-over"),
    ("a_handler_is_left_by_a_jump", "divide"),
    ("a_wild_jump_is_handled", "jump"),
    ("breakpoints_and_single_steps_are_handled", "trap"),
    ("a_full_stack_is_handled_on_another_one", "overflow"),
    ("a_handler_is_called_within_itself", "nested"),
    ("a_full_stack_without_another_one_ends_a_program", "no-stack"),
    ("a_blocked_fault_ends_a_program", "blocked"),
    ("an_ignored_fault_ends_a_program", "ignored"),
    ("a_fault_in_its_handler_ends_a_program", "in-handler"),
    ("a_handler_for_one_fault_only", "once"),
    ("a_handler_without_a_stack_is_a_fault", "lost-stack"),
    ("a_record_that_cannot_be_read_back_is_a_fault", "bad-return"),
    ("another_program_has_vectors_of_its_own", "exec"),
];

pub fn names() -> Vec<&'static str> {
    ACTS.iter().map(|act| act.0).collect()
}

/// All of them in one machine, one program after the other.
pub fn handled(lab: &Lab, options: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let program = dir.path().join("faults");
    compile(&lab.workspace().top().join(SOURCE), &program)?;
    let data = fs::read(&program).with_context(|| program.display().to_string())?;
    let folder = lab.folder(&[File::Made { guest: "faults", data, executable: true }])?;
    let line: String = ACTS.iter().map(|(_, act)| format!("./faults {act}; echo status $?; ")).collect();
    let finished = lab.exec(options, &folder, &[line.into_bytes()], Duration::from_secs(120))?;
    let out = String::from_utf8_lossy(&finished.out);
    let mut rest = &*out;
    let mut found: Vec<Found> = Vec::new();
    for (name, act) in ACTS {
        let (printed, status) = rest.split_once("status ").unwrap_or((rest, ""));
        let (status, after) = status.split_once('\n').unwrap_or((status, ""));
        rest = after;
        let wanted = on_host(&program, act)?;
        let is_same = (printed, status) == (&*wanted.0, &*wanted.1);
        let why = || Failure::Failed(format!("{printed}{status}, not {}{}\n{}", wanted.0, wanted.1, finished.tail(40)));
        found.push((name, if is_same { Ok(()) } else { Err(why()) }));
    }
    Ok(found)
}

fn compile(source: &Path, program: &Path) -> anyhow::Result<()> {
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-static", "-o"]).args([program, source]);
    let output = command.output().context("cc does not start (package gcc)")?;
    ensure!(output.status.success(), "{SOURCE} does not compile\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What it prints on this host, and the status that a shell shows.
fn on_host(program: &Path, act: &str) -> anyhow::Result<(String, String)> {
    let output = Command::new(program).arg(act).output().with_context(|| program.display().to_string())?;
    let status = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    Ok((String::from_utf8_lossy(&output.stdout).into(), status.unwrap_or(-1).to_string()))
}

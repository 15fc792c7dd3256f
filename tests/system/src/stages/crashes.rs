//! Every way to crash that the program `crash` knows, in one machine, one after the other.

use crate::checks::Found;
use crate::lab::{Failure, Lab};
use machine::Options;
use std::time::Duration;

/// (A locked addition is a read first, on an emulator with one processor.)
/// The way, the name of its test, the status that it ends with, and what is said about it.
const WAYS: &[(&str, &str, &str, &str)] = &[
    ("null", "crash_null", "139", "read of address 0x0, where there is no section"),
    ("null-write", "crash_null_write", "139", "of address 0x0, where there is no section"),
    ("wild-read", "crash_wild_read", "139", "read of address 0x7ffffffff000, where there is no section"),
    ("wild-jump", "crash_wild_jump", "139", "execute of address 0x7ffffffff000, where there is no section"),
    ("jump-data", "crash_jump_data", "139", "no right to execute section"),
    ("kernel", "crash_kernel", "139", "read of address 0xffff800000000000, where there is no section"),
    ("non-canonical", "crash_non_canonical", "139", "fault: "),
    ("stack", "crash_stack", "139", "stack used up"),
    ("divide", "crash_divide", "139", "division by zero"),
    ("privileged", "crash_privileged", "139", "an instruction that programs may not execute"),
    ("undefined", "crash_undefined", "139", "an instruction that programs may not execute"),
    ("breakpoint", "crash_breakpoint", "139", "a breakpoint"),
    ("port", "crash_port", "139", "an instruction that programs may not execute"),
    ("panic", "crash_panic", "101", "as asked"),
    ("memory", "crash_memory", "139", "no memory left"),
    ("sections", "crash_sections", "139", "fault: "),
    ("threads", "crash_threads", "139", "fault: "),
    ("thread", "crash_thread", "139", "of address 0x0, where there is no section"),
    ("unmap-self", "crash_unmap_self", "139", "where there is no section"),
    ("fault-write", "crash_fault_write", "3", "needs an address"),
    ("loop", "crash_loop", "0", ""),
];

pub fn names() -> Vec<&'static str> {
    let all = WAYS.iter().map(|way| way.1);
    all.chain(["crash_list_is_complete"]).collect()
}

/// The shell lives through all of them and says of each how it ended.
pub fn all(lab: &Lab, options: &Options, _: &[&str]) -> Result<Vec<Found>, Failure> {
    let folder = lab.folder(&[])?;
    let run = |line: String| lab.exec(options, &folder, &[line.into_bytes()], Duration::from_secs(120));
    let listed = run("crash".into())?;
    let listed = String::from_utf8_lossy(&listed.out).into_owned();
    let listed: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known: Vec<&str> = WAYS.iter().map(|way| way.0).collect();

    let one = |way: &str| match way {
        "loop" => "crash loop & sleep 0.2; kill %1; echo loop $?; ".into(),
        way => format!("crash {way}; echo {way} $?; "),
    };
    let line: String = known.iter().map(|way| one(way)).collect();
    let finished = run(format!("{line}sleep 0.3; echo alive"))?;
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    let mut found: Vec<Found> = Vec::new();
    for (way, name, status, said) in WAYS {
        let ended = out.lines().find_map(|line| line.strip_prefix(way)?.strip_prefix(' '));
        let good = ended == Some(*status) && err.contains(said);
        let why =
            || Failure::Failed(format!("status {ended:?}, not {status}; on standard error should be {said:?}:\n{err}"));
        found.push((name, if good { Ok(()) } else { Err(why()) }));
    }
    let complete = listed == known && out.ends_with("alive\n") && finished.outcome.status() == 0;
    let why = || {
        Failure::Failed(format!(
            "`crash` lists {listed:?}; the line ended with {:?} and printed\n{out}{}",
            finished.outcome,
            finished.tail(40)
        ))
    };
    found.push(("crash_list_is_complete", if complete { Ok(()) } else { Err(why()) }));
    Ok(found)
}

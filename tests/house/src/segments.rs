//! The gate has no anchor in a segment register (pitfalls, H2 and H5): a program can load FS and GS, so nothing that decides with
//! others' rights lies there, and native programs keep nothing there that a caller could choose.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{Problems, tree};

const GATE: &str = "kernel/arch/src/gate.S";
/// The part of it that runs with programs' registers.
const USER_PART: [&str; 2] = ["gate_begin:", "gate_end:"];
const TARGET: &str = "targets/x86_64-musubi.json";

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for file in
        tree::files(root)?.iter().filter(|file| file.starts_with("kernel/arch/") && tree::extension(file) == "S")
    {
        let text = tree::text(root, file).with_context(|| format!("{file} cannot be read"))?;
        for (line, what) in of_assembly(&text, file == GATE) {
            problems.push(format!("{file}:{line}: {what}"));
        }
    }
    let target = tree::text(root, TARGET).with_context(|| format!("{TARGET} cannot be read"))?;
    if !target.contains("\"has-thread-local\": false") {
        problems
            .push(format!("{TARGET}: programs have no storage behind FS, which their callers could choose; say so"));
    }
    Ok(problems)
}

/// Uses of FS anywhere, and of GS where it is the program's.
fn of_assembly(text: &str, is_gate: bool) -> Vec<(usize, &'static str)> {
    let mut users = false;
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        users = (users || is_gate && line == USER_PART[0]) && line != USER_PART[1];
        let code = line.split('#').next().unwrap_or_default();
        if code.contains("%fs") {
            found.push((number, "FS is the program's; use an absolute address"));
        } else if users && code.contains("%gs") {
            found.push((number, "here GS is the program's; use an absolute address"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_could_choose_is_found() {
        let gate = "gate_begin:\n    mov %gs:8, %rax # bad\n    nop # %gs\ngate_end:\n    mov %gs:8, %rax\n";
        assert_eq!(of_assembly(gate, true).iter().map(|one| one.0).collect::<Vec<_>>(), [2]);
        assert_eq!(of_assembly(gate, false), []);
        assert_eq!(of_assembly("    mov %fs:0x28, %rax\n", false).len(), 1);
    }
}

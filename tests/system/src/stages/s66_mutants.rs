//! The gate without one of its rules: an instruction that calls do not need, and attackers do not want. It is taken out of the
//! kernel's file, the machine boots, calls are made, and the check that is there for it says what it says here. A rule
//! that is missed by no check would be a rule that nobody has tried to break (docs/decisions/0006, docs/book/holes.md).

use crate::case::{ABOUT_KEYS, Case, function};
use crate::lab::{Failure, Lab};
use crate::mutants::Whole;
use anyhow::{Context, Result, ensure};
use machine::{Finished, Options};
use std::time::Duration;

/// One rule, and who tells that it is gone.
struct Rule {
    name: &'static str,
    /// What is there instead; nothing, if this is empty.
    instead: &'static [u8],
    group: &'static str,
    check: &'static str,
    /// Part of what the check says then.
    says: &'static str,
    /// The check by which calls are made all the same.
    calls: &'static str,
}

const fn rule(name: &'static str, group: &'static str, check: &'static str, says: &'static str) -> Rule {
    Rule { name, instead: &[], group, check, says, calls: CALLS }
}

/// `cmp (%r11), %r14d`. Without any comparison no call would be made: it is by it that a record counts that is not there.
const COMPARED_BY_HALF: &[u8] = &[0x45, 0x3b, 0x33];

/// The rules by their names in `gate.S`, in its order.
const RULES: [Rule; 25] = [
    Rule { calls: FEW_CALLS, ..rule("own_slots", "frames", "call_by_anothers_record", "called in the victim's name") },
    Rule { instead: COMPARED_BY_HALF, ..rule("whole_index", "jumps", "index_beyond_32_bits", "gate 0x100000000") },
    rule("in_whole_state", "state", "state_left_for_the_callee", "control words"),
    rule("in_state", "state", "state_left_for_the_callee", "control words"),
    rule("in_direction", "state", "state_left_for_the_callee", "flags"),
    rule("in_shut", "frames", "the_gates_key_is_shut", "a store by a callee"),
    rule("in_register", "jumps", "jumps_in_a_callee_at_anothers_secret", "the secret after"),
    rule("stack_aligned", "returns", "called_back_by_every_door", "the stack pointer"),
    rule("in_r15", "registers", "registers_of_a_direct_call", "a register in the callee is the caller's"),
    rule("kernel_shut", "frames", "the_gates_key_is_shut", "a push on the way to the kernel"),
    rule("kernel_register", "jumps", "jumps_in_a_callee_at_anothers_secret", "the secret after"),
    rule("stack_as_before", "frames", "callees_stack_is_as_before", "Err(Faulted)"),
    rule("out_whole_state", "registers", "registers_of_a_direct_return", "control words afterwards"),
    rule("out_state", "registers", "registers_of_a_direct_return", "control words afterwards"),
    rule("out_direction", "registers", "registers_of_a_direct_return", "the direction flag is set afterwards"),
    rule("out_shut", "frames", "the_gates_key_is_shut", "a store by who is returned to"),
    rule("out_record", "frames", "return_address_left_above_the_top", "Err(Dead), not Err(Faulted)"),
    rule("out_register", "frames", "return_address_left_above_the_top", "Err(Dead), not Err(Faulted)"),
    rule("out_rbp", "registers", "registers_of_a_direct_return", "a register afterwards is the callee's"),
    rule("out_r12", "registers", "registers_of_a_direct_return", "a register afterwards is the callee's"),
    rule("out_r13", "registers", "registers_of_a_direct_return", "a register afterwards is the callee's"),
    rule("out_r14", "registers", "registers_of_a_direct_return", "a register afterwards is the callee's"),
    rule("out_r8", "registers", "registers_of_a_direct_return", "r8 r9 afterwards"),
    rule("out_r9", "registers", "registers_of_a_direct_return", "r8 r9 afterwards"),
    rule("out_r11", "registers", "registers_of_a_direct_return", "a register afterwards is the callee's"),
];

/// Twenty thousand calls, nearly all by the gate: that a mutant makes them shows that it lacks nothing else.
const CALLS: &str = "no_scheduler_on_the_way";
/// A thousand: without `own_slots` a call that is interrupted in the gate begins anew with another record, and of twenty thousand one mostly is.
const FEW_CALLS: &str = "plain_and_bound";
/// Machines of one mutant that are started until it is told: without `own_slots` an interrupt of the first programs may end one, and one of the victim its call.
const MACHINES: usize = 6;
const PATIENCE: Duration = Duration::from_secs(120);

/// Who tells of one or another.
#[cfg(test)]
pub fn checks() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|rule| rule.check)
}

pub fn cases() -> Vec<Case> {
    let mutants = RULES.iter().map(|rule| function(rule.name, move |lab, options| is_missed(rule, lab, options)));
    let others = [function("every_rule_is_tried", every_rule), function("whole_gate", whole_gate)];
    mutants.chain(others).collect()
}

fn kernel(lab: &Lab) -> Result<Whole> {
    let path = &lab.parts().kernel;
    Whole::read(std::fs::read(path).with_context(|| path.display().to_string())?)
}

/// Without keys user code executes nothing of it.
fn needs_keys(options: &Options) -> Result<(), Failure> {
    if options.pku { Ok(()) } else { Err(Failure::Skipped(ABOUT_KEYS.into())) }
}

/// The rules of the gate are those of the table.
fn every_rule(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let whole = kernel(lab)?;
    let mut tried = RULES.map(|rule| rule.name);
    tried.sort_unstable();
    let there: Vec<&str> = whole.rules().collect();
    if there == tried { Ok(()) } else { Err(Failure::Failed(format!("the gate has {there:?}, tried are {tried:?}"))) }
}

fn run(lab: &Lab, options: &Options, kernel: &[u8], calls: &str, line: &str) -> Result<Finished, Failure> {
    let line = format!("check calls {calls}; {line}");
    lab.exec_with(kernel, options, &[], &[line.into_bytes()], PATIENCE)
}

fn is_missed(rule: &Rule, lab: &Lab, options: &Options) -> Result<(), Failure> {
    needs_keys(options)?;
    let mutant = kernel(lab)?.without(rule.name, rule.instead)?;
    let once = || run(lab, options, &mutant, rule.calls, &format!("check {} {}", rule.group, rule.check));
    let mut finished = once()?;
    for _ in 1..MACHINES {
        if tells(rule, &finished).is_ok() {
            break;
        }
        finished = once()?;
    }
    Ok(tells(rule, &finished).with_context(|| finished.tail(20))?)
}

fn makes_calls(finished: &Finished, calls: &str) -> bool {
    let good = format!("ok {calls}");
    String::from_utf8_lossy(&finished.out).lines().any(|line| line == good)
}

/// Calls are made, and the check has failed for the reason that it should.
fn tells(rule: &Rule, finished: &Finished) -> Result<()> {
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    let failed = format!("FAILED {}: ", rule.check);
    let why = format!("{}: ", rule.check);
    ensure!(makes_calls(finished, rule.calls), "not even calls are made: {:?}\n{out}{err}", finished.outcome);
    ensure!(out.lines().any(|line| line.starts_with(&failed)), "nobody tells: {:?}\n{out}{err}", finished.outcome);
    let told = err.lines().any(|line| line.starts_with(&why) && line.contains(rule.says));
    ensure!(told, "it should say {:?}:\n{err}", rule.says);
    Ok(())
}

/// The same file with nothing taken out passes all of it: it is not the way of booting that they fail by.
fn whole_gate(lab: &Lab, options: &Options) -> Result<(), Failure> {
    needs_keys(options)?;
    let mut all: Vec<String> = RULES.iter().map(|rule| format!("check {} {}", rule.group, rule.check)).collect();
    all.sort_unstable();
    all.dedup();
    let finished = run(lab, options, kernel(lab)?.file(), CALLS, &all.join(" && "))?;
    let out = String::from_utf8_lossy(&finished.out);
    let passed = out.lines().filter(|line| line.starts_with("ok ")).count();
    if finished.outcome.status() == 0 && passed == all.len() + 1 {
        return Ok(());
    }
    Err(Failure::Failed(format!("{:?}\n{out}{}", finished.outcome, finished.tail(20))))
}

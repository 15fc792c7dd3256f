//! A kernel without one of its rules: a piece of its source is replaced by what a naive implementation would have there, it is built, boots,
//! makes calls, and the check that is there for the rule fails. One that is missed by no check would be a rule that nobody has tried to
//! break (docs/book/holes.md). Each takes a build, so they run only as `./musubi test naive`.

use crate::case::{ABOUT_KEYS, Case, File, function};
use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, ensure};
use build::Edit;
use machine::{Finished, Options, Outcome};
use std::sync::Mutex;
use std::time::Duration;

/// A rule, by what it is that is missing.
struct Rule {
    /// The hole that it closes (pitfalls), or the requirement.
    about: &'static str,
    name: &'static str,
    edit: Edit,
    /// Whether it only matters where there are protection keys.
    of_keys: bool,
    /// Processors of the machine.
    cpus: u32,
    /// Whether its clock counts instructions.
    icount: bool,
    /// Without it somebody waits for ever, and so does the check.
    hangs: bool,
    /// What is in the machine in place of something else.
    files: &'static [File],
    group: &'static str,
    check: &'static str,
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
        of_keys: false,
        cpus: 2,
        icount: false,
        hangs: false,
        files: &[],
        group,
        check,
    }
}

const fn of_keys(rule: Rule) -> Rule {
    Rule { of_keys: true, ..rule }
}

const fn on(cpus: u32, rule: Rule) -> Rule {
    Rule { cpus, ..rule }
}

/// Where something has to happen at one instruction.
const fn counted(rule: Rule) -> Rule {
    Rule { icount: true, ..on(1, rule) }
}

/// With a driver that does what one must not in place of the keyboard's.
const fn by_a_driver(rule: Rule) -> Rule {
    const BAD: &[File] = &[File::Ours { program: "bad-driver", guest: "bin/keyboard" }];
    Rule { files: BAD, ..rule }
}

const RULES: &[Rule] = &[
    // Who is returned to sees to his own rights.
    of_keys(rule(
        "H1",
        "a_return_is_with_the_callers_rights",
        "kernel/arch/src/gate.S",
        ["out_jump:\n", "    mov FRAME+REC(%rbx), %r15\n    mov REGISTER(%r15), %eax\n    wrpkru\nout_jump:\n"],
        ["returns", "own_rights_after_a_return"],
    )),
    of_keys(rule(
        "H1",
        "a_plain_return_is_with_the_callers_rights",
        "kernel/arch/src/gate.S",
        ["    become %r10\n    ldmxcsr 48(%r8)\n", "    ldmxcsr 48(%r8)\n"],
        ["returns", "own_rights_after_a_return"],
    )),
    rule(
        "H2",
        "no_program_chooses_a_segments_base",
        "kernel/arch/src/cpu.rs",
        [
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),",
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),\n                (feature::FSGSBASE, Cr4Flags::FSGSBASE),",
        ],
        ["segments", "segments_that_are_not_to_be_had"],
    ),
    of_keys(rule(
        "H3",
        "who_has_a_key_open_hears_that_it_is_anothers",
        "kernel/src/keyed.rs",
        ["                self.tell(leaving.class());\n                self.clear", "                self.clear"],
        ["races", "key_of_another_kept_open"],
    )),
    of_keys(rule(
        "H6",
        "nobody_writes_what_is_looked_through",
        "kernel/src/text.rs",
        ["        view::leave_all(self);\n        self.look_through();", "        self.look_through();"],
        ["code", "code_changed_while_it_is_sealed"],
    )),
    of_keys(rule(
        "H6",
        "unclear_code_has_no_keys",
        "kernel/src/text.rs",
        ["if !summary.is_clear() || before", "if before"],
        ["code", "keys_opened_by_unclear_code"],
    )),
    rule(
        "H6",
        "what_comes_late_does_not_come_to_a_text",
        "kernel/src/section/supply.rs",
        [
            "        if self.section.kind() != kind::DATA {\n            return Err(Error::NotSupported);\n        }\n        if self.page",
            "        if self.page",
        ],
        ["code", "code_that_comes_while_it_is_sealed"],
    ),
    of_keys(rule(
        "H7",
        "borders_of_pages_are_searched",
        "kernel/src/text.rs",
        [" || before.is_some_and(|before| scan::borders(before, summary))", ""],
        ["code", "hidden_instructions_are_found"],
    )),
    rule(
        "H8",
        "a_fault_is_first_its_texts",
        "kernel/src/fault.rs",
        [
            "    if !own::deliver(thread, domain, &how) {",
            "    if thread.inner.lock().depth() > 0 || !own::deliver(thread, domain, &how) {",
        ],
        ["deaths", "a_server_survives_its_callers_memory"],
    ),
    rule(
        "H9",
        "strangers_page_nothing_in_a_call",
        "kernel/src/pager.rs",
        ["    !in_call || Arc::ptr_eq(text, &domain.text)", "    true || Arc::ptr_eq(text, &domain.text)"],
        ["strangers", "a_clients_pager_beneath_a_server"],
    ),
    rule(
        "H10",
        "arguments_are_lent_to_one_task",
        "kernel/src/gate.rs",
        ["lent(principal::TASK, task, target)", "lent(principal::ANY, 0, target)"],
        ["loans", "lent_memory_on_a_strangers_thread"],
    ),
    rule(
        "H10",
        "what_is_lent_on_is_taken_back",
        "kernel/src/gate/lent.rs",
        ["        if self.take_back(task) {", "        if false && self.take_back(task) {"],
        ["loans", "lent_on_until_the_call_is_over"],
    ),
    rule(
        "H10",
        "addresses_of_a_call_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["begins || is_held || core::iter::once", "is_held || false && core::iter::once"],
        ["addresses", "addresses_of_a_call_that_waits"],
    ),
    rule(
        "H10",
        "addresses_that_a_server_holds_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["begins || is_held ||", "begins ||"],
        ["addresses", "addresses_of_a_line"],
    ),
    rule(
        "H10",
        "only_what_is_lent_is_held",
        "kernel/src/gate/lent.rs",
        ["state.lent_by.as_ref().is_some_and(|binding| Arc::ptr_eq(&binding.target, text));", "true;"],
        ["addresses", "addresses_not_lent_any_more"],
    ),
    rule(
        "H10",
        "a_binding_goes_with_its_arguments",
        "kernel/src/section/end.rs",
        ["lent_by.iter().for_each(|binding| _ = binding.end());", ""],
        ["addresses", "addresses_that_were_deleted"],
    ),
    rule(
        "H11",
        "one_thread_writes_a_stack",
        "kernel/src/section/access.rs",
        ["        if may_write && state.stack", "        if false && may_write && state.stack"],
        ["state", "a_stack_that_others_write"],
    ),
    rule(
        "H14",
        "the_kernel_asks_the_list_of_who_calls",
        "kernel/src/claim.rs",
        [
            "match ::view::decide(state.acl.rights(&domain.subject), place.section.kind(), access, place.window)",
            "match ::view::decide(Rights::all(), place.section.kind(), access, place.window)",
        ],
        ["deputies", "kernel_calls_with_a_callees_memory"],
    ),
    by_a_driver(rule(
        "H14",
        "the_systems_threads_stay_in_its_texts",
        "kernel/src/thread.rs",
        [
            "        if self.task.user == USER_SYSTEM && text",
            "        if false && self.task.user == USER_SYSTEM && text",
        ],
        ["system_deputies", "the_systems_threads_stay_in_its_texts"],
    )),
    rule(
        "H12",
        "a_kill_waits_for_the_callee",
        "kernel/src/thread/killed.rs",
        [" || self.in_own_text(&mut self.inner.lock()))", " || true)"],
        ["grace", "a_callee_has_its_time_when_its_callback_ends"],
    ),
    on(
        1,
        rule(
            "H13",
            "who_waits_lends_its_turn",
            "kernel/src/sched.rs",
            [
                "    let pair = Event { kind: event::REQUEST, detail: op::LEND",
                "    if to.number > 0 {\n        return false;\n    }\n    let pair = Event { kind: event::REQUEST, detail: op::LEND",
            ],
            ["locks", "a_holder_runs_on_the_turn_of_who_waits"],
        ),
    ),
    rule(
        "H15",
        "no_step_goes_into_the_kernel",
        "kernel/arch/src/entry.rs",
        ["cpu::wrmsr(SFMASK, 0x0025_7fd5 & !2);", "cpu::wrmsr(SFMASK, 0x0025_7fd5 & !0x102);"],
        ["state", "steps_into_the_kernel"],
    ),
    rule(
        "H15",
        "no_flag_is_left_by_an_interrupt",
        "kernel/arch/src/entry.S",
        [
            "    push $2                                         # no flag is left: DF, and AC, which would open the program's pages to\n    popf                                            # the kernel and which an interrupt, unlike syscall, leaves as it is\n",
            "    cld\n",
        ],
        ["state", "flags_are_not_left_to_the_kernel"],
    ),
    of_keys(rule(
        "H16",
        "nothing_restores_the_key_register",
        "kernel/arch/src/cpu.rs",
        ["XCr0Flags::from_bits_retain(VECTOR_STATE)", "XCr0Flags::from_bits_retain(VECTOR_STATE | 1 << 9)"],
        ["code", "keys_restored_from_memory"],
    )),
    rule(
        "H16",
        "a_callee_begins_with_nothing_in_vectors",
        "kernel/src/epc.rs",
        ["    fpu::scrub(None);\n    count(&here().counters.epc);", "    count(&here().counters.epc);"],
        ["registers", "registers_of_a_bound_call"],
    ),
    of_keys(rule(
        "H17",
        "a_secret_is_in_no_shared_view",
        "kernel/src/keyed.rs",
        [
            "        if section.is_secret() {\n            domain.secret",
            "        if section.base == 0 {\n            domain.secret",
        ],
        ["secrets", "secret_sections_are_in_no_shared_view"],
    )),
    rule(
        "H17",
        "branches_are_forgotten",
        "kernel/src/secret.rs",
        ["    cpu::forget_branches();\n    count(&here.counters.barriers);", ""],
        ["secrets", "branches_are_forgotten_around_secrets"],
    ),
    rule(
        "CUBIX-9",
        "an_original_keeps_its_address",
        "kernel/src/section.rs",
        ["                    clone.kept_original.call_once(|| Kept::at(self.original()));\n", ""],
        ["anew", "nobody_comes_to_lie_where_a_clones_original_was"],
    ),
    rule(
        "CUBIX-11",
        "a_bindings_number_is_free_when_nothing_leads_there",
        "kernel/src/gate.rs",
        ["            self.target.changed();\n", ""],
        ["anew", "who_binds_anew_calls_whom_it_has_bound"],
    ),
    rule(
        "CUBIX-58",
        "only_the_schedulers_text_names_threads",
        "kernel/src/pass.rs",
        ["    if !here.office.is_of(&d.text) {", "    if false {"],
        ["sched", "answers_from_elsewhere_are_refused"],
    ),
    rule(
        "CUBIX-58",
        "who_waits_is_not_named",
        "kernel/src/seat.rs",
        [
            "Some(other) => other.wait.lock().life.claim(turn, p.index).map(|()| other.clone()),",
            "Some(other) => {\n            let _ = other.wait.lock().life.claim(turn, p.index);\n            Ok(other.clone())\n        }",
        ],
        ["bad_scheds", "threads_that_wait_are_refused"],
    ),
    rule(
        "CUBIX-58",
        "who_runs_is_not_named",
        "core/sched/src/life.rs",
        [
            "        if self.phase != Phase::Ready || !same {",
            "        if !matches!(self.phase, Phase::Ready | Phase::Running) || !same {",
        ],
        ["bad_scheds", "threads_that_run_elsewhere_are_refused"],
    ),
    by_a_driver(rule(
        "CUBIX-58",
        "who_sits_decides_in_its_text_only",
        "kernel/src/seat.rs",
        [
            "        core::ptr::eq(&*holder.text, &*d.text) && holder.thread.number == thread.number && thread.inner.lock().depth() == 0\n",
            "        holder.thread.number == thread.number\n",
        ],
        ["bad_drivers", "a_handler_that_names_threads"],
    )),
    by_a_driver(rule(
        "CUBIX-58",
        "who_sits_decides_outside_calls_only",
        "kernel/src/seat.rs",
        [
            " && holder.thread.number == thread.number && thread.inner.lock().depth() == 0",
            " && holder.thread.number == thread.number",
        ],
        ["bad_drivers", "a_handler_that_calls_the_scheduler"],
    )),
    by_a_driver(rule(
        "CUBIX-U10",
        "who_wakes_a_driver_does_not_end_the_scheduler",
        "kernel/src/seat/errand.rs",
        ["if decides && !thread.is_killed() => false,", "if decides && false => false,"],
        ["bad_drivers", "a_handler_that_waits_and_is_woken_at_once"],
    )),
    counted(rule(
        "H8",
        "no_late_fault_ends_in_the_systems_text",
        "kernel/src/fault/own.rs",
        [
            "let is_everybodys = bereft::is_in_system(thread) ||",
            "let is_everybodys = bereft::is_in_system(thread) && false ||",
        ],
        ["sweep_exactly", "late_all_through_a_server"],
    )),
];

pub fn cases() -> Vec<Case> {
    RULES.iter().map(|rule| function(rule.name, move |lab, options| is_missed(rule, lab, options)).by_stage()).collect()
}

fn is_missed(rule: &Rule, lab: &Lab, options: &Options) -> Result<(), Failure> {
    if rule.of_keys && !options.pku {
        return Err(Failure::Skipped(ABOUT_KEYS.into()));
    }
    let mutant = {
        // They are built in one folder.
        let _one = FOLDER.lock().expect("nobody panics with the folder");
        let path = lab.workspace().edited(&rule.edit)?.build_kernel()?;
        std::fs::read(&path).with_context(|| path.display().to_string())?
    };
    let options = Options { cpus: Some(rule.cpus), icount: rule.icount, ..options.clone() };
    let line = format!("check calls {CALLS}; check {} {}", rule.group, rule.check);
    let run = |kernel: &[u8]| lab.exec_with(kernel, &options, rule.files, &[line.clone().into_bytes()], PATIENCE);
    let whole = run(&std::fs::read(&lab.parts().kernel).context("the kernel")?)?;
    ensure_passes(rule, &whole)?;
    let mut finished = run(&mutant)?;
    for _ in 1..MACHINES {
        if is_told(rule, &finished).is_ok() {
            break;
        }
        finished = run(&mutant)?;
    }
    Ok(is_told(rule, &finished).with_context(|| format!("{}, by {}\n{}", rule.about, rule.check, finished.tail(20)))?)
}

fn says(finished: &Finished, word: &str, check: &str) -> bool {
    let line = format!("{word} {check}");
    let begins = |said: &str| said.strip_prefix(&line).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    String::from_utf8_lossy(&finished.out).lines().any(begins)
}

/// It is not the way of running that it fails by.
fn ensure_passes(rule: &Rule, finished: &Finished) -> Result<()> {
    let both = says(finished, "ok", CALLS) && says(finished, "ok", rule.check);
    ensure!(both, "it fails with the rule, too: {:?}\n{}", finished.outcome, String::from_utf8_lossy(&finished.out));
    Ok(())
}

/// Calls are made, and the check has failed, or the machine has at it: not that nothing came of it in time, for which there are other reasons.
fn is_told(rule: &Rule, finished: &Finished) -> Result<()> {
    let (out, err) = (String::from_utf8_lossy(&finished.out), String::from_utf8_lossy(&finished.err));
    ensure!(says(finished, "ok", CALLS), "not even calls are made: {:?}\n{out}{err}", finished.outcome);
    ensure!(!says(finished, "ok", rule.check), "nobody tells: {:?}\n{out}{err}", finished.outcome);
    ensure!(!says(finished, "skipped", rule.check), "it was not tried: {out}{err}");
    let hangs = matches!(finished.outcome, Outcome::TimedOut) && !says(finished, "FAILED", rule.check);
    ensure!(!hangs || rule.hangs, "it hangs, which says nothing: {out}{err}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever changes a line that keeps a rule says here which one keeps it now.
    #[test]
    fn every_rule_is_where_it_is_said_to_be() {
        let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        for rule in RULES {
            let text = std::fs::read_to_string(format!("{top}/{}", rule.edit.file)).unwrap();
            rule.edit.apply(&text).unwrap();
        }
    }
}

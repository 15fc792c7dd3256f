//! Faults, ends and turns.

use super::{Rule, by_a_driver, counted, of_keys, on, rule};

pub const RULES: &[Rule] = &[
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
    // Whoever may not be in the shared view any more is not allowed its own code, instead of going on in a view of its own.
    of_keys(rule(
        "H8",
        "a_grade_that_goes_leaves_the_callee_its_code",
        "kernel/src/fault.rs",
        [
            "        Tag::NoKey(class) | Tag::Apart(class) => keyed::set_apart(thread, domain, Some(class)),",
            "        Tag::Apart(_) => return Err(denied(cause::DENIED, right)),\n        Tag::NoKey(class) => keyed::set_apart(thread, domain, Some(class)),",
        ],
        ["races", "grade_changes_during_calls"],
    )),
    // Its pages are gone, so it has faulted: that is what its callers are told.
    rule(
        "H8",
        "who_called_a_text_that_ends_hears_of_its_end",
        "kernel/src/fault.rs",
        ["    if epc::unwind(thread, Error::Dead) {", "    if epc::unwind(thread, Error::Faulted) {"],
        ["races", "text_goes_while_threads_cross"],
    ),
    // What comes last is told: a killed program's thread fetches from its text, which is gone, before it is ended itself.
    rule(
        "H12",
        "who_was_killed_is_said_to_have_been_killed",
        "kernel/src/task.rs",
        ["self.exit.lock().get_or_insert(how);", "*self.exit.lock() = Some(how);"],
        ["races", "killed_between_programs"],
    ),
    // (The piece of `a_kill_waits_for_the_callee`, told by a lock that nobody gives back.)
    rule(
        "H12",
        "who_is_between_programs_is_not_ended_in_a_callee",
        "kernel/src/thread/killed.rs",
        [" || self.in_own_text(&mut self.inner.lock()))", " || true)"],
        ["races", "killed_between_programs"],
    ),
];

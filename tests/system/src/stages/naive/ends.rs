//! Faults, ends and turns.

use super::{Rule, by_a_driver, counted, of_keys, on, placed, rule};

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
    placed(rule(
        "SSS-63",
        "a_pager_has_its_group",
        "kernel/src/aside.rs",
        ["    place::enters(thread, &caller.text, text)?;\n", ""],
        ["place", "a_groups_pager_needs_none"],
    )),
    rule(
        "CUBIX-14",
        "who_unbinds_disturbs_nobody",
        "kernel/src/gate.rs",
        ["self.target.unbound(&text, self.number);", "self.target.changed();"],
        ["races", "others_stay_bound"],
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
        "kernel/src/seat/named.rs",
        [
            "Some(other) => other.wait.lock().life.claim(turn, p.index).map(|()| other.clone()),",
            "Some(other) => {\n            let _ = other.wait.lock().life.claim(turn, p.index);\n            Ok(other.clone())\n        }",
        ],
        ["bad_scheds", "threads_that_wait_are_refused"],
    ),
    rule(
        "H8",
        "what_a_call_was_made_by_stays",
        "kernel/src/crossing.rs",
        ["            && told(&old) != told(record)\n", "            && old.domain != record.domain\n"],
        ["calls", "rebound_in_a_call"],
    ),
    rule(
        "H11",
        "who_is_called_back_goes_on_below",
        "kernel/src/crossing/borrowed.rs",
        [
            "        self.borrowed.lent.push(Borrowed { depth, lender, borrower });\n",
            "        let _ = (depth, lender, borrower);\n",
        ],
        ["calls", "callbacks_from_the_callers_stack"],
    ),
    // No plain call goes on by itself where somebody's frames may lie.
    rule(
        "H11",
        "who_runs_on_its_callers_stack_is_called_by_long_ways",
        "kernel/src/epc.rs",
        [
            "if !inner.is_called_by_long_ways(&inner.domain) {",
            "if !inner.domain.is_secret() && !text.place.is_nsys() {",
        ],
        ["calls", "callbacks_from_the_callers_stack"],
    ),
    rule(
        "CUBIX-58",
        "who_is_ready_is_not_forgotten",
        "kernel/src/seat/neglect.rs",
        ["        p.office.accuse(Reason::Neglect);\n", ""],
        ["bad_scheds", "bad_nobody"],
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
        "kernel/src/seat/named.rs",
        [
            "        core::ptr::eq(&*holder.text, &*d.text) && holder.thread.number == thread.number && thread.inner.lock().depth() == 0\n",
            "        holder.thread.number == thread.number\n",
        ],
        ["bad_drivers", "a_handler_that_names_threads"],
    )),
    by_a_driver(rule(
        "CUBIX-58",
        "who_sits_decides_outside_calls_only",
        "kernel/src/seat/named.rs",
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
    rule(
        "SSS-57",
        "what_a_late_pagers_callee_waits_for_is_over",
        "kernel/src/fault/own.rs",
        ["sched::wake(thread, ticket, Err(Error::Dead));", "sched::wake(thread, ticket, Err(Error::TimedOut));"],
        ["pagers", "a_pager_waits_in_a_server"],
    ),
    rule(
        "H8",
        "what_is_further_out_is_looked_at_again",
        "kernel/src/fault/own.rs",
        ["        look_later(thread, time::now().saturating_sub(CALLEE_GRACE_NS));\n", "        let _ = thread;\n"],
        ["grace", "two_texts_of_a_chain_end"],
    ),
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
    // Who still goes on in a server that has ended is told so, and answers its caller with that.
    rule(
        "H8",
        "its_own_end_is_told_to_nobody_there",
        "kernel/src/epc.rs",
        ["        if fault::falls_out(thread) {", "        if false && fault::falls_out(thread) {"],
        ["races", "its_own_end_is_no_answer"],
    ),
    // What comes last is told: a killed program's thread fetches from its text, which is gone, before it is ended itself.
    rule(
        "H12",
        "who_was_killed_is_said_to_have_been_killed",
        "kernel/src/task/end.rs",
        ["self.exit.lock().get_or_insert(how);", "*self.exit.lock() = Some(how);"],
        ["races", "killed_between_programs"],
    ),
    rule(
        "H12",
        "a_signal_waits_for_the_callee",
        "kernel/src/mbcf/signal.rs",
        [
            "        if inner.depth() > signals {\n            inner.leave_by_kernel(signals + 1);\n            return false;\n        }\n        let between = (GATE_BASE..GATE_BASE + PAGE).contains(&inner.area.registers().rip);\n        if inner.domain.number != OWN || ",
            "        let _ = (signals, OWN);\n        let between = (GATE_BASE..GATE_BASE + PAGE).contains(&inner.area.registers().rip);\n        if ",
        ],
        ["mbcf", "signals_wait_for_a_calls_return"],
    ),
    rule(
        "H12",
        "a_callees_registers_are_not_shown",
        "kernel/src/thread/seen.rs",
        [
            "(depth == 0 || domain.text.owner().number == self.task.number).then_some",
            "(depth == 0 || domain.text.base != 0).then_some",
        ],
        ["looks", "registers_of_a_callee_are_not_shown"],
    ),
    // (The piece of `a_kill_waits_for_the_callee`, told by a lock that nobody gives back.)
    rule(
        "H12",
        "who_is_between_programs_is_not_ended_in_a_callee",
        "kernel/src/thread/killed.rs",
        [" || self.in_own_text(&mut self.inner.lock()))", " || true)"],
        ["races", "killed_between_programs"],
    ),
    // Whoever is late in the scheduler's text has torn it.
    counted(rule(
        "H8",
        "a_late_fault_costs_no_scheduler_its_seat",
        "kernel/src/fault/own.rs",
        [
            "        let is_everybodys = bereft::is_in_system(thread) || seat::is_schedulers(&thread.domain().text);\n",
            concat!(
                "        let text = thread.domain().text.clone();\n",
                "        if seat::is_schedulers(&text) {\n",
                "            // What it writes may be torn now.\n",
                "            text.owner().end(Exit { kind: abi::task::exit::FAULT, ..Exit::default() });\n",
                "        }\n",
                "        let is_everybodys = bereft::is_in_system(thread) || seat::is_schedulers(&text);\n",
            ),
        ],
        ["sweep_exactly", "late_all_through_the_scheduler"],
    )),
    // A call ends in the middle of everybody's text. (The rule with `&& false ||` that is there already spares the scheduler.)
    counted(rule(
        "H8",
        "no_late_fault_ends_in_the_schedulers_text",
        "kernel/src/fault/own.rs",
        [
            "let is_everybodys = bereft::is_in_system(thread) || seat::is_schedulers(&thread.domain().text);",
            "let is_everybodys = false && (bereft::is_in_system(thread) || seat::is_schedulers(&thread.domain().text));",
        ],
        ["sweep_exactly", "late_all_through_the_scheduler"],
    )),
    // A program's texts end with its last thread.
    counted(rule(
        "CUBIX-33",
        "a_programs_texts_end_at_once",
        "kernel/src/task/end.rs",
        ["while !self.end_some() {", "while false && !self.end_some() {"],
        ["sweep_exactly", "callers_hear_in_bounded_time"],
    )),
    // The clock alone ends a killed caller's callee.
    on(
        1,
        rule(
            "H12",
            "a_killed_callers_callee_has_had_its_turns",
            "kernel/src/thread/killed.rs",
            ["if !in_system && self.wait.lock().life.turn()", "if true || !in_system && self.wait.lock().life.turn()"],
            ["deaths", "a_killed_caller_waits_its_turn"],
        ),
    ),
    rule(
        "H12",
        "a_callee_hears_that_its_caller_is_killed",
        "kernel/src/thread/killed.rs",
        ["gate.tell(attention::KILLED);", "gate.tell(attention::KILLED & 0);"],
        ["deaths", "a_callee_is_told_of_its_callers_end"],
    ),
    // Who deals with a fault may take as long as he likes.
    rule(
        "H8",
        "a_fault_entry_has_a_bounded_time",
        "kernel/src/fault/own.rs",
        [
            "    if call.depth > 0 {\n        look_later(thread, began.now);",
            "    if false && call.depth > 0 {\n        look_later(thread, began.now);",
        ],
        ["faults", "a_fault_entry_has_its_time"],
    ),
];

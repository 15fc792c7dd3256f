//! Calls into other programs on the same thread. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "calls",
            "check calls",
            &[
                "plain_and_bound",
                "who_is_calling",
                "no_scheduler_on_the_way",
                "nested",
                "recursion_ends",
                "recursion_by_bindings_ends",
                "bound_to_oneself",
                "callee_faults",
                "callee_exits",
                "callee_ends_the_thread",
                "callee_is_killed",
                "callee_loops_and_is_killed",
                "callee_is_deleted",
                "callee_loops_and_is_deleted",
                "death_in_the_middle_of_a_chain",
                "caller_is_killed_in_a_callee",
                "stacks_are_apart",
                "callers_stack_is_a_hazard",
                "return_address_does_not_divert",
                "return_address_on_the_callers_stack",
                "jump_into_the_middle",
                "no_gate_there",
                "gate_taken_back",
                "right_taken_back",
                "pointers_are_checked_first",
                "argument_section",
                "many_threads_one_server",
                "gates_are_limited",
            ],
        )
        .timeout(240)
        .matrix(),
        checks(
            "lending",
            "check lending",
            &["what_does_not_fit_is_refused_at_once", "many_threads_share_one_argument_section"],
        )
        .timeout(240)
        .matrix(),
        checks(
            "texts",
            "check texts",
            &["text_that_changes_while_it_is_passed", "long_text_is_refused_at_once", "a_long_wish_stops_no_scheduler"],
        )
        .timeout(240)
        .matrix(),
        checks(
            "registers",
            "check registers",
            &[
                "registers_of_a_bound_call",
                "registers_of_a_direct_call",
                "registers_of_a_direct_return",
                "registers_of_a_plain_call",
                "registers_after_a_fault",
                "control_words_of_the_caller",
                "nine_arguments",
            ],
        )
        .matrix(),
        checks("many_deaths", "check deaths", &["ten_thousand_deaths_under_load"]).timeout(600),
        checks(
            "deaths",
            "check deaths",
            &[
                "thousand_faults_under_load",
                "thousand_deaths_under_load",
                "a_server_survives_its_callers_memory",
                "a_callee_is_told_of_its_callers_end",
            ],
        )
        .matrix()
        .timeout(900),
        checks(
            "faults",
            "check faults",
            &[
                "a_fault_left_unfinished_is_no_other_texts",
                "a_fault_on_the_callers_stack_is_heard",
                "a_fault_of_the_callers_stack_is_heard",
                "a_poor_caller_makes_no_server_fault",
                "poor_callers_on_many_threads_make_no_server_fault",
            ],
        )
        .matrix(),
        sh(
            "eight_processors",
            "check deaths thousand_faults_under_load thousand_deaths_under_load a_server_survives_its_callers_memory \
             a_callee_is_told_of_its_callers_end an_end_is_told_when_it_is_over",
        )
        .cpus(8)
        .timeout(900)
        .out_has(&[
            "ok thousand_faults_under_load",
            "ok thousand_deaths_under_load",
            "ok a_server_survives_its_callers_memory",
            "ok a_callee_is_told_of_its_callers_end",
            "ok an_end_is_told_when_it_is_over",
        ]),
        checks("waits_its_turn", "check deaths", &["a_killed_caller_waits_its_turn"]).cpus(1).timeout(400),
        checks("two_ways_at_once", "check deaths", &["an_end_is_told_when_it_is_over"]).cpus(2).timeout(400),
    ]
}

//! The ways into the kernel. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "light",
            "check light",
            &[
                "light_and_full_say_the_same",
                "light_calls_answer",
                "light_calls_keep_registers",
                "numbers_beside_light_calls",
                "light_calls_while_others_run",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "validity",
            "check validity",
            &[
                "an_invalid_page_keeps_what_is_in_it",
                "a_page_that_nobody_has_used",
                "invalid_for_other_programs",
                "invalid_for_many_programs",
                "invalid_on_all_processors",
                "invalid_for_the_kernel",
                "clones_of_invalid_pages",
                "shorter_and_longer",
                "validity_is_refused",
                "a_handler_makes_a_page_valid",
                "an_invalid_page_of_a_text",
                "an_invalid_page_of_a_stack",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks(
            "pages",
            "check pages",
            &[
                "real_pages_are_there_at_once",
                "real_pages_go_back_at_once",
                "an_alarm_in_the_middle_of_having_pages",
                "real_pages_and_clones",
                "real_pages_and_other_attributes",
                "real_pages_are_refused",
                "pages_are_counted_by_parts",
                "clones_and_large_pages_are_counted",
                "what_cannot_be_counted",
            ],
        )
        .spread()
        .placed_thoroughly(),
        checks(
            "parts",
            "limit frames=100000 check parts",
            &[
                "a_section_is_deleted_by_parts",
                "two_delete_a_section_by_parts",
                "a_section_is_cut_by_parts",
                "a_text_is_looked_through_by_parts",
                "much_memory_of_a_program_that_ends",
                "what_is_deleted_goes_by_parts_with_who_deletes_it",
                "what_others_wait_for_is_given_back_first",
                "many_sections_are_asked_about_by_parts",
                "a_page_changes_in_all_of_many_views",
                "who_ends_begins_no_signals_program",
                "a_call_beside_a_clone_is_made_again",
            ],
        )
        .mem("1G")
        .timeout(420)
        .spread()
        .placed_thoroughly(),
        checks(
            "large",
            "check large",
            &[
                "a_large_page_is_one_entry",
                "a_part_of_a_large_page_is_given_back",
                "a_part_of_a_large_page_is_invalid",
                "clones_of_large_pages",
                "pages_out_of_a_large_page",
                "large_pages_and_what_else_is_done_to_sections",
                "parts_change_while_others_are_used",
                "memory_in_a_row",
                "large_pages_are_refused",
                "broken_memory_comes_together_again",
            ],
        )
        .timeout(240)
        .matrix()
        .placed_thoroughly(),
        checks("huge", "check huge", &["a_page_of_1_gib", "memory_in_a_row_of_1_gib"])
            .mem("5G")
            .timeout(240)
            .spread()
            .placed_thoroughly(),
        checks(
            "pagers",
            "check pagers",
            &[
                "a_pager_validates",
                "a_page_is_valid_before_its_pager",
                "two_tasks_two_pagers_one_address",
                "a_tasks_pager_is_asked_for_its_own",
                "who_has_made_a_page_invalid_is_paid_for",
                "a_pager_declines",
                "one_asks_and_the_others_wait",
                "registers_outlive_a_pager",
                "pages_are_supplied_and_taken",
                "clean_pages_and_dirty_ones",
                "pages_are_paid_for",
                "supplying_is_refused",
                "the_kernel_asks_a_pager",
                "light_calls_ask_a_pager",
                "light_calls_of_many_ask_a_pager",
                "calls_of_signals_ask_a_pager",
                "calls_of_messages_ask_a_pager",
                "bad_answers",
                "cut_short_while_it_is_asked",
                "a_pager_has_a_fault",
                "a_pager_ends",
                "who_has_asked_is_killed",
                "a_pager_is_killed_while_it_is_asked",
                "pagers_of_lower_levels",
                "what_cannot_have_a_pager",
                "who_waits_for_a_page_is_killed",
                "who_waited_for_a_page_keeps_nothing",
                "a_pager_takes_too_long",
                "a_pager_waits_in_a_callee",
                "a_pager_waits_in_a_server",
                "again_whatever_the_pager_does",
                "valid_as_the_pager_may_make_it",
                "again_by_a_tasks_pager",
                "again_by_pagers_of_pagers",
                "again_and_ended",
                "again_in_turn",
                "again_in_turn_of_many",
                "again_by_many",
                "who_is_served_is_seen",
                "pagers_are_counted",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks("strangers", "check strangers", &["a_clients_pager_beneath_a_server", "a_tasks_pager_beneath_a_server"])
            .timeout(120)
            .placed_thoroughly(),
        // SSS-59, U8: the machine never has room for it.
        sh("more_data_than_memory", "squeeze 96 1024")
            .mem("64M")
            .out_has(&["more than the machine has\n"])
            .timeout(240)
            .placed_thoroughly(),
        // Pagers give back what somebody else takes, then he is told that there is no more; what they keep is whole, and in the end all
        // is free again. One of them never answers, and holds nobody up for long.
        checks(
            "window",
            "check window",
            &[
                "two_addresses_of_a_page",
                "two_addresses_and_another_program",
                "what_a_personality_finds_by_fs",
                "no_window_reaches_the_gate",
                "a_window_without_a_personality",
                "nobody_is_passed_a_window",
                "a_tasks_pager_in_a_window",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "giving",
            "check giving",
            &[
                "who_only_says_so_ends_the_round",
                "who_receives_nothing_is_asked_once",
                "who_was_late_is_late_when_it_registers_again",
                "who_answers_what_it_has_not_received",
                "few_that_say_nothing_are_asked",
                "the_kernel_says_that_memory_is_short",
            ],
        )
        .spread()
        .placed_thoroughly(),
        sh("memory_runs_short", MEMORY_RUNS_SHORT)
            .mem("96M")
            .out_check(ran_short)
            .err_any()
            .timeout(400)
            .cpus(2)
            .placed_thoroughly(),
        // Whoever is registered is asked by the next memory server, too.
        sh("the_next_memory_server_knows_pagers", NEXT_SERVER)
            .mem("96M")
            .out_check(next_asked)
            .err_any()
            .timeout(400)
            .placed_thoroughly(),
    ]
}

const MEMORY_RUNS_SHORT: &str = "squeeze 1 100 > first; check as hog 1 > first; mem > before; check as stubborn & squeeze 12 100000 40 & squeeze 12 100000 40 & sleep 12; mem; \
    check as hog 1000; echo status $?; mem; kill %1; sleep 60; mem; mem -s; cat before";

const NEXT_SERVER: &str = "squeeze 12 100000 30 & sleep 12; servers kill memory; servers; mem; check as hog 1000; echo status $?; mem; sleep 40; mem -s";

/// By the second server, which has been asked for none before; it knows the one that has ended no more.
fn next_asked(out: &str) -> bool {
    let restarted = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        matches!(words[..], ["memory", "running", _, _, "1", ..])
    };
    out.lines().any(restarted)
        && out.contains("status 1\n")
        && out.matches("\nsum ").count() == 1
        && out.matches(" pages back\n").count() == 1
        && out.contains(" given back so far\n")
}

/// Pages were given back, the hog was refused and not ended, sums are right, and what was free before is free again but for what servers
/// have grown by; by what a first program takes of them, they have grown before.
fn ran_short(out: &str) -> bool {
    const GROWN: f64 = 3.0;
    let tables = out.lines().filter_map(|line| line.strip_prefix("memory    "));
    let free: Vec<Option<f64>> = tables.map(|table| table.split('M').next()?.parse().ok()).collect();
    let again = matches!(free[..], [_, _, Some(after), Some(before)] if after + GROWN >= before);
    again
        && out.contains("then there was no more\nstatus 1\n")
        && out.matches("\nsum ").count() == 2
        && out.matches(" pages back\n").count() == 2
        && out.contains(" given back so far\n")
}

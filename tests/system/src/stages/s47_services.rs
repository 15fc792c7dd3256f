//! Servers that offer gate and post by one declaration. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "services",
            "check services",
            &[
                "the_client_chooses",
                "answers_come_in_any_order",
                "any_idle_processor_serves",
                "every_server_by_both_ways",
                "streams_by_their_posts",
                "futures_of_several_servers",
                "memory_is_lent_from_the_binding",
                "memory_is_lent_until_the_answer",
                "the_sender_is_told",
                "streams_of_many_gates",
                "a_pipe_ends_with_its_users",
                "no_program_has_all_pipes",
                "every_skeleton_refuses",
                "a_file_that_may_not_be_read",
                "started_by_the_loaders_post",
                "only_what_may_be_read_is_started",
                "answers_that_cannot_be_written",
                "of_another_interface",
                "a_method_that_faults",
                "a_server_without_memory_refuses",
                "a_server_that_ends",
                "the_next_server_goes_on",
                "clients_that_end_harm_nobody",
                "who_collects_nothing_harms_nobody",
                "a_flood_at_random",
                "who_waits_leaves_little_lying",
                "what_waits_is_answered_to_nobody_else",
                "what_lay_in_the_queue_is_answered_to_nobody_else",
                "what_was_kept_is_answered_to_nobody_else",
            ],
        )
        .timeout(600)
        .spread()
        .placed_thoroughly(),
        sh(
            "by_the_improved_scheduler",
            "sched use ageing && check services the_client_chooses a_server_that_ends && sched use none",
        )
        // Longer than a check waits for one that does not end: then it says which.
        .timeout(900)
        .out_has(&["ok the_client_chooses", "ok a_server_that_ends"])
        .err_any()
        .spread()
        .placed_thoroughly(),
    ]
}

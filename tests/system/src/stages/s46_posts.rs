//! Posts: messages between threads and programs. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "posts",
            "check posts",
            &[
                "numbers",
                "a_message_says_who_sent_it",
                "receivers_wait_and_are_woken",
                "polling_and_time_outs",
                "several_posts",
                "round_trips",
                "questions",
                "two_tasks",
                "without_a_right",
                "freed_under_them",
                "a_holder_that_ends",
                "a_flood_is_the_flooders",
            ],
        )
        .timeout(300)
        .matrix(),
        // A hand-over passes the scheduler by, a plain wake-up does not.
        sh("by_the_improved_scheduler", "sched use ageing && check posts && sched use none")
            .timeout(300)
            .out_has(&["ok round_trips", "ok questions", "ok two_tasks", "ok a_holder_that_ends"])
            .matrix(),
    ]
}

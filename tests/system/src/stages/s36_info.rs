//! What the kernel knows is memory that programs read (SSS-1, 12, 76). From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "info",
            "check info",
            &[
                "info_has_a_head",
                "info_is_written_by_the_kernel_alone",
                "another_users_info_is_closed",
                "info_says_what_calls_say",
                "processors_count",
                "threads_are_seen",
                "a_killed_tasks_record_goes",
                "sections_are_seen",
                "messages_and_operations_are_counted",
                "posts_are_seen",
                "posts_count_what_comes",
                "receivers_are_seen",
                "keys_are_seen",
                "what_a_user_was_promised_is_seen",
                "reading_info_takes_no_call",
                "reading_makes_no_page",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks("info_load", "check info", &["no_record_is_torn_under_load"]).timeout(400).cpus(4).placed_thoroughly(),
        sh("top_shows_who_runs", "spin & sleep 1; top 2")
            .cpus(2)
            .out_check(|text| {
                text.matches("cpu 1 ").count() == 2 && text.matches(" spin").count() == 2 && text.contains("up ")
            })
            .placed_thoroughly(),
        sh("top_is_refused", "top 0").status(2).err("top: 0: not a number from 1 to 1000\n").placed_thoroughly(),
        sh("ps_hides_nothing_of_ones_own", "spin & sleep 0.1; ps; ps -t; ps -g; posts; sections; mem; mem -s")
            .out_has(&["running", "spin", "loader", "parent", "waiting", "owed ", "promised  to user ", "kept free "])
            .placed_thoroughly(),
        // More than a table's first pages have room for.
        sh("as_many_as_there_are_are_shown", "check as hold-posts 300 & check as hold-posts 300 & sleep 12; posts")
            .out_check(|text| text.matches("300 posts\n").count() == 2 && !text.contains("not shown"))
            .placed_thoroughly(),
        sh(
            "all_that_a_user_has_is_seen",
            "limit frames=100000 sections=12000 threads=2000 check one info all_that_a_user_has_is_seen",
        )
        .out("")
        .cpus(1)
        .mem("1G")
        .timeout(300)
        .placed_thoroughly(),
        sh("keys_are_shown_where_there_are_any", "mem -k")
            .out_check(|text| text.contains("looks") != text.contains("no task has protection keys"))
            .matrix()
            .placed_thoroughly(),
    ]
}

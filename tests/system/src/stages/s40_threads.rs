//! Threads, and time. From within: see `tests/guest/check`.

use crate::case::{Case, checks};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "threads",
            "check threads",
            &[
                "join_gives_the_code",
                "join_waits_and_times_out",
                "join_refuses",
                "kill_a_thread",
                "sleep_takes_its_time",
                "wait_and_wake",
                "wait_refuses",
                "wait_times_out",
                "no_wakeup_is_lost",
                "mutex_excludes",
                "preemption",
                "general_registers_survive_preemption",
                "vectors_survive_preemption",
                "floating_point_survives_preemption",
                "task_ends_while_others_are_busy",
                "killed_while_waiting",
                "timers_do_not_pile_up",
                "clocks_go_forward",
                "a_task_is_looked_at_while_its_views_grow",
            ],
        )
        .timeout(240)
        .matrix(),
    ]
}

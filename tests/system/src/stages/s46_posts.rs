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
                "a_wait_ends_with_its_right",
                "a_right_comes_and_goes",
                "what_is_lent_is_reached",
                "no_more_is_lent_than_that",
                "nothing_is_lent_after_the_answer",
                "nothing_is_lent_after_a_time_out",
                "nothing_is_lent_after_a_kill",
                "freed_under_them",
                "a_holder_that_ends",
                "a_flood_is_the_flooders",
                "a_send_keeps_registers",
                "a_receive_leaves_the_message_only",
                "messages_of_many_say_who_sent_them",
                "a_limit_is_the_same_each_time",
                "a_killed_receiver_takes_nothing",
                "a_list_that_changes_is_asked_again",
            ],
        )
        .timeout(300)
        .matrix(),
        checks(
            "irq",
            "check irq",
            &["to_an_idle_processor", "to_where_somebody_wants_them", "with_room_whatever_others_send"],
        )
        .timeout(300)
        .matrix(),
        sh("irq_by_hand", "irq 1 --to 0; irq; irq 1 --to any; irq 9 --to 0; irq 1 --to 64; irq 1 --to x; irq 1 to 2")
            .out_has(&["  1  0! ", "keyboard"])
            .err_has(&["no interrupt 9 with a driver", "no processor 64", "usage: irq [N --to CPU|any]"])
            .status(2),
        checks("hand_over", "check hand-over", &["nobody_else_enters_the_kernel"]).timeout(300).matrix(),
        // A hand-over passes the scheduler by, a plain wake-up does not.
        sh("by_the_improved_scheduler", "sched use ageing && check posts && sched use none")
            .timeout(300)
            .out_has(&["ok round_trips", "ok questions", "ok two_tasks", "ok a_holder_that_ends"])
            .matrix(),
    ]
}

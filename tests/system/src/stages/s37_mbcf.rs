//! Memory operations, queues and signals on one machine. From within: see `tests/guest/check`.

use crate::case::{Case, checks};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "mbcf",
            "check mbcf",
            &[
                "memory_operations_do_what_they_say",
                "memory_operations_need_rights",
                "memory_operations_report",
                "memory_operations_never_wait",
                "memory_operations_bad_arguments",
                "words_are_changed_undivided",
                "records_arrive",
                "records_go_round",
                "a_full_queue_cancels",
                "queues_need_the_right_to_call",
                "structures_that_are_none",
                "senders_are_told_by_the_kernel",
                "many_senders_one_queue",
                "ordered_queues_stop_and_go_on",
                "a_thousand_queues",
                "signals_start_programs",
                "signals_need_the_right_to_call",
                "registers_outlive_a_signal",
                "signals_that_come_meanwhile",
                "signals_wait_for_a_calls_return",
                "signals_among_calls",
                "signals_to_who_waits",
                "a_thousand_signals",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
    ]
}

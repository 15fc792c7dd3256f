//! The ways into the kernel. From within: see `tests/guest/check`.

use crate::case::{Case, checks};

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
        .matrix(),
        checks(
            "validity",
            "check validity",
            &[
                "an_invalid_page_keeps_what_is_in_it",
                "a_page_that_nobody_has_used",
                "invalid_for_other_programs",
                "invalid_on_all_processors",
                "invalid_for_the_kernel",
                "clones_of_invalid_pages",
                "shorter_and_longer",
                "validity_is_refused",
                "a_handler_makes_a_page_valid",
            ],
        )
        .timeout(240)
        .matrix(),
    ]
}

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
    ]
}

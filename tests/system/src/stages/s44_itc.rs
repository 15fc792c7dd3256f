//! ITC: threads of different programs that wait for each other, and servers that serve by threads of their own. From within:
//! see `tests/guest/check`.

use crate::case::{Case, checks, sh};

const UNDER: &str = "check itc queues_block semaphores_block events_block the_end_of_a_partner_ends_the_wait \
                     && check lines the_client_chooses answers_are_collected_later a_server_that_ends";

fn under(name: &'static str, scheduler: &str) -> Case {
    sh(name, &format!("sched use {scheduler} && {UNDER} && sched use none"))
        .timeout(300)
        .out_has(&["ok queues_block", "ok the_end_of_a_partner_ends_the_wait", "ok a_server_that_ends"])
        .placed()
        .spread()
}

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "itc",
            "check itc",
            &[
                "queues_block",
                "queues_are_polled",
                "semaphores_block",
                "semaphores_are_polled",
                "places_are_shared",
                "places_are_shared_by_polling",
                "places_come_back_one_by_one",
                "events_block",
                "events_are_polled",
                "spins_while_the_partner_runs",
                "sleeps_when_the_partner_does",
                "who_runs_is_told",
                "watching",
                "the_end_of_a_partner_ends_the_wait",
                "what_the_dead_one_held_is_marked",
                "a_partner_that_overwrites_everything",
                "partners_die_under_load",
                "a_fault_under_guard_is_an_error",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        checks(
            "lines",
            "check lines",
            &[
                "the_client_chooses",
                "a_list_is_walked_by_its_head",
                "answers_are_collected_later",
                "pointers_are_checked",
                "a_method_that_faults",
                "a_server_that_ends",
                "clients_that_end_harm_nobody",
                "lines_are_limited",
                "a_line_is_one_threads",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        checks("many_deaths", "check itc_deaths", &["ten_thousand_partners_die"]).timeout(600),
        sh(
            "eight_processors",
            "check itc queues_block semaphores_block events_block spins_while_the_partner_runs \
             the_end_of_a_partner_ends_the_wait partners_die_under_load && check lines the_client_chooses \
             answers_are_collected_later a_server_that_ends clients_that_end_harm_nobody",
        )
        .cpus(8)
        .timeout(900)
        .out_has(&[
            "ok queues_block",
            "ok semaphores_block",
            "ok events_block",
            "ok spins_while_the_partner_runs",
            "ok the_end_of_a_partner_ends_the_wait",
            "ok partners_die_under_load",
            "ok the_client_chooses",
            "ok answers_are_collected_later",
            "ok a_server_that_ends",
            "ok clients_that_end_harm_nobody",
        ]),
        under("by_the_improved_scheduler", "ageing"),
        under("by_the_initial_scheduler", "initial"),
    ]
}

//! Texts in supervisor mode, preempted or not (SSS-61 to 68). From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};
use crate::variant::{PLACEMENT, PLACEMENTS, Placement};

/// What the system is tried with in each placement besides the tests of files, of the shell and of schedulers, which run there, too
/// ([`Case::placed`]): messages, servers by gate and by post, processes, the clock, and threads that a scheduler outside switches.
const SERVED: &str = "place; check posts round_trips questions several_posts; check services the_client_chooses every_server_by_both_ways \
    streams_by_their_posts futures_of_several_servers; check processes an_end_is_told_once any_child_and_groups started_by_message \
    groups_end_together; check clock a_moment_is_waited_for moments_by_message; sched use ageing && place && check passing there_and_back \
    no_wake_up_is_lost_between_processors killed_while_put_aside preempted_in_between; sched use initial && place; sched use none; place";

/// Nothing failed of many checks, and each text is where it was put, in the end as in the beginning; a scheduler's while it decides, and no bad one's.
fn all_well(text: &str, (class, texts): Placement) -> bool {
    let ok = text.lines().filter(|line| line.starts_with("ok ")).count();
    let is_there = |name: &str| {
        let rows = text.lines().filter(|line| {
            let mut words = line.split_whitespace();
            words.any(|word| word == class) && words.next_back() == Some(name) && !line.contains("was nsys")
        });
        let times = match name {
            "sched-fast" | "fast-initial" => 1,
            "fast-bad" => 0,
            _ => 4,
        };
        rows.count() == times
    };
    ok == 17 && !text.contains("FAILED") && texts.lines().filter_map(|line| line.split(' ').next()).all(is_there)
}

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "place",
            "check place",
            &[
                "who_may_be_placed",
                "supervisor_mode_is_what_it_says",
                "supervisor_mode_has_what_lists_give",
                "user_mode_is_what_it_says",
                "wild_texts_in_supervisor_mode_end",
                "a_loop_in_supervisor_mode_is_preempted",
                "a_group_needs_no_locks",
                "a_groups_pager_needs_none",
                "a_run_without_preemption",
                "over_its_limit_it_is_nsys_no_more",
            ],
        )
        .file(PLACEMENT, "check\n")
        .timeout(300)
        .matrix(),
        checks(
            "placer",
            "check placer",
            &[
                "who_has_the_right_places_texts",
                "the_right_is_passed_on_and_taken_back",
                "who_gives_the_right_up_has_it_no_more",
            ],
        )
        .file(PLACEMENT, "check placer\n")
        .ours("check", "bin/other")
        .timeout(240)
        .cpus(2),
        sh("servers_in_supervisor_mode", SERVED).file(PLACEMENT, PLACEMENTS[0].1).out_check(|text| all_well(text, PLACEMENTS[0])).cpus(2).timeout(300),
        sh("servers_without_preemption", SERVED).file(PLACEMENT, PLACEMENTS[1].1).out_check(|text| all_well(text, PLACEMENTS[1])).cpus(2).timeout(300),
        // A server is moved where it stands, and what is typed goes on.
        sh(
            "a_server_is_moved",
            "place console psys; place; place console nsys io; place; place console pusr; place; place nobody psys; place console ksys; \
             place --run psys hello; echo $?",
        )
        .out_check(|text| {
            let has = |word| text.lines().any(|line| line.contains(word) && line.ends_with("console"));
            has(" psys ") && has(" nsys ") && text.ends_with("1\n")
        })
        .err_any(),
    ]
}

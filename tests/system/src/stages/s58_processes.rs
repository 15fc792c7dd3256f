//! Processes and the clock are servers: starting, ends, groups, limits, moments. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "processes",
            "check processes",
            &[
                "an_end_is_told_once",
                "any_child_and_groups",
                "who_waits_is_woken",
                "waits_by_message",
                "started_by_message",
                "groups_end_together",
                "the_dying_start_nobody",
                "orphans_go_on",
                "refused_kills",
                "limits_are_set_and_shown",
                "what_is_no_request",
                "its_end_loses_nothing",
                "ends_while_it_is_away",
            ],
        )
        .timeout(600)
        .spread()
        .placed_thoroughly(),
        checks(
            "clock",
            "check clock",
            &[
                "a_moment_is_waited_for",
                "moments_by_message",
                "ticks_come_in_their_order",
                "so_many_and_no_more",
                "the_next_clock_goes_on",
                "clients_that_end_leave_nothing",
                "an_answer_goes_to_nobody_else",
            ],
        )
        .timeout(300)
        .spread()
        .placed_thoroughly(),
        // Its programs are a group, and so are those that they start.
        sh("a_job_is_a_group", "spin | spin & sleep 0.3; ps -g; kill %1; echo then; ps -g")
            .out_check(one_group)
            .err_any()
            .placed_thoroughly(),
        sh("quota", "quota 1; quota 0 || quota 1 threads=9 || echo refused")
            .out_check(quotas)
            .err("quota: 0: no such task\nquota: 1: not found\n")
            .placed_thoroughly(),
        sh(
            "the_server_ends_while_jobs_run",
            "spin & sleep 0.2; servers kill processes; jobs; kill %1; sleep 0.2; echo then; jobs; hello on",
        )
        .out_check(a_job_goes_on_and_ends)
        .err_any()
        .placed_thoroughly(),
        sh("date", "date; sleep 0.2; date").out_check(two_dates).placed_thoroughly(),
    ]
}

/// It is there after the server's end, and has ended when it was ended.
fn a_job_goes_on_and_ends(text: &str) -> bool {
    let Some((before, after)) = text.split_once("then\n") else { return false };
    before.contains("] spin (task ")
        && after.starts_with("[1] spin ended with 137\n")
        && after.contains("argument 1: on\n")
}

/// Two lines of `spin` with one group, and none afterwards.
fn one_group(text: &str) -> bool {
    let Some((before, after)) = text.split_once("then\n") else { return false };
    let spins = |text: &str| {
        let rows = text.lines().filter(|line| line.ends_with(" spin"));
        rows.map(|line| line.split_whitespace().nth(2).unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let groups = spins(before);
    groups.len() == 2 && groups[0] == groups[1] && groups[0] != "-" && spins(after).is_empty()
}

/// What the first task may use, and that nobody here may say so.
fn quotas(text: &str) -> bool {
    ["frames", "sections", "reserve", "threads"].iter().all(|what| text.contains(what)) && text.ends_with("refused\n")
}

/// A date of this century and the time since boot, twice; the second not before the first.
fn two_dates(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().collect();
    lines.len() == 2
        && lines.iter().all(|line| line.starts_with("20") && line.ends_with("since boot"))
        && lines[0] <= lines[1]
}

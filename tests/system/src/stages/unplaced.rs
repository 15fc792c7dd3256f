//! What is not run with the system's servers in each placement (SSS-61 to 68), and why: so that nothing is left out unsaid.

use super::all;
use crate::variant::Placed;

/// A stage, the cases in it whose names begin so (none: all), and why.
const WHY: &[(&str, &[&str], &str)] = &[
    (
        "s10_boot",
        &[
            "icount",
            "sixteen_",
            "thirty_",
            "little_",
            "much_",
            "time_limit",
            "prompt_",
            "put_20_mb",
            "put_names_a_place",
            "sixty_",
            "ticks_",
            "says_what_speculation_may",
            "the_log_has_all",
            "clocks_agree",
            "panic",
            "the_end_of_init",
        ],
        "about the machine, its memory, its clock and how it starts and ends",
    ),
    ("s15_front", &[], "about the tool on the host"),
    ("s30_epc", &["many_"], "`deaths`, which is placed, so often that it takes minutes"),
    (
        "s30_epc",
        &["exceptions", "a_machine_check", "an_access_that", "a_vector_exception"],
        "places what it is about itself",
    ),
    ("s30_epc", &["ends_on_"], "what is placed on 1, 2 and 4 processors, on other numbers of them"),
    (
        "s38_trace",
        &["every_call", "rare_calls", "a_machine_check", "a_trace_comes_out"],
        "figures, whose bars are for servers in user mode",
    ),
    ("s38_trace", &["calls_are_made"], "which calls a test makes, wherever the servers are"),
    ("s40_threads", &["rouse"], "counted in instructions, with servers in user mode"),
    (
        "s42_sched",
        &[
            "bad_scheds_",
            "a_crowd_",
            "bursts_",
            "past_turns_",
            "victims_",
            "high_levels_",
            "time",
            "shares",
            "on_each_",
            "quiet_",
            "urgent",
            "deadlines",
            "jobs_",
            "bench",
        ],
        "counted in instructions or held to times, with servers in user mode; the same checks of schedulers that are not about time are placed",
    ),
    (
        "s42_sched",
        &["three_", "seven_", "eight_", "in_short_"],
        "what is placed on 1, 2 and 4 processors, on other numbers of them",
    ),
    (
        "s42_sched",
        &["interrupts_of", "an_exclusive", "own_driver", "marks"],
        "programs of its own in the place of servers",
    ),
    (
        "s44_itc",
        &["many_deaths", "eight_"],
        "what is placed, so often that it takes minutes, or on another number of processors",
    ),
    ("s45_programs", &["call_says_why"], "about machines with and without keys, which it starts itself"),
    (
        "s46_posts",
        &["the_kernels_part", "hand_over_by_instructions"],
        "figures, whose bars are for servers in user mode",
    ),
    ("s48_placement", &[], "places what it is about itself"),
    ("s57_supervision", &["ten_thousand"], "by name only: it takes minutes"),
    ("s66_mutants", &[], "kernels of its own, without one instruction of the gate"),
    ("s70_linux", &["where_calls_end"], "a program that stops the personality where it likes, counted in instructions"),
    ("s80_bench", &[], "figures; what placement gains is a benchmark"),
    ("naive", &[], "kernels of its own, without one rule"),
    ("peers", &[], "Linux"),
    ("boot_100", &[], "by name only: it takes minutes"),
];

#[test]
fn what_is_not_placed_says_why() {
    let is_said = |stage: &str, name: &str| {
        WHY.iter()
            .any(|(of, names, _)| *of == stage && (names.is_empty() || names.iter().any(|one| name.starts_with(one))))
    };
    let unplaced: Vec<(&str, String)> = all()
        .iter()
        .filter(|case| case.placed == Placed::Never)
        .map(|case| (case.stage, case.names()[0].to_string()))
        .collect();
    let unsaid: Vec<_> = unplaced.iter().filter(|(stage, name)| !is_said(stage, name)).collect();
    assert!(unsaid.is_empty(), "neither placed nor said why not: {unsaid:?}");
    // Nor is a reason left behind.
    for (stage, names, why) in WHY {
        let of = |begins: &str| unplaced.iter().any(|(at, name)| at == stage && name.starts_with(begins));
        let is_used = if names.is_empty() { of("") } else { names.iter().all(|begins| of(begins)) };
        assert!(is_used, "a reason for nothing: {stage} {names:?} {why}");
    }
}

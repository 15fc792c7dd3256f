//! Schedulers outside the kernel. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};
use crate::variant::PLACEMENT;

const THREADS: &str = "sched use ageing && check threads preemption no_wakeup_is_lost mutex_excludes \
                       vectors_survive_preemption general_registers_survive_preemption task_ends_while_others_are_busy \
                       && sched use none";

/// However many are busy on so many processors.
fn seen_in_time(name: &'static str, cpus: u32) -> Case {
    let case = sh(name, "check marks seen_in_time").out_has(&["ok seen_in_time"]);
    case.ours("own-driver", "bin/keyboard").cpus(cpus).icount().timeout(900)
}

/// A fast level that goes wrong, executed as this line says.
fn in_class(name: &'static str, line: &str) -> Case {
    let case = sh(name, "check bad_scheds replaced_within_10_ms").out_has(&["ok replaced_within_10_ms"]);
    case.file(PLACEMENT, line).cpus(1).icount().timeout(900)
}

/// What each processor keeps for itself.
const ON_EACH: [&str; 3] = ["shares_on_each_processor", "deadlines_on_each_processor", "jobs_have_their_processors"];

const DEADLINES: &str = "ok deadlines_on_each_processor";
const JOBS: &str = "ok jobs_have_their_processors";

const IN_SHORT: &str = "check sched two_switches_by_a_scheduler four_switches_in_the_initial_version replaced_under_load \
                        && check bad_scheds bad_fault && check threads preemption no_wakeup_is_lost mutex_excludes \
                        && check itc queues_block the_end_of_a_partner_ends_the_wait && check frames";

fn in_short(name: &'static str, cpus: u32) -> Case {
    sh(name, IN_SHORT).cpus(cpus).timeout(300).out_has(&[
        "ok two_switches_by_a_scheduler",
        "ok four_switches_in_the_initial_version",
        "ok replaced_under_load",
        "ok bad_fault",
        "ok mutex_excludes",
        "ok the_end_of_a_partner_ends_the_wait",
        "ok callees_stack_is_as_before",
    ])
}

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "sched",
            "check sched",
            &[
                "use_and_back",
                "answers_from_elsewhere_are_refused",
                "sleep_and_wake_up",
                "a_wake_up_before_its_sleep_counts",
                "one_switch_in_turn",
                "two_switches_by_a_scheduler",
                "giving_way_takes_the_fixed_path",
                "four_switches_in_the_initial_version",
                "threads_get_on_in_the_initial_version",
                "the_high_level_is_called_for_two_reasons",
                "nobody_starves",
                "work_is_shared",
                "busy_processors_share",
                "replaced_under_load",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        checks(
            "bad_scheds",
            "check bad_scheds",
            &[
                "bad_loop",
                "bad_wrong",
                "bad_turn",
                "bad_fault",
                "bad_wait",
                "bad_ring",
                "bad_end",
                "bad_exit",
                "bad_nobody",
                "who_rests_with_everybody_stays",
                "refused_accesses_are_told",
                "threads_that_wait_are_refused",
                "threads_that_run_elsewhere_are_refused",
                "faults_when_it_is_called",
                "loops_when_it_is_called",
                "private_data_are_refused",
                "the_initial_version_keeps_them_apart",
                "a_high_level_that_fails",
                "an_initial_one_that_does_not_answer",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        checks(
            "events",
            "check events",
            &["every_kind_of_event_is_counted", "each_processor_hears_of_its_own", "unknown_kinds_are_counted", "request_buffer_switch_in_this_order", "the_kernel_has_seen_these_switches", "nobody_else_switches"],
        )
        .timeout(240)
        .placed()
        .spread(),
        checks("calls_beside_a_scheduler", "check events", &["calls_tell_the_scheduler_nothing"]).cpus(2).timeout(240).placed_thoroughly(),
        checks(
            "floods",
            "check floods",
            &[
                "a_flood_of_priorities",
                "a_flood_of_priorities_in_the_initial_version",
                "a_flood_from_another_processor",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        // The clock counts instructions, so that the time is what the kernel takes, and not what the host does.
        checks(
            "bad_scheds_by_the_clock",
            "check bad_scheds",
            &["replaced_within_10_ms", "stopped_on_its_caller_within_10_ms"],
        )
        .timeout(400)
        .icount(),
        sh("bad_scheds_on_two_by_the_clock", "check bad_scheds replaced_within_10_ms")
            .out_has(&["ok replaced_within_10_ms"])
            .cpus(2)
            .timeout(900)
            .icount(),
        sh("bad_scheds_on_four_by_the_clock", "check bad_scheds replaced_within_10_ms")
            .out_has(&["ok replaced_within_10_ms"])
            .cpus(4)
            .timeout(900)
            .icount()
            .long(),
        // In supervisor mode, and where nothing preempts it, it is no later.
        in_class("bad_scheds_in_supervisor_mode_by_the_clock", "fast-bad psys\n"),
        in_class("bad_scheds_not_preempted_by_the_clock", "fast-bad nsys\n"),
        // The same, as somebody notices it who is ready.
        sh("a_crowd_by_the_clock", "limit frames=300000 sections=30000 threads=3900 check one bad_scheds crowd_given_back_within_10_ms")
            .out("")
            .cpus(1)
            .mem("4G")
            .timeout(900)
            .icount()
            .long(),
        sh("bursts_by_the_clock", "check sched a_burst_is_shared").out_has(&["ok a_burst_is_shared"]).cpus(4).timeout(300).icount(),
        sh("a_crowd_that_wakes", "limit frames=100000 sections=8000 threads=900 check one sched a_crowd_wakes_at_once")
            .out("")
            .cpus(1)
            .mem("1G")
            .timeout(300),
        // By the clock, too: a high level that the host lets wait for 14 ms is given up, and four processors are more than it may have.
        sh("a_crowd_that_wakes_on_four", "limit frames=100000 sections=8000 threads=900 check one sched a_crowd_wakes_at_once")
            .out("")
            .cpus(4)
            .mem("1G")
            .timeout(300)
            .icount(),
        sh(
            "a_crowd_with_shares_that_wakes",
            "limit frames=200000 sections=16000 threads=2700 check one sched a_crowd_with_shares_wakes_at_once",
        )
        .out("")
        .cpus(1)
        .mem("3G")
        .timeout(600)
        .icount()
        .long(),
        sh("past_turns_by_the_clock", "check sched past_turns_are_no_burden")
            .out_has(&["ok past_turns_are_no_burden"])
            .cpus(3)
            .timeout(300)
            .icount()
            .long(),
        sh("bursts_on_eight_by_the_clock", "check sched a_burst_is_shared").out_has(&["ok a_burst_is_shared"]).cpus(8).timeout(300).icount().long(),
        checks("victims_by_the_clock", "check bad_scheds", &["who_is_ready_goes_on_within_10_ms"]).cpus(1).timeout(900).icount(),
        checks("high_levels_by_the_clock", "check bad_scheds", &["given_up_within_10_ms"]).cpus(2).timeout(900).icount(),
        sh("high_levels_on_one_by_the_clock", "check bad_scheds given_up_within_10_ms")
            .out_has(&["ok given_up_within_10_ms"])
            .cpus(1)
            .timeout(900)
            .icount()
            .long(),
        checks(
            "passing",
            "check passing",
            &[
                "there_and_back",
                "one_switch_for_each_pass",
                "no_wake_up_is_lost_between_processors",
                "a_wake_up_before_its_sleep_counts_here_too",
                "who_calls_again_and_again_is_not_slow",
                "killed_while_put_aside",
                "the_scheduler_goes_while_threads_are_put_aside",
                "who_passes_to_nobody",
                "preempted_in_between",
                "a_stranger_offers_it",
                "return_addresses_that_are_none",
                "late_in_the_scheduler",
            ],
        )
        .timeout(300)
        .placed()
        .spread(),
        checks("a_million", "check passing", &["a_million_switches_by_the_fast_level_alone"]).cpus(1).timeout(240).long().placed_thoroughly(),
        checks(
            "policies",
            "check policies",
            &[
                "shares_refuse_nonsense",
                "terms_of_others_are_refused_by_message_too",
                "deadlines_are_admitted",
                "terms_need_their_policy",
                "terms_outlast_wishes",
                "terms_outlive_their_scheduler",
                "the_highest_priority_stops_nobody",
                "every_policy_under_load",
            ],
        )
        .timeout(400)
        .placed()
        .spread(),
        // Of one processor, by a clock that no host stops.
        checks("time", "check policies", &["who_computes_has_as_much_as_another", "who_calls_the_scheduler_has_no_more"])
            .cpus(1)
            .timeout(240)
            .icount()
            .long(),
        // Where no processor is idle now and then, and nobody has turns elsewhere.
        checks("shares", "check policies", &["shares_are_turns"]).cpus(1).timeout(240),
        // Of several, by a clock that goes on for all of them alike.
        checks("on_each_processor", "check policies", &ON_EACH).cpus(4).icount().timeout(400),
        checks("priorities_on_each_processor", "check sched", &["priorities_order"]).cpus(4).icount().timeout(400).placed(),
        // As many as no power of two has. (On three and seven: below.)
        sh("on_each_of_five", &format!("check policies {} && check sched work_is_shared", ON_EACH[2]))
            .cpus(5)
            .icount()
            .timeout(400)
            .out_has(&[JOBS, "ok work_is_shared"])
            .long(),
        sh("on_each_of_six", &format!("check policies {} && check sched use_and_back work_is_shared", ON_EACH[2]))
            .cpus(6)
            .icount()
            .timeout(400)
            .out_has(&[JOBS, "ok use_and_back", "ok work_is_shared"])
            .long(),
        sh("on_each_of_eight", &format!("check policies {}", ON_EACH[1..].join(" "))).cpus(8).icount().timeout(600).out_has(&[DEADLINES, JOBS]).long(),
        checks("quiet_high_levels", "check sched", &["the_high_level_is_quiet_otherwise"]).cpus(1).timeout(240),
        sh("three_processors", "check sched use_and_back work_is_shared && check policies deadlines_are_admitted")
            .cpus(3)
            .timeout(240)
            .out_has(&["ok use_and_back", "ok work_is_shared", "ok deadlines_are_admitted"]),
        sh("seven_processors", "check sched work_is_shared && check policies deadlines_are_admitted")
            .cpus(7)
            .timeout(400)
            .out_has(&["ok work_is_shared", "ok deadlines_are_admitted"]),
        // A little of everything on each number of processors that the others are not on.
        in_short("in_short_on_three", 3),
        in_short("in_short_on_five", 5).long(),
        in_short("in_short_on_six", 6).long(),
        in_short("in_short_on_seven", 7).long(),
        checks(
            "interrupts",
            "check interrupts",
            &[
                "the_scheduler_calls_the_driver",
                "without_one_its_thread_is_woken",
                "a_level_that_calls_nobody_says_so",
                "no_interrupt_is_lost_when_schedulers_change",
                "an_interrupt_under_load",
            ],
        )
        .timeout(240)
        .spread()
        .placed(),
        checks("urgent", "check interrupts", &["what_is_urgent_waits_for_nobody"]).cpus(1).icount().timeout(400),
        sh("urgent_on_four", "check interrupts what_is_urgent_waits_for_nobody")
            .out_has(&["ok what_is_urgent_waits_for_nobody"])
            .cpus(4)
            .icount()
            .timeout(400),
        // Of a driver that is exclusive, with the schedulers in user mode.
        sh("interrupts_of_an_exclusive_driver", "check interrupts the_scheduler_calls_the_driver an_interrupt_under_load")
            .file(PLACEMENT, "keyboard nsys io\n")
            .out_has(&["ok the_scheduler_calls_the_driver", "ok an_interrupt_under_load"])
            .timeout(240),
        sh("an_exclusive_driver_that_waits", "check bad_drivers a_handler_that_loops a_handler_that_waits")
            .ours("bad-driver", "bin/keyboard")
            .file(PLACEMENT, "keyboard nsys io\n")
            .out_has(&["ok a_handler_that_loops", "ok a_handler_that_waits"])
            .timeout(240),
        // A driver of no class, and how long its messages wait, by the machine's own clock.
        checks("own_driver", "check marks", &["an_interface_of_its_own", "ports_by_light_calls"]).ours("own-driver", "bin/keyboard").timeout(240),
        checks("marks", "check marks", &["seen_in_time"]).ours("own-driver", "bin/keyboard").cpus(1).icount().timeout(900).long(),
        seen_in_time("marks_on_two", 2).long(),
        seen_in_time("marks_on_four", 4).long(),
        checks(
            "bad_drivers",
            "check bad_drivers",
            &[
                "a_handler_that_loops",
                "a_handler_that_sleeps",
                "a_handler_that_waits",
                "a_handler_that_waits_and_is_woken_at_once",
                "a_handler_that_faults",
                "a_handler_that_calls_the_scheduler",
                "a_handler_that_names_threads",
                "a_handler_that_yields",
                "a_driver_that_ends",
            ],
        )
        .ours("bad-driver", "bin/keyboard")
        .timeout(240)
        .spread()
        .placed(),
        // Deadlines are kept in the machine's own time, which here does not go on while the host does something else.
        checks("deadlines", "check policies", &["deadlines_are_met", "priorities_miss_them", "shares_are_time"]).timeout(300).icount(),
        sh(
            "eight_processors",
            "check sched replaced_under_load work_is_shared nobody_starves && check bad_scheds bad_loop && check policies \
             deadlines_are_admitted every_policy_under_load && check floods a_flood_of_priorities \
             && check sched two_switches_by_a_scheduler four_switches_in_the_initial_version && check passing \
             one_switch_for_each_pass no_wake_up_is_lost_between_processors && check bad_scheds a_high_level_that_fails",
        )
        .cpus(8)
        .timeout(900)
        .out_has(&[
            "ok replaced_under_load",
            "ok work_is_shared",
            "ok nobody_starves",
            "ok bad_loop",
            "ok every_policy_under_load",
            "ok a_flood_of_priorities",
            "ok two_switches_by_a_scheduler",
            "ok four_switches_in_the_initial_version",
            "ok one_switch_for_each_pass",
            "ok no_wake_up_is_lost_between_processors",
            "ok a_high_level_that_fails",
        ]),
        sh("threads_under_a_scheduler", THREADS)
            .timeout(240)
            .out_has(&["ok preemption", "ok no_wakeup_is_lost", "ok mutex_excludes", "ok vectors_survive_preemption"])
            .placed()
            .spread(),
        sh("bench", "bench sched").out_has(&["by in-turn: ", "by itc-improved: ", "by itc-improved-by-kernel: ", "by itc-initial: ", "interrupt of 0 bytes by epc-from-scheduler: "]).timeout(240),
        // Rounds for the same number of instructions of all processors: what the host does does not matter.
        sh("jobs_lose_little", "bench jobs --json").cpus(4).icount().timeout(400).out_check(jobs_lose_little).long(),
        sh("shell", "sched; sched use ageing; sched; sched use none; sched; sched use nothing; sched wrong")
            .out_has(&["none: the kernel's round robin", "ageing (fast level: task "])
            .err_has(&["sched: not found", "usage: sched"])
            .status(2).placed_thoroughly(),
    ]
}

/// Two jobs side by side reach nine tenths of what they do alone in the same time, if processors are divided between them, and
/// less if they are not; neither starves.
fn jobs_lose_little(out: &str) -> bool {
    let value = |case: &str, way: &str| {
        let about = format!("\"case\":\"{case}\",");
        let line = out.lines().find(|line| line.contains(&about) && line.contains(&format!("\"way\":\"{way}\"")))?;
        line.split("\"value\":").nth(1)?.split(',').next()?.parse::<u64>().ok()
    };
    let (Some(kept), Some(least), Some(both)) =
        (value("kept", "gang"), value("side-by-side-least", "gang"), value("side-by-side", "gang"))
    else {
        return false;
    };
    // Alone it has as much by the one as by the other: what is kept is not kept of less.
    let [Some(gang), Some(in_turn)] = ["gang", "in-turn"].map(|way| value("alone", way)) else { return false };
    // And nine tenths of what the best of all does alone.
    let ageing = value("alone", "ageing").unwrap_or(u64::MAX / 10);
    gang * 100 >= in_turn * 95
        && kept >= 900
        && both * 10 >= 9 * gang.max(in_turn).max(ageing)
        && least * 5 >= both * 2
        && value("kept", "in-turn").is_some_and(|kept| kept < 900)
        // Of jobs that have always as many threads, wherever they may run.
        && value("kept-fixed", "gang").is_some_and(|kept| kept >= 900)
        // (Who meets asleep takes more by any scheduler outside the kernel than by its round robin.)
        && value("alone-fixed", "gang")
            .zip(value("alone-fixed", "in-turn"))
            .is_some_and(|(gang, in_turn)| gang * 100 >= in_turn * 85)
}

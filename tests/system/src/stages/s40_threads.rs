//! Threads, and time. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "locks",
            "check locks",
            &[
                "a_lock_of_a_killed_thread_ends_its_program",
                "threads_killed_in_the_heap_do_not_stop_it",
                "a_lock_of_a_killed_caller_ends_the_server",
                "a_lock_that_is_held_for_long_is_waited_for",
                "many_threads_take_turns_at_a_lock",
                "a_holder_runs_on_the_turn_of_who_waits",
                "a_lock_left_by_an_unwound_call_ends_the_server",
                "a_lock_is_taken_in_turns_whatever_the_levels",
                "locks_of_a_server_on_its_callers_stack",
            ],
        )
        .timeout(240)
        .placed()
        .spread(),
        checks(
            "together",
            "check together",
            &[
                "rounds_at_a_barrier",
                "a_thread_is_asked_to_end",
                "each_thread_has_its_own",
                "all_begin_or_none",
                "two_hundred_ends_at_once",
                "a_loop_is_done_once_by_all",
                "two_threads_at_one_moment",
            ],
        )
        .timeout(240)
        .placed()
        .spread(),
        sh("matrix", "matrix 48 1; matrix 48 2; matrix 48 7; matrix 0; matrix 48 65; matrix 48 2 x")
            .cpus(2)
            .out_has(&[
                "48 x 48 by 1 thread on 2 processors: ",
                "48 x 48 by 2 threads on 2 processors: ",
                "48 x 48 by 7 threads on 2 processors: ",
            ])
            .out_check(each_product_is_right)
            .err_has(&["usage: matrix [SIZE [THREADS]]"])
            .status(2)
            .placed_thoroughly(),
        checks(
            "looks",
            "check looks",
            &[
                "registers_of_who_runs_and_who_waits",
                "registers_of_a_callee_are_not_shown",
                "registers_are_not_everybodys",
                "functions_have_names",
            ],
        )
        .matrix()
        .placed()
        .spread(),
        checks(
            "threads",
            "check threads",
            &[
                "join_gives_the_code",
                "join_waits_and_times_out",
                "join_refuses",
                "the_list_names_all_threads",
                "kill_a_thread",
                "sleep_takes_its_time",
                "sleep_of_nothing_gives_way",
                "wait_and_wake",
                "wait_refuses",
                "wait_times_out",
                "no_wakeup_is_lost",
                "mutex_excludes",
                "preemption",
                "general_registers_survive_preemption",
                "all_registers_survive_a_call_that_waits",
                "vectors_survive_preemption",
                "floating_point_survives_preemption",
                "task_ends_while_others_are_busy",
                "killed_while_waiting",
                "timers_do_not_pile_up",
                "a_wait_is_of_no_later_section",
                "clocks_go_forward",
                "a_task_is_looked_at_while_its_views_grow",
            ],
        )
        .timeout(240)
        .placed()
        .spread(),
        // K1-33: where the clock counts instructions.
        checks("rouse", "check rouse", &["an_idle_processor_is_roused_in_time"]).cpus(4).icount().timeout(120),
    ]
}

/// The sum of each line is that of the product, by however many threads.
fn each_product_is_right(out: &str) -> bool {
    const SIZE: usize = 48;
    let filled = |seed: u32| -> Vec<u32> {
        let next = |last: &u32| Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        std::iter::successors(Some(seed), next).take(SIZE * SIZE).collect()
    };
    let (a, b) = (filled(3), filled(5));
    let cell = |at: usize| {
        let (row, column) = (at / SIZE, at % SIZE);
        (0..SIZE).fold(0u32, |sum, n| sum.wrapping_add(a[row * SIZE + n].wrapping_mul(b[n * SIZE + column])))
    };
    let sum = (0..SIZE * SIZE).fold(0u32, |sum, at| sum.rotate_left(5) ^ cell(at));
    let right = format!("checksum {sum:08x}");
    out.lines().filter(|line| line.ends_with(&right)).count() == 3
}

//! Posts: messages between threads and programs. From within: see `tests/guest/check`.

use crate::case::{Case, checks, function, sh};
use crate::lab::{Failure, Lab};
use crate::session::Session;
use machine::Options;

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "posts",
            "check posts",
            &[
                "numbers",
                "a_message_says_who_sent_it",
                "receivers_wait_and_are_woken",
                "many_by_one_call",
                "polling_and_time_outs",
                "several_posts",
                "round_trips",
                "questions",
                "two_tasks",
                "without_a_right",
                "a_wait_ends_with_its_right",
                "a_right_comes_and_goes",
                "no_post_by_no_name",
                "what_is_lent_is_reached",
                "no_more_is_lent_than_that",
                "nothing_is_lent_after_the_answer",
                "nothing_is_lent_after_a_time_out",
                "nothing_is_lent_after_a_kill",
                "what_is_lent_in_one_step_with_a_receive",
                "nothing_is_lent_after_its_holders_end",
                "what_is_lent_and_not_touched_costs_nothing",
                "calls_reach_what_is_lent",
                "calls_reach_no_more_than_is_lent",
                "calls_reach_nothing_after_the_answer",
                "calls_reach_nothing_on_other_threads",
                "calls_reach_nothing_after_a_time_out",
                "calls_reach_nothing_after_a_kill",
                "what_is_lent_while_its_sender_goes_on",
                "no_more_is_lent_with_a_plain_message",
                "nothing_is_lent_with_a_plain_message_after_the_answer",
                "nothing_is_lent_with_a_plain_message_after_its_limit",
                "what_is_lent_with_a_plain_message_is_taken_back",
                "nothing_is_lent_with_a_plain_message_after_its_lenders_end",
                "nothing_is_lent_with_a_plain_message_after_its_holders_end",
                "nothing_is_lent_with_a_plain_message_without_its_posts",
                "what_is_lent_with_a_plain_message_costs_nothing",
                "calls_reach_what_is_lent_with_a_plain_message",
                "freed_under_them",
                "a_holder_that_ends",
                "who_ends_with_its_task_receives_nothing",
                "a_flood_is_the_flooders",
                "a_send_keeps_registers",
                "a_receive_leaves_the_message_only",
                "messages_of_many_say_who_sent_them",
                "a_limit_is_the_same_each_time",
                "a_limit_of_what_was_refused_is_over",
                "a_killed_receiver_takes_nothing",
                "a_list_that_changes_is_asked_again",
                "whatever_its_sender_does",
                "a_kill_before_it_goes_on",
                "who_is_ready_beside_plain_messages_has_his_turn",
            ],
        )
        .timeout(400)
        .spread()
        .placed_thoroughly(),
        checks("two_programs", "check two_users", &["a_program_leaves_its_users_others_theirs"])
            .spread()
            .placed_thoroughly(),
        // A small machine, of which there is not so much to take.
        sh("a_user_leaves_others_theirs", "limit sections=60000 threads=3000 check as takes-all")
            .err("taking all there is\ntaking all there is\ntaking all there is\ntaking all there is\n")
            .ours("other-user", "bin/memory")
            .mem("128M")
            .timeout(400)
            .spread()
            .placed_thoroughly(),
        sh("a_user_leaves_others_memory", "limit sections=60000 threads=3000 check as takes-memory")
            .ours("other-user", "bin/memory")
            .mem("128M")
            .timeout(400)
            .spread()
            .placed_thoroughly(),
        sh("who_gives_leaves_others_memory", "limit sections=60000 check as gives-away")
            .ours("other-user", "bin/memory")
            .mem("128M")
            .timeout(400)
            .spread()
            .placed_thoroughly(),
        sh("a_strangers_service", "check as strangers-caller")
            .ours("other-user", "bin/memory")
            .mem("128M")
            .timeout(200)
            .spread()
            .placed_thoroughly(),
        checks(
            "irq",
            "check irq",
            &[
                "to_an_idle_processor",
                "to_an_idle_processor_whoever_decides",
                "to_where_somebody_wants_them",
                "with_room_whatever_others_send",
            ],
        )
        .timeout(300)
        .spread()
        .placed_thoroughly(),
        sh("irq_by_hand", "irq 1 --to 0; irq; irq 1 --to any; irq 9 --to 0; irq 1 --to 64; irq 1 --to x; irq 1 to 2")
            .out_has(&["  1  0! ", "keyboard"])
            .err_has(&["no interrupt 9 with a driver", "no processor 64", "usage: irq [N --to CPU|any]"])
            .status(2)
            .placed_thoroughly(),
        // Where a nanosecond is an instruction, and no other processor's turn is counted in.
        sh(
            "the_kernels_part_of_an_interrupt",
            "check interrupts without_one_its_thread_is_woken an_interrupt_under_load; irq",
        )
        .icount()
        .cpus(1)
        .timeout(300)
        .out_check(|out| its_part_is_short(out, &["keyboard"])),
        function("the_kernels_part_of_typed_bytes", of_typed_bytes),
        checks(
            "hand_over",
            "check hand-over",
            &[
                "nobody_else_enters_the_kernel",
                "the_published_collision_step_by_step",
                "who_was_told_plainly_wastes_one_wake_up_at_most",
            ],
        )
        .timeout(300)
        .spread()
        .placed_thoroughly(),
        // Where nothing depends on the host a few tries are enough: what others had set to happen meanwhile is soon over. (On 16 and 32 processors: s10_boot.)
        sh("hand_over_by_instructions", "check hand-over").icount().cpus(8).timeout(300).out_has(&[
            "ok nobody_else_enters_the_kernel",
            "ok the_published_collision_step_by_step",
            "ok who_was_told_plainly_wastes_one_wake_up_at_most",
        ]),
        sh("hand_over_by_instructions_beside_a_scheduler", "check hand-over-beside")
            .icount()
            .cpus(4)
            .timeout(300)
            .out_has(&["ok nobody_else_notices_beside_a_scheduler"]),
        // A hand-over passes the scheduler by, a plain wake-up does not.
        sh("by_the_improved_scheduler", "sched use ageing && check posts && sched use none")
            .timeout(300)
            .out_has(&["ok round_trips", "ok questions", "ok two_tasks", "ok a_holder_that_ends"])
            .spread()
            .placed_thoroughly(),
    ]
}

/// The longest time that the kernel has spent on one interrupt is told of each driver's, and is no more than 3000 instructions (K1-44). Of these drivers some
/// have come.
fn its_part_is_short(out: &str, drivers: &[&str]) -> bool {
    let longest = |row: &str| {
        let time = row.split_whitespace().nth(5)?;
        match time.strip_suffix("us") {
            Some(us) => us.parse::<f64>().ok().map(|us| us * 1000.0),
            None => time.strip_suffix("ns")?.parse().ok(),
        }
    };
    let is_row = |line: &&str| line.split_whitespace().next().is_some_and(|word| word.parse::<u32>().is_ok());
    let rows: Vec<(&str, Option<f64>)> = out.lines().filter(is_row).map(|row| (row, longest(row))).collect();
    let came = |driver: &&str| rows.iter().any(|(row, ns)| row.ends_with(*driver) && ns.is_some_and(|ns| ns > 0.0));
    rows.iter().all(|(_, ns)| ns.is_some_and(|ns| ns <= 3000.0)) && drivers.iter().all(came)
}

/// The serial line has an interrupt for each byte that is typed; one processor, and a nanosecond is an instruction.
fn of_typed_bytes(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let mut session = Session::start(lab, &["--icount"])?;
    for _ in 0..10 {
        session.line("echo some words", &["some words"])?;
    }
    let from = session.seen();
    session.line("irq", &[])?;
    let told = session.shown_since(from).to_string();
    if !its_part_is_short(&told, &["console"]) {
        return Err(Failure::Failed(format!("a row is too long, or not there:\n{told}")));
    }
    match session.power_off()? {
        Some(0) => Ok(()),
        other => Err(Failure::Failed(format!("./musubi run ended with {other:?} after poweroff"))),
    }
}

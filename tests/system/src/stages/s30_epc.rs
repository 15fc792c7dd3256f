//! Calls into other programs on the same thread. From within: see `tests/guest/check`.

use crate::case::{Case, checks, function, sh};
use crate::debugger::{Debugger, address_of};
use crate::lab::{Failure, Lab};
use crate::session::Session;
use crate::variant::PLACEMENT;
use anyhow::Context;
use machine::Options;
use std::io::Write;

/// Callees and callers end in each way, on numbers of processors that the others are not on.
fn ends_on(name: &'static str, cpus: u32) -> Case {
    let line = "check calls callee_faults callee_exits callee_ends_the_thread callee_is_killed callee_loops_and_is_killed \
                callee_is_deleted callee_loops_and_is_deleted caller_is_killed_in_a_callee";
    sh(name, line).cpus(cpus).timeout(300).out_has(&[
        "ok callee_faults",
        "ok callee_exits",
        "ok callee_ends_the_thread",
        "ok callee_is_killed",
        "ok callee_loops_and_is_killed",
        "ok callee_is_deleted",
        "ok callee_loops_and_is_deleted",
        "ok caller_is_killed_in_a_callee",
    ])
}

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "calls",
            "check calls",
            &[
                "plain_and_bound",
                "who_is_calling",
                "no_scheduler_on_the_way",
                "nested",
                "recursion_ends",
                "recursion_by_bindings_ends",
                "bound_to_oneself",
                "callee_faults",
                "callee_finds_no_memory",
                "callee_exits",
                "callee_ends_the_thread",
                "callee_is_killed",
                "callee_loops_and_is_killed",
                "callee_is_deleted",
                "callee_loops_and_is_deleted",
                "death_in_the_middle_of_a_chain",
                "caller_is_killed_in_a_callee",
                "stacks_are_apart",
                "callers_stack_is_a_hazard",
                "what_a_callee_had_on_its_callers_stack_stays",
                "what_plain_calls_keep_is_nobodys",
                "callbacks_from_the_callers_stack",
                "rebound_in_a_call",
                "return_address_does_not_divert",
                "return_address_on_the_callers_stack",
                "jump_into_the_middle",
                "no_gate_there",
                "gate_taken_back",
                "right_taken_back",
                "pointers_are_checked_first",
                "one_thread_passes_memory_to_many",
                "argument_section",
                "many_threads_one_server",
                "gates_are_limited",
                "binding_takes_what_is_to_be_had",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks(
            "anew",
            "check anew",
            &[
                "who_binds_anew_calls_whom_it_has_bound",
                "nobody_comes_to_lie_where_a_clones_original_was",
                "an_address_that_is_taken_stays_its_owners",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks(
            "lending",
            "check lending",
            &["what_does_not_fit_is_refused_at_once", "many_threads_share_one_argument_section"],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks(
            "texts",
            "check texts",
            &["text_that_changes_while_it_is_passed", "long_text_is_refused_at_once", "a_long_wish_stops_no_scheduler"],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
        checks(
            "registers",
            "check registers",
            &[
                "registers_of_a_bound_call",
                "registers_of_a_direct_call",
                "registers_of_a_direct_return",
                "registers_of_a_plain_call",
                "registers_after_a_fault",
                "registers_after_a_fault_beneath_the_gate",
                "control_words_of_the_caller",
                "nine_arguments",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks("many_deaths", "check deaths", &["ten_thousand_deaths_under_load"]).timeout(600),
        // In some minutes.
        checks("many_programs_end", "check deaths", &["ten_thousand_programs_end_under_load"]).timeout(6000).by_name(),
        checks("deaths", "check deaths", &["thousand_faults_under_load", "hundred_deaths_under_load"])
            .cpus(4)
            .timeout(900)
            .placed_thoroughly(),
        checks(
            "some_deaths",
            "check deaths",
            &["a_server_survives_its_callers_memory", "a_callee_is_told_of_its_callers_end"],
        )
        .spread()
        .timeout(300)
        .placed_thoroughly(),
        checks(
            "faults",
            "check faults",
            &[
                "a_fault_left_unfinished_is_no_other_texts",
                "a_fault_on_the_callers_stack_is_heard",
                "a_fault_of_the_callers_stack_is_heard",
                "a_fault_entry_has_its_time",
                "who_is_late_in_a_server_leaves_it_whole",
                "a_poor_caller_makes_no_server_fault",
                "poor_callers_on_many_threads_make_no_server_fault",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "exceptions",
            "check exceptions",
            &[
                "a_page_fault_is_heard",
                "a_division_by_zero_is_heard",
                "a_single_step_is_heard",
                "a_breakpoint_is_heard",
                "an_overflow_is_heard",
                "an_undefined_instruction_is_heard",
                "a_privileged_instruction_is_heard",
                "an_x87_exception_is_heard",
                "a_vector_exception_is_heard",
                "a_non_canonical_address_is_heard",
                "an_unaligned_vector_is_heard",
                "a_stack_exception_is_heard",
                "instructions_of_the_past_are_heard",
                "exceptions_that_only_supervisor_mode_has",
                "no_other_vector_can_be_asked_for",
                "step_by_step",
                "alignment_is_checked_for_who_wants_it",
                "an_exception_that_waits_harms_nobody_else",
            ],
        )
        .file("etc/placement", "check\n")
        .err_any()
        .spread(),
        function("a_machine_check_is_heard_or_ends_the_program", |lab, _| machine_check(lab, "")),
        function("a_machine_check_in_supervisor_mode_is_heard_or_ends_the_program", |lab, _| {
            machine_check(lab, "spin psys\ncheck psys\n")
        })
        .long(),
        function("a_machine_check_at_an_entry_is_told", at_an_entry),
        function("an_access_that_is_not_aligned_is_heard_by_who_wants_it", not_aligned),
        function("a_vector_exception_of_the_processors_is_heard", vector_exception),
        ends_on("ends_on_three", 3),
        ends_on("ends_on_five", 5),
        ends_on("ends_on_six", 6),
        ends_on("ends_on_seven", 7),
        ends_on("ends_on_eight", 8),
        sh(
            "eight_processors",
            "check deaths thousand_faults_under_load hundred_deaths_under_load a_server_survives_its_callers_memory \
             a_callee_is_told_of_its_callers_end",
        )
        .cpus(8)
        .timeout(900)
        .out_has(&[
            "ok thousand_faults_under_load",
            "ok hundred_deaths_under_load",
            "ok a_server_survives_its_callers_memory",
            "ok a_callee_is_told_of_its_callers_end",
        ])
        .placed_thoroughly(),
        checks(
            "grace",
            "check grace",
            &[
                "a_killed_callers_waits_leave_nothing",
                "a_callee_has_its_time_when_its_callback_ends",
                "who_waits_in_a_server_for_who_has_ended",
                "two_texts_of_a_chain_end",
            ],
        )
        .spread()
        .timeout(300)
        .placed_thoroughly(),
        checks("waits_its_turn", "check deaths", &["a_killed_caller_waits_its_turn"])
            .cpus(1)
            .timeout(400)
            .placed_thoroughly(),
        checks("two_ways_at_once", "check deaths", &["an_end_is_told_when_it_is_over"])
            .cpus(2)
            .timeout(400)
            .placed_thoroughly(),
    ]
}

/// Valid, not corrected, told, with an address; the processor's state is whole. `state`: of the machine check; bit 0: what was interrupted can
/// go on.
pub(super) fn memory_fails(session: &mut Session, state: &str) -> Result<(), Failure> {
    session.keys(&format!("\x1dcmce 0 1 0xb400000000000000 {state} 0x1000 0x0"))?;
    // While the monitor echoes the line, devices wait for it, and so does the kernel if a tick comes then: the check would find it there.
    std::thread::sleep(std::time::Duration::from_millis(500));
    session.keys("\n\x1dc")
}

/// QEMU's monitor says that memory which a program uses has failed. A program with an entry hears of it and goes on, if the processor says that
/// it can; otherwise it ends, as one without does. The machine goes on. `placement`: where programs execute, as the image says it.
fn machine_check(lab: &Lab, placement: &str) -> Result<(), Failure> {
    let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    file.write_all(placement.as_bytes()).context("cannot write a temporary file")?;
    let put = format!("{}:{PLACEMENT}", file.path().display());
    let mut session = Session::start(lab, &["--cpus", "1", "--put", &put])?;
    session.keys("spin\r")?;
    session.expect("spin")?;
    // Until the program has the processor, which is idle otherwise: a machine check there ends the machine.
    std::thread::sleep(std::time::Duration::from_secs(3));
    // A half line: what the kernel says of it stands on a line of its own (SSS-73).
    session.keys("abc")?;
    session.expect("abc")?;
    // Until the kernel has nothing to do for it: there, too, it would be the machine's end.
    std::thread::sleep(std::time::Duration::from_secs(1));
    memory_fails(&mut session, "0x5")?;
    session.expect("\n[")?;
    session.expect("machine check: bank 1")?;
    // What was typed stands in the shell's line now.
    session.expect("abc")?;
    session.keys("\x15")?;
    session.line("echo $?", &["139"])?;
    // It was interrupted, and can go on; it cannot.
    for (state, status) in [("0x5", "0"), ("0x4", "139")] {
        session.keys("check as raise 17 1\r")?;
        session.expect("check as raise 17 1")?;
        std::thread::sleep(std::time::Duration::from_secs(3));
        memory_fails(&mut session, state)?;
        session.expect("machine check: bank 1")?;
        session.line("echo $?", &[status])?;
    }
    session.power_off().map(drop)
}

/// At the first instruction of an entry CS is the kernel's, and GS still the program's (invariant 34; H15).
fn at_an_entry(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let kernel = std::fs::read(&lab.parts().kernel).context("the kernel")?;
    let entry = address_of(&kernel, "syscall_entry")?;
    let mut session = Session::start(lab, &["--cpus", "1"])?;
    let mut debugger = Debugger::attach(&mut session)?;
    session.keys("spin\r")?;
    debugger.run_to(entry)?;
    memory_fails(&mut session, "0x5")?;
    debugger.detach()?;
    session.expect("kernel fault: exception 18")?;
    session.expect(&format!("rip {entry:016x}"))?;
    session.expect("the kernel has stopped")
}

/// The emulator raises no exception for an access that is not aligned, so its debugger has the processor do what one does. A program that wants to
/// hear of it hears, or ends if it mends nothing; one that does not goes on without the flag.
fn not_aligned(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let vectors = vectors(lab)?;
    let mut session = Session::start(lab, &["--cpus", "1"])?;
    raised_by_hand(&mut session, vectors, 17, (18, 1), "")?;
    raised_by_hand(&mut session, vectors, 17, (18, 3), "an access that is not aligned")?;
    let mut debugger = looping(&mut session, 18, 2)?;
    let at = debugger.run_in_user_mode(ALIGNMENT_CHECK)?;
    debugger.raise(vectors, 17)?;
    let goes_on = debugger.run_in_user_mode(0)?;
    debugger.detach()?;
    if goes_on.abs_diff(at) > 16 {
        return Err(Failure::Failed(format!("it was at {at:#x}, and went on at {goes_on:#x}")));
    }
    session.keys("\x03")?;
    session.line("echo $?", &["137"])?;
    session.power_off().map(drop)
}

/// Nor does it raise one for a calculation with vectors. A program with an entry is told, and goes on; one without ends, and what is said of it is what
/// the processor's status says.
fn vector_exception(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let vectors = vectors(lab)?;
    let mut session = Session::start(lab, &["--cpus", "1"])?;
    for _ in 0..2 {
        raised_by_hand(&mut session, vectors, 19, (19, 1), "")?;
        raised_by_hand(&mut session, vectors, 19, (19, 2), "division by zero; MXCSR")?;
    }
    session.power_off().map(drop)
}

/// Where the kernel begins with exceptions.
fn vectors(lab: &Lab) -> Result<u64, Failure> {
    let kernel = std::fs::read(&lab.parts().kernel).context("the kernel")?;
    Ok(address_of(&kernel, "vectors")?)
}

/// The debugger, while a program loops that has set AC, for an exception (`exceptions.rs`): which it is there, and what the program does about it.
fn looping(session: &mut Session, kind: u32, how: u32) -> Result<Debugger, Failure> {
    let line = format!("check as raise {kind} {how}");
    session.keys(&format!("{line}\r"))?;
    session.expect(&line)?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    Debugger::attach(session)
}

/// Such a program has the exception: it ends well, or this is said of its end.
fn raised_by_hand(
    session: &mut Session,
    vectors: u64,
    vector: u64,
    (kind, how): (u32, u32),
    said: &str,
) -> Result<(), Failure> {
    let mut debugger = looping(session, kind, how)?;
    debugger.run_in_user_mode(ALIGNMENT_CHECK)?;
    debugger.raise(vectors, vector)?;
    debugger.detach()?;
    if !said.is_empty() {
        session.expect(said)?;
    }
    session.line("echo $?", &[if said.is_empty() { "0" } else { "139" }])
}

/// AC.
const ALIGNMENT_CHECK: u32 = 0x4_0000;

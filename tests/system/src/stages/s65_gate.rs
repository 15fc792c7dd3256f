//! Attacks on the gate, on keys, and on who is between two programs (docs/decisions/0006). From within: see `attacks` in
//! `tests/guest/check`. Each is named for what it tries, and would succeed if one rule were not kept.

use crate::case::{Case, File, checks, sh};

/// A little of what depends on how many processors there are.
fn in_short(name: &'static str, cpus: u32) -> Case {
    let line = "check races key_of_another_kept_open text_goes_while_threads_cross killed_between_programs \
                && check loans lent_memory_on_a_strangers_thread && check returns return_address_changed_meanwhile \
                && check addresses addresses_of_a_call_that_waits addresses_of_a_line";
    sh(name, line).cpus(cpus).timeout(600).out_has(&[
        // Without keys these two are skipped.
        " key_of_another_kept_open",
        " return_address_changed_meanwhile",
        "ok text_goes_while_threads_cross",
        "ok killed_between_programs",
        "ok lent_memory_on_a_strangers_thread",
        "ok addresses_of_a_call_that_waits",
        "ok addresses_of_a_line",
    ])
}

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "jumps",
            "check jumps",
            &[
                "jumps_in_a_callee_at_anothers_secret",
                "jumps_in_a_callee_at_the_callers_secret",
                "jumps_without_a_call",
                "gates_memory_is_not_to_be_written",
                "no_call_changes_what_the_gate_keeps",
                "index_beyond_32_bits",
                "servers_code_with_own_rights",
            ],
        )
        .timeout(400)
        .matrix(),
        checks(
            "frames",
            "check frames",
            &[
                "return_address_left_above_the_top",
                "call_by_anothers_record",
                "callees_stack_is_as_before",
                "the_gates_key_is_shut",
            ],
        )
        .matrix(),
        checks(
            "returns",
            "check returns",
            &[
                "back_by_every_door",
                "called_back_by_every_door",
                "back_without_a_call",
                "marked_return_addresses",
                "return_address_changed_meanwhile",
                "callers_code_with_callees_rights",
                "own_rights_after_a_return",
            ],
        )
        .matrix(),
        checks("back", "check back", &["back_where_no_call_is", "calls_on_a_stack_that_is_cloned"])
            .timeout(200)
            .no_end_is_final()
            .matrix(),
        checks(
            "state",
            "check state",
            &[
                "state_left_for_the_callee",
                "steps_into_the_kernel",
                "a_stack_that_others_write",
                "a_step_that_ends_at_a_call",
                "flags_are_not_left_to_the_kernel",
                "a_thread_begins_with_its_own_rights",
            ],
        )
        .matrix(),
        checks(
            "segments",
            "check segments",
            &["calls_with_segments_of_ones_own", "segments_that_are_not_to_be_had", "callees_memory_by_fs"],
        )
        .matrix(),
        checks(
            "code",
            "check code",
            &[
                "keys_opened_by_unclear_code",
                "keys_restored_from_memory",
                "code_changed_while_it_is_sealed",
                "code_that_comes_while_it_is_sealed",
                "code_that_the_kernel_writes",
                "a_clone_that_is_sealed_as_it_comes",
                "a_page_that_is_written_while_it_is_shared",
                "hidden_instructions_are_found",
                "reasons_of_the_callee_are_told",
            ],
        )
        .timeout(240)
        .matrix(),
        checks(
            "loans",
            "check loans",
            &[
                "lent_memory_after_the_call",
                "lent_memory_on_a_strangers_thread",
                "lent_memory_after_the_callees_death",
                "lent_on_by_a_server",
                "lent_on_until_the_call_is_over",
                "lent_on_and_taken_back_under_load",
                "a_stack_that_is_lent",
                "lent_memory_lent_on_with_a_message",
                "lent_for_writing_by_who_may_only_read",
            ],
        )
        .matrix(),
        checks(
            "addresses",
            "check addresses",
            &[
                "addresses_of_a_call_that_waits",
                "addresses_lent_on_by_one_who_ends",
                "addresses_that_were_deleted",
                "addresses_that_were_passed",
                "addresses_passed_beside_a_refusal",
                "addresses_passed_with_many_calls",
                "addresses_of_a_line",
                "addresses_of_a_message",
                "addresses_that_are_held",
                "addresses_not_lent_any_more",
            ],
        )
        .matrix(),
        checks("passed", "check passed", &["what_is_passed_is_known_until_it_changes"]).matrix(),
        checks(
            "upcalls",
            "check upcalls",
            &["gates_for_the_kernel_alone", "what_a_guard_calls_is_its_own", "a_personality_calls_not_its_own_gate"],
        )
        .matrix(),
        checks(
            "deputies",
            "check deputies",
            &[
                "every_address_in_the_table_is_tried",
                "kernel_calls_with_a_callees_memory",
                "kernel_calls_with_the_callers_memory",
                "pages_of_others_by_their_addresses",
                "registers_from_anothers_memory_after_a_fault",
                "registers_from_anothers_memory_in_a_window",
            ],
        )
        .matrix(),
        checks(
            "system_deputies",
            "check system_deputies",
            &["the_systems_threads_stay_in_its_texts", "the_systems_calls_with_the_callers_memory"],
        )
        .ours("bad-driver", "bin/keyboard")
        .matrix(),
        checks(
            "secrets",
            "check secrets",
            &[
                "secret_sections_are_in_no_shared_view",
                "a_clone_of_a_secret_is_one",
                "branches_are_forgotten_around_secrets",
                "a_secret_first_touched_in_a_callback",
            ],
        )
        .matrix(),
        checks(
            "sweep",
            "check sweep",
            &[
                "stopped_in_calls_by_the_gate",
                "stopped_in_calls_by_the_gate_and_back_by_the_kernel",
                "stopped_in_calls_by_the_kernel",
                "stopped_in_plain_calls",
                "stopped_in_calls_in_calls",
                "stopped_in_hand_overs",
                "stopped_while_the_processor_is_passed_on",
                "stopped_with_ones_own_rights",
            ],
        )
        .timeout(400)
        .matrix(),
        // With counted instructions an interrupt falls on any of them.
        checks(
            "sweep_exactly",
            "check sweep_exactly",
            &[
                "late_at_each_instruction_of_the_way_back",
                "late_all_through_the_scheduler",
                "late_all_through_a_server",
                "counted_calls_in_calls",
                "counted_calls_by_the_kernel",
                "counted_plain_calls",
                "counted_hand_overs",
                "counted_passing_on",
                "stopped_with_ones_own_rights_counted",
                "callers_hear_in_bounded_time",
            ],
        )
        .icount()
        .timeout(600),
        // Each in a machine of its own: where threads are stopped in the gate is counted from the start.
        checks("stopped", "check stopped", &["stopped_at_each_instruction_of_the_gate"]).icount().timeout(600),
        checks("switched", "check switched", &["switched_at_each_instruction_of_the_gate"]).icount().timeout(600),
        sh("heard_on_two", "check sweep_exactly callers_hear_in_bounded_time")
            .out_has(&["ok callers_hear_in_bounded_time"])
            .cpus(2)
            .icount()
            .timeout(600),
        sh("heard_on_four", "check sweep_exactly callers_hear_in_bounded_time")
            .out_has(&["ok callers_hear_in_bounded_time"])
            .cpus(4)
            .icount()
            .timeout(600),
        checks(
            "races",
            "check races",
            &[
                "more_servers_than_keys",
                "key_of_another_kept_open",
                "lists_that_name_what_never_was",
                "grade_changes_during_calls",
                "code_that_may_be_fetched_no_longer",
                "text_goes_while_threads_cross",
                "its_own_end_is_no_answer",
                "killed_between_programs",
                "others_stay_bound",
                "a_record_of_who_has_ended",
            ],
        )
        .timeout(400)
        .matrix(),
        sh(
            "eight_processors",
            "check races more_servers_than_keys key_of_another_kept_open grade_changes_during_calls \
             code_that_may_be_fetched_no_longer text_goes_while_threads_cross killed_between_programs && check sweep \
             stopped_in_calls_by_the_gate stopped_in_calls_in_calls && check loans lent_memory_on_a_strangers_thread",
        )
        .cpus(8)
        .timeout(900)
        .out_has(&[
            "ok more_servers_than_keys",
            "ok key_of_another_kept_open",
            "ok grade_changes_during_calls",
            // Without keys this one and the last but two are skipped.
            " code_that_may_be_fetched_no_longer",
            "ok text_goes_while_threads_cross",
            "ok killed_between_programs",
            " stopped_in_calls_by_the_gate",
            "ok stopped_in_calls_in_calls",
            "ok lent_memory_on_a_strangers_thread",
        ]),
        // On 1, 2, 4 and 8: all others.
        in_short("in_short_on_three", 3),
        in_short("in_short_on_five", 5),
        in_short("in_short_on_six", 6),
        in_short("in_short_on_seven", 7),
        // A program for Linux may hold any instruction, and finds the gate at the same place.
        // (Without keys there is no such instruction.)
        linux("linux_opens_the_gate", &[OPEN_ALL, &STORE_AT_HEAD, EXIT_7])
            .status(139)
            .status_without_keys(132)
            .matrix(),
        linux("linux_jumps_into_the_gate", &[&OWN_FRAMES, OPEN_ALL, &TO_OWN_FRAMES, EXIT_7])
            .status(139)
            .status_without_keys(132)
            .matrix(),
        linux("linux_calls_from_the_gate", &[&CALL_FROM_THE_GATE]).status(139).matrix(),
        linux("linux_calls_of_the_same_numbers", &[&calls_keep_registers(&SHORT), EXIT_0_BY_HALF, EXIT_7]).matrix(),
    ]
}

/// xor ecx, ecx; xor edx, edx; xor eax, eax; wrpkru.
const OPEN_ALL: &[u8] = &[0x31, 0xc9, 0x31, 0xd2, 0x31, 0xc0, 0x0f, 0x01, 0xef];
/// The pointer to the frame on top becomes 0.
const STORE_AT_HEAD: [u8; 17] =
    [0x48, 0xb8, 0x00, 0x10, 0x00, 0x40, 0x00, 0x40, 0x00, 0x00, 0x48, 0xc7, 0x00, 0, 0, 0, 0];
/// rbx = a page on the stack; two frames in it, at rbx and rbx + 32, with the same record at rbx + 256, whose cell is in the head's page, where nothing else lies: the
/// key that `DONE` has open; in the second one what comes behind all this is the address to return to.
const OWN_FRAMES: [u8; 72] = [
    0x48, 0x8d, 0x9c, 0x24, 0x00, 0xe0, 0xff, 0xff, 0x48, 0x81, 0xe3, 0x00, 0xf0, 0xff, 0xff, 0x48, 0x8d, 0x05, 0x58,
    0x00, 0x00, 0x00, 0x48, 0x89, 0x43, 0x20, 0x48, 0x89, 0x63, 0x28, 0x48, 0x8d, 0x83, 0x00, 0x01, 0x00, 0x00, 0x48,
    0x89, 0x43, 0x30, 0x48, 0x89, 0x43, 0x10, 0x48, 0xb9, 0x00, 0x1c, 0x00, 0x40, 0x00, 0x40, 0x00, 0x00, 0x48, 0x89,
    0x8b, 0x10, 0x01, 0x00, 0x00, 0xc7, 0x83, 0x64, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
];
/// That frame is stored as the one on top; jump to `DONE`.
const TO_OWN_FRAMES: [u8; 29] = [
    0x48, 0x8d, 0x43, 0x20, 0x48, 0xb9, 0x00, 0x10, 0x00, 0x40, 0x00, 0x40, 0x00, 0x00, 0x48, 0x89, 0x01, 0x48, 0xb8,
    0x00, 0x01, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0xff, 0xe0,
];
const EXIT_7: &[u8] = &[0xbf, 7, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
/// mov rax, DONE; jmp rax. No frame below the one on top: s70_linux.rs.
const JUMP_TO_DONE: &[u8] = &[0x48, 0xb8, 0x00, 0x01, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0xff, 0xe0];
/// lea rax, [rip + back]; push rax; mov eax, 0x80; xor edi, edi; xor esi, esi; mov edx, 0x1234; xor r10d, r10d; mov rcx, ENTER + 8; jmp rcx; back:
/// mov edi, 7; cmp edx, 0x1234; jne out; xor edi, edi; out: mov eax, 60; syscall. By the gate's own `syscall`, whose address is no window's, a
/// number that is a light call's: nobody serves it, and that is a fault.
const CALL_FROM_THE_GATE: [u8; 59] = [
    0x48, 0x8d, 0x05, 0x1e, 0x00, 0x00, 0x00, 0x50, 0xb8, 0x80, 0x00, 0x00, 0x00, 0x31, 0xff, 0x31, 0xf6, 0xba, 0x34,
    0x12, 0x00, 0x00, 0x45, 0x31, 0xd2, 0x48, 0xb9, 0x08, 0x02, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0xff, 0xe1, 0xbf,
    0x07, 0x00, 0x00, 0x00, 0x81, 0xfa, 0x34, 0x12, 0x00, 0x00, 0x75, 0x02, 0x31, 0xff, 0xb8, 0x3c, 0x00, 0x00, 0x00,
    0x0f, 0x05,
];

/// Makes each call with arguments for the short ways and others. All registers but rax, rcx and r11 must stay; the status is the number of
/// one that does not.
fn calls_keep_registers(numbers: &[u64]) -> Vec<u8> {
    const RSI: u8 = 6;
    const RDX: u8 = 2;
    const KEPT: [u8; 11] = [3, 5, RDX, RSI, 8, 9, 10, 12, 13, 14, 15];
    let mut code = Vec::new();
    for (number, rdx, rsi) in numbers.iter().flat_map(|number| [(number, 0, 0), (number, -1, 0x1000), (number, 1, 0)]) {
        let value = |register: u8| match register {
            RDX => rdx,
            RSI => rsi,
            other => 0x0bad_0000 + i32::from(other),
        };
        // mov and cmp of a 64-bit register with a value of 32 bits.
        let with = |first: u8, second: u8, register: u8| {
            let operation = [0x48 | register >> 3, first, second | register & 7];
            operation.into_iter().chain(value(register).to_le_bytes())
        };
        // mov edi, 0x400000; mov rax, number; syscall.
        KEPT.iter().for_each(|register| code.extend(with(0xc7, 0xc0, *register)));
        code.extend([0xbf, 0, 0, 0x40, 0, 0x48, 0xb8].into_iter().chain(number.to_le_bytes()).chain([0x0f, 0x05]));
        for register in KEPT {
            code.extend(with(0x81, 0xf8, register));
            // je over it; mov edi, register; mov eax, 60; syscall.
            code.extend([0x74, 12, 0xbf, register, 0, 0, 0, 0xb8, 60, 0, 0, 0, 0x0f, 0x05]);
        }
    }
    code
}

/// Of calls of the kernel's own that have a short way; of Linux they are access, getpeername, ptrace, getuid and others. Then those that have what only a call of a gate
/// has: of Linux getpid, and none.
const SHORT: [u64; 10] = [0x15, 0x34, 0x65, 0x66, 0x81, 0x83, 0x84, 0x85, 0x1_0000_0027, u64::MAX];
/// mov rax, 60, with all else in the upper half, which Linux does not look at; xor edi, edi; syscall.
const EXIT_0_BY_HALF: &[u8] = &[0x48, 0xb8, 60, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x31, 0xff, 0x0f, 0x05];

/// The programs of these, for `/tmp/attack`.
pub fn opens_the_gate() -> Vec<File> {
    attack(&[OPEN_ALL, &STORE_AT_HEAD, EXIT_7])
}

pub fn jumps_into_the_gate() -> Vec<File> {
    attack(&[&OWN_FRAMES, OPEN_ALL, &TO_OWN_FRAMES, EXIT_7])
}

pub fn jumps_to_where_calls_end() -> Case {
    linux("where_calls_end_no_call_is", &[JUMP_TO_DONE]).status(139).matrix()
}

pub fn calls_from_the_gate() -> Vec<File> {
    attack(&[&CALL_FROM_THE_GATE])
}

pub fn calls_of_the_same_numbers() -> Vec<File> {
    attack(&[&calls_keep_registers(&SHORT), EXIT_0_BY_HALF, EXIT_7])
}

fn attack(code: &[&[u8]]) -> Vec<File> {
    vec![File::Made { guest: "/tmp/attack", data: elf(&code.concat()), executable: true }]
}

/// Runs this code as a program for Linux.
fn linux(name: &'static str, code: &[&[u8]]) -> Case {
    sh(name, "/tmp/attack").program("/tmp/attack", elf(&code.concat())).err_any()
}

/// A static program of one segment with this code.
fn elf(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // ET_EXEC, x86-64, version 1.
    file.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    file.extend([BASE + HEADERS, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    // Flags; sizes and counts of headers.
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // PT_LOAD, readable and executable.
    file.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let len = HEADERS + code.len() as u64;
    file.extend([0, BASE, BASE, len, len, 0x1000].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(code);
    file
}

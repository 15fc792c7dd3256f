//! What the gate does, and what both sides of a call find in the processor.

use super::{Rule, also, by_linux, counted, of_keys, rule};
use crate::stages::s65_gate;

pub const RULES: &[Rule] = &[
    // Who is returned to sees to his own rights.
    of_keys(rule(
        "H1",
        "a_return_is_with_the_callers_rights",
        "kernel/arch/src/gate.S",
        ["out_jump:\n", "    mov FRAME+REC(%rbx), %r15\n    mov REGISTER(%r15), %eax\n    wrpkru\nout_jump:\n"],
        ["returns", "own_rights_after_a_return"],
    )),
    of_keys(rule(
        "H1",
        "a_plain_return_is_with_the_callers_rights",
        "kernel/arch/src/gate.S",
        ["    become %r10\n    ldmxcsr 48(%r8)\n", "    ldmxcsr 48(%r8)\n"],
        ["returns", "own_rights_after_a_return"],
    )),
    rule(
        "H2",
        "no_program_chooses_a_segments_base",
        "kernel/arch/src/cpu.rs",
        [
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),",
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),\n                (feature::FSGSBASE, Cr4Flags::FSGSBASE),",
        ],
        ["segments", "segments_that_are_not_to_be_had"],
    ),
    rule(
        "H15",
        "no_step_goes_into_the_kernel",
        "kernel/arch/src/entry.rs",
        ["cpu::wrmsr(SFMASK, 0x0025_7fd5 & !2);", "cpu::wrmsr(SFMASK, 0x0025_7fd5 & !0x102);"],
        ["state", "steps_into_the_kernel"],
    ),
    rule(
        "H15",
        "no_flag_is_left_by_an_interrupt",
        "kernel/arch/src/entry.S",
        [
            "    push $2                                         # no flag is left: DF, and AC, which would open the program's pages to\n    popf                                            # the kernel and which an interrupt, unlike syscall, leaves as it is\n",
            "    cld\n",
        ],
        ["state", "flags_are_not_left_to_the_kernel"],
    ),
    of_keys(rule(
        "H16",
        "nothing_restores_the_key_register",
        "kernel/arch/src/cpu.rs",
        ["XCr0Flags::from_bits_retain(VECTOR_STATE)", "XCr0Flags::from_bits_retain(VECTOR_STATE | 1 << 9)"],
        ["code", "keys_restored_from_memory"],
    )),
    rule(
        "H16",
        "a_callee_begins_with_nothing_in_vectors",
        "kernel/src/epc.rs",
        ["    fpu::scrub(None);\n    count(&here().counters.epc);", "    count(&here().counters.epc);"],
        ["registers", "registers_of_a_bound_call"],
    ),
    // A gate that writes through its caller's stack pointer while keys are open. The jumper's set 11 has rsp = secret + 8 and r10 = BRAND.
    // Calls that the gate cannot make go on as ever: the word is written once more by the `push`, with the caller's rights.
    of_keys(rule(
        "H2",
        "nothing_is_pushed_while_the_gate_is_open",
        "kernel/arch/src/gate.S",
        [
            "in_kernel:                                          # the call has to be made by the kernel: shut, and enter it\n",
            "in_kernel:\n    xor %eax, %eax\n    wrpkru\n    mov %r10, -8(%rsp)\n",
        ],
        ["jumps", "jumps_in_a_callee_at_the_callers_secret"],
    )),
    // A gate that compares the key register with a constant ("not its own key"), not with
    // what the frame on top says. Set 10 (all keys open, POKE) stores to the caller's secret.
    of_keys(rule(
        "H4",
        "the_register_is_that_of_the_callee",
        "kernel/arch/src/gate.S",
        [
            "    cmp REGISTER(%rbx), %eax\n    rule in_register, jne in_trap\n",
            "    cmp $OPEN, %eax\n    rule in_register, je in_trap\n",
        ],
        ["jumps", "jumps_in_a_callee_at_the_callers_secret"],
    )),
    // The gate compares, but with the record that a register leads to: a forged one says "all open" and where to go on.
    of_keys(rule(
        "H2",
        "the_record_is_that_of_the_frame_on_top",
        "kernel/arch/src/gate.S",
        ["    mov REC(%r10), %rbx                             # of his own gets no further\n", "    mov %r11, %rbx\n"],
        ["jumps", "jumps_without_a_call"],
    )),
    // Programs' registers have the gate's key open for stores, as the gate itself.
    of_keys(rule(
        "H2",
        "the_gates_key_is_no_programs",
        "core/keys/src/register.rs",
        ["Key::PUBLIC.open(SHUT, READ_WRITE);", "Key::PUBLIC.open(OPEN, READ_WRITE);"],
        ["jumps", "gates_memory_is_not_to_be_written"],
    )),
    // Whoever names an address where no section is has the memory there: over the gate's code, in the gate's own tables.
    rule(
        "H2",
        "no_memory_is_laid_where_the_gate_is",
        "kernel/src/call.rs",
        [
            "    let section = Section::create(New { len, reserve, kind: wanted, at, room, owner: d.text.owner(), entry, ports: None, live: false })?.made_by(d)?;\n",
            "    let aside = (abi::layout::SPACE_BASE..abi::layout::FIRST_TEXT).contains(&at);\n    let at_or_not = if aside { 0 } else { at };\n    let section = Section::create(New { len, reserve, kind: wanted, at: at_or_not, room, owner: d.text.owner(), entry, ports: None, live: false })?.made_by(d)?;\n    if aside {\n        let made = claim::present(&mut section.state.lock(), 0, true)?;\n        let prot = paging::Prot { write: true, user: true, ..Default::default() };\n        let _ = d.view().map(at, &made.frame, abi::layout::PAGE, prot);\n    }\n",
        ],
        ["jumps", "no_call_changes_what_the_gate_keeps"],
    ),
    // One register for all who are in the view of a task.
    of_keys(rule(
        "H4",
        "each_program_has_its_own_keys",
        "core/keys/src/cache.rs",
        [
            "key.open(register, class.rights(subject))",
            "key.open(register, class.rights(subject) | abi::Rights::READ | abi::Rights::WRITE)",
        ],
        ["jumps", "servers_code_with_own_rights"],
    )),
    // One register for all who are in the view of a task.
    of_keys(rule(
        "H1",
        "a_callee_has_not_the_callers_rights",
        "core/keys/src/cache.rs",
        [
            "key.open(register, class.rights(subject))",
            "key.open(register, class.rights(subject) | abi::Rights::READ | abi::Rights::WRITE)",
        ],
        ["returns", "callers_code_with_callees_rights"],
    )),
    // The frame of a plain call does not say that the kernel made it: who returns from it by the gate comes to no address, in its
    // caller's name, and that ends the caller. (The ordinary way back, by the doorstep, is the long one then.)
    of_keys(rule(
        "H1",
        "the_gate_does_not_return_from_plain_calls",
        "kernel/src/epc.rs",
        ["rip: again() | BY_KERNEL | PLAIN | if", "rip: again() | PLAIN | if"],
        ["returns", "back_by_every_door"],
    )),
    // The first frame is like any other: `gate_return` takes it off by the short way and follows what lies below it. The machine dies
    // (#GP in the kernel at DELTA + 16, which is not canonical).
    rule(
        "H1",
        "the_first_frame_is_not_one_to_return_by",
        "kernel/src/crossing.rs",
        [
            "Frame { rip: BY_KERNEL | MORE, sp: 0, record: address }",
            "Frame { rip: 0 & (BY_KERNEL | MORE), sp: 0, record: address }",
        ],
        ["returns", "back_without_a_call"],
    ),
    // A mark in a return address makes a plain call's frame: the kernel gives back registers that nobody has kept (or panics, where
    // there is no room for them yet: "made before the call").
    of_keys(rule(
        "H2",
        "a_mark_of_the_callers_is_no_plain_call",
        "kernel/src/epc.rs",
        [
            "None if frame.rip & PLAIN != 0 && arch::gate::is_loose(frame.record) => {",
            "None if frame.rip & PLAIN != 0 => {",
        ],
        ["returns", "marked_return_addresses"],
    )),
    // The gate goes back where the caller's stack says. (Marked frames, the kernel's, go by the frame: first calls come back through the
    // gate from one.) The same as a `ret` of the gate's: the word was popped and is still there.
    of_keys(rule(
        "H1",
        "the_return_address_is_in_the_frame",
        "kernel/arch/src/gate.S",
        [
            "out_jump:\n",
            "    cmpq $0, FRAME+RIP(%rbx)\n    js out_jump\n    mov -8(%rsp), %r11\n    shr $40, %r11\n    cmp $0x42, %r11d\n    mov $0, %r11d\n    jne out_jump\n    jmp *-8(%rsp)\nout_jump:\n",
        ],
        ["returns", "return_address_changed_meanwhile"],
    )),
    // A step is the program's wherever it is, in the middle of the gate, too: it sees each instruction of it (14 traps and not 1: status
    // 24, of which the check allows 20).
    of_keys(rule(
        "H15",
        "no_program_steps_through_the_gate",
        "kernel/arch/src/gate/code.rs",
        [
            "if is_gate(rip) || rip & BY_KERNEL != 0 {",
            "if registers.vector != 1 && (is_gate(rip) || rip & BY_KERNEL != 0) {",
        ],
        ["state", "a_step_that_ends_at_a_call"],
    )),
    // The gate finds the frame on top by GS, whose base the kernel sets.
    of_keys(also(
        "kernel/src/sched/out.rs",
        [
            "if inner.domain.in_window { inner.segments } else { (0, 0) };\n    if *segments != wanted {",
            "if inner.domain.in_window { inner.segments } else { (0, abi::gate::GATE_BASE + (1 << 30) + 0x1000) };\n    if wanted != (1, 0) {",
        ],
        rule(
            "H2",
            "the_gate_finds_its_frames_without_gs",
            "kernel/arch/src/gate.S",
            ["    mov TOP(%rip), %rbx\n    mov REC(%rbx), %rbp\n", "    mov %gs:0, %rbx\n    mov REC(%rbx), %rbp\n"],
            ["segments", "calls_with_segments_of_ones_own"],
        ),
    )),
    // A program's segment bases stay for whoever it calls.
    rule(
        "H5",
        "a_personality_has_no_bases_of_its_programs",
        "kernel/src/sched/out.rs",
        ["let wanted = if inner.domain.in_window { inner.segments } else { (0, 0) };", "let wanted = inner.segments;"],
        ["window", "what_a_personality_finds_by_fs"],
    ),
    // A caller chooses the base. The same edit as `no_program_chooses_a_segments_base`.
    rule(
        "H5",
        "no_caller_chooses_what_a_callee_finds_by_fs",
        "kernel/arch/src/cpu.rs",
        [
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),",
            "(feature::UMIP, Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION),\n                (feature::FSGSBASE, Cr4Flags::FSGSBASE),",
        ],
        ["segments", "callees_memory_by_fs"],
    ),
    // The same, told by a program for Linux.
    by_linux(
        s65_gate::opens_the_gate,
        139,
        of_keys(rule(
            "H2",
            "no_program_for_linux_writes_the_gates_state",
            "kernel/arch/src/gate.rs",
            ["true => entry & !WRITE,", "true => entry & !(0 & WRITE),"],
            ["", "linux_opens_the_gate"],
        )),
    ),
    // And that nothing but the gate's own frames is believed by the gate.
    by_linux(
        s65_gate::jumps_into_the_gate,
        139,
        of_keys(rule(
            "H4",
            "no_program_for_linux_makes_frames",
            "kernel/arch/src/gate.rs",
            ["true => entry & !WRITE,", "true => entry & !(0 & WRITE),"],
            ["", "linux_jumps_into_the_gate"],
        )),
    ),
    // Whoever makes a call at an address of the single space is no program in a window.
    by_linux(
        s65_gate::calls_from_the_gate,
        139,
        rule(
            "H14",
            "who_is_in_a_window_is_so_in_the_gate_too",
            "kernel/arch/src/light.S",
            ["    .quad {first_text}\n", "    .quad {first_text} - {first_text}\n"],
            ["", "linux_calls_from_the_gate"],
        ),
    ),
    // Whoever means another call by the number of `gate_return` does not get rdx back.
    by_linux(
        s65_gate::calls_of_the_same_numbers,
        0,
        rule(
            "H12",
            "a_call_of_the_same_number_loses_nothing",
            "kernel/arch/src/gate.S",
            ["out_other:\n    mov %gs:SCRATCH, %rdx\n", "out_other:\n"],
            ["", "linux_calls_of_the_same_numbers"],
        ),
    ),
    // What plain calls keep lies where all that the gate has does.
    of_keys(rule(
        "H1",
        "what_plain_calls_keep_is_the_kernels",
        "kernel/arch/src/gate.rs",
        ["execute: false, user: false, device: false", "execute: false, user: true, device: false"],
        ["calls", "what_plain_calls_keep_is_nobodys"],
    )),
    // What has a bound call's mark in the upper half of the register is none.
    by_linux(
        s65_gate::calls_of_the_same_numbers,
        0,
        rule(
            "H12",
            "a_program_in_a_window_makes_no_bound_call",
            "kernel/arch/src/gate.S",
            [
                "    bt $46, %rcx                                    # a program in a window lies below, and may have anything in the upper half: not even\n    jnc syscall_slow                                # its number is one of these\n",
                "",
            ],
            ["", "linux_calls_of_the_same_numbers"],
        ),
    ),
    // A call that the kernel ends leaves its frame, with its mark, above the top.
    counted(of_keys(rule(
        "H4",
        "a_frame_that_is_off_is_forgotten",
        "kernel/src/crossing.rs",
        ["        (depth..=DEPTH_MAX.min(depth + 1)).for_each(|at| self.gate.forget_frame(at));\n", ""],
        ["sweep_exactly", "late_at_each_instruction_of_the_way_back"],
    ))),
    of_keys(rule(
        "H15",
        "a_step_in_the_gate_is_taken_for_an_interrupt",
        "kernel/src/fault.rs",
        [" || inner.vector == 1 => return,", " => return,"],
        ["state", "a_step_that_ends_at_a_call"],
    )),
    // The window is the whole space.
    rule(
        "H2",
        "the_window_ends_where_the_gate_begins",
        "kernel/src/window.rs",
        ["len == 0 || end > WINDOW_END {", "len == 0 || end > abi::layout::SPACE_END {"],
        ["window", "no_window_reaches_the_gate"],
    ),
    of_keys(rule(
        "H3",
        "a_thread_begins_with_its_programs_keys",
        "core/keys/src/cache.rs",
        [
            "key.open(register, class.rights(subject))",
            "key.open(register, class.rights(subject) | abi::Rights::READ | abi::Rights::WRITE)",
        ],
        ["state", "a_thread_begins_with_its_own_rights"],
    )),
];

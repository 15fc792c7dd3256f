//! Where a thread may be stopped, and what it goes on with.

use super::{Rule, counted, of_keys, rule};

pub const RULES: &[Rule] = &[
    // Who is interrupted in the gate goes on there, with the register that the kernel has set meanwhile. (Faults are left alone.)
    of_keys(rule(
        "H3",
        "who_is_stopped_in_the_gate_begins_again",
        "kernel/arch/src/gate/code.rs",
        [
            "if is_gate(rip) || rip & BY_KERNEL != 0 { self",
            "if (is_gate(rip) || rip & BY_KERNEL != 0) && !(32..256).contains(&registers.vector) { self",
        ],
        ["sweep", "stopped_in_calls_by_the_gate"],
    )),
    // Who is stopped behind the commit begins the whole call again, and crosses twice.
    of_keys(rule(
        "H3",
        "a_call_that_is_made_is_not_made_twice",
        "kernel/arch/src/gate/code.rs",
        ["(p.in_clean, self.frame(depth).record)", "(p.in_open, self.frame(depth).record)"],
        ["sweep", "stopped_in_calls_by_the_gate_and_back_by_the_kernel"],
    )),
    // Who is stopped when the frame is off begins the way back again, and takes off the next one, too.
    of_keys(rule(
        "H3",
        "a_return_that_is_made_is_not_made_twice",
        "kernel/arch/src/gate/code.rs",
        ["(p.out_clean, word(self.head) + FRAME_LEN)", "(p.out_open, word(self.head) + FRAME_LEN)"],
        ["sweep", "stopped_in_calls_in_calls"],
    )),
    // Everybody who is stopped in the gate's page begins the call again: at `again`, too, where the kernel has returned to.
    rule(
        "H3",
        "a_call_that_is_over_is_not_begun_again",
        "kernel/arch/src/gate/code.rs",
        [
            "} else if within(p.in_open..p.in_end) {",
            "} else if within(p.in_open..p.in_end) || rip == p.again && registers.vector < 0x100 {",
        ],
        ["sweep", "stopped_in_calls_by_the_kernel"],
    ),
    // A crossing by the kernel's short way leaves vectors and control words as they are.
    rule(
        "H16",
        "the_short_way_leaves_nothing_in_vectors",
        "kernel/arch/src/gate.S",
        ["1:  incq %gs:CROSSINGS\n    scrub\n", "1:  incq %gs:CROSSINGS\n"],
        ["sweep", "stopped_in_calls_by_the_kernel"],
    ),
    // Whoever is stopped anywhere in the gate's page has rcx, rdx and the flags of one who begins again.
    rule(
        "H3",
        "what_is_outside_of_the_gate_keeps_its_registers",
        "kernel/arch/src/gate/code.rs",
        [
            "            return Stopped::Outside;\n        };\n        (registers.rcx",
            "            Stopped::Outside\n        };\n        (registers.rcx",
        ],
        ["sweep", "stopped_in_plain_calls"],
    ),
    // Who rests in a post when the kernel comes by hears that he was interrupted. (Not who rests without having handed the processor over.)
    rule(
        "K1-28",
        "an_interrupt_ends_no_wait",
        "kernel/src/post/short.rs",
        [
            "    posted || thread.is_killed() || domain.text.is_dead()\n",
            "    let ticket = thread.wait.lock().ticket;\n    if !is_last && !posted {\n        sched::wake(thread, ticket, Err(Error::Killed));\n    }\n    \
             posted || thread.is_killed() || domain.text.is_dead()\n",
        ],
        ["sweep", "stopped_in_hand_overs"],
    ),
    // Who was put aside, and is written down, goes on with nothing but where he was.
    rule(
        "CUBIX-56",
        "who_is_put_aside_keeps_what_a_procedure_keeps",
        "kernel/arch/src/pass.rs",
        [".map(|i| get(&self.kept[i]));", ".map(|i| get(&self.kept[i]) & 0);"],
        ["sweep", "stopped_while_the_processor_is_passed_on"],
    ),
    counted(of_keys(rule(
        "H3",
        "who_is_stopped_at_an_instruction_of_the_gate_begins_again",
        "kernel/arch/src/gate/code.rs",
        [
            "if is_gate(rip) || rip & BY_KERNEL != 0 { self",
            "if (is_gate(rip) || rip & BY_KERNEL != 0) && !(32..256).contains(&registers.vector) { self",
        ],
        ["stopped", "stopped_at_each_instruction_of_the_gate"],
    ))),
    counted(of_keys(rule(
        "H3",
        "who_is_switched_in_the_gate_begins_again",
        "kernel/arch/src/gate/code.rs",
        [
            "if is_gate(rip) || rip & BY_KERNEL != 0 { self",
            "if (is_gate(rip) || rip & BY_KERNEL != 0) && !(32..256).contains(&registers.vector) { self",
        ],
        ["switched", "switched_at_each_instruction_of_the_gate"],
    ))),
    counted(of_keys(rule(
        "H3",
        "a_counted_return_is_not_made_twice",
        "kernel/arch/src/gate/code.rs",
        ["(p.out_clean, word(self.head) + FRAME_LEN)", "(p.out_open, word(self.head) + FRAME_LEN)"],
        ["sweep_exactly", "counted_calls_in_calls"],
    ))),
    counted(rule(
        "H3",
        "a_counted_call_that_is_over_is_not_begun_again",
        "kernel/arch/src/gate/code.rs",
        [
            "} else if within(p.in_open..p.in_end) {",
            "} else if within(p.in_open..p.in_end) || rip == p.again && registers.vector < 0x100 {",
        ],
        ["sweep_exactly", "counted_calls_by_the_kernel"],
    )),
    counted(rule(
        "H3",
        "counted_what_is_outside_of_the_gate_keeps_its_registers",
        "kernel/arch/src/gate/code.rs",
        [
            "            return Stopped::Outside;\n        };\n        (registers.rcx",
            "            Stopped::Outside\n        };\n        (registers.rcx",
        ],
        ["sweep_exactly", "counted_plain_calls"],
    )),
    counted(rule(
        "K1-28",
        "an_interrupt_ends_no_counted_wait",
        "kernel/src/post/short.rs",
        [
            "    posted || thread.is_killed() || domain.text.is_dead()\n",
            "    let ticket = thread.wait.lock().ticket;\n    if !is_last && !posted {\n        sched::wake(thread, ticket, Err(Error::Killed));\n    }\n    \
             posted || thread.is_killed() || domain.text.is_dead()\n",
        ],
        ["sweep_exactly", "counted_hand_overs"],
    )),
    counted(rule(
        "CUBIX-56",
        "who_is_put_aside_keeps_what_a_procedure_keeps_counted",
        "kernel/arch/src/pass.rs",
        [".map(|i| get(&self.kept[i]));", ".map(|i| get(&self.kept[i]) & 0);"],
        ["sweep_exactly", "counted_passing_on"],
    )),
    // The kernel believes that the thread is where it saw it last, when an interrupt comes.
    of_keys(rule(
        "H3",
        "an_interrupted_thread_goes_on_with_the_rights_of_where_it_is",
        "kernel/src/crossing.rs",
        [
            "        self.sync();\n        stopped\n",
            "        if !(32..256).contains(&self.vector) {\n            self.sync();\n        }\n        stopped\n",
        ],
        ["sweep", "stopped_with_ones_own_rights"],
    )),
    counted(of_keys(rule(
        "H3",
        "an_interrupted_thread_goes_on_with_the_rights_of_where_it_is_counted",
        "kernel/src/crossing.rs",
        [
            "        self.sync();\n        stopped\n",
            "        if !(32..256).contains(&self.vector) {\n            self.sync();\n        }\n        stopped\n",
        ],
        ["sweep_exactly", "stopped_with_ones_own_rights_counted"],
    ))),
];

//! Programs that try to stop the kernel (`tests/guest/attack`), or others by what they have from the SDK.

use super::{Rule, also, by_the_shell, of_programs, on, rule};

pub const RULES: &[Rule] = &[
    by_the_shell(
        "attack nested-task; hello",
        &["attack: nested-task: survived", "Hello from"],
        rule(
            "H15",
            "nested_task_is_a_programs_own_flag",
            "kernel/arch/src/context.rs",
            ["const FLAGS_HARMLESS: u64 = 0x25_4100;", "const FLAGS_HARMLESS: u64 = 0x25_0100;"],
            ["", "nested_task"],
        ),
    ),
    by_the_shell(
        "attack clone-resize; hello",
        &["attack: clone-resize: survived", "Hello from"],
        on(
            4,
            also(
                "kernel/src/section/copy.rs",
                ["                new.len = state.len;\n", "                new.len = len;\n"],
                rule(
                    "CUBIX-9",
                    "a_clone_is_as_long_as_its_pages",
                    "kernel/src/section/copy.rs",
                    [
                        "        let made = owner.charge_shared(resident, shared, None)",
                        "        let len = self.state.lock().len;\n        let made = owner.charge_shared(resident, shared, None)",
                    ],
                    ["", "clone_resize"],
                ),
            ),
        ),
    ),
    by_the_shell(
        "attack waits; hello",
        &["attack: waits: survived", "Hello from"],
        rule(
            "waits",
            "a_wait_that_is_over_is_forgotten",
            "kernel/src/wait.rs",
            ["    forget(&thread);\n    let (mut list", "    let (mut list"],
            ["", "waits"],
        ),
    ),
    by_the_shell(
        "attack timers; hello",
        &["attack: timers: survived", "Hello from"],
        rule(
            "waits",
            "a_time_out_goes_with_its_wait",
            "kernel/src/sched.rs",
            ["    cancel(timers);\n    Some(left)", "    let _ = timers;\n    Some(left)"],
            ["", "timers"],
        ),
    ),
    by_the_shell(
        "attack wild-return; hello",
        &["attack: wild-return: survived", "Hello from"],
        rule(
            "H14",
            "whose_fault_it_is_says_the_mode",
            "kernel/arch/src/entry.S",
            [
                "page_fault:\n    cmpl $FETCH_FROM_NOTHING, 8(%rsp)",
                "page_fault:\n    btl $31, 20(%rsp)\n    jc kernel_fault\n    cmpl $FETCH_FROM_NOTHING, 8(%rsp)",
            ],
            ["", "wild_return"],
        ),
    ),
    by_the_shell(
        "attack wild-return; hello",
        &["attack: wild-return: survived", "Hello from"],
        rule(
            "H4",
            "nothing_lies_above_the_deepest_frame",
            "kernel/arch/src/gate/code.rs",
            [
                "if depth < DEPTH_MAX { self.frame(depth + 1).rip }",
                "if depth <= DEPTH_MAX { self.frame(depth + 1).rip }",
            ],
            ["", "wild_return"],
        ),
    ),
    by_the_shell(
        "attack alarm; hello",
        &["attack: alarm: survived", "Hello from"],
        rule(
            "waits",
            "a_turn_ends_with_an_alarm",
            "kernel/src/sched/out.rs",
            ["let quantum = if here.queue.is_empty()", "let quantum = if true || here.queue.is_empty()"],
            ["", "alarm"],
        ),
    ),
    by_the_shell(
        "attack sections; hello",
        &["attack: making sections", "Hello from"],
        rule(
            "quotas",
            "who_makes_sections_pays_for_them",
            "kernel/src/section.rs",
            [
                concat!(
                    "        spare_heap_for(&new.owner)?;\n",
                    "        let is_post = new.kind == kind::POST;\n",
                    "        let beside = (new.at != 0 && !is_post).then(|| Hold::beside(&new.owner, new.at, reserve)).transpose()?;\n",
                    "        // Sections in one range each pay for the whole range: any of them alone keeps it.\n",
                    "        let charged_reserve = beside.as_ref().map_or(reserve + room, |hold| hold.extent.len);\n",
                    "        new.owner.charge(Resource::Sections, 1)?;\n",
                    "        let undo_section = || new.owner.release(Resource::Sections, 1);\n",
                    "        new.owner.charge(Resource::Reserve, charged_reserve).inspect_err(|_| undo_section())?;\n",
                ),
                concat!(
                    "        let _ = spare_heap_for(&new.owner);\n",
                    "        let is_post = new.kind == kind::POST;\n",
                    "        let beside = (new.at != 0 && !is_post).then(|| Hold::beside(&new.owner, new.at, reserve)).transpose()?;\n",
                    "        // Sections in one range each pay for the whole range: any of them alone keeps it.\n",
                    "        let charged_reserve = beside.as_ref().map_or(reserve + room, |hold| hold.extent.len);\n",
                    "        let undo_section = || new.owner.release(Resource::Sections, 1);\n",
                ),
            ],
            ["", "sections"],
        ),
    ),
    by_the_shell(
        "attack tasks; hello",
        &["attack: making tasks", "Hello from"],
        rule(
            "quotas",
            "who_makes_tasks_pays_for_them",
            "kernel/src/call.rs",
            [
                "    spare_heap_for(&payer)?;\n    maker.makes();\n    let task = Task::create(Some(&payer), maker",
                "    let is_own = payer.number == maker.number;\n    let _ = spare_heap_for(&payer);\n    maker.makes();\n    let task = Task::create(if is_own { None } else { Some(&payer) }, maker",
            ],
            ["", "tasks"],
        ),
    ),
    by_the_shell(
        "attack chunks; hello",
        &["attack: touching pages", "Hello from"],
        rule(
            "quotas",
            "some_of_the_heap_is_spared",
            "kernel/src/promise.rs",
            ["    if has_room { Ok(()) }", "    if true || has_room { Ok(()) }"],
            ["", "chunks"],
        ),
    ),
    by_the_shell(
        "attack copies; hello",
        &["attack: a clone of", "Hello from"],
        rule(
            "quotas",
            "a_clones_own_list_of_pages_takes_memory",
            "kernel/src/claim.rs",
            [
                "    spare_heap_for_page(state)?;\n    let State {",
                "    if state.pages.get(page).is_none() {\n        spare_heap_for_page(state)?;\n    }\n    let State {",
            ],
            ["", "copies"],
        ),
    ),
    by_the_shell(
        "attack holes; hello",
        &["attack: stopped after ", "Hello from"],
        rule(
            "quotas",
            "some_of_the_heap_is_put_by",
            "kernel/arch/src/heap.rs",
            [
                "        if object.is_some() {\n            return object;\n        }\n        if has_room",
                "        if true {\n            return object;\n        }\n        if has_room",
            ],
            ["", "holes"],
        ),
    ),
    by_the_shell(
        "attack early_end; hello",
        &["attack: early_end: survived", "Hello from"],
        rule(
            "ends",
            "a_stack_may_be_gone_before_it_is_made",
            "kernel/src/claim.rs",
            [
                "    if state.deleted || offset + bytes.len() as u64 > state.len {",
                "    if false && offset + bytes.len() as u64 > state.len {",
            ],
            ["", "early_end"],
        ),
    ),
    by_the_shell(
        "attack mappings; hello",
        &["attack: making mappings", "Hello from"],
        rule(
            "quotas",
            "parts_of_a_mapping_take_memory",
            "kernel/src/window.rs",
            [
                "    if is_within(&task.window.lock().aliases) {",
                "    if false && is_within(&task.window.lock().aliases) {",
            ],
            ["", "mappings"],
        ),
    ),
    by_the_shell(
        "attack kernel-jump; hello",
        &["Hello from"],
        rule(
            "H14",
            "whose_jump_it_is_says_the_mode",
            "kernel/arch/src/entry.S",
            [
                "page_fault:\n    cmpl $FETCH_FROM_NOTHING, 8(%rsp)",
                "page_fault:\n    btl $31, 20(%rsp)\n    jc kernel_fault\n    cmpl $FETCH_FROM_NOTHING, 8(%rsp)",
            ],
            ["", "kernel_jump"],
        ),
    ),
    by_the_shell(
        "attack reuse; echo status $?; hello",
        &["status 139", "Hello from"],
        rule(
            "CUBIX-11",
            "a_section_that_is_no_more_is_in_no_view",
            "kernel/src/view/mapped.rs",
            [
                "            view.known.lock().remove(&[section.base, mapping.at, mapping.offset, mapping.len]);\n",
                "            let _ = (&view, mapping.at);\n",
            ],
            ["", "reuse"],
        ),
    ),
    of_programs(rule(
        "H14",
        "a_guard_calls_what_it_was_sealed_for",
        "sdk/rt/src/guard.rs",
        [
            "        if head.seal.load(Ordering::SeqCst) != sealed || !is_taken() {\n            return Values::of(Err(Error::Denied));\n        }\n",
            "        let _ = (sealed, is_taken);\n",
        ],
        ["upcalls", "what_a_guard_calls_is_its_own"],
    )),
];

//! Who may use which memory, and until when.

use super::{Rule, also, by_a_driver, rule};

pub const RULES: &[Rule] = &[
    rule(
        "SSS-59",
        "the_kernel_tells_the_memory_server",
        "kernel/src/pressure.rs",
        ["    if news.is_some() {", "    if false && news.is_some() {"],
        ["giving", "the_kernel_says_that_memory_is_short"],
    ),
    // What was called by somebody who ends knows nothing of it any more.
    rule(
        "CUBIX-18",
        "who_ends_begins_nothing",
        "kernel/src/sched.rs",
        [
            "            if !ends {\n                if thread.falls",
            "            if true {\n                if thread.falls",
        ],
        ["parts", "who_ends_begins_no_signals_program"],
    ),
    rule(
        "H9",
        "strangers_page_nothing_in_a_call",
        "kernel/src/pager.rs",
        ["    !in_call || Arc::ptr_eq(text, &domain.text)", "    true || Arc::ptr_eq(text, &domain.text)"],
        ["strangers", "a_clients_pager_beneath_a_server"],
    ),
    rule(
        "K1-U1",
        "no_name_has_no_permit",
        "core/post/src/face.rs",
        ["kept.name.store(nowhere(at), ", "kept.name.store(0 * nowhere(at), "],
        ["posts", "no_post_by_no_name"],
    ),
    rule(
        "H10",
        "arguments_are_lent_to_one_task",
        "kernel/src/gate.rs",
        ["lent(principal::TASK, task, target)", "lent(principal::ANY, 0, target)"],
        ["loans", "lent_memory_on_a_strangers_thread"],
    ),
    rule(
        "H10",
        "what_is_lent_on_is_taken_back",
        "kernel/src/gate/lent.rs",
        ["        if self.take_back(task) {", "        if false && self.take_back(task) {"],
        ["loans", "lent_on_until_the_call_is_over"],
    ),
    // A callee's own thread has what its caller lends for calls, by a message that was sent in one.
    rule(
        "H10",
        "a_call_lends_nothing_that_outlives_it",
        "kernel/src/post.rs",
        ["if d.number == OWN { sender }", "if true || d.number == OWN { sender }"],
        ["loans", "lent_memory_lent_on_with_a_message"],
    ),
    also(
        "kernel/src/post/loan.rs",
        ["let is_used = question.is_loan()", "let is_used = false && question.is_loan()"],
        rule(
            "H11",
            "nobody_writes_to_a_stack_that_is_lent",
            "kernel/src/post/loan.rs",
            ["&& is_stack(range.address))", "&& false && is_stack(range.address))"],
            ["loans", "a_stack_that_is_lent"],
        ),
    ),
    rule(
        "H14",
        "nobody_lends_more_than_he_may",
        "kernel/src/post/loan.rs",
        ["loan.range.rights & most & state.acl.rights(&loan.from)", "loan.range.rights & most"],
        ["loans", "lent_for_writing_by_who_may_only_read"],
    ),
    // All views lose what somebody lends who has no right to, as often as he likes.
    rule(
        "H14",
        "what_a_loan_does_not_give_is_not_taken_back",
        "core/post/src/question.rs",
        ["        gives(&loan)?;\n", ""],
        ["loans", "lent_for_writing_by_who_may_only_read"],
    ),
    rule(
        "H10",
        "addresses_of_a_call_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["begins || is_held || lent.into_iter()", "is_held || false && lent.into_iter()"],
        ["addresses", "addresses_of_a_call_that_waits"],
    ),
    rule(
        "H10",
        "addresses_that_a_server_holds_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["begins || is_held ||", "begins ||"],
        ["addresses", "addresses_of_a_line"],
    ),
    rule(
        "H10",
        "only_what_is_lent_is_held",
        "kernel/src/gate/lent.rs",
        ["state.lent_by.as_ref().is_some_and(|binding| Arc::ptr_eq(&binding.target, text));", "true;"],
        ["addresses", "addresses_not_lent_any_more"],
    ),
    rule(
        "H10",
        "a_binding_goes_with_its_arguments",
        "kernel/src/section/end.rs",
        ["lent_by.iter().for_each(|binding| _ = binding.end());", ""],
        ["addresses", "addresses_that_were_deleted"],
    ),
    rule(
        "H11",
        "one_thread_writes_a_stack",
        "kernel/src/section/access.rs",
        ["        if may_write && state.stack", "        if false && may_write && state.stack"],
        ["state", "a_stack_that_others_write"],
    ),
    rule(
        "H14",
        "the_kernel_asks_the_list_of_who_calls",
        "kernel/src/claim.rs",
        [
            "match ::view::decide(state.acl.rights(&domain.subject), place.section.kind(), access, place.window)",
            "match ::view::decide(Rights::all(), place.section.kind(), access, place.window)",
        ],
        ["deputies", "kernel_calls_with_a_callees_memory"],
    ),
    // What somebody is lent is his, whatever it is lent for.
    rule(
        "H14",
        "the_kernel_does_no_more_than_is_lent",
        "kernel/src/claim.rs",
        [
            "    let rights = state.acl.rights(&domain.subject) | lent;",
            "    let rights = if lent.is_empty() { lent } else { Rights::all() };",
        ],
        ["posts", "calls_reach_no_more_than_is_lent"],
    ),
    // A message's receiver is a program.
    rule(
        "H14",
        "what_a_thread_is_lent_is_no_other_threads",
        "core/post/src/question.rs",
        [
            "self.holder_of(question).filter(|one| *one == holder)?;",
            "self.holder_of(question).filter(|one| one.domain == holder.domain)?;",
        ],
        ["posts", "calls_reach_nothing_on_other_threads"],
    ),
    rule(
        "ends",
        "what_was_touched_is_taken_back",
        "core/post/src/question.rs",
        [
            "        self.touch(question, word)?;",
            "        if false {\n            self.touch(question, word)?;\n        }",
        ],
        ["posts", "nothing_is_lent_after_the_answer"],
    ),
    rule(
        "H10",
        "addresses_that_were_passed_are_nobodys",
        "kernel/src/section/passers.rs",
        [
            "self.depth() >= depth && self.gate.frame(depth).record == record",
            "self.depth() >= depth && false && record == depth as u64",
        ],
        ["addresses", "addresses_that_were_passed"],
    ),
    rule(
        "H10",
        "only_the_system_comes_in_there",
        "kernel/src/gate.rs",
        ["|| is_scheduler() {", "|| is_scheduler() || true {"],
        ["upcalls", "gates_for_the_kernel_alone"],
    ),
    rule(
        "H10",
        "nobody_has_anything_started_there",
        "kernel/src/mbcf/signal.rs",
        ["block.flags & flag::CALLED_UP == 0;", "block.flags & flag::CALLED_UP == 0 || true;"],
        ["upcalls", "gates_for_the_kernel_alone"],
    ),
    rule(
        "H10",
        "the_systems_servers_do_not_come_in_there",
        "kernel/src/gate.rs",
        ["|| is_scheduler() {", "|| is_scheduler() || caller.text.owner().user == abi::task::USER_SYSTEM {"],
        ["upcalls", "a_personality_calls_not_its_own_gate"],
    ),
    rule(
        "H10",
        "nobody_else_comes_in_at_a_pagers_gate",
        "kernel/src/gate.rs",
        ["{ Err(Error::BadArgument) } else { Ok(()) }", "{ _ = Error::BadArgument; Ok(()) } else { Ok(()) }"],
        ["upcalls", "gates_for_the_kernel_alone"],
    ),
    rule(
        "H10",
        "an_answer_goes_with_its_note",
        "kernel/src/claim/passed.rs",
        ["take_if(|passed| passed.call != call)", "take_if(|passed| false && passed.call != call)"],
        ["addresses", "addresses_passed_beside_a_refusal"],
    ),
    rule(
        "H10",
        "calls_that_are_not_counted_are_known",
        "kernel/src/section/passers.rs",
        [
            "    uncounted.insert(depth, (record, UNCOUNTED.fetch_add(1, Ordering::SeqCst)));\n",
            "    let _ = (record, &uncounted);\n",
        ],
        ["addresses", "addresses_passed_with_many_calls"],
    ),
    rule(
        "H14",
        "who_gives_a_page_has_it",
        "kernel/src/section/supply.rs",
        [
            "    let rights = if copy { Rights::READ } else { Rights::READ | Rights::WRITE };\n",
            "    let _ = copy;\n    let rights = Rights::empty();\n",
        ],
        ["deputies", "pages_of_others_by_their_addresses"],
    ),
    by_a_driver(rule(
        "H14",
        "the_systems_threads_stay_in_its_texts",
        "kernel/src/thread.rs",
        [
            "        if self.task.user == USER_SYSTEM && owner",
            "        if false && self.task.user == USER_SYSTEM && owner",
        ],
        ["system_deputies", "the_systems_threads_stay_in_its_texts"],
    )),
    rule(
        "CUBIX-9",
        "an_original_keeps_its_address",
        "kernel/src/section/copy.rs",
        ["                    clone.kept_original.call_once(|| Kept::at(self.original()));\n", ""],
        ["anew", "nobody_comes_to_lie_where_a_clones_original_was"],
    ),
    rule(
        "CUBIX-11",
        "a_bindings_number_is_free_when_nothing_leads_there",
        "kernel/src/gate.rs",
        ["            self.target.unbound(&text, self.number);\n", ""],
        ["anew", "who_binds_anew_calls_whom_it_has_bound"],
    ),
    // The callee's own thread is of the same user: with this it may at any time what its caller prepares (first `LOOK`).
    rule(
        "H10",
        "arguments_are_lent_to_a_task_and_not_to_its_user",
        "kernel/src/gate.rs",
        [
            "section.set_entry(&lent(principal::TASK, task, target))",
            "section.set_entry(&lent(principal::USER, domain.text.owner().user | task & 0, target))",
        ],
        ["loans", "lent_memory_after_the_call"],
    ),
    // Nothing of the callee's is looked for when it ends: its name stays in its callers' lists, for whoever comes to lie there.
    rule(
        "H10",
        "what_is_lent_ends_with_the_callees_text",
        "kernel/src/text.rs",
        ["let change = state.acl.forget_text(text.base);", "let change = state.acl.forget_text(1);"],
        ["loans", "lent_memory_after_the_callees_death"],
    ),
    // What a server lends on is the called program's on its own threads, too.
    rule(
        "H10",
        "what_is_lent_on_is_lent_to_one_task",
        "kernel/src/gate/lent.rs",
        [
            "let entry = lent(principal::TASK, task, &self.target);",
            "let entry = lent(principal::ANY, task & 0, &self.target);",
        ],
        ["loans", "lent_on_by_a_server"],
    ),
    // It is taken back, and those who have called go on calling without the kernel. (Of persons' programs only: the system's servers lend on,
    // too, and without them nothing could be started to try it.)
    rule(
        "H10",
        "who_calls_asks_again_when_it_was_taken_back",
        "kernel/src/gate/lent.rs",
        [
            "            if let Some(record) = self.record(inner) {",
            "            if let Some(record) = self.record(inner).filter(|_| self.target.owner().user == abi::task::USER_SYSTEM) {",
        ],
        ["loans", "lent_on_and_taken_back_under_load"],
    ),
    // Only threads of the task that has bound are looked at, not those for which it was lent on.
    rule(
        "H10",
        "addresses_that_were_lent_on_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["lent.into_iter().any(", "lent.into_iter().filter(|task| *task == self.task).any("],
        ["addresses", "addresses_lent_on_by_one_who_ends"],
    ),
    rule(
        "H10",
        "a_callee_that_went_wrong_keeps_nothing",
        "kernel/src/gate/lent.rs",
        [
            "if !self.take_back(task) && task == self.task",
            "if task != self.task && !self.take_back(task) && task == self.task",
        ],
        ["loans", "lent_memory_after_the_call"],
    ),
    // (The piece of `addresses_that_a_server_holds_are_nobody_elses`, told by the other way to hold.)
    rule(
        "H10",
        "addresses_of_a_request_are_nobody_elses",
        "kernel/src/gate/lent.rs",
        ["begins || is_held ||", "begins ||"],
        ["addresses", "addresses_of_a_message"],
    ),
    // The other half of the same check: holders are never counted down.
    rule(
        "H10",
        "what_nobody_holds_any_more_is_free",
        "kernel/src/gate/lent.rs",
        ["section.state.lock().holders -= 1);", "section.state.lock().holders -= 0);"],
        ["addresses", "addresses_of_a_message"],
    ),
    // A request names whose memory it means: without a look at that, what lies there by now is anybody's.
    rule(
        "H10",
        "what_is_held_is_his_who_is_said_to_have_lent_it",
        "kernel/src/gate/lent.rs",
        ["&& state.owner.number == owner && len", "&& (true || state.owner.number == owner) && len"],
        ["addresses", "addresses_that_are_held"],
    ),
    // What was found is believed although the list has changed.
    rule(
        "H10",
        "what_is_passed_is_known_as_long_as_its_list_stays",
        "kernel/src/claim/passed.rs",
        ["&& self.seen.is_as_before()", "&& (true || self.seen.is_as_before())"],
        ["passed", "what_is_passed_is_known_until_it_changes"],
    ),
    // What one caller may pass, the next one may: told by `callers` of the same check.
    rule(
        "H10",
        "what_one_caller_may_pass_another_may_not",
        "kernel/src/claim/passed.rs",
        ["    if !passed.call.is_on_top(inner) {", "    if false && !passed.call.is_on_top(inner) {"],
        ["passed", "what_is_passed_is_known_until_it_changes"],
    ),
    // A task's memory is its threads', in whatever text they are: as where a process owns its memory.
    rule(
        "H14",
        "a_tasks_memory_is_not_all_its_threads_texts",
        "kernel/src/claim.rs",
        [
            "    match ::view::decide(state.acl.rights(&domain.subject), place.section.kind(), access, place.window)",
            "    let own = if state.owner.number == domain.subject.task { Rights::all() } else { Rights::empty() };\n    match ::view::decide(state.acl.rights(&domain.subject) | own, place.section.kind(), access, place.window)",
        ],
        ["deputies", "kernel_calls_with_the_callers_memory"],
    ),
    // Registers are read with the rights of whatever program the thread has been in.
    rule(
        "H14",
        "a_faults_frame_is_read_with_its_texts_rights",
        "kernel/src/fault/own.rs",
        [
            "    let frame: Stopped = claim::read_record(domain, at)?;",
            "    let all: alloc::vec::Vec<_> = thread.inner.lock().domains.iter().flatten().cloned().collect();\n    let by_any = |error| all.iter().find_map(|domain| claim::read_record(domain, at).ok()).ok_or(error);\n    let frame: Stopped = claim::read_record(domain, at).or_else(by_any)?;",
        ],
        ["deputies", "registers_from_anothers_memory_after_a_fault"],
    ),
    // The same of `foreign_start`.
    rule(
        "H14",
        "a_windows_registers_are_read_with_the_personalitys_rights",
        "kernel/src/foreign.rs",
        [
            "            let frame: Frame = claim::read_record(domain, frame)?;",
            "            let all: alloc::vec::Vec<_> = here().current().inner.lock().domains.iter().flatten().cloned().collect();\n            let by_any = |error| all.iter().find_map(|domain| claim::read_record(domain, frame).ok()).ok_or(error);\n            let frame: Frame = claim::read_record(domain, frame).or_else(by_any)?;",
        ],
        ["deputies", "registers_from_anothers_memory_in_a_window"],
    ),
    // What a text of the system's asks for is not asked about. (`try_lock`: the section's lock is held here, and may be the text's.)
    by_a_driver(rule(
        "H14",
        "the_systems_texts_are_asked_about_as_all_are",
        "kernel/src/claim.rs",
        [
            "    match ::view::decide(state.acl.rights(&domain.subject), place.section.kind(), access, place.window)",
            "    let is_trusted = domain.text.state.try_lock().is_some_and(|text| text.owner.user == USER_SYSTEM);\n    let rights = if is_trusted { Rights::all() } else { state.acl.rights(&domain.subject) };\n    match ::view::decide(rights, place.section.kind(), access, place.window)",
        ],
        ["system_deputies", "the_systems_calls_with_the_callers_memory"],
    )),
    // The same of a pager for all that a task's threads touch.
    rule(
        "H9",
        "a_tasks_pager_pages_nothing_in_a_call",
        "kernel/src/pager.rs",
        ["    !in_call || Arc::ptr_eq(text, &domain.text)", "    true || Arc::ptr_eq(text, &domain.text)"],
        ["strangers", "a_tasks_pager_beneath_a_server"],
    ),
];

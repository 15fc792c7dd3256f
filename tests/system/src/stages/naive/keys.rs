//! Keys, code that is fetched, and secrets.

use super::{Rule, of_keys, on, rule, without_keys};

pub const RULES: &[Rule] = &[
    of_keys(on(
        2,
        rule(
            "H3",
            "where_no_call_is_no_frame_is_looked_at",
            "kernel/src/keyed.rs",
            ["        self.seen.1 = u64::MAX;", "        self.seen.0 = usize::MAX;"],
            ["back", "back_where_no_call_is"],
        ),
    )),
    of_keys(rule(
        "H3",
        "who_has_a_key_open_hears_that_it_is_anothers",
        "kernel/src/keyed.rs",
        ["                self.tell(leaving.class());\n                self.clear", "                self.clear"],
        ["races", "key_of_another_kept_open"],
    )),
    // It is as it should be, and nobody who tells of keys knows of it.
    of_keys(rule(
        "H3",
        "a_record_that_is_taken_again_is_known_to_lead_there",
        "kernel/src/crossing.rs",
        ["                    self.leads.insert(&thread.task, record.domain, address);\n", ""],
        ["races", "a_record_of_who_has_ended"],
    )),
    of_keys(rule(
        "H6",
        "nobody_writes_what_is_looked_through",
        "kernel/src/text.rs",
        [
            "                view::leave_all(self);\n                Looked::default()",
            "                Looked::default()",
        ],
        ["code", "code_changed_while_it_is_sealed"],
    )),
    of_keys(rule(
        "H6",
        "unclear_code_has_no_keys",
        "kernel/src/text.rs",
        ["if !summary.is_clear() || looked.before", "if looked.before"],
        ["code", "keys_opened_by_unclear_code"],
    )),
    rule(
        "H6",
        "what_the_kernel_writes_is_nobodys",
        "kernel/src/section/supply.rs",
        [
            "    let mut state = source.lock(by, rights)?;\n    if source.section.live {\n",
            "    let mut state = source.lock(by, rights)?;\n    if false {\n",
        ],
        ["code", "code_that_the_kernel_writes"],
    ),
    rule(
        "H6",
        "a_clone_without_pages_becomes_no_text",
        "kernel/src/section/copy.rs",
        [" || new.len > 0 || new.sealing || new.cloning || new.paged", " || new.len > 0 || new.paged"],
        ["code", "a_clone_that_is_sealed_as_it_comes"],
    ),
    of_keys(rule(
        "H6",
        "a_mapping_takes_no_right_to_write",
        "core/paging/src/entry.rs",
        ["Some(if keeps { Entry", "Some(if keeps && old.0 == 0 { Entry"],
        ["code", "a_page_that_is_written_while_it_is_shared"],
    )),
    rule(
        "H6",
        "what_comes_late_does_not_come_to_a_text",
        "kernel/src/section/supply.rs",
        [
            "        if self.section.kind() != kind::DATA {\n            return Err(Error::NotSupported);\n        }\n        if self.page",
            "        if self.page",
        ],
        ["code", "code_that_comes_while_it_is_sealed"],
    ),
    of_keys(rule(
        "H7",
        "borders_of_pages_are_searched",
        "kernel/src/text.rs",
        [" || looked.before.is_some_and(|before| scan::borders(before, summary))", ""],
        ["code", "hidden_instructions_are_found"],
    )),
    of_keys(rule(
        "H17",
        "a_secret_is_in_no_shared_view",
        "kernel/src/keyed.rs",
        [
            "        if section.is_secret() {\n            domain.secret",
            "        if section.base == 0 {\n            domain.secret",
        ],
        ["secrets", "secret_sections_are_in_no_shared_view"],
    )),
    rule(
        "H17",
        "branches_are_forgotten",
        "kernel/src/secret.rs",
        ["    cpu::forget_branches();\n    count(&here.counters.barriers);", ""],
        ["secrets", "branches_are_forgotten_around_secrets"],
    ),
    // Whoever may read a secret could have the same pages in a view that all share.
    rule(
        "H17",
        "a_secrets_clone_is_a_secret",
        "kernel/src/section/copy.rs",
        ["                clone.secret.store(self.is_secret(), Ordering::Release);\n", ""],
        ["secrets", "a_clone_of_a_secret_is_one"],
    ),
    // Who came first keeps the keys.
    of_keys(rule(
        "H3",
        "a_key_goes_to_who_has_earned_it",
        "core/keys/src/cache.rs",
        [
            "let Some(uses) = uses else { return Want::None };",
            "let Some(uses) = uses.filter(|_| false) else { return Want::None };",
        ],
        ["races", "more_servers_than_keys"],
    )),
    // Pages keep a key that is another's by now.
    of_keys(rule(
        "H3",
        "a_key_leaves_all_pages_before_another_has_it",
        "kernel/src/keyed.rs",
        ["                self.clear(leaving.key());\n", "                let _ = Self::clear;\n"],
        ["races", "more_servers_than_keys"],
    )),
    // A text that is not there is taken for one that has ended, and its class gives the key up at once.
    of_keys(rule(
        "H3",
        "a_name_of_nobody_is_no_end_of_a_text",
        "kernel/src/keyed.rs",
        [
            "                views.push(Arc::downgrade(self));\n            }\n",
            "                views.push(Arc::downgrade(self));\n            } else {\n                self.forget_text(text);\n            }\n",
        ],
        ["races", "lists_that_name_what_never_was"],
    )),
    // One right for both.
    of_keys(rule(
        "H6",
        "who_may_call_a_text_may_not_fetch_it",
        "kernel/src/fault.rs",
        [
            "    let mut rights = state.acl.rights(&domain.subject);\n",
            "    let mut rights = state.acl.rights(&domain.subject);\n    if rights.contains(Rights::CALL) {\n        rights |= Rights::READ | Rights::EXECUTE;\n    }\n",
        ],
        ["races", "code_that_may_be_fetched_no_longer"],
    )),
    // What the callee executes is there for all in the view.
    of_keys(rule(
        "H6",
        "nothing_is_mapped_that_not_all_may_fetch",
        "kernel/src/keyed/fetched.rs",
        ["        if !self.members.iter()", "        if false && !self.members.iter()"],
        ["races", "code_that_may_be_fetched_no_longer"],
    )),
    // Where there are keys it comes back by the kernel for want of one.
    without_keys(rule(
        "H17",
        "a_secret_that_is_touched_late_is_one_for_the_calls_under_way",
        "kernel/src/secret.rs",
        ["    inner.comes_back_by_kernel(domain.number);\n", ""],
        ["secrets", "a_secret_first_touched_in_a_callback"],
    )),
];

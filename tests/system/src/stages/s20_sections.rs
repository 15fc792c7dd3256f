//! Sections: memory that has one address for all, and rights that decide. From within: see `tests/guest/check`.

use crate::case::{Case, checks, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "sections",
            "check sections",
            &[
                "create",
                "create_refuses",
                "far_apart",
                "resize",
                "reserve_is_kept",
                "beyond_the_end",
                "addresses_are_not_soon_reused",
                "clone_copies_on_write",
                "clone_of_clone",
                "clone_of_text_as_data",
                "clone_shares_frames",
                "delete",
                "seal",
                "write_xor_execute",
                "one_address_for_all",
                "list_passed_by_its_head",
                "reading_takes_no_entry",
                "info_and_list",
                "names",
                "give",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "acl",
            "check acl",
            &[
                "read_by_every_principal",
                "write_by_every_principal",
                "execute_by_every_principal",
                "call_by_every_principal",
                "change_acl_by_every_principal",
                "two_threads_two_texts",
                "original_matches_its_clones",
                "rights_add_up",
                "set_read_remove",
                "set_refuses",
                "new_section_is_its_makers",
                "stack_is_one_threads",
                "rights_end_in_many_views",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "refusals",
            "check refusals",
            &[
                "access_without_read",
                "access_without_write",
                "access_without_execute",
                "access_without_call",
                "calls_without_read",
                "calls_without_write",
                "calls_without_call",
                "calls_without_change_acl",
                "acl_read_without_any_right",
                "ports_without_a_right",
                "in_another_text",
                "others_threads_and_tasks",
                "what_only_the_system_may",
                "servers_do_not_pass_refusals_on",
                "carried_to_another_thread",
                "other_reasons_have_other_names",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "revoke",
            "check revoke",
            &[
                "revoked_write_is_gone_everywhere",
                "sealed_text_is_written_no_more",
                "deleted_while_others_read",
                "revoked_read_is_gone_everywhere",
                "clone_is_cut_off_while_others_write",
                "resized_while_others_write",
                "clone_sees_nothing_written_after_its_right_is_gone",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        checks(
            "quota",
            "check quota",
            &[
                "limit_of_sections",
                "limit_of_reserve",
                "limit_of_threads",
                "limit_of_frames",
                "a_stacks_copy_counts",
                "fault_without_frames",
                "limits_are_not_above_the_makers",
                "child_gives_back",
                "tasks_are_limited",
                "used_up_memory_leaves_servers_whole",
            ],
        )
        .matrix()
        .placed_thoroughly(),
        // Of the whole machine: a small one, and many programs.
        checks("crowd", "check crowd", &["a_crowd_takes_all_there_is"])
            .cpus(2)
            .mem("128M")
            .timeout(400)
            .placed_thoroughly(),
        checks("reserve", "check exhaustion", &["servers_begin_anew_whatever_is_taken"])
            .timeout(300)
            .spread()
            .placed_thoroughly(),
        // What is refused there is not the program's quota of sections but its user's part of the posts.
        sh("reserve_reached", "limit sections=60000 threads=1000 check as exhaust all-but-the-reserve")
            .err("taking posts and threads\n")
            .mem("128M")
            .timeout(300)
            .spread()
            .placed_thoroughly(),
        // What nobody could be refused: persons' programs are refused it as early as sections.
        with_word("needed=20", sh("what_comes_to_objects_is_refused", "limit sections=60000 check as exhaust needed"))
            .mem("128M")
            .timeout(300)
            .spread()
            .placed_thoroughly(),
        checks(
            "exhaustion",
            "check exhaustion",
            &[
                "posts_run_out",
                "messages_run_out",
                "threads_run_out",
                "tasks_run_out",
                "memory_runs_out",
                "all_of_it_at_once",
            ],
        )
        .timeout(300)
        .spread()
        .placed_thoroughly(),
        checks(
            "fuzz",
            "check fuzz",
            &[
                "random_calls",
                "every_call_with_every_bad_argument",
                "unknown_numbers",
                "hostile_message_registers",
                "everything_works_after",
            ],
        )
        .timeout(240)
        .spread()
        .placed_thoroughly(),
    ]
}

/// With a word more on the kernel's command line.
fn with_word(word: &str, mut case: Case) -> Case {
    case.options.append.push(word.into());
    case
}

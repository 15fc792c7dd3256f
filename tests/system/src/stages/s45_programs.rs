//! Programs: what they are given, and how they end, whatever they do.

use super::{crashes, hostile};
use crate::case::{Case, checks, several, sh};

pub fn cases() -> Vec<Case> {
    vec![
        checks(
            "programs",
            "check programs",
            &[
                "arguments_and_environment",
                "arguments_too_long",
                "statuses",
                "two_hundred_spawns",
                "servers_keep_nothing_of_the_dead",
                "many_at_once",
                "what_is_not_there",
                "endless_loop_is_killed",
                "another_user",
                "limits_are_given",
            ],
        )
        .matrix(),
        several("hostile_files", &hostile::names(), hostile::refused),
        several("random_files", &["randomly_damaged_files"], hostile::random),
        several("crashes", &crashes::names(), crashes::all).matrix(),
        denied("denied_read", "read"),
        denied("denied_write", "write"),
        denied("denied_execute", "execute"),
        sh("denied_call", "denied call")
            .out_has(&["binding without the right call: access denied", "no right to call"]),
        sh("denied_change_acl", "denied change-acl").out_has(&["changing the ACL of 0x", "change-acl: access denied"]),
        sh("nothing_else_is_disturbed", "counter & sleep 0.3; call counter add 5; denied write; call counter add 5")
            .out_has(&["5 (EPC-S", "10 (EPC-S"])
            .err_any(),
    ]
}

/// The line about a denied access names section, right, thread and text.
fn denied(name: &'static str, right: &'static str) -> Case {
    sh(name, &format!("denied {right}; echo status $?")).out_has(&["trying to ", "status 139"]).err_check(match right {
        "read" => |text| names_all(text, "read"),
        "write" => |text| names_all(text, "write"),
        _ => |text| names_all(text, "execute"),
    })
}

fn names_all(text: &str, right: &str) -> bool {
    let start = format!("denied: fault: no right to {right} section ");
    let section = text.lines().find_map(|line| line.strip_prefix(&start));
    section.is_some_and(|rest| {
        ["0x", " at address 0x", ", by (thread ", ", text denied 0x", ") at 0x"].iter().all(|part| rest.contains(part))
    })
}

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
        .spread()
        .placed_thoroughly(),
        several("hostile_files", &hostile::names(), hostile::refused).placed_thoroughly(),
        several("random_files", &["randomly_damaged_files"], hostile::random).placed_thoroughly(),
        several("crashes", &crashes::names(), crashes::all).matrix().placed_thoroughly(),
        denied("denied_read", "read"),
        denied("denied_write", "write"),
        denied("denied_execute", "execute"),
        sh("denied_call", "denied call")
            .out_check(|text| {
                refusal(text, "binding: ", "call", "denied")
                    && text.contains("\na plain call: fault: no right to call section denied 0x")
            })
            .placed_thoroughly(),
        sh("denied_change_acl", "denied change-acl")
            .out_check(|text| {
                let changes = ["changing the ACL: ", "reading the ACL: ", "giving away: ", "deleting: "];
                changes.iter().all(|what| refusal(text, what, "change-acl", "denied"))
                    && refusal(text, "cloning: ", "read", "denied")
            })
            .placed_thoroughly(),
        sh(
            "call_by_each_grade",
            "cpus; counter & sleep 0.3; call --grade plain counter add 1; call --grade epc-s counter add 1; \
             call --grade epc-h counter add 1 || echo without; call --grade x counter add 1; \
             call --times 0 counter add 1; call --times 50 counter add 1; true",
        )
        .out_check(|text| {
            text.contains("1 (plain call, ")
                && text.contains("2 (EPC-S, ")
                && text.contains("3 (EPC-H, ") == text.contains(" pku")
                && text.contains("3 (EPC-H, ") != text.contains("without")
                && text.contains(", the last of 50, ")
                && (text.contains("53 (EPC-H") || text.contains("52 (EPC-S"))
        })
        .err_has(&["usage: call [--grade plain|epc-s|epc-h] [--times N] NAME"])
        .matrix()
        .placed_thoroughly(),
        sh(
            "call_says_why_the_kernel_is_needed",
            "counter & sleep 0.3; call --grade epc-h counter add 1; call counter add 1; true",
        )
        .file("etc/placement", "counter psys\n")
        .out_has(&["1 (EPC-S: "])
        .err_check(|text| {
            text.contains("is in supervisor mode") != text.contains("this machine has no protection keys")
        })
        .matrix(),
        sh("nothing_else_is_disturbed", "counter & sleep 0.3; call counter add 5; denied write; call counter add 5")
            .out_has(&["5 (EPC-", "10 (EPC-"])
            .err_any()
            .placed_thoroughly(),
    ]
}

/// The line about a denied access names section, right, thread and text.
fn denied(name: &'static str, right: &'static str) -> Case {
    let case = sh(name, &format!("denied {right}; echo status $?")).placed_thoroughly();
    case.out_has(&["trying to ", "status 139"]).err_check(match right {
        "read" => |text| names_all(text, "read"),
        "write" => |text| names_all(text, "write"),
        _ => |text| names_all(text, "execute"),
    })
}

/// Whether a line says that a call was refused: section, right, thread and text.
fn refusal(out: &str, what: &str, right: &str, text: &str) -> bool {
    let start = format!("{what}no right {right} on section ");
    let by = format!(", text {text} 0x");
    out.lines()
        .filter_map(|line| line.strip_prefix(&start))
        .any(|rest| rest.contains("0x") && rest.contains(", by (thread ") && rest.contains(&by) && rest.ends_with(')'))
}

fn names_all(text: &str, right: &str) -> bool {
    let start = format!("denied: fault: no right to {right} section ");
    let section = text.lines().find_map(|line| line.strip_prefix(&start));
    section.is_some_and(|rest| {
        ["0x", " at address 0x", ", by (thread ", ", text denied 0x", ") at 0x"].iter().all(|part| rest.contains(part))
    })
}

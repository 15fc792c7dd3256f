//! Programs that try to stop the kernel; see `tests/guest/attack`.

use crate::case::{Case, sh};

pub fn cases() -> Vec<Case> {
    vec![
        attack("nested_task", "nested-task").matrix(),
        attack("clone_resize", "clone-resize").cpus(4),
        attack("waits", "waits").cpus(2),
        attack("timers", "timers").cpus(2),
        attack("wild_return", "wild-return").matrix(),
        attack("alarm", "alarm").matrix(),
        stopped("sections", "sections"),
        stopped("tasks", "tasks"),
        stopped("chunks", "chunks").err_check(|text| text.is_empty() || text.contains("no memory left for address")),
        stopped("copies", "copies"),
        stopped("mappings", "mappings"),
        sh("holes", "attack holes; hello")
            .out_has(&["attack: stopped after ", "attack: all of it can be used again", "Hello from"])
            .err_any()
            .matrix(),
        attack("early_end", "early_end").cpus(2),
        ended("kernel_jump", "kernel-jump"),
        // What is read after its section was deleted ends the program, and never shows.
        sh("reuse", "attack reuse; echo status $?; hello")
            .out_check(|text| !text.contains("NOT STOPPED") && text.contains("status 139") && text.contains("Hello"))
            .err_any(),
    ]
}

fn attack(name: &'static str, word: &str) -> Case {
    sh(name, &format!("attack {word}; hello"))
        .out_check(|text| text.contains(": survived") && text.contains("Hello from"))
}

/// It was begun, came up against a limit, and the machine goes on.
fn stopped(name: &'static str, word: &str) -> Case {
    sh(name, &format!("attack {word}; hello")).out_has(&["attack: stopped after ", "Hello from"]).err_any().matrix()
}

/// The attack ends its program; the machine goes on.
fn ended(name: &'static str, word: &str) -> Case {
    sh(name, &format!("attack {word}; hello")).out_has(&["Hello from"]).err_any().matrix()
}

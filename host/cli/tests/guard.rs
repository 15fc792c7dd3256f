//! What the front tool starts does not outlive it, however it ends.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Whether a process runs (one that has ended but was not waited for does not).
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

#[test]
fn a_guarded_program_dies_with_its_parent() {
    // The shell is the parent that is killed; the guard becomes `sleep`.
    let script = r#""$0" --musubi-guard $$ kill /bin/sleep 60 & echo $!; wait"#;
    let tool = env!("CARGO_BIN_EXE_musubi-cli");
    let mut parent = Command::new("/bin/sh").args(["-c", script, tool]).stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let pid = pid.trim();
    let name = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let start = Instant::now();
    while name() != "sleep\n" && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(runs(pid), "the guard did not become the program");
    parent.kill().unwrap();
    parent.wait().unwrap();
    let start = Instant::now();
    while runs(pid) && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(!runs(pid), "{pid} has outlived its parent");
}

#[test]
fn a_guard_without_its_parent_does_not_start() {
    let tool = env!("CARGO_BIN_EXE_musubi-cli");
    let ended = Command::new(tool).args(["--musubi-guard", "1", "kill", "/bin/true"]).status().unwrap();
    assert_eq!(ended.code(), Some(125));
}

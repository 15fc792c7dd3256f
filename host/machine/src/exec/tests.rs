//! The protocol of `exec`, with a machine that is not there: a script in QEMU's place calls this very test program
//! back, which then acts as the guest (see `a_guest`).

use super::*;
use crate::load::Parts;
use std::io::Write;

const ACT: &str = "MUSUBI_TEST_GUEST";

/// Does nothing as a test; started by the script of [`play`], it acts.
#[test]
fn a_guest() {
    let Ok(act) = std::env::var(ACT) else { return };
    let console = || fs::write(CONSOLE, (1..=60).map(|n| format!("line {n}\n")).collect::<String>()).unwrap();
    if act == "refuse" {
        eprintln!("qemu: bad option");
        std::process::exit(3);
    }
    let [mut out, mut err, mut status] =
        STREAMS.map(|(name, _)| fs::OpenOptions::new().write(true).open(name).unwrap());
    console();
    let mut tell = |line: &str| status.write_all(line.as_bytes()).unwrap();
    match act.as_str() {
        "hello" => {
            out.write_all(b"hello\n\0\xff").unwrap();
            err.write_all(b"oh").unwrap();
            tell("ex");
            tell("it 42\n");
            std::process::exit(1);
        }
        "much" => {
            for n in 0..3000u32 {
                out.write_all(&n.to_le_bytes().repeat(250)).unwrap();
            }
            tell("exit 0\n");
            std::process::exit(1);
        }
        "lingers" => {
            out.write_all(b"done").unwrap();
            tell("exit 7\n");
            thread::sleep(Duration::from_secs(60));
        }
        "hangs" => thread::sleep(Duration::from_secs(60)),
        "panics" => std::process::exit(0xff),
        "powers off" => std::process::exit(1),
        other => panic!("{other}"),
    }
}

fn play(act: &str, timeout: u64) -> Finished {
    let me = std::env::current_exe().unwrap();
    // Not a script in a file: while another test forks, a file just written may count as busy.
    let script = format!("{ACT}='{act}' exec '{}' exec::tests::a_guest --exact -q --nocapture", me.display());
    let lead = vec!["-c".into(), script.into()];
    let parts = Parts::read(&me, &[], Path::new("/nonexistent")).unwrap();
    let words = [b"true".to_vec()];
    let exec = Exec {
        emulator: Emulator { program: "/bin/sh".into(), lead, guarded: false },
        options: &Options::default(),
        load: Load { parts: &parts, puts: &[], words: Some(&words) },
        timeout: Duration::from_secs(timeout),
        sink: Sink::Keep,
    };
    exec.finish().unwrap()
}

#[test]
fn streams_are_kept_apart_and_binary_clean() {
    let end = play("hello", 20);
    assert_eq!(end.outcome, Outcome::Exited(42));
    assert_eq!((end.out.as_slice(), end.err.as_slice()), (&b"hello\n\0\xff"[..], &b"oh"[..]));
}

#[test]
fn nothing_that_was_printed_before_the_outcome_is_lost() {
    let end = play("much", 20);
    assert_eq!(end.outcome, Outcome::Exited(0));
    assert_eq!(end.out.len(), 3000 * 1000);
    assert!(end.out.chunks_exact(1000).zip(0u32..).all(|(chunk, n)| chunk == n.to_le_bytes().repeat(250)));
}

#[test]
fn a_guest_that_does_not_power_off_is_stopped() {
    let end = play("lingers", 20);
    assert_eq!((end.outcome, end.out.as_slice()), (Outcome::Exited(7), &b"done"[..]));
    assert!(end.took < Duration::from_secs(10));
}

#[test]
fn time_is_limited() {
    let end = play("hangs", 1);
    assert_eq!(end.outcome, Outcome::TimedOut);
    assert!(end.took < Duration::from_secs(10));
}

#[test]
fn a_machine_that_fails_shows_the_end_of_its_console() {
    let end = play("panics", 20);
    assert_eq!(end.outcome, Outcome::Panicked);
    assert!(end.tail(40).starts_with("line 21\n") && end.tail(40).ends_with("line 60"), "{}", end.tail(40));
    assert!(matches!(play("powers off", 20).outcome, Outcome::Died(_)));
}

#[test]
fn a_qemu_that_does_not_start_says_why() {
    let end = play("refuse", 20);
    assert_eq!(end.outcome.status(), 125);
    assert!(end.tail(40).contains("bad option"), "{}", end.console);
}

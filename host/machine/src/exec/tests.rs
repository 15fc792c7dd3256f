//! The protocol of `exec`, with a machine that is not there: a script in QEMU's place calls this very test program
//! back, which then acts as the guest (see `a_guest`).

use super::*;
use crate::load::Parts;
use abi::boot::output::{IN_MEMORY, READ, SLOTS, slot};
use std::io::Write;
use std::os::unix::fs::FileExt;

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
    let [mut output, mut status] = CONSOLES.map(|(name, _)| fs::OpenOptions::new().write(true).open(name).unwrap());
    let memory = fs::OpenOptions::new().read(true).write(true).open(MEMORY).unwrap();
    console();
    let mut print = |stream: u8, bytes: &[u8]| {
        let len = (bytes.len() as u16).to_le_bytes();
        output.write_all(&[&[stream, len[0], len[1]], bytes].concat()).unwrap();
    };
    let mut tell = |line: &str| status.write_all(line.as_bytes()).unwrap();
    match act.as_str() {
        "hello" => {
            print(1, b"hello\n\0\xff");
            print(2, b"oh");
            tell("ex");
            tell("it 42\n");
            std::process::exit(1);
        }
        "much" => {
            for n in 0..3000u32 {
                print(1, &n.to_le_bytes().repeat(250));
            }
            tell("exit 0\n");
            std::process::exit(1);
        }
        "much in memory" => {
            for n in 0..3000u64 {
                let mut read = [0];
                while {
                    memory.read_exact_at(&mut read, READ as u64).unwrap();
                    (n as u8).wrapping_sub(read[0]) as usize >= SLOTS
                } {
                    thread::sleep(Duration::from_micros(50));
                }
                memory.write_all_at(&(n as u32).to_le_bytes().repeat(250), slot(n) as u64).unwrap();
                output.write_all(&[1 | IN_MEMORY, 0xe8, 0x03]).unwrap();
            }
            tell("exit 0\n");
            std::process::exit(1);
        }
        "babbles" => {
            output.write_all(b"hello\n").unwrap();
            thread::sleep(Duration::from_secs(60));
        }
        "lingers" => {
            print(1, b"done");
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
        load: Load { parts: &parts, puts: &[], words: Some(&words), sched: None },
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
    for act in ["much", "much in memory"] {
        let end = play(act, 20);
        assert_eq!(end.outcome, Outcome::Exited(0));
        assert_eq!(end.out.len(), 3000 * 1000);
        assert!(end.out.chunks_exact(1000).zip(0u32..).all(|(chunk, n)| chunk == n.to_le_bytes().repeat(250)));
    }
}

#[test]
fn a_console_that_makes_no_sense_is_the_end() {
    let end = play("babbles", 20);
    assert!(matches!(&end.outcome, Outcome::Died(why) if why.contains("speaks of a stream 104")), "{:?}", end.outcome);
    assert!(end.took < Duration::from_secs(10));
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

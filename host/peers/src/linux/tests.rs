//! Machines that fail. What a Linux that works prints is seen by `./musubi test peers`.

use super::*;
use std::time::Instant;

fn finished(outcome: Outcome, out: &str, err: &str) -> Finished {
    let console = "Kernel panic".into();
    Finished { outcome, out: out.into(), err: err.into(), console, took: Duration::from_secs(3) }
}

#[test]
fn a_machine_that_failed_gives_no_figures() {
    let why = |outcome, out: &str| {
        let error = read(&finished(outcome, out, "peer: fork: oh\n"), System::Default, &["calls"]).unwrap_err();
        format!("{error:#}")
    };
    assert!(why(Outcome::Exited(1), "").contains("peer: fork: oh"));
    let died = why(Outcome::Died("it was reset".into()), "");
    assert!(died.contains("it was reset") && died.contains("Kernel panic") && died.contains("fork: oh"), "{died}");
    assert!(why(Outcome::TimedOut, "{1}\n{2}\n").contains("after 3 s it hangs; the last that it said: {2}"));
    assert!(why(Outcome::Exited(0), "").contains("0 figures"), "all must be there");
    assert!(why(Outcome::Exited(0), "[ 1.0] oops\n").contains("oops"));
}

#[test]
fn only_the_best_is_stripped() {
    let default = words(System::Default, &["sizes", "calls"], 1, Clock::Instructions);
    assert_eq!(default, format!("{WORDS} -- linux-default instructions sizes calls"));
    let best = words(System::Best, &["sched"], 1, Clock::Nanoseconds);
    assert!(best.contains(" mitigations=off init_on_alloc=0 ") && best.ends_with(" -- linux-best nanoseconds sched"));
    let several = |clock| words(System::Default, &["apps"], 4, clock);
    assert!(several(Clock::Instructions).contains(" idle=halt maxcpus=1 -- "));
    assert!(several(Clock::Nanoseconds).contains(" idle=halt -- "));
}

/// A Linux that cannot be, with a program in QEMU's place.
fn with(program: &str, lead: &[&str], timeout: u64) -> Linux {
    Linux {
        kernel: Kernel { image: "/nonexistent/vmlinuz".into(), package: "linux-image 0".into() },
        ram_disk: Vec::new(),
        emulator: Emulator { program: program.into(), lead: lead.iter().map(Into::into).collect(), guarded: false },
        plugin: None,
        timeout: Duration::from_secs(timeout),
    }
}

fn fails(linux: &Linux, bench: &str) -> String {
    let error = linux.measure(System::Best, &[bench], 1, Clock::Instructions, Wish::Any, &mut |_| ()).unwrap_err();
    format!("{error:#}")
}

#[test]
fn a_qemu_that_is_not_there_or_dies_or_hangs_is_an_error() {
    assert!(fails(&with("/nonexistent/qemu", &[], 9), "calls").contains("QEMU does not start"));
    assert!(fails(&with("/bin/sh", &["-c", "echo no such option >&2; exit 3"], 9), "calls").contains("no such option"));
    let start = Instant::now();
    assert!(fails(&with("/bin/sh", &["-c", "exec sleep 60"], 1), "calls").contains("it hangs"));
    assert!(start.elapsed() < Duration::from_secs(30));
    assert!(fails(&with("/nonexistent/qemu", &[], 9), "telepathy").contains("there are calls, sizes"));
}

/// A QEMU that refuses plugins is started again without; whatever else it does, that is then the error.
#[test]
fn a_qemu_without_plugins_is_tried_without() {
    let script = "case \"$*\" in *-plugin*) echo no plugins >&2; exit 1 ;; esac; echo started without >&2; exit 3";
    let mut linux = with("/bin/sh", &["-c", script, "qemu"], 9);
    linux.plugin = Some("/nonexistent/plugin.so".into());
    let why = fails(&linux, "calls");
    assert!(why.contains("started without") && !why.contains("no plugins"), "{why}");
}

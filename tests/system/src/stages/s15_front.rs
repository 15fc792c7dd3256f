//! The front door, seen from the host: what makes no sense is refused in our own words, and output that cannot be
//! written is an error.

use crate::case::{Case, function};
use crate::lab::{Failure, Lab};
use machine::Options;
use std::process::{Command, Output, Stdio};

pub fn cases() -> Vec<Case> {
    vec![
        function("pipe_put_in", pipe_put_in),
        function("too_little_memory", too_little_memory),
        function("long_command_line", long_command_line),
        function("image_in_no_folder", image_in_no_folder),
        function("closed_output", closed_output),
        function("full_output", full_output).long(),
        function("order_of_output_and_errors", order_of_streams),
        function("output_that_nobody_reads", unread_output),
        function("a_scheduler_from_the_start", scheduler_from_the_start),
        function("a_scheduler_that_is_not_there", scheduler_that_is_not_there),
    ]
}

/// Runs a line of the host's shell in the project's folder. Everything is built by then, so nobody tells about that.
fn host(lab: &Lab, line: &str) -> Result<Output, Failure> {
    let mut command = Command::new("sh");
    let exec = [&["./musubi exec"], lab.flags()].concat().join(" ");
    let line = &line.replace("./musubi exec", &exec);
    command.args(["-c", line]).current_dir(lab.workspace().top()).stdin(Stdio::null());
    Ok(command.output().map_err(anyhow::Error::from)?)
}

/// The line ends with this status and says this, and not much else, on the error stream.
fn refused(lab: &Lab, line: &str, status: i32, reasons: &[&str]) -> Result<(), Failure> {
    let output = host(lab, line)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let good = output.status.code() == Some(status)
        && output.stdout.is_empty()
        && said.lines().count() == 1
        && reasons.iter().all(|reason| said.contains(reason));
    if good { Ok(()) } else { Err(Failure::Failed(format!("{line}: {output:?}"))) }
}

fn pipe_put_in(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let dir = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let fifo = dir.path().join("fifo");
    let line = format!("mkfifo {0} && timeout 60 ./musubi exec --put {0} -- echo up", fifo.display());
    refused(lab, &line, 125, &["fifo: is a pipe or a device, not a file"])
}

/// It decides before the first command runs; without one the kernel does.
fn scheduler_from_the_start(lab: &Lab, _: &Options) -> Result<(), Failure> {
    for (flag, first) in [
        ("--sched ageing", "ageing (fast level: "),
        ("--sched initial", "initial (fast level: "),
        ("--sched none", "none: the kernel's round robin"),
        ("", "none: the kernel's round robin"),
    ] {
        let output = host(lab, &format!("./musubi exec {flag} -- sched"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let nobody = first.starts_with("none");
        // Who has asked the scheduler has run by its choice: somebody sits there.
        let seats = said.lines().filter(|line| line.contains(": thread ") && !line.contains("heard"));
        let as_said = seats.clone().count() == 2 && seats.clone().all(|line| line.contains(": thread 0,") == nobody);
        if !output.status.success() || !said.starts_with(first) || !as_said {
            return Err(Failure::Failed(format!("{flag}: {output:?}")));
        }
    }
    Ok(())
}

fn scheduler_that_is_not_there(lab: &Lab, _: &Options) -> Result<(), Failure> {
    refused(lab, "./musubi exec --sched nosuch -- true", 125, &["--sched nosuch: there is no such scheduler"])?;
    // A file that says so is found out by the machine.
    let dir = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let file = dir.path().join("scheduler");
    std::fs::write(&file, "nosuch\n").map_err(anyhow::Error::from)?;
    let output = host(lab, &format!("./musubi exec --put {}:etc/scheduler -- echo up", file.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || !output.stdout.is_empty() || !said.contains("init: scheduler nosuch: not found") {
        return Err(Failure::Failed(format!("{output:?}")));
    }
    Ok(())
}

fn too_little_memory(lab: &Lab, _: &Options) -> Result<(), Failure> {
    refused(lab, "./musubi exec --mem 1 -- echo up", 125, &["--mem 1 is too little", "is the least"])?;
    let dir = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let big = dir.path().join("big");
    let line = format!("truncate -s 100M {0} && ./musubi exec --mem 90M --put {0}:big -- echo up", big.display());
    refused(lab, &line, 125, &["--mem 90M is too little", "is the least"])?;
    // And the least is enough.
    let output = host(lab, "./musubi exec --mem 1 -- echo up")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let least = said.split(' ').find(|word| word.ends_with('M')).unwrap_or("no figure");
    let output = host(lab, &format!("./musubi exec --mem {least} -- echo up"))?;
    if output.stdout == b"up\n" && output.status.success() {
        return Ok(());
    }
    Err(Failure::Failed(format!("--mem {least}: {output:?}")))
}

fn long_command_line(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let line = |len: usize| format!("./musubi exec -- echo $(head -c {len} /dev/zero | tr '\\0' x) | wc -c");
    refused(lab, &line(60_000).replace(" | wc -c", ""), 125, &["the command line is too long", "40960 are the most"])?;
    let output = host(lab, &line(40_000))?;
    if output.stdout == b"40001\n" {
        return Ok(());
    }
    Err(Failure::Failed(format!("40 000 bytes: {output:?}")))
}

fn image_in_no_folder(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let cannot = "cannot make the image";
    refused(lab, "./musubi image /no/such/folder/x.iso", 1, &[cannot, "No such file or directory"])?;
    refused(lab, "./musubi image /tmp", 1, &[cannot, "it is a folder"])?;
    refused(lab, "./musubi image /dev/null", 1, &[cannot, "not a file"])
}

fn closed_output(lab: &Lab, _: &Options) -> Result<(), Failure> {
    refused(lab, "./musubi exec -- echo up >&-", 125, &["cannot write to standard output", "Bad file descriptor"])?;
    // Nothing was to be written: nothing has gone wrong.
    let output = host(lab, "./musubi exec -- 'true; exit 3' >&-")?;
    let good = output.status.code() == Some(3) && output.stderr.is_empty();
    if good { Ok(()) } else { Err(Failure::Failed(format!("nothing to write: {output:?}"))) }
}

fn full_output(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let full = &["cannot write to standard output", "No space left"];
    refused(lab, "./musubi exec -- echo up >/dev/full", 125, full)?;
    // The first time it builds what only it needs, and says so.
    host(lab, "./musubi bench calls >/dev/full")?;
    refused(lab, "./musubi bench calls >/dev/full", 125, full)?;
    for line in ["requirements", "requirements CUBIX-14", "help", "--help"] {
        refused(lab, &format!("./musubi {line} >/dev/full"), 1, full)?;
    }
    refused(lab, "./musubi exec --help >/dev/full", 125, full)?;
    // Nobody can be told then: the status has to do.
    let output = host(lab, "./musubi exec -- nosuch 2>/dev/full")?;
    let good = output.status.code() == Some(125) && output.stdout.is_empty();
    if good { Ok(()) } else { Err(Failure::Failed(format!("errors: {output:?}"))) }
}

/// What goes to both streams arrives in the order in which it was printed, short and long pieces.
fn order_of_streams(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let pieces = 200;
    let output = host(lab, &format!("./musubi exec -- check as by-turns {pieces} 2>&1"))?;
    let wanted: String = (0..pieces).map(|n| format!("{n} {}\n", "x".repeat(n * 37 % 3000))).collect();
    if output.status.success() && output.stdout == wanted.as_bytes() {
        return Ok(());
    }
    let same = output.stdout.iter().zip(wanted.as_bytes()).take_while(|(a, b)| a == b).count();
    Err(Failure::Failed(format!("{:?}, {} bytes, the same up to {same}", output.status, output.stdout.len())))
}

/// As a shell shows a program that a closed pipe ended: without a word.
fn unread_output(lab: &Lab, _: &Options) -> Result<(), Failure> {
    let line = "{ ./musubi exec -- 'check as bytes out 3000000'; echo $? >&2; } | head -c 3";
    let output = host(lab, line)?;
    if output.stdout.len() != 3 || output.stderr != b"141\n" {
        return Err(Failure::Failed(format!("{output:?}")));
    }
    // Others print at once what a pipe takes without a reader, so this one has none from the beginning.
    let output = host(lab, "{ sleep 1; ./musubi requirements; echo $? >&2; } | true")?;
    let good = output.stdout.is_empty() && output.stderr == b"141\n";
    if good { Ok(()) } else { Err(Failure::Failed(format!("requirements: {output:?}"))) }
}

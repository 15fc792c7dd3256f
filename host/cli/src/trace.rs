//! `./musubi trace`: a command in a fresh machine, and what its processors did meanwhile.

use crate::args::TraceArgs;
use crate::{explain, parts, print, say};
use anyhow::{Context, Result};
use build::Workspace;
use machine::{Emulator, Exec, Load, Outcome, Sink};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;
use timeline::Record;

/// Runs it, prints what it prints, writes what was recorded. Value: the command's status.
pub fn run(workspace: &Workspace, args: &TraceArgs) -> Result<u8> {
    let exec = &args.exec;
    let (options, puts) = (exec.machine.options(), exec.machine.puts()?);
    options.check()?;
    let timeout = Duration::try_from_secs_f64(exec.timeout).context("--timeout takes seconds")?;
    let command: Vec<Vec<u8>> = exec.words.iter().cloned().map(OsString::into_vec).collect();
    let words: Vec<Vec<u8>> =
        ["trace", "--lines", "--"].map(|word| word.as_bytes().to_vec()).into_iter().chain(command).collect();
    let parts = parts(workspace)?;
    let finished = Exec {
        emulator: Emulator::default(),
        options: &options,
        load: Load { parts: &parts, puts: &puts, words: Some(&words), sched: exec.machine.sched() },
        timeout,
        sink: Sink::Keep,
    }
    .finish()?;
    print(&String::from_utf8_lossy(&finished.out))?;
    let errors = String::from_utf8_lossy(&finished.err);
    if !matches!(finished.outcome, Outcome::Exited(_)) {
        let _ = std::io::stderr().write_all(errors.as_bytes());
        explain(&finished);
        return Ok(finished.outcome.status());
    }
    let (record, rest) = Record::read(&errors).inspect_err(|_| drop(std::io::stderr().write_all(errors.as_bytes())))?;
    let _ = std::io::stderr().write_all(rest.as_bytes());
    let write = |path: &std::path::Path, text: String| -> Result<()> {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        say(&format!("written: {}", path.display()));
        Ok(())
    };
    if let Some(path) = &args.svg {
        let title: Vec<_> = exec.words.iter().map(|word| word.to_string_lossy()).collect();
        write(path, timeline::picture(&record, &title.join(" ")))?;
    }
    if args.out.is_some() || args.svg.is_none() {
        let path = args.out.clone().unwrap_or_else(|| "trace.json".into());
        write(&path, timeline::chrome(&record).to_string())?;
    }
    say(&format!("{} events, {} lost", record.events.len(), record.lost));
    Ok(finished.outcome.status())
}

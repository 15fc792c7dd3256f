#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod args;
mod bench;
mod requirements;
mod test;
mod trace;

use anyhow::{Context, Result};
use args::{Args, Command, ExecArgs, MachineArgs};
use build::Workspace;
use clap::Parser;
use machine::{Emulator, Exec, Finished, Load, Outcome, Parts, Sink};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What `exec` exits with when it is not the guest's command that failed.
const OURS: u8 = 125;

fn main() -> ExitCode {
    machine::guard::enter();
    let exec = std::env::args_os()
        .nth(1)
        .is_some_and(|word| ["exec", "bench", "bench-peer", "trace"].iter().any(|w| word == *w));
    let failure = if exec { OURS } else { 1 };
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // The same channel as the user's own mistake or question: standard error or output.
            if error.use_stderr() {
                let _ = error.print();
                return failure.into();
            }
            return printed(error.print())
                .unwrap_or_else(|error| {
                    say(&format!("{error:#}"));
                    failure
                })
                .into();
        }
    };
    match perform(args.command) {
        Ok(status) => status.into(),
        Err(error) => {
            say(&format!("{error:#}"));
            failure.into()
        }
    }
}

/// Prints text to standard output. Value: the exit status.
fn print(text: &str) -> Result<u8> {
    let mut out = std::io::stdout().lock();
    printed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// As a shell shows a program that a closed pipe ended: that nobody reads any more is not worth a word.
fn printed(done: std::io::Result<()>) -> Result<u8> {
    match done {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Outcome::Unread.status()),
        other => other.context("cannot write to standard output").map(|()| 0),
    }
}

/// Tells the user. Where nobody can be told the status has to do.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "musubi: {what}");
}

fn perform(command: Command) -> Result<u8> {
    let workspace = Workspace::find();
    match command {
        Command::Run(machine) => run(&workspace, &machine),
        Command::Exec(args) => exec(&workspace, &args),
        Command::Trace(args) => trace::run(&workspace, &args),
        Command::Bench(args) => bench::run(&workspace, &args),
        Command::BenchPeer(args) => bench::peer(&workspace, &args),
        Command::Build => {
            workspace.build_anyway()?;
            Ok(0)
        }
        Command::Test { stages, no_pku } => test::run(&workspace, &stages, !no_pku),
        Command::Image { file } => image(&workspace, &file),
        Command::Requirements { mut words, state } => {
            words.extend(state);
            requirements::show(&workspace, &words)
        }
        Command::Clean => clean(&workspace),
        Command::Doctor => {
            say("the front script answers this: ./musubi doctor");
            Ok(1)
        }
    }
}

/// Builds what has changed and reads it.
fn parts(workspace: &Workspace) -> Result<Parts> {
    let built = workspace.build()?;
    Parts::read(&built.kernel, &built.programs, &workspace.top().join("system.toml"))
}

fn run(workspace: &Workspace, args: &MachineArgs) -> Result<u8> {
    let (options, puts) = (args.options(), args.puts()?);
    options.check()?;
    let parts = parts(workspace)?;
    say("starting the machine; C-] x leaves it, C-] h shows what else C-] does");
    machine::run(&Emulator::default(), &options, &Load { parts: &parts, puts: &puts, words: None, sched: args.sched() })
}

fn exec(workspace: &Workspace, args: &ExecArgs) -> Result<u8> {
    let (options, puts) = (args.machine.options(), args.machine.puts()?);
    options.check()?;
    let timeout = Duration::try_from_secs_f64(args.timeout).context("--timeout takes seconds")?;
    let words: Vec<Vec<u8>> = args.words.iter().cloned().map(OsString::into_vec).collect();
    let parts = parts(workspace)?;
    let exec = Exec {
        emulator: Emulator::default(),
        options: &options,
        load: Load { parts: &parts, puts: &puts, words: Some(&words), sched: args.machine.sched() },
        timeout,
        sink: Sink::Pass,
    };
    let finished = exec.finish()?;
    explain(&finished);
    Ok(finished.outcome.status())
}

/// Says what went wrong with the machine, and nothing if nothing did.
fn explain(finished: &Finished) {
    let what = match &finished.outcome {
        Outcome::Exited(_) | Outcome::Unread => return,
        Outcome::Unwritten(why) => {
            say(why);
            return;
        }
        Outcome::TimedOut => format!("the time was up after {:.1} s", finished.took.as_secs_f64()),
        Outcome::Panicked => "the kernel panicked".into(),
        Outcome::Died(how) => format!("the machine died: {how}"),
    };
    say(&format!("{what}; the end of its console:\n{}", finished.tail(40)));
}

fn image(workspace: &Workspace, file: &Path) -> Result<u8> {
    machine::check_image_place(file)?;
    let parts = parts(workspace)?;
    let words = format!("build={:016x}", parts.build_id);
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let out = std::path::absolute(file)?;
    machine::make_image(&Load { parts: &parts, puts: &[], words: None, sched: None }, &[], &words, dir.path(), &out)?;
    let len = std::fs::metadata(&out).with_context(|| out.display().to_string())?.len();
    print(&format!("{}: {:.1} MB, boots under BIOS and UEFI\n", file.display(), len as f64 / 1e6))
}

fn clean(workspace: &Workspace) -> Result<u8> {
    let target = workspace.top().join("target");
    match std::fs::remove_dir_all(&target) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", target.display()))
        }
        _ => Ok(0),
    }
}

//! The tests of packages that run on the host: cargo builds their programs, which run side by side, for among them are some that keep one
//! processor busy for minutes.

use anyhow::{Context, Result, ensure};
use build::{Package, Role, Workspace};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use verdict::{Heading, Mark, Reader, Results};

/// A test program as cargo has built it.
struct Program {
    path: PathBuf,
    /// Its package's folder, in which it runs.
    dir: PathBuf,
}

/// What cargo has built.
#[derive(Default)]
struct Built {
    programs: Vec<Program>,
    /// How the names of tests begin, by the path of a test program and by the name of a library.
    names: HashMap<String, String>,
}

/// Runs the tests of all packages of one role.
pub fn run(workspace: &Workspace, packages: &[Package], role: Role, results: &mut Results) -> Result<()> {
    let chosen: Vec<&Package> = packages
        .iter()
        .filter(|package| if role == Role::Host { package.is_tested_on_host() } else { package.role() == role })
        .collect();
    if chosen.is_empty() {
        return Ok(());
    }
    let cargo = |args: &[&str]| {
        let mut command = workspace.cargo();
        command.arg("test").args(args).env("CARGO_TERM_COLOR", "never").stdin(Stdio::null());
        for package in &chosen {
            command.args(["-p", &package.name]);
        }
        command
    };
    let built = build(workspace, cargo(&["--no-run", "--message-format=json-render-diagnostics"]), &chosen, role)?;
    let mut commands: Vec<(String, Command)> = built.programs.iter().map(Program::command).collect();
    if role == Role::Host {
        commands.push((String::new(), cargo(&["--doc", "--no-fail-fast"])));
    }
    let prefix = |heading: Heading| match heading {
        Heading::Program(path) => built.names.get(path).cloned(),
        Heading::Doc(library) => built.names.get(library).map(|name| format!("{name}::doc")),
    };
    let prefix = |heading: Heading| prefix(heading).unwrap_or_else(|| format!("{}::{heading:?}", word(role)));
    let failed = results.count(Mark::Failed);
    let mut good = true;
    let mut reader = Reader::new(results, &prefix);
    side_by_side(commands, |heading, output, ended| {
        good &= ended;
        for line in std::iter::once(heading.as_bytes()).chain(output.split(|byte| *byte == b'\n')) {
            if let Some(shown) = reader.line(&String::from_utf8_lossy(line)) {
                println!("{shown}");
            }
        }
    })?;
    if let Some(shown) = reader.end() {
        println!("{shown}");
    }
    ensure!(good || results.count(Mark::Failed) > failed, "a test program failed though no test did");
    Ok(())
}

impl Program {
    /// With the line by which cargo would say that it runs.
    fn command(&self) -> (String, Command) {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.dir).env("CARGO_MANIFEST_DIR", &self.dir).stdin(Stdio::null());
        (format!("     Running ({})", self.path.display()), command)
    }
}

/// Runs as many at once as there are processors, and has `tell` told of each as it ends: its heading, what it printed, and whether it ended well.
fn side_by_side(commands: Vec<(String, Command)>, mut tell: impl FnMut(&str, &[u8], bool)) -> Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let commands = Mutex::new(commands.into_iter());
    let next = || commands.lock().ok()?.next();
    let (ends, ended) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (ends, next) = (ends.clone(), &next);
            scope.spawn(move || {
                while let Some((heading, mut command)) = next() {
                    let outcome = output(&mut command);
                    if ends.send((heading, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(ends);
        for (heading, outcome) in ended {
            let (printed, good) = outcome.with_context(|| format!("a test program does not start{heading}"))?;
            tell(&heading, &printed, good);
        }
        Ok(())
    })
}

/// Both streams in their order, and whether it ended well.
fn output(command: &mut Command) -> Result<(Vec<u8>, bool)> {
    let (mut from, to) = std::io::pipe()?;
    let mut child = command.stdout(to.try_clone()?).stderr(to).spawn()?;
    // The command holds the pipe's other end: without this the reading below would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut printed = Vec::new();
    from.read_to_end(&mut printed)?;
    let ended = child.wait()?;
    if ended.code().is_none() {
        writeln!(printed, "{ended}")?;
    }
    Ok((printed, ended.success()))
}

fn word(role: Role) -> &'static str {
    if role == Role::House { "house" } else { "host" }
}

/// Builds the tests.
fn build(workspace: &Workspace, mut build: Command, chosen: &[&Package], role: Role) -> Result<Built> {
    let output = build.stderr(Stdio::inherit()).output().context("cargo does not start")?;
    ensure!(output.status.success(), "the tests do not build");
    let top = workspace.top().canonicalize()?;
    let mut built = Built::default();
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let (Some(manifest), Some(target)) = (message["manifest_path"].as_str(), message["target"]["name"].as_str())
        else {
            continue;
        };
        let package = chosen.iter().find(|package| top.join(&package.dir).join("Cargo.toml").as_os_str() == manifest);
        let Some(package) = package else { continue };
        let mut name = match role {
            Role::House => "house".to_string(),
            _ => format!("host::{}", package.short()),
        };
        let is = |kind: &str| message["target"]["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == kind));
        if is("lib") || is("proc-macro") {
            built.names.insert(target.to_string(), name.clone());
        }
        if is("test") && role == Role::Host {
            name = format!("{name}::{target}");
        }
        // Programs that tests run are built, too.
        if let (Some(program), Some(true)) = (message["executable"].as_str(), message["profile"]["test"].as_bool()) {
            built.names.insert(program.to_string(), name);
            built.programs.push(Program { path: program.into(), dir: top.join(&package.dir) });
        }
    }
    built.programs.sort_by(|a, b| a.dir.cmp(&b.dir));
    Ok(built)
}

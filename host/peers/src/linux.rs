//! Debian's Linux on the machine that Musubi is measured on.

use crate::counts::{self, Counter};
use crate::figures::Report;
use crate::{kernel, matrix, program};
use anyhow::{Context, Result, bail, ensure};
use build::Workspace;
use kernel::Kernel;
use machine::{Emulator, Finished, Options, Outcome, Peer, Wish};
use std::path::PathBuf;
use std::time::Duration;

/// How Linux is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// As Debian boots it.
    Default,
    /// Without what costs time and protects: what it could be at best. Everything runs under SCHED_FIFO.
    Best,
}

/// What time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Instructions: exact, repeatable, not disturbed by what else the host does.
    Instructions,
    /// Nanoseconds of the host.
    Nanoseconds,
}

/// No printing while something is measured; and QEMU ends where a panic would wait.
const WORDS: &str = "console=ttyS0 quiet panic=-1";
const BEST: &str = " mitigations=off init_on_alloc=0 cgroup_disable=memory apparmor=0 audit=0 hardened_usercopy=off \
                    randomize_kstack_offset=off preempt=none lsm=capability";
/// On several processors. Those of the emulator take turns then, and every second one is not used (`host/machine`): the first program starts the others.
const ONE_AT_FIRST: &str = " maxcpus=1";
/// And who has nothing to do halts: the other way, `mwait`, is a loop where the emulator has several processors.
const IDLE: &str = " idle=halt";
/// How long Linux may say nothing, on a host that does much else: a boot takes ten seconds, a figure at most some, and a minute where programs are measured.
const PATIENCE: Duration = Duration::from_secs(600);

impl System {
    pub const ALL: [Self; 2] = [Self::Default, Self::Best];

    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "linux-default",
            Self::Best => "linux-best",
        }
    }
}

/// Linux, ready to be booted.
pub struct Linux {
    kernel: Kernel,
    ram_disk: Vec<u8>,
    emulator: Emulator,
    /// The library of `host/plugin`, if more is counted than instructions.
    plugin: Option<PathBuf>,
    timeout: Duration,
}

impl Linux {
    /// Fetches the kernel if it is not there, and compiles the programs for these benchmarks.
    pub fn prepare(workspace: &Workspace, benches: &[&str], progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let kernel = kernel::get(&workspace.results()?.join("peers"), progress)?;
        let ram_disk = program::ram_disk(workspace.top(), benches)?;
        let plugin = Some(workspace.host_library("musubi-plugin")?);
        Ok(Self { kernel, ram_disk, emulator: Emulator::default(), plugin, timeout: PATIENCE })
    }

    /// Name and version of the kernel's package.
    pub fn package(&self) -> &str {
        &self.kernel.package
    }

    /// Boots once, on so many processors, and measures.
    pub fn measure(
        &self,
        system: System,
        benches: &[&str],
        cpus: u32,
        clock: Clock,
        wish: Wish,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Report> {
        for bench in benches {
            ensure!(matrix::BENCHES.contains(bench), "Linux has no {bench}; there are {}", matrix::BENCHES.join(", "));
        }
        let boot = |counter: Option<&Counter>, progress: &mut dyn FnMut(&str)| {
            let words = words(system, benches, cpus, clock);
            let icount = clock == Clock::Instructions;
            let options = Options { cpus: Some(cpus), icount, wish, ..Options::default() };
            self.boot(&options, &words, counter, &mut |lines| {
                progress(&format!("{}: {lines} lines of figures", system.name()));
            })
        };
        let on = if cpus > 1 { format!(" on {cpus} processors") } else { String::new() };
        progress(&format!("{}: booting {}{on}", system.name(), self.package()));
        let counter = self.plugin.as_ref().filter(|_| clock == Clock::Instructions);
        let counter = counter.map(|plugin| Counter::new(plugin, benches, cpus)).transpose()?;
        let mut finished = boot(counter.as_ref(), progress)?;
        let mut cases = counter.as_ref().map(Counter::cases).transpose()?.flatten();
        let mut notes = Vec::new();
        if counter.is_some() && cases.is_none() && finished.outcome != Outcome::Exited(0) {
            // Another QEMU's plugins may have another interface, or it may have none.
            let why = finished.console.lines().last().unwrap_or_default();
            notes.push(format!("{}: only instructions are counted: this QEMU takes no plugin ({why})", system.name()));
            finished = boot(None, progress)?;
            cases = None;
        }
        let report = read(&finished, system, benches);
        let mut report = report.with_context(|| format!("{} could not be measured", system.name()))?;
        if let Some(cases) = cases {
            report.figures = counts::join(report.figures, &cases)?;
        }
        report.notes = notes;
        Ok(report)
    }

    /// Boots, and waits for the end; `progress` is told how many lines were printed, at times.
    fn boot(
        &self,
        options: &Options,
        words: &str,
        counter: Option<&Counter>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<Finished> {
        let mut emulator = self.emulator.clone();
        emulator.lead.extend(counter.iter().flat_map(|counter| counter.lead()));
        let (kernel, ram_disk, timeout) = (&self.kernel.image, self.ram_disk.as_slice(), self.timeout);
        let mut lines = 0;
        Peer { emulator, options, kernel, ram_disk, words, timeout }.finish(&mut |_| {
            lines += 1;
            if lines % 20 == 0 {
                progress(lines);
            }
        })
    }
}

/// Linux's command line; what follows the two dashes goes to the first program.
fn words(system: System, benches: &[&str], cpus: u32, clock: Clock) -> String {
    let best = if system == System::Best { BEST } else { "" };
    let takes_turns = cpus > 1 && clock == Clock::Instructions;
    let several =
        [(cpus > 1, IDLE), (takes_turns, ONE_AT_FIRST)].map(|(is, words)| if is { words } else { "" }).concat();
    let clock = if clock == Clock::Instructions { "instructions" } else { "nanoseconds" };
    format!("{WORDS}{best}{several} -- {} {clock} {}", system.name(), benches.join(" "))
}

/// What the machine said, if it came through and said all.
fn read(finished: &Finished, system: System, benches: &[&str]) -> Result<Report> {
    let err = String::from_utf8_lossy(&finished.err);
    let how = match &finished.outcome {
        Outcome::Exited(0) => {
            let text = std::str::from_utf8(&finished.out).context("it printed what is no text")?;
            let report = Report::parse(text)?;
            matrix::check(&report, system, benches)?;
            return Ok(report);
        }
        Outcome::Exited(_) => bail!("{}", err.trim_end()),
        Outcome::TimedOut => {
            let out = String::from_utf8_lossy(&finished.out);
            let last = out.lines().last().unwrap_or("(nothing)");
            format!("after {:.0} s it hangs; the last that it said: {last}", finished.took.as_secs_f64())
        }
        outcome => format!("the machine died ({outcome:?})"),
    };
    bail!("{how}; the end of its console:\n{err}{}", finished.tail(20));
}

/// Measures both systems, each in a boot of its own for each number of processors; wall time in several boots by turns, on no more processors than the host has.
pub fn linux(
    workspace: &Workspace,
    benches: &[&str],
    clock: Clock,
    wish: Wish,
    progress: &mut dyn FnMut(&str),
) -> Result<Report> {
    let linux = Linux::prepare(workspace, benches, progress)?;
    let host = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let mut machines = matrix::machines(benches);
    machines.retain(|(cpus, _)| *cpus <= host || clock == Clock::Instructions);
    let rounds = if clock == Clock::Instructions { 1 } else { 2 };
    let mut reports = Vec::new();
    for _ in 0..rounds {
        for system in System::ALL {
            for (cpus, benches) in &machines {
                reports.push(linux.measure(system, benches, *cpus, clock, wish, progress)?);
            }
        }
    }
    Ok(Report::merge(reports))
}

#[cfg(test)]
mod tests;

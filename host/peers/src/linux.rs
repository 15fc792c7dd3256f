//! Debian's Linux on the machine that Musubi is measured on.

use crate::figures::Report;
use crate::{kernel, matrix, program};
use anyhow::{Context, Result, bail, ensure};
use build::Workspace;
use kernel::Kernel;
use machine::{Emulator, Finished, Options, Outcome, Peer, Wish};
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
/// How long Linux may say nothing, on a host that does much else: a boot takes ten seconds, a figure at most some.
const PATIENCE: Duration = Duration::from_secs(180);

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
    timeout: Duration,
}

impl Linux {
    /// Fetches the kernel if it is not there, and compiles the programs.
    pub fn prepare(workspace: &Workspace, progress: &mut dyn FnMut(&str)) -> Result<Self> {
        let ram_disk = program::ram_disk(workspace.top())?;
        let kernel = kernel::get(&workspace.results()?.join("peers"), progress)?;
        Ok(Self { kernel, ram_disk, emulator: Emulator::default(), timeout: PATIENCE })
    }

    /// Name and version of the kernel's package.
    pub fn package(&self) -> &str {
        &self.kernel.package
    }

    /// Boots once, on one processor, and measures.
    pub fn measure(
        &self,
        system: System,
        benches: &[&str],
        clock: Clock,
        wish: Wish,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Report> {
        for bench in benches {
            ensure!(matrix::BENCHES.contains(bench), "Linux has no {bench}; there are {}", matrix::BENCHES.join(", "));
        }
        let icount = clock == Clock::Instructions;
        let options = Options { cpus: Some(1), icount, wish, ..Options::default() };
        let words = words(system, benches, clock);
        let owed: usize = benches.iter().map(|bench| matrix::owed(system, bench).len()).sum();
        let peer = Peer {
            emulator: self.emulator.clone(),
            options: &options,
            kernel: &self.kernel.image,
            ram_disk: &self.ram_disk,
            words: &words,
            timeout: self.timeout,
        };
        progress(&format!("{}: booting {}", system.name(), self.package()));
        let mut lines = 0;
        let finished = peer.finish(&mut |_| {
            lines += 1;
            // One line says what the system is.
            if lines % 10 == 1 {
                progress(&format!("{}: {} of {owed} figures", system.name(), lines - 1));
            }
        })?;
        read(&finished, system, benches).with_context(|| format!("{} could not be measured", system.name()))
    }
}

/// Linux's command line; what follows the two dashes goes to the first program.
fn words(system: System, benches: &[&str], clock: Clock) -> String {
    let best = if system == System::Best { BEST } else { "" };
    let clock = if clock == Clock::Instructions { "instructions" } else { "nanoseconds" };
    format!("{WORDS}{best} -- {} {clock} {}", system.name(), benches.join(" "))
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

/// Measures both systems, each in a boot of its own; wall time in several boots by turns.
pub fn linux(
    workspace: &Workspace,
    benches: &[&str],
    clock: Clock,
    wish: Wish,
    progress: &mut dyn FnMut(&str),
) -> Result<Report> {
    let linux = Linux::prepare(workspace, progress)?;
    let rounds = if clock == Clock::Instructions { 1 } else { 2 };
    let mut reports = Vec::new();
    for _ in 0..rounds {
        for system in System::ALL {
            reports.push(linux.measure(system, benches, clock, wish, progress)?);
        }
    }
    Report::merge(reports)
}

#[cfg(test)]
mod tests;

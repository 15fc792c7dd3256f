//! What was measured, each benchmark when the first check asks for it.

use crate::lab::{Failure, Lab};
use anyhow::{Context, Result, bail};
use machine::Options;
use measure::{BENCHES, Bench, Figure, Ours, Setup};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// How often a benchmark is measured at most: some are to give the same twice.
const TIMES: usize = 2;

/// What was measured, and what the front tool made of it.
pub struct Runs<'a> {
    /// Whether there are protection keys.
    pub has_keys: bool,
    lab: &'a Lab<'a>,
    plugin: PathBuf,
    untold: PathBuf,
    benches: Vec<(Bench, [OnceCell<Result<Ours, String>>; TIMES])>,
    wall: OnceCell<Vec<Figure>>,
}

impl<'a> Runs<'a> {
    pub fn new(lab: &'a Lab<'a>, options: &Options) -> Result<Self, Failure> {
        let benches = BENCHES.into_iter().map(|bench| (bench, Default::default())).collect();
        let (plugin, untold) = (lab.workspace().host_library("musubi-plugin")?, lab.workspace().untold_kernel()?);
        Ok(Self { has_keys: options.pku, lab, plugin, untold, benches, wall: OnceCell::new() })
    }

    /// The ways of a call that there are.
    pub fn ways(&self) -> impl Iterator<Item = &'static str> {
        ["epc-h", "epc-s", "plain"].into_iter().filter(|way| self.has_keys || *way != "epc-h")
    }

    /// What a benchmark has given.
    pub fn of(&self, bench: &str) -> Result<&Ours> {
        self.nth(bench, 0)
    }

    /// What it gives when it is measured once more.
    pub fn twice(&self, bench: &str) -> Result<[&Ours; TIMES]> {
        Ok([self.nth(bench, 0)?, self.nth(bench, 1)?])
    }

    fn nth(&self, name: &str, time: usize) -> Result<&Ours> {
        let (bench, cells) = self.bench(name)?;
        let measured = cells[time].get_or_init(|| {
            Ours::measure(&Setup { plugin: self.plugin_for(name), ..self.setup() }, bench)
                .map_err(|why| format!("{why:#}"))
        });
        match measured {
            Ok(ours) => Ok(ours),
            Err(why) => bail!("{name} cannot be measured: {why}"),
        }
    }

    /// The calls in nanoseconds.
    pub fn wall(&self) -> Result<&[Figure]> {
        let (bench, _) = self.bench("calls")?;
        if self.wall.get().is_none() {
            let timed = Ours::wall(&self.setup(), bench)?;
            self.wall.get_or_init(|| timed);
        }
        Ok(self.wall.get().map_or(&[], Vec::as_slice))
    }

    /// What `./musubi bench` says, where apt knows no package: there is no Linux to be had.
    pub fn front(&self, words: &[&str]) -> Result<Output> {
        let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
        let config = dir.path().join("apt.conf");
        std::fs::write(&config, "Dir::State::lists \"/nonexistent\";\nDir::Cache \"/nonexistent\";\n")
            .context("cannot write there")?;
        let mut command = Command::new("sh");
        command
            .args(["musubi", "bench"])
            .args(self.lab.flags())
            .args(words)
            .current_dir(self.lab.workspace().top())
            .env("APT_CONFIG", config);
        command.output().context("./musubi bench does not start")
    }

    fn bench(&self, name: &str) -> Result<&(Bench, [OnceCell<Result<Ours, String>>; TIMES])> {
        self.benches.iter().find(|(bench, _)| bench.name == name).context("there is no such benchmark")
    }

    /// What is seen from outside is asked for of all but the longest.
    fn plugin_for(&self, name: &str) -> Option<&Path> {
        (name != "keys").then_some(&self.plugin)
    }

    fn setup(&self) -> Setup<'_> {
        let Self { has_keys, lab, plugin, untold, .. } = self;
        Setup { parts: lab.parts(), plugin: Some(plugin), untold: Some(untold), kvm: false, pku: *has_keys }
    }
}

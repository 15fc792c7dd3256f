//! Another system on the same machine, to compare with: a kernel and its initial RAM disk, whose first program keeps the
//! protocol of `exec`.

use crate::exec::{Finished, Machine, Sink};
use crate::options::{Options, Via};
use crate::qemu::{Emulator, PACK};
use crate::rundir;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;

pub struct Peer<'a> {
    pub emulator: Emulator,
    /// The same machine as ours, but for the words, which are for our kernel only.
    pub options: &'a Options,
    pub kernel: &'a Path,
    pub ram_disk: &'a [u8],
    /// The kernel's command line.
    pub words: &'a str,
    /// How long it may say nothing.
    pub timeout: Duration,
}

impl Peer<'_> {
    /// Boots, waits for the end; `progress` is told each line of standard output as it comes. Errors are those of the
    /// host; the guest's are in the outcome.
    pub fn finish(&self, progress: &mut dyn FnMut(&str)) -> Result<Finished> {
        self.options.check()?;
        ensure!(self.options.via == Via::Kernel, "another system is booted by QEMU's own loader only");
        let dir = rundir::make()?;
        std::fs::write(dir.path().join(PACK), self.ram_disk).context("cannot write the RAM disk")?;
        let Self { emulator, options, kernel, words, timeout, .. } = self;
        let machine = Machine { emulator, options, kernel, words, timeout: *timeout };
        machine.finish(dir.path(), Sink::Keep, Some(progress))
    }
}

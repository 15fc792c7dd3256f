//! The interactive machine.

use crate::accel::Accel;
use crate::guard::Farewell;
use crate::load::Load;
use crate::options::{Options, Via};
use crate::qemu::{self, Console, Emulator, IMAGE, PACK};
use crate::{image, rundir};
use anyhow::{Context, Result};
use std::path::Path;

/// Boots to a prompt on this terminal; returns the status that the front tool exits with.
pub fn run(emulator: &Emulator, options: &Options, load: &Load) -> Result<u8> {
    options.check()?;
    let accel = Accel::choose(options.wish, options.cpus(), options.icount)?;
    let dir = rundir::make()?;
    let words = qemu::kernel_words(options, load.parts.build_id, false);
    stow(options, load, &words, dir.path())?;
    let mut command = emulator.command(Farewell::Ask)?;
    command.args(qemu::arguments(options, accel, &load.parts.kernel, &words, Console::Terminal));
    let mut child = command.current_dir(dir.path()).spawn().context("QEMU does not start")?;
    let ended = child.wait().context("waiting for QEMU")?;
    Ok(match ended.code() {
        // Powered off, or left by C-] x.
        Some(0 | 1) => 0,
        _ => 125,
    })
}

/// Puts everything that the machine starts from into its folder.
pub(crate) fn stow(options: &Options, load: &Load, words: &str, dir: &Path) -> Result<()> {
    let pack = match options.via {
        Via::Kernel => load.write(&dir.join(PACK), &options.without)?,
        Via::Bios | Via::Uefi => image::make(load, &options.without, words, dir, &dir.join(IMAGE))?,
    };
    options.check_memory(pack)?;
    qemu::prepare(options, dir)
}

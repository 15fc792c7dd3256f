//! The programs that measure from inside the guest, compiled for it.

use crate::cpio;
use anyhow::{Context, Result, bail, ensure};
use measure::PROGRAMS;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// From the top of the project.
const SOURCES: &str = "tests/peers/linux";
/// What Sun RPC needs, from the package libtirpc-dev.
const TIRPC: &str = "/usr/include/tirpc";
/// libtirpc looks up here what `udp` and `tcp` are.
const NETCONFIG: &str = "udp tpi_clts v inet udp - -\ntcp tpi_cots_ord v inet tcp - -\n";

/// The programs that nobody here wrote, and what they are told, as in our machine.
const BUSYBOX: &str = "/bin/busybox";
pub const APPS: &str = "apps/bench/src/apps.txt";

/// Compiles, and packs all that Linux needs for these benchmarks.
pub fn ram_disk(top: &Path, benches: &[&str]) -> Result<Vec<u8>> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let (init, hello) = (dir.path().join("init"), dir.path().join("hello"));
    let sources = top.join(SOURCES);
    ensure!(Path::new(TIRPC).exists(), "there is no {TIRPC} (package libtirpc-dev)");
    let mut parts: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(&sources).with_context(|| format!("cannot read {}", sources.display()))? {
        parts.push(entry?.path());
    }
    parts.retain(|path| path.extension().is_some_and(|end| end == "c"));
    parts.sort();
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O2", "-static", "-I", TIRPC, "-o"]).arg(&init);
    compile(command.args(parts).arg("-ltirpc"))?;
    let mut command = Command::new("cc");
    compile(command.args(["-static", "-nostdlib", "-o"]).args([&hello, &sources.join("hello.S")]))?;
    let mut disk = Vec::new();
    let mut files = vec![("init", fs::read(init)?), ("hello", fs::read(hello)?), ("etc/netconfig", NETCONFIG.into())];
    if benches.contains(&PROGRAMS) {
        let busybox = fs::read(BUSYBOX).with_context(|| format!("there is no {BUSYBOX} (package busybox-static)"))?;
        files.extend([("bin/busybox", busybox), ("apps.txt", fs::read(top.join(APPS))?)]);
    }
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, data)| (*path, data.as_slice())).collect();
    cpio::write(&files, &mut disk)?;
    Ok(disk)
}

fn compile(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("cc does not start (package gcc)")?;
    if !output.status.success() {
        bail!("the programs for Linux do not compile\n{}", String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(())
}

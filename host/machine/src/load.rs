//! What goes into the machine: the pack, from the kernel, the programs and what the user adds.

use crate::put::Put;
use abi::boot::flag;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// What was built. Read once, used for any number of machines.
#[derive(Clone, Debug)]
pub struct Parts {
    pub kernel: PathBuf,
    pub build_id: u64,
    symbols: Vec<u8>,
    files: Vec<(String, Vec<u8>, u32, i64)>,
    first: Option<Vec<u8>>,
}

/// The program that the kernel starts.
const FIRST: &str = "first";
/// The file that names the scheduler which the machine begins with.
const SCHEDULER: &str = "etc/scheduler";

impl Parts {
    /// Reads the kernel, the programs by name, and the manifest of the machine if there is one.
    pub fn read(kernel: &Path, programs: &[(String, PathBuf)], manifest: &Path) -> Result<Self> {
        let mut files = Vec::new();
        let mut first = None;
        let mut functions = Vec::new();
        for (name, path) in programs {
            let file = read(path)?;
            let shown = || path.display().to_string();
            let data = pack::strip::loaded(&file).with_context(shown)?;
            functions.push(pack::functions::of(name, &file).with_context(shown)?);
            if name == FIRST {
                first = Some(data);
            } else {
                files.push((format!("bin/{name}"), data, flag::EXECUTABLE, mtime(path)));
            }
        }
        let parts = Self { kernel: kernel.to_path_buf(), build_id: 0, symbols: Vec::new(), files, first };
        let mut parts = parts.with_kernel(kernel)?;
        if manifest.exists() {
            parts.files.push(("system.toml".into(), fs::read(manifest)?, 0, mtime(manifest)));
        }
        parts.files.push((symbols::FILE.into(), symbols::table(&functions), 0, mtime(kernel)));
        Ok(parts)
    }

    /// The same with another kernel.
    pub fn with_kernel(&self, kernel: &Path) -> Result<Self> {
        let bytes = read(kernel)?;
        let loaded = pack::strip::loaded(&bytes).context("the kernel")?;
        let programs = self.files.iter().filter(|file| file.2 & flag::EXECUTABLE != 0).map(|file| file.1.as_slice());
        let build_id = pack::build_id([loaded.as_slice()].into_iter().chain(programs).chain(self.first.as_deref()));
        Ok(Self { kernel: kernel.to_path_buf(), build_id, symbols: pack::symbols::table(&bytes)?, ..self.clone() })
    }

    /// Refuses a scheduler that is not there; `none` is the kernel's round robin.
    fn check_scheduler(&self, name: &str) -> Result<()> {
        let program = format!("bin/sched-{}", name.split(' ').next().unwrap_or_default());
        let is_there = name == "none" || self.files.iter().any(|file| file.0 == program);
        ensure!(is_there, "--sched {name}: there is no such scheduler ({program} is not in the machine)");
        Ok(())
    }
}

/// The load of one machine.
pub struct Load<'a> {
    pub parts: &'a Parts,
    pub puts: &'a [Put],
    /// The command line of an `exec`.
    pub words: Option<&'a [Vec<u8>]>,
    /// The scheduler that the machine has from its start.
    pub sched: Option<&'a str>,
}

impl Load<'_> {
    /// Writes the pack to `path`, without these servers; returns its length.
    pub(crate) fn write(&self, path: &Path, without: &[String]) -> Result<u64> {
        let mut builder = pack::Builder::new(self.parts.build_id);
        if let Some(first) = &self.parts.first {
            builder.first(pack::first::lay_out(first).with_context(|| format!("bin/{FIRST}"))?);
        }
        let is_left_out = |file: &str| without.iter().any(|server| file.strip_prefix("bin/") == Some(server));
        for (name, data, flags, mtime) in self.parts.files.iter().filter(|file| !is_left_out(&file.0)) {
            builder.file(name.as_bytes(), data.clone(), *flags, *mtime)?;
        }
        for put in self.puts {
            let (data, executable, mtime) = put.read()?;
            let flags = flag::PUT | if executable { flag::EXECUTABLE } else { 0 };
            builder.file(&put.guest, data, flags, mtime)?;
        }
        if let Some(name) = self.sched {
            self.parts.check_scheduler(name)?;
            ensure!(!is_left_out("bin/sched"), "--sched {name}: the server that chooses it (sched) is left out");
            builder.file(SCHEDULER.as_bytes(), name.as_bytes().to_vec(), 0, 0)?;
        }
        if let Some(words) = self.words {
            builder.exec(words)?;
        }
        builder.symbols(self.parts.symbols.clone());
        let shown = || format!("cannot write {}", path.display());
        let mut out = BufWriter::new(fs::File::create(path).with_context(shown)?);
        let len = builder.write(&mut out).with_context(shown)?;
        out.flush().with_context(shown)?;
        Ok(len)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn mtime(path: &Path) -> i64 {
    let time = fs::metadata(path).and_then(|meta| meta.modified()).unwrap_or(UNIX_EPOCH);
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

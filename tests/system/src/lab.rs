//! Where tests run: the machine, the files put into it, and the host that it is compared with.

use crate::text::Text;
use crate::variant::{PLACEMENT, Placement};
use anyhow::{Context, Error};
use build::{Built, Workspace};
use machine::{Emulator, Exec, Finished, Load, Options, Parts, Put, Sink};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

pub enum Failure {
    Failed(String),
    /// A check in the machine says so itself, and why, or a command came to something else, or the kernel to its end: it is not that nothing came of it
    /// in time.
    Told(String),
    /// It cannot run on this host.
    Skipped(String),
}

/// What is said where the kernel has come to its end, or a thread was in two places: once is once too often, whatever was tried.
const ONCE: [&str; 4] =
    ["Panicked", "it was reset", "that was seen on two processors at once", "that has met another one of itself"];

impl Failure {
    /// Whether it is no matter of how busy the host is.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Told(why) if ONCE.iter().any(|what| why.contains(what)))
    }

    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Told(_))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// A file that is put into the machine.
pub enum File {
    /// A file of the host; without it the test is skipped.
    Host { host: &'static str, guest: &'static str },
    /// A program of ours under another name.
    Ours { program: &'static str, guest: &'static str },
    /// These bytes, executable or not.
    Made { guest: &'static str, data: Vec<u8>, executable: bool },
}

impl File {
    /// Its place in the machine.
    fn guest(&self) -> &'static str {
        match self {
            File::Host { guest, .. } | File::Ours { guest, .. } | File::Made { guest, .. } => guest,
        }
    }
}

pub struct Lab<'a> {
    pub keys: bool,
    parts: &'a Parts,
    workspace: &'a Workspace,
    programs: &'a [(String, PathBuf)],
    dir: TempDir,
    /// Where the servers of all machines are that have a folder of files made here, or are told [`Lab::puts`]; and whether there was one.
    placed: Option<Placement>,
    has_placed: AtomicBool,
}

/// The files of a test, in a folder of the host.
pub struct Folder {
    dir: TempDir,
    puts: Vec<Put>,
}

impl Folder {
    /// Where a file of it lies on the host.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl<'a> Lab<'a> {
    /// `keys`: whether machines may have protection keys.
    pub fn new(keys: bool, parts: &'a Parts, workspace: &'a Workspace, built: &'a Built) -> Result<Self, Error> {
        Ok(Self {
            keys,
            parts,
            workspace,
            programs: &built.programs,
            dir: tempfile::tempdir().context("cannot make a temporary folder")?,
            placed: None,
            has_placed: AtomicBool::new(false),
        })
    }

    /// Does this in a lab whose machines have their servers placed like that. One that has made no such machine has not been tried.
    pub fn while_placed<T>(
        &self,
        placement: Placement,
        does: impl FnOnce(&Lab) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Lab { keys, parts, workspace, programs, .. } = *self;
        let dir = tempfile::tempdir_in(self.dir.path()).context("cannot make a temporary folder")?;
        let placed = Some(placement);
        let lab = Lab { keys, parts, workspace, programs, dir, placed, has_placed: AtomicBool::new(false) };
        let done = does(&lab)?;
        if lab.has_placed.load(Ordering::Relaxed) {
            Ok(done)
        } else {
            Err(Failure::Failed("no machine of it was told where the servers are to be".into()))
        }
    }

    /// What the front tool is told besides, so that the servers are where this lab has them.
    pub fn puts(&self) -> Result<Vec<String>, Failure> {
        let Some((_, lines)) = self.placed else { return Ok(Vec::new()) };
        let path = self.dir.path().join("placement");
        write(&path, lines.as_bytes(), false).with_context(|| path.display().to_string())?;
        self.has_placed.store(true, Ordering::Relaxed);
        Ok(vec!["--put".into(), format!("{}:{PLACEMENT}", path.display())])
    }

    /// What the front tool is told behind `run` or `exec`.
    pub fn flags(&self) -> &'static [&'static str] {
        if self.keys { &[] } else { &["--no-pku"] }
    }

    pub fn parts(&self) -> &Parts {
        self.parts
    }

    pub fn workspace(&self) -> &Workspace {
        self.workspace
    }

    /// The file of a program of ours.
    pub fn program(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let found = self.programs.iter().find(|(known, _)| known == name);
        let (_, path) = found.with_context(|| format!("there is no program {name}"))?;
        Ok(fs::read(path).with_context(|| path.display().to_string())?)
    }

    /// Makes the files of a test.
    pub fn folder<'f>(&self, files: impl IntoIterator<Item = &'f File>) -> Result<Folder, Failure> {
        let dir = tempfile::tempdir_in(self.dir.path()).context("cannot make a temporary folder")?;
        let says = |(_, lines): Placement| File::Made { guest: PLACEMENT, data: lines.into(), executable: false };
        let placed = self.placed.map(says);
        let mut files: Vec<&File> = files.into_iter().collect();
        files.extend(&placed);
        if placed.is_some() && files.iter().filter(|file| file.guest() == PLACEMENT).count() > 1 {
            return Err(Failure::Failed("it says itself where the servers are".into()));
        }
        self.has_placed.store(placed.is_some(), Ordering::Relaxed);
        let mut puts = Vec::new();
        for file in files {
            let (guest, made) = match file {
                File::Host { host, guest } if Path::new(host).exists() => {
                    (guest, make(dir.path(), guest, |path| fs::copy(host, path).map(drop)))
                }
                File::Host { host, .. } => {
                    return Err(Failure::Skipped(format!("this machine has no {host}")));
                }
                File::Ours { program, guest } => {
                    let data = self.program(program)?;
                    (guest, make(dir.path(), guest, |path| write(path, &data, true)))
                }
                File::Made { guest, data, executable } => {
                    (guest, make(dir.path(), guest, |path| write(path, data, *executable)))
                }
            };
            let host = made.with_context(|| format!("cannot make {guest}"))?;
            puts.push(Put { host, guest: guest.as_bytes().to_vec() });
        }
        Ok(Folder { dir, puts })
    }

    /// Runs a command line as `./musubi exec` does.
    pub fn exec(
        &self,
        options: &Options,
        folder: &Folder,
        words: &[Vec<u8>],
        timeout: Duration,
    ) -> Result<Finished, Failure> {
        run(self.parts, &folder.puts, options, words, timeout)
    }

    /// The same with this file as the kernel.
    pub fn exec_with(
        &self,
        kernel: &[u8],
        options: &Options,
        files: &[File],
        words: &[Vec<u8>],
        timeout: Duration,
    ) -> Result<Finished, Failure> {
        let folder = self.folder(files)?;
        let path = folder.path("kernel");
        write(&path, kernel, false).with_context(|| path.display().to_string())?;
        let parts = Parts::read(&path, self.programs, &manifest(self.workspace))?;
        run(&parts, &folder.puts, options, words, timeout)
    }

    /// What the host prints, where a test compares with it.
    pub fn host_out(&self, text: &Text, folder: &Folder) -> Result<Option<Vec<u8>>, Failure> {
        let Text::AsHost(command) = text else {
            return Ok(None);
        };
        let output = Command::new(command[0])
            .args(&command[1..])
            .current_dir(folder.dir.path())
            .output()
            .map_err(|error| Failure::Skipped(format!("{} on this machine: {error}", command[0])))?;
        Ok(Some(output.stdout))
    }
}

/// What the system is put together by.
pub fn manifest(workspace: &Workspace) -> PathBuf {
    workspace.top().join("system.toml")
}

fn run(
    parts: &Parts,
    puts: &[Put],
    options: &Options,
    words: &[Vec<u8>],
    timeout: Duration,
) -> Result<Finished, Failure> {
    let load = Load { parts, puts, words: Some(words), sched: None };
    let exec = Exec { emulator: Emulator::default(), options, load, timeout, sink: Sink::Keep };
    Ok(exec.finish()?)
}

/// Makes a file with its folders, named as in the guest.
fn write(path: &Path, data: &[u8], executable: bool) -> std::io::Result<()> {
    fs::write(path, data)?;
    fs::set_permissions(path, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
}

fn make(dir: &Path, guest: &str, write: impl FnOnce(&Path) -> std::io::Result<()>) -> std::io::Result<PathBuf> {
    let path = dir.join(guest.trim_start_matches('/'));
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    write(&path)?;
    Ok(path)
}

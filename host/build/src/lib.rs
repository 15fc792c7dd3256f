#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chatter;
mod edited;
mod packages;
mod stamp;

pub use edited::Edit;
pub use packages::{Package, Role};

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folder and the tools that the front script found.
#[derive(Clone, Debug)]
pub struct Workspace {
    top: PathBuf,
    cargo: PathBuf,
    rustc: PathBuf,
}

/// What was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    pub kernel: PathBuf,
    /// Programs by name.
    pub programs: Vec<(String, PathBuf)>,
}

/// core and alloc are built for our targets, with flags of the nightly compiler.
const BARE: [&str; 2] = ["-Zbuild-std=core,alloc,compiler_builtins", "-Zbuild-std-features=compiler-builtins-mem"];
const KERNEL_PACKAGE: &str = "musubi-kernel";
/// The other kernel, and its feature.
const UNTOLD: &str = "untold";
const KERNEL_TARGET: &str = "x86_64-unknown-none";
const PROGRAM_TARGET: &str = "x86_64-musubi";

impl Workspace {
    /// As the front script says; without it, as this crate was compiled.
    pub fn find() -> Self {
        let var = |name: &str, other: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| other.into()));
        Self {
            top: var("MUSUBI_TOP", concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
            cargo: var("CARGO", "cargo"),
            rustc: var("RUSTC", "rustc"),
        }
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    /// A folder for what is neither source nor cargo's.
    pub fn results(&self) -> Result<PathBuf> {
        let dir = self.top.join("target/musubi");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }

    /// cargo, in the project's folder.
    pub fn cargo(&self) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(&self.top).env("RUSTC", &self.rustc);
        command
    }

    /// The packages of the workspace.
    pub fn packages(&self) -> Result<Vec<Package>> {
        packages::list(self)
    }

    /// Builds the kernel and all programs, if a source has changed.
    pub fn build(&self) -> Result<Built> {
        let sources = stamp::fingerprint(&self.top, &self.rustc);
        if let Some(built) = stamp::unchanged(&self.results()?, sources) {
            return Ok(built);
        }
        let built = self.build_anyway()?;
        stamp::remember(&self.results()?, sources, &built)?;
        Ok(built)
    }

    /// Builds with cargo, whatever the sources look like.
    pub fn build_anyway(&self) -> Result<Built> {
        let packages = self.packages()?;
        let kernel = packages.iter().find(|package| package.name == KERNEL_PACKAGE);
        ensure!(kernel.is_some(), "there is no package {KERNEL_PACKAGE}");
        let kernel = self.build_kernel()?;

        let programs: Vec<&Package> = packages.iter().filter(|package| package.role() == Role::Program).collect();
        if !programs.is_empty() {
            let names: Vec<&str> = programs.iter().map(|package| package.name.as_str()).collect();
            self.build_programs(&names).context("the programs do not build")?;
        }
        let bins = programs.iter().flat_map(|package| &package.bins);
        Ok(Built { kernel, programs: bins.map(|bin| (bin.clone(), self.release(PROGRAM_TARGET, bin))).collect() })
    }

    /// Builds only the kernel, and returns where it is.
    pub fn build_kernel(&self) -> Result<PathBuf> {
        self.bare(&["--bins", "--target", KERNEL_TARGET], &[KERNEL_PACKAGE]).context("the kernel does not build")?;
        Ok(self.release(KERNEL_TARGET, "kernel"))
    }

    fn build_programs(&self, packages: &[&str]) -> Result<()> {
        let target = format!("targets/{PROGRAM_TARGET}.json");
        self.bare(&["--bins", "-Zjson-target-spec", "--target", &target], packages)
    }

    /// Builds only the program of this package, which is called as that is without the project's name, and returns where it is.
    pub fn build_program(&self, package: &str) -> Result<PathBuf> {
        self.build_programs(&[package]).with_context(|| format!("{package} does not build"))?;
        Ok(self.release(PROGRAM_TARGET, package.trim_start_matches("musubi-")))
    }

    /// Builds the kernel that writes nothing which only programs read: what that costs is measured against it.
    pub fn untold_kernel(&self) -> Result<PathBuf> {
        let what = ["--bin", UNTOLD, "--features", UNTOLD, "--target", KERNEL_TARGET];
        self.bare(&what, &[KERNEL_PACKAGE]).context("the kernel that tells nothing does not build")?;
        Ok(self.release(KERNEL_TARGET, UNTOLD))
    }

    fn release(&self, target: &str, name: &str) -> PathBuf {
        self.top.join("target").join(target).join("release").join(name)
    }

    fn bare(&self, target: &[&str], packages: &[&str]) -> Result<()> {
        let mut command = self.cargo();
        command.env("RUSTC_BOOTSTRAP", "1").args(["build", "--release"]).args(BARE).args(target);
        for package in packages {
            command.args(["-p", package]);
        }
        chatter::run(command)
    }

    /// Builds a library that other programs of the host load, and returns where it is.
    pub fn host_library(&self, package: &str) -> Result<PathBuf> {
        self.host_program(package)?;
        Ok(self.top.join("target/debug").join(format!("lib{}.so", package.replace('-', "_"))))
    }

    /// Builds a program of the host and returns where it is.
    pub fn host_program(&self, package: &str) -> Result<PathBuf> {
        let mut command = self.cargo();
        command.args(["build", "-p", package]);
        chatter::run(command).with_context(|| format!("{package} does not build"))?;
        Ok(self.top.join("target/debug").join(package))
    }
}

//! Debian's kernel: the package that `linux-image-amd64` stands for, fetched with apt, unpacked without installing it, and
//! kept by its version.

use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    pub image: PathBuf,
    /// The package's name and version.
    pub package: String,
}

const STANDS_FOR: &str = "linux-image-amd64";
const IMAGE: &str = "vmlinuz";

/// Finds the kernel, or fetches it into a folder of `cache`.
pub fn get(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<Kernel> {
    let (name, version) = candidate().context("which kernel Debian has")?;
    let kept = cache.join(format!("{name}_{version}"));
    let kernel = Kernel { image: kept.join(IMAGE), package: format!("{name} {version}") };
    if kernel.image.exists() {
        return Ok(kernel);
    }
    progress(&format!("fetching Debian's kernel, {name} {version} (about 70 MB, once)"));
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let work = tempfile::tempdir_in(cache).context("cannot make a temporary folder")?;
    fetch(&format!("{name}={version}"), work.path())?;
    unpack(work.path())?;
    fs::create_dir_all(&kept)?;
    // Renamed into place: half a kernel is never found there.
    fs::rename(work.path().join(IMAGE), &kernel.image).context("cannot keep the kernel")?;
    Ok(kernel)
}

fn candidate() -> Result<(String, String)> {
    let mut command = Command::new("apt-cache");
    command.env("LC_ALL", "C").args(["show", "--no-all-versions", STANDS_FOR]);
    let output = command.stdin(Stdio::null()).output().context("apt-cache does not start; is this a Debian?")?;
    parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("apt does not know {STANDS_FOR}; apt-get update may help\n{}", said.trim_end())
    })
}

/// Name and version from `Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)`.
fn parse(shown: &str) -> Option<(String, String)> {
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let on = depends.split(", ").find(|on| on.starts_with("linux-image-"))?;
    let (name, version) = on.strip_suffix(')')?.split_once(" (= ")?;
    // They become the name of a folder.
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.~:".contains(c));
    (plain(name) && plain(version)).then(|| (name.into(), version.into()))
}

fn fetch(package: &str, into: &Path) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.env("LC_ALL", "C").current_dir(into).stdin(Stdio::null());
    command.args(["-q", "-o", "Acquire::http::Timeout=30", "-o", "Acquire::Retries=1", "download", package]);
    let output = command.output().context("apt-get does not start")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{package} cannot be fetched; is there a network? apt-get update may help\n{}", said.trim_end());
    }
    Ok(())
}

/// Takes the kernel out of the one package in the folder.
fn unpack(dir: &Path) -> Result<()> {
    let ends = |path: &Path, end: &str| path.extension().is_some_and(|is| is == end);
    let files: Vec<PathBuf> = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let package = files.iter().find(|path| ends(path, "deb")).context("apt-get fetched no package")?;
    // Not `dpkg-deb -x`: the modules are hundreds of megabytes.
    let mut opener = Command::new("dpkg-deb");
    let mut whole = opener
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("dpkg-deb")?;
    let from = whole.stdout.take().context("it has a standard output")?;
    let mut tar = Command::new("tar");
    tar.args(["-x", "--wildcards", "--strip-components=2", "./boot/vmlinuz-*"]).current_dir(dir).stdin(from);
    let taken = tar.output().context("tar does not start")?;
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    ensure!(whole.wait()?.success() && taken.status.success(), "the package cannot be unpacked\n{}", said.trim_end());
    let mut images = fs::read_dir(dir)?.flatten().map(|entry| entry.path());
    let image = images.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(IMAGE)));
    fs::rename(image.context("there is no kernel in the package")?, dir.join(IMAGE))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_package_is_found() {
        let shown = "Package: linux-image-amd64\nDepends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\nSize: 1\n";
        assert_eq!(parse(shown), Some(("linux-image-6.1.0-56-amd64".into(), "6.1.192-2".into())));
        let with_more = "Depends: firmware, linux-image-6.12.1+deb13-amd64 (= 1:6.12~1-1)\n";
        assert_eq!(parse(with_more), Some(("linux-image-6.12.1+deb13-amd64".into(), "1:6.12~1-1".into())));
        for bad in ["", "Depends: linux-base\n", "Depends: linux-image-6.1\n", "Depends: linux-image-../x (= 1/2)\n"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_cannot_be_fetched_or_unpacked_is_an_error_and_leaves_no_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let why = fetch("musubi-no-such-package=1", dir.path()).unwrap_err().to_string();
        assert!(why.contains("musubi-no-such-package=1 cannot be fetched") || why.contains("does not start"), "{why}");
        assert!(unpack(dir.path()).unwrap_err().to_string().contains("no package"));
        fs::write(dir.path().join("x.deb"), "not a package").unwrap();
        assert!(unpack(dir.path()).unwrap_err().to_string().contains("cannot be unpacked"));
        assert!(!dir.path().join(IMAGE).exists());
    }
}

//! What is in the workspace, and what each package is by the folder it lies in.

use crate::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Folder, from the top of the project.
    pub dir: PathBuf,
    pub bins: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs on Musubi.
    Program,
    /// Its tests run on the host.
    Host,
    /// The tests of the house, and those that boot.
    House,
    /// The kernel, and what only works inside a program.
    Other,
}

impl Package {
    /// What the folder says.
    pub fn role(&self) -> Role {
        let parts: Vec<&str> = self.dir.iter().filter_map(|part| part.to_str()).collect();
        match parts.as_slice() {
            ["servers" | "apps", ..] | ["tests", "guest", ..] if !self.bins.is_empty() => Role::Program,
            ["tests", "house"] => Role::House,
            ["abi" | "core" | "host" | "interfaces", ..] | ["sdk", "derive"] | ["tests", _] => Role::Host,
            _ => Role::Other,
        }
    }

    /// Whether the host can run its tests: what runs on Musubi keeps its logic where the host reaches it, too.
    pub fn is_tested_on_host(&self) -> bool {
        self.role() == Role::Host || self.dir.starts_with("sdk") || self.dir.starts_with("servers")
    }

    /// Its name in the results of tests.
    pub fn short(&self) -> &str {
        self.name.strip_prefix("musubi-").unwrap_or(&self.name)
    }
}

pub(crate) fn list(workspace: &Workspace) -> Result<Vec<Package>> {
    let mut command = workspace.cargo();
    command.args(["metadata", "--no-deps", "--format-version=1"]).stdin(Stdio::null());
    let output = command.output().with_context(|| format!("{} does not start", command.get_program().display()))?;
    if !output.status.success() {
        bail!("cargo cannot read the workspace:\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let top = workspace.top().canonicalize().context("the project's folder is gone")?;
    parse(&output.stdout, &top).context("cargo's description of the workspace is not understood")
}

fn parse(json: &[u8], top: &Path) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_slice(json)?;
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let text = |key: &str| package[key].as_str().with_context(|| format!("no {key}"));
        let dir = Path::new(text("manifest_path")?).parent().context("no folder")?;
        let is_bin = |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k == "bin"));
        let targets = package["targets"].as_array().context("no targets")?;
        let bins = targets.iter().filter(is_bin).filter_map(|target| target["name"].as_str());
        packages.push(Package {
            name: text("name")?.into(),
            dir: dir.strip_prefix(top).unwrap_or(dir).into(),
            bins: bins.map(String::from).collect(),
        });
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_say_what_a_package_is() {
        let role = |dir: &str, bins: &[&str]| {
            let bins = bins.iter().map(ToString::to_string).collect();
            Package { name: "musubi-x".into(), dir: dir.into(), bins }.role()
        };
        assert_eq!(role("servers/shell", &["shell"]), Role::Program);
        assert_eq!(role("servers/linux/calls", &[]), Role::Other);
        assert_eq!(role("tests/guest/crash", &["crash"]), Role::Program);
        assert_eq!(role("tests/house", &[]), Role::House);
        assert_eq!(role("tests/system", &["musubi-system-tests"]), Role::Host);
        assert_eq!(role("core/acl", &[]), Role::Host);
        assert_eq!(role("interfaces", &[]), Role::Host);
        assert_eq!(role("kernel/arch", &[]), Role::Other);
        assert_eq!(role("sdk/rt", &[]), Role::Other);
    }

    #[test]
    fn cargos_description_is_read() {
        let json = br#"{"packages":[{"name":"musubi-shell","manifest_path":"/m u/servers/shell/Cargo.toml",
            "targets":[{"kind":["bin"],"name":"shell"},{"kind":["custom-build"],"name":"build-script-build"}]}]}"#;
        let packages = parse(json, Path::new("/m u")).unwrap();
        let expected = Package { name: "musubi-shell".into(), dir: "servers/shell".into(), bins: vec!["shell".into()] };
        assert_eq!(packages, [expected]);
        assert_eq!(packages[0].short(), "shell");
        assert!(parse(b"{}", Path::new("/")).is_err());
    }
}

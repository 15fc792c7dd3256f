//! Every rule passes on a small sound tree and fails when one thing in it is wrong: a test that cannot fail is a defect.

mod arrows;
mod kept;
mod ledger_rows;
mod light;
mod rules;
mod source;
mod unsafety;

use std::fs;
use std::path::Path;

use tempfile::TempDir;

const WORKSPACE: &str = r#"
[workspace.package]
license = "MIT"
[workspace.lints.rust]
unsafe_op_in_unsafe_fn = "deny"
[workspace]
resolver = "3"
"#;

/// A workspace in a temporary folder, and the folders of its members.
struct Tree(TempDir, Vec<String>);

impl Tree {
    fn new() -> Tree {
        Tree(TempDir::new().unwrap(), Vec::new()).member("abi", "").member("core/sync", "")
    }

    fn write(self, file: &str, text: &str) -> Tree {
        let path = self.root().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn remove(self, file: &str) -> Tree {
        fs::remove_file(self.root().join(file)).unwrap();
        self
    }

    /// A well-furnished crate whose manifest ends with `tail`.
    fn member(mut self, dir: &str, tail: &str) -> Tree {
        if !self.1.iter().any(|known| known == dir) {
            self.1.push(dir.to_string());
        }
        let members = format!(
            "{WORKSPACE}members = {:?}
",
            self.1
        );
        self.write("Cargo.toml", &members)
            .write(&format!("{dir}/Cargo.toml"), &manifest(dir, tail))
            .write(
                &format!("{dir}/README.md"),
                "What it is.
",
            )
            .write(
                &format!("{dir}/src/lib.rs"),
                "#![forbid(unsafe_code)]
",
            )
    }

    fn root(&self) -> &Path {
        self.0.path()
    }
}

fn manifest(dir: &str, tail: &str) -> String {
    format!(
        "[package]\nname = \"{}\"\nedition = \"2024\"\nlicense.workspace = true\n[lints]\nworkspace = true\n{tail}",
        dir.replace('/', "-")
    )
}

/// The one problem that a check found.
fn only(problems: anyhow::Result<crate::Problems>) -> String {
    let problems = problems.unwrap();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.into_iter().next().unwrap()
}

fn none(problems: anyhow::Result<crate::Problems>) {
    assert_eq!(problems.unwrap(), Vec::<String>::new());
}

//! Light calls cannot wait (SSS-39, decision 15): what can takes a `Saved` thread, and a light call has none. That a call without one does not
//! compile is tried with the compiler, on the type itself; that nobody makes one who must not, by looking for who does.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::source::Source;
use crate::{Problems, tree};

const SAVED: &str = "kernel/src/saved.rs";
/// Who may say that a thread's registers are all saved: the full entry, a fault that goes to a pager, the way out, and where a thread rests in a post.
const MAKERS: [(&str, &str); 4] = [
    ("by_full_entry", "kernel/src/trap.rs"),
    ("by_fault", "kernel/src/pager.rs"),
    ("on_its_way_out", "kernel/src/place.rs"),
    ("at_rest", "kernel/src/post/short.rs"),
];

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Vec::new();
    for file in tree::files(root)?.iter().filter(|file| file.starts_with("kernel/src/") && *file != SAVED) {
        let Some(text) = tree::text(root, file).filter(|text| text.contains("Saved::")) else { continue };
        let source = Source::new(&text);
        for (maker, home) in MAKERS {
            if file != home && !source.find_word(maker).is_empty() {
                problems.push(format!("{file}: only {home} says that a thread is saved by `{maker}`: a light call has nobody who could wait"));
            }
        }
    }
    // With the thread alone, as a light call has it; and, so that this says something, with one that is saved.
    for (given, compiles) in [("thread", false), ("saved::Saved::by_full_entry(thread)", true)] {
        let (done, said) = compile(root, given)?;
        let expected = done == compiles && (compiles || said.contains("E0308"));
        if !expected {
            problems.push(format!(
                "{SAVED}: `wait::sleep({given}, 1)` {}: {said}",
                if done { "compiles" } else { "does not compile" }
            ));
        }
    }
    Ok(problems)
}

/// Whether a handler compiles that waits with `given`, and what the compiler says.
fn compile(root: &Path, given: &str) -> Result<(bool, String)> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let saved = root.join(SAVED).canonicalize().context(SAVED)?;
    ensure!(!saved.display().to_string().contains(['"', '\\']), "{} cannot be quoted", saved.display());
    let program = format!(
        "#![allow(dead_code)]\nextern crate alloc;\nmod thread {{ pub struct Thread; }}\n#[path = \"{}\"]\nmod saved;\n\
         mod wait {{ pub fn sleep(_: crate::saved::Saved<'_>, _: u64) {{}} }}\n\
         pub fn light(thread: &alloc::sync::Arc<thread::Thread>) -> u64 {{ wait::sleep({given}, 1); 0 }}\n",
        saved.display()
    );
    let file = dir.path().join("light.rs");
    std::fs::write(&file, program)?;
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--edition", "2024", "--crate-type", "lib", "--emit", "metadata", "--out-dir"])
        .args([dir.path(), &file]);
    let output = rustc.output().context("rustc does not start")?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}

//! Light calls cannot wait (SSS-39, decision 15): what can takes a `Saved` thread, and a light call has none. That whatever begins a wait or gives way
//! takes one is looked for in the kernel; that a call without one does not compile is tried with the compiler, on the type itself and on the heads of
//! the kernel's own functions; that nobody makes one who must not, by looking for who does.

use std::ops::Range;
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

/// What a handler calls that waits or gives way: the function, where it is, and what it gets behind the thread.
const WAITS: [(&str, &str, &str); 5] = [
    ("sleep", "kernel/src/wait.rs", ", 1"),
    ("sleep_until_woken", "kernel/src/wait.rs", ", 1"),
    ("on_word", "kernel/src/wait.rs", ", domain, 0, 0, 1"),
    ("begin_wait", "kernel/src/sched.rs", ""),
    ("give_way", "kernel/src/sched.rs", ""),
];

/// Where a thread's life becomes one that waits, and where it is noted that it gives its processor away: without blanks.
const BEGINS: [&str; 2] = [".wait()", ".yields=true"];

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Vec::new();
    let mut found = 0;
    for file in tree::files(root)?.iter().filter(|file| file.starts_with("kernel/src/") && *file != SAVED) {
        let Some(text) = tree::text(root, file) else { continue };
        let source = Source::new(&text);
        for head in beginners(&source.code.join(" ")) {
            found += 1;
            if !head.contains(": Saved<") {
                problems.push(format!(
                    "{file}: `{head}` begins a wait or gives way: it has to take a `Saved<'_>`, or a light call could"
                ));
            }
        }
        for (maker, home) in MAKERS {
            if file != home && text.contains("Saved::") && !source.find_word(maker).is_empty() {
                problems.push(format!("{file}: only {home} says that a thread is saved by `{maker}`: a light call has nobody who could wait"));
            }
        }
    }
    if found == 0 {
        problems.push(format!("kernel/src: nothing begins a wait by {BEGINS:?} any more: look for what does"));
    }
    for (name, file, others) in WAITS {
        let text = tree::text(root, file).map(|text| Source::new(&text).code.join(" ")).unwrap_or_default();
        let Some(head) = functions(&text).into_iter().find(|f| f.name == name).map(|f| f.head) else {
            problems.push(format!("{file} has no function `{name}` any more: name what waits instead"));
            continue;
        };
        // With the thread alone, as a light call has it; and, so that this says something, with one that is saved.
        for (given, compiles) in [("thread", false), ("saved::Saved::by_full_entry(thread)", true)] {
            let (done, said) = compile(root, name, &head, &format!("{given}{others}"))?;
            let expected = done == compiles && (compiles || said.contains("E0308"));
            if !expected {
                let how = if done { "compiles" } else { "does not compile" };
                problems.push(format!("{file}: `{name}({given}{others})` {how}: {said}"));
            }
        }
    }
    Ok(problems)
}

/// A function of some code: its head from `fn` on, and where its body is.
struct Function<'t> {
    name: &'t str,
    head: String,
    body: Range<usize>,
}

/// Those that have a body, in order of their heads, in which nothing has braces.
fn functions(code: &str) -> Vec<Function<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_word)) {
        let name = code[at + 3..].trim_start();
        let name = &name[..name.find(|c| !is_word(c)).unwrap_or(name.len())];
        // A type `fn()` has no name. What a trait asks for is taken together with the next function, which is found by itself, too.
        let Some(begin) = code[at..].find('{').map(|n| at + n).filter(|_| !name.is_empty()) else { continue };
        let head = code[at..begin].split_whitespace().collect::<Vec<_>>().join(" ");
        let mut depth = 0;
        let end = code[begin..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        });
        let end = end.map_or(code.len(), |(n, _)| begin + n);
        found.push(Function { name, head, body: begin..end });
    }
    found
}

/// The heads of functions in which a wait begins, or a thread gives way, once for each place.
fn beginners(code: &str) -> Vec<String> {
    let functions = functions(code);
    let (places, dense): (Vec<usize>, String) = code.char_indices().filter(|(_, c)| !c.is_whitespace()).unzip();
    let mut heads = Vec::new();
    for begins in BEGINS {
        for (at, _) in dense.match_indices(begins) {
            let place = places[dense[..at].chars().count()];
            let around = functions.iter().rfind(|f| f.body.contains(&place));
            heads.push(around.map_or(String::from("outside of functions"), |f| f.head.clone()));
        }
    }
    heads
}

/// Whether a handler compiles that calls a function with this head and `given`, and what the compiler says.
fn compile(root: &Path, name: &str, head: &str, given: &str) -> Result<(bool, String)> {
    let dir = tempfile::tempdir().context("cannot make a temporary folder")?;
    let saved = root.join(SAVED).canonicalize().context(SAVED)?;
    ensure!(!saved.display().to_string().contains(['"', '\\']), "{} cannot be quoted", saved.display());
    let program = format!(
        "#![allow(dead_code, unused)]\nextern crate alloc;\nmod thread {{ pub struct Thread; }}\nmod domain {{ pub struct Domain; }}\n\
         #[path = \"{}\"]\nmod saved;\n\
         mod waits {{ use crate::{{domain::Domain, saved::Saved, thread::Thread}}; use alloc::sync::Arc; pub {head} {{ loop {{}} }} }}\n\
         pub fn light(thread: &alloc::sync::Arc<thread::Thread>, domain: &domain::Domain) -> u64 {{ waits::{name}({given}); 0 }}\n",
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

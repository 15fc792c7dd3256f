//! What `top`, `ps`, `mem`, `posts`, `irq` and `trace` show is read where the kernel writes it (SSS-76), without calls that ask and without other
//! servers: but for what only those know, which is named here.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{Problems, tree};

const FOLDER: &str = "servers/shell/src/builtins/";

/// Files, and the functions in them that belong to these commands; none: all of the file.
const OF_COMMANDS: [(&str, &[&str]); 7] = [
    ("known.rs", &[]),
    ("top.rs", &[]),
    ("posts.rs", &[]),
    ("trace.rs", &[]),
    ("irq.rs", &[]),
    ("processes.rs", &["ps", "tasks", "groups", "class_word", "apart", "threads"]),
    ("machine.rs", &["mem", "memory", "kept_free", "keys"]),
];

/// What asks the kernel, or somebody else.
const ASKS: [&str; 14] = [
    "stub::",
    "section::list",
    "section::info",
    "section::acl",
    "section::owner",
    "task::list",
    "task::info",
    "task::threads",
    "task::ended",
    "thread::info",
    "sched::seats",
    "processes::",
    "Service::new",
    "Client::bind",
];

/// Who asks all the same: what the kernel does not know, or is told to do.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    // Who has started which.
    ("processes.rs", "groups", "processes::"),
    // What the memory server has got back.
    ("machine.rs", "kept_free", "Service::new"),
    // `irq N --to CPU` changes something.
    ("irq.rs", "route", "Client::bind"),
];

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for (file, functions) in OF_COMMANDS {
        let file_there = format!("{FOLDER}{file}");
        let text = tree::text(root, &file_there).with_context(|| format!("{file_there} cannot be read"))?;
        let there = functions_of(&text);
        for name in functions {
            if !there.iter().any(|one| one.0 == *name) {
                problems.push(format!(
                    "{file_there}: there is no `{name}` any more; mend the list in tests/house/src/shown.rs"
                ));
            }
        }
        for (name, body) in there.iter().filter(|one| functions.is_empty() || functions.contains(&one.0.as_str())) {
            for asks in ASKS.iter().filter(|asks| body.contains(**asks)) {
                if !EXCEPTIONS.contains(&(file, name, asks)) {
                    problems.push(format!("{file_there}: `{name}` asks by `{asks}`; read the info section (known.rs), or say in tests/house/src/shown.rs why not"));
                }
            }
        }
    }
    Ok(problems)
}

/// The functions of a file, with their bodies up to the next one's beginning; calls in comments do not count.
fn functions_of(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let begin = code.trim_start().trim_start_matches("pub ").trim_start_matches("pub(super) ");
        if let Some(rest) = begin.strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap_or_default();
            found.push((name.into(), String::new()));
        } else if code.trim_start().starts_with("mod tests") {
            break;
        }
        if let Some((_, body)) = found.last_mut() {
            body.push_str(code);
            body.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder as it is, with a line more in one function.
    fn with(file: &str, function: &str, line: &str) -> Problems {
        let dir = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
        for (one, _) in OF_COMMANDS {
            let text = std::fs::read_to_string(root.join(FOLDER).join(one)).unwrap();
            let at = text.find(&format!("fn {function}(")).filter(|_| one == file);
            let text = at.map_or(text.clone(), |at| {
                let end = at + text[at..].find("{\n").unwrap() + 2;
                format!("{}{line}\n{}", &text[..end], &text[end..])
            });
            std::fs::write(dir.path().join(FOLDER).join(one), text).unwrap();
        }
        check(dir.path()).unwrap()
    }

    #[test]
    fn who_asks_is_found() {
        assert_eq!(with("top.rs", "look", ""), Problems::new());
        assert_eq!(with("top.rs", "look", "let all = task::list();").len(), 1);
        assert_eq!(with("processes.rs", "tasks", "let all = processes::list()?;").len(), 1);
        assert_eq!(with("machine.rs", "keys", "let all = section::list();").len(), 1);
        // That belongs to another command.
        assert_eq!(with("processes.rs", "jobs", "let all = task::list();"), Problems::new());
        // And this is no code.
        assert_eq!(with("posts.rs", "posts", "// not section::list"), Problems::new());
    }
}

//! What `top`, `ps`, `mem`, `posts`, `irq` and `trace` show is read where the kernel writes it (SSS-76), without calls that ask and without other
//! servers: but for what only those know, which is named here.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{Problems, tree};

/// Files, and the functions in them that belong to these commands; none: all of the file. Behind the shell's own, what they read with.
const OF_COMMANDS: [(&str, &[&str]); 11] = [
    ("servers/shell/src/builtins/known.rs", &[]),
    ("servers/shell/src/builtins/top.rs", &[]),
    ("servers/shell/src/builtins/posts.rs", &[]),
    ("servers/shell/src/builtins/trace.rs", &[]),
    ("servers/shell/src/builtins/irq.rs", &[]),
    ("servers/shell/src/builtins/processes.rs", &["ps", "tasks", "groups", "class_word", "apart", "threads"]),
    ("servers/shell/src/builtins/machine.rs", &["mem", "memory", "promises", "kept_free", "keys", "cpus"]),
    ("sdk/musubi/src/trace.rs", &["look", "of", "learns_names", "knows", "sorts", "name", "text"]),
    ("sdk/rt/src/trace.rs", &["look", "is_on", "written", "from_now", "from_oldest", "handlers"]),
    ("sdk/rt/src/info.rs", &[]),
    // By which `mem` and `cpus` read.
    ("sdk/rt/src/task.rs", &["memory", "processors"]),
];

/// What asks the kernel, or somebody else.
const ASKS: [&str; 21] = [
    "stub::",
    "section::list",
    "section::info",
    "section::acl",
    "section::owner",
    "section::may",
    "task::list",
    "task::info",
    "task::threads",
    "task::ended",
    "thread::info",
    "sched::seats",
    "processes::",
    "Service::new",
    "Client::bind",
    // Of the trace, what asks the first task or the kernel to switch it.
    "client(",
    "trace::on(",
    "trace::off(",
    "trace::pause(",
    "trace::during(",
    "trace::switch(",
];

/// Who asks all the same: what the kernel does not know, or is told to do.
const EXCEPTIONS: [(&str, &str, &str); 9] = [
    // Who has started which.
    ("servers/shell/src/builtins/processes.rs", "groups", "processes::"),
    // What the memory server has got back.
    ("servers/shell/src/builtins/machine.rs", "kept_free", "Service::new"),
    // `irq N --to CPU` changes something.
    ("servers/shell/src/builtins/irq.rs", "route", "Client::bind"),
    // So do `trace on`, `trace off` and `trace -- COMMAND`.
    ("servers/shell/src/builtins/trace.rs", "trace", "trace::on("),
    ("servers/shell/src/builtins/trace.rs", "trace", "trace::pause("),
    ("servers/shell/src/builtins/trace.rs", "during", "trace::during("),
    // Where the section for everybody lies, and whether it may be read: the first look alone.
    ("sdk/rt/src/info.rs", "all", "stub::"),
    ("sdk/rt/src/info.rs", "all", "section::may"),
    // Whether the trace's may, which the system's programs say: once for a reader.
    ("sdk/rt/src/trace.rs", "look", "section::may"),
];

pub fn check(root: &Path) -> Result<Problems> {
    let mut problems = Problems::new();
    for (file, functions) in OF_COMMANDS {
        let text = tree::text(root, file).with_context(|| format!("{file} cannot be read"))?;
        let there = functions_of(&text);
        for name in functions {
            if !there.iter().any(|one| one.0 == *name) {
                problems
                    .push(format!("{file}: there is no `{name}` any more; mend the list in tests/house/src/shown.rs"));
            }
        }
        for (name, body) in there.iter().filter(|one| functions.is_empty() || functions.contains(&one.0.as_str())) {
            for asks in ASKS.iter().filter(|asks| body.contains(**asks)) {
                if !EXCEPTIONS.contains(&(file, name, asks)) {
                    problems.push(format!("{file}: `{name}` asks by `{asks}`; read the info section (known.rs), or say in tests/house/src/shown.rs why not"));
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
        for (one, _) in OF_COMMANDS {
            std::fs::create_dir_all(dir.path().join(one).parent().unwrap()).unwrap();
            let text = std::fs::read_to_string(root.join(one)).unwrap();
            let at = text.find(&format!("fn {function}(")).filter(|_| one.ends_with(file));
            let text = at.map_or(text.clone(), |at| {
                let end = at + text[at..].find("{\n").unwrap() + 2;
                format!("{}{line}\n{}", &text[..end], &text[end..])
            });
            std::fs::write(dir.path().join(one), text).unwrap();
        }
        check(dir.path()).unwrap()
    }

    #[test]
    fn who_asks_is_found() {
        assert_eq!(with("builtins/top.rs", "look", ""), Problems::new());
        assert_eq!(with("builtins/top.rs", "look", "let all = task::list();").len(), 1);
        assert_eq!(with("builtins/processes.rs", "tasks", "let all = processes::list()?;").len(), 1);
        assert_eq!(with("builtins/machine.rs", "keys", "let all = section::list();").len(), 1);
        assert_eq!(with("builtins/trace.rs", "show", "let all = trace::on()?;").len(), 1);
        assert_eq!(with("musubi/src/trace.rs", "look", "client(|devices| devices.trace(2))?;").len(), 1);
        assert_eq!(with("rt/src/info.rs", "head", "let all = section::list();").len(), 1);
        assert_eq!(with("rt/src/task.rs", "memory", "let all = stub::task_list(&Trap, 0, 0);").len(), 1);
        assert_eq!(with("rt/src/task.rs", "processors", "let may = section::may(0, 1, right, who);").len(), 1);
        // To switch it is a call.
        assert_eq!(with("builtins/trace.rs", "during", "trace::during(run)?;"), Problems::new());
        // That belongs to another command.
        assert_eq!(with("builtins/processes.rs", "jobs", "let all = task::list();"), Problems::new());
        assert_eq!(with("rt/src/task.rs", "power_off", "let all = section::list();"), Problems::new());
        // And this is no code.
        assert_eq!(with("builtins/posts.rs", "posts", "// not section::list"), Problems::new());
    }
}

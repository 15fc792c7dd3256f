//! What the kernel keeps in its main structures is readable memory, or there is a reason why not (SSS-1): `tests/house/info.txt` says
//! which, field by field, and `docs/info.md` is made of it.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::{Problems, tree};

const LIST: &str = "tests/house/info.txt";
const PAGE: &str = "docs/info.md";
const LAYOUT: &str = "abi/src/info/layout.rs";

/// A structure of the kernel's and what is said of its fields.
struct Said<'a> {
    file: &'a str,
    name: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

pub fn check(root: &Path) -> Result<Problems> {
    let list = tree::text(root, LIST).with_context(|| format!("{LIST} cannot be read"))?;
    let layout = tree::text(root, LAYOUT).with_context(|| format!("{LAYOUT} cannot be read"))?;
    let mut problems = Problems::new();
    let said = said(&list);
    for of in &said {
        let text = tree::text(root, of.file).with_context(|| format!("{} cannot be read", of.file))?;
        problems.extend(differences(of, &text, &layout));
    }
    let page = page(&said);
    if std::env::var_os("MUSUBI_WRITE").is_some() {
        std::fs::write(root.join(PAGE), &page)?;
    }
    if tree::text(root, PAGE).unwrap_or_default() != page {
        problems.push(format!("{PAGE} is not what {LIST} says: MUSUBI_WRITE=1 ./musubi test house"));
    }
    Ok(problems)
}

fn said(list: &str) -> Vec<Said<'_>> {
    let mut all: Vec<Said> = Vec::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if first.contains('/') {
            all.push(Said { file: first, name: rest, fields: Vec::new() });
        } else if let Some(of) = all.last_mut() {
            of.fields.push((first, rest));
        }
    }
    all
}

/// The fields of a structure, in their order.
fn fields<'a>(text: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let head = format!("struct {name} {{");
    let is_head = |line: &&str| line.strip_prefix("pub ").unwrap_or(line) == head;
    let mut lines = text.lines().skip_while(|line| !is_head(line));
    lines.next()?;
    let fields = lines.take_while(|line| *line != "}").filter_map(|line| {
        let line = line.strip_prefix("    ").filter(|line| !line.starts_with([' ', '/', '#']))?;
        let line = if line.starts_with("pub") { line.split_once(' ')?.1 } else { line };
        Some(line.split_once(':')?.0)
    });
    Some(fields.collect())
}

fn differences(of: &Said, text: &str, layout: &str) -> Vec<String> {
    let Said { file, name, fields: said } = of;
    let Some(there) = fields(text, name) else { return vec![format!("{LIST}: {file} has no structure {name}")] };
    let mut found = Vec::new();
    for field in there.iter().filter(|field| !said.iter().any(|(said, _)| said == *field)) {
        found.push(format!("{file}: {name}.{field} is not in {LIST}: say where programs read it, or why they do not"));
    }
    for (field, what) in said {
        if !there.contains(field) {
            found.push(format!("{LIST}: {file} has no {name}.{field}"));
        }
        if what.trim_start_matches('-').trim().is_empty() {
            found.push(format!("{LIST}: {name}.{field}: where, or why not?"));
        }
        for word in what.split([' ', ',']).filter(|_| !what.starts_with('-')) {
            if let Some((record, read)) = word.split_once('.')
                && !fields(layout, record).is_some_and(|fields| fields.contains(&read))
            {
                found.push(format!("{LIST}: {name}.{field}: {LAYOUT} has no {word}"));
            }
        }
    }
    found
}

fn page(said: &[Said]) -> String {
    let mut out = String::from(
        "# What the kernel keeps, and where programs read it\n\nMade from `tests/house/info.txt` (`MUSUBI_WRITE=1 ./musubi test house` writes it \
         anew), which a test holds against the\nkernel's structures and against `abi/src/info/layout.rs`. Why it is so: \
         [decision 0017](decisions/0017-info-section.md).\n",
    );
    for Said { file, name, fields } in said {
        let _ = write!(out, "\n## {name} (`{file}`)\n\n| field | read in | or why not |\n|---|---|---|\n");
        for (field, what) in fields {
            let _ = match what.strip_prefix("- ") {
                Some(why) => writeln!(out, "| `{field}` | | {why} |"),
                None => writeln!(out, "| `{field}` | {what} | |"),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str =
        "pub struct One {\n    /// What.\n    pub a: u64,\n    #[x]\n    pub(crate) b: Vec<u8>,\n    c: u8,\n}\n";
    const LAYOUT: &str = "pub struct Two {\n    pub x: u64,\n}\n";

    fn problems(list: &str) -> Vec<String> {
        said(list).iter().flat_map(|of| differences(of, KERNEL, LAYOUT)).collect()
    }

    #[test]
    fn each_field_is_read_somewhere_or_has_a_reason() {
        assert_eq!(problems("k/one.rs One\na Two.x\nb - why\nc Two.x, as a\n"), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_or_too_much_is_found() {
        assert_eq!(problems("k/one.rs One\na Two.x\nb - why\n").len(), 1, "a field that nothing is said of");
        assert_eq!(
            problems("k/one.rs One\na Two.x\nb - why\nc Two.x\nd - why\n").len(),
            1,
            "a field that is not there"
        );
        assert_eq!(problems("k/one.rs One\na Two.y\nb - why\nc Two.x\n").len(), 1, "a place that is not there");
        assert_eq!(problems("k/one.rs One\na Two.x\nb -\nc Two.x\n").len(), 1, "no reason");
        assert_eq!(problems("k/one.rs Other\n").len(), 1, "a structure that is not there");
    }
}

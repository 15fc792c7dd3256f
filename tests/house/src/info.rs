//! What the kernel keeps is readable memory, or there is a reason why not (SSS-1): `tests/house/info.txt` says which, for each static and
//! each structure that is found in the source (`kept.rs`), and `docs/info.md` is made of it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};

use crate::kept::{self, Kept};
use crate::{Problems, tree};

const LIST: &str = "tests/house/info.txt";
const PAGE: &str = "docs/info.md";
const LAYOUT: &str = "abi/src/info/layout.rs";

/// Something that the kernel keeps, and what is said of it: of the whole, or of its fields.
struct Said<'a> {
    file: &'a str,
    name: &'a str,
    what: &'a str,
    fields: Vec<(&'a str, &'a str)>,
}

pub fn check(root: &Path) -> Result<Problems> {
    let list = tree::text(root, LIST).with_context(|| format!("{LIST} cannot be read"))?;
    let layout = tree::text(root, LAYOUT).with_context(|| format!("{LAYOUT} cannot be read"))?;
    let said = said(&list);
    let mut problems = differences(&said, &kept::find(root)?, &Layout::new(&layout)?);
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
            let (name, what) = rest.split_once(' ').unwrap_or((rest, ""));
            all.push(Said { file: first, name, what, fields: Vec::new() });
        } else if let Some(of) = all.last_mut() {
            of.fields.push((first, rest));
        }
    }
    all
}

/// What programs can read: records, and fields of those.
struct Layout(BTreeSet<String>);

impl Layout {
    fn new(text: &str) -> Result<Layout> {
        let mut all = BTreeSet::new();
        for item in syn::parse_file(text).with_context(|| format!("{LAYOUT} is no Rust"))?.items {
            let syn::Item::Struct(record) = item else { continue };
            all.extend(
                record.fields.iter().filter_map(|field| Some(format!("{}.{}", record.ident, field.ident.as_ref()?))),
            );
            all.insert(record.ident.to_string());
        }
        Ok(Layout(all))
    }
}

fn differences(said: &[Said], kept: &[Kept], layout: &Layout) -> Problems {
    let mut found = Problems::new();
    for one in kept {
        let Kept { file, name, .. } = one;
        let mut of = said.iter().filter(|said| said.file == file && said.name == name);
        match (of.next(), of.next()) {
            (None, _) => {
                found.push(format!("{file}: {name} is not in {LIST}: say where programs read it, or why they do not"));
            }
            (Some(of), None) => found.extend(parts(of, one, said, layout)),
            (Some(_), Some(_)) => found.push(format!("{LIST}: {file} {name} is there twice")),
        }
    }
    for Said { file, name, .. } in
        said.iter().filter(|of| !kept.iter().any(|one| one.file == of.file && one.name == of.name))
    {
        found.push(format!("{LIST}: {file} has no {name}, or no static of the kernel's holds it"));
    }
    found
}

/// What is wrong with what is said of one.
fn parts(of: &Said, kept: &Kept, said: &[Said], layout: &Layout) -> Vec<String> {
    let Said { file, name, what, fields } = of;
    if fields.is_empty() {
        return wrong(what, said, layout).map(|why| format!("{LIST}: {file} {name}: {why}")).into_iter().collect();
    }
    let mut found = Vec::new();
    if !what.is_empty() {
        found.push(format!("{LIST}: {file} {name}: it is said of the whole and of its fields"));
    }
    for field in kept.fields.iter().filter(|field| !fields.iter().any(|(said, _)| said == field)) {
        found.push(format!("{file}: {name}.{field} is not in {LIST}: say where programs read it, or why they do not"));
    }
    for (field, what) in fields {
        if !kept.fields.iter().any(|there| there == field) {
            found.push(format!("{LIST}: {file} has no {name}.{field}"));
        }
        found.extend(wrong(what, said, layout).map(|why| format!("{LIST}: {file} {name}.{field}: {why}")));
    }
    found
}

/// What is wrong with a reason, or with a place to read at, which names one that there is.
fn wrong(what: &str, said: &[Said], layout: &Layout) -> Option<String> {
    if let Some(why) = what.strip_prefix('-') {
        return why.trim().is_empty().then(|| String::from("why not?"));
    }
    if let Some(other) = what.strip_prefix("see ") {
        return (!said.iter().any(|of| of.name == other)).then(|| format!("nothing is said of {other}"));
    }
    let words =
        || what.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).map(|word| word.trim_matches('.'));
    let missing = words().find(|word| word.contains('.') && !layout.0.contains(*word));
    if let Some(word) = missing {
        return Some(format!("{LAYOUT} has no {word}"));
    }
    (!words().any(|word| layout.0.contains(word))).then(|| format!("where in {LAYOUT}, or why not?"))
}

fn page(said: &[Said]) -> String {
    let mut out = String::from(
        "# What the kernel keeps, and where programs read it\n\nMade from `tests/house/info.txt` (`MUSUBI_WRITE=1 ./musubi test house` writes it \
         anew), which a test holds against the\nkernel's source: it finds each static of the kernel's, each structure that one of these holds, \
         itself or by way of others, and\neach field, and against `abi/src/info/layout.rs`. Why it is so: \
         [decision 0017](decisions/0017-info-section.md).\n",
    );
    let is_static = |of: &&Said| !of.name.contains(|c: char| c.is_lowercase());
    let (wholes, others): (Vec<&Said>, Vec<&Said>) = said.iter().partition(|of| of.fields.is_empty());
    let (statics, structures): (Vec<&Said>, Vec<&Said>) = wholes.into_iter().partition(is_static);
    for (title, which) in [("Statics", statics), ("Structures of which one thing is said", structures)] {
        let rows = which.iter().map(|of| (format!("`{}` (`{}`)", of.name, of.file), of.what));
        table(&mut out, title, rows);
    }
    for Said { file, name, fields, .. } in others {
        table(
            &mut out,
            &format!("{name} (`{file}`)"),
            fields.iter().map(|(field, what)| (format!("`{field}`"), *what)),
        );
    }
    out
}

fn table<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = (String, &'a str)>) {
    let _ = write!(out, "\n## {title}\n\n| what | read in | or why not |\n|---|---|---|\n");
    for (what, said) in rows {
        let _ = match said.strip_prefix("- ") {
            Some(why) => writeln!(out, "| {what} | | {why} |"),
            None => writeln!(out, "| {what} | {said} | |"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str = "pub struct Two {\n    pub x: u64,\n}\n";

    fn problems(list: &str) -> Vec<String> {
        let kept = |name: &str, fields: &[&str]| Kept {
            file: "k/one.rs".into(),
            name: name.into(),
            fields: fields.iter().map(ToString::to_string).collect(),
        };
        let kept = [kept("ALL", &[]), kept("One", &["a", "b", "c"])];
        differences(&said(list), &kept, &Layout::new(RECORDS).unwrap())
    }

    #[test]
    fn each_field_is_read_somewhere_or_has_a_reason() {
        assert_eq!(
            problems("k/one.rs ALL see One\nk/one.rs One\na Two.x\nb - why\nc Two.x, as a\n"),
            Vec::<String>::new()
        );
        assert_eq!(problems("k/one.rs ALL - why\nk/one.rs One a record of Two\n"), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_or_too_much_is_found() {
        let one = |of_one: &str| {
            let found = problems(&format!("k/one.rs ALL see One\nk/one.rs One{of_one}"));
            assert_eq!(found.len(), 1, "{found:?}");
            found.into_iter().next().unwrap()
        };
        assert!(one("\na Two.x\nb - why\n").contains("One.c is not in"), "a field that nothing is said of");
        assert!(one("\na Two.x\nb - why\nc Two.x\nd - why\n").contains("has no One.d"), "a field that is not there");
        assert!(one("\na Two.y\nb - why\nc Two.x\n").contains("has no Two.y"), "a place that is not there");
        assert!(one("\na Two.x\nb -\nc Two.x\n").contains("why not?"), "no reason");
        assert!(one("\na somewhere\nb - why\nc Two.x\n").contains("or why not?"), "no place");
        assert!(one("").contains("or why not?"), "nothing at all");
        assert!(one(" - why\na Two.x\nb - why\nc Two.x\n").contains("of the whole and of its fields"), "both");
        assert!(one(" see Other\n").contains("nothing is said of Other"), "seen where nothing is");
        assert!(one(" - why\nk/one.rs One - why\n").contains("twice"), "the same again");
        assert!(one(" - why\nk/one.rs Other - why\n").contains("has no Other"), "what is not kept");
        assert_eq!(
            problems("k/one.rs One - why\n"),
            ["k/one.rs: ALL is not in tests/house/info.txt: say where programs read it, or why they do not"]
        );
    }
}

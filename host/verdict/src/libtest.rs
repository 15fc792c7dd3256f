//! Reads what `cargo test` prints, line by line: cargo's headings and the test programs' own lines.

use crate::{Mark, Results};

/// Reads one run of `cargo test`, with standard error and output in one stream.
pub struct Reader<'a> {
    results: &'a mut Results,
    /// From a heading's program or library to the beginning of its tests' names, as in `host::acl`.
    prefix: &'a dyn Fn(Heading) -> String,
    /// The part that is running, if one is.
    part: Option<Part>,
}

/// What cargo announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading<'a> {
    /// The path of a test program.
    Program(&'a str),
    /// The name of a library whose examples run.
    Doc(&'a str),
}

struct Part {
    prefix: String,
    text: String,
    failed: bool,
}

impl<'a> Reader<'a> {
    pub fn new(results: &'a mut Results, prefix: &'a dyn Fn(Heading) -> String) -> Self {
        Self { results, prefix, part: None }
    }

    /// Takes a line. Returns what is to be shown: everything that a part printed, if a test of it failed.
    pub fn line(&mut self, line: &str) -> Option<String> {
        if let Some(heading) = heading(line) {
            let shown = self.close(false);
            self.part = Some(Part { prefix: (self.prefix)(heading), text: String::new(), failed: false });
            return shown;
        }
        let part = self.part.as_mut()?;
        part.text.push_str(line);
        part.text.push('\n');
        if let Some((name, mark)) = test(line) {
            part.failed |= mark == Mark::Failed;
            self.results.add(&format!("{}::{name}", part.prefix), mark);
        }
        if line.starts_with("test result:") { self.close(true) } else { None }
    }

    /// After the last line.
    pub fn end(mut self) -> Option<String> {
        self.close(false)
    }

    fn close(&mut self, finished: bool) -> Option<String> {
        let part = self.part.take()?;
        if !finished {
            self.results.add(&format!("{}::(it did not finish)", part.prefix), Mark::Failed);
        }
        (part.failed || !finished).then_some(part.text)
    }
}

fn heading(line: &str) -> Option<Heading<'_>> {
    let line = line.trim_start();
    if let Some(library) = line.strip_prefix("Doc-tests ") {
        return Some(Heading::Doc(library));
    }
    let program = line.strip_prefix("Running ")?.strip_suffix(')')?;
    Some(Heading::Program(program.rsplit_once('(')?.1))
}

/// `test NAME ... ok`, with or without a time or a reason after it.
fn test(line: &str) -> Option<(&str, Mark)> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let mark = Mark::parse(outcome.split([' ', ',', '(']).next()?)?;
    Some((name.strip_suffix(" - should panic").unwrap_or(name), mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> (Results, String) {
        let mut results = Results::default();
        let prefix = |heading: Heading| match heading {
            Heading::Program(path) => format!("host::{}", path.rsplit('/').next().unwrap()),
            Heading::Doc(library) => format!("host::{library}::doc"),
        };
        let mut shown = String::new();
        let mut reader = Reader::new(&mut results, &prefix);
        for line in lines.lines() {
            shown.extend(reader.line(line));
        }
        shown.extend(reader.end());
        (results, shown)
    }

    #[test]
    fn names_and_marks_are_read() {
        let (results, shown) = read(
            "   Compiling acl\n     Running unittests src/lib.rs (target/debug/deps/acl-1f)\n\n\
            running 3 tests\ntest tests::union ... ok\ntest tests::slow ... ignored, by default\n\
            test tests::wild - should panic ... ok\n\ntest result: ok. 2 passed\n\n   Doc-tests acl\n\
            test src/lib.rs - check (line 3) - compile fail ... ok\ntest result: ok. 1 passed\n",
        );
        assert_eq!(results.mark("host::acl-1f::tests::union"), Some(Mark::Ok));
        assert_eq!(results.mark("host::acl-1f::tests::slow"), Some(Mark::Skipped));
        assert_eq!(results.mark("host::acl-1f::tests::wild"), Some(Mark::Ok));
        assert_eq!(results.mark("host::acl::doc::src/lib.rs - check (line 3) - compile fail"), Some(Mark::Ok));
        assert!(shown.is_empty(), "{shown}");
    }

    #[test]
    fn a_failure_shows_its_part_only() {
        let (results, shown) = read(
            "Running a (a)\ntest x ... ok\ntest result: ok\n\
            Running b (b)\ntest y ... FAILED\nfailures: because\ntest result: FAILED\nerror: test failed\n",
        );
        assert_eq!(results.failed().collect::<Vec<_>>(), ["host::b::y"]);
        assert!(shown.contains("because") && !shown.contains("test x"));
    }

    #[test]
    fn a_program_that_dies_has_failed() {
        let (results, shown) = read("Running a (a)\ntest x ... ok\nsignal: 11\nRunning b (b)\ntest result: ok\n");
        assert_eq!(results.failed().collect::<Vec<_>>(), ["host::a::(it did not finish)"]);
        assert!(shown.contains("signal: 11"));
        assert_eq!(read("Running a (a)\n").0.count(Mark::Failed), 1);
    }
}

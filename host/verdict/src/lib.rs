#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod libtest;

pub use libtest::{Heading, Reader};

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// How a test ended. Ordered: of several variants the worst counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    Skipped,
    /// Left to `./musubi test all`.
    Long,
    Ok,
    Failed,
}

impl Mark {
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "ok" => Some(Self::Ok),
            "FAILED" => Some(Self::Failed),
            "skipped" | "ignored" => Some(Self::Skipped),
            "long" => Some(Self::Long),
            _ => None,
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Skipped => "skipped",
            Self::Long => "long",
            Self::Ok => "ok",
            Self::Failed => "FAILED",
        })
    }
}

/// All results, by name. Every variant counts as a test; the file has one line for all variants of a name.
#[derive(Default)]
pub struct Results {
    variants: BTreeMap<String, Mark>,
}

impl Results {
    pub fn add(&mut self, name: &str, mark: Mark) {
        let old = self.variants.entry(name.into()).or_insert(mark);
        *old = mark.max(*old);
    }

    /// The mark of a test over all its variants, by the name without the bracket.
    pub fn mark(&self, name: &str) -> Option<Mark> {
        self.by_name().get(name).copied()
    }

    /// Every test with the mark over its variants.
    pub fn by_name(&self) -> BTreeMap<&str, Mark> {
        let mut names = BTreeMap::new();
        for (name, mark) in &self.variants {
            let worst = names.entry(base(name)).or_insert(*mark);
            *worst = (*worst).max(*mark);
        }
        names
    }

    pub fn count(&self, mark: Mark) -> usize {
        self.variants.values().filter(|found| **found == mark).count()
    }

    /// Whether something ran and nothing failed.
    pub fn good(&self) -> bool {
        self.count(Mark::Ok) > 0 && self.count(Mark::Failed) == 0
    }

    pub fn failed(&self) -> impl Iterator<Item = &str> {
        self.variants.iter().filter(|(_, mark)| **mark == Mark::Failed).map(|(name, _)| name.as_str())
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let lines: String = self.by_name().iter().map(|(name, mark)| format!("{name} {mark}\n")).collect();
        std::fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))
    }

    /// The last line of `./musubi test`.
    pub fn summary(&self) -> String {
        format!("{} passed, {} failed", self.count(Mark::Ok), self.count(Mark::Failed))
    }
}

/// The name without its variant.
fn base(name: &str) -> &str {
    match name.split_once('[') {
        Some((base, _)) if name.ends_with(']') => base,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_ok_only_in_all_variants() {
        let mut results = Results::default();
        results.add("system::s10_boot::echo[cpus=1]", Mark::Ok);
        results.add("system::s10_boot::echo[cpus=2]", Mark::Failed);
        results.add("system::s10_boot::exit[cpus=1]", Mark::Ok);
        results.add("system::s10_boot::exit[cpus=2]", Mark::Skipped);
        assert_eq!(results.mark("system::s10_boot::echo"), Some(Mark::Failed));
        assert_eq!(results.mark("system::s10_boot::exit"), Some(Mark::Ok));
        assert_eq!(results.mark("system::s10_boot"), None);
        assert_eq!(results.summary(), "2 passed, 1 failed");
        assert!(!results.good());
        assert_eq!(results.failed().collect::<Vec<_>>(), ["system::s10_boot::echo[cpus=2]"]);
    }

    #[test]
    fn nothing_run_is_not_good() {
        let mut results = Results::default();
        assert!(!results.good());
        results.add("house::format", Mark::Skipped);
        assert!(!results.good());
        results.add("house::arrows", Mark::Ok);
        assert!(results.good());
    }

    #[test]
    fn the_file_has_a_line_for_each_name() {
        let mut results = Results::default();
        results.add("host::acl::union", Mark::Ok);
        results.add("system::s1::x[a]", Mark::Ok);
        results.add("system::s1::x[b]", Mark::Ok);
        let path = std::env::temp_dir().join(format!("verdict-{}", std::process::id()));
        results.write(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "host::acl::union ok\nsystem::s1::x ok\n");
        std::fs::remove_file(path).unwrap();
    }
}

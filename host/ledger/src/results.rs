//! Which tests ran, and how they ended: one line each, `NAME ok`, `NAME FAILED`, `NAME skipped` or `NAME long`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    Failed,
    Skipped,
    /// It is left to `./musubi test all`.
    Long,
}

#[derive(Clone, Debug, Default)]
pub struct Results(BTreeMap<String, Outcome>);

impl Results {
    pub fn parse(text: &str) -> Result<Results> {
        let mut results = Results::default();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            // From the right: names of system tests may hold spaces.
            let (name, word) = line.trim().rsplit_once(' ').with_context(|| format!("line {}: no outcome", i + 1))?;
            let outcome = match word {
                "ok" => Outcome::Ok,
                "FAILED" => Outcome::Failed,
                "skipped" => Outcome::Skipped,
                "long" => Outcome::Long,
                _ => bail!("line {}: '{word}' is not ok, FAILED, skipped or long", i + 1),
            };
            results.add(name.trim(), outcome);
        }
        Ok(results)
    }

    pub fn load(path: &Path) -> Result<Results> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Results::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// A test that ran more than once (other numbers of processors) is as good as its worst run;
    /// a run that was skipped beside one that passed takes nothing away.
    pub fn add(&mut self, name: &str, outcome: Outcome) {
        let kept = self.0.entry(name.to_string()).or_insert(outcome);
        *kept = match (*kept, outcome) {
            (Outcome::Failed, _) | (_, Outcome::Failed) => Outcome::Failed,
            (Outcome::Ok, _) | (_, Outcome::Ok) => Outcome::Ok,
            (Outcome::Long, _) | (_, Outcome::Long) => Outcome::Long,
            _ => Outcome::Skipped,
        };
    }

    pub fn get(&self, name: &str) -> Option<Outcome> {
        self.0.get(name).copied()
    }
}

//! A row as it is written, and the file of them.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{Number, PATH};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum State {
    #[serde(rename = "works")]
    Works,
    #[serde(rename = "in part")]
    InPart,
    #[serde(rename = "not yet")]
    NotYet,
    #[serde(rename = "replaced")]
    Replaced,
    #[serde(rename = "fact")]
    Fact,
}

impl State {
    pub const ALL: [State; 5] = [State::Works, State::InPart, State::NotYet, State::Replaced, State::Fact];

    /// What a person may type: `in-part` spares the quotation marks.
    pub fn parse(word: &str) -> Option<State> {
        let word = word.to_ascii_lowercase().replace(['-', '_'], " ");
        State::ALL.into_iter().find(|s| s.to_string() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            State::Works => "works",
            State::InPart => "in part",
            State::NotYet => "not yet",
            State::Replaced => "replaced",
            State::Fact => "fact",
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// As written; [`Row::id`] is what it means.
    pub number: String,
    pub title: String,
    pub state: State,
    pub tests: Vec<String>,
    #[serde(default)]
    pub note: String,
}

impl Row {
    pub fn id(&self) -> Option<Number> {
        Number::parse(&self.number)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    #[serde(default, rename = "row")]
    pub rows: Vec<Row>,
}

impl Ledger {
    /// Fails on what cannot be read: a state that does not exist, a missing or misspelt field.
    pub fn parse(text: &str) -> Result<Ledger> {
        toml::from_str(text).context("the ledger cannot be read")
    }

    pub fn load(root: &Path) -> Result<Ledger> {
        let path = root.join(PATH);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ledger::parse(&text).with_context(|| format!("in {PATH}"))
    }
}

//! What a peer prints: a JSON object a line.

use anyhow::{Context, Result, ensure};
use measure::{Figure, Source, unit};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a figure is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub bench: String,
    pub case: String,
    pub bytes: u64,
    pub system: String,
    pub way: String,
}

/// What does not apply, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    #[serde(flatten)]
    pub subject: Subject,
    pub skipped: String,
}

/// Which system was measured, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub system: String,
    pub release: String,
    pub version: String,
    pub command_line: String,
}

/// All that peers said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub about: Vec<About>,
    pub figures: Vec<Figure>,
    pub skipped: Vec<Skipped>,
    /// What is missing beside, and why.
    pub notes: Vec<String>,
}

impl fmt::Display for Subject {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let Self { bench, case, bytes, system, way } = self;
        write!(to, "{bench} {case} of {bytes} bytes by {way} on {system}")
    }
}

impl Subject {
    pub fn of(figure: &Figure) -> Self {
        let Figure { bench, case, bytes, system, way, .. } = figure.clone();
        Self { bench, case, bytes, system, way }
    }
}

impl Report {
    /// Reads what a peer printed. A line that is not understood is an error: a figure could be lost in it.
    pub fn parse(text: &str) -> Result<Self> {
        let mut report = Self::default();
        for line in text.lines() {
            report.line(line).with_context(|| format!("the line {line:?}"))?;
        }
        Ok(report)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let object: serde_json::Value = serde_json::from_str(line)?;
        if object.get("skipped").is_some() {
            self.skipped.push(serde_json::from_value(object)?);
        } else if object.get("command_line").is_some() {
            self.about.push(serde_json::from_value(object)?);
        } else {
            let figure: Figure = serde_json::from_value(object)?;
            check(&figure)?;
            self.figures.push(figure);
        }
        Ok(())
    }

    /// What several rounds come to together.
    pub fn merge(rounds: Vec<Self>) -> Self {
        let mut merged = Self::default();
        let mut figures = Vec::new();
        for round in rounds {
            for about in round.about {
                if !merged.about.contains(&about) {
                    merged.about.push(about);
                }
            }
            for skipped in round.skipped {
                if !merged.skipped.contains(&skipped) {
                    merged.skipped.push(skipped);
                }
            }
            figures.extend(round.figures);
            for note in round.notes {
                if !merged.notes.contains(&note) {
                    merged.notes.push(note);
                }
            }
        }
        merged.figures = Figure::merged(figures);
        merged
    }
}

/// What a line of a peer's cannot be.
fn check(figure: &Figure) -> Result<()> {
    let Figure { cpus, unit, value, min, max, n, source, .. } = figure;
    ensure!(min <= value && value <= max, "{value} does not lie between {min} and {max}");
    ensure!(*cpus > 0 && *n > 0, "measured on no processor, or not once");
    ensure!(*value > 0, "nothing costs nothing");
    ensure!([unit::INSTRUCTIONS, unit::NANOSECONDS].contains(&unit.as_str()), "{unit} is no unit of a peer's");
    ensure!(*source == Source::Measured, "it is not measured");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"bench":"ipc","case":"NullProc","bytes":8192,"system":"linux-default","way":"pipe","cpus":1,"unit":"instructions","value":13298,"min":13290,"max":20001,"n":200,"source":"measured"}"#;
    const ABOUT: &str = r##"{"system":"linux-best","release":"6.1","version":"#1 Debian","command_line":"quiet"}"##;
    const SKIPPED: &str =
        r#"{"bench":"ipc","case":"NullProc","bytes":1048576,"system":"linux-best","way":"udp","skipped":"too much"}"#;

    #[test]
    fn lines_are_told_apart() {
        let text = [ABOUT, LINE, SKIPPED].join("\n");
        let report = Report::parse(&text).unwrap();
        assert_eq!((report.about.len(), report.figures.len(), report.skipped.len()), (1, 1, 1));
        assert_eq!(report.figures[0].value, 13298);
        assert_eq!(report.figures[0].line(), LINE);
        assert_eq!((report.skipped[0].subject.way.as_str(), report.about[0].release.as_str()), ("udp", "6.1"));
    }

    #[test]
    fn a_line_that_is_not_whole_or_makes_no_sense_is_refused() {
        let changed = |from: &str, to: &str| Report::parse(&LINE.replace(from, to)).is_err();
        assert!(!changed("pipe", "unix"));
        assert!(changed("\"value\":13298", "\"value\":13289"), "less than the least");
        assert!(changed("\"value\":13298", "\"value\":20002"), "more than the greatest");
        assert!(changed("\"n\":200", "\"n\":0"));
        assert!(changed("\"source\":\"measured\"", "\"source\":\"paper\""));
        assert!(changed("instructions", "cycles"));
        assert!(changed("\"way\":\"pipe\",", ""));
        assert!(changed("}", ""));
        assert!(Report::parse("[    1.0] Linux was here").is_err());
        assert!(Report::parse(&format!("{LINE}\n\n")).is_err());
    }

    #[test]
    fn rounds_come_to_one_figure() {
        let round = |value: u64| {
            let line = LINE.replace("13298", &value.to_string()).replace("13290", "10").replace("20001", "30000");
            Report::parse(&line).unwrap()
        };
        let value = |values: &[u64]| {
            let merged = Report::merge(values.iter().map(|value| round(*value)).collect());
            assert_eq!((merged.figures.len(), merged.figures[0].n), (1, 200 * values.len() as u64));
            merged.figures[0].value
        };
        assert_eq!((value(&[7000]), value(&[3000, 9000, 2000]), value(&[2000, 1000])), (7000, 3000, 1500));
        let other = Report::parse(&LINE.replace("instructions", "nanoseconds")).unwrap();
        assert_eq!(Report::merge(vec![round(7000), other]).figures.len(), 2, "units are not mixed");
    }
}

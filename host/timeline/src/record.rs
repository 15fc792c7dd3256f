//! The lines of `trace --lines`.

use abi::trace::Event;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;

/// Begins each of them.
const LINE: &str = "\u{1d}trace ";

/// What a machine has recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// With their processors, in the order of time.
    pub events: Vec<(usize, Event)>,
    /// Names of tasks.
    pub tasks: BTreeMap<u64, String>,
    pub lost: u64,
}

impl Record {
    /// Takes the lines of a record out of what was printed. Value: the record, and the rest.
    ///
    /// # Errors
    /// A line makes no sense, or there is no record at all.
    pub fn read(printed: &str) -> Result<(Record, String)> {
        let (mut record, mut rest, mut whole) = (Record::default(), String::new(), false);
        for line in printed.split_inclusive('\n') {
            // Another program may have left its line unfinished.
            let Some((before, words)) = line.split_once(LINE) else {
                rest.push_str(line);
                continue;
            };
            rest.push_str(before);
            whole |= record.line(words.trim_end()).with_context(|| format!("the guest's trace: {words}"))?;
        }
        if !whole {
            bail!("the guest has printed no trace");
        }
        record.events.sort_by_key(|(processor, event)| (event.time, *processor));
        Ok((record, rest))
    }

    /// Whether it is the last line.
    fn line(&mut self, words: &str) -> Result<bool> {
        match words.split_once(' ').unwrap_or((words, "")) {
            ("task", rest) => {
                let (number, name) = rest.split_once(' ').context("a name")?;
                self.tasks.insert(number.parse()?, name.to_string());
            }
            ("event", rest) => {
                let numbers: Vec<u64> = rest.split(' ').map(str::parse).collect::<Result<_, _>>()?;
                let [processor, time, kind, handler, thread, task, text, a, b] =
                    numbers.try_into().ok().context("nine numbers")?;
                let event = Event { time, kind, handler, thread, task, text, a, b };
                self.events.push((usize::try_from(processor)?, event));
            }
            ("lost", rest) => {
                self.lost = rest.parse()?;
                return Ok(true);
            }
            _ => bail!("an unknown line"),
        }
        Ok(false)
    }

    /// Processors that something was recorded of.
    pub fn processors(&self) -> usize {
        self.events.iter().map(|(processor, _)| processor + 1).max().unwrap_or(0)
    }

    pub fn name(&self, task: u64) -> String {
        self.tasks.get(&task).cloned().unwrap_or_else(|| format!("task {task}"))
    }

    /// First and last moment, ns since boot.
    pub fn range(&self) -> (u64, u64) {
        let time = |one: Option<&(usize, Event)>| one.map_or(0, |(_, event)| event.time);
        (time(self.events.first()), time(self.events.last()))
    }
}

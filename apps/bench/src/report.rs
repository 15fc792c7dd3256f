//! What is printed: a table for people, a JSON object a line for programs.

use crate::samples::Samples;
use alloc::format;
use alloc::string::String;
use musubi::println;
use musubi::rt::{task, time};

/// Events counted by the kernel over all processors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub entries: u64,
    pub views: u64,
}

impl Counts {
    pub fn now() -> Counts {
        task::processors().fold(Counts::default(), |sum, p| Counts {
            entries: sum.entries + p.entries,
            views: sum.views + p.view_switches,
        })
    }
}

pub struct Report {
    json: bool,
    unit: &'static str,
    cpus: usize,
}

impl Report {
    pub fn new(json: bool) -> Report {
        let unit = if time::ticks_are_instructions() { "instructions" } else { "ticks" };
        Report { json, unit, cpus: task::processors().count() }
    }

    /// A case with its steps, whose sum is the case; and the events of `rounds` rounds.
    pub fn case(
        &self,
        case: &str,
        way: &str,
        total: &mut Samples,
        steps: &mut [(&str, Samples)],
        events: Option<(Counts, u64)>,
    ) {
        let (value, min, max) = total.summary();
        let n = total.len();
        if self.json {
            self.line(case, way, self.unit, value, min, max, n);
            for (step, samples) in steps.iter_mut() {
                let (value, min, max) = samples.summary();
                self.line(&format!("{case}/{step}"), way, self.unit, value, min, max, samples.len());
            }
        } else {
            println!("{case} ({way}): {value} {} (least {min}, most {max}, {n} rounds)", self.unit);
            for (step, samples) in steps.iter_mut() {
                let step_value = samples.summary().0;
                println!("    {step:<44} {step_value:>9}  {:>3} %", step_value * 100 / value.max(1));
            }
        }
        let Some((counts, rounds)) = events else { return };
        for (unit, count) in [("kernel-entries", counts.entries), ("view-switches", counts.views)] {
            let each = (count + rounds / 2) / rounds.max(1);
            if self.json {
                self.line(case, way, unit, each, each, each, n);
            } else {
                println!("    {unit:<44} {each:>9}");
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a line")]
    fn line(&self, case: &str, way: &str, unit: &str, value: u64, min: u64, max: u64, n: usize) {
        let cpus = self.cpus;
        let line: String = format!(
            "{{\"bench\":\"calls\",\"case\":\"{case}\",\"bytes\":0,\"system\":\"musubi\",\"way\":\"{way}\",\"cpus\":{cpus},\
             \"unit\":\"{unit}\",\"value\":{value},\"min\":{min},\"max\":{max},\"n\":{n},\"source\":\"measured\"}}"
        );
        println!("{line}");
    }

    pub fn finish(&self) {
        if !self.json && self.unit == "ticks" {
            println!("ticks of the time-stamp counter; start the machine with --icount to count instructions");
        }
    }
}

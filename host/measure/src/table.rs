//! The tables for people.

mod by_size;
mod compared;
mod counts;
pub(crate) mod handlers;
mod k1;
mod message;
mod wall;

use crate::benches::{Bench, PROGRAMS};
use crate::figure::{ASYNC, ASYNC_CALLS, Figure, MUSUBI, Source, count, unit};
use crate::paper::Paper;
use crate::peer::Peer;
use crate::shares::percents;
use std::fmt;

/// Figures side by side: what a round takes, which step takes what share, and what else is counted.
pub struct Table<'a> {
    pub bench: &'a Bench,
    pub figures: &'a [Figure],
    pub papers: &'a [Paper],
    /// The same in nanoseconds of the host, if that was measured, too.
    pub wall: &'a [Figure],
}

/// Which way of a peer's is the nearest to one of ours (case, way, the peer's way), where that is not the fastest: a pager that supplies a page.
const NEAREST: [(&str, &str, &str); 1] = [("round-trip", "supply", "userfaultfd")];

/// Real pages had and given back.
const REAL: &str = "alloc+free";

/// What is counted of programs that nobody here wrote.
const OF_PROGRAMS: &str = "\
What all processors executed (a round's length has what they slept in it, too); messages, and how many thousandths of all
instructions they take at most:";

/// Where nothing is known.
const NOTHING: &str = "-";

impl Table<'_> {
    fn totals(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|figure| figure.system == MUSUBI && figure.is_total())
    }

    /// Those of which more is shown than the length: of several sizes one.
    fn shown(&self) -> impl Iterator<Item = &Figure> {
        self.totals().filter(|own| by_size::shown(&by_size::sizes(self, &own.case)) == own.bytes)
    }

    /// Whether figures are of machines with different numbers of processors.
    fn has_many_machines(&self) -> bool {
        self.totals().any(|own| own.cpus != self.bench.cpus)
    }

    /// The columns that say what a row is about.
    fn head(&self) -> Vec<String> {
        let cpus = self.has_many_machines().then_some("cpus");
        ["case", "bytes", "way"].into_iter().chain(cpus).map(String::from).collect()
    }

    fn words(&self, own: &Figure) -> Vec<String> {
        let cpus = self.has_many_machines().then(|| own.cpus.to_string());
        [own.case.clone(), own.bytes.to_string(), own.way.clone()].into_iter().chain(cpus).collect()
    }

    /// The peer's figure for the same case, by the fastest of its ways, or by the nearest. (Without data it is the same case whatever size the
    /// others are.) On as many processors, if it was measured on several.
    fn peer(&self, own: &Figure, system: &str) -> Option<&Figure> {
        let nearest = NEAREST.into_iter().find(|(case, way, _)| *case == own.case && *way == own.way);
        let same = |f: &&Figure| {
            f.system == system
                && f.is_total()
                && f.unit == own.unit
                && f.case == own.case
                && (f.bytes == own.bytes || own.bytes == 0)
                && nearest.is_none_or(|(.., way)| f.way == way)
        };
        self.figures.iter().filter(same).min_by_key(|figure| (figure.cpus != own.cpus, figure.value))
    }

    /// What 99 of a hundred of its rounds did not exceed, if that is known.
    fn late(&self, of: &Figure) -> Option<&Figure> {
        let is_its = |f: &&Figure| {
            f.unit == unit::LATE && f.is_about(of) && (&f.system, &f.way, f.cpus) == (&of.system, &of.way, of.cpus)
        };
        self.figures.iter().find(is_its)
    }

    /// The published figure for the same case and way. A plain call is the paper's EPC-S, too; by which version of the
    /// scheduler ITC went when sizes were measured, it does not say, and all of its schedulers were called by the kernel. Real pages are
    /// had by light calls here, and were by full ones on SSS-CORE.
    fn published(&self, own: &Figure) -> Option<&Figure> {
        let way = match own.way.strip_suffix(by_size::OTHER).unwrap_or(&own.way) {
            "plain" => "epc-s",
            "itc-improved" | "itc-initial" => "itc",
            "itc-improved-by-kernel" => "itc-improved",
            "sunrpc-udp" => "sun-rpc-udp",
            "light" if own.case == REAL => "full",
            way => way,
        };
        let several = |figure: &Figure| figure.cpus > 1;
        let same = |f: &&Figure| f.source == Source::Paper && f.is_about(own) && (f.way == own.way || f.way == way);
        self.figures.iter().filter(same).min_by_key(|f| (f.way != own.way, several(f) != several(own)))
    }

    fn measured(&self) -> Vec<Vec<String>> {
        let mut head = self.head();
        head.push(MUSUBI.into());
        for system in Peer::SYSTEMS {
            head.extend([system.into(), "ratio".into()]);
        }
        head.push("paper".into());
        let mut rows = vec![head];
        for own in self.totals() {
            let mut row = self.words(own);
            row.push(own.value.to_string());
            for system in Peer::SYSTEMS {
                match self.peer(own, system) {
                    Some(peer) => {
                        row.push(format!("{} ({})", peer.value, peer.way));
                        row.push(format!("{:.1}", peer.value as f64 / own.value.max(1) as f64));
                    }
                    None => row.extend([NOTHING.into(), NOTHING.into()]),
                }
            }
            row.push(self.published(own).map_or(NOTHING.into(), paper));
            rows.push(row);
        }
        rows
    }

    fn steps(&self) -> Vec<Vec<String>> {
        let mut rows = vec![[self.head(), vec!["steps".into()]].concat()];
        for own in self.shown() {
            let steps = self
                .figures
                .iter()
                .filter(|f| f.system == MUSUBI && f.way == own.way && f.cpus == own.cpus && f.is_about(own))
                .filter_map(|f| Some((f.case_and_step().1?, f.value)));
            let steps = grouped(steps.collect());
            if steps.is_empty() {
                continue;
            }
            let lengths: Vec<u64> = steps.iter().map(|(_, n)| *n).collect();
            let shown =
                steps.iter().zip(percents(&lengths)).map(|((name, n), share)| format!("{name} {n} ({share} %)"));
            let shown: Vec<String> = shown.collect();
            let mut row = self.words(own);
            row.push(shown.join(", "));
            rows.push(row);
        }
        rows
    }

    /// What is no length of a round, in the guest's order.
    fn plain(&self, units: &[&str]) -> Vec<Vec<String>> {
        let mut rows = vec![[self.head(), ["value", "unit"].map(String::from).to_vec()].concat()];
        let plain = self.figures.iter().filter(|f| f.system == MUSUBI && units.contains(&f.unit.as_str()));
        rows.extend(plain.map(|own| [self.words(own), vec![own.value.to_string(), own.unit.clone()]].concat()));
        rows
    }

    /// Of a benchmark without rounds that have a length.
    fn only_counted(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rows = self.plain(&count::PLAIN);
        if rows.len() > 1 {
            writeln!(f, "{}: {}\n", self.bench.name, self.bench.about)?;
            columns(f, &rows)?;
        }
        Ok(())
    }
}

/// A published figure with its system.
fn paper(figure: &Figure) -> String {
    let (number, unit) = (published_number(figure), published_unit(&figure.unit));
    format!("{number} {unit} ({} {})", figure.system, figure.way)
}

/// Its number as it is shown, behind `< ` if it is a limit.
fn published_number(figure: &Figure) -> String {
    let below = if figure.min < figure.value { "< " } else { "" };
    match figure.unit.as_str() {
        unit::MICROSECONDS => format!("{below}{:.3}", figure.value as f64 / 1000.0),
        _ => format!("{below}{}", figure.value),
    }
}

/// The unit of such a number.
fn published_unit(unit: &str) -> &str {
    if unit == unit::MICROSECONDS { "ms" } else { unit }
}

/// Steps told one by one, as long as a line holds them.
const STEPS: usize = 8;

/// Steps; if they are many, those of the same text together.
fn grouped(steps: Vec<(&str, u64)>) -> Vec<(&str, u64)> {
    if steps.len() <= STEPS {
        return steps;
    }
    let mut groups: Vec<(&str, u64)> = Vec::new();
    for (step, n) in steps {
        let text = step.split(' ').next().unwrap_or(step);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, sum)) => *sum += n,
            None => groups.push((text, n)),
        }
    }
    groups
}

/// Words are set to the left, numbers to the right.
fn columns(f: &mut fmt::Formatter, rows: &[Vec<String>]) -> fmt::Result {
    let heads = rows.first().map_or(&[][..], Vec::as_slice);
    let widths = (0..heads.len()).map(|at| rows.iter().map(|row| row[at].len()).max().unwrap_or(0));
    let widths: Vec<usize> = widths.collect();
    for row in rows {
        let mut line = String::new();
        for ((cell, head), width) in row.iter().zip(heads).zip(&widths) {
            line.push_str(&match head.as_str() {
                "case" | "way" | "system" | "paper" | "steps" | "compared" => format!("{cell:<width$}  "),
                _ => format!("{cell:>width$}  "),
            });
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.bench.name == handlers::NAME {
            return handlers::show(self.figures, f);
        }
        let Some(first) = self.totals().next() else { return self.only_counted(f) };
        let on = match first.unit.as_str() {
            unit::CYCLES => "cycles of this machine's processor (KVM)",
            _ => "instructions, counted by QEMU (TCG, -icount): exact, and not time",
        };
        writeln!(
            f,
            "{}: {}\nIn {on}; the median of the rounds{}.\n",
            self.bench.name,
            self.bench.about,
            if self.has_many_machines() { String::new() } else { format!("; processors: {}", first.cpus) }
        )?;
        if by_size::applies(self) {
            for table in by_size::tables(self) {
                columns(f, &table)?;
                writeln!(f)?;
            }
            writeln!(
                f,
                "Numbers at the head are bytes; ratios, what is beside ours at the end, and what follows are of {}.",
                by_size::ONE
            )?;
            if self.figures.iter().any(|figure| figure.source == Source::Paper) {
                writeln!(f, "A paper's own rows are in the unit at their end.")?;
            }
            if self.figures.iter().any(|figure| figure.system != MUSUBI && figure.source == Source::Measured) {
                writeln!(f, "Ratios are of the fastest way to ours. {}: under the default policy.", by_size::MARK)?;
            }
        } else {
            columns(f, &self.measured())?;
        }
        let steps = self.steps();
        if steps.len() > 1 {
            writeln!(f, "\nWhich step takes what:")?;
            columns(f, &steps)?;
        }
        writeln!(f, "\nWhat else a round takes, counted (of {ASYNC}: one of its {ASYNC_CALLS} calls):")?;
        columns(f, &counts::rows(self, &count::ALL))?;
        if counts::has_peers(self, &count::ALL) {
            let mark = by_size::MARK;
            writeln!(f, "{NOTHING}: not counted there. {mark}: under the default policy.")?;
        }
        let touched = counts::rows(self, &count::TOUCHED);
        if touched.len() > 1 {
            writeln!(
                f,
                "\nLines of a cache and pages that a round touches, each once, or again behind a switch that loses it:"
            )?;
            columns(f, &touched)?;
        }
        let messages = message::rows(self);
        if messages.len() > 1 {
            writeln!(f, "\nOf that, one message:")?;
            columns(f, &messages)?;
        }
        let of_many = counts::rows(self, &count::OF_MANY);
        if of_many.len() > 1 {
            writeln!(f, "\nOne call of such a round, and protection keys over all rounds:")?;
            columns(f, &of_many)?;
        }
        let is_of_programs = self.bench.name == PROGRAMS;
        if is_of_programs {
            writeln!(f, "\n{OF_PROGRAMS}")?;
            columns(f, &counts::rows(self, &count::OF_PROGRAMS))?;
        }
        let plain = self.plain(if is_of_programs { &[count::BESIDE] } else { &count::PLAIN });
        if plain.len() > 1 {
            writeln!(f, "\nCounted by the guest:")?;
            columns(f, &plain)?;
        }
        let k1 = k1::rows(self.figures);
        if k1.len() > 1 {
            writeln!(f, "\n{}:", k1::ABOUT)?;
            columns(f, &k1)?;
        }
        let compared = compared::rows(self.figures);
        if compared.len() > 1 {
            writeln!(f, "\nWhat the papers compare, as a ratio of two lengths:")?;
            columns(f, &compared)?;
        }
        wall::show(self, f)?;
        let is_shown =
            |paper: &&Paper| self.totals().filter_map(|own| self.published(own)).any(|figure| paper.has(figure));
        for paper in self.papers.iter().filter(is_shown) {
            writeln!(f, "\nPaper: {}; on {}.", paper.source, paper.machine)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

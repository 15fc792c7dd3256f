//! The picture: a row for each processor, coloured by who runs there; below in the row, darker, when the kernel does; above it what happens.

use crate::record::Record;
use crate::spans::{Span, spans};
use crate::svg::{Anchor, Svg};
use abi::trace::{Handler, kind};
use std::collections::BTreeMap;

const WIDTH: f64 = 1400.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 64.0;
/// Of a row: marks, then who runs, and in its lower part the kernel.
const MARKS: f64 = 18.0;
const BAR: f64 = 44.0;
const KERNEL: f64 = 14.0;
const GAP: f64 = 22.0;

const INK: &str = "#22303c";
const FAINT: &str = "#8795a1";
const LINES: &str = "#e3e8ec";
const PAPER: &str = "#fcfcfa";
const IDLE: &str = "#eef1f3";
const OTHERS: &str = "#b8c0c6";

/// Who runs, and the same darker for the kernel.
const COLOURS: [(&str, &str); 10] = [
    ("#4e79a7", "#2b4a6b"),
    ("#f28e2b", "#a85a0e"),
    ("#59a14f", "#33672c"),
    ("#e15759", "#9a2c2e"),
    ("#76b7b2", "#43807b"),
    ("#edc948", "#a38413"),
    ("#b07aa1", "#744a67"),
    ("#9c755f", "#63463a"),
    ("#ff9da7", "#b8535e"),
    ("#86bcb6", "#4b7d78"),
];

/// What is marked, how, and in which words.
const MARKED: [(u64, &str, &str); 7] = [
    (kind::WAKE, "#2f855a", "wake-up"),
    (kind::HAND_OVER, "#b7791f", "hand-over"),
    (kind::CALL, "#2b6cb0", "call by the kernel"),
    (kind::PAGER, "#9b2c2c", "pager"),
    (kind::SHOOTDOWN, "#d53f8c", "shootdown"),
    (kind::INTERRUPT, "#4a5568", "interrupt"),
    (kind::TASK, "#000000", "task begins"),
];

/// Two marks of a kind are not drawn closer.
const MARK_STEP: f64 = 3.0;
/// Nothing narrower is drawn by itself.
const LEAST: f64 = 0.35;

pub fn picture(record: &Record, title: &str) -> String {
    let (first, last) = record.range();
    let spans = spans(record);
    let rows = record.processors();
    let row = MARKS + BAR + GAP;
    let axis = TOP + rows as f64 * row;
    let mut svg = Svg::new(WIDTH, axis + 92.0, PAPER);
    let at = |time: u64| LEFT + (time - first) as f64 / (last - first).max(1) as f64 * (WIDTH - LEFT - RIGHT);
    svg.text((LEFT, 28.0), 17, INK, Anchor::Start, title);
    let about =
        format!("{} events on {rows} processors in {}; {} lost", record.events.len(), time(last - first), record.lost);
    svg.text((LEFT, 48.0), 12, FAINT, Anchor::Start, &about);
    let colours = colours(&spans);
    scale(&mut svg, first, last, axis, at);
    for processor in 0..rows {
        let y = TOP + processor as f64 * row + MARKS;
        svg.text((LEFT - 12.0, y + BAR / 2.0 + 4.0), 13, INK, Anchor::End, &format!("processor {processor}"));
        svg.rect([LEFT, y, WIDTH - LEFT - RIGHT, BAR], IDLE, "");
        for kernel in [false, true] {
            let own =
                |span: &&Span| span.processor == processor && span.thread != 0 && span.handler.is_some() == kernel;
            bars(&mut svg, record, spans.iter().filter(own), &colours, y, at);
        }
        marks(&mut svg, record, processor, y, at);
    }
    legend(&mut svg, record, &colours, axis + 62.0);
    svg.finish()
}

/// The tasks that run longest have colours, the others share one.
fn colours(spans: &[Span]) -> Vec<u64> {
    let mut time: BTreeMap<u64, u64> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.thread != 0 && span.handler.is_none()) {
        *time.entry(span.task).or_default() += span.to - span.from;
    }
    let mut tasks: Vec<(u64, u64)> = time.into_iter().filter(|(task, _)| *task != 0).collect();
    tasks.sort_by_key(|(task, time)| (std::cmp::Reverse(*time), *task));
    tasks.into_iter().take(COLOURS.len()).map(|(task, _)| task).collect()
}

fn bars<'a>(
    svg: &mut Svg,
    record: &Record,
    spans: impl Iterator<Item = &'a Span>,
    colours: &[u64],
    y: f64,
    at: impl Fn(u64) -> f64,
) {
    // What is too narrow to be seen alone is drawn with what follows of the same colour.
    let mut drawn = 0.0;
    for span in spans {
        let (from, to) = (at(span.from).max(drawn), at(span.to));
        if to - from < LEAST && to - drawn < LEAST {
            continue;
        }
        let (light, dark) = match colours.iter().position(|task| *task == span.task) {
            Some(i) => COLOURS[i],
            None => (OTHERS, FAINT),
        };
        let who = format!("{}, thread {}", record.name(span.task), span.thread);
        let width = (to - from).max(LEAST);
        match span.handler {
            None => svg.rect([from, y, width, BAR], light, &format!("{who}: {}", time(span.to - span.from))),
            Some(handler) => {
                let about = format!("{} for {who}: {}", Handler(handler), time(span.to - span.from));
                svg.rect([from, y + BAR - KERNEL, width, KERNEL], dark, &about);
            }
        }
        drawn = from + width;
    }
}

fn marks(svg: &mut Svg, record: &Record, processor: usize, y: f64, at: impl Fn(u64) -> f64) {
    for (of, colour, _) in MARKED {
        let mut drawn = f64::MIN;
        for (_, event) in record.events.iter().filter(|(on, event)| *on == processor && event.kind == of) {
            let x = at(event.time);
            if x - drawn >= MARK_STEP {
                mark(svg, of, x, y - 3.0, colour);
                drawn = x;
            }
        }
    }
}

/// A small shape that stands on a line.
fn mark(svg: &mut Svg, of: u64, x: f64, y: f64, colour: &str) {
    match of {
        kind::WAKE => svg.shape(&[(x - 3.5, y), (x + 3.5, y), (x, y - 7.0)], colour),
        kind::HAND_OVER => svg.shape(&[(x - 4.0, y - 4.0), (x, y - 8.0), (x + 4.0, y - 4.0), (x, y)], colour),
        kind::CALL => svg.shape(&[(x - 3.0, y - 7.0), (x + 4.0, y - 3.5), (x - 3.0, y)], colour),
        kind::PAGER => svg.rect([x - 3.0, y - 6.0, 6.0, 6.0], colour, ""),
        kind::SHOOTDOWN => svg.shape(&[(x - 3.5, y - 7.0), (x + 3.5, y - 7.0), (x, y)], colour),
        kind::TASK => svg.rect([x - 1.0, y - 12.0, 2.0, 12.0], colour, ""),
        _ => svg.rect([x - 0.7, y - 7.0, 1.4, 7.0], colour, ""),
    }
}

/// Lines at round moments, about ten.
fn scale(svg: &mut Svg, first: u64, last: u64, axis: f64, at: impl Fn(u64) -> f64) {
    let wanted = (last - first).max(1) / 10;
    let step = (0..19).flat_map(|power| [1, 2, 5].map(|n| n * 10_u64.pow(power))).find(|step| *step >= wanted.max(1));
    let step = step.unwrap_or(u64::MAX);
    for n in 0..=(last - first) / step {
        let x = at(first + n * step);
        svg.line([x, TOP, x, axis], LINES);
        svg.text((x, axis + 14.0), 11, FAINT, Anchor::Middle, &time(n * step));
    }
    svg.line([LEFT, axis, WIDTH - RIGHT, axis], FAINT);
}

fn legend(svg: &mut Svg, record: &Record, colours: &[u64], y: f64) {
    let mut x = LEFT;
    let mut entry = |svg: &mut Svg, row: f64, text: &str, draws: &dyn Fn(&mut Svg, f64, f64)| {
        draws(svg, x, y + row);
        svg.text((x + 18.0, y + row), 12, INK, Anchor::Start, text);
        x += 40.0 + 7.2 * text.chars().count() as f64;
    };
    for (i, task) in colours.iter().enumerate() {
        let draws = |svg: &mut Svg, x: f64, y: f64| {
            svg.rect([x, y - 10.0, 12.0, 12.0], COLOURS[i].0, "");
            svg.rect([x, y - 2.0, 12.0, 4.0], COLOURS[i].1, "");
        };
        entry(svg, -16.0, &format!("{} ({task})", record.name(*task)), &draws);
    }
    x = LEFT;
    let mut entry = |svg: &mut Svg, text: &str, draws: &dyn Fn(&mut Svg, f64, f64)| {
        draws(svg, x, y + 10.0);
        svg.text((x + 18.0, y + 10.0), 12, INK, Anchor::Start, text);
        x += 40.0 + 7.2 * text.chars().count() as f64;
    };
    entry(svg, "dark: in the kernel", &|svg, x, y| svg.rect([x, y - 10.0, 12.0, 12.0], INK, ""));
    entry(svg, "idle", &|svg, x, y| svg.rect([x, y - 10.0, 12.0, 12.0], IDLE, ""));
    for (of, colour, words) in MARKED {
        entry(svg, words, &|svg, x, y| mark(svg, of, x + 6.0, y, colour));
    }
}

/// Nanoseconds with a unit.
fn time(ns: u64) -> String {
    let (unit, of) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..1_000_000_000 => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let text = format!("{:.2}", ns as f64 / of as f64);
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

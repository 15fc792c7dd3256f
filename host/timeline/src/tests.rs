//! Records that are made up: what comes of them is parsed back and looked at.

use crate::spans::spans;
use crate::{Record, chrome, picture};
use abi::trace::{Event, kind};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const KINDS: u64 = kind::NAMES.len() as u64;

fn record() -> impl Strategy<Value = Record> {
    let event = (0..3usize, 0..500u64, 1..KINDS, 0..256u64, 0..6u64, any::<u64>());
    prop::collection::vec(event, 1..80).prop_map(|events| {
        let mut time = 0;
        let event = |(processor, step, kind, handler, thread, a)| {
            time += step;
            (processor, Event { time, kind, handler, thread, task: thread.div_ceil(2), text: 0, a, b: a & 1 })
        };
        let events = events.into_iter().map(event).collect();
        Record { events, tasks: BTreeMap::from([(1, "a <b> & \"c\"".into()), (2, "sh".into())]), lost: 3 }
    })
}

fn lines(record: &Record) -> String {
    let mut out = String::from("hello\nun");
    for (task, name) in &record.tasks {
        out.push_str(&format!("\u{1d}trace task {task} {name}\n"));
    }
    for (processor, e) in &record.events {
        let Event { time, kind, handler, thread, task, text, a, b } = e;
        let words = format!("{processor} {time} {kind} {handler} {thread} {task} {text} {a} {b}");
        out.push_str(&format!("\u{1d}trace event {words}\n"));
    }
    out.push_str(&format!("\u{1d}trace lost {}\n", record.lost));
    out.push_str("finished\n");
    out
}

#[test]
fn what_is_no_record_is_refused() {
    for bad in ["", "hello\n", "\u{1d}trace event 1 2 3\n", "\u{1d}trace lost x\n", "\u{1d}trace what\n"] {
        assert!(Record::read(bad).is_err(), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn lines_are_read_back(mut record in record()) {
        record.events.sort_by_key(|(processor, event)| (event.time, *processor));
        let (read, rest) = Record::read(&lines(&record)).unwrap();
        prop_assert_eq!(read, record);
        prop_assert_eq!(rest, "hello\nunfinished\n");
    }

    #[test]
    fn spans_do_not_overlap(record in record()) {
        let (first, last) = record.range();
        let all = spans(&record);
        for processor in 0..record.processors() {
            for kernel in [false, true] {
                let own: Vec<_> =
                    all.iter().filter(|s| s.processor == processor && s.handler.is_some() == kernel).collect();
                prop_assert!(own.iter().all(|s| first <= s.from && s.from <= s.to && s.to <= last));
                prop_assert!(own.windows(2).all(|two| two[0].to <= two[1].from), "{:?}", own);
            }
        }
    }

    #[test]
    fn the_json_has_the_form_of_a_chrome_trace(record in record()) {
        let parsed: Value = serde_json::from_str(&chrome(&record).to_string()).unwrap();
        let events = parsed["traceEvents"].as_array().unwrap();
        let mut before = 0.0;
        let mut named = BTreeSet::new();
        for event in events {
            let (phase, time) = (event["ph"].as_str().unwrap(), event["ts"].as_f64().unwrap());
            let who = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
            prop_assert!(!event["name"].as_str().unwrap().is_empty());
            prop_assert!(time >= before, "times go on: {}", event);
            before = time;
            match phase {
                "M" => {
                    prop_assert!(event["args"]["name"].is_string());
                    if event["name"] == "thread_name" {
                        named.insert(who);
                    }
                }
                "X" => prop_assert!(event["dur"].as_f64().unwrap() >= 0.0),
                "i" => prop_assert_eq!(&event["s"], "t"),
                other => prop_assert!(false, "phase {}", other),
            }
            prop_assert!(phase == "M" || named.contains(&who), "a track without a name: {}", event);
        }
        let moments = events.iter().filter(|event| event["ph"] == "i").count();
        let intervals = [kind::ENTER, kind::LEAVE, kind::SWITCH, kind::IDLE];
        prop_assert_eq!(moments, record.events.iter().filter(|(_, e)| !intervals.contains(&e.kind)).count());
    }

    #[test]
    fn the_picture_is_well_formed(record in record()) {
        let svg = picture(&record, "a & b <c>");
        prop_assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        prop_assert!(svg.contains("a &amp; b &lt;c&gt;"));
        prop_assert!(!["=\"NaN", "=\"inf", "=\"-"].iter().any(|bad| svg.contains(bad)));
        for (open, close) in [("<title>", "</title>"), ("<text ", "</text>"), ("<svg ", "</svg>")] {
            prop_assert_eq!(svg.matches(open).count(), svg.matches(close).count());
        }
        for processor in 0..record.processors() {
            let row = format!(">processor {processor}<");
            prop_assert!(svg.contains(&row));
        }
    }
}
